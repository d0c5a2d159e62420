/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a daemon that is not running, changed in its state directory. The answers have the shape
 * of the daemon's own. */
#pragma once

#include <jansson.h>

struct key_request;
struct sbx_error;

enum keys_verb { KEYS_ADD, KEYS_LIST, KEYS_REVOKE, KEYS_ROTATE };

/* subject: the id, where there is one; request: of KEYS_ADD. *ret is a new reference. */
int keys_offline(const char *state_dir, enum keys_verb verb, const char *subject,
                 const struct key_request *request, json_t **ret, struct sbx_error *err);
