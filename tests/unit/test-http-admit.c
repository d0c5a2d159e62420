/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a connection when there are too many, and who is let go: strangers by their address,
 * callers that are known by their tag, Unix sockets from a reserve, slow ones by their pace. Client
 * and server share one loop and one thread. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "net/http.h"
#include "tests/unit/tap.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define UPGRADE(path)                                                                              \
    "GET " path " HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
#define HELD_MAX 16

static uv_loop_t loop;
static struct http_options options;
static struct http_server *server;
static struct sockaddr_un unix_address;
static int port;
static struct http_request *held[HELD_MAX];
static struct ws *held_ws;
static size_t n_held;
static int aborts, closes;

static void turn(int times)
{
    while (times--) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

static void on_abort(struct http_request *req, void *data)
{
    (void)req;
    (void)data;
    aborts++;
}

static void on_body(struct http_request *req, const char *body, size_t len)
{
    http_respond(req, 200, NULL, body, len);
}

static void on_close(struct ws *ws)
{
    (void)ws;
    closes++;
    held_ws = NULL;
}

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    (void)binary;
    (void)data;
    (void)len;
    ws_pause(ws);
}

static void refuse(struct http_request *req)
{
    bool room = http_request_refusal(req);
    http_respond(req, room ? 401 : 429, NULL, "no", 2);
}

static void on_request(struct http_request *req, void *data)
{
    static const struct ws_handlers handlers = {on_message, NULL, on_close};
    static const struct ws_handlers deaf = {on_message, NULL, on_close, true};
    const char *path = http_request_path(req);
    (void)data;
    http_request_on_abort(req, on_abort, NULL);
    if (!strcmp(path, "/hold") && n_held < HELD_MAX)
        held[n_held++] = req;
    else if (!strcmp(path, "/body"))
        http_request_read_body(req, 1000, on_body, NULL);
    else if (!strcmp(path, "/refuse"))
        refuse(req);
    else if (!strcmp(path, "/ws"))
        held_ws = http_upgrade_ws(req, NULL, &handlers, NULL);
    else if (!strcmp(path, "/deaf"))
        held_ws = http_upgrade_ws(req, NULL, &deaf, NULL);
    else if (!strncmp(path, "/as/", 4))
        http_respond(req, http_request_admit(req, path + 4) < 0 ? 429 : 200, NULL, "x", 1);
    else
        http_respond(req, 200, NULL, "ok", 2);
}

static void defaults(void)
{
    n_held = 0;
    aborts = closes = 0;
    held_ws = NULL;
    uv_loop_init(&loop);
    http_options_init(&options);
    options.loop = &loop;
    options.on_request = on_request;
}

static void begin(bool with_unix)
{
    struct error err = {0};
    bool loopback;
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);
    server = http_server_new(&options, &err);
    int fd = http_listen_open("127.0.0.1:0", 64, &loopback, &err);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    port = ntohs(addr.sin_port);
    http_server_listen_fd(server, fd, &err);
    if (!with_unix)
        return;
    /* An address of the kernel's choice, without a file. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unix_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    bind(fd, (struct sockaddr *)&unix_address, sizeof(sa_family_t));
    listen(fd, 16);
    len = sizeof(unix_address);
    getsockname(fd, (struct sockaddr *)&unix_address, &len);
    http_server_listen_fd(server, fd, &err);
}

static void end(void)
{
    http_server_close(server);
    turn(5);
    ok(uv_loop_close(&loop) == 0, "nothing is left");
}

static int dial_from(const char *source, const char *bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, source, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd, (struct sockaddr *)&from, sizeof(from));
    connect(fd, (struct sockaddr *)&to, sizeof(to));
    fd_write_all(fd, bytes, strlen(bytes));
    turn(5);
    return fd;
}

static int dial(const char *bytes)
{
    return dial_from("127.0.0.1", bytes);
}

static int dial_unix(const char *bytes)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(fd, (struct sockaddr *)&unix_address, sizeof(sa_family_t) + 6);
    fd_write_all(fd, bytes, strlen(bytes));
    turn(5);
    return fd;
}

/* The status of what has come, 0 for nothing; the connection's end is -1. */
static int status_of(int fd)
{
    char buf[65536];
    turn(3);
    ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    buf[n] = 0;
    return n ? atoi(buf + 9) : -1;
}

static int ask(int fd, const char *bytes)
{
    fd_write_all(fd, bytes, strlen(bytes));
    return status_of(fd);
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    turn(3);
}

static void test_eviction(void)
{
    defaults();
    options.config.max_connections = 4;
    begin(false);
    int fds[8];
    for (size_t i = 0; i < 4; i++)
        fds[i] =
            dial(i == 1 ? "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\na" : "GET");
    fds[4] = dial(GET("/"));
    ok(status_of(fds[4]) == 200, "a newcomer is served though all connections are taken");
    ok(status_of(fds[0]) == 503 && status_of(fds[1]) == 0, "the longest incomplete one goes");
    fds[5] = dial(GET("/"));
    ok(status_of(fds[5]) == 200 && status_of(fds[1]) == 503 && aborts == 1,
       "then one whose body has not come, and its handler hears of it");
    ok(http_server_connections(server) == 4, "no more than the limit");
    close_all(fds, 6);
    for (size_t i = 0; i < 4; i++)
        fds[i] = dial(GET("/hold"));
    fds[4] = dial(GET("/"));
    ok(n_held == 4 && status_of(fds[4]) == 503, "when all are at work the newcomer gets the 503");
    close_all(fds, 5);
    end();
}

static void test_idle(void)
{
    defaults();
    options.config.max_connections = 2;
    begin(false);
    int fds[4];
    fds[0] = dial(GET("/as/a"));
    fds[1] = dial(GET("/"));
    fds[2] = dial(GET("/"));
    ok(status_of(fds[0]) == 200 && status_of(fds[2]) == 200, "both are answered");
    ok(ask(fds[0], GET("/")) == 200, "an idle connection that was admitted stays");
    ok(status_of(fds[1]) == 200 && status_of(fds[1]) == -1, "a stranger's makes room");
    close_all(fds, 3);
    end();
}

static void test_unix_reserve(void)
{
    defaults();
    options.config.max_connections = 6;
    options.config.unix_reserve_percent = 34;
    begin(true);
    int fds[8];
    for (size_t i = 0; i < 5; i++)
        fds[i] = dial(GET("/hold"));
    ok(n_held == 4 && status_of(fds[4]) == 503, "TCP leaves the reserve");
    fds[5] = dial_unix(GET("/hold"));
    fds[6] = dial_unix(GET("/"));
    ok(n_held == 5 && status_of(fds[6]) == 200, "a Unix socket has it");
    close_all(fds, 7);
    end();
}

static void test_address_share(void)
{
    defaults();
    options.config.max_connections = 5;
    options.config.address_percent = 60;
    begin(false);
    int other = dial_from("127.0.0.9", "GET"), fds[8];
    for (size_t i = 0; i < 4; i++)
        fds[i] = dial("GET");
    ok(status_of(fds[0]) == 0 && status_of(fds[3]) == 0, "all places may be an address's");
    fds[4] = dial("GET");
    ok(status_of(fds[0]) == 503, "over its share it makes room for itself");
    ok(status_of(other) == 0, "not another address, which waits longer");
    fds[5] = dial(GET("/as/a"));
    fds[6] = dial(GET("/as/a"));
    fds[7] = dial(GET("/as/b"));
    ok(status_of(fds[5]) == 200 && status_of(fds[6]) == 200 && status_of(fds[7]) == 200,
       "callers who are known take the places of those who are not");
    ok(ask(fds[5], GET("/")) == 200, "and stay");
    close(other);
    close_all(fds, 8);
    end();
}

static void test_tag_share(void)
{
    defaults();
    options.config.max_connections = 100;
    options.config.tag_percent = 2;
    begin(false);
    int fds[4] = {dial(GET("/as/a")), dial(GET("/as/a")), dial(GET("/as/a")), dial(GET("/as/b"))};
    ok(status_of(fds[0]) == 200 && status_of(fds[1]) == 200, "a tag has its share");
    ok(status_of(fds[2]) == 429 && status_of(fds[2]) == -1, "and no more");
    ok(status_of(fds[3]) == 200, "another tag has its own");
    ok(ask(fds[1], GET("/as/a")) == 200, "a connection is counted once");
    close(fds[0]);
    turn(3);
    close(fds[2]);
    fds[0] = dial(GET("/as/a"));
    ok(status_of(fds[0]) == 200, "room comes back");
    close(fds[0]);
    close_all(fds + 1, 1);
    close(fds[3]);
    end();
}

static void test_refusals(void)
{
    defaults();
    options.config.refusals_per_minute = 3;
    begin(false);
    int fd = dial(""), other = dial_from("127.0.0.9", ""), known = dial(GET("/as/a"));
    for (int i = 0; i < 3; i++)
        ok(ask(fd, GET("/refuse")) == 401, "refusal %d", i + 1);
    ok(ask(fd, GET("/refuse")) == 429 && status_of(fd) == -1, "over them the connection ends");
    close(fd);
    fd = dial(GET("/refuse"));
    ok(status_of(fd) == 429, "another connection does not help");
    ok(ask(other, GET("/refuse")) == 401, "another address has its own");
    ok(status_of(known) == 200 && ask(known, GET("/refuse")) == 401, "who is known is not counted");
    close(known);
    close(fd);
    turn(3);
    fd = dial(GET("/refuse"));
    ok(status_of(fd) == 429, "nor does closing all of them");
    close(fd);
    close(other);
    end();
}

static void test_slow_reader(void)
{
    static char block[3 << 20];
    char buf[256];
    defaults();
    options.config.write_timeout_ms = 200;
    options.config.write_min_rate = 8 << 20;
    begin(false);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096, reads = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    connect(fd, (struct sockaddr *)&to, sizeof(to));
    fd_write_all(fd, GET("/hold"), strlen(GET("/hold")));
    turn(5);
    http_respond_begin(held[0], 200, NULL);
    for (int i = 0; i < 4; i++)
        http_write(held[0], block, sizeof(block));
    while (!aborts && reads++ < 2000) {
        turn(5);
        recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    }
    ok(aborts == 1, "a reader under the least rate is let go, however often it reads (%d)", reads);
    close(fd);
    end();
}

/* More than the kernel keeps of a connection. */
static char large[24 << 20];

/* A client that has shown a tag and then does not read a large answer, whose end is that of the
 * connection. */
static int dial_slow(const char *request)
{
    int fd = dial(request);
    status_of(fd);
    fd_write_all(fd, "GET /hold HTTP/1.0\r\n\r\n", 22);
    turn(5);
    http_respond_begin(held[n_held - 1], 200, NULL);
    http_write(held[n_held - 1], large, sizeof(large));
    http_respond_end(held[n_held - 1]);
    turn(5);
    return fd;
}

/* What is left of an answer, or -1 where a reset comes before its end. */
static ssize_t read_rest(int fd)
{
    static char buf[1 << 20];
    size_t got = 0;
    for (int i = 0; i < 2000; i++) {
        ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
        if (n == 0)
            return (ssize_t)got;
        if (n < 0 && errno != EAGAIN)
            return -1;
        got += n > 0 ? (size_t)n : 0;
        turn(1);
    }
    return -2;
}

static void test_write_total(void)
{
    int fds[6];
    defaults();
    options.config.max_write_total = 54 << 20; /* two of them */
    begin(false);
    fds[0] = dial_slow(GET("/as/modest"));
    for (size_t i = 1; i < 6; i++)
        fds[i] = dial_slow(GET("/as/greedy"));
    for (size_t i = 1; i < 5; i++)
        ok(read_rest(fds[i]) == -1, "the tag that has most gives way, its slowest first (%zu)", i);
    ok(read_rest(fds[0]) > (ssize_t)sizeof(large),
       "one that has less loses nothing, though it waits for longer");
    ok(read_rest(fds[5]) > (ssize_t)sizeof(large), "nor does the newest");
    close_all(fds, 6);
    end();
}

static void test_read_total(void)
{
    defaults();
    options.config.write_total_ms = 50;
    begin(false);
    int fd = dial_slow(GET("/as/slow"));
    turn(300);
    ok(read_rest(fd) == -1, "a whole answer has a total time, and a reset says that it is not all");
    close(fd);
    end();
}

static void test_pings(void)
{
    static char block[200000];
    char buf[4096];
    defaults();
    options.config.ws_ping_ms = 30;
    options.config.write_min_rate = 100 * 1000;
    begin(false);
    int fd = dial(UPGRADE("/ws"));
    recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    fd_write_all(fd, "\x81\x81\1\1\1\1x", 7);
    turn(60);
    ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    ok(n >= 2 && buf[0] == (char)0x89, "a paused WebSocket is pinged");
    turn(100);
    ok(closes == 1, "and closed when it does not answer");
    close(fd);
    fd = dial(UPGRADE("/ws"));
    ws_send(held_ws, true, block, sizeof(block));
    turn(300);
    ok(ws_queued(held_ws) == 0 && closes == 1,
       "a peer that still has much to read has time to answer");
    close(fd);
    end();
}

/* Whether the kernel probes the server's end of the connection whose client is fd. The test has
 * both ends, and finds the other one by its peer's address. */
static bool server_end_is_probed(int fd)
{
    struct sockaddr_in own, peer;
    socklen_t len = sizeof(own);
    getsockname(fd, (struct sockaddr *)&own, &len);
    for (int other = 0; other < 256; other++) {
        int on = 0;
        socklen_t on_len = sizeof(on);
        len = sizeof(peer);
        if (getpeername(other, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == own.sin_port &&
            getsockopt(other, SOL_SOCKET, SO_KEEPALIVE, &on, &on_len) == 0)
            return on;
    }
    return false;
}

static void test_deaf_peer(void)
{
    char buf[4096];
    defaults();
    options.config.ws_ping_ms = 30;
    begin(true);
    int patient = dial(UPGRADE("/ws")), fd = dial(UPGRADE("/deaf"));
    int local = dial_unix(UPGRADE("/deaf"));
    recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    ok(!server_end_is_probed(patient) && server_end_is_probed(fd),
       "the kernel probes a peer that reads nothing, and no other");
    for (int i = 0; i < 1000 && !closes; i++)
        turn(1);
    ok(closes == 1, "a peer that reads is closed when it answers no pings");
    turn(100);
    ok(closes == 1, "one that reads nothing is not, over TCP and over a Unix socket");
    ok(recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0,
       "and gets no pings, which would fill its buffer");
    close(fd);
    close(local);
    turn(5);
    ok(closes == 3, "it is gone when it ends the connection");
    close(patient);
    end();
}

int main(void)
{
    test_eviction();
    test_idle();
    test_unix_reserve();
    test_address_share();
    test_tag_share();
    test_refusals();
    test_slow_reader();
    test_write_total();
    test_read_total();
    test_pings();
    test_deaf_peer();
    return tap_done();
}
