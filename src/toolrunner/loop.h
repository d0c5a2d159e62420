/* One epoll set and a sorted list of timers; everything the runner does happens in a callback of
 * it.
 *
 * A watch or timer is embedded in its owner. Callbacks may stop any watch or timer, also ones whose
 * event is still waiting in the current batch, and free their owner afterwards. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

#define LOOP_BATCH 64

struct watch {
    int fd;          /* -1 when empty */
    uint32_t events; /* what epoll was told; 0 when not in the set */
    void (*on_ready)(struct watch *w, uint32_t ready);
};

struct timer {
    struct list link; /* unlinked when not set */
    int64_t at_ns;
    void (*on_expire)(struct timer *t);
};

struct loop {
    int epoll_fd;
    struct list timers; /* soonest first */
    struct epoll_event batch[LOOP_BATCH];
    int n_batch, at;
};

int loop_init(struct loop *l);
void loop_done(struct loop *l);
/* Waits for the next event or timer and runs what is due. */
void loop_once(struct loop *l);

void watch_init(struct watch *w, int fd, void (*on_ready)(struct watch *w, uint32_t ready));
/* events 0 takes it out of the set. */
void watch_set(struct loop *l, struct watch *w, uint32_t events);
/* Takes it out of the set and closes its descriptor. */
void watch_close(struct loop *l, struct watch *w);

void timer_init(struct timer *t, void (*on_expire)(struct timer *t));
void timer_set_us(struct loop *l, struct timer *t, uint64_t delay_us);
void timer_clear(struct timer *t);
static inline bool timer_is_set(const struct timer *t)
{
    return !list_empty(&t->link);
}
