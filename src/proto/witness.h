/* SPDX-License-Identifier: Apache-2.0 */
/* The witness: a pod that answers every connection, and that a pod behind a network policy must not
 * reach. The broker makes one (kube/broker-prove.c), mas-link is its program (pod/reach.h), and the
 * runner of every pod tries to reach it before the pod is used (proto/walls.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WITNESS_PORT         4743
#define WITNESS_GREETING     "mas-witness 1\n"
#define WITNESS_ADDRESS_SIZE 48

enum witness_answer {
    WITNESS_UNKNOWN, /* it was not tried, or something else than the network kept it from that */
    WITNESS_CLOSED,  /* no connection came about */
    WITNESS_REACHED,
    _WITNESS_ANSWER_MAX,
};

/* One attempt at an address in digits. greeted: the connection counts only once the witness has
 * said its line; without it, a connection that something on the way has taken counts as well, so
 * that nothing which answers passes for a wall. */
enum witness_answer witness_try(const char *address, bool greeted, int timeout_ms);
