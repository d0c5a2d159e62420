/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket client (RFC 6455): libcurl makes the connection (TCP, Unix socket or TLS), the upgrade
 * request is ours, the framing is wslay's. The socket is never blocking: what it does not take
 * stays queued in wslay, and sbx_ws_receive() sends and receives while it waits, so that two sides
 * that both write cannot block each other. */
#include "libsbx/internal.h"

#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "base/clock.h"

#define HANDSHAKE_MAX        (16u << 10)
#define HANDSHAKE_TIMEOUT_MS 15000
#define GOODBYE_TIMEOUT_MS   200
#define RFC6455_GUID         "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

struct message {
    struct message *next;
    struct sbx_ws_message m; /* m.data is the bytes behind this struct */
};

struct sbx_ws {
    CURL *curl;
    char *address;
    int fd;
    wslay_event_context_ptr wslay;
    struct strbuf early; /* bytes that came behind the handshake's answer */
    struct message *first, **last;
    struct message *current; /* what the caller holds */
    bool ended;              /* the peer's end of stream was seen */
};

static int random_bytes(void *out, size_t len)
{
    return getrandom(out, len, 0) == (ssize_t)len ? 0 : -1;
}

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *data)
{
    (void)flags;
    struct sbx_ws *ws = data;
    if (ws->early.len) {
        size_t n = ws->early.len < len ? ws->early.len : len;
        memcpy(buf, ws->early.data, n);
        strbuf_consume(&ws->early, n);
        return (ssize_t)n;
    }
    size_t got = 0;
    CURLcode code = curl_easy_recv(ws->curl, buf, len, &got);
    if (code == CURLE_OK && got)
        return (ssize_t)got;
    if (code == CURLE_OK)
        ws->ended = true;
    wslay_event_set_error(ctx,
                          code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *buf, size_t len, int flags,
                       void *data)
{
    (void)flags;
    struct sbx_ws *ws = data;
    size_t sent = 0;
    CURLcode code = curl_easy_send(ws->curl, buf, len, &sent);
    if (code == CURLE_OK)
        return (ssize_t)sent;
    wslay_event_set_error(ctx,
                          code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *data)
{
    (void)data;
    if (random_bytes(buf, len) == 0)
        return 0;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *data)
{
    (void)ctx;
    struct sbx_ws *ws = data;
    if (wslay_is_ctrl_frame(arg->opcode))
        return;
    struct message *m = xcalloc(1, sizeof(*m) + arg->msg_length + 1);
    char *bytes = (char *)(m + 1);
    if (arg->msg_length)
        memcpy(bytes, arg->msg, arg->msg_length);
    m->m = (struct sbx_ws_message){
        .binary = arg->opcode == WSLAY_BINARY_FRAME, .data = bytes, .len = arg->msg_length};
    *ws->last = m;
    ws->last = &m->next;
}

static int wait_fd(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int timeout = -1;
        if (deadline_ms >= 0) {
            int64_t left = deadline_ms - clock_mono_ms();
            timeout = left > 0 ? (int)left : 0;
        }
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, timeout);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -1;
    }
}

/* --- handshake */

static void expected_accept(const char *key, char out[29])
{
    char text[64];
    unsigned char digest[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "%s%s", key, RFC6455_GUID);
    EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)out, digest, 20);
}

static int send_all(struct sbx_ws *ws, const char *data, size_t len, int64_t deadline,
                    struct sbx_error *err)
{
    while (len) {
        size_t sent = 0;
        CURLcode code = curl_easy_send(ws->curl, data, len, &sent);
        if (code == CURLE_AGAIN) {
            if (wait_fd(ws->fd, POLLOUT, deadline) <= 0)
                return libsbx_fail(err, "timeout", "%s: the upgrade timed out", ws->address);
        } else if (code != CURLE_OK) {
            return libsbx_fail(err, "unavailable", "%s: the connection broke", ws->address);
        }
        data += sent;
        len -= sent;
    }
    return 0;
}

/* Reads until the blank line; what follows it stays in ws->early behind *ret_head_len bytes. */
static int read_head(struct sbx_ws *ws, int64_t deadline, size_t *ret_head_len,
                     struct sbx_error *err)
{
    for (;;) {
        char *end = ws->early.data ? strstr(ws->early.data, "\r\n\r\n") : NULL;
        if (end) {
            *ret_head_len = (size_t)(end - ws->early.data) + 4;
            return 0;
        }
        char buf[4096];
        size_t got = 0;
        CURLcode code = curl_easy_recv(ws->curl, buf, sizeof(buf), &got);
        if (code == CURLE_AGAIN) {
            if (wait_fd(ws->fd, POLLIN, deadline) <= 0)
                return libsbx_fail(err, "timeout", "%s: the upgrade timed out", ws->address);
            continue;
        }
        if (code != CURLE_OK || got == 0)
            return libsbx_fail(err, "unavailable", "%s: the connection broke", ws->address);
        if (strbuf_append(&ws->early, buf, got) < 0)
            return libsbx_fail(err, "internal", "%s: the upgrade's answer is too long",
                               ws->address);
    }
}

/* The value of a header in a NUL-terminated head, copied; NULL when absent. */
static char *find_header(const char *head, const char *name)
{
    size_t name_len = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
            continue;
        const char *value = line + name_len + 1;
        value += strspn(value, " \t");
        size_t len = strcspn(value, "\r");
        while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
            len--;
        return xstrndup(value, len);
    }
    return NULL;
}

/* A refusal's body, as far as its Content-Length or the connection's end says. */
static int refuse_upgrade(struct sbx_ws *ws, const char *head, int status, int64_t deadline,
                          struct sbx_error *err)
{
    _cleanup_free_ char *length = find_header(head, "Content-Length");
    size_t want = length ? strtoul(length, NULL, 10) : HANDSHAKE_MAX;
    while (ws->early.len < want) {
        char buf[4096];
        size_t got = 0;
        CURLcode code = curl_easy_recv(ws->curl, buf, sizeof(buf), &got);
        if (code == CURLE_AGAIN && wait_fd(ws->fd, POLLIN, deadline) > 0)
            continue;
        if (code != CURLE_OK || !got || strbuf_append(&ws->early, buf, got) < 0)
            break;
    }
    return libsbx_fail_http(err, status, ws->early.data, ws->early.len);
}

static int ws_handshake(struct sbx_ws *ws, const struct sbx_client *c, const char *path,
                        struct sbx_error *err)
{
    int64_t deadline = clock_mono_ms() + HANDSHAKE_TIMEOUT_MS;
    char key[25];
    unsigned char raw[16];
    if (random_bytes(raw, sizeof(raw)) < 0)
        abort();
    EVP_EncodeBlock((unsigned char *)key, raw, sizeof(raw));
    const char *host = strstr(c->base_url, "://") + 3;
    _cleanup_strbuf_ struct strbuf req = STRBUF_INIT(SBX_LINE_MAX);
    strbuf_printf(&req,
                  "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
                  path, host, key);
    if (c->auth_header)
        strbuf_printf(&req, "%s\r\n", c->auth_header);
    strbuf_puts(&req, "User-Agent: libsbx/" MAS_VERSION "\r\n\r\n");
    if (send_all(ws, req.data, req.len, deadline, err) < 0)
        return -1;
    size_t head_len;
    if (read_head(ws, deadline, &head_len, err) < 0)
        return -1;
    _cleanup_free_ char *head = xstrndup(ws->early.data, head_len);
    strbuf_consume(&ws->early, head_len);
    int status = 0;
    if (sscanf(head, "HTTP/1.%*1d %3d", &status) != 1)
        return libsbx_fail(err, "internal", "%s does not speak HTTP/1.1", ws->address);
    if (status != 101)
        return refuse_upgrade(ws, head, status, deadline, err);
    char want[29];
    expected_accept(key, want);
    _cleanup_free_ char *accept = find_header(head, "Sec-WebSocket-Accept");
    _cleanup_free_ char *upgrade = find_header(head, "Upgrade");
    if (!accept || strcmp(accept, want) != 0 || !upgrade || strcasecmp(upgrade, "websocket") != 0)
        return libsbx_fail(err, "internal", "%s answered the upgrade wrongly", ws->address);
    return 0;
}

static int connect_socket(struct sbx_ws *ws, struct sbx_client *c, struct sbx_error *err)
{
    char detail[CURL_ERROR_SIZE];
    libsbx_setup(c, ws->curl, detail);
    curl_easy_setopt(ws->curl, CURLOPT_URL, c->base_url);
    curl_easy_setopt(ws->curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(ws->curl, CURLOPT_HTTPPROXYTUNNEL, 1L);
    CURLcode code = curl_easy_perform(ws->curl);
    /* The handle lives on, the buffer does not. */
    curl_easy_setopt(ws->curl, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK)
        return libsbx_fail_curl(err, c, code, detail);
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(ws->curl, CURLINFO_ACTIVESOCKET, &fd);
    if (fd == CURL_SOCKET_BAD)
        return libsbx_fail(err, "internal", "%s: no socket", c->address);
    /* libcurl asks about requests of its own only. */
    if (c->guessed && libsbx_check_socket(c, fd) < 0)
        return libsbx_fail_curl(err, c, CURLE_ABORTED_BY_CALLBACK, "");
    ws->fd = fd;
    return 0;
}

struct sbx_ws *sbx_ws_open(struct sbx_client *c, const char *path, struct sbx_error *err)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
                                                           .send_callback = on_send,
                                                           .genmask_callback = on_mask,
                                                           .on_msg_recv_callback = on_message};
    struct sbx_ws *ws = new0(struct sbx_ws);
    strbuf_init(&ws->early, HANDSHAKE_MAX);
    ws->last = &ws->first;
    ws->fd = -1;
    ws->address = xstrdup(c->address);
    ws->curl = curl_easy_init();
    if (!ws->curl) {
        libsbx_fail(err, "internal", "libcurl does not start");
    } else if (connect_socket(ws, c, err) == 0 && ws_handshake(ws, c, path, err) == 0) {
        if (wslay_event_context_client_init(&ws->wslay, &callbacks, ws) == 0) {
            wslay_event_config_set_max_recv_msg_length(ws->wslay, SBX_LINE_MAX);
            return ws;
        }
        libsbx_fail(err, "internal", "out of memory");
    }
    sbx_ws_free(ws);
    return NULL;
}

/* --- messages */

void sbx_ws_free(struct sbx_ws *ws)
{
    if (!ws)
        return;
    if (ws->wslay) {
        if (!ws->ended) {
            int64_t deadline = clock_mono_ms() + GOODBYE_TIMEOUT_MS;
            wslay_event_queue_close(ws->wslay, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
            while (wslay_event_want_write(ws->wslay) && wslay_event_send(ws->wslay) == 0)
                if (wslay_event_want_write(ws->wslay) && wait_fd(ws->fd, POLLOUT, deadline) <= 0)
                    break;
        }
        wslay_event_context_free(ws->wslay);
    }
    while (ws->first) {
        struct message *m = ws->first;
        ws->first = m->next;
        free(m);
    }
    free(ws->current);
    strbuf_done(&ws->early);
    curl_easy_cleanup(ws->curl);
    free(ws->address);
    free(ws);
}

int sbx_ws_fd(const struct sbx_ws *ws)
{
    return ws->fd;
}

short sbx_ws_events(const struct sbx_ws *ws)
{
    return (short)(POLLIN | (wslay_event_want_write(ws->wslay) ? POLLOUT : 0));
}

size_t sbx_ws_queued(const struct sbx_ws *ws)
{
    return wslay_event_get_queued_msg_length(ws->wslay);
}

static int flush_output(struct sbx_ws *ws, struct sbx_error *err)
{
    if (wslay_event_want_write(ws->wslay) && wslay_event_send(ws->wslay) != 0)
        return libsbx_fail(err, "unavailable", "%s: the connection broke", ws->address);
    return 0;
}

int sbx_ws_send(struct sbx_ws *ws, int binary, const void *data, size_t len, struct sbx_error *err)
{
    struct wslay_event_msg m = {
        .opcode = binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME, .msg = data, .msg_length = len};
    if (wslay_event_queue_msg(ws->wslay, &m) != 0)
        return libsbx_fail(err, "unavailable", "%s: the connection is closing", ws->address);
    return flush_output(ws, err);
}

static bool take_message(struct sbx_ws *ws, struct sbx_ws_message *ret)
{
    free(ws->current);
    ws->current = ws->first;
    if (!ws->current)
        return false;
    ws->first = ws->current->next;
    if (!ws->first)
        ws->last = &ws->first;
    *ret = ws->current->m;
    return true;
}

static int ws_finished(struct sbx_ws *ws, bool failed, struct sbx_error *err)
{
    uint16_t code = wslay_event_get_status_code_received(ws->wslay);
    if (code == WSLAY_CODE_NORMAL_CLOSURE || code == WSLAY_CODE_GOING_AWAY)
        return SBX_WS_CLOSED;
    if (failed && !ws->ended)
        libsbx_fail(err, "unavailable", "%s: the connection broke", ws->address);
    else
        libsbx_fail(err, "unavailable", "%s: the daemon closed the connection (code %u)",
                    ws->address, code);
    return SBX_WS_FAILED;
}

static int read_some(struct sbx_ws *ws)
{
    return wslay_event_want_read(ws->wslay) ? wslay_event_recv(ws->wslay) : 0;
}

enum sbx_ws_result sbx_ws_receive(struct sbx_ws *ws, int timeout_ms, struct sbx_ws_message *ret,
                                  struct sbx_error *err)
{
    int64_t deadline = timeout_ms < 0 ? -1 : clock_mono_ms() + timeout_ms;
    for (;;) {
        if (take_message(ws, ret))
            return SBX_WS_MESSAGE;
        bool failed = ws->ended || read_some(ws) < 0;
        if (ws->first)
            continue;
        if (!failed && flush_output(ws, NULL) < 0) {
            failed = true;
            /* It stopped reading; what it said before may have come only now. */
            read_some(ws);
            if (ws->first)
                continue;
        }
        if (failed || (!wslay_event_want_read(ws->wslay) && !wslay_event_want_write(ws->wslay)))
            return ws_finished(ws, failed, err);
        int n = wait_fd(ws->fd, sbx_ws_events(ws), deadline);
        if (n < 0)
            return libsbx_fail(err, "internal", "poll: %s", strerror(errno));
        if (n == 0)
            return SBX_WS_TIMEOUT;
    }
}
