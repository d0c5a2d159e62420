/* SPDX-License-Identifier: Apache-2.0 */
/* One epoll set and a sorted list of timers: the event loop of the runner and of the warden, which
 * cannot afford libuv, and of the gateway, where every change of what libuv waits for would be two
 * system calls (the rest runs on src/loop).
 *
 * A watch or timer is embedded in its owner, so that the loop allocates nothing. Callbacks may stop
 * any watch or timer, also ones whose event is still waiting in the current batch, free their owner
 * afterwards, and call epoll_loop_once() themselves. Single-threaded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

struct epoll_watch {
    int fd;          /* -1 when empty */
    uint32_t events; /* the events that epoll was given; 0 when not in the set */
    void (*on_ready)(struct epoll_watch *w, uint32_t ready);
};

struct epoll_timer {
    struct list link; /* unlinked when not set */
    int64_t at_ns;
    void (*on_expire)(struct epoll_timer *t);
};

struct epoll_loop {
    int epoll_fd;
    struct list timers;        /* soonest first */
    struct epoll_batch *batch; /* whose events are being handled; NULL outside of callbacks */
};

int epoll_loop_init(struct epoll_loop *l); /* 0 or -errno */
void epoll_loop_done(struct epoll_loop *l);
/* Waits for the next event or timer, at most timeout_ms (-1: no limit), and runs what is due.
 * 0, also after a signal, or -errno. */
int epoll_loop_once(struct epoll_loop *l, int timeout_ms);

void epoll_watch_init(struct epoll_watch *w, int fd,
                      void (*on_ready)(struct epoll_watch *w, uint32_t ready));
/* events 0 takes it out of the set. 0 or -errno. */
int epoll_watch_set(struct epoll_loop *l, struct epoll_watch *w, uint32_t events);
/* Takes it out of the set and closes its descriptor. */
void epoll_watch_close(struct epoll_loop *l, struct epoll_watch *w);

void epoll_timer_init(struct epoll_timer *t, void (*on_expire)(struct epoll_timer *t));
/* Once, after delay_us. A timer that is set already starts again from now. */
void epoll_timer_set_us(struct epoll_loop *l, struct epoll_timer *t, uint64_t delay_us);
void epoll_timer_clear(struct epoll_timer *t);
static inline bool epoll_timer_is_set(const struct epoll_timer *t)
{
    return !list_empty(&t->link);
}
