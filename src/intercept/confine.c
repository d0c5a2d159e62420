/* SPDX-License-Identifier: Apache-2.0 */
/* In this order: a network namespace without a network, while there are rights to make one; the
 * user; all capabilities, which a warden of an ordinary user's would leave; files (Landlock);
 * system calls. Each is there because the one before it might not hold. */
#include "intercept/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capability.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "gateway/confine.h"
#include "proto/intercept.h"

#define FILES_MAX      256 /* two per connection, and a few */
#define INTERCEPT_NICE 5

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int refuse_files(void)
{
    int abi = landlock_abi();
    if (abi <= 0)
        return 0; /* the list of system calls has nothing that opens a file */
    struct landlock_rights refused = landlock_known(abi); /* and signals to others of its user */
    _cleanup_close_ int fd = landlock_ruleset_open(abi, &refused);
    return fd < 0 ? fd : landlock_restrict(fd);
}

int intercept_confine(bool keep_user, struct error *err)
{
    struct rlimit files = {FILES_MAX, FILES_MAX};
    signal(SIGPIPE, SIG_IGN);
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "a network namespace");
    /* What it computes for its sandbox is not counted as the sandbox's. */
    if (setpriority(PRIO_PROCESS, 0, INTERCEPT_NICE) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "limits");
    int r = capability_bound(0);
    if (r < 0 && r != -EPERM) /* without that right, no_new_privs keeps them out */
        return error_set(err, ERROR_INTERNAL, -r, "give up rights");
    r = keep_user ? confine_process() : confine_identity(INTERCEPT_UID, INTERCEPT_UID);
    r = r < 0 ? r : drop_capabilities();
    r = r < 0 ? r : refuse_files();
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "give up rights");
    return filter_enter(&filter_interceptor, err);
}
