/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's side of runtime kube against a broker that answers as the test says: what
 * becomes of pods of an earlier control plane. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "proto/kube.h"
#include "proto/message.h"
#include "proto/walls.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/kube.h"
#include "runtime/kube/pool.h"
#include "runtime/kube/walls.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"
#include "tests/unit/tap.h"

#define EPOCH    7
#define PODS_MAX 6

struct pod {
    const char *id;     /* as orders have it */
    const char *record; /* that KUBE_READ answers with; NULL: read_error */
    enum error_code read_error, take_error, delete_error;
    enum kube_phase phase;
    enum error_code claim_error;
    enum error_code mark_error;
    bool answers; /* its runner does */
    unsigned n_reads, n_takes, n_deletes, n_claims, n_connects, n_marks;
};

static uv_loop_t loop;
static uv_poll_t poll;
static uv_timer_t patience;
static int broker;
static struct pod pods[PODS_MAX];
static bool list_fails; /* the API server is away */
static bool holds_deletes, holds_claims;
static struct kube_order last_delete, last_create;
static const char *classes = "", *missing_classes = ""; /* RuntimeClasses */
static enum walls_kernel kernel;
static bool unproven = true, proof_fails;
static int runners[PODS_MAX * 2]; /* their ends of connections */
static size_t n_runners;
static const struct spec *pool_spec;
static unsigned n_lists;
static struct cluster *cluster;
static struct runtime_host host;

/* --- the broker */

static struct pod *find_pod(const char *id)
{
    for (size_t i = 0; i < PODS_MAX; i++)
        if (pods[i].id && strcmp(pods[i].id, id) == 0)
            return &pods[i];
    return NULL;
}

static void broker_send(struct kube_reply *r, int fd)
{
    r->version = KUBE_VERSION;
    r->epoch = EPOCH;
    fd_send_msg(broker, r, sizeof(*r), &fd, fd < 0 ? 0 : 1);
}

static void broker_list(uint64_t tag)
{
    n_lists++;
    for (size_t i = 0; i < PODS_MAX && !list_fails; i++) {
        struct kube_reply r = {.kind = KUBE_LISTED, .tag = tag, .phase = pods[i].phase};
        if (!pods[i].id)
            continue;
        snprintf(r.id, sizeof(r.id), "%s", pods[i].id);
        snprintf(r.uid, sizeof(r.uid), "uid-%s", pods[i].id);
        snprintf(r.home, sizeof(r.home), "home");
        broker_send(&r, -1);
    }
}

static int record_stream(const char *record)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    if (write(pair[0], record, strlen(record)) < 0)
        abort();
    close(pair[0]);
    return pair[1];
}

/* A connection to a runner that has said what its walls are before it was asked; the number of its
 * streams follows from the generation. */
static int runner_stream(uint32_t generation)
{
    struct walls walls = {.version = WALLS_VERSION,
                          .n_places = _PLACE_MAX,
                          .seccomp = 2,
                          .no_new_privs = 1,
                          .own_filter = 1,
                          .uid = 100000,
                          .gid = 100000,
                          .landlock_abi = 1,
                          .own_processes = 1,
                          .kernel = kernel,
                          .cgroup = 2};
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1 << 16);
    uint32_t end = (generation + 1) << 21;
    int pair[2];
    strbuf_append(&out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_output_format(
        &out, end - 1,
        &(struct msg_output){.which = 1, .data = (uint8_t *)&walls, .len = sizeof(walls)});
    msg_exit_format(&out, end - 1, &(struct msg_exit){0});
    msg_connected_format(&out, end - 3, &(struct msg_connected){0});
    if (n_runners == ELEMENTS(runners) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        fd_write_all(pair[0], out.data, out.len) < 0)
        abort();
    runners[n_runners++] = pair[0];
    return pair[1];
}

static void broker_offer(uint64_t tag, enum kube_offer offer, const char *text)
{
    struct kube_reply r = {.kind = KUBE_OFFERED, .tag = tag, .phase = offer};
    snprintf(r.message, sizeof(r.message), "%s", text);
    broker_send(&r, -1);
}

static void broker_answer(const struct kube_order *o)
{
    struct kube_reply r = {.kind = KUBE_ANSWERED, .tag = o->tag, .generation = 2};
    struct pod *p = find_pod(o->id);
    int fd = -1;
    snprintf(r.message, sizeof(r.message), "it is tried");
    switch (o->op) {
    case KUBE_PROBE:
        broker_offer(o->tag, KUBE_OFFER_RUNTIME_CLASSES, classes);
        broker_offer(o->tag, KUBE_OFFER_MISSING_CLASSES, missing_classes);
        break;
    case KUBE_CREATE:
        last_create = *o;
        break;
    case KUBE_PROVE:
        if (!proof_fails)
            return; /* goes on for as long as the test */
        r.error = ERROR_UNENFORCEABLE;
        break;
    case KUBE_HOLD:
        r.kind = KUBE_HELD;
        r.message[0] = 0;
        break;
    case KUBE_LIST:
        broker_list(o->tag);
        r.error = list_fails ? ERROR_UNAVAILABLE : 0;
        break;
    case KUBE_TAKE:
        p->n_takes++;
        r.error = p->take_error;
        break;
    case KUBE_CLAIM:
        p->n_claims++;
        if (holds_claims)
            return;
        r.error = p->claim_error;
        break;
    case KUBE_MARK:
        p->n_marks++;
        r.error = p->mark_error;
        break;
    case KUBE_CONNECT:
        p->n_connects++;
        r.error = p->answers ? 0 : ERROR_UNAVAILABLE;
        fd = p->answers ? runner_stream(2) : -1;
        break;
    case KUBE_DELETE:
        last_delete = *o;
        if (p)
            p->n_deletes++;
        if (holds_deletes)
            return;
        r.error = p ? p->delete_error : 0;
        break;
    case KUBE_READ:
        p->n_reads++;
        r.error = p->record ? 0 : p->read_error;
        fd = p->record ? record_stream(p->record) : -1;
        break;
    default:
        break;
    }
    broker_send(&r, fd);
    fd_close(&fd);
}

static void on_order(uv_poll_t *handle, int status, int events)
{
    static struct kube_order o;
    int fds[FD_PASS_MAX];
    (void)handle;
    (void)status;
    (void)events;
    if (fd_recv_msg(broker, &o, sizeof(o), fds) == sizeof(o))
        broker_answer(&o);
}

/* --- the sandbox */

static unsigned n_ends, n_starts;
static unsigned n_removed; /* after their end or before it */
static char end_why[512];

static void describe(void *data, struct runtime_record *ret)
{
    *ret =
        (struct runtime_record){.owner = "", .text = data ? xstrdup(data) : NULL, .pooled = !data};
}

static void on_started(void *data, int fd, const struct effective *effective,
                       const struct error *err)
{
    (void)data;
    (void)effective;
    fd_close(&fd);
    n_ends += err != NULL;
    n_starts += err == NULL;
    if (err)
        snprintf(end_why, sizeof(end_why), "%s", err->message);
}

static void on_exited(void *data, const struct runtime_end *end)
{
    (void)data;
    (void)end;
    n_ends++;
}

static void on_removed(void *data, bool certain)
{
    (void)data;
    n_removed += certain;
}

static const struct runtime_events events = {.describe = describe,
                                             .on_started = on_started,
                                             .on_exited = on_exited,
                                             .on_removed = on_removed};

/* --- one control plane after another */

static void on_impatient(uv_timer_t *t)
{
    (void)t;
}

/* Until it holds, or for as long as no working machine takes. */
static bool run_until(bool (*holds)(void))
{
    uv_timer_start(&patience, on_impatient, 30000, 0);
    while (!holds() && uv_is_active((uv_handle_t *)&patience))
        uv_run(&loop, UV_RUN_ONCE);
    uv_timer_stop(&patience);
    return holds();
}

static unsigned n_losses;

static void on_home_lost(void *data)
{
    (void)data;
    n_losses++;
}

static void begin(cluster_found_fn on_found)
{
    static uint64_t generation;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    broker = pair[1];
    fd_set_nonblock(broker, true);
    uv_poll_init(&loop, &poll, broker);
    uv_poll_start(&poll, UV_READABLE, on_order);
    memset(pods, 0, sizeof(pods));
    list_fails = false;
    n_lists = n_ends = n_starts = n_removed = 0;
    end_why[0] = 0;
    struct cluster_options o = {.loop = &loop,
                                .sock = pair[0],
                                .generation = ++generation,
                                .home = "home",
                                .unproven_network = unproven,
                                .on_found = on_found,
                                .on_home_lost = on_home_lost,
                                .pool_spec = pool_spec,
                                .start_ms = 100};
    cluster = cluster_new(&o);
    host = (struct runtime_host){.cluster = cluster};
}

static struct runtime_instance *adopt(const char *id, char *record)
{
    struct error err = {0};
    struct spec spec;
    spec_init(&spec);
    return runtime_kube.adopt(&runtime_kube, &host, id, &spec, &events, record, &err);
}

static bool all_ended(void)
{
    return n_ends > 0;
}

/* A live instance is ended first, because it has timers of its own. */
static void end(struct runtime_instance *in)
{
    if (in && !n_ends) {
        runtime_kube.stop(in);
        run_until(all_ended);
    }
    cluster_close(cluster);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    close(broker);
    while (n_runners)
        close(runners[--n_runners]);
}

static unsigned n_probes; /* that were answered */

static void on_asked(void *data, const struct kube_reply *reply, int fd)
{
    (void)data;
    (void)reply;
    fd_close(&fd);
    n_probes++;
}

/* Until all orders that were sent have come to the broker, and all that it said has come back. */
static void run_round(void)
{
    unsigned before = n_probes;
    cluster_ask(cluster, KUBE_PROBE, "", on_asked, NULL);
    while (n_probes == before)
        uv_run(&loop, UV_RUN_ONCE);
}

static void tell(const char *id, enum kube_phase phase)
{
    struct kube_reply told = {.kind = KUBE_TOLD, .phase = phase};
    snprintf(told.id, sizeof(told.id), "%s", id);
    snprintf(told.uid, sizeof(told.uid), "uid-%s", id);
    snprintf(told.home, sizeof(told.home), "home");
    broker_send(&told, -1);
}

/* --- an adopted pod that is late */

static bool taken_twice(void)
{
    return n_ends || pods[0].n_takes >= 2;
}

static bool listed_twice(void)
{
    return n_ends || n_lists >= 2;
}

#define RECORD "{\"id\":\"sbx-one\",\"owner\":\"\",\"generation\":\"g\"}"

#define RECORD_TWO "{\"id\":\"sbx-two\",\"owner\":\"\",\"generation\":\"g\"}"

static void test_late(void)
{
    begin(NULL);
    pods[0] = (struct pod){
        .id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING, .take_error = ERROR_FORBIDDEN};
    struct runtime_instance *in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    run_until(taken_twice);
    ok(!n_ends && !pods[0].n_deletes,
       "a pod that the role does not let be taken over in time is waited for: %s", end_why);
    end(in);
    ok(pods[0].n_deletes == 1, "and deleted when its sandbox is");

    begin(NULL);
    pods[0] = (struct pod){.id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING};
    list_fails = true;
    in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    run_until(listed_twice);
    ok(!n_ends && !pods[0].n_deletes, "so is one while the API server is away: %s", end_why);
    end(in);
}

/* --- a pod that is still there when its sandbox has ended */

static bool is_removed(void)
{
    return n_removed > 0;
}

static void test_forbidden_delete(void)
{
    begin(NULL);
    pods[0] = (struct pod){
        .id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING, .delete_error = ERROR_FORBIDDEN};
    struct runtime_instance *in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    runtime_kube.stop(in);
    ok(run_until(all_ended) && !n_removed,
       "a sandbox ends whose pod the role does not let be deleted, and is not said to be removed");
    pods[0].delete_error = 0;
    ok(run_until(is_removed) && pods[0].n_deletes == 2, "until it is");
    end(NULL);
}

/* --- pods that no holder knows */

static unsigned n_found;

static int on_found(void *data, const struct cluster_found *found, struct error *err)
{
    (void)data;
    (void)found;
    n_found++;
    return error_set(err, ERROR_CONFLICT, 0, "another sandbox has its name");
}

static bool found_and_helper_gone(void)
{
    return n_found && pods[3].n_deletes;
}

static bool taken_once(void)
{
    return pods[1].n_takes > 0;
}

static int check_spec(struct error *err)
{
    struct spec spec;
    spec_init(&spec);
    spec.image = xstrdup("image");
    error_clear(err);
    int r = runtime_kube.check(&runtime_kube, &host, &spec, err);
    spec_done(&spec);
    return r;
}

static bool is_rebuilt(void)
{
    return cluster_is_rebuilt(cluster);
}

static void test_creates_wait(void)
{
    struct error err = {0};
    begin(on_found);
    pods[0] = (struct pod){.id = "two", .phase = KUBE_POD_RUNNING, .record = RECORD};
    list_fails = true;
    cluster_start(cluster);
    run_until(listed_twice);
    ok(check_spec(&err) < 0 && err.code == ERROR_UNAVAILABLE,
       "nothing is made before the cluster's sandboxes are known: %s", err.message);
    list_fails = false;
    ok(run_until(is_rebuilt) && check_spec(&err) == 0, "and then it is: %s", err.message);
    end(NULL);
}

static void test_strangers(void)
{
    n_found = 0;
    begin(on_found);
    pods[0] =
        (struct pod){.id = "unread", .phase = KUBE_POD_RUNNING, .read_error = ERROR_UNAVAILABLE};
    pods[1] = (struct pod){
        .id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING, .take_error = ERROR_UNAVAILABLE};
    pods[2] = (struct pod){.id = "large", .phase = KUBE_POD_RUNNING, .read_error = ERROR_TOO_LARGE};
    pods[3] =
        (struct pod){.id = "helper", .phase = KUBE_POD_RUNNING, .record = "{\"helper\":true}"};
    pods[4] = (struct pod){.id = "silent", .phase = KUBE_POD_RUNNING, .record = ""};
    pods[5] = (struct pod){.id = "two", .phase = KUBE_POD_RUNNING, .record = RECORD};
    struct runtime_instance *in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    ok(run_until(taken_once), "a pod that has a row does not wait for a stranger");
    ok(pods[0].n_reads < 2, "which is read meanwhile");
    ok(run_until(found_and_helper_gone), "one that cannot be read keeps no other from being known");
    ok(pods[2].n_reads == 1, "what is too large is not read again");
    for (size_t i = 0; i < PODS_MAX; i++)
        if (i != 3)
            ok(!pods[i].n_deletes, "pod %s is not deleted", pods[i].id);
    end(in);
}

/* --- deletions that are old */

static void tell_home(bool anothers)
{
    struct kube_reply r = {.kind = KUBE_HELD, .error = anothers ? ERROR_UNAVAILABLE : 0};
    snprintf(r.reason, sizeof(r.reason), "%s", anothers ? KUBE_REASON_OTHER : "");
    broker_send(&r, -1);
}

static bool is_held(void)
{
    return cluster_is_held(cluster);
}

static bool taken_first(void)
{
    return n_ends || pods[0].n_takes > 0;
}

/* Of a control plane that has had the home, and of no other. */
static void test_home_is_anothers(void)
{
    n_losses = 0;
    begin(on_found);
    cluster_start(cluster);
    run_until(is_held);
    struct kube_reply late = {.kind = KUBE_HELD, .error = ERROR_UNAVAILABLE};
    broker_send(&late, -1);
    run_round();
    ok(!n_losses, "a home that is only not renewed in time is not another's");
    tell_home(true);
    run_round();
    ok(n_losses == 1, "that another control plane has it is said once: %u", n_losses);
    end(NULL);
}

/* What is deleted is what was meant when that was ordered. */
static void test_old_deletes(void)
{
    begin(NULL);
    pods[0] = (struct pod){.id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING};
    struct runtime_instance *in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    run_until(taken_first);
    run_round();
    end(in);
    ok(last_delete.generation == 2 && strcmp(last_delete.uid, "uid-one") == 0,
       "a deletion has the generation and the uid of its pod: %s", last_delete.uid);

    begin(on_found);
    cluster_start(cluster);
    run_until(is_held);
    pods[0] = (struct pod){.id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING};
    struct kube_reply lost = {.kind = KUBE_HELD, .error = ERROR_UNAVAILABLE};
    broker_send(&lost, -1);
    run_round();
    cluster_discard(cluster, "one");
    tell_home(true);
    run_round();
    tell_home(false);
    run_until(is_held);
    run_round();
    run_round();
    ok(!pods[0].n_deletes, "one that waited while another control plane had the home is dropped");
    end(NULL);
}

/* --- pods that are made ahead */

static unsigned n_members;

static int on_member_found(void *data, const struct cluster_found *found, struct error *err)
{
    (void)data;
    (void)err;
    n_members += found->pooled;
    return 1;
}

static bool one_stale_deleted(void)
{
    return pods[1].n_deletes + pods[2].n_deletes > 0;
}

static void test_members(void)
{
    struct spec spec;
    char record[POOL_RECORD_SIZE], stale[POOL_RECORD_SIZE];
    spec_init(&spec);
    spec.image = xstrdup("image");
    pool_spec = &spec;
    begin(on_member_found);
    pool_record_format(cluster_options(cluster), &spec, record);
    spec.limits.memory_bytes = 64 << 20;
    pool_record_format(cluster_options(cluster), &spec, stale);
    spec.limits.memory_bytes = 0;
    ok(strcmp(record, stale) != 0, "what a pod made ahead says depends on its spec: %s", record);
    pods[0] = (struct pod){.id = "fresh", .record = record, .phase = KUBE_POD_RUNNING};
    pods[1] = (struct pod){.id = "stale", .record = stale, .phase = KUBE_POD_RUNNING};
    pods[2] = (struct pod){.id = "too", .record = stale, .phase = KUBE_POD_RUNNING};
    holds_deletes = true;
    cluster_start(cluster);
    ok(run_until(is_rebuilt) && n_members == 1, "one that is what the pool is made of is found");
    ok(run_until(one_stale_deleted) && pods[1].n_deletes + pods[2].n_deletes == 1,
       "others are deleted, one after the other");
    ok(!pods[0].n_deletes, "the first one is not");
    run_until(listed_twice);
    run_round();
    run_round(); /* what the list leads to */
    ok(pods[1].n_deletes + pods[2].n_deletes == 1, "also when they are listed again");
    end(NULL);
    holds_deletes = false;
    pool_spec = NULL;
    spec_done(&spec);
}

static unsigned n_answers;
static enum error_code claim_answer;

static void on_claimed(void *data, const struct error *err)
{
    (void)data;
    n_answers++;
    claim_answer = err ? err->code : ERROR_NONE;
}

static bool is_answered(void)
{
    return n_answers > 0;
}

static struct runtime_instance *adopt_member(char record[POOL_RECORD_SIZE])
{
    struct spec spec;
    spec_init(&spec);
    spec.image = xstrdup("image");
    pool_record_format(cluster_options(cluster), &spec, record);
    struct error err = {0};
    struct runtime_instance *in =
        runtime_kube.adopt(&runtime_kube, &host, "sbx-one", &spec, &events, NULL, &err);
    spec_done(&spec);
    return in;
}

static bool read_once(void)
{
    return n_ends || pods[0].n_takes > 0;
}

static void test_claims(void)
{
    static const struct {
        enum error_code error;
        bool gone, deleted;
        const char *what;
    } cases[] = {{ERROR_NONE, false, false, "a claim is granted"},
                 {ERROR_CONFLICT, true, false, "what another one has is left to it"},
                 {ERROR_NOT_FOUND, true, true, "what is gone is not waited for"},
                 {ERROR_FORBIDDEN, true, true, "nor is what may not be written to"},
                 {ERROR_UNAVAILABLE, false, false, "of any other failure the sandbox hears"}};
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        char record[POOL_RECORD_SIZE];
        begin(NULL);
        struct runtime_instance *in = adopt_member(record);
        pods[0] = (struct pod){.id = "one",
                               .record = record,
                               .phase = KUBE_POD_RUNNING,
                               .claim_error = cases[i].error};
        cluster_start(cluster);
        ok(run_until(read_once) && !n_ends, "a pod made ahead is taken over");
        n_answers = 0;
        ok(runtime_kube.claim(in, on_claimed, NULL, &err) == 0 && run_until(is_answered) &&
               claim_answer == cases[i].error && n_removed == cases[i].gone && !n_ends,
           "%s", cases[i].what);
        run_round();
        ok(pods[0].n_claims == 1 && pods[0].n_deletes == cases[i].deleted,
           "by one order, and what is left of it is deleted unless another one has it");
        end(cases[i].gone ? NULL : in);
    }
}

static bool is_started(void)
{
    return n_ends || n_starts;
}

static bool marked_once(void)
{
    return n_ends || pods[0].n_marks > 0;
}

static bool connected_once(void)
{
    return n_ends || pods[0].n_connects > 0;
}

static struct runtime_instance *begin_member(struct pod pod)
{
    static char record[POOL_RECORD_SIZE];
    begin(NULL);
    struct runtime_instance *in = adopt_member(record);
    pods[0] = pod;
    pods[0].id = "one";
    pods[0].record = record;
    cluster_start(cluster);
    return in;
}

/* What a pod made ahead is held to before it has a caller. */
static void test_adopted_members(void)
{
    unproven = false;
    proof_fails = true;
    begin_member((struct pod){.phase = KUBE_POD_RUNNING, .answers = true});
    ok(run_until(is_started) && n_ends && strstr(end_why, "network cannot be enforced"),
       "one whose network wall is not proven is not given to a caller: %s", end_why);
    ok(run_until(is_removed), "and deleted");
    end(NULL);
    proof_fails = false;
    unproven = true;

    struct runtime_instance *in = begin_member((struct pod){.phase = KUBE_POD_PENDING});
    ok(run_until(read_once), "one that is pending is taken over");
    run_round();
    run_round();
    ok(!pods[0].n_connects, "and not connected to");
    tell("one", KUBE_POD_RUNNING);
    ok(run_until(connected_once) && !n_ends, "until it runs: %s", end_why);
    end(in);

    begin_member((struct pod){.phase = KUBE_POD_RUNNING, .answers = true});
    ok(run_until(is_started) && !n_ends, "one starts: %s", end_why);
    tell("one", KUBE_POD_ENDING);
    ok(run_until(all_ended), "one that is being deleted is not the pool's any more");
    run_until(is_removed);
    end(NULL);
}

static bool is_member_found(void)
{
    return n_members > 0;
}

/* What another control plane did with them is not known. */
static void test_home_lost(void)
{
    static char record[POOL_RECORD_SIZE];
    struct spec spec;
    spec_init(&spec);
    spec.image = xstrdup("image");
    pool_spec = &spec;
    n_members = 0;
    begin(on_member_found);
    adopt_member(record);
    pods[0] =
        (struct pod){.id = "one", .record = record, .phase = KUBE_POD_RUNNING, .answers = true};
    pods[1] = (struct pod){.id = "two", .record = RECORD_TWO, .phase = KUBE_POD_RUNNING};
    struct runtime_instance *own = adopt("sbx-two", (char *)RECORD_TWO);
    cluster_start(cluster);
    ok(run_until(is_started) && !n_ends && !n_members, "a pod made ahead is there: %s", end_why);
    struct kube_reply lost = {.kind = KUBE_HELD, .error = ERROR_UNAVAILABLE};
    broker_send(&lost, -1);
    run_round();
    ok(!n_ends, "while the Lease is not renewed, it is kept");
    tell_home(true);
    ok(run_until(all_ended) && n_ends == 1 && n_removed == 1,
       "once another control plane has the home, it is forgotten, and what has a caller is not");
    tell_home(false);
    ok(run_until(is_member_found) && n_members == 1, "when the home is back, it is found anew");
    run_round();
    ok(!pods[0].n_deletes, "and was never deleted");
    n_ends = 0;
    end(own);
    pool_spec = NULL;
    spec_done(&spec);
}

static void test_member_ends(void)
{
    struct error err = {0};
    struct runtime_instance *in =
        begin_member((struct pod){.phase = KUBE_POD_RUNNING, .answers = true});
    ok(run_until(is_started) && !n_ends, "a pod made ahead is there: %s", end_why);
    n_answers = 0;
    holds_claims = true;
    ok(runtime_kube.claim(in, on_claimed, NULL, &err) == 0, "it is claimed");
    run_round();
    tell("one", KUBE_POD_ENDED);
    ok(run_until(is_answered) && claim_answer == ERROR_NOT_FOUND && !n_ends,
       "and ends before that is answered, which is the answer");
    run_round();
    ok(pods[0].n_deletes == 1, "it is deleted");
    holds_claims = false;
    end(NULL);
}

/* When the next mark is due is all that is on the loop's clock then. */
static void test_marks_fail(void)
{
    struct runtime_instance *in = begin_member(
        (struct pod){.phase = KUBE_POD_RUNNING, .answers = true, .mark_error = ERROR_FORBIDDEN});
    ok(run_until(marked_once) && !n_ends, "a pod made ahead is marked: %s", end_why);
    run_round();
    while (uv_backend_timeout(&loop) == 0)
        uv_run(&loop, UV_RUN_NOWAIT);
    ok(uv_backend_timeout(&loop) > 5000, "where that is refused, it is not tried again at once: %d",
       uv_backend_timeout(&loop));
    end(in);
}

/* --- RuntimeClasses */

static void spec_begin(struct spec *spec, const struct runtime_ops *ops)
{
    spec_init(spec);
    spec->image = xstrdup("image");
    free(spec->runtime);
    spec->runtime = xstrdup(ops->name);
}

static void expect_class(const struct runtime_ops *ops, const char *words)
{
    struct error err = {0};
    struct spec spec;
    struct runtime_report report;
    spec_begin(&spec, ops);
    int r = ops->check(ops, &host, &spec, &err);
    ops->probe(ops, &host, &report);
    ok(words ? r < 0 && err.code == ERROR_UNSUPPORTED && strstr(err.message, words) : r == 0,
       "%s %s: %s", ops->name, words ? "is refused" : "can be had", err.message);
    ok(report.available == !words && (!words || strstr(report.why, words)),
       "and so it is shown: %s", report.why);
    spec_done(&spec);
}

static bool is_created(void)
{
    return n_ends || last_create.op;
}

static void test_classes(void)
{
    struct spec spec;
    struct error err = {0};
    classes = "gvisor, kata";
    missing_classes = "kata";
    begin(NULL);
    cluster_start(cluster);
    run_until(is_rebuilt);
    run_round();
    expect_class(&runtime_kube, NULL);
    expect_class(&runtime_kube_gvisor, NULL);
    expect_class(&runtime_kube_kata, "'kata', which the cluster does not have");
    memset(&last_create, 0, sizeof(last_create));
    pods[0] = (struct pod){.id = "new", .phase = KUBE_POD_PENDING};
    spec_begin(&spec, &runtime_kube_gvisor);
    struct runtime_instance *in = runtime_kube_gvisor.start(&runtime_kube_gvisor, &host, "sbx-new",
                                                            &spec, &events, (char *)RECORD, &err);
    ok(in && run_until(is_created) && strcmp(last_create.runtime_class, "gvisor") == 0,
       "a pod is ordered with its RuntimeClass: %s %s", last_create.runtime_class, err.message);
    spec_done(&spec);
    run_round();
    end(in);

    classes = "gvisors";
    begin(NULL);
    cluster_start(cluster);
    run_until(is_rebuilt);
    run_round();
    expect_class(&runtime_kube, NULL);
    expect_class(&runtime_kube_gvisor, "'gvisor', which the operator does not allow");
    end(NULL);
    classes = missing_classes = "";
}

/* A class is a name: what it starts is seen inside. */
static void test_kernels(void)
{
    static const enum walls_kernel kernels[] = {WALLS_KERNEL_ANY, WALLS_KERNEL_KATA,
                                                WALLS_KERNEL_GVISOR};
    for (size_t i = 0; i < ELEMENTS(kernels); i++) {
        struct spec spec;
        struct error err = {0};
        bool good = kernels[i] == WALLS_KERNEL_GVISOR;
        kernel = kernels[i];
        begin(NULL);
        pods[0] =
            (struct pod){.id = "one", .record = RECORD, .phase = KUBE_POD_RUNNING, .answers = true};
        spec_begin(&spec, &runtime_kube_gvisor);
        struct runtime_instance *in = runtime_kube_gvisor.adopt(
            &runtime_kube_gvisor, &host, "sbx-one", &spec, &events, (char *)RECORD, &err);
        cluster_start(cluster);
        run_until(is_started);
        ok(good ? n_starts == 1 : n_ends && strstr(end_why, "its kernel is not that of"),
           "kernel %d is %sthat of kube-gvisor: %s", kernels[i], good ? "" : "not ", end_why);
        spec_done(&spec);
        if (!good)
            run_until(is_removed);
        end(good ? in : NULL);
    }
    kernel = WALLS_KERNEL_ANY;
}

/* --- a pod that has a sandbox, and says that it is still the pool's */

static bool claimed_twice(void)
{
    return n_ends || pods[0].n_claims >= 2;
}

static void begin_unclaimed(enum error_code claim_error)
{
    static char record[POOL_RECORD_SIZE];
    struct spec spec;
    spec_init(&spec);
    begin(NULL);
    pool_record_format(cluster_options(cluster), &spec, record);
    spec_done(&spec);
    pods[0] = (struct pod){.id = "one",
                           .record = record,
                           .phase = KUBE_POD_RUNNING,
                           .claim_error = claim_error,
                           .answers = true};
}

static void test_unclaimed(void)
{
    begin_unclaimed(ERROR_UNAVAILABLE);
    struct runtime_instance *in = adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    ok(run_until(claimed_twice) && !n_ends && !pods[0].n_connects,
       "no command runs in a pod that says it is the pool's before its claim is written");
    pods[0].claim_error = ERROR_NONE;
    ok(run_until(is_started) && !n_ends && pods[0].n_connects, "and then they do: %s", end_why);
    end(in);

    begin_unclaimed(ERROR_CONFLICT);
    adopt("sbx-one", (char *)RECORD);
    cluster_start(cluster);
    ok(run_until(all_ended) && !pods[0].n_connects, "one that has another caller is not touched");
    tell("one", KUBE_POD_RUNNING);
    run_round();
    ok(!pods[0].n_deletes, "nor deleted");
    end(NULL);
}

/* --- a pod that has the name of another */

static void test_another_ones(void)
{
    static const char *const records[] = {
        "{\"id\":\"sbx-one\",\"owner\":\"other\",\"generation\":\"g\"}",
        "{\"id\":\"sbx-one\",\"owner\":\"\",\"generation\":\"later\"}",
        "{\"id\":\"sbx-another\",\"owner\":\"\",\"generation\":\"g\"}",
        "",
    };
    for (size_t i = 0; i < ELEMENTS(records); i++) {
        begin(NULL);
        pods[0] = (struct pod){.id = "one", .record = records[i], .phase = KUBE_POD_RUNNING};
        adopt("sbx-one", (char *)RECORD);
        cluster_start(cluster);
        ok(run_until(all_ended) && strstr(end_why, "another sandbox's"),
           "a pod that says it is '%s' is not taken over: %s", records[i], end_why);
        tell("one", KUBE_POD_RUNNING);
        run_round();
        ok(!pods[0].n_takes && !pods[0].n_deletes, "and not deleted when it is told of");
        end(NULL);
    }
}

int main(void)
{
    uv_loop_init(&loop);
    uv_timer_init(&loop, &patience);
    test_late();
    test_forbidden_delete();
    test_old_deletes();
    test_strangers();
    test_members();
    test_claims();
    test_adopted_members();
    test_home_lost();
    test_member_ends();
    test_marks_fail();
    test_classes();
    test_kernels();
    test_unclaimed();
    test_another_ones();
    test_home_is_anothers();
    test_creates_wait();
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return tap_done();
}
