/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's system call filter, for a runner that another program started: handed over as a
 * file of instructions. */
#pragma once

/* Applies it to this process and all that comes from it, and closes fd. no_new_privs must be set. 0
 * or -errno. */
int filter_apply(int fd);
