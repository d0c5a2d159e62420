/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/digits.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/lease.h"
#include "kube/manifest.h"
#include "kube/pod.h"
#include "kube/query.h"
#include "kube/route.h"
#include "kube/uids.h"
#include "kube/watch.h"

#define TASK_MS        60000
#define LIST_MS        30000
#define HEARTBEAT_MS   150000
#define SESSION_S      300
#define QUEUE_MAX      65536 /* replies; a control plane that reads none of them counts as gone */
#define READS_PER_TURN 16

struct queued_reply {
    struct list node;
    struct kube_reply reply;
    int fd;
};

struct known_pod {
    char *id;
    struct kube_uids uids;
    char net[KUBE_NAME_SIZE];          /* KUBE_LABEL_NET; "": it has none */
    char open_version[KUBE_NAME_SIZE]; /* without a caller; "": it has one */
    bool trusted;                      /* its namespace was found to be ours */
    struct kube_reply told;
};

/* --- replies */

static void broker_end(struct kube_broker *b);
static void on_sock_ready(uv_poll_t *p, int status, int events);

static int send_now(struct kube_broker *b, const struct kube_reply *reply, int fd)
{
    ssize_t n = fd_send_msg(b->o.sock, reply, sizeof(*reply), &fd, fd < 0 ? 0 : 1);
    return n < 0 ? (int)n : 0;
}

/* Replies leave in the order in which they were made: one that cannot be sent now stays first. */
static void flush_queue(struct kube_broker *b)
{
    while (!list_empty(&b->queue) && !b->ending) {
        struct queued_reply *q = container_of(b->queue.next, struct queued_reply, node);
        int r = send_now(b, &q->reply, q->fd);
        if (r == -EAGAIN)
            break;
        list_remove(&q->node);
        b->n_queued--;
        fd_close(&q->fd);
        free(q);
        if (r < 0)
            broker_end(b);
    }
    if (!b->ending)
        uv_poll_start(&b->poll, UV_READABLE | (list_empty(&b->queue) ? 0 : UV_WRITABLE),
                      on_sock_ready);
}

void broker_send(struct kube_broker *b, const struct kube_reply *reply, int fd)
{
    if (b->ending || b->n_queued >= QUEUE_MAX) {
        fd_close(&fd);
        if (!b->ending)
            broker_end(b);
        return;
    }
    struct queued_reply *q = new0(struct queued_reply);
    q->reply = *reply;
    q->reply.version = KUBE_VERSION;
    q->reply.epoch = b->epoch;
    q->fd = fd;
    list_append(&b->queue, &q->node);
    b->n_queued++;
    flush_queue(b);
}

/* --- memory */

void broker_unref(struct kube_broker *b)
{
    if (--b->n_open == 0)
        free(b);
}

/* --- list: what the watch knows, and namespaces whose pod was never made or is gone */

static void answer_listed(struct broker_task *t, const struct kube_reply *known)
{
    struct kube_reply r = *known;
    r.kind = KUBE_LISTED;
    r.tag = t->order.tag;
    broker_send(t->broker, &r, -1);
}

static void list_namespace(struct broker_task *t, const json_t *space)
{
    const struct kube_broker *b = t->broker;
    const json_t *metadata = json_object_get(space, "metadata");
    const char *name = json_member_text(metadata, "name"), *prefix = b->o.ceiling->prefix;
    struct kube_reply r = {.phase = KUBE_POD_NONE};
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return;
    snprintf(r.id, sizeof(r.id), "%s", name + strlen(prefix));
    const json_t *annotations = json_object_get(metadata, "annotations");
    if (*json_member_text(metadata, "deletionTimestamp"))
        r.phase = KUBE_POD_ENDING;
    struct known_pod *p = map_find(b->pods, r.id);
    if (p) { /* it is answered with the others */
        p->told.last_exec_s = 0;
        decimal_parse(json_member_text(annotations, KUBE_ANNOTATION_LAST_EXEC),
                      &p->told.last_exec_s);
        return;
    }
    snprintf(r.home, sizeof(r.home), "%.63s", json_member_text(annotations, KUBE_ANNOTATION_HOME));
    answer_listed(t, &r);
}

static void list_pods(struct broker_task *t)
{
    size_t cursor = 0;
    for (struct known_pod *p; (p = map_next(t->broker->pods, &cursor));)
        answer_listed(t, &p->told);
    task_finish(t, NULL);
}

static void on_namespaces(void *data, const struct kube_answer *answer)
{
    struct broker_task *t = data;
    size_t i;
    json_t *space;
    t->call = NULL;
    if (answer->result.outcome != KUBE_DONE) {
        task_fail(t, &answer->result, "list namespaces");
        return;
    }
    json_array_foreach(json_object_get(answer->object, "items"), i, space) list_namespace(t, space);
    list_pods(t);
}

static void task_start_list(struct broker_task *t)
{
    struct error err = {0};
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    char selector[KUBE_SELECTOR_SIZE];
    if (!t->broker->synced) {
        error_set(&err, ERROR_UNAVAILABLE, 0, "the cluster has not listed its pods yet");
        task_finish(t, &err);
        return;
    }
    if (kube_layout_is_shared(t->broker->o.ceiling)) {
        list_pods(t);
        return;
    }
    kube_manifest_selector(t->broker->o.ceiling, selector);
    strbuf_puts(&path, "/api/v1/namespaces");
    kube_query_add(&path, "labelSelector", selector);
    task_call(t, "GET", path.data, NULL, on_namespaces);
}

const struct kube_reply *broker_find_pod(const struct kube_broker *b, const char *id)
{
    const struct known_pod *p = map_find(b->pods, id);
    return p ? &p->told : NULL;
}

const char *broker_find_open(const struct kube_broker *b, const char *id)
{
    const struct known_pod *p = map_find(b->pods, id);
    return p && p->open_version[0] ? p->open_version : NULL;
}

bool broker_trusts_pod(const struct kube_broker *b, const char *id)
{
    const struct known_pod *p = map_find(b->pods, id);
    return p && p->trusted;
}

void broker_trust_pod(struct kube_broker *b, const char *id)
{
    struct known_pod *p = map_find(b->pods, id);
    if (p)
        p->trusted = true;
}

bool broker_knows_uids(const struct kube_broker *b, const struct kube_uids *uids)
{
    size_t cursor = 0;
    for (struct known_pod *p; (p = map_next(b->pods, &cursor));)
        if (kube_uids_meet(&p->uids, uids))
            return true;
    return false;
}

bool broker_knows_net(const struct kube_broker *b, const char *sum)
{
    size_t cursor = 0;
    for (struct known_pod *p; (p = map_next(b->pods, &cursor));)
        if (strcmp(p->net, sum) == 0)
            return true;
    return false;
}

static void known_pod_free(struct known_pod *p)
{
    free(p->id);
    free(p);
}

/* The watch may cover all namespaces, and every user of the cluster who may make a pod can give it
 * our labels. The pod of a sandbox is the one that has its place (kube/layout.h), where only this
 * broker makes pods. Of an object that vanished only the place is left. */
static bool read_change(const struct kube_broker *b, const struct kube_event *event,
                        struct kube_reply *r)
{
    char id[KUBE_ID_SIZE];
    if (!kube_layout_find(b->o.ceiling, event->namespace_, event->name, id))
        return false;
    if (!event->object) {
        memcpy(r->id, id, sizeof(id));
        snprintf(r->uid, sizeof(r->uid), "%s", event->uid);
        return true;
    }
    kube_pod_read(event->object, r);
    return strcmp(r->id, id) == 0;
}

static void on_pod_change(void *data, const struct kube_event *event)
{
    struct kube_broker *b = data;
    struct kube_reply r = {.kind = KUBE_TOLD};
    if (!read_change(b, event, &r))
        return;
    struct known_pod *p = map_find(b->pods, r.id);
    if (event->type == KUBE_DELETED) {
        r.phase = KUBE_POD_NONE;
        if (p) {
            if (!r.reason[0]) { /* what was last known of it is why */
                memcpy(r.reason, p->told.reason, sizeof(r.reason));
                memcpy(r.message, p->told.message, sizeof(r.message));
            }
            map_remove(b->pods, r.id);
            known_pod_free(p);
            route_forget(b, r.id);
        }
    } else {
        if (!p) {
            p = new0(struct known_pod);
            p->id = xstrdup(r.id);
            map_put(b->pods, r.id, p);
        }
        p->trusted &= strcmp(p->told.uid, r.uid) == 0;
        p->told = r;
        p->uids = kube_uids_read(event->object);
        const json_t *metadata = json_object_get(event->object, "metadata");
        snprintf(p->net, sizeof(p->net), "%s",
                 json_member_text(json_object_get(metadata, "labels"), KUBE_LABEL_NET));
        snprintf(p->open_version, sizeof(p->open_version), "%s",
                 kube_claim_is_open(event->object) ? event->version : "");
    }
    broker_send(b, &r, -1);
}

static void on_pods_synced(void *data)
{
    ((struct kube_broker *)data)->synced = true;
}

static void on_watch_trouble(void *data, const struct kube_result *result)
{
    (void)data;
    log_warn("the watch of pods fails, and goes on outcome=%s message=%s",
             kube_outcome_name(result->outcome), result->message);
}

static void start_watch(struct kube_broker *b)
{
    static const struct kube_watch_events events = {
        .on_change = on_pod_change, .on_synced = on_pods_synced, .on_trouble = on_watch_trouble};
    char selector[KUBE_SELECTOR_SIZE], path[160];
    const char *shared = b->o.ceiling->shared_namespace;
    kube_manifest_selector(b->o.ceiling, selector);
    snprintf(path, sizeof(path), "/api/v1/%s%s%spods", shared ? "namespaces/" : "",
             shared ? shared : "", shared ? "/" : "");
    struct kube_watch_options options = {.path = path,
                                         .label_selector = selector,
                                         .list_ms = LIST_MS,
                                         .heartbeat_ms = HEARTBEAT_MS,
                                         .session_s = SESSION_S};
    b->watch = kube_watch_new(b->o.client, &options, &events, b);
}

/* --- orders */

void broker_answer_error(struct kube_broker *b, const struct kube_order *o, const struct error *err)
{
    struct kube_reply r = {.kind = KUBE_ANSWERED, .tag = o->tag, .error = err->code};
    snprintf(r.id, sizeof(r.id), "%.*s", KUBE_ID_SIZE - 1, o->id);
    snprintf(r.message, sizeof(r.message), "%s", err->message);
    broker_send(b, &r, -1);
}

static bool makes_or_deletes(const struct kube_order *o)
{
    return o->op == KUBE_CREATE || o->op == KUBE_DELETE;
}

/* What is written to an object is no reason to keep another order waiting: it goes by the object's
 * own version. */
static bool is_being_worked_on(const struct kube_broker *b, const struct kube_order *o)
{
    list_for_each(t, &b->tasks, struct broker_task, node)
        if (strcmp(t->order.id, o->id) == 0 && makes_or_deletes(&t->order) && makes_or_deletes(o))
            return true;
    return false;
}

static void start_task(struct kube_broker *b, const struct kube_order *o,
                       void (*start)(struct broker_task *t))
{
    struct error err = {0};
    if (b->n_tasks >= BROKER_TASKS_MAX)
        error_set(&err, ERROR_LIMIT, 0, "%d orders are under way", BROKER_TASKS_MAX);
    else if (o->id[0] && is_being_worked_on(b, o))
        error_set(&err, ERROR_CONFLICT, 0, "sandbox %s is being made or deleted", o->id);
    if (error_is_set(&err)) {
        broker_answer_error(b, o, &err);
        return;
    }
    struct broker_task *t = new0(struct broker_task);
    t->broker = b;
    t->order = *o;
    t->answer_fd = -1;
    t->deadline_ms = clock_mono_ms() + TASK_MS;
    list_append(&b->tasks, &t->node);
    b->n_tasks++;
    b->n_open++;
    loop_timer_init(&t->timer, b->o.loop, NULL, t);
    start(t);
}

static void take_order(struct kube_broker *b, const struct kube_order *o)
{
    struct error err = {0};
    if (o->version == KUBE_VERSION && o->epoch && o->epoch != b->epoch)
        return; /* it was meant for an earlier broker, and comes again */
    if (kube_ceiling_check(b->o.ceiling, o, &err) < 0) {
        log_warn("an order is refused op=%u: %s", o->op, err.message);
        broker_answer_error(b, o, &err);
        return;
    }
    if (hold_refuses(b, o, &err)) {
        broker_answer_error(b, o, &err);
        return;
    }
    switch (o->op) {
    case KUBE_HOLD:
        return hold_start(b, o);
    case KUBE_PROBE:
        return start_task(b, o, task_start_probe);
    case KUBE_CREATE:
        return start_task(b, o, task_start_create);
    case KUBE_DELETE:
        tasks_give_up_proof(b, o->id);
        return start_task(b, o, task_start_delete);
    case KUBE_LIST:
        return start_task(b, o, task_start_list);
    case KUBE_PROVE:
        return start_task(b, o, task_start_prove);
    case KUBE_CLAIM:
        return start_task(b, o, task_start_claim);
    case KUBE_CONNECT:
        return carrier_start(b, o);
    case KUBE_TAKE:
    case KUBE_MARK:
    case KUBE_READ:
        return start_task(b, o, task_start_annotate);
    default:
        return;
    }
}

static void on_sock_ready(uv_poll_t *p, int status, int events)
{
    struct kube_broker *b = p->data;
    (void)events;
    if (status < 0 && !b->ending) { /* its end had not read all, and is not watched any more */
        broker_end(b);
        return;
    }
    for (int i = 0; i < READS_PER_TURN && !b->ending; i++) {
        static struct kube_order order; /* too large for a stack, and used up at once */
        int fds[FD_PASS_MAX];
        ssize_t n = fd_recv_msg(b->o.sock, &order, sizeof(order), fds);
        if (n == -EAGAIN)
            break;
        for (size_t k = 0; n > 0 && k < FD_PASS_MAX; k++)
            fd_close(&fds[k]); /* none belongs to any order */
        if (n <= 0 && n != -EMSGSIZE) {
            broker_end(b);
            return;
        }
        if (n != sizeof(order)) {
            struct error err = {0};
            error_set(&err, ERROR_INVALID, 0, "this is not an order");
            order.tag = n >= 16 ? order.tag : 0;
            order.id[0] = 0;
            broker_answer_error(b, &order, &err);
            continue;
        }
        take_order(b, &order);
    }
    flush_queue(b);
}

/* --- the whole */

static void on_poll_closed(uv_handle_t *h)
{
    struct kube_broker *b = h->data;
    fd_close(&b->o.sock);
    broker_unref(b);
}

static void tell_end(void *data)
{
    struct kube_broker *b = data;
    if (!b->freed && b->o.on_end)
        b->o.on_end(b->o.data);
    broker_unref(b);
}

/* on_end runs in a later turn of the loop, because it frees the broker, which the caller of this
 * function still uses. */
static void broker_end(struct kube_broker *b)
{
    if (b->ending)
        return;
    b->ending = true;
    b->n_open++;
    uv_poll_stop(&b->poll);
    if (b->lease)
        kube_lease_release(steal_ptr(b->lease), tell_end, b);
    else
        loop_defer(b->o.loop, tell_end, b);
}

struct kube_broker *kube_broker_new(const struct kube_broker_options *options)
{
    struct kube_broker *b = new0(struct kube_broker);
    b->o = *options;
    list_init(&b->tasks);
    list_init(&b->carriers);
    list_init(&b->queue);
    b->pods = map_new();
    b->n_open = 1;
    b->poll.data = b;
    fd_set_nonblock(b->o.sock, true);
    if (uv_poll_init(options->loop, &b->poll, b->o.sock) < 0)
        abort(); /* it is a socket */
    uv_poll_start(&b->poll, UV_READABLE, on_sock_ready);
    b->epoch = 1 + random_below(UINT32_MAX - 1);
    broker_send(b, &(struct kube_reply){.kind = KUBE_BEGUN}, -1);
    start_watch(b);
    sweep_start(b);
    return b;
}

void kube_broker_free(struct kube_broker *b)
{
    size_t cursor = 0;
    if (!b)
        return;
    b->ending = b->freed = true;
    kube_watch_close(steal_ptr(b->watch));
    list_for_each_safe(t, &b->tasks, struct broker_task, node)
        task_free(t);
    carriers_end(b);
    sweep_end(b);
    kube_lease_free(steal_ptr(b->lease));
    for (struct known_pod *p; (p = map_next(b->pods, &cursor));)
        known_pod_free(p);
    map_free(b->pods);
    while (!list_empty(&b->queue)) {
        struct queued_reply *q = container_of(b->queue.next, struct queued_reply, node);
        list_remove(&q->node);
        fd_close(&q->fd);
        free(q);
    }
    uv_close((uv_handle_t *)&b->poll, on_poll_closed);
}
