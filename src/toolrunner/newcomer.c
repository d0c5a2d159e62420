/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/newcomer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "toolrunner/runner.h"

#define HELLO_MAX (FRAME_PREFACE_SIZE + FRAME_HEADER_SIZE + MSG_HELLO_MAX)

struct newcomer {
    struct newcomers *all;
    struct list node;
    struct epoll_watch watch;
    struct epoll_timer timer;
    size_t len;
    uint8_t bytes[HELLO_MAX]; /* what it has said */
};

static void newcomer_free(struct newcomer *c)
{
    epoll_watch_close(&c->all->runner->loop, &c->watch);
    epoll_timer_clear(&c->timer);
    list_remove(&c->node);
    c->all->n--;
    free(c);
}

static void on_newcomer_late(struct epoll_timer *t)
{
    newcomer_free(container_of(t, struct newcomer, timer));
}

/* The socket is new and empty: a short text always fits. */
static void newcomer_refuse(struct newcomer *c, const char *why)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX);
    log_warn("connection refused reason=\"%s\"", why);
    frame_append(&b, MSG_GOODBYE, 0, why, strlen(why));
    (void)!send(c->watch.fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    newcomer_free(c);
}

/* 1 where HELLO is whole and may be served, 0 where bytes are missing, or -EPROTO. */
static int newcomer_check(const struct newcomer *c)
{
    size_t begin = FRAME_PREFACE_SIZE;
    struct frame f;
    struct msg_hello m;
    if (memcmp(c->bytes, FRAME_PREFACE, c->len < begin ? c->len : begin))
        return -EPROTO;
    int n = c->len <= begin ? 0 : frame_parse(c->bytes + begin, c->len - begin, &f);
    if (n <= 0)
        return n == 0 && c->len == sizeof(c->bytes) ? -EPROTO : n;
    if (f.type != MSG_HELLO || msg_hello_parse(f.payload, f.length, &m) < 0)
        return -EPROTO;
    return runner_accepts(c->all->runner, &m) ? 1 : -EPROTO;
}

static void on_newcomer_ready(struct epoll_watch *w, uint32_t ready)
{
    struct newcomer *c = container_of(w, struct newcomer, watch);
    struct runner *r = c->all->runner;
    (void)ready;
    ssize_t n = recv(w->fd, c->bytes + c->len, sizeof(c->bytes) - c->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        newcomer_free(c);
        return;
    }
    c->len += (size_t)n;
    int whole = newcomer_check(c);
    if (whole < 0) {
        newcomer_refuse(c, "no HELLO, or that of an older connection or another version");
    } else if (whole) {
        /* Off first: epoll would go on to report the descriptor to a watch that is freed. */
        epoll_watch_set(&r->loop, w, 0);
        conn_adopt(r, fd_steal(&w->fd), c->bytes, c->len);
        newcomer_free(c);
    }
}

void newcomers_init(struct newcomers *n, struct runner *r)
{
    *n = (struct newcomers){.runner = r};
    list_init(&n->list);
}

void newcomers_done(struct newcomers *n)
{
    list_for_each_safe(c, &n->list, struct newcomer, node)
        newcomer_free(c);
}

/* The preface goes out at once, because the other side may wait for a sign of a runner. */
void newcomers_take(struct newcomers *n, int fd)
{
    /* The oldest makes way: peers that never say HELLO must not keep out one that will. */
    if (n->n >= NEWCOMERS_MAX)
        newcomer_free(container_of(n->list.next, struct newcomer, node));
    struct newcomer *c = new0(struct newcomer);
    c->all = n;
    list_append(&n->list, &c->node);
    n->n++;
    fd_set_nonblock(fd, true);
    (void)!send(fd, FRAME_PREFACE, FRAME_PREFACE_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT);
    epoll_watch_init(&c->watch, fd, on_newcomer_ready);
    epoll_watch_set(&n->runner->loop, &c->watch, EPOLLIN);
    epoll_timer_init(&c->timer, on_newcomer_late);
    epoll_timer_set_us(&n->runner->loop, &c->timer, NEWCOMER_MS * 1000);
    on_newcomer_ready(&c->watch, EPOLLIN);
}
