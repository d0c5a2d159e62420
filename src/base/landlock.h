/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock by raw system calls and our own constants: the C library has no wrappers, and the
 * headers of distributions lag behind kernels. What the running kernel does not know is left out by
 * its ABI. Nothing here allocates: a child that shares its parent's memory may call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LANDLOCK_EXECUTE     (1ull << 0)
#define LANDLOCK_WRITE_FILE  (1ull << 1)
#define LANDLOCK_READ_FILE   (1ull << 2)
#define LANDLOCK_READ_DIR    (1ull << 3)
#define LANDLOCK_REMOVE_DIR  (1ull << 4)
#define LANDLOCK_REMOVE_FILE (1ull << 5)
#define LANDLOCK_MAKE_CHAR   (1ull << 6)
#define LANDLOCK_MAKE_DIR    (1ull << 7)
#define LANDLOCK_MAKE_REG    (1ull << 8)
#define LANDLOCK_MAKE_SOCK   (1ull << 9)
#define LANDLOCK_MAKE_FIFO   (1ull << 10)
#define LANDLOCK_MAKE_BLOCK  (1ull << 11)
#define LANDLOCK_MAKE_SYM    (1ull << 12)
#define LANDLOCK_REFER       (1ull << 13) /* ABI 2 */
#define LANDLOCK_TRUNCATE    (1ull << 14) /* ABI 3 */
#define LANDLOCK_IOCTL_DEV   (1ull << 15) /* ABI 5 */
/* Those that mean something for a file that is no directory. */
#define LANDLOCK_ON_FILE                                                                           \
    (LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE | LANDLOCK_TRUNCATE |             \
     LANDLOCK_IOCTL_DEV)

#define LANDLOCK_CONNECT_TCP (1ull << 1) /* of rights to the network */

#define LANDLOCK_ABI_TRUNCATE 3 /* before it, Landlock cannot refuse the emptying of a file */
#define LANDLOCK_ABI_NET      4 /* before it, nor can it refuse a connection */

/* Does the runner need a system call filter for what this ABI cannot refuse? */
static inline bool landlock_needs_filter(int abi)
{
    return abi > 0 && abi < LANDLOCK_ABI_TRUNCATE;
}

/* What a ruleset refuses unless a rule allows it. In the kernel's layout. */
struct landlock_rights {
    uint64_t fs;
    uint64_t net;    /* ABI 4: binding and connecting TCP */
    uint64_t scoped; /* ABI 6: abstract sockets and signals do not leave the domain */
};

/* The kernel's ABI, 0 where Landlock is missing or off. */
int landlock_abi(void);
/* All that a kernel of this ABI can refuse. */
struct landlock_rights landlock_known(int abi);
/* A ruleset that refuses all of these. A descriptor or -errno. */
int landlock_ruleset_open(int abi, const struct landlock_rights *refused);
/* Allows rights below what fd names; those that do not fit a file are left out for one. */
int landlock_ruleset_allow(int ruleset_fd, int fd, uint64_t rights);
/* Allows rights at one TCP port. */
int landlock_ruleset_allow_port(int ruleset_fd, uint16_t port, uint64_t rights);
/* Applies it to the calling process, for good. no_new_privs must be set. */
int landlock_restrict(int ruleset_fd);
