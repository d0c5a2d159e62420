/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a sandbox that an engine holds. */
#include <errno.h>

#include "base/alloc.h"
#include "warden/engine/internal.h"
#include "warden/limits.h"

/* Of throughput, an engine's throttle is asked for only where it is a wall. */
static int check_io(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    const struct engine_message *report = &engines_of(s->warden)->probe[p->backend].report;
    if (!limits_of_wall(&s->order.limits, WALL_IO) || report->mechanism[WALL_IO])
        return 0;
    limits_drop_wall(&s->order.limits, WALL_IO);
    if (!engine_cell(s)->must[WALL_IO])
        return 0;
    return limits_refuse(reply, WALL_IO, -EOPNOTSUPP,
                         report->mechanism[WALL_MEMORY] == MECHANISM_CGROUP_V1
                             ? "cgroup version 1 does not throttle buffered writes"
                             : "not all of its files are on disks that the engine can limit");
}

/* What holds of the rest is the broker's to find out, and to refuse. The disk is ours; where it
 * may go depends on the memory limit. */
int engine_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply)
{
    static const enum wall walls[] = {WALL_MEMORY, WALL_CPU, WALL_PROCESSES, WALL_IO};
    for (size_t i = 0; i < ELEMENTS(walls); i++)
        engine_cell(s)->must[walls[i]] =
            limits_of_wall(&p->limits, walls[i]) && !p->weaker[walls[i]];
    s->mechanism[WALL_MEMORY] = limits->memory_bytes ? MECHANISM_CGROUP_V1 : MECHANISM_NONE;
    s->order.limits = *limits;
    int r = check_io(s, p, reply);
    if (r < 0)
        return r;
    return limits_apply_disk(s, p, limits, reply);
}
