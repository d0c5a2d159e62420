/* SPDX-License-Identifier: Apache-2.0 */
/* The network namespaces of local sandboxes, in the zygote, which enters one before each clone.
 *
 * Theory of operation. To make a network namespace and to take it apart again is a fifth of what
 * the kernel does for a sandbox that runs one command, and most commands never send a packet. So a
 * namespace that is as new when its sandbox has ended is given to a later one.
 *
 * "As new" is not believed but looked at. A sandbox has no capability over its network: the
 * namespace belongs to the warden's user namespace, not to the sandbox's, and the zygote raises
 * loopback. So nothing inside can change interfaces, addresses, routes, rules or sysctls. By the
 * system call filter it can have sockets of the families UNIX, INET and INET6 (no raw ones) and
 * NETLINK_ROUTE. What such a socket can leave behind is
 *
 * - itself, while anything refers to it: an open descriptor, one under way in a message, a
 *   connection that is being closed, TIME_WAIT. The kernel counts those (sockstat);
 * - what follows from packets: figures, TCP metrics, neighbours, route exceptions, fragments. No
 *   packet passes without a counter (dev, snmp, snmp6, netstat), also one that is refused;
 * - flow labels, which linger (ip6_flowlabel), copies of routes (rt6_stats), the key that the first
 *   listener for TCP's fast open has made (tcp_fastopen_key), memberships of groups (igmp, igmp6,
 *   mcfilter, mcfilter6).
 *
 * All of these files must read exactly as in a namespace that was just made. If one differs, or
 * cannot be read, the namespace is not used again. The warden offers only those of sandboxes that
 * had the usual plan, whose processes are all reaped (kind.c). */
#pragma once

/* Once, in the namespace that the zygote comes back to, or where it may not, from which it moves to
 * one of its own. 0 or -errno. */
int network_init(void);
/* Enters the namespace of the next sandbox: that of used_fd, if it is as new, or a new one, with
 * loopback up. used_fd may be -1. 0 or -errno. */
int network_enter(int used_fd);
/* Back to the zygote's own. */
int network_leave(void);
