/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host-check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define PROC_FILE_MAX            (64u << 10)
#define LANDLOCK_VERSION_FLAG    1u /* LANDLOCK_CREATE_RULESET_VERSION */
#define LANDLOCK_ABI_WITH_SCOPES 6

static bool read_text(const char *path, struct strbuf *b)
{
    return fd_read_file_at(AT_FDCWD, path, b) >= 0 && b->data;
}

long host_number(const char *path, long fallback)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    return read_text(path, &b) ? strtol(b.data, NULL, 10) : fallback;
}

static bool look_kernel(char detail[HOST_CHECK_DETAIL])
{
    struct utsname u;
    uname(&u);
    snprintf(detail, HOST_CHECK_DETAIL, "Linux %s %s", u.release, u.machine);
    return true;
}

static bool look_root(char detail[HOST_CHECK_DETAIL])
{
    snprintf(detail, HOST_CHECK_DETAIL, geteuid() == 0 ? "running as root" : "running as uid %u",
             geteuid());
    return geteuid() == 0;
}

static bool look_userns(char detail[HOST_CHECK_DETAIL])
{
    long max = host_number("/proc/sys/user/max_user_namespaces", 0);
    bool clone = host_number("/proc/sys/kernel/unprivileged_userns_clone", 1) != 0;
    bool apparmor = host_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 0;
    bool ok = max > 0 && (geteuid() == 0 || (clone && apparmor));
    snprintf(detail, HOST_CHECK_DETAIL, "at most %ld%s%s", max,
             clone ? "" : ", not for ordinary users (unprivileged_userns_clone=0)",
             apparmor ? "" : ", restricted by AppArmor");
    return ok;
}

/* Whether a line of an /etc/sub?id file starts with the name or the uid. */
static bool has_subid(const char *path, const char *name, uid_t uid)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    char number[16];
    snprintf(number, sizeof(number), "%u", uid);
    if (!read_text(path, &b))
        return false;
    for (char *line = b.data; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t len = strcspn(line, ":\n");
        if ((strlen(name) == len && strncmp(line, name, len) == 0) ||
            (strlen(number) == len && strncmp(line, number, len) == 0))
            return true;
    }
    return false;
}

static bool look_subuids(char detail[HOST_CHECK_DETAIL])
{
    if (geteuid() == 0) {
        snprintf(detail, HOST_CHECK_DETAIL, "not needed as root");
        return true;
    }
    struct passwd *pw = getpwuid(geteuid());
    const char *name = pw ? pw->pw_name : "";
    bool helper = access("/usr/bin/newuidmap", X_OK) == 0;
    bool range =
        has_subid("/etc/subuid", name, geteuid()) && has_subid("/etc/subgid", name, geteuid());
    snprintf(detail, HOST_CHECK_DETAIL, "%s, %s", helper ? "newuidmap" : "no newuidmap",
             range ? "a range in /etc/subuid and /etc/subgid" : "no range in /etc/subuid, subgid");
    return helper && range;
}

/* Whether we may make cgroups below the one we are in. */
static bool may_use_own_cgroup(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    char *own = read_text("/proc/self/cgroup", &b) ? strstr(b.data, "0::/") : NULL;
    if (!own)
        return false;
    own[strcspn(own, "\n")] = 0;
    _cleanup_free_ char *path = xasprintf("/sys/fs/cgroup%s/cgroup.procs", own + 3);
    return access(path, W_OK) == 0;
}

static bool look_cgroup_v2(char detail[HOST_CHECK_DETAIL])
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    bool there = read_text("/sys/fs/cgroup/cgroup.controllers", &b), mine = may_use_own_cgroup();
    if (there)
        b.data[strcspn(b.data, "\n")] = 0;
    snprintf(detail, HOST_CHECK_DETAIL, "v2: %s%s", there ? b.data : "no controllers",
             mine ? "" : ", not delegated to us");
    return mine && there && strstr(b.data, "memory") && strstr(b.data, "cpu") &&
           strstr(b.data, "pids");
}

static bool look_cgroups(char detail[HOST_CHECK_DETAIL])
{
    struct statfs fs;
    if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
        return look_cgroup_v2(detail);
    static const char *const wanted[] = {"memory", "cpu", "pids", "blkio"};
    int n = snprintf(detail, HOST_CHECK_DETAIL, "v1, writable:");
    bool all = true;
    for (size_t i = 0; i < ELEMENTS(wanted); i++) {
        _cleanup_free_ char *path = xasprintf("/sys/fs/cgroup/%s", wanted[i]);
        bool there = access(path, W_OK) == 0;
        n += snprintf(detail + n, HOST_CHECK_DETAIL - (size_t)n, " %s%s", there ? "" : "no ",
                      wanted[i]);
        all = all && there;
    }
    return all;
}

static bool look_landlock(char detail[HOST_CHECK_DETAIL])
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
    if (abi <= 0) {
        snprintf(detail, HOST_CHECK_DETAIL, "off: %s", strerror(errno));
        return false;
    }
    snprintf(detail, HOST_CHECK_DETAIL, "ABI %ld%s", abi,
             abi < LANDLOCK_ABI_WITH_SCOPES ? " (signals and abstract sockets need 6)" : "");
    return true;
}

static bool look_seccomp(char detail[HOST_CHECK_DETAIL])
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    bool ok = read_text("/proc/sys/kernel/seccomp/actions_avail", &b) && strstr(b.data, "errno");
    snprintf(detail, HOST_CHECK_DETAIL, ok ? "filters" : "no filters");
    return ok;
}

static bool look_loop(char detail[HOST_CHECK_DETAIL])
{
    bool ok = access("/dev/loop-control", R_OK | W_OK) == 0;
    snprintf(detail, HOST_CHECK_DETAIL, "/dev/loop-control%s%s", ok ? "" : ": ",
             ok ? "" : strerror(errno));
    return ok;
}

/* Where the keeper looks for it (keeper/program.c). */
static bool look_fetching(char detail[HOST_CHECK_DETAIL])
{
    static const char *const places[] = {"/usr/local/bin/skopeo", "/usr/bin/skopeo", "/bin/skopeo"};
    bool certificates = access("/etc/ssl/certs/ca-certificates.crt", R_OK) == 0;
    const char *found = NULL;
    for (size_t i = 0; i < ELEMENTS(places) && !found; i++)
        found = access(places[i], X_OK) == 0 ? places[i] : NULL;
    snprintf(detail, HOST_CHECK_DETAIL, "%s, %s", found ? found : "no skopeo",
             certificates ? "certificates in /etc/ssl" : "no certificates in /etc/ssl");
    return found && certificates;
}

static bool look_overlay(char detail[HOST_CHECK_DETAIL])
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROC_FILE_MAX);
    bool ok = read_text("/proc/filesystems", &b) && strstr(b.data, "\toverlay\n");
    snprintf(detail, HOST_CHECK_DETAIL, "%s", ok ? "overlayfs" : "no overlayfs");
    return ok;
}

const struct host_check host_checks[] = {
    {"kernel", "", look_kernel},
    {"privileges",
     "as root every sandbox gets its own block of uids, and limits need no delegation", look_root},
    {"user namespaces",
     "sysctl user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 "
     "kernel.apparmor_restrict_unprivileged_userns=0, or run the daemon as root; runtime landlock "
     "needs none",
     look_userns},
    {"subordinate ids",
     "apt install uidmap; usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER",
     look_subuids},
    {"cgroups",
     "boot with cgroup controllers enabled (cgroup_enable=memory); as an ordinary user, delegate: "
     "systemd-run --user --scope -p Delegate=yes mas-sandboxd ...",
     look_cgroups},
    {"Landlock", "a kernel with CONFIG_SECURITY_LANDLOCK=y and landlock in the lsm= list",
     look_landlock},
    {"seccomp", "a kernel with CONFIG_SECCOMP_FILTER=y", look_seccomp},
    {"loop devices", "modprobe loop (and run as root): large disk limits use image files",
     look_loop},
    {"image fetching",
     "apt install skopeo ca-certificates: from registries; tars, layouts and directories become "
     "images without",
     look_fetching},
    {"image roots", "modprobe overlay (CONFIG_OVERLAY_FS): images are shared under overlayfs",
     look_overlay},
};
const size_t n_host_checks = ELEMENTS(host_checks);
