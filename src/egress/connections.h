/* SPDX-License-Identifier: Apache-2.0 */
/* What conntrack knows of the connections of a sandbox.
 *
 * A connection has the sandbox's slot as its mark. Packets from outside pass as answers to one, so
 * a connection that may not be any more has to be forgotten: then nothing of it comes in, and what
 * the sandbox sends is refused by the rules, as a new one is. Others are left alone. One that was
 * forgotten without need could not go on before the sandbox sends something, which a sandbox that
 * only waits for data never does. */
#pragma once

#include <stdint.h>

#include "proto/net.h"

/* All of a slot's. sock: of netfilter, in the router's namespace. 0 or -errno. */
int connections_forget(int sock, uint32_t slot);
/* Those that these ranges do not allow. 0 or -errno. */
int connections_forget_others(int sock, uint32_t slot, const struct net_range *ranges, uint32_t n);
/* What the host has translated for sandboxes of these pools. sock: of netfilter, in the host's
 * namespace. An answer that comes when they are gone would be translated back and sent on by the
 * host, to wherever its routes lead. 0 or -errno. */
int connections_forget_pools(int sock, const struct net_config *c);
