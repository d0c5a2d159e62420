/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/channel.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "base/http-head.h"
#include "base/strbuf.h"
#include "net/chunk.h"

#define REQUEST_MAX    (64u << 10)
#define REFUSAL_MAX    (64u << 10)
#define STATUS_MAX     (64u << 10)
#define FRAME_MAX      ((1ull << 31) - 1) /* frames pass in pieces: only the length is held */
#define CLOSE_CHANNEL  255
#define KEY_SIZE       25
#define ACCEPT_SIZE    29
#define PROTOCOL_OFFER "v5.channel.k8s.io, v4.channel.k8s.io"
#define RFC6455_GUID   "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define HANDSHAKE_KEPT HTTP_HEAD_MAX

struct kube_channel {
    enum kube_channel_state state;
    const struct kube_channel_events *events;
    void *data;
    char key[KEY_SIZE];
    int version;
    wslay_event_context_ptr wslay;
    struct strbuf head, out, status;
    const uint8_t *in; /* while bytes are being fed */
    size_t in_len;
    /* the message whose frames are coming in */
    bool in_message, in_control, has_channel;
    unsigned channel;
    bool violated;
    /* a refusal's body */
    struct strbuf body;
    struct chunk_decoder chunks;
    bool chunked, bounded;
    uint64_t body_left;
    int http;
    uint32_t retry_after_s;
    struct kube_result refusal;
    struct kube_exit exit;
};

/* --- upgrade */

static void make_key(char key[KEY_SIZE])
{
    unsigned char raw[16];
    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
        abort();
    EVP_EncodeBlock((unsigned char *)key, raw, sizeof(raw));
}

static void make_accept(const char *key, char out[ACCEPT_SIZE])
{
    char text[64];
    unsigned char digest[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "%s%s", key, RFC6455_GUID);
    EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)out, digest, 20);
}

/* No Accept header: v4's exec answers 406 to "application/json". */
static void write_request(struct kube_channel *c, const struct kube_channel_request *r)
{
    strbuf_printf(&c->out,
                  "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: mas-kube/" MAS_VERSION "\r\n"
                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: " PROTOCOL_OFFER "\r\n",
                  r->target, r->host, c->key);
    if (r->token)
        strbuf_printf(&c->out, "Authorization: Bearer %s\r\n", r->token);
    strbuf_puts(&c->out, "\r\n");
}

static int channel_violate(struct kube_channel *c, const char *why)
{
    if (c->state != KUBE_CHANNEL_OPEN)
        kube_result_fail(&c->refusal, KUBE_STRANGE, "%s", why);
    else if (c->exit.kind == KUBE_EXIT_UNKNOWN)
        kube_result_fail(&c->exit.why, KUBE_STRANGE, "%s", why);
    c->state = KUBE_CHANNEL_ENDED;
    return -EPROTO;
}

static bool header_is(struct http_head *h, const char *name, const char *value)
{
    const struct http_header *found = NULL;
    return http_head_find_once(h, name, &found) == 0 && found && text_is(found->value, value);
}

static int channel_open(struct kube_channel *c, struct http_head *h)
{
    char accept[ACCEPT_SIZE];
    const struct http_header *found = NULL;
    make_accept(c->key, accept);
    if (!header_is(h, "Upgrade", "websocket") ||
        http_head_find_once(h, "Sec-WebSocket-Accept", &found) || !found ||
        found->value.len != strlen(accept) || memcmp(found->value.at, accept, strlen(accept)) != 0)
        return channel_violate(c, "the upgrade was answered wrongly");
    c->version = header_is(h, "Sec-WebSocket-Protocol", "v5.channel.k8s.io")   ? 5
                 : header_is(h, "Sec-WebSocket-Protocol", "v4.channel.k8s.io") ? 4
                                                                               : 0;
    if (c->version == 0) /* without one there is no status channel */
        return channel_violate(c, "the server speaks neither v5 nor v4 of channel.k8s.io");
    c->state = KUBE_CHANNEL_OPEN;
    if (c->events->on_open)
        c->events->on_open(c->data);
    return 0;
}

static void finish_refusal(struct kube_channel *c)
{
    kube_result_parse(&c->refusal, c->http, c->body.data, c->body.len, c->retry_after_s);
    if (c->refusal.outcome == KUBE_DONE)
        kube_result_fail(&c->refusal, KUBE_STRANGE, "status %d where an upgrade was asked for",
                         c->http);
    c->state = KUBE_CHANNEL_ENDED;
}

static int begin_refusal(struct kube_channel *c, struct http_head *h)
{
    const struct http_header *length = NULL, *retry = NULL;
    c->http = h->status;
    c->state = KUBE_CHANNEL_REFUSED;
    c->chunked = header_is(h, "Transfer-Encoding", "chunked");
    if (http_head_find_length(h, &length, &c->body_left))
        return channel_violate(c, "the answer's length makes no sense");
    c->bounded = length != NULL;
    if (http_head_find_once(h, "Retry-After", &retry) == 0 && retry)
        c->retry_after_s = kube_parse_retry_after(retry->value.at, retry->value.len);
    if (c->bounded && !c->chunked && c->body_left == 0)
        finish_refusal(c);
    return 0;
}

/* A refusal says what it says in its first REFUSAL_MAX bytes. */
static void append_body(struct kube_channel *c, const char *bytes, size_t len)
{
    size_t room = c->body.max - c->body.len;
    strbuf_append(&c->body, bytes, len < room ? len : room);
}

static int feed_refusal(struct kube_channel *c, const char *bytes, size_t len)
{
    while (len && c->chunked && !c->chunks.done) {
        const char *piece;
        size_t n;
        ssize_t used = chunk_decode(&c->chunks, bytes, len, &piece, &n);
        if (used < 0)
            return channel_violate(c, "the answer's chunks make no sense");
        append_body(c, piece, n);
        bytes += used;
        len -= (size_t)used;
    }
    if (!c->chunked) {
        size_t n = c->bounded && c->body_left < len ? (size_t)c->body_left : len;
        append_body(c, bytes, n);
        c->body_left -= c->bounded ? n : 0;
    }
    if (c->chunked ? c->chunks.done : c->bounded && c->body_left == 0)
        finish_refusal(c);
    return 0;
}

/* Returns how many of the bytes belong to the head, or negative. */
static ssize_t feed_head(struct kube_channel *c, const char *bytes, size_t len)
{
    size_t before = c->head.len, room = HANDSHAKE_KEPT - before;
    struct http_head h;
    strbuf_append(&c->head, bytes, len < room ? len : room);
    size_t whole = http_head_length(c->head.data, c->head.len);
    if (whole == 0)
        return c->head.len < HANDSHAKE_KEPT ? (ssize_t)len
                                            : channel_violate(c, "the answer's head is too long");
    if (http_head_parse_answer(&h, c->head.data, whole))
        return channel_violate(c, "what answers does not speak HTTP/1.1");
    int r = h.status == 101 ? channel_open(c, &h) : begin_refusal(c, &h);
    return r < 0 ? r : (ssize_t)(whole - before);
}

/* --- frames */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *data)
{
    struct kube_channel *c = data;
    (void)flags;
    if (c->in_len == 0 || c->violated) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    size_t n = c->in_len < len ? c->in_len : len;
    memcpy(buf, c->in, n);
    c->in += n;
    c->in_len -= n;
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *buf, size_t len, int flags,
                       void *data)
{
    struct kube_channel *c = data;
    (void)flags;
    if (strbuf_append(&c->out, buf, len) == 0)
        return (ssize_t)len;
    wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *data)
{
    (void)data;
    if (getrandom(buf, len, 0) == (ssize_t)len)
        return 0;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_frame_start(wslay_event_context_ptr ctx,
                           const struct wslay_event_on_frame_recv_start_arg *arg, void *data)
{
    struct kube_channel *c = data;
    (void)ctx;
    c->in_control = wslay_is_ctrl_frame(arg->opcode);
    if (c->in_control)
        return;
    if (arg->opcode != WSLAY_CONTINUATION_FRAME) {
        c->violated |= arg->opcode != WSLAY_BINARY_FRAME;
        c->in_message = true;
        c->has_channel = false;
    }
}

static void take_bytes(struct kube_channel *c, const uint8_t *bytes, size_t len)
{
    if (c->channel == KUBE_STATUS) {
        c->violated |= strbuf_append(&c->status, bytes, len) < 0;
    } else if (c->channel == KUBE_STDOUT || c->channel == KUBE_STDERR) {
        c->events->on_output(c->data, c->channel, bytes, len);
    } else if (c->channel != CLOSE_CHANNEL) {
        c->violated = true; /* nothing comes from the server there */
    }
}

static void on_frame_chunk(wslay_event_context_ptr ctx,
                           const struct wslay_event_on_frame_recv_chunk_arg *arg, void *data)
{
    struct kube_channel *c = data;
    const uint8_t *bytes = arg->data;
    size_t len = arg->data_length;
    (void)ctx;
    if (c->in_control || c->violated || len == 0)
        return;
    if (!c->has_channel) {
        c->has_channel = true;
        c->channel = *bytes++;
        len--;
    }
    if (len)
        take_bytes(c, bytes, len);
}

/* Called for every message, and for data without the bytes, which have passed already. */
static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                       void *data)
{
    struct kube_channel *c = data;
    (void)ctx;
    if (wslay_is_ctrl_frame(arg->opcode))
        return;
    c->in_message = false;
    if (!c->has_channel || c->channel != KUBE_STATUS || c->status.len == 0)
        return;
    if (c->exit.kind == KUBE_EXIT_UNKNOWN)
        kube_exit_parse(&c->exit, c->status.data, c->status.len);
    strbuf_reset(&c->status);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_recv,
    .send_callback = on_send,
    .genmask_callback = on_mask,
    .on_frame_recv_start_callback = on_frame_start,
    .on_frame_recv_chunk_callback = on_frame_chunk,
    .on_msg_recv_callback = on_message,
};

static int channel_flush(struct kube_channel *c)
{
    while (wslay_event_want_write(c->wslay)) {
        size_t before = c->out.len;
        if (wslay_event_send(c->wslay) != 0)
            return channel_violate(c, "the connection cannot be written to");
        if (c->out.len == before)
            break; /* no room: what was asked for waits in wslay */
    }
    return 0;
}

static int feed_frames(struct kube_channel *c, const uint8_t *bytes, size_t len)
{
    c->in = bytes;
    c->in_len = len;
    int r = wslay_event_recv(c->wslay);
    c->in_len = 0;
    if (r != 0 || c->violated)
        return channel_violate(c, "what comes is not of channel.k8s.io");
    if (channel_flush(c) < 0)
        return -EPROTO;
    if (wslay_event_get_close_received(c->wslay)) {
        uint16_t code = wslay_event_get_status_code_received(c->wslay);
        if (c->exit.kind == KUBE_EXIT_UNKNOWN && !c->exit.why.message[0])
            kube_result_fail(&c->exit.why, KUBE_UNREACHABLE,
                             "closed with code %u before any status", code);
        c->state = KUBE_CHANNEL_ENDED;
    } else if (!wslay_event_get_read_enabled(c->wslay)) {
        return channel_violate(c, "what comes is not WebSocket");
    }
    return 0;
}

/* --- outside */

struct kube_channel *kube_channel_new(const struct kube_channel_request *request,
                                      const struct kube_channel_events *events, void *data)
{
    struct kube_channel *c = new0(struct kube_channel);
    c->events = events;
    c->data = data;
    strbuf_init(&c->head, HANDSHAKE_KEPT);
    strbuf_init(&c->body, REFUSAL_MAX);
    strbuf_init(&c->status, STATUS_MAX);
    strbuf_init(&c->out, KUBE_CHANNEL_OUTPUT_MAX + REQUEST_MAX);
    if (wslay_event_context_client_init(&c->wslay, &callbacks, c) != 0)
        abort(); /* out of memory */
    wslay_event_config_set_no_buffering(c->wslay, 1);
    wslay_event_config_set_max_recv_msg_length(c->wslay, FRAME_MAX);
    make_key(c->key);
    write_request(c, request);
    return c;
}

void kube_channel_free(struct kube_channel *c)
{
    if (!c)
        return;
    wslay_event_context_free(c->wslay);
    strbuf_done(&c->head);
    strbuf_done(&c->body);
    strbuf_done(&c->status);
    strbuf_done(&c->out);
    free(c);
}

int kube_channel_feed(struct kube_channel *c, const void *bytes, size_t len)
{
    const char *at = bytes;
    if (c->state == KUBE_CHANNEL_ASKED && len) {
        ssize_t n = feed_head(c, at, len);
        if (n < 0)
            return (int)n;
        at += n;
        len -= (size_t)n;
    }
    if (len && c->state == KUBE_CHANNEL_REFUSED)
        return feed_refusal(c, at, len);
    if (len && c->state == KUBE_CHANNEL_OPEN)
        return feed_frames(c, (const uint8_t *)at, len);
    return 0;
}

void kube_channel_end(struct kube_channel *c)
{
    if (c->state == KUBE_CHANNEL_ASKED)
        kube_result_fail(&c->refusal, KUBE_UNREACHABLE, "the connection broke before the answer");
    else if (c->state == KUBE_CHANNEL_REFUSED && !c->bounded && !c->chunked)
        finish_refusal(c);
    else if (c->state == KUBE_CHANNEL_REFUSED)
        kube_result_fail(&c->refusal, KUBE_UNREACHABLE, "the connection broke in the answer");
    else if (c->state == KUBE_CHANNEL_OPEN && c->exit.kind == KUBE_EXIT_UNKNOWN)
        kube_result_fail(&c->exit.why, KUBE_UNREACHABLE, "the connection broke before any status");
    c->state = KUBE_CHANNEL_ENDED;
}

const void *kube_channel_output(const struct kube_channel *c, size_t *ret_len)
{
    *ret_len = c->out.len;
    return c->out.data;
}

void kube_channel_sent(struct kube_channel *c, size_t len)
{
    strbuf_consume(&c->out, len);
    if (c->state == KUBE_CHANNEL_OPEN)
        channel_flush(c);
}

static int queue_message(struct kube_channel *c, uint8_t opcode, const void *bytes, size_t len)
{
    struct wslay_event_msg m = {.opcode = opcode, .msg = bytes, .msg_length = len};
    if (c->state != KUBE_CHANNEL_OPEN || wslay_event_queue_msg(c->wslay, &m) != 0)
        return -ENOTCONN;
    return channel_flush(c);
}

int kube_channel_send(struct kube_channel *c, unsigned channel, const void *bytes, size_t len)
{
    if (c->state != KUBE_CHANNEL_OPEN)
        return -ENOTCONN;
    if (c->out.len + wslay_event_get_queued_msg_length(c->wslay) + len + 16 >
        KUBE_CHANNEL_OUTPUT_MAX)
        return -EAGAIN;
    _cleanup_strbuf_ struct strbuf m = STRBUF_INIT(KUBE_CHANNEL_OUTPUT_MAX);
    uint8_t number = (uint8_t)channel;
    strbuf_append(&m, &number, 1);
    strbuf_append(&m, bytes, len);
    return queue_message(c, WSLAY_BINARY_FRAME, m.data, m.len);
}

int kube_channel_ping(struct kube_channel *c)
{
    return queue_message(c, WSLAY_PING, NULL, 0);
}

enum kube_channel_state kube_channel_state(const struct kube_channel *c)
{
    return c->state;
}

int kube_channel_version(const struct kube_channel *c)
{
    return c->version;
}

const struct kube_result *kube_channel_refusal(const struct kube_channel *c)
{
    return &c->refusal;
}

const struct kube_exit *kube_channel_exit(const struct kube_channel *c)
{
    return &c->exit;
}
