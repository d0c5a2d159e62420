/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies from flags. Each returns a new reference, or NULL with err set. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct args;
struct sbx_error;

json_t *spec_sbx_create(const struct args *a, struct sbx_error *err); /* POST /sandboxes */
json_t *spec_sandbox(const struct args *a, struct sbx_error *err);    /* POST /v1/sandboxes */
/* POST /v1/sandboxes/{id}/exec, started with its stdin open, to be attached to. */
json_t *spec_exec(const struct args *a, char *const argv[], bool terminal, struct sbx_error *err);
/* -cmd split at spaces, or what follows the flags; NULL with err set when both or neither are
 * there. The caller frees it with strv_free(). */
char **spec_command(const struct args *a, struct sbx_error *err);
