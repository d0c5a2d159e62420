/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/kube.h"

#define AGAIN_US 250000

int kube_relay_connect(const char *path, struct error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(a.sun_path))
        return error_set(err, ERROR_INVALID, ENAMETOOLONG, "the broker's socket");
    strcpy(a.sun_path, path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, ERROR_INTERNAL, errno, "a socket");
    for (bool told = false; connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0; usleep(AGAIN_US)) {
        if (!told)
            log_info("waiting for the broker at %s: %s", path, strerror(errno));
        told = true;
    }
    log_info("connected to the broker at %s", path);
    return fd_steal(&fd);
}

/* One record at a time: it is read when the one before is gone, so that a side which does not read
 * holds the other back. */
struct direction {
    int from, to;
    size_t len; /* of the record that is to be sent; 0: none is */
    int fds[FD_PASS_MAX];
    union {
        struct kube_order order;
        struct kube_reply reply;
    } record;
};

static void direction_drop(struct direction *d)
{
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&d->fds[i]);
    d->len = 0;
}

/* False at the end of either side. */
static bool direction_move(struct direction *d)
{
    size_t n_fds = 0;
    if (!d->len) {
        ssize_t n = fd_recv_msg(d->from, &d->record, sizeof(d->record), d->fds);
        if (n == -EAGAIN || n == -EINTR || n == -EMSGSIZE) /* no record is as long as that */
            return true;
        if (n <= 0)
            return false;
        d->len = (size_t)n;
    }
    while (n_fds < FD_PASS_MAX && d->fds[n_fds] >= 0)
        n_fds++;
    ssize_t n = fd_send_msg(d->to, &d->record, d->len, d->fds, n_fds);
    if (n == -EAGAIN || n == -EINTR)
        return true;
    direction_drop(d);
    return n >= 0;
}

void kube_relay_run(int control, int broker)
{
    static struct direction orders, replies; /* too large for a stack */
    orders = (struct direction){.from = control, .to = broker};
    replies = (struct direction){.from = broker, .to = control};
    memset(orders.fds, -1, sizeof(orders.fds));
    memset(replies.fds, -1, sizeof(replies.fds));
    fd_set_nonblock(control, true);
    for (bool goes_on = true; goes_on;) {
        struct pollfd fds[] = {
            {control, (short)((orders.len ? 0 : POLLIN) | (replies.len ? POLLOUT : 0)), 0},
            {broker, (short)((replies.len ? 0 : POLLIN) | (orders.len ? POLLOUT : 0)), 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        bool ended = (fds[0].revents | fds[1].revents) & POLLHUP && (orders.len || replies.len);
        goes_on = !ended && direction_move(&orders) && direction_move(&replies);
    }
    direction_drop(&orders);
    direction_drop(&replies);
}
