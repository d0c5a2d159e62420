/* SPDX-License-Identifier: Apache-2.0 */
/* The way out of the keeper's network.
 *
 * The keeper and all that it starts are in a network namespace without links. What skopeo wants
 * from outside it asks a proxy on the namespace's loopback for, the outlet: a process that has the
 * gateway's socket and passes each connection on. The gateway speaks with skopeo, decides by the
 * operator's rules as it does for sandboxes, looks names up and dials; the hosts are those of
 * images_registries and images_hosts. Neither a worker nor skopeo has another way, whatever takes
 * them over.
 *
 * Programs written in Go never ask a proxy for loopback addresses. So a registry that the operator
 * listed there ("localhost:5000") has its port in the namespace, where the outlet listens as well
 * and has the gateway dial the real one. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct error;
struct keeper_options;

/* Starts the process, which ends with the caller, and says at which port of loopback its proxy is.
 * Returns its pid, or negative with err set. */
pid_t outlet_start(const struct keeper_options *o, uint16_t *ret_port, struct error *err);
