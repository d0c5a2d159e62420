/* SPDX-License-Identifier: Apache-2.0 */
/* How connections through the gateway's proxy end, between real sockets: what each side sees. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/rule-set.h"
#include "gateway/session.h"
#include "tests/unit/tap.h"

#define PATIENCE_MS 20000

static struct gateway g;
static int listen_fd;
static unsigned port;

static int listen_tcp(struct sockaddr_in *ret)
{
    socklen_t size = sizeof(*ret);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)ret, size) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &size) < 0)
        exit(1);
    return fd;
}

static void tcp_pair(int ret[2])
{
    struct sockaddr_in a;
    _cleanup_close_ int fd = listen_tcp(&a);
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(ret[0], (struct sockaddr *)&a, sizeof(a));
    ret[1] = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (ret[1] < 0)
        exit(1);
}

static void unix_pair(int ret[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0)
        exit(1);
}

/* A sandbox's client, pair[0] of these, whose request has come. */
static void start_reported(const int pair[2], const char *request, int report_fd)
{
    struct gateway_request req = {.version = GATEWAY_VERSION,
                                  .flags = GATEWAY_ANY_HOST | GATEWAY_PROXY,
                                  .label = "box",
                                  .owner = 1};
    struct session_rules rules = {.set = rule_sets_get(&g.rule_sets, &req), .intercept_fd = -1};
    if (send(pair[0], request, strlen(request), MSG_NOSIGNAL) < 0)
        exit(1);
    session_start(&g, &req, &rules, pair[1], report_fd);
}

static void start_session(const int pair[2], const char *request)
{
    start_reported(pair, request, -1);
}

/* The server's end of a tunnel that the client has opened. */
static int open_reported(const int pair[2], int report_fd)
{
    char text[128];
    snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
             port, port);
    start_reported(pair, text, report_fd);
    int server = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int64_t late_ms = clock_mono_ms() + PATIENCE_MS;
    ssize_t n = -1;
    while (clock_mono_ms() < late_ms && (n = recv(pair[0], text, sizeof(text), 0)) < 0)
        epoll_loop_once(&g.loop, 20);
    ok(server >= 0 && n > 12 && memcmp(text, "HTTP/1.1 200", 12) == 0, "a tunnel");
    return server;
}

static int open_tunnel(const int pair[2])
{
    return open_reported(pair, -1);
}

/* All that comes until the stream ends: 0, or why it broke as -errno. */
static int read_to_end(int fd, char *out, size_t size)
{
    int64_t late_ms = clock_mono_ms() + PATIENCE_MS;
    size_t len = 0;
    while (clock_mono_ms() < late_ms) {
        ssize_t n = recv(fd, out + len, size - 1 - len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            out[len] = 0;
            return n < 0 ? -errno : 0;
        }
        len += n > 0 ? (size_t)n : 0;
        epoll_loop_once(&g.loop, 20);
    }
    out[len] = 0;
    return -ETIMEDOUT;
}

static void wait_for_none(void)
{
    for (int i = 0; i < 1000 && !list_empty(&g.sessions); i++)
        epoll_loop_once(&g.loop, 20);
    ok(list_empty(&g.sessions) && !g.n_sessions && !g.n_refusing, "and nothing is left of it");
}

/* The socket's one error goes to the direction that writes. */
static void test_reset_during_upload(void)
{
    struct linger at_once = {.l_onoff = 1};
    char text[64];
    int client[2];
    tcp_pair(client);
    int server = open_tunnel(client);
    send(client[0], "PUT", 3, MSG_NOSIGNAL);
    while (recv(server, text, sizeof(text), MSG_DONTWAIT) < 0)
        epoll_loop_once(&g.loop, 20);
    send(server, "half an ans", 11, MSG_NOSIGNAL);
    setsockopt(server, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(server);
    send(client[0], "more", 4, MSG_NOSIGNAL);
    poll(&(struct pollfd){.fd = client[1], .events = POLLIN}, 1, PATIENCE_MS);
    int r = read_to_end(client[0], text, sizeof(text));
    ok(r == -ECONNRESET && strcmp(text, "half an ans") == 0,
       "a server's reset during an upload is one for the client: %d after '%s'", r, text);
    close(client[0]);
    wait_for_none();
}

static bool await_events(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, PATIENCE_MS) == 1;
}

static void let_loop_rest(void)
{
    struct pollfd p = {.fd = g.loop.epoll_fd, .events = POLLIN};
    while (poll(&p, 1, 200) == 1)
        epoll_loop_once(&g.loop, 0);
}

/* The socket's one error goes to the direction that writes here, too: the loop finds the answer's
 * bytes before it finds the client gone. */
static void test_reset_during_download(void)
{
    struct linger at_once = {.l_onoff = 1};
    char text[64];
    int client[2];
    tcp_pair(client);
    int server = open_tunnel(client);
    send(client[0], "GET", 3, MSG_NOSIGNAL);
    let_loop_rest();
    send(server, "half an ans", 11, MSG_NOSIGNAL);
    ok(await_events(g.loop.epoll_fd, POLLIN), "half of an answer");
    send(client[0], "more", 4, MSG_NOSIGNAL);
    setsockopt(client[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client[0]);
    ok(await_events(client[1], 0), "a client that is gone");
    int r = read_to_end(server, text, sizeof(text));
    ok(r == -ECONNRESET && strcmp(text, "GETmore") == 0,
       "a client's reset during a download is one for the server: %d after '%s'", r, text);
    close(server);
    wait_for_none();
}

/* The server has had the end of what the client sends, and has nothing to say yet. */
static void test_reset_after_request(void)
{
    struct linger at_once = {.l_onoff = 1};
    char text[64];
    int client[2];
    tcp_pair(client);
    int server = open_tunnel(client);
    send(client[0], "GET", 3, MSG_NOSIGNAL);
    shutdown(client[0], SHUT_WR);
    int r = read_to_end(server, text, sizeof(text));
    ok(r == 0 && strcmp(text, "GET") == 0, "a client that sends no more: %d '%s'", r, text);
    struct pollfd loop = {.fd = g.loop.epoll_fd, .events = POLLIN};
    ok(poll(&loop, 1, 0) == 0, "and waits keeps the loop quiet");
    setsockopt(client[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client[0]);
    wait_for_none();
    ok(await_events(server, 0) && send(server, "!", 1, MSG_NOSIGNAL) < 0,
       "its server learns that it has gone");
    close(server);
}

/* As connections that come in frames end: the whole socket is closed when the client has sent all.
 */
static void test_end_of_unix_client(void)
{
    char text[64];
    int client[2];
    unix_pair(client);
    int server = open_tunnel(client);
    send(client[0], "PUT", 3, MSG_NOSIGNAL);
    close(client[0]);
    int r = read_to_end(server, text, sizeof(text));
    ok(r == 0 && strcmp(text, "PUT") == 0, "an ordinary end stays one: %d after '%s'", r, text);
    let_loop_rest();
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(server, SOL_SOCKET, SO_ERROR, &error, &size);
    ok(error == 0, "and is not followed by a reset: %s", strerror(error));
    close(server);
    wait_for_none();
}

/* A connection that comes in frames ends in one way only, and the control plane says on the report
 * that it was another. The loop finds both at once. */
static void test_reset_of_carried_client(bool waits)
{
    char text[64];
    int client[2], report[2];
    unix_pair(client);
    unix_pair(report);
    int server = open_reported(client, report[1]);
    send(client[0], "PUT", 3, MSG_NOSIGNAL);
    if (waits)
        let_loop_rest();
    send(report[0], GATEWAY_CLIENT_RESET, 1, MSG_NOSIGNAL);
    if (waits)
        let_loop_rest();
    close(client[0]);
    int r = read_to_end(server, text, sizeof(text));
    ok(r == -ECONNRESET && strcmp(text, "PUT") == 0,
       "a client's reset is one for its server: %d after '%s'", r, text);
    close(server);
    wait_for_none();
    close(report[0]);
}

/* A connection with a report goes on without a word on it, and ends when that is closed. */
static void test_revoked(void)
{
    char text[64];
    int client[2], report[2];
    unix_pair(client);
    unix_pair(report);
    int server = open_reported(client, report[1]);
    send(client[0], "PUT", 3, MSG_NOSIGNAL);
    let_loop_rest();
    close(report[0]);
    int r = read_to_end(server, text, sizeof(text));
    ok(r == -ECONNRESET && strcmp(text, "PUT") == 0, "one that is revoked: %d after '%s'", r, text);
    close(server);
    close(client[0]);
    wait_for_none();
}

static void test_early_answer(void)
{
    static char block[65536];
    char text[64];
    int client[2];
    tcp_pair(client);
    int server = open_tunnel(client);
    send(server, "413", 3, MSG_NOSIGNAL);
    close(server);
    int64_t late_ms = clock_mono_ms() + PATIENCE_MS;
    size_t sent = 0, total = 64 * sizeof(block);
    int error = 0;
    while (sent < total && !error && clock_mono_ms() < late_ms) {
        ssize_t n = send(client[0], block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT);
        error = n < 0 && errno != EAGAIN ? errno : 0;
        sent += n > 0 ? (size_t)n : 0;
        epoll_loop_once(&g.loop, 0);
    }
    ok(sent >= total && !error, "what a server does not read any more is taken: %zu, %s", sent,
       strerror(error));
    shutdown(client[0], SHUT_WR);
    int r = read_to_end(client[0], text, sizeof(text));
    ok(r == 0 && strcmp(text, "413") == 0, "so that its client gets the answer: %d '%s'", r, text);
    close(client[0]);
    wait_for_none();
}

/* Its answer waits behind what the client does not read. */
static void test_refused_client_that_ended(void)
{
    static char block[65536];
    int client[2];
    unix_pair(client);
    int server = open_tunnel(client);
    for (int i = 0; i < 200; i++) {
        send(server, block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT);
        epoll_loop_once(&g.loop, 0);
    }
    send(client[0], "\x16\x09garbage", 9, MSG_NOSIGNAL);
    shutdown(client[0], SHUT_WR);
    for (int i = 0; i < 100; i++)
        epoll_loop_once(&g.loop, 0);
    struct pollfd loop = {.fd = g.loop.epoll_fd, .events = POLLIN};
    ok(g.n_refusing == 1 && poll(&loop, 1, 0) == 0,
       "a client that was refused and has ended keeps the loop quiet");
    close(server);
    close(client[0]);
    wait_for_none();
}

/* Three descriptors are left, and a connection with TLS for a client needs four. */
static void test_tls_that_cannot_start(void)
{
    char text[1024];
    struct rlimit before, few;
    int client[2];
    unix_pair(client);
    snprintf(text, sizeof(text), "GET https://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
             port, port);
    int free_fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    close(free_fd);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)free_fd + 3;
    setrlimit(RLIMIT_NOFILE, &few);
    start_session(client, text);
    ssize_t n = -1;
    for (int i = 0; i < 1000 && (n = recv(client[0], text, sizeof(text) - 1, 0)) < 0; i++)
        epoll_loop_once(&g.loop, 20);
    setrlimit(RLIMIT_NOFILE, &before);
    text[n > 0 ? n : 0] = 0;
    ok(strstr(text, " 503 ") && strstr(text, "TLS: "), "a client without TLS is refused: %s", text);
    ok(recv(client[0], text, sizeof(text), 0) == 0, "and its answer ends");
    close(client[0]);
    wait_for_none();
}

int main(void)
{
    struct sockaddr_in a;
    g = (struct gateway){.request_timeout_ms = 60000,
                         .resolve_timeout_ms = 60000,
                         .connect_timeout_ms = 60000,
                         .idle_timeout_ms = 60000,
                         .max_sessions = 64,
                         .max_sessions_per_label = 32};
    list_init(&g.sessions);
    list_init(&g.lookups);
    rule_sets_init(&g.rule_sets);
    ok(session_loop_open(&g) == 0, "a loop");
    rule_list_add(&g.private_hosts, "127.0.0.1");
    listen_fd = listen_tcp(&a);
    port = ntohs(a.sin_port);
    test_reset_during_upload();
    test_reset_during_download();
    test_reset_after_request();
    test_end_of_unix_client();
    test_reset_of_carried_client(false);
    test_reset_of_carried_client(true);
    test_revoked();
    test_early_answer();
    test_refused_client_that_ended();
    test_tls_that_cannot_start();
    session_loop_close(&g);
    rule_list_done(&g.private_hosts);
    rule_sets_done(&g.rule_sets);
    return tap_done();
}
