/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of a call found: rules match on it, and the person who is asked is shown it. A
 * finding never decides anything by itself. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "policy/rules.h"

#define CHECK_FINDINGS_MAX 16
/* Stands for everything that may be in the part that no check looked at: rules that ask or deny
 * because of any finding of its check match it. */
#define FINDING_NOT_FULLY_CHECKED "not_fully_checked"

struct finding {
    const char *check; /* the name of the check, as in its table */
    const char *id;    /* what was found, as rules name it: "prompt_injection", ... */
    enum risk severity;
    char message[200];
};

struct findings {
    struct finding list[CHECK_FINDINGS_MAX];
    size_t n;
};

/* For a check: past CHECK_FINDINGS_MAX the last one says that there are more. */
void finding_add(struct findings *f, const char *check, const char *id, enum risk severity,
                 const char *message);
json_t *findings_to_json(const struct findings *f);
