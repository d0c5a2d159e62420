/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/check.h"

#include "base/alloc.h"
#include "guard/check-internal.h"
#include "guard/gate.h"

/* A terminal that shows an argument to a person could be made to show another one. */
static void check_arguments(const struct gate_call *call, struct findings *f)
{
    for (char *const *a = call->argv; a && *a; a++) {
        for (const char *p = *a; *p; p++) {
            bool control = (unsigned char)*p < 0x20 && *p != '\n' && *p != '\t';
            if (!control && *p != 0x7f)
                continue;
            finding_add(f, "arguments", "control_characters", RISK_MEDIUM,
                        "an argument has control characters");
            return;
        }
    }
}

const struct check checks[] = {
    {"validate", check_validate},
    {"arguments", check_arguments},
};
const size_t n_checks = ELEMENTS(checks);

void checks_run(const struct gate_call *call, struct findings *ret)
{
    ret->n = 0;
    for (size_t i = 0; i < n_checks; i++)
        checks[i].run(call, ret);
}
