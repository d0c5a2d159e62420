/* SPDX-License-Identifier: Apache-2.0 */
/* What the gate's files share. */
#pragma once

#include "guard/gate.h"

struct gate {
    struct audit *audit;
    struct event_journal *events; /* or NULL */
    struct approvals *approvals;
    struct keys *keys;       /* or NULL */
    char *const *env;        /* the operator's */
    struct ruleset *ruleset; /* NULL means no policy */
    char *policy_name;       /* as the operator wrote it */
    int64_t loaded_ns;
    char policy_error[512];                  /* why the newest file is not the policy, or "" */
    char failed_revision[AUDIT_DIGEST_SIZE]; /* so that one bad file is reported once */
};
