/* SPDX-License-Identifier: Apache-2.0 */
/* How the gateway gives up what it was born with. */
#pragma once

#include <sys/types.h>

/* Moves sock to a known descriptor, closes all others but 0 to 2. Returns the new descriptor. */
int confine_descriptors(int sock);
/* Becomes uid and gid for good, when root; no new privileges, no core, dies with its parent. */
/* What does not depend on the user: the process dies with its parent, is not dumped, and gains
 * no rights by an exec. */
int confine_process(void);
int confine_identity(uid_t uid, gid_t gid);
/* No file can be written, made or executed any more, where the kernel has Landlock. */
void confine_files(void);
/* No signal is blocked; a closed log pipe and a terminal's interrupt, which is for the daemon, are
 * ignored. */
void confine_signals(void);
