/* SPDX-License-Identifier: Apache-2.0 */
/* A cell is the warden's side of one sandbox. Its life: blank, ordered, running, reaped, removed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/plan.h"

struct cell;
struct child_trees;
struct warden;

#define CELL_HOSTNAME "sandbox" /* where a plan does not say */

/* Starts a sandbox from a plan that ceiling_check() accepted; takes trees. 0: the reply follows
 * from here. Otherwise -errno with reply's message and wall set, and nothing is left behind. */
int cell_create(struct warden *w, const struct plan *p, const struct limits *limits,
                struct child_trees *trees, struct plan_reply *reply);
struct cell *cell_find(const struct warden *w, const char *id);
/* The same of what is not quite gone, too. */
bool cell_exists(const struct warden *w, const char *id);
/* Whether sandboxes of the kind that a plan asks for may have a network by address. */
bool cell_has_addresses(const struct plan *p);
int cell_kill(struct cell *s);
/* The control plane that waits for them is gone, and the next one could not know them: those that
 * do not run yet are ended, because no caller would ever use them. */
void cell_abandon_creates(struct warden *w);
/* A fresh connection to its runner: the control plane's end, or -errno. -EINPROGRESS: the reply
 * with this tag follows from here. */
int cell_connect(struct cell *s, uint64_t tag);
/* Both: -EINPROGRESS when the reply with this tag follows from here. */
int cell_freeze(struct cell *s, bool on, uint64_t tag);
int cell_read_stats(struct cell *s, struct plan_reply *ret);
/* Fills id, pid and mechanisms. */
void cell_describe(const struct cell *s, struct plan_reply *ret);
/* Sends the EXITED events that no control plane has had yet. */
void cell_flush_exited(struct warden *w);
/* Kills all, reaps all, removes all. */
void cell_end_all(struct warden *w);
