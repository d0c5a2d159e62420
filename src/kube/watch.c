/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/random.h"
#include "kube/client.h"
#include "kube/query.h"
#include "loop/loop.h"

#define PAGE_DEFAULT    500
#define PAUSE_FIRST_MS  250
#define PAUSE_MAX_MS    30000
#define SHORT_STREAM_MS 1000 /* one that ends sooner and said nothing is a failure */
#define KEY_MAX         600

struct known_object {
    char *key, *uid, *version;
    uint64_t listed; /* the number of the list that last had it */
};

struct kube_watch {
    struct kube_client *client;
    const struct kube_watch_events *events; /* NULL: closed */
    void *data;
    struct kube_watch_options o; /* its texts are ours */
    char *path, *label_selector;
    char *version;   /* to watch from; NULL: list first */
    char *page_next; /* the server's word for the next page */
    struct map *known;
    uint64_t n_lists;
    struct kube_watch_stream stream;
    struct kube_call *call;
    struct loop_timer timer;
    uint32_t pause_ms;
    int64_t started_ms;
    bool heard;               /* the stream has said something */
    struct kube_result error; /* of the event that ended the stream; KUBE_DONE: none did */
};

static void watch_go_on(void *data);

/* --- what is known */

static void known_free(struct known_object *k)
{
    free(k->key);
    free(k->uid);
    free(k->version);
    free(k);
}

static void tell_vanished(struct kube_watch *w, const struct known_object *k)
{
    const char *slash = strchr(k->key, '/');
    _cleanup_free_ char *namespace_ = xstrndup(k->key, (size_t)(slash - k->key));
    struct kube_event gone = {.type = KUBE_DELETED,
                              .version = k->version,
                              .uid = k->uid,
                              .name = slash + 1,
                              .namespace_ = namespace_};
    if (w->events)
        w->events->on_change(w->data, &gone);
}

static void watch_forget_object(struct kube_watch *w, const char *key)
{
    struct known_object *k = map_remove(w->known, key);
    if (k)
        known_free(k);
}

/* What a list or an event says of one object, as a change from what was known. */
static void take_object(struct kube_watch *w, struct kube_event *event, bool listed)
{
    char key[KEY_MAX];
    snprintf(key, sizeof(key), "%s/%s", event->namespace_, event->name);
    struct known_object *k = map_find(w->known, key);
    bool replaced = k && strcmp(k->uid, event->uid) != 0;
    if (replaced && event->type != KUBE_DELETED) /* its name was used again */
        tell_vanished(w, k);
    if (replaced || event->type == KUBE_DELETED) {
        watch_forget_object(w, key);
        k = NULL;
    }
    if (event->type != KUBE_DELETED) {
        bool same = k && strcmp(k->version, event->version) == 0;
        event->type = k ? KUBE_MODIFIED : KUBE_ADDED;
        if (!k) {
            k = new0(struct known_object);
            k->key = xstrdup(key);
            k->uid = xstrdup(event->uid);
            map_put(w->known, key, k);
        }
        k->listed = w->n_lists;
        free(k->version);
        k->version = xstrdup(event->version);
        if (same && listed)
            return;
    }
    if (w->events)
        w->events->on_change(w->data, event);
}

/* Those that the list that has just ended did not have. */
static void tell_all_vanished(struct kube_watch *w)
{
    size_t cursor = 0, n = 0;
    struct known_object *k,
        **gone = xcalloc(map_count(w->known) + 1, sizeof(struct known_object *));
    while ((k = map_next(w->known, &cursor)))
        if (k->listed != w->n_lists)
            gone[n++] = k;
    for (size_t i = 0; i < n; i++) {
        map_remove(w->known, gone[i]->key);
        tell_vanished(w, gone[i]);
        known_free(gone[i]);
    }
    free(gone);
}

/* --- pauses */

static void watch_wait(struct kube_watch *w, uint32_t at_least_ms)
{
    w->pause_ms = w->pause_ms ? 2 * w->pause_ms : PAUSE_FIRST_MS;
    if (w->pause_ms > PAUSE_MAX_MS)
        w->pause_ms = PAUSE_MAX_MS;
    uint32_t pause = w->pause_ms / 2 + random_below(w->pause_ms / 2 + 1);
    loop_timer_start(&w->timer, pause < at_least_ms ? at_least_ms : pause);
}

static void watch_fail(struct kube_watch *w, const struct kube_result *why)
{
    if (why->outcome == KUBE_EXPIRED) {
        free(steal_ptr(w->version));
        free(steal_ptr(w->page_next));
    }
    watch_wait(w, why->retry_after_s * 1000);
    if (why->outcome != KUBE_EXPIRED && w->events)
        w->events->on_trouble(w->data, why);
}

/* --- list */

static int take_page(struct kube_watch *w, json_t *list, struct kube_result *why)
{
    json_t *items = json_object_get(list, "items"), *item;
    const json_t *metadata = json_object_get(list, "metadata");
    const char *version = json_member_text(metadata, "resourceVersion");
    const char *next = json_member_text(metadata, "continue");
    size_t i;
    if (!*version || (items && !json_is_array(items) && !json_is_null(items))) {
        kube_result_fail(why, KUBE_STRANGE, "the answer for %s is not a list", w->path);
        return -EPROTO;
    }
    json_array_foreach(items, i, item)
    {
        struct kube_event event;
        kube_event_from_object(&event, KUBE_ADDED, item);
        if (w->events && *event.name && *event.uid)
            take_object(w, &event, true);
    }
    free(w->page_next);
    w->page_next = *next ? xstrdup(next) : NULL;
    if (!w->page_next) {
        free(w->version);
        w->version = xstrdup(version);
    }
    return 0;
}

static void on_page(void *data, const struct kube_answer *answer)
{
    struct kube_watch *w = data;
    struct kube_result why = answer->result;
    w->call = NULL;
    if (why.outcome != KUBE_DONE || take_page(w, answer->object, &why) < 0) {
        free(steal_ptr(w->page_next)); /* a list is of one moment: it starts over */
        watch_fail(w, &why);
        return;
    }
    w->pause_ms = 0;
    if (!w->page_next) {
        tell_all_vanished(w);
        if (w->events && w->events->on_synced)
            w->events->on_synced(w->data);
    }
    if (w->events)
        watch_go_on(w);
}

static const struct kube_call_events page_events = {.on_done = on_page};

static void start_list(struct kube_watch *w)
{
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(KUBE_TARGET_MAX);
    char limit[16];
    if (!w->page_next)
        w->n_lists++;
    snprintf(limit, sizeof(limit), "%u", w->o.page ? w->o.page : PAGE_DEFAULT);
    strbuf_puts(&target, w->path);
    kube_query_add(&target, "limit", limit);
    if (w->label_selector)
        kube_query_add(&target, "labelSelector", w->label_selector);
    if (w->page_next)
        kube_query_add(&target, "continue", w->page_next);
    struct kube_request request = {
        .method = "GET", .path = target.data, .deadline_ms = w->o.list_ms};
    w->call = kube_call_start(w->client, &request, &page_events, w);
}

/* --- watch */

static int on_stream_event(void *data, const struct kube_event *event)
{
    struct kube_watch *w = data;
    struct kube_event change = *event;
    w->heard = true;
    if (event->type == KUBE_ERROR) {
        w->error = event->result;
        return -ECANCELED; /* the stream is of no more use */
    }
    w->pause_ms = 0;
    free(w->version);
    w->version = xstrdup(event->version);
    if (event->type != KUBE_BOOKMARK)
        take_object(w, &change, false);
    return w->events ? 0 : -ECANCELED;
}

static int on_stream_bytes(void *data, const char *bytes, size_t len)
{
    struct kube_watch *w = data;
    return kube_watch_stream_feed(&w->stream, bytes, len);
}

static void on_stream_done(void *data, const struct kube_answer *answer)
{
    struct kube_watch *w = data;
    struct kube_result why = answer->result;
    w->call = NULL;
    kube_watch_stream_done(&w->stream);
    if (w->error.outcome != KUBE_DONE)
        why = w->error;
    bool brief = clock_mono_ms() - w->started_ms < SHORT_STREAM_MS && !w->heard;
    if (why.outcome == KUBE_DONE && brief)
        kube_result_fail(&why, KUBE_UNREACHABLE, "the watch of %s ended at once", w->path);
    if (why.outcome == KUBE_DONE || (why.outcome == KUBE_LATE && w->heard))
        watch_go_on(w); /* its time was over, or the server fell silent */
    else
        watch_fail(w, &why);
}

static const struct kube_call_events stream_events = {.on_bytes = on_stream_bytes,
                                                      .on_done = on_stream_done};

static void start_stream(struct kube_watch *w)
{
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(KUBE_TARGET_MAX);
    char seconds[16];
    snprintf(seconds, sizeof(seconds), "%u",
             w->o.session_s - w->o.session_s / 10 + random_below(w->o.session_s / 5 + 1));
    strbuf_puts(&target, w->path);
    kube_query_add(&target, "watch", "true");
    kube_query_add(&target, "allowWatchBookmarks", "true");
    kube_query_add(&target, "resourceVersion", w->version);
    kube_query_add(&target, "timeoutSeconds", seconds);
    if (w->label_selector)
        kube_query_add(&target, "labelSelector", w->label_selector);
    kube_watch_stream_init(&w->stream, on_stream_event, w);
    w->heard = false;
    w->error = (struct kube_result){.outcome = KUBE_DONE};
    w->started_ms = clock_mono_ms();
    struct kube_request request = {
        .method = "GET", .path = target.data, .silence_ms = w->o.heartbeat_ms};
    w->call = kube_call_start(w->client, &request, &stream_events, w);
}

static void watch_go_on(void *data)
{
    struct kube_watch *w = data;
    if (w->version && !w->page_next)
        start_stream(w);
    else
        start_list(w);
}

/* --- outside */

struct kube_watch *kube_watch_new(struct kube_client *c, const struct kube_watch_options *options,
                                  const struct kube_watch_events *events, void *data)
{
    struct kube_watch *w = new0(struct kube_watch);
    w->client = c;
    w->o = *options;
    w->path = xstrdup(options->path);
    w->label_selector = options->label_selector ? xstrdup(options->label_selector) : NULL;
    w->events = events;
    w->data = data;
    w->known = map_new();
    loop_timer_init(&w->timer, kube_client_loop(c), watch_go_on, w);
    start_list(w);
    return w;
}

static void on_watch_closed(void *data)
{
    struct kube_watch *w = data;
    size_t cursor = 0;
    for (struct known_object *k; (k = map_next(w->known, &cursor));)
        known_free(k);
    map_free(w->known);
    kube_watch_stream_done(&w->stream);
    free(w->path);
    free(w->label_selector);
    free(w->version);
    free(w->page_next);
    free(w);
}

void kube_watch_close(struct kube_watch *w)
{
    if (!w || !w->events)
        return;
    w->events = NULL;
    kube_call_cancel(steal_ptr(w->call));
    loop_timer_close(&w->timer, on_watch_closed, w);
}
