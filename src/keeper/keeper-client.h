/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's side of the image keeper: calls and their answers (keeper-proto.h).
 *
 * The keeper is a process that is started by the first call. One that dies takes its calls along:
 * they end with ERROR_UNAVAILABLE, and the next call starts another. */
#pragma once

#include <jansson.h>
#include <uv.h>

struct error;
struct keeper_call;
struct keeper_client;

struct keeper_handlers {
    void (*on_progress)(void *data, json_t *progress); /* optional */
    void (*on_item)(void *data, json_t *item);         /* optional: one of a list */
    /* Once, never from inside keeper_call_start(); the call is gone. result is NULL with err. */
    void (*on_done)(void *data, json_t *result, const struct error *err);
};

/* Takes sock. generation tells the calls of one control plane from those of another. */
struct keeper_client *keeper_client_new(uv_loop_t *loop, int sock, uint64_t generation);
/* Open calls end with an error first. The memory goes when libuv has closed the handle. */
void keeper_client_close(struct keeper_client *c);
/* Of all images that must stay when others have to make room: an array of digests, new. */
void keeper_client_on_full(struct keeper_client *c, json_t *(*in_use)(void *data), void *data);

/* Takes request; fd (or -1) stays the caller's. NULL with err set when it cannot be sent. */
struct keeper_call *keeper_call_start(struct keeper_client *c, json_t *request, int fd,
                                      const struct keeper_handlers *handlers, void *data,
                                      struct error *err);
/* Another record of the same call; takes it. Negative when it cannot be sent. */
int keeper_call_tell(struct keeper_call *call, json_t *record);
/* The caller does not wait any more: no callback comes. */
void keeper_call_cancel(struct keeper_call *call);
/* A record that has no answer; takes it. What cannot be sent is lost. */
void keeper_client_tell(struct keeper_client *c, json_t *record);
