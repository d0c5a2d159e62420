/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/rebuild.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/pod-spec.h"
#include "runtime/kube/pool.h"
#include "runtime/kube/proof.h"

#define READ_AGAIN_MS 500
#define READ_TRIES    20 /* of one pod, until it is left as it is */

struct found {
    struct list node;
    struct rebuild *rebuild;
    char id[KUBE_ID_SIZE];
    uint64_t last_exec_s;
    unsigned n_tries;
};

struct rebuild {
    struct cluster *cluster;
    struct list waiting; /* struct found; its head is being read */
    struct list stale;   /* the same, of members; its head is being deleted */
    struct map *left;    /* ids that stay as they are */
    struct loop_timer again;
    size_t n_known;
    bool reading;
    void (*on_done)(void *data);
    void *data;
};

static void read_next(void *data);

struct rebuild *rebuild_new(struct cluster *c)
{
    struct rebuild *r = new0(struct rebuild);
    r->cluster = c;
    r->left = map_new();
    list_init(&r->waiting);
    list_init(&r->stale);
    loop_timer_init(&r->again, cluster_options(c)->loop, read_next, r);
    return r;
}

static void found_free(struct found *f)
{
    list_remove(&f->node);
    free(f);
}

void rebuild_drop(struct rebuild *r)
{
    while (!list_empty(&r->waiting) && !r->reading)
        found_free(container_of(r->waiting.next, struct found, node));
}

static void on_timer_closed(void *data)
{
    free(data);
}

void rebuild_free(struct rebuild *r)
{
    size_t cursor = 0;
    if (!r)
        return;
    r->reading = false;
    rebuild_drop(r);
    while (!list_empty(&r->stale))
        found_free(container_of(r->stale.next, struct found, node));
    for (char *id; (id = map_next(r->left, &cursor));)
        free(id);
    map_free(r->left);
    loop_timer_close(&r->again, on_timer_closed, r);
}

void rebuild_add(struct rebuild *r, const struct kube_reply *listed)
{
    struct found *f = new0(struct found);
    f->rebuild = r;
    f->last_exec_s = listed->last_exec_s;
    snprintf(f->id, sizeof(f->id), "%s", listed->id);
    list_append(&r->waiting, &f->node);
}

bool rebuild_is_reading(const struct rebuild *r)
{
    return r->reading;
}

bool rebuild_leaves(const struct rebuild *r, const char *id)
{
    return map_find(r->left, id) != NULL;
}

bool rebuild_deletes(const struct rebuild *r, const char *id)
{
    list_for_each(f, &r->stale, struct found, node)
        if (strcmp(f->id, id) == 0)
            return true;
    return false;
}

bool rebuild_leaves_any(const struct rebuild *r)
{
    return map_count(r->left) != 0;
}

/* --- one after another */

void rebuild_leave(struct rebuild *r, const char *id, const char *why)
{
    log_error("a pod of this daemon is left as it is id=%s: %s", id, why);
    free(map_put(r->left, id, xstrdup(id)));
}

/* All of it was sent before the descriptor was. */
int rebuild_read_text(int fd, struct strbuf *text)
{
    char bytes[4096];
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        if (strbuf_append(text, bytes, (size_t)n) < 0)
            return -EMSGSIZE;
    }
}

/* --- members that are not what the pool is made of */

static void delete_stale(struct rebuild *r);

static void on_stale_deleted(void *data, const struct kube_reply *reply, int fd)
{
    struct found *f = data;
    struct rebuild *r = f->rebuild;
    fd_close(&fd);
    if (reply->error)
        log_warn("a pod that was made ahead is not deleted id=%s: %s", f->id, reply->message);
    found_free(f);
    if (!list_empty(&r->stale))
        delete_stale(r);
}

static void delete_stale(struct rebuild *r)
{
    struct found *f = container_of(r->stale.next, struct found, node);
    log_info("a pod that was made ahead is not what the pool is made of now id=%s", f->id);
    cluster_ask(r->cluster, KUBE_DELETE, f->id, on_stale_deleted, f);
}

static bool member_is_fresh(const struct rebuild *r, const struct strbuf *text)
{
    const struct cluster_options *o = cluster_options(r->cluster);
    char record[POOL_RECORD_SIZE];
    if (!o->pool_spec)
        return false;
    pool_record_format(o, o->pool_spec, record);
    return text->len == strlen(record) && memcmp(text->data, record, text->len) == 0;
}

/* Takes f where it is stale. */
static bool take_stale(struct rebuild *r, struct found *f, const struct strbuf *text)
{
    if (!text->len || !pool_is_record(text->data, text->len) || member_is_fresh(r, text))
        return false;
    bool first = list_empty(&r->stale);
    list_remove(&f->node);
    list_append(&r->stale, &f->node);
    if (first)
        delete_stale(r);
    return true;
}

/* Helpers of one call, and what tries the network: each went with its control plane. */
static bool is_helper(const struct found *f, const struct strbuf *text)
{
    if (!text->len)
        return proof_is_pod(f->id);
    return text->len == strlen(POD_HELPER_RECORD) &&
           memcmp(text->data, POD_HELPER_RECORD, text->len) == 0;
}

static void take_record(struct rebuild *r, const struct found *f, const char *owner,
                        const struct strbuf *text)
{
    const struct cluster_options *o = cluster_options(r->cluster);
    struct error err = {0};
    char name[KUBE_ID_SIZE + sizeof(POD_ID_PREFIX)];
    snprintf(name, sizeof(name), POD_ID_PREFIX "%s", f->id);
    struct cluster_found found = {.runtime_id = name,
                                  .record = text->data ? text->data : "",
                                  .len = text->len,
                                  .owner = owner,
                                  .last_exec_s = (int64_t)f->last_exec_s,
                                  .pooled = text->len && pool_is_record(text->data, text->len)};
    int known = 0;
    if (!text->len && !is_helper(f, text))
        known = error_set(&err, ERROR_INVALID, 0, "it does not say what it is");
    else if (o->on_found && !is_helper(f, text))
        known = o->on_found(o->found_data, &found, &err);
    if (known < 0) {
        rebuild_leave(r, f->id, err.message);
    } else if (known == 0) {
        log_info("a pod of a control plane that is gone is deleted id=%s", f->id);
        cluster_discard(r->cluster, f->id);
    } else {
        r->n_known++;
    }
}

/* Reading it again says the same. */
static bool is_final(enum error_code code)
{
    return code == ERROR_NOT_FOUND || code == ERROR_CONFLICT || code == ERROR_TOO_LARGE;
}

/* One that is gone, or is being deleted, is not found. One that cannot be read goes behind the
 * others, which must not wait for it. */
static void on_record(void *data, const struct kube_reply *reply, int fd)
{
    struct found *f = data;
    struct rebuild *r = f->rebuild;
    _cleanup_close_ int stream = fd;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KUBE_SPEC_SIZE);
    if (reply->error && !is_final(reply->error) && ++f->n_tries < READ_TRIES) {
        list_remove(&f->node);
        list_append(&r->waiting, &f->node);
        loop_timer_start(&r->again, READ_AGAIN_MS);
        return;
    }
    if (reply->error && reply->error != ERROR_NOT_FOUND)
        rebuild_leave(r, f->id, reply->message);
    else if (!reply->error && (stream < 0 || rebuild_read_text(stream, &text) < 0))
        rebuild_leave(r, f->id, "what it says of itself cannot be read");
    else if (!reply->error && take_stale(r, f, &text))
        f = NULL;
    else if (!reply->error)
        take_record(r, f, reply->message, &text);
    if (f)
        found_free(f);
    read_next(r);
}

static void read_next(void *data)
{
    struct rebuild *r = data;
    if (list_empty(&r->waiting)) {
        r->reading = false;
        if (r->n_known)
            log_info("sandboxes were found in the cluster, and are known again n=%zu", r->n_known);
        r->n_known = 0;
        r->on_done(r->data);
        return;
    }
    struct found *f = container_of(r->waiting.next, struct found, node);
    cluster_ask(r->cluster, KUBE_READ, f->id, on_record, f);
}

bool rebuild_start(struct rebuild *r, void (*on_done)(void *data), void *data)
{
    if (list_empty(&r->waiting))
        return false;
    r->on_done = on_done;
    r->data = data;
    r->reading = true;
    read_next(r);
    return true;
}
