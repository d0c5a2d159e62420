/* SPDX-License-Identifier: Apache-2.0 */
/* Networks by address: the warden's side of mas-net (egress/router.h).
 *
 * The warden makes the router's namespace and keeps it open, starts mas-net in front of it where
 * the operator allows any network by address, and starts it again when it dies. It says which slot
 * a sandbox has, so that nothing depends on what a mas-net that died knew. */
#pragma once

#include <stdint.h>

#include "proto/plan.h"

struct cell;
struct warden;

struct egress;

/* At the warden's start, where the operator has set it up. What cannot be is logged, and refused
 * when it is asked for. */
void egress_start(struct warden *w);
void egress_stop(struct warden *w);

/* Whether a plan may have what it asks for: the kind of its cell, the operator's ceiling, mas-net.
 * Returns -errno with reply's wall and message set. */
int egress_check(const struct warden *w, const struct plan *p, struct plan_reply *reply);

/* Gives a cell whose process is in the sandbox's network, or whose kind has a tap, its way out;
 * cell_on_network() follows, once, unless it fails. */
int egress_attach(struct cell *s);
/* Takes the way out of a cell that ended, and gives up waiting. */
void egress_detach(struct cell *s);
/* Other ranges for a cell that has one. The reply with the plan's tag follows unless it fails. */
int egress_replace(struct cell *s, const struct plan *p, struct plan_reply *reply);
