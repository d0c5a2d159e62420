/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "gateway/confine.h"
#include "kube/access.h"
#include "proto/kube.h"

#define FILES_MAX 4096 /* two per stream to a sandbox, and connections */

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int allow_reading(int ruleset, const char *path)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    return landlock_ruleset_allow(ruleset, fd, LANDLOCK_READ_FILE | LANDLOCK_READ_DIR);
}

/* The whole directory, because the kubelet replaces the files by links in it. */
static int allow_beside(int ruleset, const char *file)
{
    if (!file)
        return 0;
    _cleanup_free_ char *copy = xstrdup(file);
    return allow_reading(ruleset, dirname(copy));
}

/* Directories, because resolv.conf and its like are replaced while we run; libraries, because libc
 * loads what nsswitch.conf names. */
static int restrict_files(const struct kube_access *a)
{
    static const char *const lookup[] = {"/etc",
                                         "/run/systemd/resolve",
                                         "/run/resolvconf",
                                         "/run/NetworkManager",
                                         "/lib",
                                         "/lib64",
                                         "/usr/lib",
                                         "/dev/urandom"};
    int abi = landlock_abi();
    if (abi <= 0) {
        log_warn("this kernel has no Landlock: files are kept away by the user id alone");
        return 0;
    }
    struct landlock_rights refused = landlock_known(abi);
    refused.net = 0;
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    int r = ruleset < 0 ? ruleset : 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(lookup); i++)
        r = allow_reading(ruleset, lookup[i]);
    r = r < 0 ? r : allow_beside(ruleset, a->token_file);
    r = r < 0 ? r : allow_beside(ruleset, a->ca_file);
    return r < 0 ? r : landlock_restrict(ruleset);
}

static int become_user(bool with_parent)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(KUBE_UID, KUBE_UID, KUBE_UID) < 0 ||
                           setresuid(KUBE_UID, KUBE_UID, KUBE_UID) < 0))
        return -errno;
    int r = confine_process();
    if (r == 0 && !with_parent && prctl(PR_SET_PDEATHSIG, 0) < 0)
        r = -errno;
    return r < 0 ? r : drop_capabilities();
}

int kube_confine(const struct kube_access *access, bool with_parent, struct error *err)
{
    struct rlimit files = {FILES_MAX, FILES_MAX};
    signal(SIGPIPE, SIG_IGN);
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max < FILES_MAX)
        files = (struct rlimit){now.rlim_max, now.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "limits");
    int r = become_user(with_parent);
    r = r < 0 ? r : restrict_files(access);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "give up rights");
    return filter_enter(&filter_kube, err);
}
