/* SPDX-License-Identifier: Apache-2.0 */
/* Running a tool of the runner's as a builtin. */
#include "toolrunner/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"

static const struct {
    const char *name;
    tool_function *run;
    const char *capability;
} tools[] = {
    {"calculator", tool_calculator, NULL},
    {"file_system", tool_file_system, "file"},
};

tool_function *tool_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(tools); i++) {
        if (!strcmp(tools[i].name, name))
            return tools[i].run;
    }
    return NULL;
}

const char *tool_capability(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(tools); i++) {
        if (!strcmp(tools[i].name, name))
            return tools[i].capability;
    }
    return "unsafe";
}

json_t *tool_fail(struct tool_failure *f, const char *code, const char *fmt, ...)
{
    if (f->code)
        return NULL;
    f->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->message, sizeof(f->message), fmt, ap);
    va_end(ap);
    return NULL;
}

static json_t *tool_run_input(tool_function *tool, struct strbuf *input, struct tool_failure *f)
{
    struct error err = {0};
    if (builtin_read_input(input) < 0)
        return tool_fail(f, "invalid_request", "the request is too large");
    _cleanup_json_ json_t *request =
        json_parse_object(input->data ? input->data : "", input->len, &err);
    json_t *args = NULL, *allowed = NULL;
    if (!request || json_member_object(request, "args", &args, &err) < 0 ||
        json_member_array(request, "allowed_paths", &allowed, &err) < 0)
        return tool_fail(f, "invalid_request", "%s", err.message);
    if (!args)
        return tool_fail(f, "invalid_request", "args is required");
    return tool(args, allowed, f);
}

int tool_run(tool_function *tool)
{
    _cleanup_strbuf_ struct strbuf input = STRBUF_INIT(BUILTIN_INPUT_MAX);
    struct tool_failure f = {.code = NULL};
    _cleanup_json_ json_t *result = tool_run_input(tool, &input, &f);
    if (result)
        return builtin_print(result);
    int code = builtin_tool_failure(f.code ? f.code : "tool_failed", f.message, f.result);
    json_decref(f.result);
    return code;
}
