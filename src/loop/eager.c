/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that does not fall asleep at once.
 *
 * Waking an idle CPU takes longer than most of what this daemon does for a request, so a loop whose
 * last wait was short looks for its next event for a moment before it sleeps. A wait that was long
 * ends that, so a loop with little to do sleeps as any other. Another process that wants this CPU
 * gets it at every look, and ends the looking, too: for one wait at first, for twice as many each
 * time it happens again. A loop that has given way has to wait for its next turn on the CPU, while
 * one that sleeps is woken. */
#include "loop/loop.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#define CROWDED_NS 100000 /* between two looks: another process ran here */
#define REST_MAX   64

struct eager {
    uint64_t max_ns;
    const bool *stop;
    bool awake;           /* looks before it sleeps */
    unsigned rest, tired; /* waits to sleep through; how many the last time */
};

/* True: something is there to be handled. */
static bool eager_look(struct eager *e, const uv_loop_t *loop, uint64_t start_ns)
{
    struct pollfd p = {.fd = uv_backend_fd(loop), .events = POLLIN};
    for (uint64_t last_ns = start_ns; last_ns - start_ns < e->max_ns;) {
        if (poll(&p, 1, 0) != 0) {
            e->tired = 0;
            return true;
        }
        sched_yield();
        uint64_t now_ns = uv_hrtime();
        if (now_ns - last_ns > CROWDED_NS) {
            e->tired = !e->tired ? 1 : e->tired < REST_MAX ? 2 * e->tired : REST_MAX;
            e->rest = e->tired;
            return false;
        }
        last_ns = now_ns;
    }
    return false;
}

/* One round, which may sleep. Watchers reach the kernel only inside uv_run(), hence its first call.
 * Near a timer it does not look, since libuv tells milliseconds only. */
static bool eager_round(struct eager *e, uv_loop_t *loop)
{
    if (e->awake && (!uv_run(loop, UV_RUN_NOWAIT) || *e->stop))
        return false;
    uint64_t start_ns = uv_hrtime();
    int timeout_ms = e->awake ? uv_backend_timeout(loop) : 0;
    if ((timeout_ms < 0 || timeout_ms > 1) && eager_look(e, loop, start_ns))
        return uv_run(loop, UV_RUN_NOWAIT);
    bool alive = uv_run(loop, UV_RUN_ONCE);
    e->awake = uv_hrtime() - start_ns < e->max_ns && !e->rest;
    e->rest -= e->rest > 0;
    return alive;
}

void loop_run(uv_loop_t *loop, uint64_t look_us, const bool *stop)
{
    bool alone =
        sysconf(_SC_NPROCESSORS_ONLN) < 2; /* the process that is waited for needs this CPU */
    struct eager e = {.max_ns = alone ? 0 : look_us * 1000, .stop = stop};
    while (!*stop && eager_round(&e, loop))
        ;
}
