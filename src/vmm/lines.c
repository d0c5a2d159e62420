/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's vsock socket on the host, as Firecracker makes one: a client says "CONNECT 5000",
 * hears "OK 5000", and speaks with the runner. The machine need have no vsock: connections go over
 * a port of their own (link/mux.h).
 *
 * It is a process of its own, as the tool's user, with nothing but the port and the socket. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "link/mux.h"
#include "vmm/vmm.h"

#define GREETING_MAX 32
#define WAITING_MAX  16    /* clients that have not said where to */
#define WAITING_MS   10000 /* how long they may take */

enum { LINES_PORT_FD = 3, LINES_SOCKET_FD, LINES_END_FD };

struct waiting {
    int fd; /* or -1 */
    int64_t until_ms;
};

struct lines {
    struct mux mux;
    struct waiting waiting[WAITING_MAX];
    uint32_t port; /* that leads to the runner */
};

/* As the hypervisor would: the number is that of the host's end, which has none here. */
static void on_opened(void *data, int fd)
{
    const struct lines *l = data;
    char text[GREETING_MAX];
    int n = snprintf(text, sizeof(text), "OK %u\n", l->port);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
        shutdown(fd, SHUT_RDWR);
}

/* Only the greeting is taken: what follows belongs to the guest. 0: not all of it is there. */
static int take_greeting(int fd, uint32_t *ret_port)
{
    char text[GREETING_MAX], *end;
    ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && errno == EAGAIN ? 0 : -EPIPE;
    text[n] = 0;
    char *line = memchr(text, '\n', (size_t)n);
    if (!line)
        return n < (ssize_t)sizeof(text) - 1 ? 0 : -EPROTO;
    *line = 0;
    if (strncmp(text, "CONNECT ", strlen("CONNECT ")) != 0)
        return -EPROTO;
    const char *digits = text + strlen("CONNECT ");
    unsigned long port = strtoul(digits, &end, 10);
    if (end == digits || *end || port > UINT32_MAX)
        return -EPROTO;
    *ret_port = (uint32_t)port;
    return recv(fd, text, (size_t)(line + 1 - text), 0) < 0 ? -errno : 1;
}

static void waiting_turn(struct lines *l, struct waiting *w, bool ready)
{
    uint32_t port;
    if (!mux_has_room(&l->mux)) /* it waits for us, and not we for it */
        return;
    int r = ready ? take_greeting(w->fd, &port) : 0;
    if (r == 0 && clock_mono_ms() > w->until_ms)
        r = -ETIMEDOUT;
    if (r == 0)
        return;
    if (r > 0 && port == l->port)
        mux_open(&l->mux, fd_steal(&w->fd));
    else /* nothing listens there */
        fd_close(&w->fd);
}

static struct waiting *find_free(struct lines *l)
{
    for (size_t i = 0; i < WAITING_MAX; i++)
        if (l->waiting[i].fd < 0)
            return &l->waiting[i];
    return NULL;
}

static void accept_client(struct lines *l, struct waiting *w)
{
    (void)l;
    w->fd = accept4(LINES_SOCKET_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    w->until_ms = clock_mono_ms() + WAITING_MS;
}

static void __attribute__((noreturn)) serve_lines(struct lines *l)
{
    struct pollfd fds[MUX_FDS + WAITING_MAX + 1];
    struct pollfd *waits = fds + MUX_FDS, *socket = waits + WAITING_MAX;
    do {
        bool room = mux_has_room(&l->mux);
        mux_prepare(&l->mux, fds);
        for (size_t i = 0; i < WAITING_MAX; i++)
            waits[i] = (struct pollfd){.fd = room ? l->waiting[i].fd : -1, .events = POLLIN};
        *socket = (struct pollfd){.fd = find_free(l) ? LINES_SOCKET_FD : -1, .events = POLLIN};
        poll(fds, ELEMENTS(fds), MUX_LOOK_MS);
        for (size_t i = 0; i < WAITING_MAX; i++)
            if (l->waiting[i].fd >= 0)
                waiting_turn(l, &l->waiting[i],
                             waits[i].fd == l->waiting[i].fd && waits[i].revents);
        if (socket->revents && find_free(l))
            accept_client(l, find_free(l));
    } while (mux_turn(&l->mux, fds));
    _exit(0);
}

static void __attribute__((noreturn)) become_lines(const struct vm *vm, int socket_fd)
{
    static struct lines l;
    uid_t id = vm_tool_id(vm);
    int port = fcntl(vm->lines_fd, F_DUPFD, LINES_END_FD);
    int listening = fcntl(socket_fd, F_DUPFD, LINES_END_FD);
    if (dup2(port, LINES_PORT_FD) < 0 || dup2(listening, LINES_SOCKET_FD) < 0)
        _exit(1);
    close_range(LINES_END_FD, ~0U, 0);
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    l.port = vm->start.machine.port;
    for (size_t i = 0; i < WAITING_MAX; i++)
        l.waiting[i].fd = -1;
    mux_init(&l.mux, LINES_PORT_FD);
    l.mux.on_opened = on_opened;
    l.mux.data = &l;
    serve_lines(&l);
}

void vm_start_lines(struct vm *vm, int socket_fd)
{
    if (vm->lines_fd >= 0 && fork() == 0)
        become_lines(vm, socket_fd);
    fd_close(&vm->lines_fd);
    close(socket_fd);
}
