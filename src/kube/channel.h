/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one exec: the HTTP upgrade, WebSocket frames and the numbered channels in them, as
 * the subprotocols v5.channel.k8s.io and v4.channel.k8s.io have it. Bytes go in and come out of
 * memory; kube/exec.h has the connection.
 *
 *   KUBE_CHANNEL_ASKED    the request is in the output, the answer's head has not come
 *   KUBE_CHANNEL_REFUSED  the answer was another than 101; its body is being read
 *   KUBE_CHANNEL_OPEN     channels flow
 *   KUBE_CHANNEL_ENDED    closed, refused or broken; nothing comes any more
 *
 * How the command ended is what channel 3 said and nothing else. Without it nothing is known,
 * however orderly the connection was closed: the command may run on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/status.h"

enum { KUBE_STDIN, KUBE_STDOUT, KUBE_STDERR, KUBE_STATUS, KUBE_RESIZE };

enum kube_channel_state {
    KUBE_CHANNEL_ASKED,
    KUBE_CHANNEL_REFUSED,
    KUBE_CHANNEL_OPEN,
    KUBE_CHANNEL_ENDED,
};

struct kube_channel_events {
    void (*on_open)(void *data);
    /* A piece of standard output or error, at most as long as what was fed. */
    void (*on_output)(void *data, unsigned channel, const void *bytes, size_t len);
};

struct kube_channel_request {
    const char *host;   /* with its port */
    const char *target; /* path and query */
    const char *token;  /* NULL: none */
};

#define KUBE_CHANNEL_OUTPUT_MAX (1u << 20) /* bytes that wait to be sent */

struct kube_channel;
/* The events must not free the channel. */
struct kube_channel *kube_channel_new(const struct kube_channel_request *request,
                                      const struct kube_channel_events *events, void *data);
void kube_channel_free(struct kube_channel *c); /* NULL is fine */

/* Bytes of the server. 0, or -EPROTO when they break the protocol: then it has ended. */
int kube_channel_feed(struct kube_channel *c, const void *bytes, size_t len);
/* The connection has ended. */
void kube_channel_end(struct kube_channel *c);
/* What is to be sent; the caller says how much of it was. */
const void *kube_channel_output(const struct kube_channel *c, size_t *ret_len);
void kube_channel_sent(struct kube_channel *c, size_t len);

/* Bytes for a channel, which the command reads from. -ENOTCONN before it is open and after its end,
 * -EAGAIN where KUBE_CHANNEL_OUTPUT_MAX would be passed: nothing was taken. */
int kube_channel_send(struct kube_channel *c, unsigned channel, const void *bytes, size_t len);
int kube_channel_ping(struct kube_channel *c);

enum kube_channel_state kube_channel_state(const struct kube_channel *c);
/* 5 or 4, once open. */
int kube_channel_version(const struct kube_channel *c);
/* Of a refused upgrade, or of a connection that broke before the answer. KUBE_DONE otherwise. */
const struct kube_result *kube_channel_refusal(const struct kube_channel *c);
const struct kube_exit *kube_channel_exit(const struct kube_channel *c);
