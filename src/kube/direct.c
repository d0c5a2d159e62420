/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/direct.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "loop/loop.h"

#define READ_SIZE      16384
#define READS_PER_TURN 8            /* then the loop looks at others */
#define OUT_MAX        (256u << 10) /* what waits for the network */
#define PROBES         3            /* of an idle connection within silence_ms */

enum direct_state { DIRECT_CONNECTS, DIRECT_SHAKES_HANDS, DIRECT_AWAITS_DOOR, DIRECT_OPEN };

struct kube_direct {
    uv_loop_t *loop;
    const struct kube_direct_events *events;
    void *data;
    enum direct_state state;
    uint8_t pin[PIN_SIZE];
    uint32_t silence_ms;
    SSL *ssl;
    int fd;
    uv_poll_t poll;
    bool polling;
    struct loop_timer timer;
    struct strbuf out;
    bool paused, blocked, reaping;
    bool wants_write; /* of the network, besides what is in out */
    bool asked;       /* at the last look, the other side had not acknowledged what was sent */
    size_t n_open;
    char why[160]; /* of a failure before the first turn of the loop */
};

static void direct_pump(struct kube_direct *d);

static void direct_unref(struct kube_direct *d)
{
    if (--d->n_open)
        return;
    SSL_free(d->ssl);
    fd_close(&d->fd);
    strbuf_done(&d->out);
    free(d);
}

static void on_direct_poll_closed(uv_handle_t *h)
{
    direct_unref(h->data);
}

static void on_direct_timer_closed(void *data)
{
    direct_unref(data);
}

static void direct_reap(void *data)
{
    struct kube_direct *d = data;
    if (d->polling) {
        uv_poll_stop(&d->poll);
        uv_close((uv_handle_t *)&d->poll, on_direct_poll_closed);
    }
    loop_timer_close(&d->timer, on_direct_timer_closed, d);
}

void kube_direct_cancel(struct kube_direct *d)
{
    if (!d || d->reaping)
        return;
    d->reaping = true;
    loop_timer_stop(&d->timer);
    if (d->polling)
        uv_poll_stop(&d->poll);
    loop_defer(d->loop, direct_reap, d);
}

static void direct_finish(struct kube_direct *d, const char *why)
{
    const struct kube_direct_events *events = d->events;
    void *data = d->data;
    char text[sizeof(d->why)];
    if (d->reaping)
        return;
    snprintf(text, sizeof(text), "%s", why);
    kube_direct_cancel(d);
    events->on_end(data, text);
}

static void on_direct_failed(void *data)
{
    struct kube_direct *d = data;
    direct_finish(d, d->why);
    direct_unref(d);
}

/* --- bytes */

/* What OpenSSL wants before it can go on; false where it cannot. Before each call the queue of
 * errors is emptied, in which libcurl's connections may have left some. */
static bool direct_goes_on(struct kube_direct *d, int n, const char *what)
{
    char reason[80] = "closed", text[sizeof(d->why)];
    if (n > 0)
        return true;
    int number = errno, why = SSL_get_error(d->ssl, n);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        d->wants_write |= why == SSL_ERROR_WANT_WRITE;
        return true;
    }
    if (why == SSL_ERROR_SSL)
        snprintf(reason, sizeof(reason), "%s", ERR_reason_error_string(ERR_peek_error()));
    else if (why == SSL_ERROR_SYSCALL && number)
        snprintf(reason, sizeof(reason), "%s", strerror(number));
    ERR_clear_error();
    snprintf(text, sizeof(text), "%s: %s", what, reason);
    direct_finish(d, text);
    return false;
}

static bool direct_connected(struct kube_direct *d)
{
    int problem = 0;
    socklen_t size = sizeof(problem);
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &problem, &size) < 0)
        problem = errno;
    if (problem) {
        direct_finish(d, strerror(problem));
        return false;
    }
    d->state = DIRECT_SHAKES_HANDS;
    return true;
}

/* Probes go out while the connection is idle, and what was sent is acknowledged: so either way the
 * last acknowledgement is recent. Only where the other side takes nothing and its window is full,
 * the kernel asks at intervals that grow to two minutes. So silence is also that something was sent
 * since the last acknowledgement, at this look and at the one before: data, or two questions, since
 * one may be lost, and one that comes soon after another is not answered. */
static bool direct_is_silent(struct kube_direct *d)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (getsockopt(d->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return false;
    bool was_asked = d->asked;
    d->asked = info.tcpi_probes > 1 || info.tcpi_last_data_sent < info.tcpi_last_ack_recv;
    return info.tcpi_last_ack_recv > d->silence_ms && was_asked && d->asked;
}

static void direct_is_open(struct kube_direct *d)
{
    d->state = DIRECT_OPEN;
    loop_timer_start_every(&d->timer, d->silence_ms / PROBES + 1);
    d->events->on_open(d->data);
}

static void direct_take(struct kube_direct *d, const char *bytes, size_t len)
{
    if (d->state == DIRECT_AWAITS_DOOR) {
        if (bytes[0] != PIN_OPEN) {
            direct_finish(d, "the pod's answer is not a link's");
            return;
        }
        direct_is_open(d);
        bytes++;
        len--;
    }
    if (len && !d->reaping)
        d->events->on_output(d->data, bytes, len);
}

/* True where more may be there to read. */
static bool direct_receive(struct kube_direct *d)
{
    char bytes[READ_SIZE];
    for (int i = 0; i < READS_PER_TURN && !d->paused && !d->reaping; i++) {
        ERR_clear_error();
        int n = SSL_read(d->ssl, bytes, sizeof(bytes));
        if (!direct_goes_on(d, n, "the connection to the pod"))
            return false;
        if (n <= 0)
            return false;
        direct_take(d, bytes, (size_t)n);
    }
    return !d->paused && !d->reaping;
}

static void direct_send(struct kube_direct *d)
{
    while (d->out.len && !d->reaping) {
        ERR_clear_error();
        int n = SSL_write(d->ssl, d->out.data, (int)d->out.len);
        if (!direct_goes_on(d, n, "the connection to the pod") || n <= 0)
            return;
        strbuf_consume(&d->out, (size_t)n);
    }
}

static void on_direct_ready(uv_poll_t *p, int status, int events)
{
    struct kube_direct *d = p->data;
    (void)status; /* the next call on the socket says what it is */
    (void)events;
    direct_pump(d);
}

/* A paused one does not look for the other side's end, which would be reported in every turn of the
 * loop and read in none: the watch for silence ends that. */
static void direct_poll(struct kube_direct *d, bool more)
{
    bool writes = d->out.len || d->wants_write || more || d->state == DIRECT_CONNECTS;
    bool reads = !d->paused && d->state != DIRECT_CONNECTS;
    if (!d->reaping)
        uv_poll_start(&d->poll, (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0),
                      on_direct_ready);
}

static void direct_pump(struct kube_direct *d)
{
    if (d->reaping)
        return;
    d->wants_write = false;
    if (d->state == DIRECT_CONNECTS && !direct_connected(d))
        return;
    if (d->state == DIRECT_SHAKES_HANDS) {
        ERR_clear_error();
        int n = SSL_connect(d->ssl);
        if (!direct_goes_on(d, n, "the handshake with the pod"))
            return;
        if (n == 1)
            d->state = DIRECT_AWAITS_DOOR;
    }
    bool more = false;
    if (d->state >= DIRECT_AWAITS_DOOR) {
        direct_send(d);
        more = direct_receive(d);
    }
    if (!d->reaping && d->blocked && d->out.len < OUT_MAX / 2) {
        d->blocked = false;
        d->events->on_writable(d->data);
    }
    direct_poll(d, more);
}

/* --- outside */

static void on_direct_time(void *data)
{
    struct kube_direct *d = data;
    if (d->state != DIRECT_OPEN)
        direct_finish(d, "the pod did not answer in time");
    else if (direct_is_silent(d))
        direct_finish(d, "the pod is silent");
}

static int direct_socket(const struct kube_direct_options *o)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(o->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(o->port)};
    bool is_six = inet_pton(AF_INET6, o->address, &six.sin6_addr) == 1;
    if (!is_six && inet_pton(AF_INET, o->address, &four.sin_addr) != 1)
        return -EINVAL;
    const int on = 1, times = PROBES, idle = (int)(o->silence_ms / 1000 / (PROBES + 1)) + 1;
    _cleanup_close_ int fd =
        socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    int r = is_six ? connect(fd, (const struct sockaddr *)&six, sizeof(six))
                   : connect(fd, (const struct sockaddr *)&four, sizeof(four));
    return r < 0 && errno != EINPROGRESS ? -errno : fd_steal(&fd);
}

/* Of a failure, on_end comes from the loop. */
static int direct_connect(struct kube_direct *d, const struct kube_identity *identity,
                          const struct kube_direct_options *o)
{
    d->fd = direct_socket(o);
    if (d->fd < 0)
        return d->fd;
    d->ssl = pin_connection_new(identity->context, d->fd, d->pin);
    if (!d->ssl)
        return -ENOMEM;
    d->poll.data = d;
    int r = uv_poll_init(d->loop, &d->poll, d->fd);
    if (r < 0)
        return r;
    d->polling = true;
    d->n_open++;
    direct_poll(d, false);
    loop_timer_start(&d->timer, o->open_ms);
    return 0;
}

struct kube_direct *kube_direct_start(uv_loop_t *loop, const struct kube_identity *identity,
                                      const struct kube_direct_options *o,
                                      const struct kube_direct_events *events, void *data)
{
    struct kube_direct *d = new0(struct kube_direct);
    d->loop = loop;
    d->events = events;
    d->data = data;
    d->silence_ms = o->silence_ms;
    d->n_open = 1;
    memcpy(d->pin, o->pin, PIN_SIZE);
    strbuf_init(&d->out, OUT_MAX);
    loop_timer_init(&d->timer, loop, on_direct_time, d);
    int r = direct_connect(d, identity, o);
    if (r < 0) {
        snprintf(d->why, sizeof(d->why), "%.60s: %s", o->address, strerror(-r));
        d->n_open++;
        loop_defer(loop, on_direct_failed, d);
    }
    return d;
}

int kube_direct_write(struct kube_direct *d, const void *bytes, size_t len)
{
    if (d->reaping || d->state != DIRECT_OPEN)
        return -ENOTCONN;
    if (strbuf_append(&d->out, bytes, len) < 0) {
        d->blocked = true;
        return -EAGAIN;
    }
    direct_poll(d, false);
    return 0;
}

void kube_direct_pause(struct kube_direct *d, bool paused)
{
    if (d->reaping || d->paused == paused)
        return;
    d->paused = paused;
    /* What was decrypted before the pause makes no socket readable: so one turn is asked for. */
    direct_poll(d, !paused);
}
