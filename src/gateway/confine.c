/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"

/* Everything that the warden had open is closed, whatever it is: the gateway speaks with servers
 * that are not trusted, and an inherited descriptor would be theirs with it. */
int confine_descriptors(int sock)
{
    int fd = fcntl(sock, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -errno;
    if (fd != 3) {
        if (dup3(fd, 3, O_CLOEXEC) < 0)
            return -errno;
        fd = 3;
    }
    return close_range(4, ~0U, 0) < 0 ? -errno : fd;
}

static int drop_ids(uid_t uid, gid_t gid)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    /* Being root by any path after this would be a bug worth dying for. */
    return uid != 0 && setuid(0) == 0 ? -EPERM : 0;
}

int confine_process(void)
{
    /* After the last credential change: that clears the parent-death signal. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_CORE, &none) < 0 ? -errno : 0;
}

int confine_identity(uid_t uid, gid_t gid)
{
    int r = drop_ids(uid, gid);
    return r < 0 ? r : confine_process();
}

void confine_files(void)
{
    int abi = landlock_abi();
    /* Reading stays allowed: the resolver reads its configuration when a name is looked up. */
    struct landlock_rights refused = {.fs = landlock_known(abi).fs &
                                            ~(LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)};
    _cleanup_close_ int fd = landlock_ruleset_open(abi, &refused);
    int r = fd < 0 ? fd : landlock_restrict(fd);
    if (r < 0)
        log_warn("gateway runs without landlock error=%d", -r);
}

void confine_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
}
