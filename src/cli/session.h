/* SPDX-License-Identifier: Apache-2.0 */
/* A command's connection: to the daemon that was named, to the one at the default address, or, for
 * commands that may, to a private daemon that lives as long as the session. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct args;
struct private_daemon;
struct sbx_client;
struct sbx_error;

struct session {
    struct sbx_client *client;
    struct private_daemon *daemon; /* or NULL */
    bool wait;                     /* session_call() waits where a person has to approve */
};

/* may_start: a private daemon is fine if none was named and none answers. */
int session_open(const struct args *a, bool may_start, struct session *ret, struct sbx_error *err);
void session_close(struct session *s);
#define _cleanup_session_ __attribute__((cleanup(session_close)))

/* One JSON request: takes body (NULL for none); ret may be NULL, else *ret is a new reference to
 * the answer. */
int session_call(struct session *s, const char *method, const char *path, json_t *body,
                 json_t **ret, struct sbx_error *err);
