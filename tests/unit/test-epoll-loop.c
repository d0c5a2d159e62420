/* SPDX-License-Identifier: Apache-2.0 */
/* base/epoll-loop.h: which callbacks come, in which order, and which do not. */
#include "base/epoll-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/tap.h"

static struct epoll_loop loop;
static char order[16]; /* names of those called */

struct thing {
    struct epoll_watch watch;
    struct epoll_timer timer;
    char name;
    struct thing *stops; /* when it is called; or NULL */
    bool nests;          /* runs the loop once more from its callback */
};

static void thing_called(struct thing *t)
{
    size_t n = strlen(order);
    if (n + 1 < sizeof(order))
        order[n] = t->name;
    if (t->nests) {
        t->nests = false;
        epoll_watch_set(&loop, &t->watch, 0);
        epoll_loop_once(&loop, 0);
    }
    if (t->stops) {
        epoll_watch_close(&loop, &t->stops->watch);
        epoll_timer_clear(&t->stops->timer);
    }
}

static void on_ready(struct epoll_watch *w, uint32_t ready)
{
    (void)ready;
    thing_called(container_of(w, struct thing, watch));
}

static void on_expire(struct epoll_timer *timer)
{
    thing_called(container_of(timer, struct thing, timer));
}

/* ready: with a descriptor that always is. */
static void thing_init(struct thing *t, char name, bool ready)
{
    *t = (struct thing){.name = name};
    epoll_watch_init(&t->watch, ready ? eventfd(1, EFD_CLOEXEC) : -1, on_ready);
    epoll_timer_init(&t->timer, on_expire);
    epoll_watch_set(&loop, &t->watch, EPOLLIN);
}

static const char *run_once(void)
{
    memset(order, 0, sizeof(order));
    epoll_loop_once(&loop, 0);
    return order;
}

static void test_watches(void)
{
    struct thing a, b, c;
    thing_init(&a, 'a', true);
    thing_init(&b, 'b', true);
    thing_init(&c, 'c', true);
    ok(strcmp(run_once(), "abc") == 0, "all that is ready is called");
    a.stops = &b;
    ok(strcmp(run_once(), "ac") == 0, "not what an earlier callback of the same batch has stopped");
    ok(b.watch.fd == -1 && !b.watch.events, "which is closed and out of the set");
    epoll_watch_set(&loop, &a.watch, 0);
    ok(strcmp(run_once(), "c") == 0, "nor what is out of the set");
    epoll_watch_close(&loop, &a.watch);
    epoll_watch_close(&loop, &c.watch);
}

static void test_nested(void)
{
    struct thing outer, stopper, stopped;
    thing_init(&outer, 'o', true);
    thing_init(&stopper, 's', true);
    thing_init(&stopped, 'x', true);
    outer.nests = true;
    stopper.stops = &stopped;
    ok(strcmp(run_once(), "oss") == 0,
       "what a loop inside of a callback stops is not called by the loop around it either");
    epoll_watch_close(&loop, &outer.watch);
    epoll_watch_close(&loop, &stopper.watch);
}

static void *freed_by;

static void on_ready_free(struct epoll_watch *w, uint32_t ready)
{
    (void)ready;
    struct thing *t = container_of(w, struct thing, watch);
    epoll_watch_close(&loop, w);
    freed_by = &loop;
    free(t);
}

static void test_freed(void)
{
    struct thing *t = malloc(sizeof(*t));
    thing_init(t, 'f', true);
    t->watch.on_ready = on_ready_free;
    run_once();
    ok(freed_by == &loop, "a callback may free its owner");
    ok(strcmp(run_once(), "") == 0, "and is not called again");
}

static void test_timers(void)
{
    struct thing t[5];
    static const uint64_t delays_us[] = {3000, 1000, 2000, 1000, 4000};
    for (size_t i = 0; i < 5; i++) {
        thing_init(&t[i], (char)('0' + i), false);
        epoll_timer_set_us(&loop, &t[i].timer, delays_us[i]);
    }
    t[1].stops = &t[2];
    memset(order, 0, sizeof(order));
    while (!list_empty(&loop.timers))
        epoll_loop_once(&loop, -1);
    ok(strcmp(order, "1304") == 0, "timers come in their order, the stopped one does not");
    ok(!epoll_timer_is_set(&t[1].timer), "and each once");
    epoll_timer_set_us(&loop, &t[0].timer, UINT64_MAX);
    ok(strcmp(run_once(), "") == 0,
       "a timer does not come before its time, and a delay beyond any clock is just long");
    epoll_timer_clear(&t[0].timer);
}

static void test_failures(void)
{
    struct thing t;
    thing_init(&t, 't', false);
    t.watch.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ok(epoll_watch_set(&loop, &t.watch, EPOLLIN) == -EPERM, "what epoll refuses is said");
    epoll_watch_close(&loop, &t.watch);
}

int main(void)
{
    ok(epoll_loop_init(&loop) == 0, "a loop");
    test_watches();
    test_nested();
    test_freed();
    test_timers();
    test_failures();
    epoll_loop_done(&loop);
    ok(epoll_loop_once(&loop, 0) == -EBADF, "a loop that cannot wait says so");
    return tap_done();
}
