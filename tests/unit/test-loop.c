/* Timers, signals, workers and deferred calls. */
#include <signal.h>
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

int main(void)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    test_timers(&loop);
    test_periodic(&loop);
    test_defer(&loop);
    test_work(&loop);
    test_signal(&loop);
    ok(uv_loop_close(&loop) == 0, "nothing is left in the loop");
    return tap_done();
}
