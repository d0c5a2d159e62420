/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. */
#pragma once

#include "warden/cell-internal.h"
#include "warden/engine/engine.h"

#define ENGINE_ASKED_MAX 8

struct engine_cell {
    struct cell cell;
    uint8_t must[16]; /* walls without which there is no sandbox */
    struct engine_mark mark;
    uint64_t asked[ENGINE_ASKED_MAX]; /* tags of plans that the broker owes an answer to */
    bool recorded;                    /* its engine may know of it */
    bool ended;                       /* its container is known to be gone */
};

static inline struct engine_cell *engine_cell(const struct cell *s)
{
    return container_of(s, struct engine_cell, cell);
}

/* spawn.c: the broker, in the child of a cell; and for program_spawn() and tasks. */
void engine_exec_cell(const struct warden *w, int channel_fd, int failure_fd)
    __attribute__((noreturn));
void engine_exec(const struct warden *w, int channel_fd) __attribute__((noreturn));
/* The parts of an order that are the same for all sandboxes of an engine. */
void engine_order_init(const struct warden *w, enum engine_task task, enum oci_backend b,
                       struct engine_order *o);
void engine_order_from_record(const struct warden *w, enum engine_task task,
                              const struct engine_record *r, struct engine_order *o);

/* cell.c: functions of the row, see struct cell_ops. The start takes up what earlier wardens left,
 * before ids are given out that are in use already, and asks engines who they are. */
int engines_open(struct warden *w, struct error *err);
void engines_start(struct warden *w);
void engines_close(struct warden *w);
int engine_send_order(struct cell *s);
void engine_on_channel(struct cell *s);
int engine_freeze(struct cell *s, bool on, uint64_t tag);
int engine_read_stats(struct cell *s, struct plan_reply *ret);
void engine_abandon(struct cell *s);
bool engine_on_exit(struct cell *s);

/* limits.c: a function of the row. */
int engine_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply);

/* probe.c: functions of the row; the newest report of an engine, and whether the first one
 * is waited for. */
void engine_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret);
bool engine_probe_later(struct warden *w, enum oci_backend b, uint64_t tag);
void engine_probe_init(struct warden *w, enum oci_backend b);
void engine_probe_start(struct warden *w, enum oci_backend b);
void engine_probe_stop(struct engine_probe *p);
/* remove.c: starts removing what there is of a sandbox; s is ended (cell_end()) once nothing
 * of it runs. */
void engine_remove(struct warden *w, const struct engine_record *r, struct cell *s);
bool engine_is_removing(const struct warden *w, const char *id);
/* Whether something is being removed at all; if must, what has mounts that the host sees. */
bool engine_is_ending(const struct warden *w, bool must);
void engine_removals_stop(struct warden *w);
