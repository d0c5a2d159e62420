/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox that a run is in. A lasting one may still be being created, and is waited for. A
 * one-shot is made when it is needed: once the intent is on record, or before that to look where
 * its paths lead. */
#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/sandbox.h"
#include "tool/network.h"
#include "tool/run-internal.h"

#define SHORT_RUN_US  100000 /* and little work in that time: too little to have written much */
#define SHORT_WORK_US 10000

static void on_ready(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err)
{
    (void)sb;
    run_resume(container_of(w, struct run, ready), err);
}

bool run_wait_ready(struct run *run)
{
    if (sandbox_state(run->sandbox) != SANDBOX_CREATING)
        return false;
    run->ready.on_event = on_ready;
    sandbox_wait_ready(run->sandbox, &run->ready);
    return true;
}

void run_cancel_ready(struct run *run)
{
    sandbox_waiter_cancel(&run->ready);
}

/* The network is decided on here as well, because this is where a sandbox with one comes from,
 * whichever front end asked: nothing below asks the policy about hosts. */
static int make_box(struct run *run, struct error *err)
{
    struct sandbox_maker by;
    if (network_admit(run->gate, &run->who, &run->box, &by, err) < 0)
        return -EACCES;
    struct sandbox *sb = sandbox_create(run->manager, &run->box, &by, NULL, NULL, true, err);
    if (!sb)
        return -EINVAL;
    run->sandbox = sandbox_ref(sb);
    return 0;
}

int run_create_enter(struct run *run, struct error *err)
{
    if (!run->sandbox && make_box(run, err) < 0)
        return -EINVAL;
    return run_wait_ready(run) ? (int)run->phase : run_next(run);
}

int run_box_enter(struct run *run, struct error *err)
{
    return run_resolve_wanted(run) ? run_create_enter(run, err) : run_next(run);
}

/* For a one-shot that was made only to look into, and is not what will run. */
void run_drop_box(struct run *run)
{
    sandbox_delete(run->sandbox, NULL);
    sandbox_unref(steal_ptr(run->sandbox));
}

/* A short command that left no process behind has also left little: its sandbox is taken apart
 * later, when the daemon has nothing else to do. */
void run_end_box(struct run *run)
{
    if (!run->one_shot || !run->sandbox)
        return;
    const struct exec_result *r = run->exec ? exec_result(run->exec) : NULL;
    if (r && r->alone && r->usage.wall_us < SHORT_RUN_US &&
        r->usage.user_us + r->usage.system_us < SHORT_WORK_US)
        sandbox_retire(run->sandbox);
    else
        sandbox_delete(run->sandbox, NULL);
}
