/* SPDX-License-Identifier: Apache-2.0 */
/* A stream to the link of a sandbox: the control plane has one end of a pair of sockets, the other
 * one is pumped here. What one side does not take stays with the other: nothing is queued beyond
 * one buffer each way.
 *
 * There are two carriers. `exec` is one held exec through the API server, and works wherever that
 * is reached. `direct` is TLS to the pod's own address, where the settings name a port for it; a
 * pod that does not answer there is reached by exec, too, so that a firewall in between or a key
 * that was lost costs time once, and not the sandbox.
 *
 * A control plane that leaves while the link takes nothing is seen at once, but what it sent before
 * is delivered first. Until the link takes it, the socket is not polled: a hang-up is reported in
 * every turn of the loop. The silence limit ends a link that says nothing and takes nothing; one
 * that only says something is ended by the sandbox's next stream, so that a sandbox has at most one
 * of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/direct.h"
#include "kube/exec.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "kube/route.h"

#define OPEN_MS     10000
#define DIRECT_MS   5000 /* then it is tried by exec */
#define PING_MS     20000
#define SILENCE_MS  40000
#define BUFFER_MAX  (1u << 20)
#define PAUSE_ABOVE (256u << 10)
#define READ_SIZE   32768

struct carrier {
    struct list node;
    struct kube_broker *broker;
    /* One of the four. */
    struct kube_call *look; /* at its namespace */
    struct kube_exec *exec;
    struct kube_direct *direct;
    struct route_lookup *lookup;
    bool was_known; /* the route was not looked up for this stream */
    uint64_t tag;
    char id[KUBE_ID_SIZE];
    int fd; /* ours of the pair; -1 before it is open */
    uv_poll_t poll;
    struct strbuf out;    /* from the link, for the control plane */
    char error_text[200]; /* what the attached program says on standard error */
    bool open, ended;
    bool input_blocked; /* the link takes nothing; on_link_writable() comes */
    bool hung_up;       /* the control plane has left; the rest of its input is on its way */
};

static void carrier_poll(struct carrier *c);

static void on_carrier_closed(uv_handle_t *h)
{
    struct carrier *c = h->data;
    struct kube_broker *b = c->broker;
    fd_close(&c->fd);
    strbuf_done(&c->out);
    free(c);
    if (--b->n_open == 0)
        free(b);
}

static int link_write(struct carrier *c, const void *bytes, size_t len)
{
    return c->direct ? kube_direct_write(c->direct, bytes, len)
                     : kube_exec_write(c->exec, bytes, len);
}

static void link_pause(struct carrier *c, bool paused)
{
    if (c->direct)
        kube_direct_pause(c->direct, paused);
    else
        kube_exec_pause(c->exec, paused);
}

/* Closing our end is how the control plane learns of it. */
static void carrier_end(struct carrier *c)
{
    if (c->ended)
        return;
    c->ended = true;
    kube_call_cancel(steal_ptr(c->look));
    kube_exec_cancel(steal_ptr(c->exec));
    kube_direct_cancel(steal_ptr(c->direct));
    route_cancel(steal_ptr(c->lookup));
    list_remove(&c->node);
    c->broker->n_carriers--;
    if (c->open) {
        uv_poll_stop(&c->poll);
        uv_close((uv_handle_t *)&c->poll, on_carrier_closed);
        return;
    }
    strbuf_done(&c->out);
    c->broker->n_open--; /* the broker itself is one of them */
    free(c);
}

static void answer_connect(struct carrier *c, const struct error *err, int fd)
{
    struct kube_reply r = {.kind = KUBE_ANSWERED, .tag = c->tag};
    snprintf(r.id, sizeof(r.id), "%s", c->id);
    snprintf(r.reason, sizeof(r.reason), "%s", c->direct ? KUBE_CARRIER_DIRECT : KUBE_CARRIER_EXEC);
    if (err) {
        r.error = err->code;
        snprintf(r.message, sizeof(r.message), "%s", err->message);
    }
    broker_send(c->broker, &r, fd);
}

/* --- to the control plane */

static void flush_out(struct carrier *c)
{
    while (c->out.len) {
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            carrier_end(c);
            return;
        }
        strbuf_consume(&c->out, (size_t)n);
    }
    link_pause(c, c->out.len > PAUSE_ABOVE);
    carrier_poll(c);
}

static void take_output(struct carrier *c, const void *bytes, size_t len)
{
    if (c->ended || !c->open || c->hung_up)
        return;
    if (strbuf_append(&c->out, bytes, len) < 0) {
        carrier_end(c); /* more than a pause can hold back: it does not keep to the protocol */
        return;
    }
    flush_out(c);
}

static void on_exec_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct carrier *c = data;
    if (channel == KUBE_STDERR) {
        size_t at = strlen(c->error_text), room = sizeof(c->error_text) - 1 - at;
        memcpy(c->error_text + at, bytes, len < room ? len : room);
    } else {
        take_output(c, bytes, len);
    }
}

static void on_direct_output(void *data, const void *bytes, size_t len)
{
    take_output(data, bytes, len);
}

/* --- to the link */

static void read_input(struct carrier *c)
{
    char bytes[READ_SIZE];
    while (!c->input_blocked && !c->ended) {
        /* Looked at before it is taken, because a link that is busy takes nothing. */
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            carrier_end(c);
            return;
        }
        int r = link_write(c, bytes, (size_t)n);
        if (r == -EAGAIN) {
            c->input_blocked = true;
            return;
        }
        if (r < 0 || recv(c->fd, bytes, (size_t)n, MSG_DONTWAIT) != n) {
            carrier_end(c);
            return;
        }
    }
}

static void carrier_hang_up(struct carrier *c)
{
    c->hung_up = true;
    strbuf_reset(&c->out); /* it has no reader */
    link_pause(c, false);
    uv_poll_stop(&c->poll);
}

static void on_carrier_ready(uv_poll_t *p, int status, int events)
{
    struct carrier *c = p->data;
    if (status < 0) {
        carrier_end(c);
        return;
    }
    if (events & UV_DISCONNECT && c->input_blocked) {
        carrier_hang_up(c);
        return;
    }
    if (events & UV_WRITABLE && c->out.len)
        flush_out(c);
    if (!c->ended && events & (UV_READABLE | UV_DISCONNECT))
        read_input(c);
    if (!c->ended)
        carrier_poll(c);
}

static void carrier_poll(struct carrier *c)
{
    if (!c->ended && !c->hung_up)
        uv_poll_start(&c->poll,
                      (c->input_blocked ? 0 : UV_READABLE) | (c->out.len ? UV_WRITABLE : 0) |
                          UV_DISCONNECT,
                      on_carrier_ready);
}

static void on_link_writable(void *data)
{
    struct carrier *c = data;
    c->input_blocked = false;
    read_input(c);
    if (!c->ended)
        carrier_poll(c);
}

/* --- its beginning and end */

static void on_link_open(void *data)
{
    struct carrier *c = data;
    int pair[2];
    struct error err = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        error_set(&err, ERROR_INTERNAL, errno, "a stream to sandbox %s", c->id);
        answer_connect(c, &err, -1);
        carrier_end(c);
        return;
    }
    c->fd = pair[0];
    c->poll.data = c;
    uv_poll_init(c->broker->o.loop, &c->poll, c->fd);
    c->open = true;
    fd_set_nonblock(pair[1], false);
    answer_connect(c, NULL, pair[1]);
    carrier_poll(c);
}

static void on_exec_end(void *data, const struct kube_result *refusal, const struct kube_exit *exit)
{
    struct carrier *c = data;
    struct error err = {0};
    c->exec = NULL;
    if (!c->open) {
        const struct kube_result *why = refusal->outcome == KUBE_DONE ? &exit->why : refusal;
        error_set(&err, broker_error_code(why->outcome), 0, "sandbox %s: %s", c->id, why->message);
        if (!err.code)
            err.code = ERROR_UNAVAILABLE;
        answer_connect(c, &err, -1);
    } else {
        log_info("a stream to a sandbox ended id=%s code=%d message=%s %s", c->id, exit->code,
                 exit->why.message, c->error_text);
    }
    carrier_end(c);
}

static void carrier_start_exec(struct carrier *c)
{
    static const struct kube_exec_events events = {.on_open = on_link_open,
                                                   .on_output = on_exec_output,
                                                   .on_writable = on_link_writable,
                                                   .on_end = on_exec_end};
    static const char *const command[] = {"/mas-link", "--attach", NULL};
    const struct kube_ceiling *ceiling = c->broker->o.ceiling;
    char space[KUBE_PLACE_SIZE], pod[KUBE_PLACE_SIZE];
    struct kube_exec_options options = {.namespace_ = kube_layout_namespace(ceiling, c->id, space),
                                        .pod = kube_layout_pod(ceiling, c->id, pod),
                                        .container = KUBE_LINK_CONTAINER,
                                        .command = command,
                                        .input = true,
                                        .open_ms = OPEN_MS,
                                        .ping_ms = PING_MS,
                                        .silence_ms = SILENCE_MS};
    c->exec = kube_exec_start(c->broker->o.client, &options, &events, c);
}

/* --- direct */

static void carrier_use_exec(struct carrier *c, const char *why)
{
    route_bar(c->broker, c->id);
    log_info("a sandbox is not reached directly, and so by exec id=%s: %s", c->id, why);
    carrier_start_exec(c);
}

static void carrier_look_up(struct carrier *c);

static void on_direct_end(void *data, const char *why)
{
    struct carrier *c = data;
    c->direct = NULL;
    if (c->open) {
        log_info("a stream to a sandbox ended id=%s message=%s", c->id, why);
        carrier_end(c);
        return;
    }
    route_forget(c->broker, c->id);
    if (c->was_known)
        carrier_look_up(c);
    else
        carrier_use_exec(c, why);
}

static void carrier_start_direct(struct carrier *c, const struct route *route)
{
    static const struct kube_direct_events events = {.on_open = on_link_open,
                                                     .on_output = on_direct_output,
                                                     .on_writable = on_link_writable,
                                                     .on_end = on_direct_end};
    const struct kube_broker_options *o = &c->broker->o;
    struct kube_direct_options options = {.address = route->address,
                                          .port = (uint16_t)o->ceiling->direct_port,
                                          .open_ms = DIRECT_MS,
                                          .silence_ms = SILENCE_MS};
    memcpy(options.pin, route->pin, PIN_SIZE);
    c->direct = kube_direct_start(o->loop, o->identity, &options, &events, c);
}

static void on_route(void *data, const struct route *route, const char *why)
{
    struct carrier *c = data;
    c->lookup = NULL;
    if (route)
        carrier_start_direct(c, route);
    else
        carrier_use_exec(c, why);
}

static void carrier_look_up(struct carrier *c)
{
    c->was_known = false;
    c->lookup = route_look_up(c->broker, c->id, on_route, c);
}

static void carrier_connect(struct carrier *c)
{
    const struct route *known = route_find(c->broker, c->id);
    if (!c->broker->o.identity || route_is_barred(c->broker, c->id)) {
        carrier_start_exec(c);
    } else if (known) {
        c->was_known = true;
        carrier_start_direct(c, known);
    } else {
        carrier_look_up(c);
    }
}

static void on_carrier_namespace(void *data, const struct kube_answer *answer)
{
    struct carrier *c = data;
    const struct kube_ceiling *ceiling = c->broker->o.ceiling;
    struct error err = {0};
    c->look = NULL;
    if (answer->result.outcome != KUBE_DONE)
        error_set(&err, broker_error_code(answer->result.outcome), 0,
                  "look at the namespace of sandbox %s: %s", c->id, answer->result.message);
    else if (!kube_manifest_is_ours_by_id(answer->object, ceiling, c->id) ||
             !kube_manifest_is_of_home(answer->object, ceiling))
        error_set(&err, ERROR_CONFLICT, 0,
                  "the namespace of sandbox %s is not of this daemon; its pod was not touched",
                  c->id);
    if (error_is_set(&err)) {
        answer_connect(c, &err, -1);
        carrier_end(c);
        return;
    }
    broker_trust_pod(c->broker, c->id);
    carrier_connect(c);
}

/* All who may make pods somewhere can give one our labels, but not our namespace. Once for each
 * pod: a stream that is lost comes back by a known route while the API server is away. */
static void carrier_look(struct carrier *c)
{
    const struct kube_call_events events = {.on_done = on_carrier_namespace};
    char path[160], space[KUBE_PLACE_SIZE];
    snprintf(path, sizeof(path), "/api/v1/namespaces/%s",
             kube_layout_namespace(c->broker->o.ceiling, c->id, space));
    struct kube_request request = {.method = "GET", .path = path, .deadline_ms = OPEN_MS};
    c->look = kube_call_start(c->broker->o.client, &request, &events, c);
}

/* The namespace of an id may be of another daemon that has the same prefix, or of another user of
 * the cluster; the watch is of pods that carry this daemon's labels. */
static int carrier_check(const struct kube_broker *b, const struct kube_order *order,
                         struct error *err)
{
    if (b->n_carriers >= BROKER_CARRIERS_MAX)
        return error_set(err, ERROR_LIMIT, 0, "%d streams to sandboxes are open",
                         BROKER_CARRIERS_MAX);
    if (!b->synced)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the cluster has not listed its pods yet");
    const struct kube_reply *pod = broker_find_pod(b, order->id);
    if (!pod)
        return error_set(err, ERROR_NOT_FOUND, 0, "this daemon has no pod of sandbox %s",
                         order->id);
    if (strcmp(pod->home, kube_ceiling_home(b->o.ceiling)) != 0)
        return error_set(err, ERROR_CONFLICT, 0,
                         "the pod of sandbox %s is of another control plane", order->id);
    return 0;
}

void carrier_start(struct kube_broker *b, const struct kube_order *order)
{
    struct error err = {0};
    /* The runner drops an earlier stream when the next one comes, with what is on its way in it. */
    list_for_each_safe(old, &b->carriers, struct carrier, node) {
        if (old->hung_up && strcmp(old->id, order->id) == 0)
            carrier_end(old);
    }
    if (carrier_check(b, order, &err) < 0) {
        broker_answer_error(b, order, &err);
        return;
    }
    struct carrier *c = new0(struct carrier);
    c->broker = b;
    c->tag = order->tag;
    c->fd = -1;
    snprintf(c->id, sizeof(c->id), "%s", order->id);
    strbuf_init(&c->out, BUFFER_MAX);
    list_append(&b->carriers, &c->node);
    b->n_carriers++;
    b->n_open++;
    if (kube_layout_is_shared(b->o.ceiling) || broker_trusts_pod(b, c->id))
        carrier_connect(c);
    else
        carrier_look(c);
}

void carriers_end(struct kube_broker *b)
{
    list_for_each_safe(c, &b->carriers, struct carrier, node)
        carrier_end(c);
    routes_free(b);
}
