/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's own policy: what the MAS API's create says about every call in it, or for it. It is
 * part of the sandbox from before its first row on and comes back with it, so that a sandbox is
 * never found without what narrows it. tool/run.c enforces it. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "policy/policy.h"

struct error;

/* The alias of the sandbox in which the filesystem skill keeps a key's files. It never has a
 * policy, and versions that did not write down whether a sandbox had one made it, too. */
#define SANDBOX_SKILL_ALIAS "skill-filesystem"

struct sandbox_policy {
    struct policy policy;
    uint64_t timeout_ms; /* of a call; 0: none */
    int64_t running;     /* calls that count against policy.max_concurrent */
};

struct sandbox_policy *sandbox_policy_new(void);
void sandbox_policy_free(struct sandbox_policy *p);

/* Writes p (NULL: none) into a sandbox's row. */
void sandbox_policy_put(const struct sandbox_policy *p, json_t *row);
/* Reads it back, from rows of versions before, too. *ret is NULL where there was none. One that
 * cannot be read, or that should be there and is not, comes back as a policy that allows no tool.
 * alias may be NULL; id is for the log. */
int sandbox_policy_get(const json_t *row, const char *alias, const char *id,
                       struct sandbox_policy **ret, struct error *err);
