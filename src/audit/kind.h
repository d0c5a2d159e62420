/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of records: the one list that writers, queries and the help of sbx have. A kind that is
 * not in it is neither written nor searched for. */
#pragma once

#include <stddef.h>

enum audit_kind_flags {
    AUDIT_KIND_OPENS = 1, /* a call, to be ended */
    AUDIT_KIND_ENDS = 2,
};

/* clang-format off */
#define AUDIT_KINDS(X)                                                                             \
    X("intent", AUDIT_KIND_OPENS)     /* allowed and about to run; rule and revision say why */    \
    X("carried", AUDIT_KIND_OPENS)    /* an intent without an end that retention has dropped */    \
    X("started", 0)                   /* the runner has confirmed it */                            \
    X("exited", AUDIT_KIND_ENDS)      /* its end, from wait() */                                   \
    X("done", AUDIT_KIND_ENDS)        /* the end of what is no exec, or never became one */        \
    X("interrupted", AUDIT_KIND_ENDS) /* whether it ran to its end is not known */                 \
    X("decision", 0)                  /* ask, or what is not followed by an intent */              \
    X("refusal", 0)                                                                                \
    X("approval", 0)                  /* a person's answer, or an expiry */                        \
    X("grant", 0)                     /* made, used or void */                                     \
    X("validation", 0)                                                                             \
    X("file", 0)                                                                                   \
    X("network", 0)                                                                                \
    X("skill", 0)                                                                                  \
    X("sandbox", 0)                   /* made, paused, resumed or removed */                       \
    X("steer", 0)                     /* input, a signal, a size or an end for a command */        \
    X("login_failure", 0)                                                                          \
    X("config_change", 0)                                                                          \
    X("policy_change", 0)                                                                          \
    X("key_change", 0)                                                                             \
    X("secret_change", 0)                                                                          \
    X("image", 0)                     /* fetched, imported or removed */                           \
    X("start", 0)                     /* of a control plane */                                     \
    X("stop", 0)                                                                                   \
    X("damage", 0)                    /* bytes found that are no record */                         \
    X("export", 0)                    /* the audit was exported */                                 \
    X("retention", 0)                 /* old records were dropped */
/* clang-format on */

/* The flags of a kind, or -1 when there is none of that name. */
int audit_kind_flags(const char *kind);
/* The name of the kind with that number, or NULL where there is none. */
const char *audit_kind_at(size_t i);
