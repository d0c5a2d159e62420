/* Landlock as a second wall behind the mount namespace. */
#pragma once

#include <stdbool.h>

/* The kernel's version of the interface, 0 without Landlock. */
int landlock_abi(void);
/* Everything below "/" may be read and executed; writing is left to the given places
 * (NULL-terminated paths of the calling process's root), device nodes and /proc. From ABI 6 on,
 * signals and abstract sockets do not leave the sandbox. no_new_privs must be set. 0 or -errno. */
int landlock_apply(int abi, const char *const *writable);
