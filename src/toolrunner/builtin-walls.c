/* SPDX-License-Identifier: Apache-2.0 */
/* walls: what this command finds of the sandbox's walls (proto/walls.h). A limit of 0 means no
 * limit, and so does one that cannot be read: a wall that is not known is not claimed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/strbuf.h"
#include "proto/walls.h"
#include "proto/witness.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"

#define FILE_MAX     65536
#define WITNESS_MS   500          /* a pod that may be reached answers within a few */
#define V1_UNLIMITED (1ull << 62) /* cgroup v1 rounds the largest number down to a page */

/* The numbers that a file begins with; "max" and what is not there are 0. Returns how many. */
static int read_numbers(const char *path, unsigned long long ret[2])
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    ret[0] = ret[1] = 0;
    if (fd_read_file_at(AT_FDCWD, path, &b) < 0 || strbuf_append(&b, "", 1) < 0)
        return 0;
    int n = sscanf(b.data, "%llu %llu", &ret[0], &ret[1]);
    return n < 0 ? 0 : n;
}

static void read_groups(struct walls *w)
{
    unsigned long long memory[2], quota[2], period[2];
    if (access("/sys/fs/cgroup/memory.max", R_OK) == 0) {
        w->cgroup = 2;
        read_numbers("/sys/fs/cgroup/memory.max", memory);
        if (read_numbers("/sys/fs/cgroup/cpu.max", quota) == 2 && quota[1])
            w->cpu_millicores = (uint32_t)(quota[0] * 1000 / quota[1]);
    } else if (access("/sys/fs/cgroup/memory/memory.limit_in_bytes", R_OK) == 0) {
        w->cgroup = 1;
        read_numbers("/sys/fs/cgroup/memory/memory.limit_in_bytes", memory);
        if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota) == 1 &&
            read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period) == 1 && period[0] &&
            quota[0] < V1_UNLIMITED)
            w->cpu_millicores = (uint32_t)(quota[0] * 1000 / period[0]);
    } else {
        return;
    }
    w->memory_bytes = memory[0] < V1_UNLIMITED ? memory[0] : 0;
}

static void read_status(struct walls *w)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    w->capabilities = UINT64_MAX;
    if (fd_read_file_at(AT_FDCWD, "/proc/self/status", &b) < 0 || strbuf_append(&b, "", 1) < 0)
        return;
    uint64_t all = 0;
    for (size_t i = 0; i < ELEMENTS(sets); i++) {
        const char *at = strstr(b.data, sets[i]);
        all |= at ? strtoull(at + strlen(sets[i]), NULL, 16) : UINT64_MAX;
    }
    w->capabilities = all;
    const char *seccomp = strstr(b.data, "\nSeccomp:"), *privs = strstr(b.data, "\nNoNewPrivs:");
    w->seccomp = seccomp ? (uint32_t)strtoul(seccomp + strlen("\nSeccomp:"), NULL, 10) : 0;
    w->no_new_privs = privs ? (uint32_t)strtoul(privs + strlen("\nNoNewPrivs:"), NULL, 10) : 0;
}

/* Each is started with words of its own, which no other kernel has. */
static uint32_t find_kernel(void)
{
    static const struct {
        const char *word;
        uint32_t kernel;
    } words[] = {{"-gvisor", WALLS_KERNEL_GVISOR},
                 {"kata-containers.target", WALLS_KERNEL_KATA},
                 {" agent.log", WALLS_KERNEL_KATA}};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    if (fd_read_file_at(AT_FDCWD, "/proc/cmdline", &b) < 0 || strbuf_append(&b, "", 1) < 0)
        return WALLS_KERNEL_ANY;
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strstr(b.data, words[i].word))
            return words[i].kernel;
    return WALLS_KERNEL_ANY;
}

/* Two calls that the filters of clusters allow, and that without any fail in another way or not at
 * all. */
static bool has_own_filter(void)
{
    bool no_contexts = syscall(SYS_io_setup, 0, NULL) < 0 && errno == ENOSYS;
    _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
    return no_contexts && fd < 0 && errno == EPERM;
}

static void read_place(const char *path, struct walls_place *ret)
{
    struct statfs fs;
    struct stat root, here;
    if (statfs(path, &fs) < 0 || stat("/", &root) < 0 || stat(path, &here) < 0)
        return;
    ret->bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->in_memory = fs.f_type == TMPFS_MAGIC;
    ret->is_mount = here.st_dev != root.st_dev;
}

int builtin_walls(int argc, char **argv)
{
    struct statvfs root;
    struct rlimit processes;
    struct walls w = {.version = WALLS_VERSION, .uid = geteuid(), .gid = getegid()};
    int abi = landlock_abi();
    read_groups(&w);
    read_status(&w);
    w.landlock_abi = abi > 0 ? (uint32_t)abi : 0;
    w.root_read_only = statvfs("/", &root) == 0 && root.f_flag & ST_RDONLY;
    w.own_processes = getppid() == 1;
    w.own_filter = has_own_filter();
    w.kernel = find_kernel();
    w.processes = getrlimit(RLIMIT_NPROC, &processes) == 0 ? processes.rlim_cur : UINT64_MAX;
    w.witness = argc > 1 && *argv[1] ? witness_try(argv[1], false, WITNESS_MS) : WITNESS_UNKNOWN;
    for (int i = 2; i < argc && w.n_places < WALLS_PLACES_MAX; i++)
        read_place(argv[i], &w.places[w.n_places++]);
    return fd_write_all(STDOUT_FILENO, &w, sizeof(w)) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
