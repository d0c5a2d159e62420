/* The runner's event loop: epoll, and timers kept in a sorted list (there are few, and most are set
 * to the same delays, so insertion from the back is short). */
#include "toolrunner/loop.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define TIMER_DELAY_MAX_US (366ull * 24 * 3600 * 1000000) /* longer waits are as good as none */

int loop_init(struct loop *l)
{
    list_init(&l->timers);
    l->n_batch = l->at = 0;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return l->epoll_fd < 0 ? -errno : 0;
}

void loop_done(struct loop *l)
{
    fd_close(&l->epoll_fd);
}

static int loop_timeout_ms(const struct loop *l)
{
    if (list_empty(&l->timers))
        return -1;
    const struct timer *t = container_of(l->timers.next, struct timer, link);
    int64_t left = t->at_ns - clock_mono_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left + 999999) / 1000000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void loop_run_timers(struct loop *l)
{
    int64_t now = list_empty(&l->timers) ? 0 : clock_mono_ns();
    while (!list_empty(&l->timers)) {
        struct timer *t = container_of(l->timers.next, struct timer, link);
        if (t->at_ns > now)
            return;
        list_remove(&t->link);
        t->on_expire(t);
    }
}

void loop_once(struct loop *l)
{
    int n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, loop_timeout_ms(l));
    l->n_batch = n < 0 ? 0 : n;
    for (l->at = 0; l->at < l->n_batch; l->at++) {
        struct watch *w = l->batch[l->at].data.ptr;
        if (w)
            w->on_ready(w, l->batch[l->at].events);
    }
    l->n_batch = 0;
    loop_run_timers(l);
}

void watch_init(struct watch *w, int fd, void (*on_ready)(struct watch *w, uint32_t ready))
{
    *w = (struct watch){.fd = fd, .on_ready = on_ready};
}

/* An event that was fetched together with the current one must not reach a watch that is gone. */
static void loop_drop_ready(struct loop *l, const struct watch *w)
{
    for (int i = l->at + 1; i < l->n_batch; i++) {
        if (l->batch[i].data.ptr == w)
            l->batch[i].data.ptr = NULL;
    }
}

void watch_set(struct loop *l, struct watch *w, uint32_t events)
{
    if (w->fd < 0 || w->events == events)
        return;
    struct epoll_event e = {.events = events, .data.ptr = w};
    int op = !w->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    epoll_ctl(l->epoll_fd, op, w->fd, &e);
    w->events = events;
    if (!events)
        loop_drop_ready(l, w);
}

void watch_close(struct loop *l, struct watch *w)
{
    watch_set(l, w, 0);
    fd_close(&w->fd);
}

void timer_init(struct timer *t, void (*on_expire)(struct timer *t))
{
    list_init(&t->link);
    t->at_ns = 0;
    t->on_expire = on_expire;
}

void timer_set_us(struct loop *l, struct timer *t, uint64_t delay_us)
{
    timer_clear(t);
    if (delay_us > TIMER_DELAY_MAX_US)
        delay_us = TIMER_DELAY_MAX_US;
    t->at_ns = clock_mono_ns() + (int64_t)delay_us * 1000;
    struct list *after = l->timers.prev;
    while (after != &l->timers && container_of(after, struct timer, link)->at_ns > t->at_ns)
        after = after->prev;
    list_append(after->next, &t->link);
}

void timer_clear(struct timer *t)
{
    list_remove(&t->link);
}
