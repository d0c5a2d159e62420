/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock as a second wall behind the mount namespace. */
#pragma once

/* A ruleset: everything below "/" may be read and executed; writing is left to the given places
 * (NULL-terminated paths of the calling process's root), device nodes and /proc. From ABI 6 on,
 * signals and abstract sockets do not leave the sandbox. Rules stick to what the paths name now.
 * Returns a descriptor or -errno. */
int landlock_open(int abi, const char *const *writable);
int landlock_allow_writing(int ruleset_fd, int abi, const char *path);
