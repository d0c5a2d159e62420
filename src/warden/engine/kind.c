/* SPDX-License-Identifier: Apache-2.0 */
/* The row of cells that a container engine holds; see engine.h. */
#include <errno.h>
#include <stdio.h>

#include "warden/engine/internal.h"

static bool engine_takes(const struct plan *p)
{
    return oci_backend_is_engine(p->backend);
}

/* Those on the host's kernel: one of the sandbox's own takes no link that comes when it runs. */
static bool engine_has_addresses(enum oci_backend b)
{
    return oci_backend_is_engine(b);
}

static int engine_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    if (p->flags & PLAN_ADDRESSES && p->inner) {
        snprintf(reply->message, sizeof(reply->message),
                 "a container engine's sandbox with a kernel of its own has no network by address");
        return -EOPNOTSUPP;
    }
    if (engines_of(w)->probe[p->backend].enabled)
        return 0;
    snprintf(reply->message, sizeof(reply->message),
             w->was_root ? "%s is not in 'engines'" : "%s needs a daemon that root started",
             oci_backend_name((enum oci_backend)p->backend));
    return -EOPNOTSUPP;
}

static void engine_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    warden_describe_host(w, ret);
    engine_describe(w, b, ret);
}

static void engine_main(const struct cell *s, const struct cell_ends *ends)
{
    engine_exec_cell(s->warden, ends->channel, ends->failure);
}

static bool engine_dials(const struct cell *s)
{
    (void)s;
    return true;
}

static void engine_describe_cell(const struct cell *s, struct plan_reply *ret)
{
    ret->pid = engine_cell(s)->mark.pid;
}

const struct cell_ops cell_engine = {
    .size = sizeof(struct engine_cell),
    .open_host = engines_open,
    .start_host = engines_start,
    .is_ending = engine_is_ending,
    .close_host = engines_close,
    .needs_namespaces = true,
    .has_proxy = true,
    .has_authority = true,
    .has_addresses = engine_has_addresses,
    .takes = engine_takes,
    .check = engine_check,
    .is_removing = engine_is_removing,
    .probe = engine_probe,
    .probe_later = engine_probe_later,
    .take_ids = cell_take_ids,
    .clone = cell_clone, /* without a group: the engine has groups of its own */
    .main = engine_main,
    .apply_limits = engine_apply_limits,
    .send_order = engine_send_order,
    .dials = engine_dials,
    .on_channel = engine_on_channel,
    .kill = cell_kill_process,
    .freeze = engine_freeze,
    .read_stats = engine_read_stats,
    .describe = engine_describe_cell,
    .abandon = engine_abandon,
    .on_exit = engine_on_exit,
};
