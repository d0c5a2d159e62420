/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay of an image for an OCI runtime. A launcher is root of the host; an overlay carries
 * out what a sandbox does in it with the rights of the process that mounted it. So it is mounted by
 * a helper in a user namespace that has the sandbox's three ids and nothing else, and attached by
 * the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "oci/launcher.h"

struct answer {
    int32_t error;
};

static int mount_detached(const struct oci_overlay *o)
{
    _cleanup_close_ int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    const struct {
        const char *name, *value;
    } options[] = {{"source", "image"},
                   {"lowerdir", o->lower},
                   {"upperdir", o->upper},
                   {"workdir", o->work},
                   {"userxattr", NULL}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        unsigned command = options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        int r = fsconfig(fs, command, options[i].name, options[i].value, 0) < 0 ? -errno : 0;
        if (r < 0)
            return r;
    }
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? -errno : fd;
}

static void helper_main(const struct oci_overlay *o, int sock) __attribute__((noreturn));

/* It waits for the byte, because before its maps are written it has no ids to become. The overlay
 * remembers the credentials of the process that mounts it: those of the namespace's root, which on
 * the host is the sandbox's runner. */
static void helper_main(const struct oci_overlay *o, int sock)
{
    char go;
    if (recv(sock, &go, 1, 0) != 1)
        _exit(1);
    int fd = setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ? -errno : mount_detached(o);
    struct answer a = {.error = fd < 0 ? -fd : 0};
    ssize_t n = fd_send_msg(sock, &a, sizeof(a), &fd, fd >= 0);
    _exit(n == sizeof(a) ? 0 : 1);
}

static int write_maps(const struct oci_overlay *o, pid_t pid)
{
    char path[48], map[128];
    snprintf(map, sizeof(map), "%d %u 1\n%d %u 1\n%d %u 1\n", SANDBOX_RUNNER_ID, o->runner_id,
             SANDBOX_TOOL_ID, o->tool_id, SANDBOX_NOBODY_ID, o->nobody_id);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    int r = fd_write_file_at(AT_FDCWD, path, map);
    snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
    if (r < 0)
        return r;
    return fd_write_file_at(AT_FDCWD, path, map);
}

static int receive_mount(int sock)
{
    struct answer a = {.error = EIO};
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(sock, &a, sizeof(a), fds);
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n == sizeof(a) && !a.error && fds[0] >= 0)
        return fds[0];
    fd_close(&fds[0]);
    return n == sizeof(a) && a.error > 0 ? -a.error : -EIO;
}

int oci_overlay_mount(const struct oci_overlay *o, const char *target)
{
    int pair[2];
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    _cleanup_close_ int own = pair[0], others = pair[1];
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid == 0)
        helper_main(o, others);
    fd_close(&others);
    int r = write_maps(o, pid);
    if (r >= 0)
        r = (int)fd_send_msg(own, "g", 1, NULL, 0);
    _cleanup_close_ int fd = r < 0 ? r : receive_mount(own);
    if (r < 0)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (r < 0 || fd < 0)
        return r < 0 ? r : fd;
    return move_mount(fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}
