/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a watch: JSON objects {"type","object"}, one per line, in pieces of any size.
 *
 * A line may span pieces and a piece may hold several lines. A line that never ends, is no event,
 * or is longer than KUBE_EVENT_MAX is an error: the stream cannot be trusted after it. A last line
 * without its end is no event: it was cut. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "kube/status.h"

#define KUBE_EVENT_MAX (4u << 20) /* bytes of a line; etcd keeps objects below 1.5 MiB */

enum kube_event_type {
    KUBE_ADDED,
    KUBE_MODIFIED,
    KUBE_DELETED,
    KUBE_BOOKMARK, /* nothing but a resourceVersion: every change before it has been sent */
    KUBE_ERROR,    /* result says what; the stream is of no more use */
    _KUBE_EVENT_MAX,
};

struct kube_event {
    enum kube_event_type type;
    json_t *object;         /* borrowed; without managedFields */
    const char *version;    /* its resourceVersion; "" for KUBE_ERROR */
    const char *uid, *name; /* of its metadata; "" */
    const char *namespace_;
    struct kube_result result; /* of KUBE_ERROR */
};

struct kube_watch_stream {
    struct strbuf line;
    /* Returns 0, or negative to stop: kube_watch_stream_feed() returns it and touches nothing of
     * the stream any more. */
    int (*on_event)(void *data, const struct kube_event *event);
    void *data;
};

void kube_watch_stream_init(struct kube_watch_stream *s,
                            int (*on_event)(void *data, const struct kube_event *event),
                            void *data);
void kube_watch_stream_done(struct kube_watch_stream *s);
/* 0, -EBADMSG for what is no event, -EFBIG for a line that is too long, or what on_event returned.
 */
int kube_watch_stream_feed(struct kube_watch_stream *s, const char *data, size_t len);

/* The metadata of any object, as far as it is there. */
void kube_event_from_object(struct kube_event *ret, enum kube_event_type type, json_t *object);
