/* SPDX-License-Identifier: Apache-2.0 */
/* See kube.h. An instance goes through these steps, each of which waits for one thing:
 *
 *   POD_MAKING      the broker's answer to the create
 *   POD_STARTING    the cluster's word that the pod runs
 *   POD_FINDING     of an adopted one: the first list of sandboxes
 *   POD_READING     of the same: its pod's own word that it is this sandbox's
 *   POD_TAKING      of the same: its next generation, which is written to its pod before its runner
 *                   is told
 *   POD_CONNECTING  a connection to the runner, which is tried again until the start is late; of an
 *                   adopted one, for as long as its pod is there
 *   POD_LOOKING     the runner's account of its walls; then a connection for good (POD_CONNECTING)
 *   POD_RUNNING     its end: the sandbox has the connection, and asks for others
 *   POD_DELETING    the broker's word that the namespace is gone
 *
 * What is to be told to the sandbox is told once, and the instance is gone after it: on_started()
 * with an error, or on_exited(). A pod that ended, or never came to run, is deleted; what is left
 * then is the cluster's to remove. */
#include "runtime/kube/kube.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "loop/loop.h"
#include "runtime/kube/addresses.h"
#include "runtime/kube/checks.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/pod-spec.h"
#include "runtime/kube/pool.h"
#include "runtime/kube/proof.h"
#include "runtime/kube/rebuild.h"
#include "runtime/kube/walls.h"
#include "runtime/runtime.h"

#define TRY_AGAIN_MS 300
#define FIRST_BYTE_MS                                                                              \
    10000                     /* a kubelet that stands still opens connections and carries nothing \
                               */
#define LATE_AGAIN_MS    5000 /* one that is late already is not asked for in a hurry */
#define DELETE_AGAIN_MS  5000
#define FIRST_GENERATION 1
#define MARK_SOON_MS     1000
#define MARK_EVERY_MS    30000 /* at most: commands start far more often than this is of interest */
#define PROOF_TRIES      100 /* so often it is looked whether policies are proven to be enforced */
#define WITNESS_TRIES    20  /* and so often a pod looks anew while its policy does not hold yet */

enum pod_step {
    POD_MAKING,
    POD_STARTING,
    POD_FINDING,
    POD_READING,
    POD_TAKING,
    POD_CONNECTING,
    POD_LOOKING,
    POD_RUNNING,
    POD_DELETING,
};

struct runtime_instance {
    const struct runtime_ops *ops;
    struct cluster *cluster;
    char id[KUBE_ID_SIZE];
    char uid[KUBE_NAME_SIZE]; /* of its pod; "": not known yet */
    const struct runtime_events *events;
    void *data;
    struct spec spec;
    enum pod_step step;
    bool stopping; /* it is to be deleted as soon as no create is under way */
    bool started;  /* on_started was called */
    bool looked;   /* its walls were found good */
    bool left;     /* nothing is reported any more: the sandbox knows of its end */
    bool asked;    /* a connection is being made */
    bool adopted;
    bool taken;        /* its pod has its generation */
    bool overdue;      /* an adopted one is not there in time, and is waited for */
    char problem[160]; /* what its start met last; "": nothing */
    unsigned proof_tries, witness_tries;
    struct effective effective;
    struct error failure;   /* why it did not start */
    struct kube_reply told; /* the last of its pod */
    char deleted[120];      /* why its pod was being deleted when that was not our doing; "" */
    struct walls_question *question;
    int fd;                  /* a connection that waits for the runner's first byte; -1 */
    uv_poll_t poll;          /* of it */
    struct loop_timer timer; /* to try again, and for the deletion */
    struct loop_timer late;  /* of the start */
    uint64_t generation;     /* which is sent to its runner */
    struct loop_timer mark;  /* when what it is, and its last command, is written to its objects */
    int64_t marked_ms;       /* when that was done last; 0: never */
    bool marking;
    bool mark_again;                    /* what is being written has changed since */
    bool ahead;                         /* it was made for no caller yet */
    char pool_record[POOL_RECORD_SIZE]; /* that it has then; "" */
    void (*on_claimed)(void *data, const struct error *err); /* NULL: it is not being claimed */
    void *claim_data;
    struct kube_order *claim;     /* waits until no mark is under way; NULL: none does */
    enum kube_state state;        /* that its objects say; KUBE_STATE_SAME: not known */
    uint8_t written[SHA256_SIZE]; /* sum of what its pod says it is; zeros: not known */
    unsigned n_open;
    bool closing;
    struct weak *weak;
};

static void pod_connect(void *data);
static void pod_delete(void *data);
static void kube_note(struct runtime_instance *in);

/* --- memory */

static void on_part_closed(void *data)
{
    struct runtime_instance *in = data;
    if (--in->n_open)
        return;
    spec_done(&in->spec);
    free(in);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct runtime_instance *in = h->data;
    in->closing = false;
    on_part_closed(in);
}

/* The poll handle exists while a connection waits. */
static void waiting_end(struct runtime_instance *in)
{
    if (in->fd < 0)
        return;
    uv_poll_stop(&in->poll);
    fd_close(&in->fd);
    in->closing = true;
    in->n_open++;
    uv_close((uv_handle_t *)&in->poll, on_poll_closed);
}

static void instance_free(struct runtime_instance *in)
{
    cluster_let_go(in->cluster, in->id, in);
    cluster_note_waiting(in->cluster, in->id, NULL);
    free(steal_ptr(in->claim));
    walls_cancel(steal_ptr(in->question));
    waiting_end(in);
    weak_clear(&in->weak);
    loop_timer_close(&in->timer, on_part_closed, in);
    loop_timer_close(&in->late, on_part_closed, in);
    loop_timer_close(&in->mark, on_part_closed, in);
}

static void wait_then(struct runtime_instance *in, uint64_t ms, void (*go_on)(void *data))
{
    in->timer.cb = go_on;
    loop_timer_start(&in->timer, ms);
}

/* --- ends */

/* The sandbox hears of the end once. Deleting goes on without it, where that was not asked for. */
static void tell_end(struct runtime_instance *in, const struct runtime_end *end)
{
    if (in->left)
        return;
    in->left = true;
    if (in->started)
        in->events->on_exited(in->data, end);
    else
        in->events->on_started(in->data, -1, NULL, &in->failure);
}

/* Waiting, or the operator, may mend it. */
static bool may_be_mended(enum error_code code)
{
    return code == ERROR_TIMEOUT || code == ERROR_UNAVAILABLE || code == ERROR_LIMIT ||
           code == ERROR_INTERNAL || code == ERROR_FORBIDDEN;
}

/* The credential may have lost the right to delete: then the caller is not kept waiting until the
 * operator gives it back. */
static void on_pod_deleted(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = data;
    bool later = may_be_mended(reply->error);
    fd_close(&fd);
    if (reply->error)
        log_warn("a pod is not deleted%s id=%s: %s", later ? " yet" : "", in->id, reply->message);
    if (later && reply->error != ERROR_FORBIDDEN) {
        wait_then(in, DELETE_AGAIN_MS, pod_delete);
        return;
    }
    error_set(&in->failure, ERROR_CONFLICT, 0, "it was deleted while it was created");
    if (reply->error == ERROR_CONFLICT && reply->generation > in->generation)
        cluster_leave_pod(in->cluster, in->id, reply->message);
    if (!later)
        in->events->on_removed(in->data, true);
    tell_end(in, &(struct runtime_end){0});
    if (later)
        wait_then(in, DELETE_AGAIN_MS, pod_delete);
    else
        instance_free(in);
}

static void pod_delete(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_DELETE, .generation = in->taken ? in->generation : 0};
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    snprintf(order.uid, sizeof(order.uid), "%s", in->uid);
    cluster_send(in->cluster, &order, on_pod_deleted, in);
}

/* Legal in every step but POD_MAKING, whose answer comes here by itself. */
static void begin_delete(struct runtime_instance *in)
{
    if (in->step == POD_DELETING || in->step == POD_MAKING)
        return;
    in->step = POD_DELETING;
    loop_timer_stop(&in->timer);
    loop_timer_stop(&in->late);
    loop_timer_stop(&in->mark);
    walls_cancel(steal_ptr(in->question));
    waiting_end(in);
    weak_clear(&in->weak);
    in->asked = false;
    pod_delete(in);
}

/* It cannot start. The sandbox hears of it at once; what was made is deleted behind its back. */
static void fail_start(struct runtime_instance *in, enum error_code code, const char *why)
{
    if (in->left || in->step == POD_DELETING)
        return;
    error_clear(&in->failure);
    error_set(&in->failure, code, 0, "%s", why);
    bool waits = in->stopping; /* then the deletion is what is waited for */
    if (in->step == POD_MAKING)
        in->step = POD_STARTING;
    begin_delete(in);
    if (!waits)
        tell_end(in, NULL);
}

static void format_reason(const struct kube_reply *r, const char *what, char *out, size_t size)
{
    snprintf(out, size, "its pod %s%s%s%s%.300s", what, r->reason[0] ? ": " : "", r->reason,
             r->message[0] ? ": " : "", r->message);
}

/* What stands in the way of a start, and how long it takes until that is tried again. */
static uint64_t note_problem(struct runtime_instance *in, const char *why)
{
    snprintf(in->problem, sizeof(in->problem), "%.159s", why);
    return in->overdue ? LATE_AGAIN_MS : TRY_AGAIN_MS;
}

/* An adopted pod holds a sandbox that its callers use. That it is not reached says nothing about
 * it: the cluster, the broker or the role may be what is in the way. So it is waited for, until it
 * is reached, its pod ends, or its sandbox is deleted. */
static void on_adoption_late(struct runtime_instance *in)
{
    in->overdue = true;
    log_warn("a pod is not taken over yet, and is waited for id=%s: %s", in->id,
             in->problem[0]                       ? in->problem
             : *cluster_why_not_held(in->cluster) ? cluster_why_not_held(in->cluster)
             : in->step == POD_FINDING            ? "the cluster has not listed its sandboxes"
                                                  : "its runner does not answer");
    loop_timer_start(&in->late, cluster_options(in->cluster)->start_ms);
}

/* A pod that was made ahead keeps no caller waiting. Where it is only not placed, or its image is
 * not there yet, another one in its stead would meet the same: so it is kept, until it starts or
 * its pool is not wanted any more. */
static bool waits_ahead(struct runtime_instance *in)
{
    bool unlisted = in->step == POD_FINDING;
    if (!in->ahead || (!unlisted && in->told.phase != KUBE_POD_PENDING))
        return false;
    char why[480];
    format_reason(&in->told, unlisted ? "is not listed yet" : "does not start", why, sizeof(why));
    cluster_note_waiting(in->cluster, in->id, why);
    return true;
}

static void on_start_late(void *data)
{
    struct runtime_instance *in = data;
    char why[480];
    if (in->step != POD_MAKING && waits_ahead(in)) {
        loop_timer_start(&in->late, cluster_options(in->cluster)->start_ms);
        return;
    }
    if (in->adopted && !in->ahead) {
        on_adoption_late(in);
        return;
    }
    format_reason(&in->told,
                  in->told.phase == KUBE_POD_RUNNING ? "runs, and its runner does not answer"
                                                     : "did not start in time",
                  why, sizeof(why));
    in->stopping |= in->step == POD_MAKING;
    if (in->step == POD_MAKING) /* the create's answer is waited for, and then undone */
        error_set(&in->failure, ERROR_TIMEOUT, 0, "%s", why);
    else
        fail_start(in, ERROR_TIMEOUT, why);
}

/* --- connections */

static struct pod_network network_of(const struct cluster *c, bool adopted)
{
    return (struct pod_network){.proof = cluster_proven(c),
                                .unproven = cluster_options(c)->unproven_network,
                                .adopted = adopted};
}

/* One with callers is kept where its wall cannot be tried any more. One that was made ahead has
 * none yet, and is held to what a create is. */
static bool has_callers(const struct runtime_instance *in)
{
    return in->adopted && !in->ahead;
}

/* A pod whose network wall has to hold is looked at when it is known whether any does. */
static bool waits_for_proof(struct runtime_instance *in)
{
    struct pod_network n = network_of(in->cluster, has_callers(in));
    return !in->looked && n.proof->state == PROOF_PENDING &&
           pod_needs_network_wall(&in->spec, &n) && in->proof_tries++ < PROOF_TRIES;
}

/* A cluster may be late with its enforcement, which harms nothing as long as no command has run. */
static bool wall_may_come(struct runtime_instance *in, const struct walls *walls,
                          const struct pod_network *n)
{
    return walls->witness == WITNESS_REACHED && !has_callers(in) &&
           pod_needs_network_wall(&in->spec, n) && in->witness_tries++ < WITNESS_TRIES;
}

static void on_runner_walls(void *data, const struct walls *walls, const char *why)
{
    struct runtime_instance *in = data;
    struct error err = {0};
    in->question = NULL;
    in->step = POD_CONNECTING;
    if (!walls) {
        log_info("the walls of a pod could not be checked yet id=%s: %s", in->id, why);
        wait_then(in, note_problem(in, why), pod_connect);
        return;
    }
    struct pod_network n = network_of(in->cluster, has_callers(in));
    if (wall_may_come(in, walls, &n)) {
        wait_then(in, TRY_AGAIN_MS, pod_connect);
        return;
    }
    if (pod_walls_fill(&in->spec, walls, &n, in->ops->name, &in->effective, &err) < 0) {
        fail_start(in, err.code, err.message);
        return;
    }
    cluster_note_cgroup(in->cluster, walls->cgroup);
    in->looked = true;
    pod_connect(in);
}

static void use_connection(struct runtime_instance *in, int fd)
{
    const struct cluster_options *o = cluster_options(in->cluster);
    if (in->step == POD_RUNNING) {
        in->events->on_reconnected(in->data, fd);
        return;
    }
    if (!in->looked) {
        in->step = POD_LOOKING;
        in->question = walls_ask(o->loop, fd, in->generation, cluster_proven(in->cluster)->witness,
                                 on_runner_walls, in);
        return;
    }
    loop_timer_stop(&in->late);
    cluster_note_waiting(in->cluster, in->id, NULL);
    in->overdue = false;
    in->step = POD_RUNNING;
    in->started = true;
    if (in->ahead || in->adopted) /* what changed before its control plane died may not be there */
        kube_note(in);
    in->events->on_started(in->data, fd, &in->effective, NULL);
}

/* A carrier is open before what it leads to is: with a dead link, it ends at once. A runner speaks
 * first, so a connection is one as soon as there is a byte to read. */
static void on_first_byte(uv_poll_t *p, int status, int events)
{
    struct runtime_instance *in = p->data;
    char byte;
    (void)status;
    (void)events;
    if (recv(in->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        int fd = fd_steal(&in->fd);
        uv_poll_stop(&in->poll);
        in->closing = true;
        in->n_open++;
        uv_close((uv_handle_t *)&in->poll, on_poll_closed);
        in->asked = false;
        loop_timer_stop(&in->timer);
        use_connection(in, fd);
        return;
    }
    waiting_end(in);
    in->asked = false;
    wait_then(in, TRY_AGAIN_MS, pod_connect);
}

static void on_byte_late(void *data)
{
    struct runtime_instance *in = data;
    waiting_end(in);
    in->asked = false;
    pod_connect(in);
}

static void on_pod_connected(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    if (!in || reply->error || fd < 0) {
        fd_close(&fd);
        if (!in)
            return;
        in->asked = false;
        log_debug("a runner is not reached id=%s: %s", in->id, reply->message);
        wait_then(in, note_problem(in, reply->message), pod_connect);
        return;
    }
    if (in->closing) { /* the handle of the one before is not gone yet */
        fd_close(&fd);
        in->asked = false;
        wait_then(in, TRY_AGAIN_MS, pod_connect);
        return;
    }
    cluster_note_carrier(in->cluster, reply->reason);
    in->fd = fd;
    in->poll.data = in;
    fd_set_nonblock(fd, true);
    if (uv_poll_init(cluster_options(in->cluster)->loop, &in->poll, fd) < 0)
        abort(); /* it is a socket */
    uv_poll_start(&in->poll, UV_READABLE | UV_DISCONNECT, on_first_byte);
    wait_then(in, FIRST_BYTE_MS, on_byte_late);
}

static void pod_connect(void *data)
{
    struct runtime_instance *in = data;
    if (in->asked || (in->step != POD_CONNECTING && in->step != POD_RUNNING))
        return;
    if (waits_for_proof(in)) {
        wait_then(in, TRY_AGAIN_MS, pod_connect);
        return;
    }
    in->asked = true;
    loop_timer_stop(&in->timer);
    cluster_ask(in->cluster, KUBE_CONNECT, in->id, on_pod_connected, weak_ref(&in->weak, in));
}

static void kube_reconnect(struct runtime_instance *in)
{
    pod_connect(in);
}

/* --- what its pod says of it */

static bool is_ahead(const struct runtime_events *events, void *data)
{
    struct runtime_record r;
    events->describe(data, &r);
    free(r.text);
    return r.pooled;
}

/* pool_record: of one that was made ahead. */
static int fill_record(struct kube_order *o, const struct runtime_events *events, void *data,
                       const char *pool_record, struct error *err)
{
    struct runtime_record r;
    events->describe(data, &r);
    _cleanup_free_ char *text = r.text;
    if (text && strlen(text) >= sizeof(o->spec))
        return error_set(
            err, ERROR_TOO_LARGE, 0,
            "the record of the sandbox that its pod carries, with the environment in it, would be "
            "over %d bytes",
            KUBE_SPEC_SIZE - 1);
    o->last_exec_s = r.last_exec_s > 0 ? (uint64_t)r.last_exec_s : 0;
    o->state = r.pooled ? KUBE_STATE_READY : KUBE_STATE_CLAIMED;
    snprintf(o->owner, sizeof(o->owner), "%s", r.owner);
    snprintf(o->spec, sizeof(o->spec), "%s",
             text       ? text
             : r.pooled ? pool_record
                        : POD_HELPER_RECORD);
    return 0;
}

static void sum_record(const struct kube_order *o, uint8_t out[SHA256_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, o->spec, strlen(o->spec));
    sha256_final(&s, out);
}

/* At most every MARK_EVERY_MS, and soon where nothing was written for so long. */
static void kube_note(struct runtime_instance *in)
{
    int64_t since = clock_mono_ms() - in->marked_ms;
    in->mark_again = in->marking;
    bool soon = !in->marked_ms || since >= MARK_EVERY_MS;
    if (in->step == POD_RUNNING && !in->marking && !loop_timer_active(&in->mark))
        loop_timer_start(&in->mark, soon ? MARK_SOON_MS : (uint64_t)(MARK_EVERY_MS - since));
}

static void send_claim(struct runtime_instance *in);

static void on_pod_marked(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    in->marking = false;
    if (reply->error || in->state != KUBE_STATE_READY) /* who claims it is written soon */
        in->marked_ms = clock_mono_ms();
    if (in->claim) {
        send_claim(in);
        return;
    }
    if (!reply->error && in->mark_again)
        kube_note(in);
    if (!reply->error)
        return;
    log_info("the record of a sandbox in its pod is not up to date id=%s: %s", in->id,
             reply->message);
    memset(in->written, 0, sizeof(in->written));
    in->state = KUBE_STATE_SAME;
    kube_note(in);
}

static void pod_mark(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_MARK, .generation = in->generation};
    struct error err = {0};
    uint8_t sum[SHA256_SIZE];
    if (in->step != POD_RUNNING || in->marking || in->on_claimed)
        return;
    if (fill_record(&order, in->events, in->data, in->pool_record, &err) < 0) {
        log_warn("the record of a sandbox cannot be written to its pod id=%s: %s", in->id,
                 err.message);
        return;
    }
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    sum_record(&order, sum);
    if (memcmp(sum, in->written, sizeof(sum)) == 0)
        order.spec[0] = 0;
    memcpy(in->written, sum, sizeof(sum));
    if (order.state == in->state)
        order.state = KUBE_STATE_SAME;
    else
        in->state = order.state;
    in->marking = true;
    cluster_send(in->cluster, &order, on_pod_marked, weak_ref(&in->weak, in));
}

/* --- it becomes a caller's */

/* What another one has is left to it; what ends, or may not be written to, is deleted. The sandbox
 * hears of nothing else any more. */
static void lose_claim(struct runtime_instance *in, const struct error *err)
{
    void (*cb)(void *data, const struct error *err) = steal_ptr(in->on_claimed);
    void *claimer = in->claim_data;
    if (err->code == ERROR_CONFLICT)
        cluster_leave_pod(in->cluster, in->id, err->message);
    else
        cluster_discard(in->cluster, in->id);
    in->events->on_removed(in->data, true);
    in->left = true;
    instance_free(in);
    cb(claimer, err);
}

/* Any other failure says nothing about whose it is: the sandbox gives it up, and it is
 * deleted. */
static void on_pod_claimed(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    struct error err = {0};
    fd_close(&fd);
    if (!in)
        return;
    if (reply->error)
        error_set(&err, reply->error, 0, "%s", reply->message);
    if (reply->error == ERROR_CONFLICT || reply->error == ERROR_NOT_FOUND ||
        reply->error == ERROR_FORBIDDEN) {
        lose_claim(in, &err);
        return;
    }
    void (*cb)(void *data, const struct error *err) = steal_ptr(in->on_claimed);
    if (!reply->error) {
        in->ahead = false;
        in->state = KUBE_STATE_SAME; /* its namespace says the old one */
        kube_note(in);
    }
    cb(in->claim_data, reply->error ? &err : NULL);
}

static void send_claim(struct runtime_instance *in)
{
    _cleanup_free_ struct kube_order *order = steal_ptr(in->claim);
    cluster_send(in->cluster, order, on_pod_claimed, weak_ref(&in->weak, in));
}

/* A mark that is under way would put what it says over the claim. */
static int kube_claim(struct runtime_instance *in, void (*cb)(void *data, const struct error *err),
                      void *data, struct error *err)
{
    _cleanup_free_ struct kube_order *order = new0(struct kube_order);
    if (fill_record(order, in->events, in->data, "", err) < 0)
        return -1;
    order->op = KUBE_CLAIM;
    order->generation = in->generation;
    order->state = KUBE_STATE_SAME;
    order->last_exec_s = 0;
    snprintf(order->id, sizeof(order->id), "%s", in->id);
    sum_record(order, in->written);
    loop_timer_stop(&in->mark);
    in->on_claimed = cb;
    in->claim_data = data;
    in->claim = steal_ptr(order);
    if (!in->marking)
        send_claim(in);
    return 0;
}

static void kube_rebind(struct runtime_instance *in, void *data)
{
    in->data = data;
}

static void pod_take(void *data);
static void pod_read(void *data);

/* One that another control plane has, or that is another sandbox's, is left as it is: this one must
 * not even delete it. */
static void leave_pod(struct runtime_instance *in, const char *why)
{
    cluster_leave_pod(in->cluster, in->id, why);
    error_set(&in->failure, ERROR_CONFLICT, 0, "%s", why);
    in->events->on_removed(in->data, true);
    tell_end(in, NULL);
    instance_free(in);
}

static bool member_is_same(const json_t *a, const json_t *b, const char *name)
{
    return strcmp(json_member_text(a, name), json_member_text(b, name)) == 0;
}

/* Names are used again, so the id alone does not say whether a pod is this sandbox's: an older copy
 * of the disk may know one that had the name before. Where it was made ahead, and its control plane
 * died before its claim was written, its record is still the pool's. */
static bool record_is_own(const struct runtime_instance *in, const struct strbuf *text)
{
    struct error err = {0};
    struct runtime_record r = {0};
    size_t helper = strlen(POD_HELPER_RECORD);
    if (in->ahead)
        return text->len == strlen(in->pool_record) &&
               memcmp(text->data, in->pool_record, text->len) == 0;
    if ((text->len == helper && memcmp(text->data, POD_HELPER_RECORD, helper) == 0) ||
        (text->len && pool_is_record(text->data, text->len)))
        return true;
    in->events->describe(in->data, &r);
    _cleanup_free_ char *own_text = r.text;
    _cleanup_json_ json_t *own =
        own_text ? json_parse_object(own_text, strlen(own_text), &err) : NULL;
    _cleanup_json_ json_t *found =
        text->len ? json_parse_object(text->data, text->len, &err) : NULL;
    return own && found && member_is_same(own, found, "id") &&
           member_is_same(own, found, "owner") && member_is_same(own, found, "generation");
}

static void on_pod_read(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    _cleanup_close_ int stream = fd;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KUBE_SPEC_SIZE);
    if (!in || in->step != POD_READING)
        return;
    bool changed = reply->error == ERROR_CONFLICT || reply->error == ERROR_TOO_LARGE;
    if (reply->error && !changed)
        wait_then(in, note_problem(in, reply->message), pod_read);
    else if (changed)
        leave_pod(in, reply->message);
    else if (stream < 0 || rebuild_read_text(stream, &text) < 0 || !record_is_own(in, &text))
        leave_pod(in, "the pod with its name is another sandbox's");
    else {
        in->step = POD_TAKING;
        pod_take(in);
    }
}

static void pod_read(void *data)
{
    struct runtime_instance *in = data;
    cluster_ask(in->cluster, KUBE_READ, in->id, on_pod_read, weak_ref(&in->weak, in));
}

static void on_pod_taken(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    if (!reply->error) {
        in->generation = reply->generation;
        in->taken = true;
        in->step = in->told.phase == KUBE_POD_RUNNING ? POD_CONNECTING : POD_STARTING;
        pod_connect(in);
    } else if (reply->error == ERROR_CONFLICT) {
        leave_pod(in, reply->message);
    } else {
        wait_then(in, note_problem(in, reply->message), pod_take);
    }
}

static void pod_take(void *data)
{
    struct runtime_instance *in = data;
    struct kube_order order = {.op = KUBE_TAKE};
    if (in->step != POD_TAKING)
        return;
    snprintf(order.id, sizeof(order.id), "%s", in->id);
    snprintf(order.home, sizeof(order.home), "%s", cluster_options(in->cluster)->home);
    cluster_send(in->cluster, &order, on_pod_taken, weak_ref(&in->weak, in));
}

static uint64_t kube_generation(const struct runtime_instance *in)
{
    return in->generation;
}

/* --- what the cluster tells */

/* Reasons that waiting does not mend. */
static bool is_hopeless(const char *reason)
{
    static const char *const reasons[] = {"ImagePullBackOff",     "InvalidImageName",
                                          "ErrImageNeverPull",    "CreateContainerConfigError",
                                          "CreateContainerError", "RunContainerError",
                                          "CrashLoopBackOff"};
    for (size_t i = 0; i < ELEMENTS(reasons); i++)
        if (strcmp(reasons[i], reason) == 0)
            return true;
    return false;
}

/* A pod that another deletes says so before it ends, and what its containers ended with is
 * then no reason. A reason is there where the cluster itself wanted the room or the node. */
static void keep_deletion(struct runtime_instance *in, const struct kube_reply *told)
{
    if (told->phase == KUBE_POD_ENDING && !in->deleted[0])
        snprintf(in->deleted, sizeof(in->deleted), "was deleted, not by this daemon%s%s",
                 told->reason[0] ? ": " : "", told->reason);
}

static void on_pod_end(struct runtime_instance *in)
{
    char why[480];
    bool gone = in->told.phase == KUBE_POD_NONE;
    struct runtime_end end = {.why = why, .oom_kills = strcmp(in->told.reason, "OOMKilled") == 0};
    if (in->deleted[0])
        snprintf(why, sizeof(why), "its pod %s", in->deleted);
    else
        format_reason(&in->told, gone ? "is gone from the cluster" : "has ended", why, sizeof(why));
    if (in->on_claimed) {
        struct error err = {0};
        error_set(&err, ERROR_NOT_FOUND, 0, "%s", why);
        lose_claim(in, &err);
        return;
    }
    if (!in->started) {
        fail_start(in, ERROR_CRASH, why);
        return;
    }
    bool waits = in->stopping;
    begin_delete(in);
    if (!waits)
        tell_end(in, &end);
}

/* A pod vanished without having been deleted: it may be there, without the labels that make it
 * ours. Whatever the answer is, there is no sandbox any more. */
static void on_pod_missed(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    fd_close(&fd);
    if (!in)
        return;
    if (reply->error == ERROR_CONFLICT)
        snprintf(in->deleted, sizeof(in->deleted),
                 "does not carry this daemon's labels any more: they were changed");
    on_pod_end(in);
}

/* A pod that is being deleted may still end with a reason, and has no other end than that. No
 * caller is given one that was made ahead. */
static void on_pod_told(void *data, const struct kube_reply *told)
{
    struct runtime_instance *in = data;
    bool listed = told->kind == KUBE_LISTED;
    char why[480];
    if (in->step == POD_DELETING || (in->uid[0] && told->uid[0] && strcmp(in->uid, told->uid)))
        return; /* of another pod: an earlier sandbox may have had the id */
    if (in->step == POD_MAKING) {
        if (!listed)
            in->told = *told;
        return;
    }
    bool gone = told->phase == KUBE_POD_NONE;
    bool unwanted = told->phase == KUBE_POD_ENDING && in->ahead && !in->on_claimed;
    if (in->step == POD_FINDING && listed)
        snprintf(in->uid, sizeof(in->uid), "%s", told->uid);
    if (!(gone && !told->reason[0])) /* what was last known of it is why */
        in->told = *told;
    in->told.phase = told->phase;
    if (in->step == POD_FINDING && listed && !gone) {
        /* One that is being deleted has only its end to wait for. */
        in->step = told->phase == KUBE_POD_ENDING ? POD_STARTING : POD_READING;
        if (in->step == POD_READING)
            pod_read(in);
    }
    if (in->step == POD_FINDING && !listed)
        return; /* it may be news that was meant for the control plane before this one */
    keep_deletion(in, told);
    if (gone && !in->deleted[0] && !in->told.reason[0]) {
        cluster_ask(in->cluster, KUBE_READ, in->id, on_pod_missed, weak_ref(&in->weak, in));
    } else if (gone || unwanted || told->phase == KUBE_POD_ENDED) {
        on_pod_end(in);
    } else if (in->step == POD_STARTING && told->phase == KUBE_POD_RUNNING) {
        in->step = POD_CONNECTING;
        pod_connect(in);
    } else if (in->step == POD_STARTING && is_hopeless(told->reason) && !waits_ahead(in)) {
        format_reason(told, "does not start", why, sizeof(why));
        fail_start(in, ERROR_UNAVAILABLE, why);
    }
}

/* --- beginning */

static struct runtime_instance *instance_new(const struct runtime_ops *ops,
                                             struct runtime_host *host, const char *id,
                                             const struct spec *spec,
                                             const struct runtime_events *events, void *data)
{
    struct runtime_instance *in = new0(struct runtime_instance);
    const struct cluster_options *o = cluster_options(host->cluster);
    in->ops = ops;
    in->cluster = host->cluster;
    in->events = events;
    in->data = data;
    in->fd = -1;
    in->n_open = 3;
    in->generation = FIRST_GENERATION;
    snprintf(in->id, sizeof(in->id), "%s", id);
    spec_copy(&in->spec, spec);
    loop_timer_init(&in->timer, o->loop, NULL, in);
    loop_timer_init(&in->late, o->loop, on_start_late, in);
    loop_timer_init(&in->mark, o->loop, pod_mark, in);
    loop_timer_start(&in->late, o->start_ms);
    cluster_hold(in->cluster, in->id, on_pod_told, in);
    return in;
}

static void on_pod_made(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = data;
    fd_close(&fd);
    if (reply->error) { /* the broker has undone what it had made, where the cluster let it */
        if (!error_is_set(&in->failure))
            error_set(&in->failure, reply->error, 0, "%s", reply->message);
        enum error_code code = reply->error;
        bool certain = code != ERROR_TIMEOUT && code != ERROR_UNAVAILABLE && code != ERROR_INTERNAL;
        if (certain)
            in->events->on_removed(in->data, true);
        tell_end(in, NULL);
        if (!certain)
            in->events->on_removed(in->data, false);
        instance_free(in);
        return;
    }
    in->step = POD_STARTING;
    if (error_is_set(&in->failure) && !in->left) { /* it took too long */
        begin_delete(in);
        tell_end(in, NULL);
        return;
    }
    if (in->stopping) {
        begin_delete(in);
        return;
    }
    snprintf(in->uid, sizeof(in->uid), "%s", reply->uid);
    struct kube_reply told = in->told; /* while the answer was on its way */
    in->told = (struct kube_reply){0};
    if (strcmp(told.uid, in->uid) == 0)
        on_pod_told(in, &told);
}

/* What is wrong with a spec comes first: ERROR_UNAVAILABLE says that it may work later. */
static int kube_check(const struct runtime_ops *ops, const struct runtime_host *host,
                      const struct spec *spec, struct error *err)
{
    if (!host->cluster)
        return error_set(
            err, ERROR_UNSUPPORTED, 0,
            "runtime '%s' needs a cluster: set kube_config, kube_in_cluster or kube_socket",
            ops->name);
    const struct cluster_report *r = cluster_probed(host->cluster);
    const struct cluster_options *o = cluster_options(host->cluster);
    struct pod_network n = network_of(host->cluster, false);
    int e = pod_addresses_check(spec, host->network, n.proof, err);
    e = e < 0 ? e : pod_spec_check(spec, o->image, &n, err);
    if (e < 0)
        return e;
    if (r->known && !r->available)
        return error_set(err, ERROR_UNAVAILABLE, 0, "runtime '%s': %s", ops->name, r->why);
    if (*cluster_why_not_held(host->cluster))
        return error_set(err, ERROR_UNAVAILABLE, 0, "runtime '%s': %s", ops->name,
                         cluster_why_not_held(host->cluster));
    if (!cluster_is_rebuilt(host->cluster))
        return error_set(err, ERROR_UNAVAILABLE, 0,
                         "runtime '%s': the sandboxes that the cluster has are not known yet",
                         ops->name);
    return 0;
}

static struct runtime_instance *kube_start(const struct runtime_ops *ops, struct runtime_host *host,
                                           const char *id, const struct spec *spec,
                                           const struct runtime_events *events, void *data,
                                           struct error *err)
{
    struct kube_order order = {.op = KUBE_CREATE, .generation = FIRST_GENERATION};
    char pool_record[POOL_RECORD_SIZE] = "";
    if (kube_check(ops, host, spec, err) < 0 || pod_id_fill(id, order.id, err) < 0)
        return NULL;
    const struct cluster_options *o = cluster_options(host->cluster);
    if (is_ahead(events, data))
        pool_record_format(o, spec, pool_record);
    if (fill_record(&order, events, data, pool_record, err) < 0)
        return NULL;
    pool_order_fill(o, spec, &order);
    snprintf(order.home, sizeof(order.home), "%s", o->home);
    struct runtime_instance *in = instance_new(ops, host, order.id, spec, events, data);
    in->step = POD_MAKING;
    in->taken = true;
    sum_record(&order, in->written);
    in->state = order.state == KUBE_STATE_CLAIMED ? KUBE_STATE_CLAIMED : KUBE_STATE_SAME;
    if (order.state == KUBE_STATE_READY)
        order.flags |= KUBE_POOL_MEMBER;
    in->ahead = order.state == KUBE_STATE_READY;
    memcpy(in->pool_record, pool_record, sizeof(pool_record));
    order.state = KUBE_STATE_SAME; /* it is what the flag says */
    cluster_send(in->cluster, &order, on_pod_made, in);
    return in;
}

static struct runtime_instance *kube_adopt(const struct runtime_ops *ops, struct runtime_host *host,
                                           const char *id, const struct spec *spec,
                                           const struct runtime_events *events, void *data,
                                           struct error *err)
{
    char name[KUBE_ID_SIZE];
    if (!host->cluster) {
        error_set(err, ERROR_UNAVAILABLE, 0, "its cluster is not configured any more");
        return NULL;
    }
    if (pod_id_fill(id, name, err) < 0)
        return NULL;
    struct runtime_instance *in = instance_new(ops, host, name, spec, events, data);
    in->step = POD_FINDING;
    in->adopted = true;
    in->ahead = is_ahead(events, data);
    if (in->ahead)
        pool_record_format(cluster_options(host->cluster), spec, in->pool_record);
    return in;
}

static void kube_stop(struct runtime_instance *in)
{
    if (in->stopping)
        return;
    in->stopping = true;
    begin_delete(in);
}

static void kube_probe(const struct runtime_ops *ops, const struct runtime_host *host,
                       struct runtime_report *ret)
{
    *ret = (struct runtime_report){0};
    pod_walls_expect(&ret->walls,
                     host->cluster ? cluster_proven(host->cluster) : &(struct proof_report){0},
                     ops->name, host->cluster ? cluster_cgroup(host->cluster) : 2);
    if (!host->cluster) {
        snprintf(ret->why, sizeof(ret->why), "no cluster is configured (kube_config)");
        return;
    }
    const struct cluster_report *r = cluster_probed(host->cluster);
    const char *lease_why = cluster_why_not_held(host->cluster);
    ret->available = r->available && cluster_is_held(host->cluster);
    snprintf(ret->version, sizeof(ret->version), "%s", r->version);
    const struct proof_report *proof = cluster_proven(host->cluster);
    snprintf(ret->why, sizeof(ret->why), "%s",
             !r->known         ? "its broker has not answered yet"
             : !r->available   ? r->why
             : !ret->available ? (*lease_why ? lease_why : "its Lease is being asked for")
             : proof->state == PROOF_PENDING
                 ? "whether network policies are enforced is being tried"
                 : proof->why);
    kube_checks_fill(r, proof, ret);
    const char *waits_why;
    size_t n_waiting = cluster_waiting(host->cluster, &waits_why);
    kube_checks_add_waiting(ret, n_waiting, waits_why);
}

const struct runtime_ops runtime_kube = {
    .name = "kube",
    .summary = "pods of a Kubernetes cluster",
    .workdir = "/workspace",
    .isolation = ISOLATION_NAMESPACES,
    .has_proxy = true,
    .has_addresses = true,
    .connections_break = true,
    .lives_elsewhere = true,
    .has_volumes = true,
    .has_streams = true,
    .has_own_images = true,
    .probe = kube_probe,
    .check = kube_check,
    .start = kube_start,
    .stop = kube_stop,
    .adopt = kube_adopt,
    .reconnect = kube_reconnect,
    .generation = kube_generation,
    .note = kube_note,
    .claim = kube_claim,
    .rebind = kube_rebind,
};
