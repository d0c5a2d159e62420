/* SPDX-License-Identifier: Apache-2.0 */
/* All objects of one collection, and every change of them, for as long as the watch lives.
 *
 * It lists in pages, then watches from where the list was, and resumes from the last
 * resourceVersion that an event or a bookmark named. When that is too old (410, as the answer or
 * as an event) it lists again; what vanished meanwhile is reported as deleted. A stream without
 * a byte for heartbeat_ms is given up: bookmarks come about every minute. Failures are told and
 * tried again, with growing pauses, or after as long as the server asks for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/watch-stream.h"

struct kube_client;

struct kube_watch_options {
    const char *path;           /* "/api/v1/pods" */
    const char *label_selector; /* NULL: all */
    uint32_t list_ms;           /* deadline of a page */
    uint32_t heartbeat_ms;
    uint32_t session_s; /* a stream's own end, give or take a tenth */
    uint32_t page;      /* objects; 0: 500 */
};

struct kube_watch_events {
    /* KUBE_ADDED, KUBE_MODIFIED or KUBE_DELETED. object is NULL where a deletion was missed. */
    void (*on_change)(void *data, const struct kube_event *event);
    /* All objects of a list were reported. */
    void (*on_synced)(void *data);
    /* It goes on by itself. */
    void (*on_trouble)(void *data, const struct kube_result *result);
};

struct kube_watch;
struct kube_watch *kube_watch_new(struct kube_client *c, const struct kube_watch_options *options,
                                  const struct kube_watch_events *events, void *data);
/* Nothing is called back any more. Legal in its own callbacks. NULL is fine. */
void kube_watch_close(struct kube_watch *w);
