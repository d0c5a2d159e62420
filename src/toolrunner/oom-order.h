/* SPDX-License-Identifier: Apache-2.0 */
/* When memory is short, commands go before their runner, whose end is that of the whole sandbox.
 *
 * A command inherits the runner's score, and after that nothing can raise it that a command could
 * not undo. So the runner has the commands' score while it starts one, and its own, which is lower,
 * at all other times. The kernel gives processes with common memory one score: the runner's is put
 * back only when no child is left that has not yet reached its program.
 *
 * A change makes the kernel walk over all processes of the host. So the score is put back a little
 * later than the start, once for all starts of that time. Where all that was started has ended by
 * then, there is nothing left for the runner to go after, and the change waits much longer: most
 * often for the next command, which needs the score as it is, or for the end of a sandbox that was
 * made for one command. */
#pragma once

#include <stdbool.h>

#include "base/epoll-loop.h"

#define OOM_ORDER_STEP    100 /* so much more than the runner's is the commands' score */
#define OOM_ORDER_MAX     1000
#define OOM_ORDER_TURN_US (10 * 1000)
#define OOM_ORDER_REST_US (500 * 1000) /* where no process is left */

struct oom_order {
    struct epoll_loop *loop;
    struct epoll_timer timer;
    int fd;      /* of the runner's own score, or -1: then there is no order */
    int runner;  /* its own score, while */
    bool raised; /* it has the commands' */
    bool empty;  /* and no process has been started since the last one ended */
};

/* The runner's score, to be opened while it still may: before its memory is closed to others and
 * /proc to writing. -1 where that is not possible. */
int oom_order_open(void);
/* fd is taken. Without one, starts cost nothing and all have one score. */
void oom_order_init(struct oom_order *o, struct epoll_loop *loop, int fd);
/* A child is about to be made. */
void oom_order_on_start(struct oom_order *o);
/* The last process but the runner has ended. */
void oom_order_on_empty(struct oom_order *o);
