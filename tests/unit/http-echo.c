/* SPDX-License-Identifier: Apache-2.0 */
/* A server on src/net for tests and benchmarks to talk to.
 *
 *   http-echo ADDRESS [CERT KEY]
 *
 * Prints "listening PORT" (0 for a Unix socket) and serves until SIGTERM, which drains:
 *   GET /              "ok"
 *   GET /slow?ms=N     "slow" after N milliseconds
 *   GET /stream?kb=N   N KiB, chunked, at the pace the client reads
 *   GET /abort         half an answer, then a cut
 *   GET /info          method, path, the query parameter q and the Host
 *   GET /stats         connections and aborted requests so far
 *   WS  /ws            echoes; the text "close" makes the server close with 1001
 *   /early             answers without reading the body
 *   /count             counts the body's bytes as they stream in
 *   anything else      echoes the body (up to ECHO_MAX)
 * Timeouts are short where ECHO_FAST is set in the environment, so that tests need not wait. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "net/http.h"

#define ECHO_MAX    (4 * 1024 * 1024)
#define STREAM_STEP 16384

static struct http_server *server;
static unsigned long aborted;
static uv_signal_t sigterm;

struct job {
    struct http_request *req;
    uv_timer_t timer;
    size_t left, total;
};

static void on_job_closed(uv_handle_t *handle)
{
    free(container_of(handle, struct job, timer));
}

static void job_free(struct job *job)
{
    uv_close((uv_handle_t *)&job->timer, on_job_closed);
}

static void on_job_abort(struct http_request *req, void *data)
{
    (void)req;
    aborted++;
    job_free(data);
}

static struct job *job_new(struct http_request *req)
{
    struct job *job = new0(struct job);
    job->req = req;
    uv_timer_init(uv_default_loop(), &job->timer);
    http_request_on_abort(req, on_job_abort, job);
    return job;
}

static size_t query_number(struct http_request *req, const char *name)
{
    const char *text = http_request_query(req, name);
    return text ? strtoul(text, NULL, 10) : 0;
}

static void on_slow(uv_timer_t *timer)
{
    struct job *job = container_of(timer, struct job, timer);
    http_respond(job->req, 200, "text/plain", "slow", 4);
    job_free(job);
}

static void serve_slow(struct http_request *req)
{
    struct job *job = job_new(req);
    uv_timer_start(&job->timer, on_slow, query_number(req, "ms"), 0);
}

static void stream_more(struct http_request *req, void *data)
{
    static char block[STREAM_STEP];
    struct job *job = data;
    memset(block, 'x', sizeof(block));
    while (job->left) {
        size_t n = job->left < sizeof(block) ? job->left : sizeof(block);
        job->left -= n;
        if (!http_write(req, block, n))
            return;
    }
    http_respond_end(req);
    job_free(job);
}

static void serve_stream(struct http_request *req)
{
    struct job *job = job_new(req);
    job->left = query_number(req, "kb") * 1024;
    http_request_on_drain(req, stream_more, job);
    http_respond_begin(req, 200, "application/octet-stream");
    stream_more(req, job);
}

static void serve_abort(struct http_request *req)
{
    http_respond_begin(req, 200, "text/plain");
    http_write(req, "half", 4);
    http_respond_abort(req);
}

static void serve_info(struct http_request *req)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(65536);
    const char *q = http_request_query(req, "q"), *host = http_request_header(req, "host");
    strbuf_printf(&b, "%s %s q=%s host=%s unix=%d\n", http_request_method_name(req),
                  http_request_path(req), q ? q : "-", host ? host : "-",
                  http_request_is_unix(req));
    http_response_header(req, "X-Split", "a\r\nX-Injected: b");
    http_respond(req, 200, "text/plain", b.data, b.len);
}

static void serve_stats(struct http_request *req)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "connections=%zu aborted=%lu\n",
                     http_server_connections(server), aborted);
    http_respond(req, 200, "text/plain", text, (size_t)n);
}

static void on_echo_body(struct http_request *req, const char *body, size_t len)
{
    http_respond(req, 200, "application/octet-stream", body, len);
}

static void on_root_body(struct http_request *req, const char *body, size_t len)
{
    (void)body;
    (void)len;
    http_respond(req, 200, "text/plain", "ok", 2);
}

static void on_count_chunk(struct http_request *req, const char *data, size_t len)
{
    struct job *job = http_request_data(req);
    (void)data;
    job->total += len;
    if (len)
        return;
    char text[32];
    int n = snprintf(text, sizeof(text), "%zu", job->total);
    http_respond(req, 200, "text/plain", text, (size_t)n);
    job_free(job);
}

static void serve_count(struct http_request *req)
{
    http_request_set_data(req, job_new(req));
    http_request_stream_body(req, on_count_chunk);
}

static void on_ws_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    if (!binary && len == 5 && !memcmp(data, "close", 5)) {
        ws_close(ws, 1001, "asked to");
        return;
    }
    if (!ws_send(ws, binary, data, len))
        ws_pause(ws);
}

static void on_ws_drain(struct ws *ws)
{
    ws_resume(ws);
}

static void on_ws_close(struct ws *ws)
{
    (void)ws;
    aborted++;
}

static void on_request(struct http_request *req, void *data)
{
    static const struct ws_handlers handlers = {on_ws_message, on_ws_drain, on_ws_close};
    const char *path = http_request_path(req);
    (void)data;
    if (!strcmp(path, "/") && http_request_method(req) <= HTTP_HEAD_)
        http_request_read_body(req, ECHO_MAX, on_root_body, NULL);
    else if (!strcmp(path, "/ws") && http_request_wants_ws(req))
        http_upgrade_ws(req, NULL, &handlers, NULL);
    else if (!strcmp(path, "/slow"))
        serve_slow(req);
    else if (!strcmp(path, "/stream"))
        serve_stream(req);
    else if (!strcmp(path, "/abort"))
        serve_abort(req);
    else if (!strcmp(path, "/info"))
        serve_info(req);
    else if (!strcmp(path, "/stats"))
        serve_stats(req);
    else if (!strcmp(path, "/early"))
        http_respond(req, 200, "text/plain", "early", 5);
    else if (!strcmp(path, "/count"))
        serve_count(req);
    else
        http_request_read_body(req, ECHO_MAX, on_echo_body, NULL);
}

static void on_drained(void *data)
{
    (void)data;
    http_server_close(server);
    uv_close((uv_handle_t *)&sigterm, NULL);
}

static void on_sigterm(uv_signal_t *handle, int signum)
{
    (void)handle;
    (void)signum;
    http_server_drain(server, on_drained, NULL);
}

static int read_pem(const char *path, struct strbuf *b)
{
    strbuf_init(b, 1 << 20);
    return fd_read_file_at(AT_FDCWD, path, b);
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    if (addr.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&addr)->sin_port);
    return addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&addr)->sin6_port) : 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct http_options o;
    _cleanup_strbuf_ struct strbuf cert = {0}, key = {0};
    bool loopback;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: http-echo ADDRESS [CERT KEY]\n");
        return 2;
    }
    http_options_init(&o);
    o.loop = uv_default_loop();
    o.on_request = on_request;
    if (argc == 4 && read_pem(argv[2], &cert) >= 0 && read_pem(argv[3], &key) >= 0) {
        o.config.tls_cert = cert.data;
        o.config.tls_key = key.data;
    }
    o.config.max_discard_bytes = 16 * 1024 * 1024;
    if (getenv("ECHO_FAST")) {
        o.config.header_timeout_ms = o.config.body_timeout_ms = 600;
        o.config.idle_timeout_ms = o.config.write_timeout_ms = 1000;
        o.config.ws_ping_ms = 200;
        o.config.max_connections = 20;
    }
    int fd = http_listen_open(argv[1], 1024, &loopback, &err);
    server = fd < 0 ? NULL : http_server_new(&o, &err);
    if (!server || http_server_listen_fd(server, fd, &err) < 0) {
        fprintf(stderr, "http-echo: %s\n", err.message);
        return 1;
    }
    uv_signal_init(o.loop, &sigterm);
    uv_signal_start(&sigterm, on_sigterm, SIGTERM);
    printf("listening %u\n", port_of(fd));
    fflush(stdout);
    uv_run(o.loop, UV_RUN_DEFAULT);
    uv_loop_close(o.loop);
    return 0;
}
