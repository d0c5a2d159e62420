/* SPDX-License-Identifier: Apache-2.0 */
/* A socket on the host whose connections lead to one that the emulator serves inside the cell.
 *
 * It is a process of its own, as the tool's user, with nothing but that socket. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "link/pump.h"
#include "vmm/vmm.h"

#define RELAYS_MAX 16

enum { RELAY_SOCKET_FD = 3, RELAY_END_FD };

/* Two connections, and what each has said that the other has not taken. */
struct relay {
    int fds[2]; /* or -1: it is free */
    bool ended[2], told[2];
    struct pump said[2];
};

static struct relay relays[RELAYS_MAX];

static void relay_close(struct relay *r)
{
    fd_close(&r->fds[0]);
    fd_close(&r->fds[1]);
}

static struct relay *relay_find_free(void)
{
    for (size_t i = 0; i < RELAYS_MAX; i++)
        if (relays[i].fds[0] < 0)
            return &relays[i];
    return NULL;
}

static int connect_inside(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    return fd_steal(&fd);
}

static void relay_accept(const char *path)
{
    struct relay *r = relay_find_free();
    int fd = accept4(RELAY_SOCKET_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    r->fds[0] = fd;
    r->fds[1] = connect_inside(path);
    r->said[0].len = r->said[1].len = r->said[0].start = r->said[1].start = 0;
    r->ended[0] = r->ended[1] = r->told[0] = r->told[1] = false;
    if (r->fds[1] < 0)
        relay_close(r);
}

/* One direction; false where it can go on no more. */
static bool relay_carry(struct relay *r, int from, bool readable)
{
    struct pump *p = &r->said[from];
    if (readable && !r->ended[from] && pump_has_room(p)) {
        ssize_t n = pump_fill(p, r->fds[from]);
        if (n < 0 && n != -EAGAIN)
            return false;
        r->ended[from] = n == 0;
    }
    if (p->len && pump_drain(p, r->fds[!from], p->len) < 0)
        return false;
    if (r->ended[from] && !p->len && !r->told[from]) {
        shutdown(r->fds[!from], SHUT_WR);
        r->told[from] = true;
    }
    return true;
}

static void relay_turn(struct relay *r, const struct pollfd *fds)
{
    bool goes_on = true;
    for (int from = 0; from < 2 && goes_on; from++)
        goes_on = relay_carry(r, from, fds[from].revents & (POLLIN | POLLHUP | POLLERR));
    if (!goes_on || (r->told[0] && r->told[1]))
        relay_close(r);
}

static void relay_prepare(const struct relay *r, struct pollfd *fds)
{
    for (int i = 0; i < 2; i++) {
        short events = (short)((!r->ended[i] && pump_has_room(&r->said[i]) ? POLLIN : 0) |
                               (r->said[!i].len ? POLLOUT : 0));
        fds[i] = (struct pollfd){.fd = events ? r->fds[i] : -1, .events = events};
    }
}

static void __attribute__((noreturn)) relay_serve(const char *path)
{
    struct pollfd fds[1 + 2 * RELAYS_MAX];
    for (;;) {
        fds[0] = (struct pollfd){.fd = relay_find_free() ? RELAY_SOCKET_FD : -1, .events = POLLIN};
        for (size_t i = 0; i < RELAYS_MAX; i++)
            relay_prepare(&relays[i], &fds[1 + 2 * i]);
        if (poll(fds, ELEMENTS(fds), -1) < 0)
            continue;
        for (size_t i = 0; i < RELAYS_MAX; i++)
            if (relays[i].fds[0] >= 0)
                relay_turn(&relays[i], &fds[1 + 2 * i]);
        if (fds[0].revents && relay_find_free())
            relay_accept(path);
    }
}

static void __attribute__((noreturn))
become_relay(const struct vm *vm, int socket_fd, const char *path)
{
    /* Before the first byte from either side this process gives up the machine's rights, and every
     * descriptor but the listening socket: what it carries is trusted by neither end. */
    uid_t id = vm_tool_id(vm);
    if (socket_fd != RELAY_SOCKET_FD && dup2(socket_fd, RELAY_SOCKET_FD) < 0)
        _exit(1);
    close_range(RELAY_END_FD, ~0U, 0);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < RELAYS_MAX; i++)
        relays[i].fds[0] = relays[i].fds[1] = -1;
    relay_serve(path);
}

void vm_start_relay(struct vm *vm, int socket_fd, const char *path)
{
    if (fork() == 0)
        become_relay(vm, socket_fd, path);
    close(socket_fd);
}
