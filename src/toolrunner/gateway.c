/* SPDX-License-Identifier: Apache-2.0 */
/* Tunnels: a local socket on one side, a stream of the runner protocol on the other. A proxy's
 * connections are passed out whole where that works, and are tunnels only where it does not. */
#include "toolrunner/gateway.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/ring.h"
#include "toolrunner/runner.h"

#define FIRST_STREAM 2   /* even: chosen by the runner */
#define BACKLOG      512 /* what is beyond it waits a second for its next try */

struct own_proxy {
    struct gateway *gateway;
    struct list link;
    uint32_t exec;
    uint16_t port;
    struct epoll_watch listener;
};

struct tunnel {
    struct gateway *gateway;
    struct list link;
    uint32_t stream;
    uint32_t exec; /* the exec whose own proxy it came through; 0: the proxy that all share */
    struct epoll_watch watch;
    struct epoll_timer linger; /* of a proxy's connection whose program sends no more */
    struct ring out;           /* from the socket; start is what the peer acknowledged */
    struct ring in;            /* to the socket */
    uint64_t sent;
    bool passed; /* the socket went with OPEN: OPEN_RESULT says whether it is ours no more */
    bool open;   /* the control plane took it */
    bool eof;    /* the socket's side sends no more */
    bool closed; /* the socket's side is gone: CLOSE when all is sent */
    bool broke;  /* it has gone by an error or without its answer: CLOSE says so */
    bool ending; /* the control plane closed: free when all is written */
    bool drains; /* all is written to a proxy's client, whose end is waited for */
    bool cut;    /* the control plane closed by a reset: so is the client's side */
    unsigned looks;
};

/* To a program whose connection cannot be carried at all. */
#define PROXY_ANSWER(why)                                                                          \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"    \
    "mas-sandbox proxy: " why "\n"
static const char too_many[] = PROXY_ANSWER("this sandbox has too many connections");
static const char no_gateway[] = PROXY_ANSWER("the network gateway does not answer");

static void gateway_update(struct gateway *g)
{
    bool listen = conn_ready(&g->runner->conn) && (g->proxy || g->n_tunnels < GATEWAY_TUNNELS_MAX);
    epoll_watch_set(&g->runner->loop, &g->listener, listen ? EPOLLIN : 0);
    list_for_each(own, &g->own, struct own_proxy, link)
        epoll_watch_set(&g->runner->loop, &own->listener, listen ? EPOLLIN : 0);
}

static void tunnel_free(struct tunnel *t)
{
    struct gateway *g = t->gateway;
    epoll_watch_close(&g->runner->loop, &t->watch);
    epoll_timer_clear(&t->linger);
    ring_done(&t->out);
    ring_done(&t->in);
    list_remove(&t->link);
    g->n_tunnels--;
    free(t);
    gateway_update(g);
}

static struct tunnel *tunnel_find(struct gateway *g, uint32_t stream)
{
    list_for_each(t, &g->tunnels, struct tunnel, link) {
        if (t->stream == stream)
            return t;
    }
    return NULL;
}

/* EPOLLERR is always reported; asking for it alone still tells of a hang-up. */
static void tunnel_update(struct tunnel *t)
{
    uint32_t events = EPOLLERR;
    if (t->open && !t->eof && ring_free(&t->out))
        events |= EPOLLIN;
    if (ring_used(&t->in))
        events |= EPOLLOUT;
    epoll_watch_set(&t->gateway->runner->loop, &t->watch, t->closed ? 0 : events);
}

static void tunnel_write(struct tunnel *t)
{
    uint64_t before = t->in.start;
    ssize_t n = 1;
    while (n > 0 && ring_used(&t->in))
        n = ring_write_fd(&t->in, t->watch.fd);
    if (n < 0 && n != -EAGAIN) {
        ring_done(&t->in);
        t->eof = t->closed = t->broke = true;
    }
    if (t->in.start != before)
        conn_send(&t->gateway->runner->conn, data_ack, t->stream, .offset = t->in.start);
}

static void tunnel_read(struct tunnel *t)
{
    ssize_t n = ring_read_fd(&t->out, t->watch.fd);
    if (n == 0)
        t->eof = true;
    else if (n < 0 && n != -EAGAIN && n != -ENOBUFS)
        t->eof = t->closed = t->broke = true;
    /* The end of a program and the end of what it sends look alike on this kind of socket. */
    if (n == 0 && t->gateway->proxy)
        epoll_timer_set_us(&t->gateway->runner->loop, &t->linger, GATEWAY_LINGER_MS * 1000ULL);
}

/* Whether the client's kernel has all that was written. gVisor does not say how much is still on
 * its way. There a socket with the smallest buffer can be written to when nearly nothing is, and
 * the rest gets the time of another look. */
static bool tunnel_has_arrived(const struct tunnel *t)
{
    struct pollfd p = {.fd = t->watch.fd, .events = POLLOUT};
    int left = 0, least = 1;
    if (ioctl(t->watch.fd, SIOCOUTQ, &left) == 0)
        return left == 0;
    setsockopt(t->watch.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    return t->looks > 1 && poll(&p, 1, 0) == 1;
}

/* A reset takes back what has not arrived, and there is no event for the moment when all has. */
static void tunnel_reset(struct tunnel *t)
{
    struct linger at_once = {.l_onoff = 1};
    if (!tunnel_has_arrived(t) && t->looks++ < GATEWAY_RESET_MS / GATEWAY_LOOK_MS) {
        epoll_watch_set(&t->gateway->runner->loop, &t->watch, 0);
        epoll_timer_set_us(&t->gateway->runner->loop, &t->linger, GATEWAY_LOOK_MS * 1000ULL);
        return;
    }
    setsockopt(t->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    tunnel_free(t);
}

static void on_linger_over(struct epoll_timer *timer)
{
    struct tunnel *t = container_of(timer, struct tunnel, linger);
    if (t->looks) {
        tunnel_reset(t);
        return;
    }
    if (t->drains) {
        tunnel_free(t);
        return;
    }
    t->closed = true;
    tunnel_update(t);
}

/* A connection that is closed over unread bytes takes its answer back, so the proxy half-closes its
 * side first, and what the client still sends is dropped for a moment. */
static void tunnel_finish(struct tunnel *t)
{
    if (!t->gateway->proxy || t->closed || t->drains) {
        tunnel_free(t);
        return;
    }
    t->drains = true;
    if (t->cut) {
        tunnel_reset(t);
        return;
    }
    shutdown(t->watch.fd, SHUT_WR);
    epoll_watch_set(&t->gateway->runner->loop, &t->watch, EPOLLIN);
    epoll_timer_set_us(&t->gateway->runner->loop, &t->linger, GATEWAY_DRAIN_MS * 1000ULL);
}

static void on_tunnel_ready(struct epoll_watch *w, uint32_t ready)
{
    struct tunnel *t = container_of(w, struct tunnel, watch);
    if (t->drains) {
        char dropped[4096];
        ssize_t n = recv(t->watch.fd, dropped, sizeof(dropped), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            tunnel_free(t);
        return;
    }
    if (w->events & EPOLLOUT && ready & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        tunnel_write(t);
    if (w->events & EPOLLIN && ready & (EPOLLIN | EPOLLHUP))
        tunnel_read(t);
    /* A hang-up with unread bytes left (a full ring) is looked at again after they are read. */
    if (ready & EPOLLHUP && (t->eof || !t->open)) {
        t->closed = true;
        t->broke = t->broke || ready & EPOLLERR;
    }
    if (t->ending && !ring_used(&t->in))
        tunnel_finish(t);
    else
        tunnel_update(t);
}

static void tunnel_open_frames(struct tunnel *t)
{
    struct gateway *g = t->gateway;
    t->stream = g->next_stream;
    g->next_stream += 2;
    conn_send(&g->runner->conn, open, t->stream, .kind = OPEN_GATEWAY, .exec = t->exec);
    tunnel_update(t);
}

/* A kernel that is not the control plane's (gVisor, a guest) takes no descriptors. A connection
 * that is clogged at the moment is not waited for. Either way there are the frames. */
static bool tunnel_pass(struct tunnel *t)
{
    struct gateway *g = t->gateway;
    _cleanup_strbuf_ struct strbuf frame = STRBUF_INIT(FRAME_HEADER_SIZE + 64);
    struct msg_open m = {.kind = OPEN_SOCKET, .exec = t->exec};
    if (!g->proxy || g->stays)
        return false;
    msg_open_format(&frame, g->next_stream, &m);
    int r = conn_send_socket(&g->runner->conn, frame.data, frame.len, t->watch.fd);
    if (r < 0) {
        g->stays = r != -EAGAIN && r != -ETOOMANYREFS && r != -ENOBUFS;
        return false;
    }
    t->stream = g->next_stream;
    g->next_stream += 2;
    t->passed = true;
    return true;
}

static void gateway_accept(struct gateway *g, struct epoll_watch *listener, uint32_t exec)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        epoll_watch_set(&g->runner->loop, listener, 0);
        epoll_timer_set_us(&g->runner->loop, &g->retry, GATEWAY_RETRY_MS * 1000);
        return;
    }
    if (g->n_tunnels >= GATEWAY_TUNNELS_MAX) {
        /* What the program has sent is read first: a socket that is closed over unread bytes takes
         * its answer back. */
        char request[4096];
        if (recv(fd, request, sizeof(request), MSG_DONTWAIT) >= 0 || errno == EAGAIN)
            send(fd, too_many, sizeof(too_many) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        close(fd);
        return;
    }
    struct tunnel *t = new0(struct tunnel);
    t->gateway = g;
    t->exec = exec;
    epoll_timer_init(&t->linger, on_linger_over);
    epoll_watch_init(&t->watch, fd, on_tunnel_ready);
    list_append(&g->tunnels, &t->link);
    g->n_tunnels++;
    if (!tunnel_pass(t))
        tunnel_open_frames(t);
    gateway_update(g);
}

static void on_gateway_ready(struct epoll_watch *w, uint32_t ready)
{
    (void)ready;
    gateway_accept(container_of(w, struct gateway, listener), w, 0);
}

static void on_own_ready(struct epoll_watch *w, uint32_t ready)
{
    struct own_proxy *own = container_of(w, struct own_proxy, listener);
    (void)ready;
    gateway_accept(own->gateway, w, own->exec);
}

static void on_gateway_retry(struct epoll_timer *t)
{
    gateway_update(container_of(t, struct gateway, retry));
}

static int gateway_listen(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    strcpy(sa.sun_path, path);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    unlink(path);
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || chmod(path, 0666) < 0 ||
        listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* The loopback is the sandbox's own: runtimes that share the host's never ask for this. */
static int proxy_listen(uint16_t port)
{
    int one = 1;
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* of what is accepted, too */
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* Ports that a program has are passed over. */
static int own_listen(struct gateway *g, uint16_t *ret_port)
{
    while (g->next_own_port <= UINT16_MAX) {
        uint16_t port = (uint16_t)g->next_own_port++;
        int fd = proxy_listen(port);
        if (fd == -EADDRINUSE)
            continue;
        *ret_port = port;
        return fd;
    }
    return -EADDRNOTAVAIL;
}

int gateway_open_own(struct gateway *g, uint32_t exec, uint16_t *ret_port)
{
    uint16_t port = 0;
    int fd = g->proxy ? own_listen(g, &port) : -ENOTSUP;
    if (fd < 0)
        return fd;
    struct own_proxy *own = new0(struct own_proxy);
    own->gateway = g;
    own->exec = exec;
    own->port = port;
    epoll_watch_init(&own->listener, fd, on_own_ready);
    list_append(&g->own, &own->link);
    *ret_port = port;
    gateway_update(g);
    return 0;
}

void gateway_close_own(struct gateway *g, uint32_t exec)
{
    list_for_each_safe(own, &g->own, struct own_proxy, link) {
        if (own->exec != exec)
            continue;
        epoll_watch_close(&g->runner->loop, &own->listener);
        list_remove(&own->link);
        free(own);
    }
}

bool gateway_has_port(const struct gateway *g, uint16_t port)
{
    list_for_each(own, &g->own, const struct own_proxy, link) {
        if (own->port == port)
            return true;
    }
    return g->port && port == g->port;
}

int gateway_init(struct gateway *g, struct runner *r, const char *path, uint16_t port)
{
    *g = (struct gateway){.runner = r,
                          .next_stream = FIRST_STREAM,
                          .next_own_port = OWN_PROXY_FIRST,
                          .port = path ? 0 : port,
                          .proxy = !path && port};
    list_init(&g->own);
    list_init(&g->tunnels);
    epoll_timer_init(&g->retry, on_gateway_retry);
    int fd = path ? gateway_listen(path) : port ? proxy_listen(port) : -1;
    epoll_watch_init(&g->listener, fd, on_gateway_ready);
    return (path || port) && fd < 0 ? fd : 0;
}

void gateway_on_connect(struct gateway *g)
{
    g->stays = false; /* it may be another kind of connection than the last */
    gateway_update(g);
}

void gateway_on_disconnect(struct gateway *g)
{
    list_for_each_safe(t, &g->tunnels, struct tunnel, link)
        tunnel_free(t);
    gateway_update(g);
}

/* Sends at most a chunk. True when there is more. */
static bool tunnel_send(struct tunnel *t)
{
    struct conn *c = &t->gateway->runner->conn;
    size_t budget = GATEWAY_CHUNK;
    while (budget && t->sent < t->out.end) {
        const char *data;
        size_t n = ring_peek(&t->out, t->sent, budget, &data);
        conn_send(c, data, t->stream, .offset = t->sent, .data = (const uint8_t *)data, .len = n);
        t->sent += n;
        budget -= n;
    }
    return t->sent < t->out.end;
}

bool gateway_pump(struct gateway *g)
{
    struct conn *c = &g->runner->conn;
    bool more = false;
    list_for_each_safe(t, &g->tunnels, struct tunnel, link) {
        if (!conn_has_room(c))
            return true;
        bool left = tunnel_send(t);
        more |= left;
        if (t->closed && !left) {
            conn_send(c, close, t->stream, .reset = t->broke);
            tunnel_free(t);
        }
    }
    return more;
}

/* Nothing more comes: it is freed once the program has what there is. */
static void tunnel_end(struct tunnel *t)
{
    t->ending = t->eof = true;
    ring_done(&t->out);
    t->sent = t->out.end;
    if (ring_used(&t->in) && !t->closed)
        tunnel_update(t);
    else
        tunnel_finish(t);
}

int gateway_on_open_result(struct gateway *g, uint32_t stream, const struct msg_open_result *m)
{
    struct tunnel *t = tunnel_find(g, stream);
    if (!t)
        return 0;
    if (t->open)
        return -EPROTO;
    if (t->passed && m->error == EPERM) { /* an older control plane, which does not know the kind */
        t->passed = false;
        g->stays = true;
        tunnel_open_frames(t);
        return 0;
    }
    t->open = true;
    if (t->passed && !m->error)
        tunnel_free(t);
    else if (m->error && g->proxy && ring_put(&t->in, no_gateway, sizeof(no_gateway) - 1) == 0)
        tunnel_end(t);
    else if (m->error)
        tunnel_free(t);
    else
        tunnel_update(t);
    return 0;
}

int gateway_on_data(struct gateway *g, uint32_t stream, const struct msg_data *m)
{
    struct tunnel *t = tunnel_find(g, stream);
    if (!t)
        return 0;
    if (!t->open || t->ending || m->offset != t->in.end)
        return -EPROTO;
    if (ring_put(&t->in, m->data, m->len) < 0)
        return -EPROTO;
    tunnel_write(t);
    tunnel_update(t);
    return 0;
}

int gateway_on_data_ack(struct gateway *g, uint32_t stream, const struct msg_data_ack *m)
{
    struct tunnel *t = tunnel_find(g, stream);
    if (!t)
        return 0;
    if (m->offset > t->sent)
        return -EPROTO;
    if (m->offset > t->out.start)
        ring_discard(&t->out, m->offset);
    tunnel_update(t);
    return 0;
}

void gateway_on_close(struct gateway *g, uint32_t stream, const struct msg_close *m)
{
    struct tunnel *t = tunnel_find(g, stream);
    if (!t)
        return;
    t->cut = m->reset;
    tunnel_end(t);
}
