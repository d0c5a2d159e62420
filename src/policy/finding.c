/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/finding.h"

#include <stdio.h>

#include "base/json.h"

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
