/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/warden-client.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "runtime/warden-instance.h"

#define ASK_TIMEOUT_MS 10000
#define PROBED_MAX     32

struct probed {
    uint64_t key;
    struct plan_reply reply;
};

/* All that makes a plan one of a kind. */
static uint64_t probed_key(uint32_t flags, uint32_t backend)
{
    return (uint64_t)flags << 32 | backend;
}

struct pending {
    struct list node; /* in order of sending: the warden answers nearly in order */
    uint64_t tag;
    warden_reply_fn cb;
    void *data;
    struct plan *unsent; /* the socket was full */
    int unsent_fd;       /* what goes with it, or -1 */
};

struct watch {
    warden_exit_fn fn;
    void *data;
};

struct warden_client {
    uv_poll_t poll;
    int sock;
    uint64_t next_tag;
    struct list pending;
    size_t n_unsent;
    struct map *watches; /* by sandbox id */
    struct probed probed[PROBED_MAX];
    size_t n_probed;
    bool dead;
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void update_poll(struct warden_client *c)
{
    uv_poll_start(&c->poll, UV_READABLE | (c->n_unsent ? UV_WRITABLE : 0), on_poll);
}

static void request_finish(struct pending *p, const struct plan_reply *reply, int fd)
{
    /* Out of the list first: the callback may send the next plan, or close this client. */
    list_remove(&p->node);
    p->cb(p->data, reply, fd);
    free(p->unsent);
    fd_close(&p->unsent_fd);
    free(p);
}

static void fail_all(struct warden_client *c)
{
    c->dead = true;
    uv_poll_stop(&c->poll);
    while (!list_empty(&c->pending))
        request_finish(container_of(c->pending.next, struct pending, node), NULL, -1);
}

static struct probed *find_probed(const struct warden_client *c, uint64_t key)
{
    for (size_t i = 0; i < c->n_probed; i++)
        if (c->probed[i].key == key)
            return (struct probed *)&c->probed[i];
    return NULL;
}

static void dispatch_event(struct warden_client *c, const struct plan_reply *reply)
{
    struct probed *p = find_probed(c, probed_key(0, reply->backend));
    if (p && reply->event == EVENT_PROBED)
        p->reply = *reply;
    if (reply->event != EVENT_EXITED)
        return;
    struct watch *w = map_remove(c->watches, reply->id);
    if (!w)
        return;
    w->fn(w->data, reply);
    free(w);
}

static void dispatch_reply(struct warden_client *c, const struct plan_reply *reply, int fd)
{
    list_for_each(p, &c->pending, struct pending, node) {
        if (p->tag != reply->tag)
            continue;
        request_finish(p, reply, fd);
        return;
    }
    log_warn("warden answered an unknown request tag=%llu", (unsigned long long)reply->tag);
    fd_close(&fd);
}

/* One record. Returns false when there was none. */
static bool receive_reply(struct warden_client *c)
{
    struct plan_reply reply;
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(c->sock, &reply, sizeof(reply), fds);
    if (n == -EAGAIN)
        return false;
    if (n != sizeof(reply) || reply.version != PLAN_VERSION) {
        log_error("the warden's socket broke: %s",
                  n < 0 ? strerror((int)-n) : "it was closed, or a record of it is malformed");
        fail_all(c);
        return false;
    }
    /* The warden is trusted more than we are, but a text that does not end would be our own fault
     * to read on. */
    reply.id[sizeof(reply.id) - 1] = 0;
    reply.message[sizeof(reply.message) - 1] = 0;
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (reply.event != EVENT_NONE) {
        fd_close(&fds[0]);
        dispatch_event(c, &reply);
    } else {
        dispatch_reply(c, &reply, fds[0]);
    }
    return !c->dead;
}

static int send_plan(struct warden_client *c, const struct plan *plan, int fd)
{
    ssize_t n = fd_send_msg(c->sock, plan, sizeof(*plan), &fd, fd >= 0);
    return n < 0 ? (int)n : 0;
}

static void flush_unsent(struct warden_client *c)
{
    list_for_each(p, &c->pending, struct pending, node) {
        if (!p->unsent)
            continue;
        /* The list is in the order of sending, and the first that does not fit ends the round: the
         * warden gets plans in the order in which they were made. A create and the kill after it
         * must not change places. */
        if (send_plan(c, p->unsent, p->unsent_fd) == -EAGAIN)
            return;
        free(steal_ptr(p->unsent));
        fd_close(&p->unsent_fd);
        c->n_unsent--;
    }
    update_poll(c);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct warden_client *c = poll->data;
    if (status < 0) {
        fail_all(c);
        return;
    }
    if (events & UV_WRITABLE)
        flush_unsent(c);
    if (events & UV_READABLE)
        while (receive_reply(c))
            ;
}

struct warden_client *warden_client_new(uv_loop_t *loop, int sock)
{
    struct warden_client *c = new0(struct warden_client);
    c->sock = sock;
    c->next_tag = (uint64_t)clock_mono_ns(); /* matches no reply owed to an earlier control plane */
    list_init(&c->pending);
    c->watches = map_new();
    fd_set_nonblock(sock, true);
    uv_poll_init(loop, &c->poll, sock);
    c->poll.data = c;
    update_poll(c);
    return c;
}

static void on_closed(uv_handle_t *h)
{
    struct warden_client *c = h->data;
    size_t cursor = 0;
    struct watch *w;
    while ((w = map_next(c->watches, &cursor)))
        free(w);
    map_free(c->watches);
    fd_close(&c->sock);
    free(c);
}

void warden_client_close(struct warden_client *c)
{
    if (!c)
        return;
    fail_all(c);
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

void warden_client_send(struct warden_client *c, struct plan *plan, warden_reply_fn cb, void *data)
{
    warden_client_send_fd(c, plan, -1, cb, data);
}

void warden_client_send_fd(struct warden_client *c, struct plan *plan, int fd, warden_reply_fn cb,
                           void *data)
{
    struct pending *p = new0(struct pending);
    p->unsent_fd = -1;
    p->cb = cb;
    p->data = data;
    p->tag = plan->tag = c->next_tag++;
    plan->version = PLAN_VERSION;
    list_append(&c->pending, &p->node);
    if (c->dead || c->n_unsent || send_plan(c, plan, fd) < 0) {
        p->unsent = xcalloc(1, sizeof(*plan));
        *p->unsent = *plan;
        p->unsent_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        c->n_unsent++;
        if (!c->dead)
            update_poll(c);
    }
}

void warden_client_on_exit(struct warden_client *c, const char *id, warden_exit_fn fn, void *data)
{
    struct watch *w = NULL;
    if (fn) {
        w = new0(struct watch);
        *w = (struct watch){fn, data};
        free(map_put(c->watches, id, w));
    } else {
        free(map_remove(c->watches, id));
    }
}

static struct warden_alive *alive_new(const struct plan_reply *reply)
{
    struct warden_alive *a = new0(struct warden_alive);
    memcpy(a->id, reply->id, sizeof(a->id));
    a->frozen = reply->frozen;
    return a;
}

/* Sends one plan and reads until its answer. Deaths that happened before this control plane are of
 * sandboxes that it does not know; living ones go to alive (may be NULL). A descriptor of the
 * answer goes to ret_fd (NULL: is closed). */
static int ask_plan(struct warden_client *c, struct plan plan, struct plan_reply *ret, int *ret_fd,
                    struct map *alive, struct error *err)
{
    plan.version = PLAN_VERSION;
    plan.tag = c->next_tag++;
    int r = send_plan(c, &plan, -1);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "ask the warden");
    for (;;) {
        struct pollfd pfd = {.fd = c->sock, .events = POLLIN};
        int fds[FD_PASS_MAX];
        if (poll(&pfd, 1, ASK_TIMEOUT_MS) != 1)
            return error_set(err, ERROR_INTERNAL, 0, "the warden does not answer");
        ssize_t n = fd_recv_msg(c->sock, ret, sizeof(*ret), fds);
        bool ours = n == sizeof(*ret) && ret->event == EVENT_NONE && ret->tag == plan.tag;
        if (ours && ret_fd)
            *ret_fd = fd_steal(&fds[0]);
        for (size_t i = 0; i < FD_PASS_MAX; i++)
            fd_close(&fds[i]);
        if (n != sizeof(*ret) || ret->version != PLAN_VERSION)
            return error_set(err, ERROR_INTERNAL, 0, "the warden's answer cannot be read");
        if (ours)
            return 0;
        ret->id[sizeof(ret->id) - 1] = 0;
        if (ret->event == EVENT_ALIVE && alive)
            free(map_put(alive, ret->id, alive_new(ret)));
        if (ret->event == EVENT_PROBED)
            dispatch_event(c, ret);
    }
}

static int ask_blocking(struct warden_client *c, enum plan_op op, uint32_t backend,
                        struct plan_reply *ret, int *ret_fd, struct map *alive, struct error *err)
{
    struct plan plan = {.op = op, .backend = backend};
    return ask_plan(c, plan, ret, ret_fd, alive, err);
}

int warden_client_probe(struct warden_client *c, struct plan_reply *ret, struct error *err)
{
    for (size_t i = 0; runtimes[i]; i++) {
        const struct warden_kind *k = runtimes[i]->kind;
        if (!k || find_probed(c, probed_key(k->flags, k->backend)))
            continue;
        assert(c->n_probed < PROBED_MAX);
        /* Counted before it is asked: an event may come first, and the answer is the newer one. */
        struct probed *p = &c->probed[c->n_probed++];
        p->key = probed_key(k->flags, k->backend);
        struct plan plan = {.op = PLAN_PROBE, .flags = k->flags, .backend = k->backend};
        if (ask_plan(c, plan, &p->reply, NULL, NULL, err) < 0)
            return -EIO;
    }
    *ret = *warden_client_probed(c);
    return 0;
}

const struct plan_reply *warden_client_probed_kind(const struct warden_client *c,
                                                   const struct warden_kind *k)
{
    return &find_probed(c, probed_key(k->flags, k->backend))->reply;
}

int warden_client_signed(struct warden_client *c, struct plan_reply *ret, struct error *err)
{
    int r = ask_blocking(c, PLAN_SIGN, OCI_NONE, ret, NULL, NULL, err);
    if (r >= 0 && ret->error) {
        ret->message[sizeof(ret->message) - 1] = 0;
        return error_set(err, ERROR_UNAVAILABLE, 0, "audit: %s", ret->message);
    }
    return r;
}

struct map *warden_client_list(struct warden_client *c, struct error *err)
{
    struct plan_reply reply;
    struct map *alive = map_new();
    if (ask_blocking(c, PLAN_LIST, OCI_NONE, &reply, NULL, alive, err) >= 0)
        return alive;
    map_free(alive);
    return NULL;
}

int warden_client_policy(struct warden_client *c, struct error *err)
{
    struct plan_reply reply;
    int fd = -1;
    int r = ask_blocking(c, PLAN_POLICY, OCI_NONE, &reply, &fd, NULL, err);
    if (r >= 0 && fd < 0)
        r = error_set(err, ERROR_INTERNAL, reply.error, "open it");
    return r < 0 ? r : fd;
}

const struct plan_reply *warden_client_probed(const struct warden_client *c)
{
    return &find_probed(c, probed_key(0, OCI_NONE))->reply;
}
