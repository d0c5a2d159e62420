/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's side of vsock, for machines that have no serial ports. Connections end when a machine
 * is kept and when it is restored, so that mas-vmm, which gives the order, may have to connect
 * again; once it is given, control and data are those two connections and no others. */
#include <errno.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/internal.h"
#include "proto/channel.h"

#define BACKLOG 16

/* Only the host may be a peer: a local one would be a tool. */
static int accept_host(int listener)
{
    for (;;) {
        struct sockaddr_vm peer = {0};
        socklen_t size = sizeof(peer);
        int fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC);
        if (fd >= 0 && peer.svm_cid == VMADDR_CID_HOST)
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != EINTR && errno != ECONNABORTED && errno != ECONNRESET)
            return -errno;
    }
}

static int listen_at(uint32_t port)
{
    const struct sockaddr_vm sa = {
        .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port};
    _cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

bool guest_vsock_listen(struct guest *g)
{
    char port[16];
    if (!guest_find_word(GUEST_VSOCK_WORD, port, sizeof(port)))
        return false;
    guest_load_modules(GUEST_VSOCK_MODULES);
    g->listeners.clients = listen_at((uint32_t)strtoul(port, NULL, 10));
    g->listeners.data = listen_at(GUEST_VSOCK_DATA);
    g->listeners.ctl = listen_at(GUEST_VSOCK_CTL);
    if (g->listeners.clients < 0 || g->listeners.data < 0 || g->listeners.ctl < 0)
        guest_power_off();
    g->ctl_fd = accept_host(g->listeners.ctl);
    return true;
}

bool guest_vsock_accept_again(struct guest *g)
{
    if (g->listeners.ctl < 0)
        return false;
    fd_close(&g->ctl_fd);
    g->ctl_fd = accept_host(g->listeners.ctl);
    return g->ctl_fd >= 0;
}

void guest_vsock_settle(struct guest *g)
{
    if (g->listeners.ctl < 0)
        return;
    g->data_fd = accept_host(g->listeners.data);
    if (g->data_fd < 0)
        guest_give_up(g, "accept the machine's connection", -g->data_fd);
    fd_close(&g->listeners.ctl);
    fd_close(&g->listeners.data);
}

static void __attribute__((noreturn)) serve_clients(const struct guest *g)
{
    int fd;
    while ((fd = accept_host(g->listeners.clients)) >= 0) {
        fd_send_msg(g->channel_fd, CHANNEL_CLIENT, 1, &fd, 1);
        close(fd);
    }
    _exit(0);
}

void guest_vsock_start_clients(struct guest *g)
{
    if (fork() == 0)
        serve_clients(g);
    fd_close(&g->listeners.clients);
}
