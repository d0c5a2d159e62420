#include "guard/check.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "guard/check-internal.h"
#include "guard/gate.h"

void finding_add(struct findings *f, const char *check, const char *id, enum risk severity,
                 const char *message)
{
    if (f->n == CHECK_FINDINGS_MAX) {
        struct finding *last = &f->list[f->n - 1];
        last->id = FINDING_NOT_FULLY_CHECKED; /* so that no rule misses what is left out */
        last->severity = RISK_HIGH > last->severity ? RISK_HIGH : last->severity;
        snprintf(last->message, sizeof(last->message), "and more");
        return;
    }
    struct finding *new = &f->list[f->n++];
    *new = (struct finding){.check = check, .id = id, .severity = severity};
    snprintf(new->message, sizeof(new->message), "%s", message);
}

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

json_t *findings_to_json(const struct findings *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->n; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:o}", "check", f->list[i].check, "id",
                                        f->list[i].id, "severity", risk_name(f->list[i].severity),
                                        "message", json_message(f->list[i].message)));
    return list;
}
