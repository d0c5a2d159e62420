/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies into specs. */
#pragma once

#include <jansson.h>

#include "api/api.h"
#include "tool/run.h"

struct error;
struct identity;

/* A native sandbox spec over the operator's defaults. ret is filled on success only. */
int spec_json_parse(const json_t *body, const struct services *o, struct spec *ret,
                    struct error *err);
/* "image": sets it, still to be found. */
int spec_json_image(const json_t *body, struct spec *s, struct error *err);
/* "limits": sets those that are there, and that their walls were asked for: where one of these
 * cannot be enforced, the sandbox is not made. */
int spec_json_limits(const json_t *body, struct spec *s, struct error *err);
/* An object of strings as KEY=VALUE; names are checked. NULL or null gives NULL. */
int spec_json_env(const json_t *body, const char *key, char ***ret, struct error *err);

/* "on_output_limit": "truncate" or "block". */
int spec_json_on_limit(const json_t *body, enum exec_on_limit *ret, struct error *err);

/* What runs, with the strings it points to. */
struct exec_json {
    struct exec_spec spec;
    struct tool_command command; /* of "language" and "code" */
    char **argv, **env;
    struct run_file *files;
    size_t n_files;
    size_t max_output_bytes;
    bool limits_output; /* max_output_bytes was asked for */
    bool stream;
};
/* {"command":[…]} or {"language","code"}, files, stdin, env, cwd, pty, timeout_ms, ... */
int exec_json_parse(const json_t *body, const struct services *o, struct exec_json *ret,
                    struct error *err);
void exec_json_done(struct exec_json *x);
#define _cleanup_exec_json_ __attribute__((cleanup(exec_json_done)))
/* What run_start() takes, but for a sandbox or a spec. Borrows from x and its body. */
struct run_request exec_json_request(const struct exec_json *x, const struct services *o,
                                     const struct identity *who);
