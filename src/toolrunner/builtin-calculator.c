/* SPDX-License-Identifier: Apache-2.0 */
/* The calculator tool of the MAS API. */
#include "base/error.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/calculator.h"
#include "toolrunner/tool.h"

#include <stdio.h>

/* A number is put in as text that jansson reads back, so that whole ones stay integers. */
static json_t *number_to_json(double value)
{
    char text[CALCULATOR_NUMBER_SIZE];
    calculator_format(value, text);
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

json_t *tool_calculator(const json_t *args, json_t *allowed_paths, struct tool_failure *f)
{
    const char *expression = NULL;
    struct error err = {0};
    (void)allowed_paths;
    if (json_member_string(args, "expression", &expression, &err) <= 0)
        return tool_fail(f, "invalid_request", "%s",
                         error_is_set(&err) ? err.message : "expression is required");
    double value;
    char why[128];
    if (calculator_evaluate(expression, &value, why, sizeof(why)) < 0)
        return tool_fail(f, "tool_failed", "%s", why);
    return json_pack("{s:s, s:o}", "expression", expression, "result", number_to_json(value));
}
