/* SPDX-License-Identifier: Apache-2.0 */
/* Starts brokers: from a copy of the warden to the program that speaks with an engine. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/engine/internal.h"
#include "warden/program.h"

_Static_assert(ENGINE_VIEW_FD == PROGRAM_VIEW_FD, "where the broker looks for it");

void engine_exec_cell(const struct warden *w, int channel_fd, int failure_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* The template, before it is out of sight. */
    const struct program_ends ends = {
        .stream = -1,
        .channel = channel_fd,
        .failure = failure_fd,
        .view = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE),
        .log = true,
    };
    if (ends.view < 0 || setns(w->host_ns_fd, CLONE_NEWNS) < 0 ||
        program_arrange(&ends, engines_of(w)->program_fd) < 0)
        _exit(125);
    program_exec("mas-engine");
}

void engine_exec(const struct warden *w, int channel_fd)
{
    engine_exec_cell(w, channel_fd, open("/dev/null", O_WRONLY | O_CLOEXEC));
}

void engine_order_init(const struct warden *w, enum engine_task task, enum oci_backend b,
                       struct engine_order *o)
{
    const struct warden_options *options = &w->options;
    *o = (struct engine_order){
        .task = task,
        .backend = b,
        .timeout_ms = options->config.engine_timeout_ms,
        .connect_timeout_ms = options->config.engine_connect_timeout_ms,
        .start_timeout_ms = options->config.engine_start_timeout_ms,
        .user_limits = w->child_template.user_limits,
    };
    memcpy(o->socket, engines_of(w)->probe[b].socket, sizeof(o->socket));
    snprintf(o->dir, sizeof(o->dir), "%s", engines_of(w)->dir);
}

void engine_order_from_record(const struct warden *w, enum engine_task task,
                              const struct engine_record *r, struct engine_order *o)
{
    engine_order_init(w, task, (enum oci_backend)r->plan.backend, o);
    o->inner = r->plan.inner;
    o->runner_id = r->runner_id;
    o->tool_id = r->tool_id;
    o->nobody_id = r->nobody_id;
    o->mark = r->mark;
    memcpy(o->id, r->plan.id, sizeof(o->id));
    memcpy(o->image, r->plan.image, sizeof(o->image));
    snprintf(o->dir, sizeof(o->dir), "%s/%s", engines_of(w)->dir, r->plan.id);
}
