/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that the real runner makes to a port of its loopback: bytes both ways past the
 * window, ends of either side alone, refusals, limits, servers that misbehave, and a control plane
 * that does. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"

static int listen_on(int family, uint16_t *ret_port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, sa, len) < 0 || listen(fd, 128) < 0 || getsockname(fd, sa, &len) < 0) {
        fd_close(&fd);
        return -1;
    }
    *ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

static int accept_one(int listener)
{
    struct timeval limit = {.tv_sec = 30};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

static struct peer_tunnel *ask(struct peer *p, uint16_t port)
{
    assert(p->n_tunnels < PEER_TUNNELS);
    struct peer_tunnel *t = &p->tunnels[p->n_tunnels++];
    *t = (struct peer_tunnel){.stream = p->next_stream};
    strbuf_init(&t->in, PEER_OUT_MAX);
    p->next_stream += 2;
    msg_connect_format(&p->out, t->stream, &(struct msg_connect){port});
    peer_flush(p);
    return t;
}

static void send_data(struct peer *p, struct peer_tunnel *t, uint64_t at, const char *s, size_t len)
{
    msg_data_format(&p->out, t->stream, &(struct msg_data){at, (const uint8_t *)s, len});
    peer_flush(p);
}

static void send_end(struct peer *p, struct peer_tunnel *t, uint64_t at)
{
    msg_data_end_format(&p->out, t->stream, &(struct msg_data_end){at});
    peer_flush(p);
}

static void test_both_ways(struct peer *p, int listener, uint16_t port)
{
    char text[64] = "";
    struct peer_tunnel *t = ask(p, port);
    int fd = accept_one(listener);
    ok(fd >= 0 && peer_wait(p, t->answered) && t->error == 0, "connected");
    send_data(p, t, 0, "request", 7);
    ok(recv(fd, text, sizeof(text), 0) == 7 && !memcmp(text, "request", 7), "bytes in");
    ok(peer_wait(p, t->acked == 7), "which are acknowledged");
    send_end(p, t, 7);
    ok(recv(fd, text, sizeof(text), 0) == 0, "the end of what is sent in");
    ok(send(fd, "response", 8, MSG_NOSIGNAL) == 8, "the server still answers");
    ok(peer_wait(p, t->in.len == 8) && !memcmp(t->in.data, "response", 8) && !t->ended,
       "bytes out");
    close(fd);
    ok(peer_wait(p, t->ended) && !t->closed && !p->gap, "then its end");
}

static void test_large(struct peer *p, int listener, uint16_t port)
{
    size_t len = 3 << 20;
    _cleanup_free_ char *big = xcalloc(1, len);
    for (size_t i = 0; i < len; i++)
        big[i] = (char)(i * 40503u >> 7);
    struct peer_tunnel *t = ask(p, port);
    t->held = true;
    int fd = accept_one(listener);
    (void)!peer_wait(p, t->answered);
    pid_t pid = fork();
    if (pid == 0) {
        fd_write_all(fd, big, len);
        _exit(0);
    }
    close(fd);
    ok(peer_wait(p, t->in.len == PROTO_WINDOW), "a window's worth");
    peer_idle(p, 50);
    ok(t->in.len == PROTO_WINDOW, "and no more, while it is not acknowledged");
    t->held = false;
    msg_data_ack_format(&p->out, t->stream, &(struct msg_data_ack){t->in.len});
    peer_flush(p);
    ok(peer_wait(p, t->ended) && t->in.len == len && !memcmp(t->in.data, big, len) && !p->gap,
       "then all of it, and its end after the last byte");
    waitpid(pid, NULL, 0);
    send_end(p, t, 0);
}

static void test_refused(struct peer *p)
{
    uint16_t port;
    int fd = listen_on(AF_INET, &port);
    close(fd);
    struct peer_tunnel *t = ask(p, port);
    ok(peer_wait(p, t->answered) && t->error == ECONNREFUSED, "nothing listens there");
    fd = listen_on(AF_INET6, &port);
    if (fd < 0) {
        ok(true, "# SKIP there is no ::1 here");
        return;
    }
    t = ask(p, port);
    ok(peer_wait(p, t->answered) && t->error == 0, "a server on ::1 alone is found");
    close(fd);
    frame_append(&p->out, MSG_CLOSE, t->stream, NULL, 0);
    peer_flush(p);
}

static void test_reset(struct peer *p, int listener, uint16_t port)
{
    struct linger now = {.l_onoff = 1};
    struct peer_tunnel *t = ask(p, port);
    int fd = accept_one(listener);
    (void)!peer_wait(p, t->answered);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
    ok(peer_wait(p, t->closed) && !t->ended, "a server that resets: CLOSE, and no end");
    send_data(p, t, 0, "late", 4);
    ok(peer_exited_with(peer_shell(p, "true"), 0), "bytes for what is gone are dropped");
}

static void test_close(struct peer *p, int listener, uint16_t port)
{
    char byte;
    struct peer_tunnel *t = ask(p, port);
    int fd = accept_one(listener);
    (void)!peer_wait(p, t->answered);
    frame_append(&p->out, MSG_CLOSE, t->stream, NULL, 0);
    peer_flush(p);
    ok(recv(fd, &byte, 1, 0) == 0, "CLOSE closes the socket");
    close(fd);
}

static void test_many(struct peer *p, int listener, uint16_t port)
{
    enum { MANY = 64 };
    int fds[MANY];
    peer_drop_tunnels(p);
    for (int i = 0; i < MANY; i++) {
        struct peer_tunnel *t = ask(p, port);
        fds[i] = accept_one(listener);
        (void)!peer_wait(p, t->answered);
    }
    ok(p->tunnels[MANY - 1].answered && p->tunnels[MANY - 1].error == 0, "64 at once");
    peer_drop_tunnels(p);
    struct peer_tunnel *t = ask(p, port);
    ok(peer_wait(p, t->answered) && t->error == EMFILE, "and not one more");
    peer_reconnect(p, 2);
    char byte;
    ok(recv(fds[0], &byte, 1, 0) == 0 && recv(fds[MANY - 1], &byte, 1, 0) == 0,
       "they end with the connection");
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    peer_drop_tunnels(p);
    (void)!peer_wait(p, p->hello_ok);
}

/* Each of these ends the connection, and the next one is served. */
static void test_broken(struct peer *p, int listener, uint16_t port, uint64_t generation)
{
    static const char *const what[] = {"DATA with a gap",    "DATA after the end",
                                       "an ACK of nothing",  "a number twice",
                                       "an even number",     "port 0",
                                       "OPEN_RESULT of ours"};
    for (size_t i = 0; i < ELEMENTS(what); i++) {
        peer_drop_tunnels(p);
        struct peer_tunnel *t = ask(p, port);
        int fd = accept_one(listener);
        (void)!peer_wait(p, t->answered);
        if (i == 0)
            send_data(p, t, 1, "x", 1);
        if (i == 1) {
            send_end(p, t, 0);
            send_data(p, t, 0, "x", 1);
        }
        if (i == 2)
            msg_data_ack_format(&p->out, t->stream, &(struct msg_data_ack){1});
        if (i == 3)
            msg_connect_format(&p->out, t->stream, &(struct msg_connect){port});
        if (i == 4)
            msg_connect_format(&p->out, 4, &(struct msg_connect){port});
        if (i == 5)
            msg_connect_format(&p->out, p->next_stream, &(struct msg_connect){0});
        if (i == 6)
            msg_open_result_format(&p->out, t->stream, &(struct msg_open_result){0});
        peer_flush(p);
        bool gone = peer_wait(p, p->goodbye);
        peer_reconnect(p, generation + i);
        ok(gone && peer_wait(p, p->hello_ok), "%s: GOODBYE, then a new connection", what[i]);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    static struct peer p;
    uint16_t port;
    int listener = listen_on(AF_INET, &port);
    if (argc != 2 || listener < 0)
        tap_skip_all("usage: test-runner-port MAS-TOOLRUNNER");
    signal(SIGPIPE, SIG_IGN);
    peer_start(&p, argv[1], NULL);
    (void)!peer_wait(&p, p.hello_ok);
    test_both_ways(&p, listener, port);
    test_large(&p, listener, port);
    test_refused(&p);
    test_reset(&p, listener, port);
    test_close(&p, listener, port);
    test_many(&p, listener, port);
    test_broken(&p, listener, port, 3);
    peer_stop(&p);
    return tap_done();
}
