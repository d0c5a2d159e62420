/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's side of runtime kube against a broker that answers as the test says: what
 * becomes of pods of an earlier control plane. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "proto/kube.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/kube.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"
#include "tests/unit/tap.h"

#define EPOCH    7
#define PODS_MAX 6

struct pod {
    const char *id;     /* as orders have it */
    const char *record; /* that KUBE_READ answers with; NULL: read_error */
    enum error_code read_error, take_error;
    enum kube_phase phase;
    unsigned n_reads, n_takes, n_deletes;
};

static uv_loop_t loop;
static uv_poll_t poll;
static uv_timer_t patience;
static int broker;
static struct pod pods[PODS_MAX];
static bool list_fails; /* the API server is away */
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

static void broker_answer(const struct kube_order *o)
{
    struct kube_reply r = {.kind = KUBE_ANSWERED, .tag = o->tag, .generation = 2};
    struct pod *p = find_pod(o->id);
    int fd = -1;
    snprintf(r.message, sizeof(r.message), "it is tried");
    switch (o->op) {
    case KUBE_PROVE:
        return; /* goes on for as long as the test */
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
    case KUBE_CONNECT:
        r.error = ERROR_UNAVAILABLE;
        break;
    case KUBE_DELETE:
        if (p)
            p->n_deletes++;
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

static unsigned n_ends;
static char end_why[512];

static void describe(void *data, struct runtime_record *ret)
{
    *ret = (struct runtime_record){.owner = "", .text = xstrdup(data)};
}

static void on_started(void *data, int fd, const struct effective *effective,
                       const struct error *err)
{
    (void)data;
    (void)effective;
    fd_close(&fd);
    n_ends += err != NULL;
    if (err)
        snprintf(end_why, sizeof(end_why), "%s", err->message);
}

static void on_exited(void *data, const struct runtime_end *end)
{
    (void)data;
    (void)end;
    n_ends++;
}

static const struct runtime_events events = {
    .describe = describe, .on_started = on_started, .on_exited = on_exited};

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
    n_lists = n_ends = 0;
    end_why[0] = 0;
    struct cluster_options o = {.loop = &loop,
                                .sock = pair[0],
                                .generation = ++generation,
                                .home = "home",
                                .unproven_network = true,
                                .on_found = on_found,
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
}

static unsigned n_probes; /* that were answered */

static void on_asked(void *data, const struct kube_reply *reply, int fd)
{
    (void)data;
    (void)reply;
    fd_close(&fd);
    n_probes++;
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
        struct kube_reply told = {.kind = KUBE_TOLD, .phase = KUBE_POD_RUNNING};
        snprintf(told.id, sizeof(told.id), "one");
        snprintf(told.home, sizeof(told.home), "home");
        broker_send(&told, -1);
        unsigned before = n_probes;
        cluster_ask(cluster, KUBE_PROBE, "", on_asked, NULL);
        while (n_probes == before)
            uv_run(&loop, UV_RUN_ONCE);
        ok(!pods[0].n_takes && !pods[0].n_deletes, "and not deleted when it is told of");
        end(NULL);
    }
}

int main(void)
{
    uv_loop_init(&loop);
    uv_timer_init(&loop, &patience);
    test_late();
    test_strangers();
    test_another_ones();
    test_creates_wait();
    uv_close((uv_handle_t *)&patience, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return tap_done();
}
