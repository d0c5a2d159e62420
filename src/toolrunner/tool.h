/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of the MAS API that the runner brings itself: args in, result out. */
#pragma once

#include "base/json.h"

struct tool_failure {
    const char *code; /* NULL if there is none */
    char message[512];
    json_t *result; /* what the tool says about it, or NULL; a reference */
};

/* A new reference to the result, or NULL with f set. allowed_paths is NULL where nothing is to be
 * checked. */
typedef json_t *tool_function(const json_t *args, json_t *allowed_paths, struct tool_failure *f);

tool_function tool_calculator;
tool_function tool_file_system;

/* Sets f once and returns NULL. */
json_t *tool_fail(struct tool_failure *f, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The function of a tool, or NULL. */
tool_function *tool_find(const char *name);
/* What a policy has to allow for it, or NULL. What has no function is a command. */
const char *tool_capability(const char *name);
/* A builtin's body: {"args","allowed_paths"} on stdin, the result or the failure on stdout. */
int tool_run(tool_function *tool);
