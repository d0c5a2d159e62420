/* SPDX-License-Identifier: Apache-2.0 */
/* See oom-order.h. */
#include "toolrunner/oom-order.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "toolrunner/start.h"

#define SCORE_SIZE 8

static bool score_write(const struct oom_order *o, int score)
{
    char text[SCORE_SIZE];
    int n = snprintf(text, sizeof(text), "%d", score);
    return pwrite(o->fd, text, (size_t)n, 0) == n;
}

/* A child that a tool keeps from its program keeps the runner's score up, and gains no more by that
 * than what all had without an order. */
static void on_turn_over(struct epoll_timer *t)
{
    struct oom_order *o = container_of(t, struct oom_order, timer);
    if (start_any_shares())
        epoll_timer_set_us(o->loop, &o->timer, OOM_ORDER_TURN_US);
    else if (score_write(o, o->runner))
        o->raised = o->empty = false;
    else
        log_warn("the runner's OOM score cannot be put back");
}

int oom_order_open(void)
{
    return open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
}

void oom_order_init(struct oom_order *o, struct epoll_loop *loop, int fd)
{
    *o = (struct oom_order){.loop = loop, .fd = fd};
    epoll_timer_init(&o->timer, on_turn_over);
}

/* The warden may give the runner another score while it runs, so it is read each time. */
static bool score_raise(struct oom_order *o)
{
    char text[SCORE_SIZE] = "";
    if (pread(o->fd, text, sizeof(text) - 1, 0) <= 0)
        return false;
    o->runner = atoi(text);
    int commands = o->runner + OOM_ORDER_STEP;
    return score_write(o, commands < OOM_ORDER_MAX ? commands : OOM_ORDER_MAX);
}

void oom_order_on_start(struct oom_order *o)
{
    if (o->fd < 0)
        return;
    if (!o->raised)
        o->raised = score_raise(o);
    if (o->raised && (o->empty || !epoll_timer_is_set(&o->timer)))
        epoll_timer_set_us(o->loop, &o->timer, OOM_ORDER_TURN_US);
    o->empty = false;
}

void oom_order_on_empty(struct oom_order *o)
{
    if (!o->raised || o->empty)
        return;
    o->empty = true;
    epoll_timer_set_us(o->loop, &o->timer, OOM_ORDER_REST_US);
}
