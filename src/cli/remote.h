/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files in sandboxes: "ID:PATH". */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct session;
struct sbx_error;

struct remote {
    char *id;
    char *path;    /* absolute */
    bool relative; /* as it was given: below /workspace, until remote_settle() */
};
void remote_done(struct remote *r);
#define _cleanup_remote_ __attribute__((cleanup(remote_done)))

/* False, with *ret untouched, for a local name: one without a colon, or with a slash before it. */
bool remote_parse(const char *text, struct remote *ret);

/* A sandbox without a root of its own has no /workspace: what was relative is below its workdir. */
int remote_settle(struct session *s, struct remote *r, struct sbx_error *err);
/* The same for a sandbox as the daemon shows it. The caller frees it. */
char *remote_path_in(const json_t *sandbox, const char *path);

enum remote_kind { REMOTE_ABSENT, REMOTE_DIRECTORY, REMOTE_OTHER };
/* A file that does not exist is an answer, a sandbox that does not exist is an error. */
int remote_stat(struct session *s, const struct remote *r, enum remote_kind *ret,
                struct sbx_error *err);
