/* SPDX-License-Identifier: Apache-2.0 */
#include "base/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1
#define RULE_NET_PORT          2
#define FS_ABI1                (LANDLOCK_REFER - 1)
#define NET_BIND_CONNECT       3ull
#define SCOPE_SOCKET_SIGNAL    3ull

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct net_port_attr {
    uint64_t allowed_access;
    uint64_t port;
};

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

struct landlock_rights landlock_known(int abi)
{
    struct landlock_rights known = {.fs = FS_ABI1};
    if (abi >= 2)
        known.fs |= LANDLOCK_REFER;
    if (abi >= LANDLOCK_ABI_TRUNCATE)
        known.fs |= LANDLOCK_TRUNCATE;
    if (abi >= LANDLOCK_ABI_NET)
        known.net = NET_BIND_CONNECT;
    if (abi >= 5)
        known.fs |= LANDLOCK_IOCTL_DEV;
    if (abi >= 6)
        known.scoped = SCOPE_SOCKET_SIGNAL;
    return known;
}

/* Older kernels know a shorter struct. */
static size_t rights_size(int abi)
{
    if (abi >= 6)
        return sizeof(struct landlock_rights);
    return abi >= LANDLOCK_ABI_NET ? offsetof(struct landlock_rights, scoped)
                                   : offsetof(struct landlock_rights, net);
}

int landlock_ruleset_open(int abi, const struct landlock_rights *refused)
{
    int fd = (int)syscall(SYS_landlock_create_ruleset, refused, rights_size(abi), 0);
    return fd < 0 ? -errno : fd;
}

int landlock_ruleset_allow(int ruleset_fd, int fd, uint64_t rights)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rights &= LANDLOCK_ON_FILE;
    struct path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    long r = syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &rule, 0);
    return r < 0 ? -errno : 0;
}

int landlock_ruleset_allow_port(int ruleset_fd, uint16_t port, uint64_t rights)
{
    struct net_port_attr rule = {.allowed_access = rights, .port = port};
    long r = syscall(SYS_landlock_add_rule, ruleset_fd, RULE_NET_PORT, &rule, 0);
    return r < 0 ? -errno : 0;
}

int landlock_restrict(int ruleset_fd)
{
    return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}
