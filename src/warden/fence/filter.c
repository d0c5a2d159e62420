/* SPDX-License-Identifier: Apache-2.0 */
/* What a fenced sandbox may not call beside what no sandbox may (filter/filter-sandbox.c): a second
 * filter, for what namespaces keep apart elsewhere. */
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "warden/fence/fence.h"

#define IOPRIO_WHO_USER 3
#define SOCKET_TYPE     0xf

struct refusal {
    const char *name;
    int error;
    unsigned n;
    struct scmp_arg_cmp arg;
};

#define ANY(name, error)                                                                           \
    {                                                                                              \
        name, error, 0,                                                                            \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define WHEN(name, index, op, ...)                                                                 \
    {                                                                                              \
        name, EPERM, 1,                                                                            \
        {                                                                                          \
            index, op, __VA_ARGS__                                                                 \
        }                                                                                          \
    }

static const struct refusal always[] = {
    /* Landlock knows no rule about connecting to a socket in the file system, and the address is
     * behind a pointer: there are pairs only, and of them none that can send elsewhere. */
    ANY("socket", EPERM),
    WHEN("socketpair", 1, SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_DGRAM),
    WHEN("socketpair", 1, SCMP_CMP_MASKED_EQ, SOCKET_TYPE, SOCK_RAW),
    /* No ipc namespace: these are the host's. */
    ANY("shmget", EPERM),
    ANY("shmat", EPERM),
    ANY("shmctl", EPERM),
    ANY("msgget", EPERM),
    ANY("msgsnd", EPERM),
    ANY("msgrcv", EPERM),
    ANY("msgctl", EPERM),
    ANY("semget", EPERM),
    ANY("semop", EPERM),
    ANY("semtimedop", EPERM),
    ANY("semtimedop_time64", EPERM),
    ANY("semctl", EPERM),
    ANY("ipc", EPERM),
    ANY("mq_open", EPERM),
    ANY("mq_unlink", EPERM),
    /* Names of what changes in a directory that may not be read. Programs fall back on ENOSYS. */
    ANY("inotify_init", ENOSYS),
    ANY("inotify_init1", ENOSYS),
    /* The kernel compares users only, and the runner's effective one is the commands'. */
    WHEN("setpriority", 1, SCMP_CMP_NE, 0),
    WHEN("setpriority", 0, SCMP_CMP_EQ, PRIO_USER),
    WHEN("ioprio_set", 1, SCMP_CMP_NE, 0),
    WHEN("ioprio_set", 0, SCMP_CMP_EQ, IOPRIO_WHO_USER),
    WHEN("sched_setaffinity", 0, SCMP_CMP_NE, 0),
    WHEN("sched_setattr", 0, SCMP_CMP_NE, 0),
    WHEN("sched_setparam", 0, SCMP_CMP_NE, 0),
    WHEN("sched_setscheduler", 0, SCMP_CMP_NE, 0),
    WHEN("prlimit64", 0, SCMP_CMP_NE, 0),
};

/* Landlock lets the owner of a file change its attributes anywhere. Where commands are the caller's
 * own user, only what is open already may be changed, and by the keeper what is in the box. */
static const struct refusal asked[] = {
    ANY("chmod", EPERM),
    ANY("fchmodat", EPERM),
    ANY("fchmodat2", EPERM),
    WHEN("utimensat", 1, SCMP_CMP_NE, 0),
};

static const struct refusal when_shared[] = {
    ANY("chown", EPERM),
    ANY("chown32", EPERM),
    ANY("lchown", EPERM),
    ANY("lchown32", EPERM),
    ANY("fchownat", EPERM),
    ANY("setxattr", EPERM),
    ANY("lsetxattr", EPERM),
    ANY("removexattr", EPERM),
    ANY("lremovexattr", EPERM),
    ANY("utime", EPERM),
    ANY("utimes", EPERM),
    ANY("futimesat", EPERM),
    WHEN("utimensat_time64", 1, SCMP_CMP_NE, 0),
};

static int add_refusals(scmp_filter_ctx ctx, const struct refusal *list, size_t n, bool notify)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        int nr = seccomp_syscall_resolve_name(list[i].name);
        if (nr == __NR_SCMP_ERROR) /* this libseccomp does not know it, so no filter allows it */
            continue;
        uint32_t action = notify ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO((uint32_t)list[i].error);
        r = seccomp_rule_add_array(ctx, action, nr, list[i].n, &list[i].arg);
    }
    return r;
}

static int fill_filter(scmp_filter_ctx ctx, bool shared_uid, bool notify)
{
    uint32_t native = seccomp_arch_native();
    uint32_t compat = native == SCMP_ARCH_X86_64    ? SCMP_ARCH_X86
                      : native == SCMP_ARCH_AARCH64 ? SCMP_ARCH_ARM
                                                    : 0;
    /* What is of no architecture that we know is refused by the other filter. */
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
    if (r < 0)
        return r;
    r = compat ? seccomp_arch_add(ctx, compat) : 0;
    if (r < 0)
        return r;
    r = add_refusals(ctx, always, ELEMENTS(always), false);
    if (r < 0 || !shared_uid)
        return r;
    r = add_refusals(ctx, when_shared, ELEMENTS(when_shared), false);
    if (r < 0)
        return r;
    return add_refusals(ctx, asked, ELEMENTS(asked), notify);
}

static int export_filter(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
    _cleanup_close_ int fd = memfd_create("filter", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    off_t size = r < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (r < 0 || size <= 0 || (size_t)size > BPF_MAXINSNS * sizeof(*ret->filter))
        return r < 0 ? r : -E2BIG;
    struct sock_filter *code = xcalloc(1, (size_t)size);
    if (pread(fd, code, (size_t)size, 0) != size) {
        free(code);
        return -EIO;
    }
    *ret =
        (struct sock_fprog){.len = (unsigned short)((size_t)size / sizeof(*code)), .filter = code};
    return 0;
}

int fence_filter_init(struct sock_fprog *p, bool shared_uid, bool notify, struct error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int r = ctx ? fill_filter(ctx, shared_uid, notify) : -ENOMEM;
    if (r >= 0)
        r = export_filter(ctx, p);
    if (ctx)
        seccomp_release(ctx);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "compile the fence's filter") : 0;
}
