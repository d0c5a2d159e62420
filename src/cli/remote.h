/* Names of files in sandboxes: "ID:PATH". */
#pragma once

#include <stdbool.h>

struct session;
struct sbx_error;

struct remote {
    char *id;
    char *path; /* absolute */
};
void remote_done(struct remote *r);
#define _cleanup_remote_ __attribute__((cleanup(remote_done)))

/* False, with *ret untouched, for a local name: one without a colon, or with a slash before it. */
bool remote_parse(const char *text, struct remote *ret);

enum remote_kind { REMOTE_ABSENT, REMOTE_DIRECTORY, REMOTE_OTHER };
/* A file that does not exist is an answer, a sandbox that does not exist is an error. */
int remote_stat(struct session *s, const struct remote *r, enum remote_kind *ret,
                struct sbx_error *err);
