/* SPDX-License-Identifier: Apache-2.0 */
/* One command in a container by pods/exec, over a connection of its own.
 *
 * The server may fall silent at any moment without closing (a frozen kubelet, an API server that is
 * being stopped): opening has a deadline, and afterwards a ping goes out every ping_ms; without a
 * byte for silence_ms it is over. A connection that ends says nothing about the command, which
 * survives it: kube_exit says what is known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/channel.h"

struct kube_client;

struct kube_exec_options {
    const char *namespace_, *pod, *container;
    const char *const *command; /* ends with NULL */
    bool input;                 /* it reads from us */
    uint32_t open_ms, ping_ms, silence_ms;
};

struct kube_exec_events {
    void (*on_open)(void *data);
    void (*on_output)(void *data, unsigned channel, const void *bytes, size_t len);
    void (*on_writable)(void *data); /* after kube_exec_write() has returned -EAGAIN */
    /* Once. refusal is not KUBE_DONE where it was never open. The exec is gone afterwards. */
    void (*on_end)(void *data, const struct kube_result *refusal, const struct kube_exit *exit);
};

struct kube_exec;
struct kube_exec *kube_exec_start(struct kube_client *c, const struct kube_exec_options *options,
                                  const struct kube_exec_events *events, void *data);
/* Ends the connection; nothing is called back any more. NULL is fine. */
void kube_exec_cancel(struct kube_exec *e);
/* 0, -EAGAIN (nothing was taken; on_writable comes), or -ENOTCONN. */
int kube_exec_write(struct kube_exec *e, const void *bytes, size_t len);
/* Stops reading, so that the server's side fills up and waits. */
void kube_exec_pause(struct kube_exec *e, bool paused);
