/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that serve a machine's shares; see share.h. */
#include "vmm/share.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "vmm/vmm.h"

enum { SHARE_PORT_FD = 3, SHARE_DIR_FD, SHARE_END_FD };

static void __attribute__((noreturn)) become_share(const struct vm *vm, int dir_fd, int port_fd)
{
    uid_t id = vm_tool_id(vm);
    int dir_copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, SHARE_END_FD); /* out of the port's way */
    if (dir_copy < 0 || dup2(port_fd, SHARE_PORT_FD) < 0 || dup2(dir_copy, SHARE_DIR_FD) < 0)
        _exit(1);
    fd_close_from(SHARE_END_FD);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    umask(0); /* the guest's is in what it asks for */
    share_serve(SHARE_DIR_FD, SHARE_PORT_FD);
    _exit(0);
}

int vm_start_share(const struct vm *vm, uint32_t number)
{
    char path[sizeof(ORDER_SHARE_DIR) + 16];
    int pair[2];
    snprintf(path, sizeof(path), ORDER_SHARE_DIR "/%u", number);
    _cleanup_close_ int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    child_must(dir < 0 ? -errno : 0, "open a host directory", WALL_FILESYSTEM);
    child_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0,
               "make the port of a host directory", WALL_FILESYSTEM);
    pid_t pid = fork();
    if (pid == 0)
        become_share(vm, dir, pair[1]);
    child_must(pid < 0 ? -errno : 0, "serve a host directory", WALL_FILESYSTEM);
    close(pair[1]);
    return pair[0];
}
