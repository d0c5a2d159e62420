/* SPDX-License-Identifier: Apache-2.0 */
/* The runner has the commands' score while it starts one, and for how long after that. A file
 * stands in for the score: what is written to it is the same. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/tap.h"
#include "toolrunner/oom-order.h"

static struct epoll_loop loop;
static struct oom_order order;
static int64_t before_ns;

static int score(void)
{
    char text[16] = "";
    return pread(order.fd, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : -1;
}

/* Whether the timer was set between mark() and now, to this delay. */
static bool is_due_after(uint64_t delay_us)
{
    int64_t delay_ns = (int64_t)delay_us * 1000;
    return epoll_timer_is_set(&order.timer) && order.timer.at_ns >= before_ns + delay_ns &&
           order.timer.at_ns <= clock_mono_ns() + delay_ns;
}

static void mark(void)
{
    before_ns = clock_mono_ns();
}

static void wait_until_put_back(void)
{
    while (epoll_timer_is_set(&order.timer))
        epoll_loop_once(&loop, -1);
}

static void test_start_raises_and_a_turn_puts_back(void)
{
    mark();
    oom_order_on_start(&order);
    ok(score() == 200 + OOM_ORDER_STEP, "a start has the commands' score");
    ok(is_due_after(OOM_ORDER_TURN_US), "which is put back after a turn");
    int64_t at_ns = order.timer.at_ns;
    oom_order_on_start(&order);
    ok(order.timer.at_ns == at_ns, "and not later because of another start");
    wait_until_put_back();
    ok(score() == 200, "then the runner has its own");
}

static void test_empty_sandbox_rests(void)
{
    oom_order_on_empty(&order);
    ok(!epoll_timer_is_set(&order.timer), "without a start, there is nothing to put back");
    oom_order_on_start(&order);
    mark();
    oom_order_on_empty(&order);
    ok(is_due_after(OOM_ORDER_REST_US), "where no process is left, it is put back after a rest");
    int64_t at_ns = order.timer.at_ns;
    oom_order_on_empty(&order);
    ok(order.timer.at_ns == at_ns, "counted from the last end");
    mark();
    oom_order_on_start(&order);
    ok(is_due_after(OOM_ORDER_TURN_US), "and after a turn again, once there is another command");
    ok(score() == 200 + OOM_ORDER_STEP, "which has the commands' score");
    oom_order_on_empty(&order);
    wait_until_put_back();
    ok(score() == 200, "after the rest the runner has its own");
}

/* The warden may change it at any time: what is put back is what was there at the start. */
static void test_score_is_read_at_each_raise(void)
{
    ok(pwrite(order.fd, "500", 3, 0) == 3, "another score");
    oom_order_on_start(&order);
    ok(score() == 500 + OOM_ORDER_STEP, "is what is added to");
    wait_until_put_back();
    ok(score() == 500, "and what is put back");
}

int main(void)
{
    char path[] = "/tmp/mas-test-score.XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    ok(fd >= 0 && write(fd, "200\n", 4) == 4 && epoll_loop_init(&loop) == 0, "a score");
    oom_order_init(&order, &loop, fd);
    test_start_raises_and_a_turn_puts_back();
    test_empty_sandbox_rests();
    test_score_is_read_at_each_raise();
    epoll_loop_done(&loop);
    close(fd);
    return tap_done();
}
