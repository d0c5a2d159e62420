/* SPDX-License-Identifier: Apache-2.0 */
/* The network namespaces of local sandboxes, in the zygote, which is in a new one before each
 * clone: so it belongs to the warden's user namespace, and nothing in the sandbox has a right over
 * it. It is made right after the clone before, because that takes longer than all else the zygote
 * does and waits for networks that are being taken apart: the warden, which waits for the clone,
 * would wait for that, too, and with it each create that has its blank already.
 *
 * A namespace is never given to a second sandbox. It was tried, with a look at all that the kernel
 * shows of one: a connection that is closed late, by the process that its socket was passed to,
 * still sent a packet in the next sandbox. */
#pragma once

/* Leaves the namespace that a clone was given for a new one, with loopback up; where the zygote is
 * in a new one already, nothing is to be done. 0 or -errno, and then no clone may follow. */
int network_prepare(void);
/* Before the clone that the namespace is for, whether that succeeds or not. */
void network_give(void);
