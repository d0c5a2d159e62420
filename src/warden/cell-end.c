/* SPDX-License-Identifier: Apache-2.0 */
/* From the exit of a cell's process to nothing left of it. */
#include "warden/cell-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/blank.h"
#include "warden/control.h"
#include "warden/intercept.h"
#include "warden/egress.h"

#define END_TURN_MS     50
#define END_MAX_MS      10000 /* for killed processes to be reaped at the warden's end */
#define END_REMOVALS_MS 3000  /* for kinds to remove what the next warden would */

/* Gives back all that the cell holds of the host. The watches go first: no event of a descriptor
 * may come after it is closed, because its number may belong to another cell by then. The ids and
 * the control group go last, after everything that used them: a block of ids is given to the next
 * cell at once, and the janitor can remove a group only when no process is left in it. */
void cell_release(struct cell *s)
{
    struct warden *w = s->warden;
    watch_remove(s->failure_watch);
    watch_remove(s->channel_watch);
    watch_remove(s->timer);
    s->failure_watch = s->channel_watch = s->timer = NULL;
    s->pidfd = -1;
    disk_job_cancel(s->disk_job);
    s->disk_job = NULL;
    cell_release_claim(s);
    fd_close(&s->failure_fd);
    fd_close(&s->stream_fd);
    fd_close(&s->network_fd);
    fd_close(&s->channel_fd);
    child_trees_close(&s->trees);
    egress_detach(s);
    if (s->ops->end)
        s->ops->end(s);
    if (s->plan.flags & PLAN_AUTHORITY)
        intercept_end(w, s->id);
    id_block_release(&w->ids, s->id_block);
    janitor_remove(&w->janitor, &s->cgroup);
}

/* Sending may find the control plane gone, so each turn looks whether there still is one: what was
 * not sent stays for the next. */
void cell_flush_exited(struct warden *w)
{
    list_for_each_safe(s, &w->exited, struct cell, link) {
        if (!control_is_attached(w))
            return;
        list_remove(&s->link);
        w->n_exited--;
        /* The event has no tag: no request asked for it. */
        struct plan_reply event = {.event = EVENT_EXITED,
                                   .wall = -1,
                                   .wait_status = s->wait_status,
                                   .oom_kills = s->oom_kills};
        cell_describe(s, &event);
        control_send(s->warden, &event, -1);
        free(s);
    }
}

/* No runner will connect any more. */
static void refuse_connect(struct cell *s)
{
    struct plan_reply reply = {.tag = s->connect_tag, .wall = -1, .error = ECHILD};
    if (!s->connect_tag)
        return;
    s->connect_tag = 0;
    memcpy(reply.id, s->id, sizeof(reply.id));
    snprintf(reply.message, sizeof(reply.message), "the sandbox is gone");
    control_send(s->warden, &reply, -1);
}

static void end_running(struct cell *s)
{
    struct warden *w = s->warden;
    refuse_connect(s);
    map_remove(w->by_id, s->id);
    /* Its create was abandoned, or it was a try of the warden's own: no control plane knows of it.
     */
    if (!s->plan.tag)
        return free(s);
    s->state = CELL_EXITED;
    /* A control plane may be restarting. How the sandbox ended is kept until one has heard of it,
     * for as many as could ever live at once. */
    if (w->n_exited == w->options.max_sandboxes) {
        struct cell *oldest = container_of(w->exited.next, struct cell, link);
        list_remove(&oldest->link);
        w->n_exited--;
        free(oldest);
    }
    list_append(&w->exited, &s->link);
    w->n_exited++;
    cell_flush_exited(w);
}

void cell_end(struct cell *s)
{
    cell_release(s);
    end_running(s);
}

/* The only way out of every state, whichever side ended it. What the client hears depends on the
 * state: a blank has no client, a create that was not answered yet is answered with its failure,
 * and of a running sandbox an event says that it has ended. */
void cell_on_child_exit(pid_t pid, int wait_status, void *data)
{
    struct cell *s = data;
    (void)pid;
    s->child_watch = NULL;
    /* Of a child that failed, the exit may be seen before its last words in the pipe. */
    if (!s->failure.error)
        cell_read_failure(s);
    if (s->ops->on_exit && s->ops->on_exit(s))
        return;
    s->wait_status = wait_status;
    /* The group counts its kills, and is gone after the release. */
    s->oom_kills = s->state == CELL_RUNNING ? cgroup_oom_kills(&s->cgroup) : 0;
    cell_release(s);
    switch (s->state) {
    case CELL_BLANK:
        blank_on_end(s);
        return free(s);
    case CELL_WAITING:
    case CELL_FORMATTING:
    case CELL_STARTING:
        cell_reply_to_create(s, s->failure.error ? s->failure.error
                                : s->killed      ? ECANCELED
                                                 : ECHILD);
        map_remove(s->warden->by_id, s->id);
        return free(s);
    case CELL_RUNNING:
        return end_running(s);
    case CELL_EXITED:
        break;
    }
}

static bool kinds_are_ending(const struct warden *w, bool must)
{
    bool ending = false;
    for (int kind = 0; kind < _CELL_KIND_MAX && !ending; kind++)
        ending = cell_kinds[kind]->is_ending && cell_kinds[kind]->is_ending(w, must);
    return ending;
}

/* The warden ends. Everything is killed first and waited for together, so that a hundred sandboxes
 * take no longer than one. The control plane is cut off before: it is to see a warden that has
 * gone, and not a sandbox after the other that has ended. */
void cell_end_all(struct warden *w)
{
    size_t cursor = 0;
    control_detach(w);
    for (struct cell *s; (s = map_next(w->by_id, &cursor));)
        cell_kill(s);
    blanks_kill_all(w);
    int64_t end = clock_mono_ms() + END_MAX_MS;
    while ((map_count(w->by_id) || !blanks_are_gone(w)) && clock_mono_ms() < end)
        watcher_once(w->watcher, END_TURN_MS);
    while (kinds_are_ending(w, true) && clock_mono_ms() < end)
        watcher_once(w->watcher, END_TURN_MS);
    end = clock_mono_ms() + END_REMOVALS_MS; /* what is left is the next warden's */
    while (kinds_are_ending(w, false) && clock_mono_ms() < end)
        watcher_once(w->watcher, END_TURN_MS);
    list_for_each_safe(s, &w->exited, struct cell, link) {
        list_remove(&s->link);
        free(s);
    }
    w->n_exited = 0;
}
