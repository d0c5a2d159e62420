/* SPDX-License-Identifier: Apache-2.0 */
/* A tool call of an agent that runs its tools itself, as the policy sees calls of our own. */
#pragma once

#include <jansson.h>

#include "guard/gate.h"

struct error;

#define HOOK_PATHS_MAX 4

struct hook_call {
    struct gate_call call;
    struct rules_path paths[HOOK_PATHS_MAX];
    char *owned[HOOK_PATHS_MAX + 2];
    char *argv[4];
    size_t n_owned;
};

/* From the JSON that Claude Code gives a PreToolUse hook; borrows from it. Negative: not such a
 * JSON. hook_call_done() frees. */
int hook_call_parse(const json_t *input, struct hook_call *ret, struct error *err);
void hook_call_done(struct hook_call *h);
