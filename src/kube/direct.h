/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to the link of a pod over the network: TLS 1.3 to the pod's address, by keys that each
 * side knows (net/pin.h, pod/tls.h).
 *
 * It is open when the link says so with its first byte, because a handshake that is done on this
 * side may still be refused on the other. A peer that falls silent without closing is noticed by
 * the kernel's own acknowledgements, which a healthy one sends even when it has nothing to say and
 * when it takes nothing: idle connections are probed, and without an acknowledgement for silence_ms
 * it is over. One whose window is full is asked less and less often, and is over when that has no
 * answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "net/pin.h"

struct error;

/* The broker's key, which pods that outlive it know: kept in a file. */
struct kube_identity {
    SSL_CTX *context;
    char pin_text[PIN_TEXT_SIZE];
};

/* Reads the key from a file that only its owner may read, and makes it where there is none. */
int kube_identity_load(struct kube_identity *ret, const char *path, struct error *err);
void kube_identity_done(struct kube_identity *i);

struct kube_direct_options {
    const char *address; /* of the pod, in digits */
    uint16_t port;
    uint8_t pin[PIN_SIZE]; /* of the link's key */
    uint32_t open_ms, silence_ms;
};

struct kube_direct_events {
    void (*on_open)(void *data);
    void (*on_output)(void *data, const void *bytes, size_t len);
    void (*on_writable)(void *data); /* after kube_direct_write() has returned -EAGAIN */
    /* Once, never from within kube_direct_start(). It is gone afterwards. */
    void (*on_end)(void *data, const char *why);
};

struct kube_direct;
struct kube_direct *kube_direct_start(uv_loop_t *loop, const struct kube_identity *identity,
                                      const struct kube_direct_options *options,
                                      const struct kube_direct_events *events, void *data);
/* Ends the connection; nothing is called back any more. NULL is fine. */
void kube_direct_cancel(struct kube_direct *d);
/* 0, -EAGAIN (nothing was taken; on_writable comes), or -ENOTCONN. */
int kube_direct_write(struct kube_direct *d, const void *bytes, size_t len);
/* Stops reading, so that the link's side fills up and waits. */
void kube_direct_pause(struct kube_direct *d, bool paused);
