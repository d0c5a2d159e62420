/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "kube/client.h"
#include "kube/query.h"
#include "loop/loop.h"

#define READ_SIZE      16384
#define READS_PER_TURN 8 /* then the loop looks at others */

struct kube_exec {
    struct kube_client *client;
    const struct kube_exec_events *events; /* NULL: cancelled */
    void *data;
    char *target;
    struct kube_call *call; /* the connection */
    struct kube_channel *channel;
    uv_poll_t poll;
    bool polling;
    int fd; /* a copy: libcurl's own number is known to the loop already */
    struct loop_timer timer;
    uint32_t ping_ms, silence_ms;
    int64_t heard_ms;
    bool retried, paused, blocked, reaping;
    size_t n_open;
};

static void exec_connect(struct kube_exec *e);
static void exec_pump(struct kube_exec *e);

static void exec_unref(struct kube_exec *e)
{
    if (--e->n_open)
        return;
    kube_channel_free(e->channel);
    free(e->target);
    free(e);
}

static void on_exec_poll_closed(uv_handle_t *h)
{
    struct kube_exec *e = h->data;
    fd_close(&e->fd);
    exec_unref(e);
}

static void on_exec_timer_closed(void *data)
{
    exec_unref(data);
}

static void exec_disconnect(struct kube_exec *e)
{
    if (e->polling) {
        e->polling = false;
        uv_poll_stop(&e->poll);
        uv_close((uv_handle_t *)&e->poll, on_exec_poll_closed);
    }
    kube_call_cancel(steal_ptr(e->call));
}

static void exec_reap(void *data)
{
    struct kube_exec *e = data;
    exec_disconnect(e);
    loop_timer_close(&e->timer, on_exec_timer_closed, e);
}

void kube_exec_cancel(struct kube_exec *e)
{
    if (!e)
        return;
    e->events = NULL;
    loop_timer_stop(&e->timer);
    if (!e->reaping)
        loop_defer(kube_client_loop(e->client), exec_reap, e);
    e->reaping = true;
}

static void exec_finish(struct kube_exec *e, const struct kube_result *refusal,
                        const struct kube_exit *exit)
{
    const struct kube_exec_events *events = e->events;
    if (e->reaping)
        return;
    kube_exec_cancel(e);
    if (events)
        events->on_end(e->data, refusal, exit);
}

/* --- the connection */

static void on_channel_open(void *data)
{
    struct kube_exec *e = data;
    if (!e->reaping && e->ping_ms)
        loop_timer_start_every(&e->timer, e->ping_ms);
    else
        loop_timer_stop(&e->timer);
    if (!e->reaping && e->events->on_open)
        e->events->on_open(e->data);
}

static void on_channel_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct kube_exec *e = data;
    if (!e->reaping)
        e->events->on_output(e->data, channel, bytes, len);
}

static const struct kube_channel_events channel_events = {.on_open = on_channel_open,
                                                          .on_output = on_channel_output};

static void exec_send(struct kube_exec *e)
{
    size_t len;
    const void *bytes = kube_channel_output(e->channel, &len);
    while (len && !e->reaping) {
        ssize_t n = kube_call_send(e->call, bytes, len);
        if (n == -EAGAIN)
            return;
        if (n < 0) {
            kube_channel_end(e->channel);
            return;
        }
        kube_channel_sent(e->channel, (size_t)n);
        bytes = kube_channel_output(e->channel, &len);
    }
}

/* True where more may be there to read. */
static bool exec_receive(struct kube_exec *e)
{
    char bytes[READ_SIZE];
    for (int i = 0; i < READS_PER_TURN && !e->paused && !e->reaping; i++) {
        ssize_t n = kube_call_receive(e->call, bytes, sizeof(bytes));
        if (n == -EAGAIN)
            return false;
        e->heard_ms = clock_mono_ms();
        if (n <= 0) {
            kube_channel_end(e->channel);
            return false;
        }
        kube_channel_feed(e->channel, bytes, (size_t)n);
        if (kube_channel_state(e->channel) == KUBE_CHANNEL_ENDED)
            return false;
    }
    return !e->paused;
}

static void exec_conclude(struct kube_exec *e)
{
    const struct kube_result *refusal = kube_channel_refusal(e->channel);
    if (refusal->outcome == KUBE_UNAUTHORIZED && !e->retried && kube_client_renew(e->client)) {
        e->retried = true;
        exec_disconnect(e);
        kube_channel_free(steal_ptr(e->channel));
        exec_connect(e);
        return;
    }
    exec_finish(e, refusal, kube_channel_exit(e->channel));
}

static void on_exec_ready(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    exec_pump(p->data);
}

/* A paused one does not look for the server's end, which would be reported in every turn of the
 * loop and read in none: the next ping finds it, or the read after the pause. */
static int poll_events(const struct kube_exec *e, bool writes)
{
    return (e->paused ? 0 : UV_READABLE | UV_DISCONNECT) | (writes ? UV_WRITABLE : 0);
}

/* What libcurl has decrypted already makes no socket readable: a turn that was cut short is
 * continued by waiting for room to write, which there always is. */
static void exec_pump(struct kube_exec *e)
{
    size_t len;
    if (e->reaping || !e->polling)
        return;
    exec_send(e);
    bool more = kube_channel_state(e->channel) != KUBE_CHANNEL_ENDED && exec_receive(e);
    if (e->reaping)
        return;
    exec_send(e); /* what was said in answer */
    if (kube_channel_state(e->channel) == KUBE_CHANNEL_ENDED) {
        exec_conclude(e);
        return;
    }
    kube_channel_output(e->channel, &len);
    if (e->blocked && len < KUBE_CHANNEL_OUTPUT_MAX / 2) {
        e->blocked = false;
        if (e->events->on_writable)
            e->events->on_writable(e->data);
        if (e->reaping)
            return;
        kube_channel_output(e->channel, &len);
    }
    uv_poll_start(&e->poll, poll_events(e, len || more), on_exec_ready);
}

static void on_connected(void *data, const struct kube_answer *answer)
{
    struct kube_exec *e = data;
    struct kube_exit unknown = {.kind = KUBE_EXIT_UNKNOWN};
    if (answer->result.outcome != KUBE_DONE) {
        e->call = NULL;
        exec_finish(e, &answer->result, &unknown);
        return;
    }
    struct kube_channel_request request = {.host = kube_client_host(e->client),
                                           .target = e->target,
                                           .token = kube_client_token(e->client)};
    e->fd = fcntl(kube_call_fd(e->call), F_DUPFD_CLOEXEC, 3);
    e->poll.data = e;
    if (e->fd < 0 || uv_poll_init(kube_client_loop(e->client), &e->poll, e->fd) < 0) {
        struct kube_result r;
        kube_result_fail(&r, KUBE_UNREACHABLE, "no descriptor for the connection");
        fd_close(&e->fd);
        exec_finish(e, &r, &unknown);
        return;
    }
    e->n_open++;
    e->polling = true;
    e->heard_ms = clock_mono_ms();
    e->channel = kube_channel_new(&request, &channel_events, e);
    exec_pump(e);
}

static const struct kube_call_events connect_events = {.on_done = on_connected};

static void exec_connect(struct kube_exec *e)
{
    /* The exec's own timer is shorter, and goes on through the upgrade. */
    struct kube_request request = {.deadline_ms = 600000};
    e->call = kube_call_start(e->client, &request, &connect_events, e);
}

/* Opening takes too long; or, once open, the time for a ping. */
static void on_exec_time(void *data)
{
    struct kube_exec *e = data;
    struct kube_exit unknown = {.kind = KUBE_EXIT_UNKNOWN};
    struct kube_result late, none = {.outcome = KUBE_DONE};
    bool open = e->channel && kube_channel_state(e->channel) == KUBE_CHANNEL_OPEN;
    if (!open) {
        kube_result_fail(&late, KUBE_LATE, "%s: exec was not opened in time",
                         kube_client_host(e->client));
        exec_finish(e, &late, &unknown);
    } else if (!e->paused && clock_mono_ms() - e->heard_ms > e->silence_ms) {
        kube_result_fail(&unknown.why, KUBE_UNREACHABLE, "%s: silent for %u ms",
                         kube_client_host(e->client), e->silence_ms);
        exec_finish(e, &none, &unknown);
    } else {
        kube_channel_ping(e->channel);
        exec_pump(e);
    }
}

/* --- outside */

static char *format_target(struct kube_client *c, const struct kube_exec_options *o)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KUBE_TARGET_MAX);
    int r = strbuf_printf(&b, "%s/api/v1/namespaces/%s/pods/%s/exec", kube_client_base_path(c),
                          o->namespace_, o->pod);
    r |= kube_query_add(&b, "container", o->container);
    r |= kube_query_add(&b, "stdin", o->input ? "true" : "false");
    r |= kube_query_add(&b, "stdout", "true");
    r |= kube_query_add(&b, "stderr", "true");
    for (const char *const *arg = o->command; *arg; arg++)
        r |= kube_query_add(&b, "command", *arg);
    return r < 0 ? NULL : strbuf_steal(&b);
}

struct kube_exec *kube_exec_start(struct kube_client *c, const struct kube_exec_options *options,
                                  const struct kube_exec_events *events, void *data)
{
    char *target = format_target(c, options);
    if (!target)
        return NULL;
    struct kube_exec *e = new0(struct kube_exec);
    e->client = c;
    e->events = events;
    e->data = data;
    e->fd = -1;
    e->n_open = 1;
    e->ping_ms = options->ping_ms;
    e->silence_ms = options->silence_ms;
    e->target = target;
    loop_timer_init(&e->timer, kube_client_loop(c), on_exec_time, e);
    loop_timer_start(&e->timer, options->open_ms);
    exec_connect(e);
    return e;
}

int kube_exec_write(struct kube_exec *e, const void *bytes, size_t len)
{
    int r = e->channel && !e->reaping ? kube_channel_send(e->channel, KUBE_STDIN, bytes, len)
                                      : -ENOTCONN;
    e->blocked |= r == -EAGAIN;
    if (r == 0)
        exec_send(e);
    if (r == 0 && e->polling) {
        size_t left;
        kube_channel_output(e->channel, &left);
        if (left)
            uv_poll_start(&e->poll, poll_events(e, true), on_exec_ready);
    }
    return r;
}

void kube_exec_pause(struct kube_exec *e, bool paused)
{
    bool was = e->paused;
    e->paused = paused;
    if (!e->polling || e->reaping || was == paused)
        return;
    if (!paused)
        e->heard_ms = clock_mono_ms();
    /* What was decrypted before the pause makes no socket readable. */
    uv_poll_start(&e->poll, UV_WRITABLE | (paused ? 0 : UV_READABLE), on_exec_ready);
}
