/* SPDX-License-Identifier: Apache-2.0 */
/* See control.h. One record is read per turn of the loop. Records out that do not fit into the
 * socket wait in a bounded queue; a control plane that lets it overflow is cut off, because the
 * warden must never wait for it. */
#include "warden/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/blank.h"
#include "warden/ceiling.h"
#include "warden/cell.h"
#include "warden/intercept.h"
#include "warden/egress.h"
#include "warden/state.h"

#define OUTGOING_MAX 4096 /* beside what is owed of every sandbox */

struct outgoing {
    struct list link;
    struct plan_reply reply;
    int fd;
};

static void on_control(int fd, uint32_t events, void *data);

bool control_is_attached(const struct warden *w)
{
    return w->control_fd >= 0;
}

static void outgoing_free(struct warden *w, struct outgoing *o)
{
    list_remove(&o->link);
    fd_close(&o->fd);
    free(o);
    w->n_outgoing--;
}

/* Sandboxes that run go on: the next control plane adopts them. Replies that were not read are
 * dropped with their descriptors, because their tags mean nothing to the next one. */
void control_detach(struct warden *w)
{
    watch_remove(w->control_watch);
    w->control_watch = NULL;
    fd_close(&w->control_fd);
    list_for_each_safe(o, &w->outgoing, struct outgoing, link)
        outgoing_free(w, o);
    w->control_blocked = false;
    cell_abandon_creates(w);
    intercept_end_unused(w);
}

static int watch_control(struct warden *w)
{
    watch_remove(w->control_watch);
    uint32_t events = EPOLLIN | (w->control_blocked ? (uint32_t)EPOLLOUT : 0);
    w->control_watch = watcher_add_fd(w->watcher, w->control_fd, events, on_control, w);
    return w->control_watch ? 0 : -errno;
}

int control_attach(struct warden *w, int sock)
{
    control_detach(w);
    w->control_fd = sock;
    int r;
    if ((r = fd_set_nonblock(sock, true)) < 0 || (r = watch_control(w)) < 0) {
        control_detach(w);
        return r;
    }
    /* Cells that ended while no control plane was attached: their ends were kept, and this one must
     * hear of them before it asks for a list. */
    cell_flush_exited(w);
    return 0;
}

static void set_blocked(struct warden *w, bool blocked)
{
    if (w->control_blocked == blocked)
        return;
    w->control_blocked = blocked;
    if (watch_control(w) < 0)
        control_detach(w);
}

/* 0 when the queue is empty or the socket full; a broken socket is detached. */
static void flush_replies(struct warden *w)
{
    while (!list_empty(&w->outgoing)) {
        struct outgoing *o = container_of(w->outgoing.next, struct outgoing, link);
        ssize_t n = fd_send_msg(w->control_fd, &o->reply, sizeof(o->reply), &o->fd, o->fd >= 0);
        if (n == -EAGAIN)
            return set_blocked(w, true);
        if (n < 0) {
            log_warn("control plane is gone error=%s", strerror((int)-n));
            return control_detach(w);
        }
        outgoing_free(w, o);
    }
    set_blocked(w, false);
}

/* A control plane that has just been started is owed an event of every sandbox, that it lives or
 * that it has ended, before it can have read the first. */
static unsigned outgoing_max(const struct warden *w)
{
    return OUTGOING_MAX + 2 * w->options.max_sandboxes;
}

void control_send(struct warden *w, struct plan_reply *reply, int fd)
{
    if (!control_is_attached(w)) {
        fd_close(&fd);
        return;
    }
    /* A control plane that stopped reading could make the warden's memory grow without end. It is
     * cut off instead: its supervisor starts another one, which adopts everything that runs. */
    if (w->n_outgoing >= outgoing_max(w)) {
        log_error("control plane does not read its replies");
        fd_close(&fd);
        return control_detach(w);
    }
    struct outgoing *o = new0(struct outgoing);
    reply->version = PLAN_VERSION;
    o->reply = *reply;
    o->fd = fd;
    list_append(&w->outgoing, &o->link);
    w->n_outgoing++;
    /* While the socket is full, the loop waits for EPOLLOUT. Trying again here would only cost a
     * system call per reply, and would not overtake the queue in any case. */
    if (!w->control_blocked)
        flush_replies(w);
}

static void reply_error(struct warden *w, struct plan_reply *reply, int error)
{
    reply->error = error < 0 ? -error : error;
    if (reply->error && !reply->message[0])
        snprintf(reply->message, sizeof(reply->message), "%s", strerror(reply->error));
    control_send(w, reply, -1);
}

/* Refusals are answered here. From cell_create() on the cell owes the answer, and gives it when its
 * runner runs or its process has ended. */
static void do_create(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    struct limits limits;
    struct child_trees trees;
    if (cell_exists(w, p->id)) {
        snprintf(reply->message, sizeof(reply->message), "a sandbox of this id exists");
        return reply_error(w, reply, -EEXIST);
    }
    if (map_count(w->by_id) >= w->options.max_sandboxes) {
        snprintf(reply->message, sizeof(reply->message), "all %u sandboxes are in use",
                 w->options.max_sandboxes);
        return reply_error(w, reply, -EAGAIN);
    }
    /* The ceiling comes before anything is opened: a control plane that was taken over must not
     * have the warden open a path that the operator did not allow, not even to see it fail. */
    int r = ceiling_check(w, p, &limits, reply);
    if (r < 0)
        return reply_error(w, reply, r);
    r = ceiling_open_trees(w, p, &trees, reply);
    if (r < 0)
        return reply_error(w, reply, r);
    r = cell_create(w, p, &limits, &trees, reply);
    if (r < 0)
        reply_error(w, reply, r);
}

/* One event per sandbox that runs, then the reply, which ends the list. Ends that no control plane
 * has heard of yet come before, so that nothing is both. */
static void do_list(struct warden *w, struct plan_reply *reply)
{
    size_t cursor = 0;
    cell_flush_exited(w);
    for (struct cell *s; (s = map_next(w->by_id, &cursor));) {
        struct plan_reply event = {.event = EVENT_ALIVE, .wall = -1};
        if (s->state != CELL_RUNNING || s->killed)
            continue;
        cell_describe(s, &event);
        control_send(w, &event, -1);
    }
    reply_error(w, reply, 0);
}

static void do_connect(struct warden *w, struct cell *s, struct plan_reply *reply)
{
    /* A runner that dials may have no connection at the moment. The tag is then kept by the cell,
     * and the answer follows when the runner dials again. */
    int fd = cell_connect(s, reply->tag);
    if (fd == -EINPROGRESS)
        return;
    if (fd < 0)
        return reply_error(w, reply, fd);
    cell_describe(s, reply);
    control_send(w, reply, fd);
}

static void do_stats(struct warden *w, struct cell *s, struct plan_reply *reply)
{
    cell_describe(s, reply);
    int r = cell_read_stats(s, reply);
    if (r != -EINPROGRESS)
        reply_error(w, reply, r);
}

static void do_freeze(struct warden *w, struct cell *s, bool on, struct plan_reply *reply)
{
    int r = cell_freeze(s, on, reply->tag);
    if (r != -EINPROGRESS)
        reply_error(w, reply, r);
}

static void do_network(struct warden *w, struct cell *s, const struct plan *p,
                       struct plan_reply *reply)
{
    int r = egress_replace(s, p, reply);
    if (r < 0)
        reply_error(w, reply, r);
}

static void do_save(struct warden *w, struct cell *s, const struct plan *p,
                    struct plan_reply *reply)
{
    int (*fn)(struct cell *, const struct plan *, struct plan_reply *) =
        p->op == PLAN_SAVE ? s->ops->save : s->ops->go_back;
    int r = fn ? fn(s, p, reply) : -EOPNOTSUPP;
    if (r != -EINPROGRESS)
        reply_error(w, reply, r);
}

static void do_load(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    int r = -EOPNOTSUPP;
    for (int kind = 0; kind < _CELL_KIND_MAX && r == -EOPNOTSUPP; kind++)
        r = cell_kinds[kind]->load ? cell_kinds[kind]->load(w, p, reply) : -EOPNOTSUPP;
    if (r != -EINPROGRESS)
        reply_error(w, reply, r);
}

static void do_drop(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    int r = 0;
    for (int kind = 0; kind < _CELL_KIND_MAX && r == 0; kind++)
        r = cell_kinds[kind]->drop ? cell_kinds[kind]->drop(w, p->snapshot) : 0;
    reply_error(w, reply, r);
}

static void do_probe(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    uint64_t tag = reply->tag;
    enum cell_kind kind = cell_kind_of(p);
    enum oci_backend backend = (enum oci_backend)p->backend;
    /* What a probe says must be what the next create gets. The first blanks may still find out
     * that this host cannot make a cell of some kind, so they are waited for. */
    blanks_settle(w);
    if (cell_kinds[kind]->probe_later && cell_kinds[kind]->probe_later(w, backend, tag))
        return;
    warden_probe(w, kind, backend, reply);
    reply->tag = tag;
    reply_error(w, reply, reply->error);
}

/* Not read here: whatever is in it, the warden parses nothing. */
static void do_policy(struct warden *w, struct plan_reply *reply)
{
    /* The operator may have put a FIFO or a terminal there by mistake: opening it must neither
     * block the warden nor give it a controlling terminal. */
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (w->policy_dir_fd < 0)
        return reply_error(w, reply, ENOENT);
    int fd = openat(w->policy_dir_fd, w->policy_name, flags);
    if (fd < 0)
        return reply_error(w, reply, errno);
    control_send(w, reply, fd);
}

static void do_sign(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    int r = signer_sign(&w->signer, &p->sign, &reply->checkpoint, reply->message,
                        sizeof(reply->message));
    memcpy(reply->audit_key, w->signer.public_key, sizeof(reply->audit_key));
    reply_error(w, reply, r);
}

static void do_upgrade(struct warden *w, struct plan_reply *reply)
{
    if (!w->on_upgrade)
        return reply_error(w, reply, EOPNOTSUPP);
    w->on_upgrade(w->upgrade_data, reply->tag);
}

void warden_on_upgrade(struct warden *w, void (*fn)(void *data, uint64_t tag), void *data)
{
    w->on_upgrade = fn;
    w->upgrade_data = data;
}

void warden_reply_upgrade(struct warden *w, uint64_t tag, int error, const char *message)
{
    struct plan_reply reply = {.tag = tag, .wall = -1};
    snprintf(reply.message, sizeof(reply.message), "%s", message);
    reply_error(w, &reply, error);
}

/* fd: what came with the plan, or -1. */
static void plan_dispatch(struct warden *w, const struct plan *p, int fd, struct plan_reply *reply)
{
    if (p->op == PLAN_CREATE)
        return do_create(w, p, reply);
    if (p->op == PLAN_LIST)
        return do_list(w, reply);
    if (p->op == PLAN_PROBE)
        return do_probe(w, p, reply);
    if (p->op == PLAN_POLICY)
        return do_policy(w, reply);
    if (p->op == PLAN_SIGN)
        return do_sign(w, p, reply);
    if (p->op == PLAN_UPGRADE)
        return do_upgrade(w, reply);
    if (p->op == PLAN_INTERCEPT)
        return intercept_start(w, p, fd, reply);
    if (p->op == PLAN_LOAD)
        return do_load(w, p, reply);
    if (p->op == PLAN_DROP)
        return do_drop(w, p, reply);
    /* An interceptor is started before its sandbox is, so that a sandbox that failed in between
     * has one and no cell. The answer stays ENOENT: there is nothing else to kill. */
    if (p->op == PLAN_KILL && !cell_find(w, p->id))
        intercept_end(w, p->id);
    struct cell *s = cell_find(w, p->id);
    if (!s)
        return reply_error(w, reply, ENOENT);
    switch (p->op) {
    case PLAN_KILL:
        return reply_error(w, reply, cell_kill(s));
    case PLAN_CONNECT:
        return do_connect(w, s, reply);
    case PLAN_STATS:
        return do_stats(w, s, reply);
    case PLAN_NETWORK:
        return do_network(w, s, p, reply);
    case PLAN_SAVE:
    case PLAN_RETURN:
        return do_save(w, s, p, reply);
    case PLAN_FREEZE:
    case PLAN_THAW:
        return do_freeze(w, s, p->op == PLAN_FREEZE, reply);
    default:
        return reply_error(w, reply, EINVAL);
    }
}

/* A record has one size and one version. Everything in it is checked before anything is done with
 * it; the tag and the id are all that a refusal repeats. */
static void on_plan(struct warden *w, const struct plan *p, ssize_t size, int fd)
{
    struct plan_reply reply = {.wall = -1};
    if (size != (ssize_t)sizeof(*p)) {
        snprintf(reply.message, sizeof(reply.message),
                 "a record of %zd bytes or more is not a plan of %zu", size, sizeof(*p));
        return reply_error(w, &reply, EINVAL);
    }
    reply.tag = p->tag;
    memcpy(reply.id, p->id, sizeof(reply.id) - 1);
    int r = plan_check(p, reply.message, sizeof(reply.message));
    if (r < 0)
        return reply_error(w, &reply, r);
    plan_dispatch(w, p, fd, &reply);
}

static void on_control(int fd, uint32_t events, void *data)
{
    struct warden *w = data;
    struct plan plan;
    int fds[FD_PASS_MAX];
    if (events & EPOLLOUT) {
        flush_replies(w);
        if (!control_is_attached(w))
            return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    /* One record per turn: a control plane that sends without pause must not keep the warden from
     * its children and timers. */
    ssize_t n = fd_recv_msg(fd, &plan, sizeof(plan), fds);
    for (size_t i = 1; i < FD_PASS_MAX; i++) /* PLAN_INTERCEPT has one, no other plan has any */
        fd_close(&fds[i]);
    if (n == -EMSGSIZE)
        on_plan(w, &plan, sizeof(plan) + 1, -1);
    else if (n > 0)
        on_plan(w, &plan, n, fds[0]);
    else if (n != -EAGAIN)
        control_detach(w);
    fd_close(&fds[0]);
}
