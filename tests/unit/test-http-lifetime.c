/* SPDX-License-Identifier: Apache-2.0 */
/* Who outlives whom: handlers that answer late, twice, after the client left or never; servers that
 * are closed from inside a callback. Client and server share one loop and one thread; what goes
 * wrong here shows under AddressSanitizer, and as a wrong count of callbacks without it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "net/http.h"
#include "tests/unit/tap.h"

static uv_loop_t loop;
static struct http_server *server;
static struct http_request *held;
static struct ws *held_ws;
static int requests, aborts, bodies, closes, drains, messages;
static int port;

static void turn(int times)
{
    while (times--) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static void on_abort(struct http_request *req, void *data)
{
    (void)req;
    (void)data;
    aborts++;
    held = NULL;
}

static void on_body(struct http_request *req, const char *body, size_t len)
{
    (void)body;
    (void)len;
    (void)req;
    bodies++;
}

static void on_chunk_answer(struct http_request *req, const char *data, size_t len)
{
    (void)data;
    (void)len;
    bodies++;
    http_respond(req, 200, NULL, "x", 1);
}

static void on_chunk_close(struct http_request *req, const char *data, size_t len)
{
    (void)req;
    (void)data;
    (void)len;
    bodies++;
    http_server_close(server);
}

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    messages++;
    if (len == 4 && !memcmp(data, "kill", 4))
        http_server_close(server);
    ws_send(ws, binary, data, len);
    if (len == 5 && !memcmp(data, "pause", 5))
        ws_pause(ws);
}

static void on_close(struct ws *ws)
{
    ws_send(ws, false, "late", 4); /* does nothing */
    ws_close(ws, 1000, NULL);
    closes++;
    held_ws = NULL;
}

static void on_request(struct http_request *req, void *data)
{
    static const struct ws_handlers handlers = {on_message, NULL, on_close};
    const char *path = http_request_path(req);
    (void)data;
    requests++;
    http_request_on_abort(req, on_abort, NULL);
    if (!strcmp(path, "/hold")) {
        held = req;
    } else if (!strcmp(path, "/body")) {
        held = req;
        http_request_read_body(req, 1000, on_body, NULL);
    } else if (!strcmp(path, "/stream-answer")) {
        http_request_stream_body(req, on_chunk_answer);
    } else if (!strcmp(path, "/stream-close")) {
        http_request_stream_body(req, on_chunk_close);
    } else if (!strcmp(path, "/close")) {
        http_server_close(server);
        http_respond(req, 200, NULL, "x", 1);
    } else if (!strcmp(path, "/close-only")) {
        http_server_close(server);
    } else if (!strcmp(path, "/twice")) {
        http_respond(req, 200, NULL, "1", 1);
        http_respond(req, 500, NULL, "2", 1);
    } else if (!strcmp(path, "/ws")) {
        held_ws = http_upgrade_ws(req, NULL, &handlers, NULL);
    } else {
        http_respond(req, 200, NULL, "ok", 2);
    }
}

static void on_drained(void *data)
{
    (void)data;
    drains++;
}

static void begin(void)
{
    struct http_options o;
    struct error err = {0};
    bool loopback;
    requests = aborts = bodies = closes = drains = messages = 0;
    held = NULL;
    uv_loop_init(&loop);
    http_options_init(&o);
    o.loop = &loop;
    o.on_request = on_request;
    server = http_server_new(&o, &err);
    int fd = http_listen_open("127.0.0.1:0", 16, &loopback, &err);
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    port = ntohs(addr.sin_port);
    if (!server || http_server_listen_fd(server, fd, &err) < 0)
        printf("Bail out! %s\n", err.message);
}

/* True when nothing is left on the loop. */
static bool end(bool close)
{
    if (close)
        http_server_close(server);
    turn(5);
    return uv_loop_close(&loop) == 0;
}

static int dial(const char *bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd, (struct sockaddr *)&addr, sizeof(addr));
    fd_write_all(fd, bytes, strlen(bytes));
    turn(5);
    return fd;
}

/* What has come, as text; "" for nothing, NULL for the end. */
static const char *receive(int fd)
{
    static char buf[65536];
    turn(5);
    ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);
    if (n < 0)
        return "";
    buf[n] = 0;
    return n ? buf : NULL;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void test_late_answers(void)
{
    begin();
    int fd = dial(GET("/hold") GET("/"));
    ok(requests == 1 && held, "the second request waits for the first");
    http_respond(held, 200, NULL, "late", 4);
    ok(requests == 1, "and is not handled inside http_respond()");
    const char *text = receive(fd);
    ok(text && strstr(text, "late") && strstr(text, "ok") && requests == 2, "but right after");
    close(fd);
    fd = dial(GET("/twice"));
    text = receive(fd);
    ok(text && strstr(text, "200 OK") && !strstr(text, "500"), "a second answer is ignored");
    close(fd);
    ok(end(true) && aborts == 0, "nothing is left");
}

static void test_client_gone(void)
{
    begin();
    close(dial(GET("/hold")));
    turn(5);
    ok(aborts == 1 && !held, "on_abort when the client leaves");
    close(dial("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"));
    turn(5);
    ok(aborts == 2 && bodies == 0, "on_abort when it leaves inside its body");
    int fd = dial("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    ok(bodies == 1 && held, "the body came");
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
    http_respond(held, 200, NULL, "x", 1);
    held = NULL;
    turn(5);
    ok(aborts == 2, "an answer to a client that has just gone is the end of it");
    fd = dial(GET("/hold"));
    http_respond_begin(held, 200, NULL);
    http_write(held, "half", 4);
    close(fd);
    turn(5);
    ok(aborts == 3 && http_server_connections(server) == 0, "on_abort in mid-answer");
    ok(end(true), "nothing is left");
}

static void test_bodies(void)
{
    begin();
    int fd = dial("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n");
    const char *text = receive(fd);
    ok(text && strstr(text, " 413 ") && bodies == 0 && aborts == 1,
       "a 413 by this layer aborts the request");
    close(fd);
    fd = dial("POST /stream-answer HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01234");
    fd_write_all(fd, "56789" GET("/"), strlen("56789" GET("/")));
    text = receive(fd);
    ok(bodies == 1 && text && strstr(text, "ok"),
       "no on_chunk after the answer, and the next request");
    close(fd);
    fd = dial(GET("/hold"));
    http_request_read_body(held, 10, on_body, NULL);
    ok(bodies == 1, "on_body is not called inside http_request_read_body()");
    turn(5);
    ok(bodies == 2, "but after it, for no body too");
    http_respond(held, 204, NULL, NULL, 0);
    text = receive(fd);
    ok(text && strstr(text, "204") && !strstr(text, "Content-Length"), "204 has no length");
    close(fd);
    ok(end(true), "nothing is left");
}

static void test_close_inside(void)
{
    static const char *const paths[] = {"/close", "/close-only"};
    for (size_t i = 0; i < 2; i++) {
        char text[64];
        begin();
        int idle = dial(""), waiting = dial(GET("/hold"));
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", paths[i]);
        int fd = dial(text);
        ok(end(false) && aborts == (i ? 2 : 1), "http_server_close() in a handler: %s", paths[i]);
        close(idle);
        close(waiting);
        close(fd);
    }
    begin();
    close(dial("POST /stream-close HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na"));
    ok(end(false) && bodies == 1 && aborts == 1, "http_server_close() in on_chunk");
    begin();
    int fd = dial(GET("/hold"));
    http_server_close(server);
    http_respond_begin(held, 200, NULL);
    http_write(held, "half", 4);
    ok(end(false) && aborts == 1, "an answer begun on a connection that is going is aborted too");
    close(fd);
}

#define UPGRADE                                                                                    \
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                 \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

static void send_text(int fd, const char *text)
{
    unsigned char f[64] = {0x81, (unsigned char)(0x80 | strlen(text)), 1, 1, 1, 1};
    for (size_t i = 0; text[i]; i++)
        f[6 + i] = (unsigned char)text[i] ^ 1;
    fd_write_all(fd, f, 6 + strlen(text));
}

static void test_ws(void)
{
    begin();
    int fd = dial(UPGRADE);
    ok(held_ws && ws_queued(held_ws) == 0, "upgraded");
    receive(fd);
    send_text(fd, "pause");
    send_text(fd, "a");
    send_text(fd, "b");
    turn(5);
    ok(messages == 1, "no message while paused, not even one that was read already");
    ws_resume(held_ws);
    ok(messages == 1, "nor inside ws_resume()");
    turn(5);
    ok(messages == 3, "but after it");
    close(fd);
    turn(5);
    ok(closes == 1 && aborts == 0, "on_close once, on_abort never");
    fd = dial(UPGRADE);
    receive(fd);
    send_text(fd, "kill");
    turn(5);
    close(fd);
    ok(end(false) && closes == 2, "http_server_close() in on_message");
}

static void test_drain(void)
{
    begin();
    http_server_drain(server, on_drained, NULL);
    ok(drains == 0, "on_drained is not called inside http_server_drain()");
    turn(5);
    ok(drains == 1 && end(true), "an unused server drains");
    begin();
    int fd = dial(GET("/hold") GET("/"));
    int idle = dial(GET("/"));
    receive(idle);
    http_server_drain(server, on_drained, NULL);
    ok(receive(idle) == NULL && drains == 0, "idle connections are closed, busy ones are not");
    http_respond(held, 200, NULL, "x", 1);
    const char *text = receive(fd);
    ok(text && strstr(text, "Connection: close") && !strstr(text, "ok"),
       "the last answer says close");
    close(fd);
    turn(5);
    ok(drains == 1, "then it is drained");
    close(idle);
    ok(end(true), "nothing is left");
}

int main(void)
{
    test_late_answers();
    test_client_gone();
    test_bodies();
    test_close_inside();
    test_ws();
    test_drain();
    return tap_done();
}
