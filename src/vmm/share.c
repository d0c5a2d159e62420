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

enum { SHARE_PORT_FD = 3, SHARE_END_FD };

static void __attribute__((noreturn))
become_share(const struct vm *vm, uint32_t number, int port_fd)
{
    char path[sizeof(ORDER_SHARE_DIR) + 16];
    uid_t id = vm_tool_id(vm);
    if (port_fd != SHARE_PORT_FD && dup2(port_fd, SHARE_PORT_FD) < 0)
        _exit(1);
    fd_close_from(SHARE_END_FD);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    umask(0); /* the guest's is in what it asks for */
    snprintf(path, sizeof(path), ORDER_SHARE_DIR "/%u", number);
    int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        share_serve(dir, SHARE_PORT_FD);
    _exit(0);
}

int vm_start_share(const struct vm *vm, uint32_t number)
{
    int pair[2];
    child_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0,
               "make the port of a host directory", WALL_FILESYSTEM);
    pid_t pid = fork();
    if (pid == 0)
        become_share(vm, number, pair[1]);
    child_must(pid < 0 ? -errno : 0, "serve a host directory", WALL_FILESYSTEM);
    close(pair[1]);
    return pair[0];
}
