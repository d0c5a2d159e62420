/* SPDX-License-Identifier: Apache-2.0 */
/* Blanks: processes that are everything a sandbox is but for its order, never used by any.
 *
 * Some are made ahead, as many as a kind wants, so that a plan need not wait for one. Most plans
 * ask for the operator's defaults and nothing else. For them some blanks are armed: they have the
 * order that such a plan would give them, their limits included, and their runner waits for a
 * connection. An armed blank was never used either, and is given only to a plan that would have
 * made exactly it; any other plan takes a plain one. */
#pragma once

#include <stdbool.h>

#include "proto/plan.h"
#include "warden/kind.h"

struct cell;
struct warden;

/* Finds out from the options what most plans ask for; once, before there are blanks. */
void blanks_init(struct warden *w);
/* Makes blanks up to the wanted number: a few at once, at the start; the rest soon, one by one. */
void blanks_fill(struct warden *w);
/* A plan took one: others are made when it is quiet. */
void blanks_plan_refill(struct warden *w);
/* Waits until the first blank has shown whether there can be any. */
void blanks_settle(struct warden *w);
/* The warden ends: kills all of them, and makes no more. */
void blanks_kill_all(struct warden *w);
bool blanks_are_gone(const struct warden *w);

/* The cell for a plan: an armed blank, a plain one, or else a new one. Returns NULL with reply set.
 */
struct cell *blank_take(struct warden *w, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply);
/* The process of a cell without a plan has become a blank: it is armed, where armed ones miss. */
void blank_on_ready(struct cell *s);
/* A cell that never got a plan has ended: takes it out of its list, and plans another one. */
void blank_on_end(struct cell *s);
