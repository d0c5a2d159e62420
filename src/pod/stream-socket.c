/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of a WebSocket, as far as it is needed here: text frames out; pings, and the
 * end, in. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/url.h"
#include "pod/stream.h"

#define OPEN_MS   10000
#define SILENT_MS 20000 /* without an answer of the other end's kernel */
#define PROBE_S   5
#define IN_MAX    (64 * 1024)
#define OUT_MAX   (4 * 1024 * 1024)
#define HEAD_MAX  8192
#define HEAD_DONE "\r\n\r\n"

enum { FRAME_TEXT = 1, FRAME_CLOSE = 8, FRAME_PING = 9, FRAME_PONG = 10, FRAME_FIN = 0x80 };

/* A host that is gone, or a firewall that has forgotten the connection, says nothing: it is asked,
 * whether there is something to send or not. */
static void socket_set_limits(int fd)
{
    const int on = 1, every = PROBE_S;
    const unsigned silent = SILENT_MS;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &every, sizeof(every));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof(silent));
}

static int socket_connect(const struct target *t)
{
    bool v4 = t->address.family == AF_INET;
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(t->port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(t->port)};
    memcpy(&in4.sin_addr, t->address.bytes, sizeof(in4.sin_addr));
    memcpy(&in6.sin6_addr, t->address.bytes, sizeof(in6.sin6_addr));
    _cleanup_close_ int fd =
        socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    socket_set_limits(fd);
    int r = v4 ? connect(fd, (const struct sockaddr *)&in4, sizeof(in4))
               : connect(fd, (const struct sockaddr *)&in6, sizeof(in6));
    if (r < 0 && errno != EINPROGRESS)
        return -errno;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&p, 1, OPEN_MS) <= 0)
        return -ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
        return error ? -error : -errno;
    return fd_steal(&fd);
}

/* The path goes between the endpoint's own and its query, which has the token. */
static int put_request(struct stream_socket *s, const struct url *url, const char *id)
{
    uint8_t nonce[16];
    char host[TARGET_TEXT_SIZE];
    size_t path = strcspn(url->rest, "?#");
    const char *query = url->rest + path;
    if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
        return -EIO;
    _cleanup_free_ char *key = base64_encode(nonce, sizeof(nonce), NULL);
    path -= path && url->rest[path - 1] == '/';
    target_format_host(&url->target, host);
    int r = strbuf_printf(&s->out,
                          "GET %.*s/sandboxes/%s/ingest%.*s HTTP/1.1\r\nHost: %s:%u\r\n"
                          "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
                          (int)path, url->rest, id, (int)strcspn(query, "#"), query, host,
                          url->target.port, key);
    return r < 0 ? r : 0;
}

/* Bytes behind the answer's head are frames. */
static int take_answer(struct stream_socket *s, char why[STREAM_WHY_SIZE])
{
    char *end = memmem(s->in.data, s->in.len, HEAD_DONE, strlen(HEAD_DONE));
    if (!end)
        return s->in.len > HEAD_MAX ? -EPROTO : -EAGAIN;
    if (s->in.len > 12 && memcmp(s->in.data, "HTTP/1.1 101", 12) == 0) {
        strbuf_consume(&s->in, (size_t)(end - s->in.data) + strlen(HEAD_DONE));
        return 0;
    }
    snprintf(why, STREAM_WHY_SIZE, "it answers %.*s", (int)strcspn(s->in.data, "\r\n"), s->in.data);
    return -ECONNREFUSED;
}

static int read_some(struct stream_socket *s)
{
    char bytes[4096];
    ssize_t n = read(s->fd, bytes, sizeof(bytes));
    if (n == 0)
        return -ECONNRESET;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
    return strbuf_append(&s->in, bytes, (size_t)n);
}

static int shake_hands(struct stream_socket *s, const struct url *url, const char *id,
                       char why[STREAM_WHY_SIZE])
{
    int r = put_request(s, url, id);
    int64_t until = clock_mono_ms() + OPEN_MS;
    while (r == 0 && s->out.len) {
        struct pollfd p = {.fd = s->fd, .events = POLLOUT};
        (void)poll(&p, 1, OPEN_MS);
        r = clock_mono_ms() > until ? -ETIMEDOUT : stream_socket_write(s);
    }
    while (r == 0 && (r = take_answer(s, why)) == -EAGAIN) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        (void)poll(&p, 1, OPEN_MS);
        r = clock_mono_ms() > until ? -ETIMEDOUT : read_some(s);
        r = r == -EAGAIN || r > 0 ? 0 : r;
    }
    return r;
}

int stream_socket_open(struct stream_socket *s, const struct url *url, const char *id,
                       char why[STREAM_WHY_SIZE])
{
    *s = (struct stream_socket){.fd = socket_connect(&url->target)};
    strbuf_init(&s->in, IN_MAX);
    strbuf_init(&s->out, OUT_MAX);
    why[0] = 0;
    int r = s->fd < 0 ? s->fd : shake_hands(s, url, id, why);
    if (r < 0 && !why[0])
        snprintf(why, STREAM_WHY_SIZE, "%s", strerror(-r));
    if (r < 0)
        stream_socket_close(s);
    return r;
}

void stream_socket_close(struct stream_socket *s)
{
    fd_close(&s->fd);
    strbuf_done(&s->in);
    strbuf_done(&s->out);
}

/* What a client sends is masked, by the protocol. */
static int put_frame(struct stream_socket *s, uint8_t type, const char *data, size_t len)
{
    uint8_t head[14] = {FRAME_FIN | type};
    size_t n = 2;
    if (len < 126) {
        head[1] = (uint8_t)len;
    } else if (len <= UINT16_MAX) {
        head[1] = 126;
        head[n++] = (uint8_t)(len >> 8);
        head[n++] = (uint8_t)len;
    } else {
        head[1] = 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            head[n++] = (uint8_t)((uint64_t)len >> shift);
    }
    head[1] |= 0x80;
    uint8_t *mask = head + n;
    if (getrandom(mask, 4, 0) != 4)
        return -EIO;
    int r = strbuf_append(&s->out, head, n + 4);
    r = r < 0 ? r : strbuf_append(&s->out, data, len);
    for (size_t i = 0; r >= 0 && i < len; i++)
        s->out.data[s->out.len - len + i] ^= (char)mask[i % 4];
    return r < 0 ? r : 0;
}

int stream_socket_put(struct stream_socket *s, const char *data, size_t len)
{
    return put_frame(s, FRAME_TEXT, data, len);
}

int stream_socket_write(struct stream_socket *s)
{
    while (s->out.len) {
        ssize_t n = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n < 0)
            return -errno;
        strbuf_consume(&s->out, (size_t)n);
    }
    return 0;
}

/* Bytes that one frame took, 0 where it is not whole yet, or -errno. */
static ssize_t take_frame(struct stream_socket *s)
{
    const uint8_t *p = (const uint8_t *)s->in.data;
    size_t head = 2;
    if (s->in.len < head)
        return 0;
    uint64_t len = p[1];
    if (len > 126) /* masked, or of 64 bits: nothing of the kind is sent to a client like this */
        return -EPROTO;
    if (len == 126) {
        head = 4;
        if (s->in.len < head)
            return 0;
        len = (uint64_t)p[2] << 8 | p[3];
    }
    if (s->in.len < head + len)
        return 0;
    uint8_t type = p[0] & 0x0f;
    if (type == FRAME_CLOSE)
        return -ECONNRESET;
    int r = type == FRAME_PING ? put_frame(s, FRAME_PONG, s->in.data + head, (size_t)len) : 0;
    return r < 0 ? r : (ssize_t)(head + len);
}

int stream_socket_read(struct stream_socket *s)
{
    int r = read_some(s);
    ssize_t n = 1;
    if (r < 0 && r != -EAGAIN)
        return r;
    while (n > 0 && (n = take_frame(s)) > 0)
        strbuf_consume(&s->in, (size_t)n);
    return n < 0 ? (int)n : 0;
}
