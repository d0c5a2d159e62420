/* SPDX-License-Identifier: Apache-2.0 */
/* The broker, given orders over its socket, against a server that keeps objects as an API server
 * does and refuses with what a real one has said. What reaches the cluster, in which order, and
 * what is left after a failure is looked at there. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "kube/access.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/client.h"
#include "kube/direct.h"
#include "kube/route.h"
#include "kube/manifest.h"
#include "proto/kube.h"
#include "tests/unit/kube-exchange.h"
#include "tests/unit/kube-server.h"
#include "tests/unit/tap.h"

#define OBJECTS_MAX 64
#define MIB         (1ull << 20)

static struct exchanges answers, execs;
static struct server server;

/* --- the objects of a cluster */

struct cluster {
    pthread_mutex_t lock;
    char *paths[OBJECTS_MAX], *bodies[OBJECTS_MAX];
    size_t n;
    char log[4000]; /* "POST /path " of every write */
    int posts;
    /* What the next POST to a path that holds this gets instead; times. */
    const char *fault_path, *fault;
    int fault_times;
    bool fault_after;   /* it is carried out, and only its answer is lost */
    bool no_rights;     /* reviews say no */
    const char *denied; /* of which resource; NULL: all */
    bool quota_full, no_class;
    char quota[300]; /* the list of quotas in place of that; "": none */
    bool exec_opens; /* into a link that takes nothing until link_ends is posted */
    int execs;
    sem_t link_ends;
    char link_line[200]; /* what the log of the link begins with; "": the pod has no address */
    int lookups;
    bool patch_conflicts;
    int lists, deletes;                    /* of policies that are shared, and of anything */
    const char *lists_fail, *deletes_fail; /* what those get instead; NULL */
    bool foreign;                          /* the namespace of the pod that is ours is another's */
};

static struct cluster cluster = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *answer_with(const char *code, const char *body, size_t *ret_len)
{
    char *text = xasprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu"
                           "\r\n\r\n%s",
                           code, strlen(body), body);
    *ret_len = strlen(text);
    return text;
}

/* It was carried out, and the connection breaks in the answer. */
static char *answer_half(size_t *ret_len)
{
    char *text =
        xstrdup("HTTP/1.1 201 Created\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{");
    *ret_len = strlen(text);
    return text;
}

static char *answer_recorded(const char *name, size_t *ret_len)
{
    const struct exchange *x = exchange_find(&answers, name);
    char *copy = xcalloc(1, x->len + 1);
    memcpy(copy, x->bytes, x->len);
    *ret_len = x->len;
    return copy;
}

static int find_object(const char *path)
{
    for (size_t i = 0; i < cluster.n; i++)
        if (strcmp(cluster.paths[i], path) == 0)
            return (int)i;
    return -1;
}

static void put_object(const char *path, const char *body)
{
    struct error err = {0};
    _cleanup_json_ json_t *o = json_parse(body, strlen(body), &err);
    char uid[20];
    snprintf(uid, sizeof(uid), "uid-%zu", cluster.n);
    json_object_set_new(json_object_get(o, "metadata"), "uid", json_string(uid));
    cluster.paths[cluster.n] = xstrdup(path);
    cluster.bodies[cluster.n++] = json_dumps(o, JSON_COMPACT);
}

static void remove_below(const char *path)
{
    size_t kept = 0;
    for (size_t i = 0; i < cluster.n; i++) {
        const char *rest = strstr(cluster.paths[i], path + strlen("/api/v1"));
        bool below = rest && (rest[strlen(path) - 7] == 0 || rest[strlen(path) - 7] == '/');
        if (below) {
            free(cluster.paths[i]);
            free(cluster.bodies[i]);
        } else {
            cluster.paths[kept] = cluster.paths[i];
            cluster.bodies[kept++] = cluster.bodies[i];
        }
    }
    cluster.n = kept;
}

static char *answer_review(const char *body, size_t *ret_len)
{
    char resource[80];
    const char *denied = cluster.denied; /* the test may set it meanwhile */
    snprintf(resource, sizeof(resource), "\"resource\":\"%s\"", denied ? denied : "");
    bool no = cluster.no_rights && (!denied || strstr(body, resource));
    return answer_with("201 Created",
                       no ? "{\"status\":{\"allowed\":false}}" : "{\"status\":{\"allowed\":true}}",
                       ret_len);
}

static char *answer_post(char *path, const char *body, size_t *ret_len)
{
    struct error err = {0};
    if (strstr(path, "selfsubjectaccessreviews"))
        return answer_review(body, ret_len);
    cluster.posts++;
    snprintf(cluster.log + strlen(cluster.log), sizeof(cluster.log) - strlen(cluster.log),
             "POST %s ", path);
    bool fault = cluster.fault_times && strstr(path, cluster.fault_path);
    if (fault && !cluster.fault_after) {
        cluster.fault_times--;
        return answer_recorded(cluster.fault, ret_len);
    }
    _cleanup_json_ json_t *o = json_parse(body, strlen(body), &err);
    char *whole = xasprintf("%.*s/%s", (int)strcspn(path, "?"), path,
                            json_member_text(json_object_get(o, "metadata"), "name"));
    int at = find_object(whole);
    if (at < 0)
        put_object(whole, body);
    free(whole);
    if (fault) {
        cluster.fault_times--;
        return answer_half(ret_len);
    }
    if (at >= 0)
        return answer_recorded("02-ns-create-again-409", ret_len);
    return answer_with("201 Created", cluster.bodies[cluster.n - 1], ret_len);
}

/* A merge patch of metadata, as far as the broker sends one. */
static char *answer_patch(const char *path, const char *body, size_t *ret_len)
{
    struct error err = {0};
    int at = find_object(path);
    snprintf(cluster.log + strlen(cluster.log), sizeof(cluster.log) - strlen(cluster.log),
             "PATCH %s ", path);
    if (at < 0)
        return answer_recorded("03-pod-get-404", ret_len);
    if (cluster.patch_conflicts)
        return answer_with(
            "409 Conflict",
            "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"the object has "
            "been modified\",\"reason\":\"Conflict\",\"code\":409}",
            ret_len);
    _cleanup_json_ json_t *patch = json_parse(body, strlen(body), &err);
    _cleanup_json_ json_t *o = json_parse(cluster.bodies[at], strlen(cluster.bodies[at]), &err);
    json_object_update_recursive(o, patch);
    free(cluster.bodies[at]);
    cluster.bodies[at] = json_dumps(o, JSON_COMPACT);
    return answer_with("200 OK", cluster.bodies[at], ret_len);
}

#define POD(space, name, id, home, phase)                                                          \
    "{\"metadata\":{\"namespace\":\"" space "\",\"name\":\"" name "\",\"uid\":\"u-" space name     \
    "\",\"resourceVersion\":\"1\",\"labels\":{\"mas-sandbox/id\":\"" id                            \
    "\"},\"annotations\":{\"mas-sandbox/home\":\"" home "\"}},\"status\":{\"phase\":\"" phase      \
    "\"}}"

/* The first is ours, and the second another control plane's; the others have our labels. */
static const char pod_list[] =
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},"
    "\"items\":[" POD("sbx-own", KUBE_POD_NAME, "own", "one", "Running") "," POD(
        "sbx-theirs", KUBE_POD_NAME, "theirs", "two",
        "Pending") "," POD("elsewhere", KUBE_POD_NAME, "own", "one",
                           "Failed") "," POD("sbx-own", "other", "own", "one",
                                             "Failed") "," POD("elsewhere", "x", "more", "one",
                                                               "Running") "]}";

static const char own_namespace[] =
    "{\"metadata\":{\"labels\":{\"app.kubernetes.io/managed-by\":\"mas-sandbox\","
    "\"mas-sandbox/instance\":\"one\",\"mas-sandbox/id\":\"own\"},"
    "\"annotations\":{\"mas-sandbox/home\":\"one\"}}}";

/* Of a namespace that is shared: one pod, which has the first policy. */
#define SHARED_POLICIES "/apis/networking.k8s.io/v1/namespaces/all/networkpolicies"
#define USED_SUM        "0123456789abcdef"
static const char shared_pods[] =
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"metadata\":{"
    "\"namespace\":\"all\",\"name\":\"sbx-s1\",\"uid\":\"u-s1\",\"resourceVersion\":\"1\","
    "\"labels\":{\"mas-sandbox/id\":\"s1\",\"mas-sandbox/net\":\"" USED_SUM "\"}}}]}";

static char *answer_policies(size_t *ret_len)
{
    struct error err = {0};
    _cleanup_json_ json_t *list = json_pack("{s:[]}", "items");
    cluster.lists++;
    if (cluster.lists_fail)
        return answer_with(cluster.lists_fail, "", ret_len);
    for (size_t i = 0; i < cluster.n; i++)
        if (strncmp(cluster.paths[i], SHARED_POLICIES, strlen(SHARED_POLICIES)) == 0)
            json_array_append_new(json_object_get(list, "items"),
                                  json_parse(cluster.bodies[i], strlen(cluster.bodies[i]), &err));
    _cleanup_free_ char *text = json_dumps(list, JSON_COMPACT);
    return answer_with("200 OK", text, ret_len);
}

static char *answer_get(const char *path, size_t *ret_len)
{
    if (strstr(path, "/namespaces/all/pods?"))
        return answer_with("200 OK",
                           strstr(path, "watch=")              ? ""
                           : strstr(path, "mas-sandbox%2Fnet") ? "{\"items\":[]}"
                                                               : shared_pods,
                           ret_len);
    if (strstr(path, SHARED_POLICIES "?"))
        return answer_policies(ret_len);
    if (strncmp(path, "/version", 8) == 0)
        return answer_recorded("00-version", ret_len);
    if (strstr(path, "/api/v1/pods?"))
        return strstr(path, "watch=") ? answer_with("200 OK", "", ret_len)
                                      : answer_with("200 OK", pod_list, ret_len);
    if (strstr(path, "/api/v1/namespaces?"))
        return answer_with("200 OK",
                           "{\"items\":[{\"metadata\":{\"name\":\"sbx-own\"}},"
                           "{\"metadata\":{\"name\":\"elsewhere\"}},"
                           "{\"metadata\":{\"name\":\"sbx-bare\"}}]}",
                           ret_len);
    if (strstr(path, "/resourcequotas") && cluster.quota[0])
        return answer_with("200 OK", cluster.quota, ret_len);
    if (strstr(path, "/resourcequotas"))
        return answer_with("200 OK",
                           cluster.quota_full
                               ? "{\"items\":[{\"status\":{\"hard\":{\"pods\":\"2\",\"limits."
                                 "memory\":\"1Gi\"},\"used\":{\"pods\":\"2\",\"limits.memory\":"
                                 "\"0\"}}}]}"
                               : "{\"items\":[{\"status\":{\"hard\":{\"pods\":\"2\"},\"used\":{"
                                 "\"pods\":\"1\"}}}]}",
                           ret_len);
    if (strstr(path, "/runtimeclasses/"))
        return cluster.no_class ? answer_recorded("03-pod-get-404", ret_len)
                                : answer_with("200 OK", "{\"metadata\":{}}", ret_len);
    if (strstr(path, "/pods/" KUBE_POD_NAME "/log?container=link&limitBytes="))
        return answer_with("200 OK", cluster.link_line, ret_len);
    if (strcmp(path, "/api/v1/namespaces/sbx-own/pods/" KUBE_POD_NAME) == 0) {
        cluster.lookups++;
        return answer_with("200 OK",
                           cluster.link_line[0] ? "{\"status\":{\"podIP\":\"127.0.0.1\"}}"
                                                : "{\"status\":{}}",
                           ret_len);
    }
    if (strcmp(path, "/api/v1/namespaces/sbx-own") == 0)
        return answer_with("200 OK", cluster.foreign ? "{\"metadata\":{}}" : own_namespace,
                           ret_len);
    int at = find_object(path);
    return at < 0 ? answer_recorded("03-pod-get-404", ret_len)
                  : answer_with("200 OK", cluster.bodies[at], ret_len);
}

static char *answer_open(const char *head, size_t *ret_len)
{
    char key[25] = "";
    const char *at = strcasestr(head, "Sec-WebSocket-Key: ");
    snprintf(key, sizeof(key), "%.24s", at ? at + strlen("Sec-WebSocket-Key: ") : "");
    return exchange_upgrade(exchange_find(&execs, "70-kubelet-down-exec-v5"), key, ret_len);
}

static char *serve(void *data, const char *head, size_t *ret_len)
{
    char method[16], path[2000], *answer = NULL;
    const char *body = strstr(head, "\r\n\r\n");
    (void)data;
    if (cluster.exec_opens && strncmp(head, "GET ", 4) != 0 && strncmp(head, "POST ", 5) != 0) {
        sem_wait(&cluster.link_ends); /* these are frames for the link */
        return NULL;
    }
    if (sscanf(head, "%15s %1999s", method, path) != 2)
        return NULL;
    pthread_mutex_lock(&cluster.lock);
    if (strstr(path, "/exec?")) {
        cluster.execs++;
        answer = cluster.exec_opens ? answer_open(head, ret_len)
                                    : answer_recorded("39-exec-missing-pod-404", ret_len);
    } else if (strcmp(method, "POST") == 0) {
        answer = answer_post(path, body + 4, ret_len);
    } else if (strcmp(method, "DELETE") == 0) {
        snprintf(cluster.log + strlen(cluster.log), sizeof(cluster.log) - strlen(cluster.log),
                 "DELETE %s %s ", path, strstr(body, "\"uid\"") ? "uid" : "");
        cluster.deletes++;
        if (!cluster.deletes_fail)
            remove_below(path);
        answer = cluster.deletes_fail
                     ? answer_with(cluster.deletes_fail, "", ret_len)
                     : answer_with("200 OK", "{\"kind\":\"Namespace\",\"metadata\":{}}", ret_len);
    } else if (strcmp(method, "PATCH") == 0) {
        answer = answer_patch(path, body + 4, ret_len);
    } else {
        answer = answer_get(path, ret_len);
    }
    pthread_mutex_unlock(&cluster.lock);
    return answer;
}

/* A thread may still be answering what the broker does not wait for. */
static void reset_cluster(void)
{
    pthread_mutex_lock(&cluster.lock);
    for (size_t i = 0; i < cluster.n; i++) {
        free(cluster.paths[i]);
        free(cluster.bodies[i]);
    }
    cluster.n = 0;
    cluster.log[0] = 0;
    cluster.posts = cluster.fault_times = 0;
    cluster.no_rights = cluster.quota_full = cluster.no_class = cluster.fault_after = false;
    cluster.denied = NULL;
    cluster.quota[0] = 0;
    cluster.exec_opens = false;
    cluster.execs = cluster.lookups = cluster.lists = cluster.deletes = 0;
    cluster.lists_fail = cluster.deletes_fail = NULL;
    pthread_mutex_unlock(&cluster.lock);
}

/* --- the control plane's side */

static uv_loop_t loop;
static int sock;
static bool ended;
static uint64_t tag;
static struct kube_reply listed, bare; /* the last that has a pod, and that has none */
static size_t n_listed;

/* Only a create says what its pod is. */
static struct kube_order plain_order(uint32_t op)
{
    struct kube_order any = {.version = KUBE_VERSION, .op = op, .tag = ++tag};
    if (op != KUBE_PROBE && op != KUBE_LIST)
        strcpy(any.id, "a1");
    if (op == KUBE_CREATE || op == KUBE_TAKE || op == KUBE_PROVE)
        strcpy(any.home, "one"); /* the instance, where the settings name no home */
    if (op != KUBE_CREATE)
        return any;
    struct kube_order o = {.version = KUBE_VERSION,
                           .op = op,
                           .tag = any.tag,
                           .cpu_millicores = 500,
                           .memory_bytes = 256 * MIB,
                           .tmp_bytes = 16 * MIB,
                           .home_bytes = 16 * MIB,
                           .generation = 1,
                           .workspace = {.bytes = 64 * MIB},
                           .cache = {.bytes = 32 * MIB}};
    strcpy(o.id, "a1");
    strcpy(o.home, any.home);
    strcpy(o.image, "docker.example/base:12");
    return o;
}

static bool take_reply(struct kube_reply *ret, int *ret_fd)
{
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(sock, ret, sizeof(*ret), fds);
    if (n <= 0)
        return false;
    *ret_fd = fds[0];
    return true;
}

static uint64_t answered[256]; /* tags, in turns */
static size_t n_answered;
static char offers[_KUBE_OFFER_MAX][KUBE_MESSAGE_SIZE];

static bool was_answered(uint64_t wanted)
{
    for (size_t i = 0; i < ELEMENTS(answered); i++)
        if (answered[i] == wanted)
            return true;
    return false;
}

static struct kube_reply await_reply(uint64_t wanted)
{
    struct kube_reply r = {0};
    int fd = -1;
    for (;;) {
        while (take_reply(&r, &fd)) {
            if (r.kind == KUBE_LISTED) {
                if (strcmp(r.id, "theirs") != 0)
                    *(r.phase == KUBE_POD_NONE ? &bare : &listed) = r;
                n_listed++;
            }
            if (r.kind == KUBE_OFFERED && r.tag == wanted && r.phase < _KUBE_OFFER_MAX)
                memcpy(offers[r.phase], r.message, sizeof(r.message));
            if (r.kind == KUBE_ANSWERED)
                answered[n_answered++ % ELEMENTS(answered)] = r.tag;
            if (r.tag == wanted && r.kind == KUBE_ANSWERED)
                goto found;
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
found:
    fd_close(&fd);
    return r;
}

static struct kube_reply send_order(const struct kube_order *o)
{
    fd_send_msg(sock, o, sizeof(*o), NULL, 0);
    return await_reply(o->tag);
}

static size_t count_objects(void)
{
    pthread_mutex_lock(&cluster.lock);
    size_t n = cluster.n;
    pthread_mutex_unlock(&cluster.lock);
    return n;
}

/* The next word about the home. */
static struct kube_reply await_held(void)
{
    struct kube_reply r = {0};
    int fd = -1;
    for (;; uv_run(&loop, UV_RUN_ONCE)) {
        while (take_reply(&r, &fd)) {
            fd_close(&fd);
            if (r.kind == KUBE_HELD)
                return r;
        }
    }
}

/* --- cases */

static void check_create(void)
{
    struct kube_order o = plain_order(KUBE_CREATE);
    struct kube_reply r = send_order(&o);
    ok(r.error == 0 && strcmp(r.id, "a1") == 0 && strncmp(r.uid, "uid-", 4) == 0, "created: %s",
       r.message);
    ok(strcmp(cluster.log, "POST /api/v1/namespaces?fieldValidation=Strict "
                           "POST /api/v1/namespaces/sbx-a1/serviceaccounts?fieldValidation=Strict "
                           "POST /apis/networking.k8s.io/v1/namespaces/sbx-a1/networkpolicies"
                           "?fieldValidation=Strict "
                           "POST /api/v1/namespaces/sbx-a1/pods?fieldValidation=Strict ") == 0,
       "four writes, the policy before the pod: %s", cluster.log);
    o.tag = ++tag;
    r = send_order(&o);
    ok(r.error == 0 && count_objects() == 4, "again: what is there is ours, and nothing doubled");
    o.tag = ++tag;
    o.nonce = 7;
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && strstr(r.message, "another sandbox of this id") &&
           count_objects() == 4,
       "objects of another create are not taken, and not touched: %s", r.message);
    o = plain_order(KUBE_DELETE);
    r = send_order(&o);
    ok(r.error == 0 && count_objects() == 0 && strstr(cluster.log, "sbx-a1 uid "),
       "deleted, with the uid as its condition");
    o.tag = ++tag;
    r = send_order(&o);
    ok(r.error == 0, "deleting what is gone is done");
    reset_cluster();
}

#define LEASE "/apis/coordination.k8s.io/v1/namespaces/mas-sandbox/leases/one.one"

/* One that another had between two looks was another's. */
static void check_lease(void)
{
    struct kube_order o = {.version = KUBE_VERSION, .op = KUBE_HOLD, .tag = ++tag, .home = "one"};
    put_object(LEASE, "{\"metadata\":{\"name\":\"one.one\"},\"spec\":{}}");
    fd_send_msg(sock, &o, sizeof(o), NULL, 0);
    struct kube_reply r = await_held();
    ok(r.error == 0 && !r.reason[0], "a Lease that has no holder is taken: %s", r.message);
    pthread_mutex_lock(&cluster.lock);
    cluster.patch_conflicts = true;
    char **body = &cluster.bodies[find_object(LEASE)];
    free(*body);
    *body = xstrdup("{\"metadata\":{\"name\":\"one.one\"},\"spec\":{}}");
    pthread_mutex_unlock(&cluster.lock);
    r = await_held();
    ok(r.error && strcmp(r.reason, KUBE_REASON_OTHER) == 0,
       "that another one had it meanwhile is known although it was given back: %s", r.message);
    cluster.patch_conflicts = false;
    r = await_held();
    ok(r.error == 0, "and then it is held again: %s", r.message);
    o.home[0] = 0;
    o.tag = ++tag;
    ok(send_order(&o).error == 0, "it is given back");
    reset_cluster();
}

static void put_policy(const char *name, const char *home)
{
    _cleanup_free_ char *path = xasprintf(SHARED_POLICIES "/%s", name);
    _cleanup_free_ char *body = xasprintf(
        "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app.kubernetes.io/managed-by\":\"mas-sandbox\","
        "\"mas-sandbox/instance\":\"one\"},\"annotations\":{\"mas-sandbox/home\":\"%s\"}}}",
        name, home);
    put_object(path, body);
}

static bool has_policy(const char *name)
{
    _cleanup_free_ char *path = xasprintf(SHARED_POLICIES "/%s", name);
    pthread_mutex_lock(&cluster.lock);
    bool there = find_object(path) >= 0;
    pthread_mutex_unlock(&cluster.lock);
    return there;
}

static void on_wake(uv_timer_t *t)
{
    (void)t;
}

static void on_sweep_broker_end(void *data)
{
    *(bool *)data = true;
}

/* A broker of a namespace that sandboxes share, and what it takes to end it. */
struct sharing {
    struct kube_ceiling ceiling;
    struct kube_broker *broker;
    uv_timer_t wake;
    int sock_before;
    bool over;
};

#define UNUSED_POLICY "sandbox-fedcba9876543210"

static void sharing_begin(struct sharing *s, struct kube_client *client,
                          const struct kube_ceiling *own)
{
    static char all[] = "all";
    int pair[2];
    *s = (struct sharing){.ceiling = *own, .sock_before = sock};
    s->ceiling.shared_namespace = all;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    put_policy("sandbox-" USED_SUM, "one");
    put_policy(UNUSED_POLICY, "one");
    put_policy("sandbox-00000000fedcba98", "two");
    put_policy("closed", "one");
    sock = pair[0];
    struct kube_broker_options options = {.loop = &loop,
                                          .client = client,
                                          .ceiling = &s->ceiling,
                                          .holder = "here",
                                          .unused_policy_ms = 20,
                                          .sock = pair[1],
                                          .on_end = on_sweep_broker_end,
                                          .data = &s->over};
    s->broker = kube_broker_new(&options);
    uv_timer_init(&loop, &s->wake);
    uv_timer_start(&s->wake, on_wake, 10, 10);
}

static void sharing_hold(void)
{
    struct kube_order o = {.version = KUBE_VERSION, .op = KUBE_HOLD, .tag = ++tag, .home = "one"};
    fd_send_msg(sock, &o, sizeof(o), NULL, 0);
    ok(await_held().error == 0, "the home is held");
}

static void sharing_end(struct sharing *s)
{
    uv_close((uv_handle_t *)&s->wake, NULL);
    close(sock);
    while (!s->over)
        uv_run(&loop, UV_RUN_ONCE);
    kube_broker_free(s->broker);
    uv_run(&loop, UV_RUN_NOWAIT);
    sock = s->sock_before;
    reset_cluster();
}

static void run_for(int64_t ms)
{
    for (int64_t end = clock_mono_ms() + ms; clock_mono_ms() < end;)
        uv_run(&loop, UV_RUN_ONCE);
}

static int count_of(const int *counter)
{
    pthread_mutex_lock(&cluster.lock);
    int n = *counter;
    pthread_mutex_unlock(&cluster.lock);
    return n;
}

/* Policies of a namespace that sandboxes share end with none of them. */
static void check_sweep(struct kube_client *client, const struct kube_ceiling *own)
{
    struct sharing s;
    sharing_begin(&s, client, own);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_ONCE);
    ok(has_policy(UNUSED_POLICY), "nothing is deleted before the home is held");
    sharing_hold();
    while (has_policy(UNUSED_POLICY))
        uv_run(&loop, UV_RUN_ONCE);
    ok(true, "a policy that no pod has is deleted");
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_ONCE);
    ok(has_policy("sandbox-" USED_SUM), "one that a pod has stays");
    ok(has_policy("sandbox-00000000fedcba98"), "and so does one of another home");
    ok(has_policy("closed"), "and one that is the operator's");
    ok(strstr(cluster.log, "DELETE " SHARED_POLICIES "/" UNUSED_POLICY " uid ") != NULL,
       "it is the one that was looked at: %s", cluster.log);
    sharing_end(&s);
}

/* A delete without an answer is repeated, but not for a home that is another's by then. */
static void check_sweep_lost(struct kube_client *client, const struct kube_ceiling *own)
{
    struct sharing s;
    cluster.deletes_fail = "503 Service Unavailable";
    sharing_begin(&s, client, own);
    sharing_hold();
    while (count_of(&cluster.deletes) < 2)
        uv_run(&loop, UV_RUN_ONCE);
    ok(has_policy(UNUSED_POLICY), "a delete that failed is repeated");
    pthread_mutex_lock(&cluster.lock);
    cluster.patch_conflicts = true;
    char **body = &cluster.bodies[find_object(LEASE)];
    free(*body);
    *body = xstrdup("{\"metadata\":{\"name\":\"one.one\"},\"spec\":{\"holderIdentity\":"
                    "\"another\",\"leaseDurationSeconds\":3600}}");
    pthread_mutex_unlock(&cluster.lock);
    ok(await_held().error != 0, "another control plane has the home");
    int before = count_of(&cluster.deletes);
    pthread_mutex_lock(&cluster.lock);
    cluster.deletes_fail = NULL;
    pthread_mutex_unlock(&cluster.lock);
    run_for(2500);
    ok(count_of(&cluster.deletes) == before && has_policy(UNUSED_POLICY),
       "and the policy is left to it");
    cluster.patch_conflicts = false;
    sharing_end(&s);
}

/* The rights for it are the operator's to give. */
static void check_sweep_forbidden(struct kube_client *client, const struct kube_ceiling *own)
{
    struct sharing s;
    struct kube_order probe = plain_order(KUBE_PROBE);
    cluster.lists_fail = "403 Forbidden";
    sharing_begin(&s, client, own);
    sharing_hold();
    while (count_of(&cluster.lists) == 0)
        uv_run(&loop, UV_RUN_ONCE);
    run_for(500);
    ok(count_of(&cluster.lists) == 1 && has_policy(UNUSED_POLICY),
       "a cluster that does not let policies be listed is asked once: %d", cluster.lists);
    ok(send_order(&probe).error == 0, "and is available");
    sharing_end(&s);
    cluster.deletes_fail = "403 Forbidden";
    sharing_begin(&s, client, own);
    sharing_hold();
    while (count_of(&cluster.deletes) == 0)
        uv_run(&loop, UV_RUN_ONCE);
    run_for(500);
    ok(count_of(&cluster.deletes) == 1 && has_policy(UNUSED_POLICY),
       "and so is one that does not let them be deleted: %d", cluster.deletes);
    sharing_end(&s);
}

static void check_others_namespace(void)
{
    struct kube_order o = plain_order(KUBE_CREATE);
    put_object("/api/v1/namespaces/sbx-a1",
               "{\"metadata\":{\"name\":\"sbx-a1\",\"labels\":{\"mas-sandbox/id\":\"a1\"}}}");
    struct kube_reply r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && count_objects() == 1, "a taken namespace: %s", r.message);
    o = plain_order(KUBE_DELETE);
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && count_objects() == 1, "nor is it deleted: %s", r.message);
    reset_cluster();
}

static struct kube_reply create_with_fault(const char *path, const char *fault, int times)
{
    struct kube_order o = plain_order(KUBE_CREATE);
    strcpy(o.runtime_class, "gvisor");
    cluster.fault_path = path;
    cluster.fault = fault;
    cluster.fault_times = times;
    return send_order(&o);
}

static void check_forbidden(void)
{
    struct kube_reply r = create_with_fault("/pods", "16-pod-security-403", 1);
    ok(r.error == ERROR_FORBIDDEN && count_objects() == 0, "Pod Security, and undone: %s",
       r.message);
    reset_cluster();
    cluster.quota_full = true;
    r = create_with_fault("/pods", "14-quota-exceeded-403", 1);
    ok(r.error == ERROR_LIMIT && count_objects() == 0, "a full quota: %s", r.message);
    reset_cluster();
    cluster.no_class = true;
    r = create_with_fault("/pods", "74-unknown-runtimeclass-403", 1);
    ok(r.error == ERROR_INVALID && count_objects() == 0, "no such RuntimeClass: %s", r.message);
    reset_cluster();
    cluster.no_rights = true;
    r = create_with_fault("/pods", "05-rbac-create-403", 1);
    ok(r.error == ERROR_UNAVAILABLE && strstr(r.message, "no right to create pods"),
       "a right is missing: %s", r.message);
    reset_cluster();
    r = create_with_fault("/serviceaccounts", "50-create-in-terminating-ns-403", 1);
    ok(r.error == ERROR_CONFLICT && strstr(r.message, "being deleted"),
       "a namespace that is being deleted: %s", r.message);
    reset_cluster();
}

/* Only a row about the object that was refused, and that has no room for it, explains a 403. */
static void check_quotas(struct kube_ceiling *ceiling)
{
    static const struct {
        const char *path, *row, *hard, *used;
        bool full;
    } cases[] = {
        {"/pods", "count/pods", "1", "1", true},
        {"/pods", "count/configmaps", "1", "1", false},
        {"/pods", "persistentvolumeclaims", "1", "1", false},
        {"/pods", "requests.storage", "1Mi", "0", false},
        {"/pods", "limits.cpu", "599m", "0", true},
        {"/pods", "limits.cpu", "600m", "0", false},
        {"/pods", "requests.cpu", "509m", "0", true},
        {"/pods", "requests.cpu", "511m", "0", false},
        {"/pods", "limits.memory", "287Mi", "0", true},
        {"/pods", "limits.memory", "288Mi", "0", false},
        {"/persistentvolumeclaims", "pods", "1", "1", false},
        {"/persistentvolumeclaims", "limits.memory", "1Mi", "0", false},
        {"/persistentvolumeclaims", "requests.storage", "63Mi", "0", true},
        {"/persistentvolumeclaims", "requests.storage", "64Mi", "0", false},
        {"/persistentvolumeclaims", "fast.storageclass.storage.k8s.io/requests.storage", "63Mi",
         "0", true},
        {"/persistentvolumeclaims", "fast.storageclass.storage.k8s.io/requests.storage", "64Mi",
         "0", false},
        {"/persistentvolumeclaims", "slow.storageclass.storage.k8s.io/requests.storage", "1Mi", "0",
         false},
        {"/persistentvolumeclaims", "fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1",
         "1", true},
        {"/networkpolicies", "count/networkpolicies.networking.k8s.io", "1", "1", true},
    };
    char fast[] = "fast", *classes[] = {fast, NULL};
    ceiling->storage_classes = classes;
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct kube_order o = plain_order(KUBE_CREATE);
        o.workspace.volume = KUBE_VOLUME_CLAIM;
        strcpy(o.workspace.storage_class, "fast");
        snprintf(cluster.quota, sizeof(cluster.quota),
                 "{\"items\":[{\"status\":{\"hard\":{\"%s\":\"%s\"},\"used\":{\"%s\":\"%s\"}}}]}",
                 cases[i].row, cases[i].hard, cases[i].row, cases[i].used);
        cluster.fault_path = cases[i].path;
        cluster.fault = "14-quota-exceeded-403";
        cluster.fault_times = 1;
        struct kube_reply r = send_order(&o);
        ok(r.error == (cases[i].full ? ERROR_LIMIT : ERROR_FORBIDDEN), "%s: %s of %s at %s: %s",
           cases[i].path, cases[i].used, cases[i].hard, cases[i].row, r.message);
        reset_cluster();
    }
    ceiling->storage_classes = NULL;
}

static void check_retries(void)
{
    struct kube_reply r = create_with_fault("/pods", "13-list-future-rv-504", 1);
    ok(r.error == 0 && count_objects() == 4, "504 with retryAfterSeconds: tried again");
    reset_cluster();
    cluster.fault_after = true;
    r = create_with_fault("/pods", "", 1);
    ok(r.error == 0 && cluster.posts == 4 && count_objects() == 4,
       "a lost answer: looked up, not sent twice (%d writes)", cluster.posts);
    reset_cluster();
    r = create_with_fault("/pods", "06-pod-invalid-422", 1);
    ok(r.error == ERROR_INVALID && cluster.posts == 4 && count_objects() == 0,
       "422 is not tried again: %s", r.message);
    reset_cluster();
}

static void check_ceiling(void)
{
    struct kube_order o = plain_order(KUBE_CREATE);
    strcpy(o.image, "evil.example/x:1");
    struct kube_reply r = send_order(&o);
    ok(r.error == ERROR_FORBIDDEN && cluster.posts == 0, "beyond the ceiling: %s", r.message);
    o = plain_order(KUBE_DELETE);
    strcpy(o.id, "x/../../kube-system");
    r = send_order(&o);
    ok(r.error == ERROR_INVALID && cluster.log[0] == 0, "an id that is none: %s", r.message);
    o = plain_order(KUBE_PROVE);
    o.cache.volume = KUBE_VOLUME_HOST;
    r = send_order(&o);
    ok(r.error == ERROR_INVALID && cluster.log[0] == 0, "a proof that says what its pods are: %s",
       r.message);
    struct kube_reply reply;
    int fd;
    send(sock, "hello", 5, 0);
    while (!take_reply(&reply, &fd) || reply.kind != KUBE_ANSWERED)
        uv_run(&loop, UV_RUN_ONCE);
    ok(reply.error == ERROR_INVALID, "what is no order: %s", reply.message);
    reset_cluster();
}

#define LONG_CLASS   "\"a123456789-123456789-123456789-123456789-123456789-12345678b\","
#define LONG_CLASSES LONG_CLASS LONG_CLASS LONG_CLASS LONG_CLASS

static void check_offers(const char *missing)
{
    ok(strcmp(offers[KUBE_OFFER_MISSING_RIGHTS], missing) == 0, "rights that are missing: '%s'",
       offers[KUBE_OFFER_MISSING_RIGHTS]);
    const char *classes = offers[KUBE_OFFER_RUNTIME_CLASSES];
    ok(strncmp(classes, "gvisor, a", 9) == 0 && strlen(classes) < KUBE_MESSAGE_SIZE &&
           strlen(classes) > KUBE_MESSAGE_SIZE - 80 && strstr(classes, "b, ...") &&
           !strstr(classes, "last") && strcmp(offers[KUBE_OFFER_STORAGE_CLASSES], "") == 0 &&
           strcmp(offers[KUBE_OFFER_CARRIER], KUBE_CARRIER_EXEC) == 0,
       "what pods may have, as far as it fits, and their carrier: '%s' '%s' '%s'", classes,
       offers[KUBE_OFFER_STORAGE_CLASSES], offers[KUBE_OFFER_CARRIER]);
    memset(offers, 0, sizeof(offers));
}

static void check_probe(void)
{
    struct kube_order o = plain_order(KUBE_PROBE);
    struct kube_reply r = send_order(&o);
    ok(r.error == 0 && strstr(r.message, "Kubernetes v1.35"), "probe: %s", r.message);
    ok(!offers[KUBE_OFFER_MISSING_CLASSES][0], "the cluster has all RuntimeClasses");
    check_offers("");
    cluster.no_class = true;
    o = plain_order(KUBE_PROBE);
    r = send_order(&o);
    ok(r.error == 0 && strncmp(offers[KUBE_OFFER_MISSING_CLASSES], "gvisor, a", 9) == 0,
       "those that it lacks are named, and are no failure: %s", offers[KUBE_OFFER_MISSING_CLASSES]);
    cluster.no_class = false;
    cluster.no_rights = true;
    cluster.denied = "networkpolicies";
    o = plain_order(KUBE_PROBE);
    r = send_order(&o);
    ok(r.error == ERROR_UNAVAILABLE && strstr(r.message, "create networkpolicies") &&
           !strstr(r.message, "create pods"),
       "rights that are missing are named: %s", r.message);
    check_offers("create networkpolicies, get networkpolicies");
    cluster.denied = NULL;
    o = plain_order(KUBE_PROBE);
    r = send_order(&o);
    const char *missing = offers[KUBE_OFFER_MISSING_RIGHTS];
    ok(r.error == ERROR_UNAVAILABLE && strncmp(missing, "create namespaces, get ", 23) == 0 &&
           strstr(missing, ", list resourcequotas, get runtimeclasses"),
       "all of them: %s", missing);
    reset_cluster();
    o = plain_order(KUBE_LIST);
    n_listed = 0;
    r = send_order(&o);
    ok(r.error == 0, "a list: %s", r.message);
    ok(n_listed == 3 && strcmp(listed.id, "own") == 0 && listed.phase == KUBE_POD_RUNNING &&
           strcmp(listed.uid, "u-sbx-own" KUBE_POD_NAME) == 0,
       "of ours alone, whoever else has our labels: %zu %s", n_listed, listed.uid);
    ok(strcmp(bare.id, "bare") == 0, "and a namespace that has no pod: '%s'", bare.id);
    o = plain_order(KUBE_PROBE);
    o.epoch = r.epoch + 1;
    fd_send_msg(sock, &o, sizeof(o), NULL, 0);
    struct kube_order next = plain_order(KUBE_PROBE);
    uint64_t passed_over = o.tag;
    next.epoch = r.epoch;
    r = send_order(&next);
    ok(r.error == 0 && r.epoch == next.epoch && !was_answered(passed_over),
       "an order for another broker is passed over");
    cluster.foreign = true;
    o = plain_order(KUBE_CONNECT);
    strcpy(o.id, "own");
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && cluster.execs == 0 && strstr(r.message, "not of this daemon"),
       "a pod with our labels in a namespace that is another's: %s", r.message);
    cluster.foreign = false;
    o = plain_order(KUBE_CONNECT);
    strcpy(o.id, "own");
    r = send_order(&o);
    ok(r.error == ERROR_NOT_FOUND && cluster.execs == 1, "no pod to connect to: %s", r.message);
    o = plain_order(KUBE_CONNECT);
    strcpy(o.id, "more");
    r = send_order(&o);
    ok(r.error == ERROR_NOT_FOUND && cluster.execs == 1 && strstr(r.message, "this daemon has no"),
       "a pod of another instance is not asked at all: %s", r.message);
    o = plain_order(KUBE_CONNECT);
    strcpy(o.id, "theirs");
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && cluster.execs == 1 &&
           strstr(r.message, "another control plane"),
       "nor is one of another home: %s", r.message);
    reset_cluster();
}

/* --- what objects say */

#define SPACE_PATH "/api/v1/namespaces/sbx-a1"
#define POD_PATH   SPACE_PATH "/pods/" KUBE_POD_NAME

/* Gives an object another annotation, as a hand in the cluster would. */
static void annotate_by_hand(const char *path, const char *name, const char *value)
{
    size_t len;
    _cleanup_json_ json_t *patch =
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", name, value);
    char *body = json_dumps(patch, JSON_COMPACT);
    free(answer_patch(path, body, &len));
    free(body);
    cluster.log[0] = 0;
}

static struct kube_reply send_plain(uint32_t op)
{
    struct kube_order o = plain_order(op);
    return send_order(&o);
}

/* Each order about a sandbox that says another home or none, and none of them writes anything. */
static void check_homes(void)
{
    static const char *const homes[] = {"two", ""};
    static const uint32_t ops[] = {KUBE_TAKE, KUBE_MARK, KUBE_READ, KUBE_DELETE};
    send_plain(KUBE_CREATE);
    for (size_t i = 0; i < ELEMENTS(homes); i++)
        for (size_t k = 0; k < ELEMENTS(ops); k++) {
            struct kube_order o = plain_order(ops[k]);
            o.last_exec_s = ops[k] == KUBE_MARK ? 5 : 0;
            annotate_by_hand(SPACE_PATH, KUBE_ANNOTATION_HOME, homes[i]);
            struct kube_reply r = send_order(&o);
            ok(r.error == ERROR_CONFLICT && cluster.log[0] == 0, "operation %u, the home '%s': %s",
               ops[k], homes[i], r.message);
            annotate_by_hand(SPACE_PATH, KUBE_ANNOTATION_HOME, "one");
            annotate_by_hand(POD_PATH, KUBE_ANNOTATION_HOME, homes[i]);
            o.tag = ++tag;
            if (ops[k] != KUBE_DELETE) {
                r = send_order(&o);
                ok(r.error == ERROR_CONFLICT && cluster.log[0] == 0, "and of its pod: %s",
                   r.message);
            }
            annotate_by_hand(POD_PATH, KUBE_ANNOTATION_HOME, "one");
        }
    reset_cluster();
    /* A pod with all that ours have, in a namespace of another's. */
    send_plain(KUBE_CREATE);
    size_t len;
    free(answer_patch(SPACE_PATH, "{\"metadata\":{\"labels\":{\"mas-sandbox/instance\":\"x\"}}}",
                      &len));
    cluster.log[0] = 0;
    for (size_t k = 0; k < ELEMENTS(ops); k++) {
        struct kube_order o = plain_order(ops[k]);
        o.last_exec_s = ops[k] == KUBE_MARK ? 5 : 0;
        o.state = ops[k] == KUBE_MARK ? KUBE_STATE_READY : 0;
        struct kube_reply r = send_order(&o);
        ok(r.error == ERROR_CONFLICT && cluster.log[0] == 0,
           "operation %u in a namespace that is not ours: %s", ops[k], r.message);
    }
    reset_cluster();
}

static void check_marks(void)
{
    send_plain(KUBE_CREATE);
    send_plain(KUBE_TAKE);
    struct kube_order o = plain_order(KUBE_MARK);
    o.last_exec_s = 5;
    o.generation = 1;
    cluster.log[0] = 0;
    struct kube_reply r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && strstr(r.message, "later control plane") && !cluster.log[0],
       "a mark of an earlier generation: %s", r.message);
    o.tag = ++tag;
    o.generation = 2;
    r = send_order(&o);
    ok(r.error == 0 && strcmp(cluster.log, "PATCH " SPACE_PATH " ") == 0, "of its own: %s %s",
       r.message, cluster.log);
    cluster.log[0] = 0;
    o.tag = ++tag;
    o.state = KUBE_STATE_READY;
    r = send_order(&o);
    ok(r.error == 0 && strcmp(cluster.log, "PATCH " POD_PATH " PATCH " SPACE_PATH " ") == 0,
       "the state, in both: %s %s", r.message, cluster.log);
    for (int i = 0; i < 2; i++) {
        cluster.log[0] = 0;
        o.tag = ++tag;
        o.state = KUBE_STATE_CLAIMED;
        r = send_order(&o);
    }
    ok(r.error == 0 && strcmp(cluster.log, "PATCH " SPACE_PATH " ") == 0,
       "what a pod says already is not written to it: %s %s", r.message, cluster.log);
    reset_cluster();
}

/* Of the pod of the order below. */
static bool pod_has(const char *text)
{
    pthread_mutex_lock(&cluster.lock);
    int at = find_object(POD_PATH);
    bool has = at >= 0 && strstr(cluster.bodies[at], text);
    pthread_mutex_unlock(&cluster.lock);
    return has;
}

static struct kube_order member_order(uint32_t op)
{
    struct kube_order o = plain_order(op);
    o.flags = op == KUBE_CREATE ? KUBE_POOL_MEMBER : 0;
    o.generation = 1;
    strcpy(o.spec, op == KUBE_CREATE ? "{\"pool\":\"x\"}" : "{\"id\":\"a1\"}");
    return o;
}

static void check_claims(struct kube_broker *b)
{
    static const char evict[] = "safe-to-evict\":\"true\"", stays[] = "safe-to-evict\":\"false\"";
    size_t len;
    struct kube_order create = member_order(KUBE_CREATE), o = member_order(KUBE_CLAIM);
    send_order(&create);
    ok(pod_has(evict), "a pod made ahead may be evicted");
    o.generation = 0;
    struct kube_reply r = send_order(&o);
    ok(r.error == ERROR_INVALID, "a claim of no generation: %s", r.message);

    free(answer_patch(SPACE_PATH, "{\"metadata\":{\"labels\":{\"mas-sandbox/instance\":\"x\"}}}",
                      &len));
    cluster.log[0] = 0;
    o = member_order(KUBE_CLAIM);
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && !cluster.log[0], "in a namespace that is not ours: %s",
       r.message);
    free(answer_patch(SPACE_PATH, "{\"metadata\":{\"labels\":{\"mas-sandbox/instance\":\"one\"}}}",
                      &len));
    cluster.log[0] = 0;

    cluster.patch_conflicts = true;
    o = member_order(KUBE_CLAIM);
    fd_send_msg(sock, &o, sizeof(o), NULL, 0);
    while (list_empty(&b->tasks))
        uv_run(&loop, UV_RUN_ONCE);
    list_for_each(t, &b->tasks, struct broker_task, node)
        t->deadline_ms = 0;
    r = await_reply(o.tag);
    ok(r.error == ERROR_TIMEOUT,
       "one that others write to until it is late is not known to be another's: %s", r.message);
    cluster.patch_conflicts = false;

    cluster.log[0] = 0;
    o = member_order(KUBE_CLAIM);
    r = send_order(&o);
    ok(r.error == 0 && strcmp(cluster.log, "PATCH " POD_PATH " ") == 0,
       "its own, by one write: %s %s", r.message, cluster.log);
    ok(pod_has(stays), "and may not be evicted from then on");
    reset_cluster();

    send_order(&create);
    o = member_order(KUBE_MARK);
    o.state = KUBE_STATE_CLAIMED;
    r = send_order(&o);
    ok(r.error == 0 && pod_has(stays), "nor one that a mark says has a caller: %s", r.message);
    reset_cluster();
}

/* A deletion that another control plane has overtaken. */
static void check_old_deletes(void)
{
    struct kube_order create = plain_order(KUBE_CREATE);
    struct kube_reply r = send_order(&create);
    char uid[KUBE_NAME_SIZE];
    memcpy(uid, r.uid, sizeof(uid));
    send_plain(KUBE_TAKE);
    cluster.log[0] = 0;
    struct kube_order o = plain_order(KUBE_DELETE);
    o.generation = 1;
    memcpy(o.uid, uid, sizeof(uid));
    r = send_order(&o);
    ok(r.error == ERROR_CONFLICT && r.generation == 2 && !cluster.log[0],
       "a pod that was taken since is not deleted: %s", r.message);
    o.tag = ++tag;
    o.generation = 2;
    strcpy(o.uid, "another");
    r = send_order(&o);
    ok(r.error == 0 && !cluster.log[0] && count_objects() == 4,
       "one that has the name of another is not deleted, which is gone: %s", r.message);
    o.tag = ++tag;
    memcpy(o.uid, uid, sizeof(uid));
    r = send_order(&o);
    ok(r.error == 0 && count_objects() == 0, "its own is: %s", r.message);
    reset_cluster();
}

static void check_generations(void)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "x",
                                      "-1",
                                      " 2",
                                      "2x",
                                      "2147483648",
                                      "18446744073709551615",
                                      "18446744073709551616"};
    struct kube_reply r = send_plain(KUBE_CREATE);
    r = send_plain(KUBE_TAKE);
    ok(r.error == 0 && r.generation == 2, "the next generation: %s", r.message);
    r = send_plain(KUBE_TAKE);
    ok(r.error == 0 && r.generation == 3, "and the next");
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        annotate_by_hand(POD_PATH, KUBE_ANNOTATION_GENERATION, bad[i]);
        r = send_plain(KUBE_TAKE);
        ok(r.error == ERROR_CONFLICT && strstr(r.message, "by hand") && cluster.log[0] == 0,
           "the generation '%s': %s", bad[i], r.message);
    }
    reset_cluster();
}

/* Whether there is a turn in which the loop has nothing to do. */
static bool loop_comes_to_rest(void)
{
    for (int i = 0; i < 2000; i++) {
        struct pollfd p = {.fd = uv_backend_fd(&loop), .events = POLLIN};
        uv_run(&loop, UV_RUN_NOWAIT);
        if (poll(&p, 1, 10) == 0)
            return true;
    }
    return false;
}

static char carrier[KUBE_NAME_SIZE]; /* of the last stream */

static int open_stream(void)
{
    struct kube_order o = plain_order(KUBE_CONNECT);
    struct kube_reply r = {0};
    int fd = -1;
    strcpy(o.id, "own");
    fd_send_msg(sock, &o, sizeof(o), NULL, 0);
    while (r.tag != o.tag || r.kind != KUBE_ANSWERED) {
        uv_run(&loop, UV_RUN_NOWAIT);
        take_reply(&r, &fd);
    }
    ok(r.error == 0 && fd >= 0, "a stream is open: %s", r.message);
    snprintf(carrier, sizeof(carrier), "%s", r.reason);
    return fd;
}

static void check_streams(struct kube_broker *b)
{
    static char bytes[16384];
    cluster.exec_opens = true;
    int fd = open_stream();
    fd_set_nonblock(fd, true);
    /* Until the link, TLS, TCP and the socket's own buffer are full. */
    for (int idle = 0; idle < 20;) {
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        uv_run(&loop, UV_RUN_NOWAIT);
        if (n < 0)
            usleep(5000);
        idle = n < 0 ? idle + 1 : 0;
    }
    close(fd);
    ok(loop_comes_to_rest(), "a control plane that left is nothing to do while the link is busy");
    sem_post(&cluster.link_ends);
    struct kube_order o = plain_order(KUBE_CONNECT);
    struct kube_reply r = {0};
    int other = open_stream();
    close(other);
    ok(strcmp(carrier, KUBE_CARRIER_EXEC) == 0, "the answer names its carrier: %s", carrier);
    b->n_carriers += BROKER_CARRIERS_MAX;
    strcpy(o.id, "own");
    r = send_order(&o);
    ok(r.error == ERROR_LIMIT, "one stream too many: %s", r.message);
    b->n_carriers -= BROKER_CARRIERS_MAX;
    while (b->n_carriers)
        uv_run(&loop, UV_RUN_ONCE);
    ok(list_empty(&b->carriers), "each that ended makes room");
    sem_post(&cluster.link_ends);
    reset_cluster();
}

/* --- the direct carrier: what listens in a pod is tests/unit/test-pod-direct.c's */

struct echo {
    int listen_fd;
    uint16_t port;
    uint8_t peer[PIN_SIZE];
    SSL_CTX *ctx;
    int n; /* connections to serve */
    pthread_t thread;
};

static void *echo_run(void *data)
{
    struct echo *e = data;
    char bytes[4096];
    for (int i = 0; i < e->n; i++) {
        int fd = accept(e->listen_fd, NULL, NULL);
        SSL *ssl = pin_connection_new(e->ctx, fd, e->peer);
        if (SSL_accept(ssl) == 1 && SSL_write(ssl, &(char){PIN_OPEN}, 1) == 1)
            for (int n; (n = SSL_read(ssl, bytes, sizeof(bytes))) > 0;)
                SSL_write(ssl, bytes, n);
        SSL_free(ssl);
        close(fd);
    }
    close(e->listen_fd);
    return NULL;
}

static void echo_start(struct echo *e, const struct kube_identity *broker, int n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    uint8_t pin[PIN_SIZE];
    char text[PIN_TEXT_SIZE];
    EVP_PKEY *key = pin_key_new();
    e->n = n;
    e->ctx = pin_context_new(key, true);
    e->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(pin_parse(broker->pin_text, e->peer) && pin_of_key(key, pin) &&
           bind(e->listen_fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
           listen(e->listen_fd, 4) == 0 &&
           getsockname(e->listen_fd, (struct sockaddr *)&at, &size) == 0,
       "a link listens");
    EVP_PKEY_free(key);
    e->port = ntohs(at.sin_port);
    pin_format(pin, text);
    snprintf(cluster.link_line, sizeof(cluster.link_line), PIN_LINE "%s\nmore\n", text);
    pthread_create(&e->thread, NULL, echo_run, e);
}

static bool stream_echoes(int fd)
{
    static char sent[100000], got[sizeof(sent)];
    size_t out = 0, in = 0;
    memset(sent, 'x', sizeof(sent));
    fd_set_nonblock(fd, true);
    while (in < sizeof(sent)) {
        ssize_t n = out < sizeof(sent) ? send(fd, sent + out, sizeof(sent) - out, MSG_NOSIGNAL) : 0;
        out += n > 0 ? (size_t)n : 0;
        uv_run(&loop, UV_RUN_NOWAIT);
        n = recv(fd, got + in, sizeof(got) - in, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        in += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return memcmp(sent, got, sizeof(sent)) == 0;
}

static void expect_exec(const char *what, int lookups)
{
    struct kube_order o = plain_order(KUBE_CONNECT);
    strcpy(o.id, "own");
    cluster.execs = cluster.lookups = 0;
    struct kube_reply r = send_order(&o);
    ok(r.error == ERROR_NOT_FOUND && cluster.execs == 1 && cluster.lookups == lookups,
       "%s: by exec, after %d lookups: %s", what, cluster.lookups, r.message);
}

static void check_direct(struct kube_broker *b, struct kube_ceiling *ceiling)
{
    char path[] = "/tmp/mas-test-kube-key-XXXXXX";
    struct kube_identity identity = {0};
    struct error err = {0};
    struct echo e = {0};
    close(mkstemp(path));
    unlink(path);
    ok(kube_identity_load(&identity, path, &err) == 0, "the broker's key: %s", err.message);
    unlink(path);
    echo_start(&e, &identity, 2);
    ceiling->direct_port = e.port;
    b->o.identity = &identity;
    ok(stream_echoes(open_stream()) && cluster.execs == 0 && cluster.lookups == 1,
       "a stream to the pod's address, and no exec");
    ok(strcmp(carrier, KUBE_CARRIER_DIRECT) == 0, "whose carrier is another: %s", carrier);
    ok(stream_echoes(open_stream()) && cluster.execs == 0 && cluster.lookups == 1,
       "the next one asks the cluster nothing");
    while (pthread_tryjoin_np(e.thread, NULL) != 0) /* which ends with the streams */
        uv_run(&loop, UV_RUN_NOWAIT);
    expect_exec("a link that has gone", 1);
    expect_exec("a link that does not come back, which is remembered", 0);
    route_forget(b, "own");
    snprintf(cluster.link_line, sizeof(cluster.link_line), "mas-link 1 sha256:00\n");
    expect_exec("a log without a fingerprint", 1);
    route_forget(b, "own");
    snprintf(cluster.link_line, sizeof(cluster.link_line), "no end of the line");
    expect_exec("a log without a line", 1);
    route_forget(b, "own");
    cluster.link_line[0] = 0;
    expect_exec("a pod without an address", 1);
    while (b->n_carriers)
        uv_run(&loop, UV_RUN_ONCE);
    b->o.identity = NULL;
    ceiling->direct_port = 0;
    kube_identity_done(&identity);
    SSL_CTX_free(e.ctx);
    reset_cluster();
}

static void on_end(void *data)
{
    (void)data;
    ended = true;
}

int main(int argc, char **argv)
{
    static const char ceiling_text[] =
        "{\"prefix\":\"sbx-\",\"instance\":\"one\",\"images\":[\"docker.example/base:\"],"
        "\"runtime_classes\":[\"gvisor\"," LONG_CLASSES LONG_CLASSES
        "\"last\"],\"link_image\":\"our.example/link:1\","
        "\"uid_first\":100000,\"uid_count\":2000,\"cpu_millicores\":4000,"
        "\"memory_bytes\":1073741824,\"disk_bytes\":2147483648}";
    struct error err = {0};
    struct kube_ceiling ceiling = {0};
    int pair[2];
    exchanges_load(&answers, argc > 1 ? argv[1] : "tests/data/kube", "answers.txt");
    exchanges_load(&execs, argc > 1 ? argv[1] : "tests/data/kube", "execs.txt");
    sem_init(&cluster.link_ends, 0, 0);
    server = (struct server){.way = SERVER_SELF, .serve = serve};
    server_start(&server);
    _cleanup_json_ json_t *c = json_parse(ceiling_text, strlen(ceiling_text), &err);
    if (kube_ceiling_parse(&ceiling, c, &err) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return 1;
    sock = pair[0];
    uv_loop_init(&loop);
    _cleanup_kube_access_ struct kube_access a = {
        .server = xasprintf("https://127.0.0.1:%d", server.port),
        .ca = xstrdup(server.ca),
        .token = xstrdup("t")};
    struct kube_client *client = kube_client_new(&loop, &a, NULL);
    struct kube_broker_options options = {.loop = &loop,
                                          .client = client,
                                          .ceiling = &ceiling,
                                          .holder = "here",
                                          .sock = pair[1],
                                          .on_end = on_end};
    struct kube_broker *b = kube_broker_new(&options);
    check_create();
    check_lease();
    check_sweep(client, &ceiling);
    check_sweep_lost(client, &ceiling);
    check_sweep_forbidden(client, &ceiling);
    check_others_namespace();
    check_forbidden();
    check_quotas(&ceiling);
    check_retries();
    check_ceiling();
    check_probe();
    check_homes();
    check_marks();
    check_claims(b);
    check_old_deletes();
    check_generations();
    check_streams(b);
    check_direct(b, &ceiling);
    close(sock);
    while (!ended)
        uv_run(&loop, UV_RUN_ONCE);
    ok(true, "the other end's end is told");
    kube_broker_free(b);
    kube_client_close(client, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(uv_loop_close(&loop) == 0, "nothing is left in the loop");
    server_stop(&server);
    kube_ceiling_done(&ceiling);
    exchanges_done(&answers);
    exchanges_done(&execs);
    return tap_done();
}
