/* SPDX-License-Identifier: Apache-2.0 */
/* Links: a socket to a server inside on one side, a stream of the runner protocol on the other. */
#include "toolrunner/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "toolrunner/exec.h"
#include "toolrunner/ring.h"
#include "toolrunner/runner.h"

struct port_link {
    struct ports *ports;
    struct list link;
    uint32_t stream;
    uint16_t port;
    int family; /* of the try under way: AF_INET, then AF_INET6 */
    struct epoll_watch watch;
    struct ring out; /* from the server; start is what the control plane acknowledged */
    struct ring in;  /* to the server */
    uint64_t sent;
    bool connected;
    bool eof;       /* the server sends no more */
    bool end_told;  /* and the control plane knows */
    bool in_ended;  /* the control plane sends no more */
    bool in_closed; /* and the server has seen the end */
    bool hung;   /* the socket has hung up or failed, which epoll repeats until it is not asked */
    bool broken; /* the socket is of no more use: CLOSE when all is sent */
};

static void link_free(struct port_link *l)
{
    epoll_watch_close(&l->ports->runner->loop, &l->watch);
    ring_done(&l->out);
    ring_done(&l->in);
    list_remove(&l->link);
    l->ports->n_links--;
    free(l);
}

static struct port_link *link_find(const struct ports *p, uint32_t stream)
{
    list_for_each(l, &p->links, struct port_link, link) {
        if (l->stream == stream)
            return l;
    }
    return NULL;
}

static void link_update(struct port_link *l)
{
    uint32_t events = EPOLLERR;
    if (l->connected && !l->eof && ring_free(&l->out))
        events |= EPOLLIN;
    if (!l->connected || (!l->hung && ring_used(&l->in)))
        events |= EPOLLOUT;
    if (l->broken || (l->hung && !(events & EPOLLIN)))
        events = 0;
    epoll_watch_set(&l->ports->runner->loop, &l->watch, events);
}

static void link_break(struct port_link *l)
{
    ring_done(&l->in);
    l->eof = l->broken = true;
}

static void link_write(struct port_link *l)
{
    uint64_t before = l->in.start;
    ssize_t n = 1;
    while (n > 0 && ring_used(&l->in))
        n = ring_write_fd(&l->in, l->watch.fd);
    if (l->in.start != before)
        conn_send(&l->ports->runner->conn, data_ack, l->stream, .offset = l->in.start);
    if (n < 0 && n != -EAGAIN) {
        /* A server that has closed may have answered before: what it said is read first. */
        ring_done(&l->in);
        l->hung = true;
    } else if (l->in_ended && !l->in_closed && !ring_used(&l->in)) {
        shutdown(l->watch.fd, SHUT_WR);
        l->in_closed = true;
    }
}

static void link_read(struct port_link *l)
{
    ssize_t n = ring_read_fd(&l->out, l->watch.fd);
    if (n == 0)
        l->eof = true;
    else if (n < 0 && n != -EAGAIN && n != -ENOBUFS)
        link_break(l);
}

/* A hang-up after both sides have ended is how every connection ends; before that, what is still to
 * be written has no reader. */
static void link_check_hung(struct port_link *l)
{
    if (l->hung && l->eof && !l->in_closed)
        link_break(l);
}

static void on_link_ready(struct epoll_watch *w, uint32_t ready);

/* 0: it is under way, or there already. */
static int link_connect(struct port_link *l, int family)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons(l->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(l->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *sa =
        family == AF_INET ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
    int one = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    l->family = family;
    epoll_watch_close(&l->ports->runner->loop, &l->watch);
    epoll_watch_init(&l->watch, fd, on_link_ready);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return connect(fd, sa, len) < 0 && errno != EINPROGRESS ? -errno : 0;
}

/* A server may listen on the loopback's IPv6 address alone, as what "localhost" means to some. */
static int link_connect_next(struct port_link *l, int error)
{
    if (l->family == AF_INET && link_connect(l, AF_INET6) == 0)
        return 0;
    return error;
}

static void link_on_connect_result(struct port_link *l)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(l->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error && (error = link_connect_next(l, error)) != 0) {
        conn_send(&l->ports->runner->conn, connected, l->stream, .error = error);
        link_free(l);
        return;
    }
    if (l->watch.events) { /* the first socket's: a second one is not watched yet */
        l->connected = true;
        conn_send(&l->ports->runner->conn, connected, l->stream, .error = 0);
    }
    link_update(l);
}

static void on_link_ready(struct epoll_watch *w, uint32_t ready)
{
    struct port_link *l = container_of(w, struct port_link, watch);
    if (!l->connected) {
        link_on_connect_result(l);
        return;
    }
    if (w->events & EPOLLOUT && ready & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        link_write(l);
    if (ready & (EPOLLERR | EPOLLHUP))
        l->hung = true;
    if (w->events & EPOLLIN && ready & (EPOLLIN | EPOLLERR | EPOLLHUP))
        link_read(l);
    link_check_hung(l);
    link_update(l);
}

void ports_init(struct ports *p, struct runner *r)
{
    *p = (struct ports){.runner = r};
    list_init(&p->links);
}

void ports_on_disconnect(struct ports *p)
{
    list_for_each_safe(l, &p->links, struct port_link, link)
        link_free(l);
}

/* --- to the control plane */

/* Sends at most a chunk. True when there is more. */
static bool link_send(struct port_link *l)
{
    struct conn *c = &l->ports->runner->conn;
    size_t budget = PORT_CHUNK;
    while (budget && l->sent < l->out.end) {
        const char *data;
        size_t n = ring_peek(&l->out, l->sent, budget, &data);
        conn_send(c, data, l->stream, .offset = l->sent, .data = (const uint8_t *)data, .len = n);
        l->sent += n;
        budget -= n;
    }
    return l->sent < l->out.end;
}

/* After the last byte the end is sent; a link that has nothing left to do is freed. */
static void link_send_end(struct port_link *l)
{
    struct conn *c = &l->ports->runner->conn;
    if (l->broken) {
        conn_queued(c, frame_append(&c->out, MSG_CLOSE, l->stream, NULL, 0));
        link_free(l);
        return;
    }
    if (l->eof && !l->end_told) {
        conn_send(c, data_end, l->stream, .offset = l->out.end);
        l->end_told = true;
    }
    if (l->end_told && l->in_closed)
        link_free(l);
}

bool ports_pump(struct ports *p)
{
    struct conn *c = &p->runner->conn;
    bool more = false;
    list_for_each_safe(l, &p->links, struct port_link, link) {
        if (!conn_has_room(c))
            return true;
        bool left = link_send(l);
        more |= left;
        if (!left)
            link_send_end(l);
    }
    return more;
}

/* --- from the control plane */

static int start_link(struct ports *p, uint32_t stream, uint16_t port)
{
    const struct runner *r = p->runner;
    if (gateway_has_port(&r->gateway, port))
        return EACCES;
    if (p->n_links >= PORT_LINKS_MAX)
        return EMFILE;
    struct port_link *l = new0(struct port_link);
    l->ports = p;
    l->stream = stream;
    l->port = port;
    epoll_watch_init(&l->watch, -1, on_link_ready);
    list_append(&p->links, &l->link);
    p->n_links++;
    int error = -link_connect(l, AF_INET);
    if (error && (error = link_connect_next(l, error)) != 0) {
        link_free(l);
        return error;
    }
    link_update(l);
    return 0;
}

int ports_on_connect(struct ports *p, uint32_t stream, const struct msg_connect *m)
{
    if (!(stream & 1) || !m->port || link_find(p, stream) || exec_find(p->runner, stream))
        return -EPROTO;
    int error = start_link(p, stream, m->port);
    if (error)
        conn_send(&p->runner->conn, connected, stream, .error = error);
    return 0;
}

int ports_on_data(struct ports *p, uint32_t stream, const struct msg_data *m)
{
    struct port_link *l = link_find(p, stream);
    if (!l)
        return 0;
    if (!l->connected || l->in_ended || m->offset != l->in.end)
        return -EPROTO;
    if (l->hung || l->broken) { /* no reader is left: it counts as taken */
        l->in.start = l->in.end = m->offset + m->len;
        conn_send(&p->runner->conn, data_ack, stream, .offset = l->in.end);
        return 0;
    }
    if (ring_put(&l->in, m->data, m->len) < 0)
        return -EPROTO;
    link_write(l);
    link_check_hung(l);
    link_update(l);
    return 0;
}

int ports_on_data_ack(struct ports *p, uint32_t stream, const struct msg_data_ack *m)
{
    struct port_link *l = link_find(p, stream);
    if (!l)
        return 0;
    if (m->offset > l->sent)
        return -EPROTO;
    if (m->offset > l->out.start)
        ring_discard(&l->out, m->offset);
    link_update(l);
    return 0;
}

int ports_on_data_end(struct ports *p, uint32_t stream, const struct msg_data_end *m)
{
    struct port_link *l = link_find(p, stream);
    if (!l)
        return 0;
    if (!l->connected || l->in_ended || m->offset != l->in.end)
        return -EPROTO;
    l->in_ended = true;
    link_write(l);
    link_check_hung(l);
    link_update(l);
    return 0;
}

void ports_on_close(struct ports *p, uint32_t stream)
{
    struct port_link *l = link_find(p, stream);
    if (l)
        link_free(l);
}
