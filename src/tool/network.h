/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox that is about to be made.
 *
 * Every front end that makes a sandbox for a caller gets its struct sandbox_maker here, after the
 * gate has decided on each host of the spec. sandbox_create() refuses a spec with a network whose
 * maker does not come from here, so that no way in can forget to ask. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct gate;
struct identity;
struct policy;
struct sandbox;
struct sandbox_maker;
struct spec;

/* Asks the gate about every host of the spec's network, and fills *ret for sandbox_create(), which
 * has to be called with this very spec. *ret borrows from who. */
int network_admit(struct gate *gate, const struct identity *who, const struct spec *spec,
                  struct sandbox_maker *ret, struct error *err);

/* Gives commands of the spec a network where at least one of the policies names hosts and none
 * switches the network off: the hosts that all of their lists allow. Policies may be NULL. Where
 * the runtime has no network by name, spec stays without one. */
int network_from_policies(struct spec *spec, const struct policy *const *policies, size_t n,
                          struct error *err);

/* For struct manager_options, with the gate as data: what the policy of the moment denies. */
char **network_denied_hosts(void *gate, const char *owner, const struct spec *spec);

/* What a command under these policies may have of its sandbox's network. At least one of the
 * policies limits it (NULLs are passed over); nothing is GATEWAY_HOST_NONE. The sandbox's own rules
 * are not in it: they are asked with every connection, so that a change of them, or a person's yes
 * to one that asks, holds for commands that run already. The caller frees. */
char **network_narrow(const struct policy *const *policies, size_t n);

/* Does the policy allow a command everything that the spec's network opens? */
bool network_is_within(const struct spec *spec, const struct policy *policy);
/* And everything that it can be widened to, of a sandbox with that policy of its own (or NULL)? */
bool network_stays_within(const struct policy *own, const struct policy *policy);
