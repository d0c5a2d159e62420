/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libsbx share. Nothing here is exported: libsbx.map lets only sbx_* out. */
#pragma once

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "libsbx/sbx.h"

struct sbx_client {
    CURL *curl; /* one handle, so that connections are kept alive */
    char *address;
    char *base_url; /* without a trailing slash */
    char *unix_path;
    char *auth_header;     /* "Authorization: Bearer T", or NULL */
    char *approval_header; /* "X-Mas-Approval...: ...", or NULL */
    char *ca_file;
    bool no_proxy; /* loopback and Unix sockets never go through a proxy */
    bool guessed;  /* the address is a default: who is there is checked before anything is sent */
    char distrust[160]; /* with guessed: why nothing was sent; "": it was */
    long timeout_ms;
};

/* Fills err unless it is NULL; returns -1. */
int libsbx_fail(struct sbx_error *err, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* 2xx, but for 202: then a person has to decide first. */
bool libsbx_is_ok(long status);
/* From an answer that is not ok, in any of the daemon's error shapes; returns -1. */
int libsbx_fail_http(struct sbx_error *err, int status, const char *body, size_t len);
/* From a failed transfer; detail may be "". Returns -1. */
int libsbx_fail_curl(struct sbx_error *err, const struct sbx_client *c, CURLcode code,
                     const char *detail);

/* Has h abort before it sends anything to a server of neither root nor this user. */
void libsbx_check_peer(struct sbx_client *c, CURL *h);
/* The same for a connection that is there already: 0, or -1 with c->distrust set. */
int libsbx_check_socket(struct sbx_client *c, int fd);
bool libsbx_default_socket_exists(const char *path);

/* Resets h and sets all that depends only on the client. */
void libsbx_setup(struct sbx_client *c, CURL *h, char *error_buffer);
char *libsbx_url(const struct sbx_client *c, const char *path);

/* An object from an answer's body; a new reference, or NULL with err set. */
json_t *libsbx_parse(const char *data, size_t len, struct sbx_error *err);
char *libsbx_dump(const json_t *value);
/* A copy of a string member, or NULL when it is absent or not a string. */
char *libsbx_dup_member(const json_t *obj, const char *key);
/* The bytes of member key: from key_base64 when present, else from the text. Never NULL. */
char *libsbx_bytes_member(const json_t *obj, const char *key, size_t *ret_len);
/* False when the member is absent or not an integer. */
bool libsbx_int_member(const json_t *obj, const char *key, int *ret);
void libsbx_exec_result_parse(const json_t *obj, struct sbx_exec_result *ret);
