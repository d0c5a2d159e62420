/* SPDX-License-Identifier: Apache-2.0 */
#include "base/epoll-loop.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define BATCH_MAX          64
#define TIMER_DELAY_MAX_US (366ull * 24 * 3600 * 1000000) /* longer waits are as good as none */

struct epoll_batch {
    struct epoll_event events[BATCH_MAX];
    int n, at;
    struct epoll_batch *outer; /* the batch whose callback runs this one; NULL for the first */
};

int epoll_loop_init(struct epoll_loop *l)
{
    list_init(&l->timers);
    l->batch = NULL;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return l->epoll_fd < 0 ? -errno : 0;
}

void epoll_loop_done(struct epoll_loop *l)
{
    fd_close(&l->epoll_fd);
}

static struct epoll_timer *first_timer(const struct epoll_loop *l)
{
    return list_empty(&l->timers) ? NULL : container_of(l->timers.next, struct epoll_timer, link);
}

static int wait_ms(const struct epoll_loop *l, int timeout_ms)
{
    const struct epoll_timer *t = first_timer(l);
    if (!t)
        return timeout_ms;
    int64_t left_ns = t->at_ns - clock_mono_ns();
    int64_t ms = left_ns <= 0 ? 0 : (left_ns + 999999) / 1000000;
    if (timeout_ms >= 0 && timeout_ms < ms)
        return timeout_ms;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int epoll_loop_once(struct epoll_loop *l, int timeout_ms)
{
    struct epoll_batch b;
    b.n = epoll_wait(l->epoll_fd, b.events, BATCH_MAX, wait_ms(l, timeout_ms));
    if (b.n < 0 && errno != EINTR)
        return -errno;
    b.outer = l->batch;
    l->batch = &b;
    for (b.at = 0; b.at < b.n; b.at++) {
        struct epoll_watch *w = b.events[b.at].data.ptr;
        if (w)
            w->on_ready(w, b.events[b.at].events);
    }
    l->batch = b.outer;
    struct epoll_timer *t = first_timer(l);
    int64_t now_ns = t ? clock_mono_ns() : 0;
    for (; t && t->at_ns <= now_ns; t = first_timer(l)) {
        list_remove(&t->link);
        t->on_expire(t);
    }
    return 0;
}

void epoll_watch_init(struct epoll_watch *w, int fd,
                      void (*on_ready)(struct epoll_watch *w, uint32_t ready))
{
    *w = (struct epoll_watch){.fd = fd, .on_ready = on_ready};
}

int epoll_watch_set(struct epoll_loop *l, struct epoll_watch *w, uint32_t events)
{
    if (w->fd < 0 || w->events == events)
        return 0;
    struct epoll_event e = {.events = events, .data.ptr = w};
    int op = !w->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    int r = epoll_ctl(l->epoll_fd, op, w->fd, &e) < 0 ? -errno : 0;
    w->events = events;
    if (!events) {
        /* An event that was fetched together with the current one must not reach a watch that is
         * gone. */
        for (struct epoll_batch *b = l->batch; b; b = b->outer) {
            for (int i = b->at + 1; i < b->n; i++) {
                if (b->events[i].data.ptr == w)
                    b->events[i].data.ptr = NULL;
            }
        }
    }
    return r;
}

void epoll_watch_close(struct epoll_loop *l, struct epoll_watch *w)
{
    epoll_watch_set(l, w, 0);
    fd_close(&w->fd);
}

void epoll_timer_init(struct epoll_timer *t, void (*on_expire)(struct epoll_timer *t))
{
    list_init(&t->link);
    t->at_ns = 0;
    t->on_expire = on_expire;
}

/* Almost all timers are set to one of a few delays, so each is later than those before it, or is
 * due before any of them: the right place is next to an end of the list. */
void epoll_timer_set_us(struct epoll_loop *l, struct epoll_timer *t, uint64_t delay_us)
{
    epoll_timer_clear(t);
    if (delay_us > TIMER_DELAY_MAX_US)
        delay_us = TIMER_DELAY_MAX_US;
    t->at_ns = clock_mono_ns() + (int64_t)delay_us * 1000;
    struct list *after = l->timers.prev;
    const struct epoll_timer *first = first_timer(l);
    if (first && first->at_ns > t->at_ns)
        after = &l->timers;
    while (after != &l->timers && container_of(after, struct epoll_timer, link)->at_ns > t->at_ns)
        after = after->prev;
    list_append(after->next, &t->link);
}

void epoll_timer_clear(struct epoll_timer *t)
{
    list_remove(&t->link);
}
