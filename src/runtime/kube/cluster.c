/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/weak.h"
#include "loop/loop.h"
#include "runtime/kube/proof.h"
#include "runtime/kube/rebuild.h"

#define LIST_AGAIN_MS  500
#define GIVE_BACK_MS   5000
#define PROBE_AGAIN_MS 10000
#define READS_PER_TURN 64

struct pending_order {
    struct list node;
    struct kube_order order;
    cluster_reply_fn cb;
    void *data;
    bool is_weak; /* data is a struct weak */
    bool unsent;  /* the broker of now does not have it */
};

struct holder {
    char id[KUBE_ID_SIZE];
    cluster_told_fn fn;
    void *data;
    uint64_t since;           /* lists with a lower tag may have begun before it was there */
    struct kube_reply listed; /* of the list that is under way */
};

struct cluster {
    struct cluster_options o;
    uv_poll_t poll;
    struct list pending;
    struct map *holders; /* struct holder by id */
    struct cluster_report report;
    struct proof *proof;
    struct loop_timer list_timer, probe_timer;
    uint32_t epoch; /* 0: not known */
    uint64_t next_tag;
    uint64_t list_tag; /* 0: no list is under way */
    unsigned n_open;
    struct rebuild *rebuild;
    bool rebuilt;    /* the first list is done, and what it found is known */
    bool list_again; /* the list that is under way came too early for some holders */
    bool listed;     /* all sandboxes were listed by this broker: an unknown one is a stranger */
    bool closed;
    bool held;           /* the home is this control plane's: orders go out */
    bool was_held;       /* at any time */
    char lease_why[256]; /* where it is not, and that is known; "" */
    struct loop_timer leave_timer;
    void (*on_left)(void *data);
    void *left_data;
    uint32_t cgroup;     /* 0: no pod has found one yet */
    struct map *waiting; /* reasons, by id */
};

static void on_cluster_ready(uv_poll_t *p, int status, int events);
static void cluster_list(void *data);
static void cluster_probe(void *data);

/* --- sending */

/* What goes out before an epoch is known is for any broker; only a probe may, which does nothing.
 * All others wait for the home. */
static bool is_due(const struct cluster *c, const struct pending_order *p)
{
    return p->unsent &&
           (p->order.op == KUBE_PROBE || (c->epoch && (c->held || p->order.op == KUBE_HOLD)));
}

static void cluster_poll(struct cluster *c)
{
    bool waits = false;
    list_for_each(p, &c->pending, struct pending_order, node)
        waits |= is_due(c, p);
    uv_poll_start(&c->poll, UV_READABLE | (waits && c->epoch ? UV_WRITABLE : 0), on_cluster_ready);
}

static void cluster_flush(struct cluster *c)
{
    list_for_each(p, &c->pending, struct pending_order, node) {
        if (!is_due(c, p))
            continue;
        p->order.epoch = c->epoch;
        if (fd_send_msg(c->o.sock, &p->order, sizeof(p->order), NULL, 0) < 0)
            break; /* no room: the socket is writable later, and a dead one is the warden's to end
                    */
        p->unsent = false;
    }
    cluster_poll(c);
}

static void order_add(struct cluster *c, const struct kube_order *order, cluster_reply_fn cb,
                      void *data, bool is_weak)
{
    struct pending_order *p = new0(struct pending_order);
    p->order = *order;
    p->order.version = KUBE_VERSION;
    p->order.tag = c->next_tag++;
    p->cb = cb;
    p->data = data;
    p->is_weak = is_weak;
    p->unsent = true;
    list_append(&c->pending, &p->node);
    cluster_flush(c);
}

void cluster_send(struct cluster *c, const struct kube_order *order, cluster_reply_fn cb,
                  void *data)
{
    order_add(c, order, cb, data, false);
}

void cluster_send_weak(struct cluster *c, const struct kube_order *order, cluster_reply_fn cb,
                       struct weak *ref)
{
    order_add(c, order, cb, ref, true);
}

void cluster_ask(struct cluster *c, enum kube_op op, const char *id, cluster_reply_fn cb,
                 void *data)
{
    struct kube_order order = {.op = op};
    snprintf(order.id, sizeof(order.id), "%s", id);
    cluster_send(c, &order, cb, data);
}

/* --- what the cluster tells */

void cluster_hold(struct cluster *c, const char *id, cluster_told_fn fn, void *data)
{
    struct holder *h = new0(struct holder);
    h->fn = fn;
    h->data = data;
    h->since = c->next_tag;
    snprintf(h->id, sizeof(h->id), "%s", id);
    free(map_put(c->holders, id, h));
}

void cluster_let_go(struct cluster *c, const char *id, const void *data)
{
    struct holder *h = map_find(c->holders, id);
    if (h && h->data == data)
        free(map_remove(c->holders, id));
}

void cluster_leave_pod(struct cluster *c, const char *id, const char *why)
{
    rebuild_leave(c->rebuild, id, why);
}

static void on_discarded(void *data, const struct kube_reply *reply, int fd)
{
    (void)data;
    fd_close(&fd);
    if (reply->error)
        log_warn("a pod that no sandbox has is not deleted id=%s: %s", reply->id, reply->message);
}

void cluster_discard(struct cluster *c, const char *id)
{
    list_for_each(p, &c->pending, struct pending_order, node) {
        if (p->order.op == KUBE_DELETE && strcmp(p->order.id, id) == 0)
            return;
    }
    cluster_ask(c, KUBE_DELETE, id, on_discarded, NULL);
}

/* Of another home, it is another control plane's; without one, it is not known whose it is. What is
 * deleted one after another waits for its turn. */
static bool is_stranger(const struct cluster *c, const struct kube_reply *r)
{
    bool ours = strcmp(r->home, c->o.home) == 0;
    return ours && r->phase != KUBE_POD_ENDING && !rebuild_leaves(c->rebuild, r->id) &&
           !rebuild_deletes(c->rebuild, r->id);
}

static void discard_stranger(struct cluster *c, const struct kube_reply *r)
{
    log_info("a pod of a control plane that is gone is deleted id=%s", r->id);
    cluster_discard(c, r->id);
}

static void on_told(struct cluster *c, const struct kube_reply *r)
{
    struct holder *h = map_find(c->holders, r->id);
    if (h)
        h->fn(h->data, r);
    else if (c->listed && r->phase != KUBE_POD_NONE && is_stranger(c, r))
        discard_stranger(c, r);
}

static void on_listed_one(struct cluster *c, const struct kube_reply *r)
{
    struct holder *h = map_find(c->holders, r->id);
    if (r->tag != c->list_tag)
        return;
    if (h)
        h->listed = *r;
    else if (!is_stranger(c, r) || rebuild_is_reading(c->rebuild))
        return; /* what is being read was in the list before */
    else if (!c->rebuilt && r->phase != KUBE_POD_NONE)
        rebuild_add(c->rebuild, r);
    else
        discard_stranger(c, r);
}

/* Holders may come and go while they are called. */
static void tell_each(struct cluster *c, const struct kube_reply *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct holder *h = map_find(c->holders, all[i].id);
        if (h)
            h->fn(h->data, &all[i]);
    }
}

/* That a list does not have what was made after it began says nothing. */
static void tell_listed(struct cluster *c, uint64_t tag)
{
    size_t n = map_count(c->holders), cursor = 0, i = 0;
    _cleanup_free_ struct kube_reply *all = xcalloc(n + 1, sizeof(*all));
    for (struct holder *h; i < n && (h = map_next(c->holders, &cursor));) {
        if (h->since > tag)
            continue;
        all[i] = h->listed;
        all[i].kind = KUBE_LISTED;
        memcpy(all[i].id, h->id, sizeof(all[i].id));
        h->listed = (struct kube_reply){0};
        i++;
    }
    tell_each(c, all, i);
}

static void tell_home_lost(struct cluster *c, const struct kube_reply *held)
{
    size_t n = map_count(c->holders), cursor = 0, i = 0;
    _cleanup_free_ struct kube_reply *all = xcalloc(n + 1, sizeof(*all));
    for (struct holder *h; i < n && (h = map_next(c->holders, &cursor)); i++) {
        all[i] = *held;
        memcpy(all[i].id, h->id, sizeof(all[i].id));
    }
    tell_each(c, all, i);
}

static void cluster_set_rebuilt(struct cluster *c)
{
    bool before = c->rebuilt;
    c->rebuilt = true;
    if (!before && c->o.on_rebuilt && !rebuild_leaves_any(c->rebuild))
        c->o.on_rebuilt(c->o.found_data);
}

/* What was found has holders now, which a list tells how their pods are. */
static void on_rebuilt(void *data)
{
    struct cluster *c = data;
    cluster_set_rebuilt(c);
    c->list_again = c->list_tag != 0;
    cluster_list(c);
}

/* Holders hear of their pods at once: what no holder knows may take long to be read. */
static void on_list_done(void *data, const struct kube_reply *reply, int fd)
{
    struct cluster *c = data;
    uint64_t tag = c->list_tag;
    fd_close(&fd);
    c->list_tag = 0;
    if (reply->error) {
        rebuild_drop(c->rebuild);
        loop_timer_start(&c->list_timer, LIST_AGAIN_MS);
        return;
    }
    tell_listed(c, tag);
    if (rebuild_is_reading(c->rebuild) || (!c->rebuilt && rebuild_start(c->rebuild, on_rebuilt, c)))
        return;
    cluster_set_rebuilt(c);
    c->listed = true;
    if (c->list_again)
        cluster_list(c);
    c->list_again = false;
}

static void cluster_list(void *data)
{
    struct cluster *c = data;
    if (c->list_tag)
        return;
    c->list_tag = c->next_tag;
    cluster_ask(c, KUBE_LIST, "", on_list_done, c);
}

void cluster_note_waiting(struct cluster *c, const char *id, const char *why)
{
    const char *before = map_find(c->waiting, id);
    if (why && before && strcmp(why, before) == 0)
        return;
    if (why)
        log_warn("a pod that is made ahead is waited for id=%s: %s", id, why);
    free(why ? map_put(c->waiting, id, xstrdup(why)) : map_remove(c->waiting, id));
}

size_t cluster_waiting(const struct cluster *c, const char **ret_why)
{
    size_t cursor = 0;
    *ret_why = map_next(c->waiting, &cursor);
    return map_count(c->waiting);
}

/* --- is it there */

static void on_probed(void *data, const struct kube_reply *reply, int fd)
{
    struct cluster *c = data;
    struct cluster_report *r = &c->report;
    bool before = r->known && r->available;
    fd_close(&fd);
    r->known = true;
    r->available = !reply->error;
    r->why[0] = r->version[0] = 0;
    if (reply->error)
        snprintf(r->why, sizeof(r->why), "%.255s", reply->message);
    else
        snprintf(r->version, sizeof(r->version), "%.63s", reply->message);
    if (before != r->available)
        log_info("the cluster is %s: %s", r->available ? "there" : "not available",
                 r->available ? r->version : r->why);
    if (reply->error)
        loop_timer_start(&c->probe_timer, PROBE_AGAIN_MS);
    else
        proof_begin(c->proof);
}

static void cluster_probe(void *data)
{
    struct cluster *c = data;
    c->report.offered = false;
    cluster_ask(c, KUBE_PROBE, "", on_probed, c);
}

const struct cluster_report *cluster_probed(const struct cluster *c)
{
    return &c->report;
}

bool cluster_is_rebuilt(const struct cluster *c)
{
    return c->rebuilt;
}

void cluster_note_cgroup(struct cluster *c, uint32_t version)
{
    if (version)
        c->cgroup = version;
}

void cluster_note_carrier(struct cluster *c, const char *carrier)
{
    snprintf(c->report.carrier, sizeof(c->report.carrier), "%s", carrier);
}

uint32_t cluster_cgroup(const struct cluster *c)
{
    return c->cgroup ? c->cgroup : 2;
}

const struct proof_report *cluster_proven(const struct cluster *c)
{
    return proof_report(c->proof);
}

/* --- whose the home is */

static void on_hold_answered(void *data, const struct kube_reply *reply, int fd)
{
    struct cluster *c = data;
    fd_close(&fd);
    if (!reply->error)
        return;
    /* Such is a broker that stands alone and is older than this daemon. */
    snprintf(c->lease_why, sizeof(c->lease_why), "its broker gives no Lease: %.200s",
             reply->message);
    log_warn("%s", c->lease_why);
}

static void cluster_hold_home(struct cluster *c)
{
    struct kube_order order = {.op = KUBE_HOLD};
    snprintf(order.home, sizeof(order.home), "%s", c->o.home);
    cluster_send(c, &order, on_hold_answered, c);
}

/* A deletion that goes by the id alone is about what was there before another control plane had the
 * home. */
static struct pending_order *find_outdated(struct cluster *c)
{
    list_for_each(p, &c->pending, struct pending_order, node) {
        if (p->unsent && p->order.op == KUBE_DELETE && !p->order.generation && !p->order.uid[0])
            return p;
    }
    return NULL;
}

static void drop_outdated(struct cluster *c)
{
    for (struct pending_order *p; (p = find_outdated(c));) {
        struct kube_reply r = {.kind = KUBE_ANSWERED, .error = ERROR_CONFLICT};
        memcpy(r.id, p->order.id, sizeof(r.id));
        snprintf(r.message, sizeof(r.message), "another control plane has had the home since");
        list_remove(&p->node);
        p->cb(p->data, &r, -1);
        free(p);
    }
}

/* What another control plane made of this home meanwhile is no stranger: it is read, as at the
 * beginning. */
static void on_held(struct cluster *c, const struct kube_reply *r)
{
    bool held = !r->error;
    if (held != c->held || strcmp(r->message, c->lease_why) != 0)
        log_info("the home is %s home=%s%s%s", held ? "this control plane's" : "not available",
                 c->o.home, held ? "" : ": ", r->message);
    bool other = strcmp(r->reason, KUBE_REASON_OTHER) == 0;
    if (other)
        c->rebuilt = false;
    snprintf(c->lease_why, sizeof(c->lease_why), "%.255s", r->message);
    c->listed &= held;
    bool begins = held && !c->held;
    c->held = held;
    if (other) {
        drop_outdated(c);
        tell_home_lost(c, r);
    }
    if (other && c->was_held && c->o.on_home_lost)
        c->o.on_home_lost(c->o.found_data);
    c->was_held |= held;
    if (begins)
        cluster_list(c);
}

bool cluster_is_held(const struct cluster *c)
{
    return c->held;
}

const char *cluster_why_not_held(const struct cluster *c)
{
    return c->lease_why;
}

static void cluster_left(void *data)
{
    struct cluster *c = data;
    loop_timer_stop(&c->leave_timer);
    void (*cb)(void *data) = c->on_left;
    c->on_left = NULL;
    if (cb)
        cb(c->left_data);
}

static void on_given_back(void *data, const struct kube_reply *reply, int fd)
{
    (void)reply;
    fd_close(&fd);
    cluster_left(data);
}

static void on_proof_ended(void *data)
{
    struct cluster *c = data;
    loop_timer_start(&c->leave_timer, GIVE_BACK_MS); /* a broker that is dead gives nothing back */
    cluster_send(c, &(struct kube_order){.op = KUBE_HOLD}, on_given_back, c);
}

void cluster_leave(struct cluster *c, void (*cb)(void *data), void *data)
{
    if (c && c->held && !cb) {
        proof_end(c->proof, NULL, NULL);
        return;
    }
    if (c && c->held) {
        c->on_left = cb;
        c->left_data = data;
        proof_end(c->proof, on_proof_ended, c);
        return;
    }
    if (cb)
        cb(data);
}

/* --- receiving */

static struct pending_order *find_pending(struct cluster *c, uint64_t tag)
{
    list_for_each(p, &c->pending, struct pending_order, node) {
        if (p->order.tag == tag)
            return p;
    }
    return NULL;
}

/* A list that was under way is forgotten with all that it said; the order itself goes out again. */
static void on_other_broker(struct cluster *c, uint32_t epoch)
{
    size_t cursor = 0;
    bool first = !c->epoch;
    c->epoch = epoch;
    c->listed = c->held = false;
    c->lease_why[0] = 0;
    for (struct holder *h; (h = map_next(c->holders, &cursor));)
        h->listed = (struct kube_reply){0};
    rebuild_drop(c->rebuild);
    list_for_each(p, &c->pending, struct pending_order, node)
        p->unsent = true;
    if (!first)
        log_info("another broker has begun; orders that are not answered go to it");
    cluster_hold_home(c);
    cluster_list(c);
    cluster_flush(c);
}

static void on_offered(struct cluster *c, const struct kube_reply *r)
{
    const struct pending_order *p = find_pending(c, r->tag);
    if (!p || p->order.op != KUBE_PROBE || r->phase >= _KUBE_OFFER_MAX)
        return;
    memcpy(c->report.offers[r->phase], r->message, KUBE_MESSAGE_SIZE);
    c->report.offered = true;
}

static void on_reply(struct cluster *c, struct kube_reply *r, int fd)
{
    r->id[sizeof(r->id) - 1] = r->message[sizeof(r->message) - 1] = 0;
    r->reason[sizeof(r->reason) - 1] = r->uid[sizeof(r->uid) - 1] = 0;
    r->home[sizeof(r->home) - 1] = 0;
    if (r->epoch != c->epoch)
        on_other_broker(c, r->epoch);
    if (r->kind == KUBE_TOLD)
        on_told(c, r);
    else if (r->kind == KUBE_LISTED)
        on_listed_one(c, r);
    else if (r->kind == KUBE_OFFERED)
        on_offered(c, r);
    else if (r->kind == KUBE_HELD)
        on_held(c, r);
    struct pending_order *p = r->kind == KUBE_ANSWERED ? find_pending(c, r->tag) : NULL;
    if (!p) {
        fd_close(&fd);
        return;
    }
    list_remove(&p->node);
    p->cb(p->data, r, fd);
    free(p);
}

static void on_cluster_ready(uv_poll_t *handle, int status, int events)
{
    struct cluster *c = handle->data;
    (void)events;
    for (int i = 0; i < READS_PER_TURN && !c->closed && status == 0; i++) {
        struct kube_reply reply;
        int fds[FD_PASS_MAX];
        ssize_t n = fd_recv_msg(c->o.sock, &reply, sizeof(reply), fds);
        if (n == -EAGAIN)
            break;
        for (size_t k = 1; n > 0 && k < FD_PASS_MAX; k++)
            fd_close(&fds[k]);
        if (n <= 0) {
            uv_poll_stop(&c->poll); /* the warden has gone, and this process goes, too */
            return;
        }
        if (n == sizeof(reply) && reply.version == KUBE_VERSION && reply.epoch)
            on_reply(c, &reply, fds[0]);
        else
            fd_close(&fds[0]);
    }
    if (!c->closed)
        cluster_flush(c);
}

/* --- the whole */

struct cluster *cluster_new(const struct cluster_options *options)
{
    struct cluster *c = new0(struct cluster);
    c->o = *options;
    c->holders = map_new();
    c->waiting = map_new();
    /* Answers to an earlier control plane may lie in the socket. */
    c->next_tag = options->generation << 32 | 1;
    list_init(&c->pending);
    fd_set_nonblock(c->o.sock, true);
    c->poll.data = c;
    if (uv_poll_init(options->loop, &c->poll, c->o.sock) < 0)
        abort(); /* it is a socket */
    loop_timer_init(&c->list_timer, options->loop, cluster_list, c);
    loop_timer_init(&c->probe_timer, options->loop, cluster_probe, c);
    loop_timer_init(&c->leave_timer, options->loop, cluster_left, c);
    c->n_open = 5;
    c->rebuild = rebuild_new(c);
    c->proof = proof_new(c);
    return c;
}

void cluster_start(struct cluster *c)
{
    cluster_probe(c);
}

static void on_part_closed(void *data)
{
    struct cluster *c = data;
    if (--c->n_open)
        return;
    fd_close(&c->o.sock);
    free(c);
}

static void on_poll_closed(uv_handle_t *h)
{
    on_part_closed(h->data);
}

void cluster_close(struct cluster *c)
{
    size_t cursor = 0;
    if (!c)
        return;
    c->closed = true;
    while (!list_empty(&c->pending)) {
        struct pending_order *p = container_of(c->pending.next, struct pending_order, node);
        list_remove(&p->node);
        if (p->is_weak)
            weak_unref(p->data);
        free(p);
    }
    for (struct holder *h; (h = map_next(c->holders, &cursor));)
        free(h);
    map_free(c->holders);
    cursor = 0;
    for (char *why; (why = map_next(c->waiting, &cursor));)
        free(why);
    map_free(c->waiting);
    rebuild_free(c->rebuild);
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    loop_timer_close(&c->list_timer, on_part_closed, c);
    loop_timer_close(&c->probe_timer, on_part_closed, c);
    loop_timer_close(&c->leave_timer, on_part_closed, c);
    proof_close(steal_ptr(c->proof), on_part_closed, c);
}

const struct cluster_options *cluster_options(const struct cluster *c)
{
    return &c->o;
}
