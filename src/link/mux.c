/* SPDX-License-Identifier: Apache-2.0 */
#include "link/mux.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum mux_kind { MUX_OPEN = 1, MUX_OPENED, MUX_DATA, MUX_END, _MUX_KIND_END };

/* A frame; its bytes follow. */
struct mux_head {
    uint8_t kind, stream;
    uint16_t len;
};

/* Room for FEW_FRAMES is kept in the buffer whenever data is read, so that the frames that open and
 * end streams, which are never repeated, are never dropped for want of it. */
#define DATA_MAX  4096
#define FRAME_MAX (sizeof(struct mux_head) + DATA_MAX)
#define FEW_FRAMES                                                                                 \
    (4 * MUX_STREAMS * sizeof(struct mux_head)) /* without bytes; always have room                 \
                                                 */

void mux_init(struct mux *m, int port_fd)
{
    memset(m, 0, sizeof(*m));
    m->port_fd = port_fd;
    for (size_t i = 0; i < MUX_STREAMS; i++)
        m->streams[i].fd = -1;
    fd_set_nonblock(port_fd, true);
}

static bool has_space(const struct mux *m, size_t n)
{
    return m->out.len + n <= PUMP_SIZE;
}

static void send_frame(struct mux *m, enum mux_kind kind, size_t stream, const void *data,
                       size_t len)
{
    struct mux_head head = {(uint8_t)kind, (uint8_t)stream, (uint16_t)len};
    if (!has_space(m, sizeof(head) + len))
        return; /* the other side does not read: it hears of the end of the port instead */
    pump_put(&m->out, &head, sizeof(head));
    if (len)
        pump_put(&m->out, data, len);
}

static void release_if_ended(struct mux_stream *s)
{
    if (!s->ended_in || !s->ended_out)
        return;
    fd_close(&s->fd);
    *s = (struct mux_stream){.fd = -1};
}

static void end_in(struct mux *m, size_t i)
{
    struct mux_stream *s = &m->streams[i];
    if (s->ended_in)
        return;
    s->ended_in = true;
    send_frame(m, MUX_END, i, NULL, 0);
}

/* Its own end is gone: nothing more is said or taken. */
static void mux_drop_stream(struct mux *m, size_t i)
{
    fd_close(&m->streams[i].fd);
    end_in(m, i);
    release_if_ended(&m->streams[i]);
}

bool mux_has_room(const struct mux *m)
{
    for (size_t i = 0; i < MUX_STREAMS; i++)
        if (!m->streams[i].used)
            return has_space(m, FEW_FRAMES);
    return false;
}

void mux_open(struct mux *m, int fd)
{
    size_t i = 0;
    while (m->streams[i].used)
        i++;
    m->streams[i] = (struct mux_stream){.fd = fd, .used = true};
    fd_set_nonblock(fd, true);
    send_frame(m, MUX_OPEN, i, NULL, 0);
}

/* --- what comes */

static bool take_open(struct mux *m, size_t i)
{
    struct mux_stream *s = &m->streams[i];
    if (s->used || !m->accept)
        return false;
    *s = (struct mux_stream){.fd = m->accept(m->data), .used = true, .opened = true};
    if (s->fd < 0) {
        mux_drop_stream(m, i);
        return true;
    }
    fd_set_nonblock(s->fd, true);
    send_frame(m, MUX_OPENED, i, NULL, 0);
    return true;
}

static bool take_opened(struct mux *m, size_t i)
{
    struct mux_stream *s = &m->streams[i];
    if (s->opened || m->accept)
        return false;
    s->opened = true;
    if (s->fd >= 0 && m->on_opened)
        m->on_opened(m->data, s->fd);
    return true;
}

static bool take_end(struct mux *m, size_t i)
{
    struct mux_stream *s = &m->streams[i];
    if (s->ended_out)
        return false;
    s->ended_out = true;
    if (s->fd >= 0)
        shutdown(s->fd, SHUT_WR);
    if (!s->opened || s->fd < 0) /* the connection was refused, or its client has left */
        mux_drop_stream(m, i);
    else
        release_if_ended(s);
    return true;
}

static bool take_frame(struct mux *m, const struct mux_head *h)
{
    size_t i = h->stream;
    if (i >= MUX_STREAMS || (h->len && h->kind != MUX_DATA) || h->len > DATA_MAX)
        return false;
    if (h->kind == MUX_OPEN)
        return take_open(m, i);
    if (!m->streams[i].used)
        return false;
    if (h->kind == MUX_OPENED)
        return take_opened(m, i);
    if (h->kind == MUX_END)
        return take_end(m, i);
    m->current = h->stream;
    m->left = h->len;
    return h->kind == MUX_DATA && m->streams[i].opened && !m->streams[i].ended_out;
}

/* False: the connection takes no more for now. Then nothing of other streams is delivered, either,
 * because frames are in one row; mux_turn() ends a stream that holds the others up for too long. */
static bool deliver_data(struct mux *m)
{
    struct mux_stream *s = &m->streams[m->current];
    size_t n = m->left < m->in.len ? m->left : m->in.len;
    ssize_t w = s->fd < 0 ? 0 : pump_drain(&m->in, s->fd, n);
    if (w < 0 && s->used)
        mux_drop_stream(m, m->current);
    if (w < 0 || s->fd < 0) {
        pump_skip(&m->in, n);
        w = (ssize_t)n;
    }
    m->left = (uint16_t)(m->left - w);
    return (size_t)w == n;
}

static bool deliver_all(struct mux *m)
{
    struct mux_head head;
    for (;;) {
        if (m->left && m->in.len && !deliver_data(m)) {
            m->stuck_since_ms = m->stuck_since_ms ? m->stuck_since_ms : clock_mono_ms();
            return true;
        }
        m->stuck_since_ms = 0;
        if (m->left || m->in.len < sizeof(head))
            return true;
        memcpy(&head, pump_bytes(&m->in), sizeof(head));
        pump_skip(&m->in, sizeof(head));
        if (!take_frame(m, &head))
            return false;
    }
}

/* --- what goes */

static void mux_collect_stream(struct mux *m, size_t i)
{
    uint8_t data[DATA_MAX];
    struct mux_stream *s = &m->streams[i];
    ssize_t n = read(s->fd, data, sizeof(data));
    if (n > 0)
        send_frame(m, MUX_DATA, i, data, (size_t)n);
    else if (n == 0) {
        end_in(m, i);
        release_if_ended(s);
    } else if (errno != EAGAIN && errno != EINTR)
        mux_drop_stream(m, i);
}

void mux_prepare(struct mux *m, struct pollfd *fds)
{
    bool listens = has_space(m, FRAME_MAX + FEW_FRAMES);
    fds[0] = (struct pollfd){
        .fd = m->port_fd,
        .events = (short)((pump_has_room(&m->in) ? POLLIN : 0) | (m->out.len ? POLLOUT : 0))};
    for (size_t i = 0; i < MUX_STREAMS; i++) {
        const struct mux_stream *s = &m->streams[i];
        short events = (short)((listens && s->opened && !s->ended_in ? POLLIN : 0) |
                               (m->stuck_since_ms && m->current == i ? POLLOUT : 0));
        fds[1 + i] = (struct pollfd){.fd = events ? s->fd : -1, .events = events};
    }
}

bool mux_turn(struct mux *m, const struct pollfd *fds)
{
    if (fds[0].revents & (POLLIN | POLLHUP) && pump_has_room(&m->in)) {
        ssize_t n = pump_fill(&m->in, m->port_fd);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            return false;
    }
    for (size_t i = 0; i < MUX_STREAMS; i++)
        if (fds[1 + i].fd >= 0 && fds[1 + i].fd == m->streams[i].fd &&
            fds[1 + i].revents & (POLLIN | POLLHUP | POLLERR) && !m->streams[i].ended_in &&
            has_space(m, FRAME_MAX + FEW_FRAMES))
            mux_collect_stream(m, i);
    if (m->stuck_since_ms && clock_mono_ms() - m->stuck_since_ms > MUX_STUCK_MS)
        mux_drop_stream(m, m->current);
    return deliver_all(m) && (!m->out.len || pump_drain(&m->out, m->port_fd, m->out.len) >= 0);
}
