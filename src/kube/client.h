/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to one Kubernetes API server, on libuv's loop and libcurl's multi interface.
 *
 * HTTP/1.1 over TLS only, and only the authorities of the access count. Every call has its own
 * deadline, every answer a maximum. A token that comes from a file is read again every minute and
 * once after a 401, a program's credential asked for again; the call is then repeated once. Whether
 * any other lost request may be sent again is the caller's to know. libcurl does so by itself where
 * a kept connection proves to be closed before a byte of the answer came: a request must come to
 * the same when it arrives twice, by a name or by a condition. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "kube/status.h"

struct kube_access;
struct kube_plugin;

#define KUBE_ANSWER_MAX (16u << 20) /* bytes, where a request names no other maximum */

struct kube_client;
/* access is copied. plugin (may be NULL) is borrowed. */
struct kube_client *kube_client_new(uv_loop_t *loop, const struct kube_access *access,
                                    struct kube_plugin *plugin);
/* Cancels all calls. on_closed (may be NULL) comes from the loop once nothing of it is left. */
void kube_client_close(struct kube_client *c, void (*on_closed)(void *data), void *data);
uv_loop_t *kube_client_loop(const struct kube_client *c);
/* "host:port" of the server, and the path below which its API is ("" mostly). */
const char *kube_client_host(const struct kube_client *c);
const char *kube_client_base_path(const struct kube_client *c);
/* Fetches the credential again, after a 401. False where there is no other. */
bool kube_client_renew(struct kube_client *c);
/* The token of now, or NULL. */
const char *kube_client_token(const struct kube_client *c);

struct kube_request {
    const char *method; /* NULL: no request, only a connection (below) */
    const char *path;   /* "/api/v1/...", with the query */
    const char *content_type, *body;
    size_t body_len;
    uint32_t deadline_ms; /* of the whole; 0 only with silence_ms */
    uint32_t silence_ms;  /* without a byte for as long it is over; 0: no such limit */
    size_t answer_max;    /* 0: KUBE_ANSWER_MAX */
    bool raw;             /* the answer need not be JSON */
};

struct kube_answer {
    struct kube_result result;
    json_t *object;   /* of KUBE_DONE, borrowed; NULL with raw or on_bytes */
    const char *text; /* the body, as far as it was kept; may be NULL */
    size_t len;
};

struct kube_call_events {
    /* Bytes of a body with status 200, instead of keeping them. Negative ends the call. */
    int (*on_bytes)(void *data, const char *bytes, size_t len);
    /* Once, never from within kube_call_start(). The call is gone afterwards, but for a connection.
     */
    void (*on_done)(void *data, const struct kube_answer *answer);
};

struct kube_call;
/* All that it is given is copied. */
struct kube_call *kube_call_start(struct kube_client *c, const struct kube_request *request,
                                  const struct kube_call_events *events, void *data);
/* A request with an object for a body, or NULL for none; that of a PATCH is a merge patch. */
struct kube_call *kube_call_json(struct kube_client *c, const char *method, const char *path,
                                 const json_t *body, uint32_t deadline_ms,
                                 void (*on_done)(void *data, const struct kube_answer *answer),
                                 void *data);
/* Nothing is called back any more. NULL is fine. Legal in its own callbacks. */
void kube_call_cancel(struct kube_call *call);

/* A connection without a request: after on_done with KUBE_DONE it is the caller's until
 * kube_call_cancel(). Both return bytes, -EAGAIN, or another -errno; receiving 0 at the end. */
int kube_call_fd(const struct kube_call *call);
ssize_t kube_call_send(struct kube_call *call, const void *bytes, size_t len);
ssize_t kube_call_receive(struct kube_call *call, void *bytes, size_t len);
