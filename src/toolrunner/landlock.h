/* SPDX-License-Identifier: Apache-2.0 */
/* The Landlock domain of a command. Runs in a child that shares the runner's memory, so
 * it allocates nothing. */
#pragma once

#include <stdint.h>

struct msg_spawn;

/* Enters a domain. With proxy_port, TCP connections go to that port of whatever address and to no
 * other, which takes ABI 4 (-ENOSYS). With SPAWN_NARROW, only the system's directories (to read and
 * run) and msg->paths stay reachable. In any case a process in it cannot trace one outside of it,
 * and from ABI 6 on cannot signal it or reach its abstract sockets. Returns 0 or -errno; a listed
 * path that does not exist is not granted, one that cannot be opened without following a symlink is
 * an error. */
int landlock_enter(int abi, uint16_t proxy_port, const struct msg_spawn *msg);
