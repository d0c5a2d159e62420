/* SPDX-License-Identifier: Apache-2.0 */
/* sbx port-forward: ports of this machine's loopback lead to ports inside a sandbox, until it is
 * interrupted. Each connection is a WebSocket to the daemon, which carries its bytes; the end of
 * either side is passed on by itself, as TCP has it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "libsbx/sbx.h"

#define FORWARDS_MAX 16
#define LINKS_MAX    64 /* as many as a sandbox has streams */
#define PIECE        32768
#define QUEUE_HIGH   (1024 * 1024)      /* to the daemon: more is not read from the program */
#define PENDING_HIGH (4 * 1024 * 1024)  /* to the program: more is not taken from the daemon */
#define PENDING_MAX  (64 * 1024 * 1024) /* with one message more than any daemon sends */

struct forward {
    uint16_t local, remote;
    int fd;
};

struct link {
    struct list node;
    const struct forward *forward;
    int fd;
    struct sbx_ws *ws;
    struct strbuf pending; /* for the program */
    bool local_ended;      /* the program sends no more */
    bool remote_ended;     /* the server sends no more */
    bool shut;             /* and the program knows */
    bool closed;           /* the daemon has closed it */
};

struct forwarding {
    struct session *session;
    const char *id;
    struct forward forwards[FORWARDS_MAX];
    size_t n_forwards, n_links;
    struct list links;
};

static const char end_text[] = "{\"type\":\"end\"}";

/* "LOCAL:REMOTE" or one number for both. */
static int parse_forward(const char *text, struct forward *ret)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const char *remote = colon ? colon + 1 : text;
    if (target_parse_port(text, n, &ret->local) < 0 ||
        target_parse_port(remote, strlen(remote), &ret->remote) < 0)
        return -EINVAL;
    ret->fd = -1;
    return 0;
}

static int listen_local(uint16_t port)
{
    int one = 1;
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, LINKS_MAX) < 0)
        return -errno;
    return fd_steal(&fd);
}

static void link_free(struct forwarding *f, struct link *l)
{
    list_remove(&l->node);
    f->n_links--;
    fd_close(&l->fd);
    sbx_ws_free(l->ws);
    strbuf_done(&l->pending);
    free(l);
}

/* What is refused is said once per connection; the others go on. */
static void accept_link(struct forwarding *f, const struct forward *forward)
{
    struct sbx_error err;
    _cleanup_close_ int fd = accept4(forward->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    _cleanup_free_ char *path =
        xasprintf("/v1/sandboxes/%s/forward/%u", f->id, (unsigned)forward->remote);
    struct sbx_ws *ws = sbx_ws_open(f->session->client, path, &err);
    if (!ws) {
        cli_warn("port %u: %s", (unsigned)forward->remote, err.message);
        return;
    }
    struct link *l = new0(struct link);
    l->forward = forward;
    l->fd = fd_steal(&fd);
    l->ws = ws;
    strbuf_init(&l->pending, PENDING_MAX);
    list_append(&f->links, &l->node);
    f->n_links++;
}

static void link_read(struct link *l)
{
    char buffer[PIECE];
    ssize_t n = recv(l->fd, buffer, sizeof(buffer), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        l->closed |= sbx_ws_send(l->ws, 1, buffer, (size_t)n, NULL) < 0;
        return;
    }
    l->local_ended = true;
    l->closed |= n < 0 || sbx_ws_send(l->ws, 0, end_text, sizeof(end_text) - 1, NULL) < 0;
}

static void link_write(struct link *l)
{
    while (l->pending.len) {
        ssize_t n = send(l->fd, l->pending.data, l->pending.len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            strbuf_reset(&l->pending);
            l->closed = true;
            return;
        }
        strbuf_consume(&l->pending, (size_t)n);
    }
    if (l->remote_ended && !l->shut) {
        shutdown(l->fd, SHUT_WR);
        l->shut = true;
    }
}

static void link_receive(struct link *l)
{
    while (!l->closed && l->pending.len < PENDING_HIGH) {
        struct sbx_ws_message m;
        enum sbx_ws_result got = sbx_ws_receive(l->ws, 0, &m, NULL);
        if (got == SBX_WS_TIMEOUT)
            break;
        if (got != SBX_WS_MESSAGE)
            l->closed = true;
        else if (!m.binary)
            l->remote_ended = true;
        else if (strbuf_append(&l->pending, m.data, m.len) < 0)
            l->closed = true;
    }
    link_write(l);
}

/* A link is over when the daemon has closed it and the program has all there was. */
static bool link_is_over(const struct link *l)
{
    return (l->closed && !l->pending.len) || (l->local_ended && l->shut);
}

static void serve_links(struct forwarding *f, const struct pollfd *p)
{
    list_for_each_safe(l, &f->links, struct link, node) {
        const struct pollfd *local = p++, *remote = p++;
        if (local->revents & (POLLIN | POLLHUP | POLLERR) && local->events & POLLIN)
            link_read(l);
        if (local->revents & (POLLOUT | POLLERR))
            link_write(l);
        if (remote->revents)
            link_receive(l);
        if (link_is_over(l))
            link_free(f, l);
    }
}

static size_t fill_polls(struct forwarding *f, struct pollfd *p)
{
    size_t n = 0;
    p[n++] = (struct pollfd){.fd = signals_fd(), .events = POLLIN};
    for (size_t i = 0; i < f->n_forwards; i++)
        p[n++] = (struct pollfd){.fd = f->n_links < LINKS_MAX ? f->forwards[i].fd : -1,
                                 .events = POLLIN};
    list_for_each(l, &f->links, struct link, node) {
        bool reads = !l->local_ended && !l->closed && sbx_ws_queued(l->ws) < QUEUE_HIGH;
        short events = (short)((reads ? POLLIN : 0) | (l->pending.len ? POLLOUT : 0));
        bool takes = !l->closed && l->pending.len < PENDING_HIGH;
        p[n++] = (struct pollfd){.fd = events ? l->fd : -1, .events = events};
        p[n++] =
            (struct pollfd){.fd = takes ? sbx_ws_fd(l->ws) : -1, .events = sbx_ws_events(l->ws)};
    }
    return n;
}

static void forward_all(struct forwarding *f)
{
    struct pollfd p[1 + FORWARDS_MAX + 2 * LINKS_MAX];
    for (;;) {
        size_t n = fill_polls(f, p);
        if (poll(p, n, -1) < 0 && errno != EINTR)
            return;
        int signo = signals_read();
        if (signo && signo != SIGWINCH)
            return;
        serve_links(f, p + 1 + f->n_forwards);
        for (size_t i = 0; i < f->n_forwards; i++)
            if (p[1 + i].revents)
                accept_link(f, &f->forwards[i]);
        /* What came with the handshake is there already, and poll() does not tell of it. */
        list_for_each_safe(l, &f->links, struct link, node) {
            link_receive(l);
            if (link_is_over(l))
                link_free(f, l);
        }
    }
}

static int open_forwards(struct forwarding *f, const struct args *a, struct sbx_error *err)
{
    for (int i = 1; i < a->n_rest; i++) {
        struct forward *one = &f->forwards[f->n_forwards];
        if (parse_forward(a->rest[i], one) < 0)
            return cli_fail_usage("'%s' is not LOCAL:REMOTE, two ports from 1 to 65535",
                                  a->rest[i]);
        f->n_forwards++;
        one->fd = listen_local(one->local);
        if (one->fd < 0)
            return cli_set_error(err, NULL, "listen on 127.0.0.1:%u: %s", (unsigned)one->local,
                                 strerror(-one->fd));
    }
    for (size_t i = 0; i < f->n_forwards; i++)
        printf("127.0.0.1:%u leads to port %u of %s\n", (unsigned)f->forwards[i].local,
               (unsigned)f->forwards[i].remote, f->id);
    fflush(stdout);
    return 0;
}

static int run_port_forward(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct forwarding f = {.session = s, .id = a->rest[0]};
    _cleanup_free_ char *path = xasprintf("/v1/sandboxes/%s", f.id);
    list_init(&f.links);
    int r = session_call(s, "GET", path, NULL, NULL, err);
    if (r >= 0)
        r = open_forwards(&f, a, err);
    if (r == 0)
        forward_all(&f);
    while (!list_empty(&f.links))
        link_free(&f, container_of(f.links.next, struct link, node));
    for (size_t i = 0; i < f.n_forwards; i++)
        fd_close(&f.forwards[i].fd);
    return r;
}

const struct command command_port_forward = {
    .name = "port-forward",
    .usage = "ID LOCAL:REMOTE...",
    .group = GROUP_SANDBOX,
    .summary = "Let ports of this machine lead to ports inside a sandbox",
    .details = "Listens on 127.0.0.1 at each LOCAL port and carries every connection to the REMOTE "
               "port of the sandbox's loopback, until it is interrupted. One number stands for "
               "both ports. Up to 16 pairs and 64 connections at once.",
    .options = OPTIONS(OPTIONS_CONNECTION),
    .min_rest = 2,
    .max_rest = 1 + FORWARDS_MAX,
    .run_connected = run_port_forward,
};
