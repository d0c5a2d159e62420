/* SPDX-License-Identifier: Apache-2.0 */
/* The network namespaces of local sandboxes, in the zygote, which makes one before each clone: so
 * it belongs to the warden's user namespace, and nothing in the sandbox has a right over it. A
 * namespace is never given to a second sandbox. It was tried, with a look at all that the kernel
 * shows of one: a connection that is closed late, by the process that its socket was passed to,
 * still sent a packet in the next sandbox. */
#pragma once

/* Once, in the namespace that the zygote comes back to, or where it may not, from which it moves to
 * one of its own. 0 or -errno. */
int network_init(void);
/* Enters a new namespace, with loopback up. 0 or -errno. */
int network_enter(void);
/* Back to the zygote's own. */
int network_leave(void);
