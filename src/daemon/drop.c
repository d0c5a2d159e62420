/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up rights: identity, process flags and limits, system calls. The file system's part is in
 * drop-files.c. What is left to a control plane that was taken over: its own state directory, the
 * sockets it was given, and plans to a warden that trusts none of them. */
#include "daemon/drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/capability.h"
#include "base/error.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

/* --- identity */

int drop_bounding_set(uint64_t keep, struct error *err)
{
    int r = capability_bound(keep);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "drop capabilities") : 0;
}

static int become_user(uid_t uid, gid_t gid, struct error *err)
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
    if (r < 0)
        return r;
    return set_capabilities(keep, err);
}

int drop_identity(bool privileged, uid_t uid, gid_t gid, struct error *err)
{
    if (privileged) {
        int r = drop_bounding_set(0, err);
        if (r == 0)
            r = become_user(uid, gid, err);
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

int drop_control_syscalls(struct error *err)
{
    return filter_enter(&filter_control, err);
}

int drop_gateway_syscalls(struct error *err)
{
    return filter_enter(&filter_gateway, err);
}

int drop_keeper_syscalls(struct error *err)
{
    return filter_enter(&filter_keeper, err);
}
