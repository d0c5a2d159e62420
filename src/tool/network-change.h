/* SPDX-License-Identifier: Apache-2.0 */
/* A change of a running sandbox's network, as a caller asks for it.
 *
 * What narrows is done at once. What widens is a call of the tool "network": one host, one port and
 * a time, which the sandbox's own policy and the operator's decide on, a person if a rule asks for
 * one; it is on record before it holds. What the operator closed for all sandboxes stays closed,
 * because the gateway knows nothing of any of this. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guard/gate.h"
#include "sandbox/network.h"

struct approval;
struct error;
struct sandbox;
struct target;
struct widening;

#define NETWORK_FOR_MIN_S 1
#define NETWORK_FOR_MAX_S 86400
#define NETWORK_ASKED_S   3600

struct widening_request {
    struct gate *gate;
    struct sandbox *sandbox;
    const struct identity *who;
    const struct gate_terms *terms;
    bool ask; /* a person is asked, whatever the policy says; a no becomes a rule that denies */
    int64_t now_s; /* what the ends of the rules were counted from: a second later, they would be
                      for one less, and a yes to them for others */
    struct network_change change; /* all of it is copied */
};

/* fn comes exactly once, later or from inside, with err set where nothing was changed. Returns the
 * call while it is under way, NULL when fn has come. ERROR_PENDING as of a run. */
struct widening *network_change_start(const struct widening_request *req, network_change_fn fn,
                                      void *data);
/* For struct manager_options, with the gate as data: asks a person whether a sandbox may have that
 * rule for NETWORK_ASKED_S, as a call of its owner's. */
void network_ask(void *gate, struct sandbox *sb, const char *rule, network_change_fn fn,
                 void *data);

/* The caller does not wait any more: fn does not come. A question to a person stays open, and the
 * caller may come back with its grant. */
void network_change_abandon(struct widening *w);
