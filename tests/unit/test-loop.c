/* SPDX-License-Identifier: Apache-2.0 */
/* Timers, signals, workers and deferred calls. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "loop/loop.h"
#include "tests/unit/tap.h"

static int fired, closed, ticks, deferred, signals;
static struct loop_timer every;

static void on_fire(void *data)
{
    (void)data;
    fired++;
}

static void on_closed(void *data)
{
    closed++;
    free(data);
}

static void on_tick(void *data)
{
    (void)data;
    if (++ticks == 3)
        loop_timer_close(&every, NULL, NULL);
}

#define MANY 5000

static void test_timers(uv_loop_t *loop)
{
    struct loop_timer *timers[MANY];
    for (int i = 0; i < MANY; i++) {
        timers[i] = new0(struct loop_timer);
        loop_timer_init(timers[i], loop, on_fire, NULL);
        loop_timer_start(timers[i], (uint64_t)(i % 7));
    }
    loop_timer_stop(timers[0]);
    ok(!loop_timer_active(timers[0]) && loop_timer_active(timers[1]), "active says which run");
    uv_run(loop, UV_RUN_DEFAULT);
    ok(fired == MANY - 1, "every timer but the stopped one fired once (%d)", fired);
    for (int i = 0; i < MANY; i++)
        loop_timer_close(timers[i], on_closed, timers[i]);
    ok(closed == 0, "on_closed does not run inside close");
    uv_run(loop, UV_RUN_DEFAULT);
    ok(closed == MANY, "each on_closed ran (%d)", closed);
}

static void test_periodic(uv_loop_t *loop)
{
    loop_timer_init(&every, loop, on_tick, NULL);
    loop_timer_start_every(&every, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    ok(ticks == 3, "a periodic timer closed in its own callback stops (%d)", ticks);
}

static void on_deferred(void *data)
{
    if (++deferred < 100)
        loop_defer(data, on_deferred, data);
}

static void test_defer(uv_loop_t *loop)
{
    loop_defer(loop, on_deferred, loop);
    ok(deferred == 0, "a deferred call does not run at once");
    uv_run(loop, UV_RUN_NOWAIT);
    ok(deferred == 1, "one a turn, so that the loop can poll (%d)", deferred);
    uv_run(loop, UV_RUN_DEFAULT);
    ok(deferred == 100, "all of them ran (%d)", deferred);
}

struct sum {
    int in, out;
    uv_thread_t worker;
    bool done;
};

static void on_work(void *data)
{
    struct sum *s = data;
    s->worker = uv_thread_self();
    s->out = s->in * 2;
}

static void on_done(void *data)
{
    ((struct sum *)data)->done = true;
}

static void test_work(uv_loop_t *loop)
{
    struct sum s = {.in = 21};
    loop_work(loop, on_work, on_done, &s);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_thread_t self = uv_thread_self();
    ok(s.done && s.out == 42, "work, then done");
    ok(!uv_thread_equal(&s.worker, &self), "work ran on another thread");
}

static void on_signal(void *data, int signo)
{
    struct loop_signal *s = data;
    signals += signo == SIGUSR1;
    loop_signal_close(s, NULL, NULL);
}

static void test_signal(uv_loop_t *loop)
{
    struct loop_signal s;
    ok(loop_signal_init(&s, loop, SIGUSR1, on_signal, &s) == 0, "watch SIGUSR1");
    ok(!uv_loop_alive(loop), "a watched signal does not keep the loop running");
    struct loop_timer hold;
    loop_timer_init(&hold, loop, on_fire, NULL);
    loop_timer_start(&hold, 50);
    kill(getpid(), SIGUSR1);
    uv_run(loop, UV_RUN_DEFAULT);
    ok(signals == 1, "the signal came once");
    loop_timer_close(&hold, NULL, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
}

/* A ball that is thrown over a pipe, each time with a watcher that is made anew in the callback:
 * what looks for events outside the loop must see that one, too. */
#define THROWS     2000
#define QUIET_MS   300
#define QUIET_CPUS 0.5 /* of that time, at most */

struct game {
    uv_poll_t *watch;
    struct loop_timer quiet;
    int fds[2], throws;
    double cpu_before_s, cpu_quiet_s;
    bool over;
};

static double thread_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_watch_closed(uv_handle_t *h)
{
    free(h);
}

static void on_ball(uv_poll_t *watch, int status, int events);

static void throw_ball(struct game *g, uv_loop_t *loop)
{
    g->watch = new0(uv_poll_t);
    g->watch->data = g;
    uv_poll_init(loop, g->watch, g->fds[0]);
    uv_poll_start(g->watch, UV_READABLE, on_ball);
    if (write(g->fds[1], "o", 1) != 1)
        abort();
}

static void on_ball(uv_poll_t *watch, int status, int events)
{
    struct game *g = watch->data;
    uv_loop_t *loop = watch->loop;
    char ball;
    if (status < 0 || !(events & UV_READABLE) || read(g->fds[0], &ball, 1) != 1)
        abort();
    uv_close((uv_handle_t *)watch, on_watch_closed);
    if (++g->throws < THROWS) {
        throw_ball(g, loop);
        return;
    }
    g->cpu_before_s = thread_cpu_s();
    loop_timer_start(&g->quiet, QUIET_MS);
}

static void on_quiet_over(void *data)
{
    struct game *g = data;
    g->cpu_quiet_s = thread_cpu_s() - g->cpu_before_s;
    g->over = true;
}

static void test_run(uv_loop_t *loop)
{
    struct game g = {0};
    if (pipe(g.fds) < 0)
        abort();
    loop_timer_init(&g.quiet, loop, on_quiet_over, &g);
    struct loop_timer hold; /* *stop ends a loop that would go on */
    loop_timer_init(&hold, loop, on_fire, NULL);
    loop_timer_start(&hold, 3600 * 1000);
    throw_ball(&g, loop);
    loop_run(loop, 100 * 1000, &g.over);
    ok(g.throws == THROWS, "a loop that looks before it sleeps misses nothing (%d)", g.throws);
    ok(g.cpu_quiet_s < QUIET_MS / 1e3 * QUIET_CPUS, "and sleeps when nothing comes (%.0f ms of %d)",
       g.cpu_quiet_s * 1e3, QUIET_MS);
    loop_timer_close(&hold, NULL, NULL);
    loop_timer_close(&g.quiet, NULL, NULL);
    bool never = false;
    loop_run(loop, 100, &never);
    ok(!uv_loop_alive(loop), "and ends when nothing is left");
    close(g.fds[0]);
    close(g.fds[1]);
}

int main(void)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    test_timers(&loop);
    test_periodic(&loop);
    test_defer(&loop);
    test_work(&loop);
    test_signal(&loop);
    test_run(&loop);
    ok(uv_loop_close(&loop) == 0, "nothing is left in the loop");
    return tap_done();
}
