/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from a hostile client, through the same code as in the daemon: a real server on a real
 * loop, reached over an abstract Unix socket. The first two bytes of an input choose in what pieces
 * the rest is sent; the path of each request chooses what its handler does. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/error.h"
#include "net/http.h"

#define TURNS_MAX 2000
#define BODY_MAX  4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct http_server *server;
static struct sockaddr_un address;
static socklen_t address_len;
static struct http_request *held; /* the one request that is answered late */

static void on_abort(struct http_request *req, void *data)
{
    (void)data;
    if (held == req)
        held = NULL;
}

static void on_body(struct http_request *req, const char *body, size_t len)
{
    if (body[len] != 0)
        abort();
    http_respond(req, 200, "text/plain", body, len);
}

static void on_chunk(struct http_request *req, const char *data, size_t len)
{
    (void)data;
    if (!len)
        http_respond_end(req);
    else
        http_write(req, data, len);
}

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    ws_send(ws, binary, data, len);
    if (len == 3)
        ws_pause(ws);
    else if (len == 4)
        ws_close(ws, 1000, "four");
    ws_resume(ws);
}

static void on_close(struct ws *ws)
{
    (void)ws;
}

/* Reads every field the handler may ask for, so that a bad pointer shows. */
static void touch(struct http_request *req)
{
    size_t sum = strlen(http_request_path(req)) + strlen(http_request_method_name(req));
    const char *names[] = {"host", "content-type", "authorization", "x"};
    for (size_t i = 0; i < 4; i++) {
        const char *v = http_request_header(req, names[i]), *q = http_request_query(req, names[i]);
        sum += (v ? strlen(v) : 0) + (q ? strlen(q) : 0);
    }
    if (!sum)
        abort();
}

static void on_request(struct http_request *req, void *data)
{
    static const struct ws_handlers handlers = {on_message, NULL, on_close};
    (void)data;
    touch(req);
    http_request_on_abort(req, on_abort, NULL);
    if (http_request_wants_ws(req)) {
        http_upgrade_ws(req, NULL, &handlers, NULL);
        return;
    }
    switch (http_request_path(req)[1]) {
    case 's':
        http_respond_begin(req, 200, "text/plain");
        http_request_stream_body(req, on_chunk);
        break;
    case 'e':
        http_respond(req, 404, "text/plain", "early", 5);
        break;
    case 'l':
        held = req;
        break;
    case 'a':
        http_respond_abort(req);
        break;
    default:
        http_request_read_body(req, BODY_MAX, on_body, NULL);
        break;
    }
}

static void start(void)
{
    struct http_options o;
    struct error err = {0};
    uv_loop_init(&loop);
    http_options_init(&o);
    o.loop = &loop;
    o.on_request = on_request;
    o.config.max_header_bytes = 2048;
    o.config.max_discard_bytes = 4096;
    o.config.ws_max_message = 4096;
    o.config.max_write_queue = 16384;
    server = http_server_new(&o, &err);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sun_family = AF_UNIX;
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "fuzz-http-%d", getpid());
    address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (!server || bind(fd, (struct sockaddr *)&address, address_len) < 0 || listen(fd, 16) < 0 ||
        http_server_listen_fd(server, fd, &err) < 0)
        abort();
}

static void drop_answers(int fd)
{
    char buf[16384];
    while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
        ;
}

static void turn(int fd)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    drop_answers(fd);
    if (held) {
        struct http_request *req = held;
        held = NULL;
        http_respond(req, 200, "text/plain", "late", 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!server)
        start();
    if (size < 2)
        return 0;
    size_t first = data[0], piece = data[1] ? data[1] * 8u : 65536;
    data += 2;
    size -= 2;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, address_len) < 0)
        abort();
    for (size_t at = 0, turns = 0; at < size && turns < TURNS_MAX; turns++) {
        size_t n = at ? piece : first ? first : piece;
        if (n > size - at)
            n = size - at;
        ssize_t sent = send(fd, data + at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            break;
        at += sent > 0 ? (size_t)sent : 0;
        turn(fd);
    }
    shutdown(fd, SHUT_WR);
    for (size_t turns = 0; turns < 20 && http_server_connections(server); turns++)
        turn(fd);
    close(fd);
    for (size_t turns = 0; turns < TURNS_MAX && http_server_connections(server); turns++)
        uv_run(&loop, UV_RUN_NOWAIT);
    if (http_server_connections(server) || held)
        abort(); /* a client that has gone must leave nothing behind */
    return 0;
}
