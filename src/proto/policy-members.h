/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the MAS API's policy, for every program that reads one: the daemon, and the runner
 * in a guest. Its Go type has exactly these nine. Keys fit in any letter case, with and without
 * underscores. */
#pragma once

#include "base/members.h"

static const struct member policy_network_members[] = {
    {"Enabled", MEMBER_BOOL}, {"AllowedHosts", MEMBER_TEXTS}, {0}};
static const struct member policy_members[] = {
    {"AllowedTools", MEMBER_TEXTS},  {"AllowedCaps", MEMBER_TEXTS},
    {"Workdir", MEMBER_TEXT},        {"AllowedPaths", MEMBER_TEXTS},
    {"EnvWhitelist", MEMBER_TEXTS},  {"Network", MEMBER_ANY_CASE, policy_network_members, NULL},
    {"Timeout", MEMBER_DURATION},    {"MemoryLimit", MEMBER_WHOLE},
    {"MaxConcurrent", MEMBER_WHOLE}, {0},
};

/* The row of a request's policy. */
#define POLICY_MEMBER                                                                              \
    {                                                                                              \
        "policy", MEMBER_GUARD | MEMBER_ANY_CASE, policy_members, NULL                             \
    }

/* Every member of a policy is known and what it should be, or err names the one that is not. */
static inline int policy_members_check(const json_t *policy, struct error *err)
{
    static const struct members_check how = {.guarded = true, .any_case = true};
    return members_check(&how, policy, policy_members, "policy", err);
}
