/* SPDX-License-Identifier: Apache-2.0 */
/* Carries the runner's connections over the data port; see proto/guest.h for how they begin. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/internal.h"
#include "proto/channel.h"
#include "link/mark.h"
#include "link/pump.h"

struct link {
    struct guest *guest;
    uint32_t connection; /* how many there were */
    struct pump in;      /* from the port */
    struct pump out;     /* to it */
};

/* A connection for the runner; the first is the one that it was started with. */
static void begin_connection(struct link *l)
{
    struct guest *g = l->guest;
    int pair[2];
    if (l->connection++ == 0)
        return;
    fd_close(&g->stream_fd);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return; /* nothing answers, which mas-vmm sees */
    if (fd_send_msg(g->channel_fd, CHANNEL_CONNECTION, 1, &pair[1], 1) < 0)
        fd_close(&pair[0]);
    close(pair[1]);
    g->stream_fd = pair[0];
}

static void end_connection(struct link *l)
{
    struct guest_message m = {.news = GUEST_CLOSED, .connection = l->connection};
    fd_close(&l->guest->stream_fd);
    guest_send(l->guest, &m);
}

/* The mark is at the front; true when what belongs to it was there. */
static bool take_mark(struct link *l)
{
    if (l->in.len < 2 * GUEST_MARK_SIZE)
        return false;
    begin_connection(l);
    l->out.len = 0; /* of the connection before, and perhaps a part of a frame */
    if (l->guest->stream_fd >= 0) {
        fd_set_nonblock(l->guest->stream_fd, true);
        pump_put(&l->out, pump_bytes(&l->in) + GUEST_MARK_SIZE, GUEST_MARK_SIZE);
    }
    pump_skip(&l->in, 2 * GUEST_MARK_SIZE);
    return true;
}

/* True when the runner can take no more for now. */
static bool deliver(struct link *l)
{
    for (;;) {
        bool found;
        size_t n = mark_find(pump_bytes(&l->in), l->in.len, l->guest->order.mark, &found);
        if (l->guest->stream_fd < 0 || l->connection == 0) {
            pump_skip(&l->in, n);
        } else if (n) {
            ssize_t w = pump_drain(&l->in, l->guest->stream_fd, n);
            if (w < 0) {
                end_connection(l);
                continue;
            }
            if ((size_t)w < n && !found)
                return true;
            if ((size_t)w < n) { /* the rest of the old connection has no reader */
                pump_skip(&l->in, n - (size_t)w);
            }
        }
        if (!found || !take_mark(l))
            return false;
    }
}

static void collect(struct link *l)
{
    ssize_t n = pump_fill(&l->out, l->guest->stream_fd);
    if (n == 0 || (n < 0 && n != -EAGAIN))
        end_connection(l);
}

static bool port_turn(struct link *l, short ready)
{
    if (ready & POLLIN && pump_has_room(&l->in)) {
        ssize_t n = pump_fill(&l->in, l->guest->data_fd);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            return false;
    }
    return !(l->out.len && ready & POLLOUT) ||
           pump_drain(&l->out, l->guest->data_fd, l->out.len) >= 0;
}

/* What the runner wrote before its end still goes out, but nothing is waited for long. */
#define LAST_WORDS_MS 2000

static bool has_last_words(const struct link *l)
{
    return l->out.len || (l->guest->stream_fd >= 0 && l->connection);
}

int guest_serve(struct guest *g)
{
    static struct link l;
    int status = 0;
    bool stuck = false, ended = false;
    l.guest = g;
    fd_set_nonblock(g->data_fd, true);
    while (!ended || has_last_words(&l)) {
        bool there = g->stream_fd >= 0 && l.connection;
        struct pollfd fds[] = {
            {.fd = g->data_fd,
             .events = (short)((pump_has_room(&l.in) ? POLLIN : 0) | (l.out.len ? POLLOUT : 0))},
            {.fd = there ? g->stream_fd : -1,
             .events = (short)((pump_has_room(&l.out) ? POLLIN : 0) | (stuck ? POLLOUT : 0))},
            {.fd = ended ? -1 : g->runner_pidfd, .events = POLLIN},
            {.fd = ended ? -1 : g->ctl_fd, .events = POLLIN},
        };
        int n = poll(fds, 4, ended ? LAST_WORDS_MS : -1);
        if ((n < 0 && errno != EINTR) || (n == 0 && ended) || !port_turn(&l, fds[0].revents))
            break;
        if (fds[3].revents & POLLIN)
            guest_renew(g, l.connection);
        if (there && fds[1].revents & (POLLIN | POLLHUP) && pump_has_room(&l.out))
            collect(&l);
        stuck = deliver(&l);
        ended = ended || fds[2].revents;
    }
    waitpid(g->runner, &status, 0);
    return status;
}
