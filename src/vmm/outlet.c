/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulator writes for its operator: the guest's console, and what Firecracker counts. It
 * goes through a pipe to a process of ours, as the tool's user, which keeps the beginning until it
 * is given the operator's file: a machine may boot long before it has a sandbox's id. The guest
 * decides how much it is, so that the file has a greatest size. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"
#include "vmm/vmm.h"

#define OUTLET_KEPT  (256 * 1024)
#define OUTLET_BYTES (16ull * 1024 * 1024)
#define OUTLET_END   "\n(more than 16 MiB: what follows is left out)\n"

enum { OUTLET_PIPE_FD = 3, OUTLET_SOCKET_FD, OUTLET_END_FD };

static void outlet_write(int file, const char *data, size_t len)
{
    static uint64_t written;
    size_t room = written < OUTLET_BYTES ? (size_t)(OUTLET_BYTES - written) : 0;
    if (written >= OUTLET_BYTES)
        return;
    written += len;
    fd_write_all(file, data, len < room ? len : room);
    if (written >= OUTLET_BYTES)
        fd_write_all(file, OUTLET_END, strlen(OUTLET_END));
}

static int outlet_receive_file(void)
{
    int fds[FD_PASS_MAX];
    char byte;
    if (fd_recv_msg(OUTLET_SOCKET_FD, &byte, 1, fds) <= 0)
        _exit(0); /* mas-vmm is gone */
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    return fds[0];
}

/* What comes while there is no file is kept, and what does not fit is dropped, so that the emulator
 * never waits for its operator. */
static void __attribute__((noreturn)) outlet_serve(void)
{
    static char kept[OUTLET_KEPT], data[64 * 1024];
    size_t n_kept = 0;
    int file = -1;
    for (;;) {
        struct pollfd fds[] = {{.fd = OUTLET_PIPE_FD, .events = POLLIN},
                               {.fd = OUTLET_SOCKET_FD, .events = POLLIN}};
        if (poll(fds, ELEMENTS(fds), -1) < 0)
            continue;
        if (fds[1].revents) {
            fd_close(&file);
            file = outlet_receive_file();
            outlet_write(file, kept, n_kept);
            n_kept = 0;
        }
        ssize_t n = fds[0].revents & POLLIN ? read(OUTLET_PIPE_FD, data, sizeof(data)) : 0;
        if (n > 0 && file >= 0)
            outlet_write(file, data, (size_t)n);
        if (n > 0 && file < 0 && n_kept + (size_t)n <= sizeof(kept)) {
            memcpy(kept + n_kept, data, (size_t)n);
            n_kept += (size_t)n;
        }
    }
}

static void __attribute__((noreturn)) become_outlet(const struct vm *vm, int pipe_fd, int socket_fd)
{
    uid_t id = vm_tool_id(vm);
    int in = fcntl(pipe_fd, F_DUPFD, OUTLET_END_FD),
        control = fcntl(socket_fd, F_DUPFD, OUTLET_END_FD);
    if (dup2(in, OUTLET_PIPE_FD) < 0 || dup2(control, OUTLET_SOCKET_FD) < 0)
        _exit(1);
    fd_close_from(OUTLET_END_FD);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    outlet_serve();
}

void vm_open_outlet(struct vm *vm, struct vm_outlet *o)
{
    int in[2], control[2];
    child_must(pipe2(in, O_CLOEXEC) < 0 ||
                       socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0
                   ? -errno
                   : 0,
               "make the machine's log", -1);
    pid_t pid = fork();
    if (pid == 0)
        become_outlet(vm, in[0], control[1]);
    child_must(pid < 0 ? -errno : 0, "make the machine's log", -1);
    fchmod(in[1], 0666); /* Firecracker, which is another user, opens it anew by its path */
    close(in[0]);
    close(control[1]);
    o->pipe_fd = in[1];
    o->socket_fd = control[0];
}

void vm_give_outlet(struct vm_outlet *o, int file_fd)
{
    if (o->socket_fd >= 0)
        fd_send_msg(o->socket_fd, "f", 1, &file_fd, 1);
    close(file_fd);
}
