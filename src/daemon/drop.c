/* Giving up rights: identity, process flags and limits, system calls. The file system's part is in
 * drop-files.c. What is left to a control plane that was taken over: its own state directory, the
 * sockets it was given, and plans to a warden that trusts none of them. */
#include "daemon/drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* --- identity */

static int drop_bounding_set(uint64_t keep, struct error *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return error_set(err, ERROR_INTERNAL, errno, "drop capability %d", cap);
    return 0;
}

static int become(uid_t uid, gid_t gid, struct error *err)
{
    if (setgroups(0, NULL) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "drop groups");
    if (setresgid(gid, gid, gid) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "become gid %u", (unsigned)gid);
    if (setresuid(uid, uid, uid) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "become uid %u", (unsigned)uid);
    if (setresuid(0, 0, 0) == 0)
        return error_set(err, ERROR_INTERNAL, 0, "root could be taken back");
    return 0;
}

static int set_capabilities(uint64_t keep, struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    for (unsigned i = 0; i < ELEMENTS(data); i++)
        data[i].effective = data[i].permitted = (uint32_t)(keep >> 32 * i);
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, data) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "clear capabilities");
    return 0;
}

int drop_capabilities_but(uint64_t keep, struct error *err)
{
    int r = drop_bounding_set(keep, err);
    return r < 0 ? r : set_capabilities(keep, err);
}

int drop_identity(bool privileged, uid_t uid, gid_t gid, struct error *err)
{
    if (privileged) {
        int r = drop_bounding_set(0, err);
        if (r == 0)
            r = become(uid, gid, err);
        if (r < 0)
            return r;
    }
    return set_capabilities(0, err);
}

/* --- process */

int drop_process(pid_t parent, struct error *err)
{
    /* The parent-death signal comes after the last change of credentials, which clears it; a parent
     * that died before is seen by the question after it. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "set process flags");
    if (getppid() != parent)
        return error_set(err, ERROR_INTERNAL, 0, "the warden is gone");
    return 0;
}

int drop_limits(uint64_t open_files, struct error *err)
{
    struct rlimit none = {0, 0}, files;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "set limits");
    struct rlimit want = {open_files, open_files};
    if (setrlimit(RLIMIT_NOFILE, &want) == 0)
        return 0;
    /* Beyond what we may have: as much as there is. */
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "limit open files");
    return 0;
}

/* --- system calls */

static const int programs[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
};

/* A second wall behind identity and Landlock: what the control plane never does. */
static const int denied[] = {
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(quotactl),
    SCMP_SYS(personality),
    SCMP_SYS(acct),
    SCMP_SYS(vhangup),
};

static void release_filter(scmp_filter_ctx *filter)
{
    if (*filter)
        seccomp_release(*filter);
}

static int deny(scmp_filter_ctx filter, const int *calls, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
    return r;
}

static int filter_syscalls(bool may_execute, struct error *err)
{
    __attribute__((cleanup(release_filter))) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return error_set(err, ERROR_INTERNAL, ENOMEM, "seccomp");
    /* A call of another architecture would pass by these numbers. */
    int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0)
        r = deny(filter, denied, ELEMENTS(denied));
    if (r == 0 && !may_execute)
        r = deny(filter, programs, ELEMENTS(programs));
    if (r == 0)
        r = seccomp_load(filter);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "seccomp") : 0;
}

int drop_syscalls(struct error *err)
{
    return filter_syscalls(false, err);
}

int drop_keeper_syscalls(struct error *err)
{
    return filter_syscalls(true, err);
}
