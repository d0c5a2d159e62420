/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a virtual machine, which is the runner's program once more.
 *
 * Theory of operation. The kernel starts it from an initramfs with nothing else in it but modules.
 * It mounts the root that the first disk holds, tells mas-vmm that it is ready (proto/guest.h) and
 * waits for its order. That is the moment in which a machine can be kept, and copied: whatever must
 * not be the same in two copies comes with the order. Then it does for one sandbox what the warden
 * does on a host: it clones a child that puts on the very walls of a local sandbox
 * (warden/local/child.h) and executes the runner, so that no secret of its memory is in two copies.
 * From there on it carries bytes between the data port and the runner's connection (link.c), and
 * ends the machine when the runner ends. Tools never see it: they are in a process namespace of the
 * runner's. */
#pragma once

#include <stdbool.h>

/* Whether a kernel has started the caller as its first process. */
bool guest_is_here(int argc, char **argv);
void guest_main(void) __attribute__((noreturn));
