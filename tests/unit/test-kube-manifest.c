/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a sandbox, field by field, against tests/data/kube/manifests.txt; what the ceiling
 * lets through; and facts that must hold whatever is ordered. With a second argument the objects
 * are written there, each as it would be posted, for a real API server to judge. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "kube/uids.h"
#include "pod/link.h"
#include "proto/kube.h"
#include "tests/unit/tap.h"

#define TEXT_MAX (1u << 20)
#define MIB      (1ull << 20)

static const char ceiling_text[] =
    "{\"prefix\":\"sbx-\",\"instance\":\"one\",\"home\":\"home-1\",\"images\":[\"docker.example/base:\","
    "\"whole.example/image:1\",\"dir.example/team/\"],\"runtime_classes\":[\"gvisor\"],"
    "\"storage_classes\":[\"fast\"],\"link_image\":\"our.example/link:1\","
    "\"priority_class\":\"sandboxes\",\"uid_first\":100000,\"uid_count\":2000,"
    "\"cpu_millicores\":4000,\"memory_bytes\":1073741824,\"disk_bytes\":2147483648,"
    "\"networks\":[\"192.0.2.0/24\",\"[2001:db8::/32]:443\"],\"own_users\":true}";

static struct kube_ceiling load_ceiling(void)
{
    struct error err = {0};
    struct kube_ceiling c = {0};
    _cleanup_json_ json_t *o = json_parse(ceiling_text, strlen(ceiling_text), &err);
    if (kube_ceiling_parse(&c, o, &err) < 0)
        printf("Bail out! %s\n", err.message);
    return c;
}

static struct kube_order plain_order(void)
{
    struct kube_order o = {.version = KUBE_VERSION,
                           .op = KUBE_CREATE,
                           .cpu_millicores = 500,
                           .memory_bytes = 256 * MIB,
                           .tmp_bytes = 16 * MIB,
                           .home_bytes = 16 * MIB,
                           .generation = 7,
                           .slot = 3,
                           .workspace = {.volume = KUBE_VOLUME_MEMORY, .bytes = 64 * MIB},
                           .cache = {.volume = KUBE_VOLUME_MEMORY, .bytes = 32 * MIB}};
    strcpy(o.id, "a1");
    strcpy(o.image, "docker.example/base:12");
    strcpy(o.owner, "key-1");
    strcpy(o.home, "home-1");
    strcpy(o.spec_hash, "abc123");
    strcpy(o.spec, "{\"image\":\"x\"}");
    return o;
}

static struct kube_order full_order(void)
{
    struct kube_order o = plain_order();
    o.flags = KUBE_POOL_MEMBER | KUBE_OWN_USERS | KUBE_PROXY;
    o.cpu_request_millicores = 100;
    o.memory_request_bytes = 64 * MIB;
    o.workspace = (struct kube_volume_order){
        .volume = KUBE_VOLUME_CLAIM, .bytes = 512 * MIB, .access = KUBE_READ_WRITE_ONCE_POD};
    strcpy(o.workspace.storage_class, "fast");
    strcpy(o.runtime_class, "gvisor");
    net_range_parse("192.0.2.0/25", &o.ranges[0]);
    net_range_parse("[2001:db8:1::/48]:443", &o.ranges[1]);
    o.n_ranges = 2;
    return o;
}

/* --- golden */

static void flatten(const json_t *v, const char *path, struct strbuf *out)
{
    char inner[600];
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(v) && json_object_size(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "", key);
            flatten(item, inner, out);
        }
    } else if (json_is_array(v) && json_array_size(v)) {
        json_array_foreach(v, i, item)
        {
            snprintf(inner, sizeof(inner), "%s[%zu]", path, i);
            flatten(item, inner, out);
        }
    } else {
        char *dumped = json_dumps(v, JSON_ENCODE_ANY);
        strbuf_printf(out, "%s = %s\n", path, dumped);
        free(dumped);
    }
}

static void format_all(const char *title, const struct kube_ceiling *c, const struct kube_order *o,
                       struct strbuf *out)
{
    for (int i = 0; i < _KUBE_OBJECT_MAX; i++) {
        _cleanup_json_ json_t *m = kube_manifest(i, c, o);
        strbuf_printf(out, "# %s ", title);
        kube_manifest_collection(i, c, o, out);
        strbuf_puts(out, "\n");
        if (m)
            flatten(m, "", out);
    }
}

static void format_golden(const struct kube_ceiling *c, struct strbuf *out)
{
    struct kube_order plain = plain_order(), full = full_order();
    struct kube_ceiling shared = *c; /* what it borrows is freed once */
    shared.shared_namespace = (char[]){"all"};
    format_all("plain", c, &plain, out);
    format_all("full", c, &full, out);
    format_all("shared", &shared, &full, out);
}

static void check_golden(const char *file, const struct kube_ceiling *c)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(TEXT_MAX);
    char expected[128 * 1024];
    format_golden(c, &out);
    FILE *f = fopen(file, "re");
    size_t n = f ? fread(expected, 1, sizeof(expected) - 1, f) : 0;
    if (f)
        fclose(f);
    expected[n] = 0;
    char *a = out.data, *b = expected;
    size_t line = 1;
    for (; *a && *a == *b; a++, b++)
        line += *a == '\n';
    bool same = *a == *b;
    ok(same, "every field is as %s has it (line %zu)", file, line);
    if (!same)
        printf("# is      %.*s\n# expected %.*s\n", (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"),
               b);
}

/* --- what must hold of every pod */

static bool mounts_volume(const json_t *container, const char *name, const char *path)
{
    size_t i;
    json_t *mount;
    json_array_foreach(json_object_get(container, "volumeMounts"), i, mount)
    {
        if (strcmp(json_member_text(mount, "name"), name) == 0 &&
            strcmp(json_member_text(mount, "mountPath"), path) == 0)
            return true;
    }
    return false;
}

/* The door is where connections come in: no container but the link's may have it. */
static void check_door(const json_t *init, const json_t *containers)
{
    char dir[80] = LINK_DOOR;
    *strrchr(dir, '/') = 0;
    ok(mounts_volume(json_array_get(init, 1), "door", dir), "the link has its door");
    ok(!mounts_volume(json_array_get(init, 0), "door", dir) &&
           !mounts_volume(json_array_get(containers, 0), "door", dir),
       "and nothing else has");
}

static bool container_is_restricted(const json_t *container)
{
    const json_t *s = json_object_get(container, "securityContext");
    const json_t *drop = json_object_get(json_object_get(s, "capabilities"), "drop");
    return json_is_false(json_object_get(s, "allowPrivilegeEscalation")) &&
           json_is_false(json_object_get(s, "privileged")) &&
           json_is_true(json_object_get(s, "runAsNonRoot")) &&
           json_integer_value(json_object_get(s, "runAsUser")) >= 1000 &&
           json_array_size(drop) == 1 &&
           strcmp(json_string_value(json_array_get(drop, 0)), "ALL") == 0 &&
           !json_object_get(json_object_get(s, "capabilities"), "add") &&
           strcmp(json_member_text(json_object_get(s, "seccompProfile"), "type"),
                  "RuntimeDefault") == 0 &&
           json_object_get(json_object_get(container, "resources"), "limits");
}

static void check_restricted(const struct kube_ceiling *c, const struct kube_order *o)
{
    static const char *const never[] = {"hostNetwork", "hostPID", "hostIPC", "nodeName",
                                        "shareProcessNamespace"};
    _cleanup_json_ json_t *pod = kube_manifest(KUBE_OBJECT_POD, c, o);
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *lists[] = {json_object_get(spec, "initContainers"),
                             json_object_get(spec, "containers")};
    size_t i, n = 0;
    json_t *item;
    bool good = true;
    for (size_t k = 0; k < ELEMENTS(lists); k++)
        json_array_foreach(lists[k], i, item)
        {
            good = good && container_is_restricted(item);
            n++;
        }
    ok(good && n == 3, "all three containers are restricted");
    check_door(lists[0], lists[1]);
    for (size_t k = 0; k < ELEMENTS(never); k++)
        ok(!json_object_get(spec, never[k]), "no %s", never[k]);
    json_array_foreach(json_object_get(spec, "volumes"), i, item) good =
        good &&
        (json_object_get(item, "emptyDir") || json_object_get(item, "persistentVolumeClaim"));
    ok(good, "volumes are emptyDir or claims");
    ok(json_is_false(json_object_get(spec, "automountServiceAccountToken")), "no token");
    const json_t *link = json_array_get(lists[0], 1), *box = json_array_get(lists[1], 0);
    ok(json_integer_value(json_object_get(json_object_get(link, "securityContext"), "runAsUser")) !=
           json_integer_value(
               json_object_get(json_object_get(box, "securityContext"), "runAsUser")),
       "the link has a user id of its own");
}

/* --- the ceiling */

static void expect_refused(const struct kube_ceiling *c, const struct kube_order *o,
                           enum error_code code, const char *what)
{
    struct error err = {0};
    ok(kube_ceiling_check(c, o, &err) < 0 && err.code == code, "%s: %s", what, err.message);
}

#define REFUSED(code, what, change)                                                                \
    do {                                                                                           \
        struct kube_order o = plain_order();                                                       \
        change;                                                                                    \
        expect_refused(c, &o, code, what);                                                         \
    } while (0)

static void check_ceiling(const struct kube_ceiling *c)
{
    struct error err = {0};
    struct kube_order plain = plain_order(), full = full_order();
    ok(kube_ceiling_check(c, &plain, &err) == 0, "plain: %s", err.message);
    ok(kube_ceiling_check(c, &full, &err) == 0, "full: %s", err.message);
    REFUSED(ERROR_FORBIDDEN, "another image", strcpy(o.image, "docker.example/other:1"));
    REFUSED(ERROR_FORBIDDEN, "a longer name", strcpy(o.image, "whole.example/image:12"));
    REFUSED(ERROR_FORBIDDEN, "a RuntimeClass", strcpy(o.runtime_class, "runc"));
    REFUSED(ERROR_FORBIDDEN, "another home", strcpy(o.home, "home-2"));
    REFUSED(ERROR_FORBIDDEN, "no home", o.home[0] = 0);
    struct kube_order take = {.version = KUBE_VERSION, .op = KUBE_TAKE};
    strcpy(take.id, "a1");
    strcpy(take.home, "home-2");
    expect_refused(c, &take, ERROR_CONFLICT, "taking for another home, which is final");
    REFUSED(ERROR_FORBIDDEN, "memory", o.memory_bytes = 2048 * MIB);
    REFUSED(ERROR_FORBIDDEN, "cpu", o.cpu_millicores = 5000);
    REFUSED(ERROR_FORBIDDEN, "a volume", o.workspace.bytes = 4096 * MIB);
    REFUSED(ERROR_FORBIDDEN, "tmp", o.tmp_bytes = 4096 * MIB);
    REFUSED(ERROR_FORBIDDEN, "the node's disk", o.cache.volume = KUBE_VOLUME_NODE);
    REFUSED(ERROR_FORBIDDEN, "a storage class", o.cache.volume = KUBE_VOLUME_CLAIM;
            strcpy(o.cache.storage_class, "slow"));
    REFUSED(ERROR_FORBIDDEN, "a writable root", o.flags = KUBE_WRITABLE_ROOT);
    REFUSED(ERROR_FORBIDDEN, "a user id", o.slot = 1000);
    REFUSED(ERROR_FORBIDDEN, "a stream container", o.flags = KUBE_STREAM;
            memset(o.stream_token, 'a', sizeof(o.stream_token) - 1));
    REFUSED(ERROR_FORBIDDEN, "a network", o.n_ranges = 1;
            net_range_parse("192.0.0.0/16", &o.ranges[0]));
    REFUSED(ERROR_FORBIDDEN, "another port", o.n_ranges = 1;
            net_range_parse("[2001:db8::/48]:80", &o.ranges[0]));
    REFUSED(ERROR_INVALID, "an id that is none", strcpy(o.id, "../kube-system"));
    REFUSED(ERROR_INVALID, "no id", o.id[0] = 0);
    REFUSED(ERROR_INVALID, "an id without an end", memset(o.id, 'a', sizeof(o.id)));
    REFUSED(ERROR_INVALID, "an image with a space", strcpy(o.image, "docker.example/base:1 x"));
    REFUSED(ERROR_INVALID, "an owner with a line end", strcpy(o.owner, "a\nb"));
    REFUSED(ERROR_INVALID, "a spec without an end", memset(o.spec, 'x', sizeof(o.spec)));
    REFUSED(ERROR_INVALID, "no generation", o.generation = 0);
    REFUSED(ERROR_INVALID, "a generation without end", o.generation = KUBE_GENERATIONS);
    REFUSED(ERROR_INVALID, "no memory limit", o.memory_bytes = 0);
    REFUSED(ERROR_INVALID, "a request above the limit", o.memory_request_bytes = 512 * MIB);
    REFUSED(ERROR_INVALID, "an unknown flag", o.flags = _KUBE_FLAGS_END);
    REFUSED(ERROR_INVALID, "an unknown operation", o.op = _KUBE_OP_MAX);
    REFUSED(ERROR_INVALID, "another version", o.version = 9);
    REFUSED(ERROR_INVALID, "too many networks", o.n_ranges = NET_RANGES_MAX + 1);
    REFUSED(ERROR_INVALID, "a denied network", o.n_ranges = 1;
            net_range_parse("192.0.2.0/25", &o.ranges[0]); o.ranges[0].deny = 1);
}

/* Every order of every operation, with one byte set that it does not use. The lists are the
 * contract of proto/kube.h, written a second time. */
static void check_uses(const struct kube_ceiling *c)
{
    enum { ID = 1, HOME = 2, NONCE = 4, RECORD = 8, MARKS = 16, FENCE = 32 };
    static const unsigned used[_KUBE_OP_MAX] = {
        [KUBE_DELETE] = ID | FENCE, [KUBE_CONNECT] = ID,
        [KUBE_TAKE] = ID | HOME,    [KUBE_MARK] = ID | RECORD | MARKS,
        [KUBE_READ] = ID,           [KUBE_PROVE] = ID | HOME | NONCE,
        [KUBE_HOLD] = HOME,         [KUBE_CLAIM] = ID | RECORD,
    };
    for (uint32_t op = KUBE_PROBE; op < _KUBE_OP_MAX; op++) {
        struct kube_order o = {.version = KUBE_VERSION, .op = op, .tag = 5}, mask = {0};
        struct error err = {0};
        size_t let_in = 0;
        if (op == KUBE_CREATE)
            continue;
        if (used[op] & ID)
            strcpy(o.id, "a1");
        if (used[op] & HOME)
            strcpy(o.home, "home-1");
        if (op == KUBE_CLAIM) { /* it has a caller, whose record is never empty */
            strcpy(o.spec, "{}");
            ok(kube_ceiling_check(c, &o, &err) < 0, "a claim without a generation: %s",
               err.message);
            o.generation = 1;
        }
        ok(kube_ceiling_check(c, &o, &err) == 0, "operation %u: %s", op, err.message);
        mask.version = mask.op = mask.epoch = UINT32_MAX;
        mask.tag = UINT64_MAX;
        mask.nonce = used[op] & NONCE ? UINT64_MAX : 0;
        mask.state = used[op] & MARKS ? UINT32_MAX : 0;
        mask.generation = used[op] & (RECORD | FENCE) ? UINT64_MAX : 0;
        memset(mask.uid, used[op] & FENCE ? 1 : 0, sizeof(mask.uid));
        mask.last_exec_s = used[op] & MARKS ? UINT64_MAX : 0;
        memset(mask.id, used[op] & ID ? 1 : 0, sizeof(mask.id));
        memset(mask.home, used[op] & HOME ? 1 : 0, sizeof(mask.home));
        memset(mask.owner, used[op] & RECORD ? 1 : 0, sizeof(mask.owner));
        memset(mask.spec, used[op] & RECORD ? 1 : 0, sizeof(mask.spec));
        for (size_t i = 0; i < sizeof(o); i += i < offsetof(struct kube_order, spec) ? 1 : 31) {
            unsigned char *at = (unsigned char *)&o + i;
            if (((unsigned char *)&mask)[i])
                continue;
            *at = 1;
            let_in += kube_ceiling_check(c, &o, &err) == 0;
            *at = 0;
        }
        ok(let_in == 0, "operation %u lets no member in that it does not use: %zu", op, let_in);
    }
}

/* Sandboxes of one namespace have a policy for their rules, and no other sandbox's. */
static void check_shared(const struct kube_ceiling *c)
{
    struct kube_ceiling s = *c;
    s.shared_namespace = (char[]){"all"};
    struct kube_order a = plain_order(), b = full_order(), probe = plain_order();
    char name_a[80], name_b[80], id[KUBE_ID_SIZE];
    strcpy(b.id, "b2");
    kube_manifest_name(KUBE_OBJECT_POLICY, &s, &a, name_a, sizeof(name_a));
    kube_manifest_name(KUBE_OBJECT_POLICY, &s, &b, name_b, sizeof(name_b));
    ok(strcmp(name_a, name_b) != 0, "other rules, another policy: %s %s", name_a, name_b);
    _cleanup_json_ json_t *policy = kube_manifest(KUBE_OBJECT_POLICY, &s, &b);
    ok(kube_manifest_is_same_policy(policy, &s, &b), "its own");
    ok(!kube_manifest_is_same_policy(policy, &s, &a), "of other rules");
    b.n_ranges = 0;
    kube_manifest_name(KUBE_OBJECT_POLICY, &s, &b, name_b, sizeof(name_b));
    ok(strcmp(name_a, name_b) == 0, "equal rules, one policy: %s %s", name_a, name_b);
    s.instance = (char[]){"two"};
    kube_manifest_name(KUBE_OBJECT_POLICY, &s, &b, name_b, sizeof(name_b));
    ok(strcmp(name_a, name_b) != 0, "another instance, another policy");
    probe.op = KUBE_PROVE;
    ok(!kube_manifest_is_common(KUBE_OBJECT_POLICY, &s, &probe), "a proof has its own");
    ok(kube_layout_find(&s, "all", "sbx-x", id) && strcmp(id, "x") == 0, "the place of a pod");
    ok(!kube_layout_find(&s, "sbx-x", "sandbox", id) && !kube_layout_find(&s, "all", "sbx-", id) &&
           !kube_layout_find(&s, "all", "x", id),
       "places that no pod of ours has");
    ok(kube_layout_find(c, "sbx-x", "sandbox", id) && strcmp(id, "x") == 0 &&
           !kube_layout_find(c, "sbx-x", "other", id) && !kube_layout_find(c, "x", "sandbox", id),
       "and with namespaces of their own");
}

/* A wide network that is granted opens nothing that is not public, and what is not has to be named
 * as such. */
static void check_networks(void)
{
    static const struct {
        const char *allowed, *asked;
        bool good;
    } cases[] = {{"0.0.0.0/0", "0.0.0.0/0", true},
                 {"0.0.0.0/0", "10.1.0.0/16", false},
                 {"10.0.0.0/8", "10.1.0.0/16", true},
                 {"100.64.0.0/10", "100.100.100.0/24", true},
                 {"100.64.0.0/10", "100.100.100.200", false},
                 {"::/0", "::/0", false},
                 {"2000::/3", "2000::/3", true}};
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_ceiling();
    struct kube_order o = plain_order();
    struct error err = {0};
    o.n_ranges = c.n_ranges = 1;
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        net_range_parse(cases[i].allowed, &c.ranges[0]);
        net_range_parse(cases[i].asked, &o.ranges[0]);
        ok((kube_ceiling_check(&c, &o, &err) == 0) == cases[i].good, "%s of %s: %d", cases[i].asked,
           cases[i].allowed, cases[i].good);
    }
    net_range_parse("100.0.0.0/8", &o.ranges[0]);
    _cleanup_json_ json_t *policy = kube_manifest(KUBE_OBJECT_POLICY, &c, &o);
    char *text = json_dumps(policy, JSON_COMPACT);
    ok(strstr(text, "\"ipBlock\":{\"cidr\":\"100.0.0.0/8\",\"except\":[\"100.100.100.200/32\","
                    "\"100.64.0.0/10\"]}"),
       "what is not public is kept out: %s", text);
    free(text);
}

static void check_ownership(const struct kube_ceiling *c)
{
    struct kube_order o = plain_order();
    _cleanup_json_ json_t *m = kube_manifest(KUBE_OBJECT_NAMESPACE, c, &o);
    json_t *labels = json_object_get(json_object_get(m, "metadata"), "labels");
    ok(kube_manifest_is_ours(m, c, &o), "our own");
    strcpy(o.id, "a2");
    ok(!kube_manifest_is_ours(m, c, &o), "of another id");
    strcpy(o.id, "a1");
    json_object_set_new(labels, "mas-sandbox/instance", json_string("two"));
    ok(!kube_manifest_is_ours(m, c, &o), "of another instance");
    json_object_clear(labels);
    ok(!kube_manifest_is_ours(m, c, &o), "without labels");
    json_t *annotations = json_object_get(json_object_get(m, "metadata"), "annotations");
    ok(kube_manifest_is_of_home(m, c), "of our home");
    json_object_set_new(annotations, KUBE_ANNOTATION_HOME, json_string("home-2"));
    ok(!kube_manifest_is_of_home(m, c), "of another home");
    json_object_clear(annotations);
    ok(!kube_manifest_is_of_home(m, c), "of no home");
}

/* With a port for the direct carrier: the link's arguments, and the only way in. */
static void check_direct(void)
{
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_ceiling();
    struct kube_order o = plain_order();
    c.direct_port = 7443;
    c.direct_from = xstrdup("mas-sandbox");
    strcpy(c.direct_peer, "sha256:00");
    _cleanup_json_ json_t *pod = kube_manifest(KUBE_OBJECT_POD, &c, &o);
    const json_t *init = json_object_get(json_object_get(pod, "spec"), "initContainers");
    char *command = json_dumps(json_object_get(json_array_get(init, 1), "command"), JSON_COMPACT);
    ok(strcmp(command, "[\"/mas-link\",\"--listen\",\"/mas-channel/socket\",\"--direct\",\"7443\","
                       "\"--peer\",\"sha256:00\"]") == 0,
       "the link of the direct carrier: %s", command);
    free(command);
    _cleanup_json_ json_t *policy = kube_manifest(KUBE_OBJECT_POLICY, &c, &o);
    char *ingress = json_dumps(json_object_get(json_object_get(policy, "spec"), "ingress"),
                               JSON_COMPACT | JSON_SORT_KEYS);
    ok(strcmp(ingress, "[{\"from\":[{\"namespaceSelector\":{\"matchLabels\":{\"kubernetes.io/"
                       "metadata.name\":\"mas-sandbox\"}}}],\"ports\":[{\"port\":7443,"
                       "\"protocol\":\"TCP\"}]}]") == 0,
       "and the way in: %s", ingress);
    free(ingress);
    check_restricted(&c, &o);
}

#define STREAM_TOKEN "abcdefghijklmnopqrstuvwxyz01234567890123456"

static struct kube_ceiling load_stream_ceiling(const char *member, const char *value,
                                               struct error *err)
{
    struct kube_ceiling c = {0};
    _cleanup_json_ json_t *o = json_parse(ceiling_text, strlen(ceiling_text), err);
    json_object_set_new(o, "stream_image", json_string("our.example/stream:1"));
    json_object_set_new(o, "stream_endpoint", json_string("http://192.0.2.7:8080/"));
    json_object_set_new(o, "stream_events_dir", json_string("/sbx-events"));
    if (member)
        json_object_set_new(o, member, value ? json_string(value) : json_null());
    kube_ceiling_parse(&c, o, err);
    return c;
}

static void expect_dumped(json_t *value, const char *expected, const char *what)
{
    char *dumped = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    ok(dumped && strcmp(dumped, expected) == 0, "%s: %s", what, dumped);
    free(dumped);
}

static void check_stream_container(const json_t *spec)
{
    const json_t *init = json_object_get(spec, "initContainers");
    const json_t *link = json_array_get(init, 1), *stream = json_array_get(init, 2);
    const json_t *box = json_array_get(json_object_get(spec, "containers"), 0);
    ok(json_array_size(init) == 3 && container_is_restricted(stream),
       "the stream container is restricted");
    ok(!json_object_get(stream, "command") &&
           strcmp(json_member_text(stream, "restartPolicy"), "Always") == 0,
       "it runs what its image says, again and again");
    expect_dumped(
        json_object_get(stream, "env"),
        "[{\"name\":\"SBX_STREAM_ENDPOINT\",\"value\":\"http://192.0.2.7:8080?token=" STREAM_TOKEN
        "\"},{\"name\":\"SBX_SANDBOX_ID\",\"value\":\"sbx-a1\"},"
        "{\"name\":\"SBX_EVENTS_DIR\",\"value\":\"/sbx-events\"}]",
        "its variables");
    expect_dumped(json_object_get(stream, "volumeMounts"),
                  "[{\"mountPath\":\"/sbx-events\",\"name\":\"events\",\"readOnly\":true}]",
                  "it reads the files, and has nothing else");
    ok(mounts_volume(link, "events", "/mas-events") &&
           !mounts_volume(box, "events", "/mas-events") &&
           !mounts_volume(box, "events", "/sbx-events"),
       "the link has them, the sandbox has not");
    json_int_t uid = json_integer_value(
        json_object_get(json_object_get(stream, "securityContext"), "runAsUser"));
    ok(uid == 100000 + 2000 - 1 - 3, "a user id that no sandbox and no link has: %lld",
       (long long)uid);
}

/* With a stream container: what it has, what it does not have, and the one way out. */
static void check_streamed(void)
{
    struct error err = {0};
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_stream_ceiling(NULL, NULL, &err);
    struct kube_order o = plain_order(), last = plain_order();
    o.flags = KUBE_STREAM;
    strcpy(o.stream_token, STREAM_TOKEN);
    ok(kube_ceiling_check(&c, &o, &err) == 0, "a stream container is ordered: %s", err.message);
    last.slot = 666;
    expect_refused(&c, &last, ERROR_FORBIDDEN, "a sandbox whose stream has no user id");
    o.stream_token[3] = '&';
    expect_refused(&c, &o, ERROR_INVALID, "a token that does not fit in a URL");
    strcpy(o.stream_token, "short");
    expect_refused(&c, &o, ERROR_INVALID, "a short token");
    strcpy(o.stream_token, STREAM_TOKEN);
    o.flags = 0;
    expect_refused(&c, &o, ERROR_INVALID, "a token without a container");
    o.flags = KUBE_STREAM;
    _cleanup_json_ json_t *pod = kube_manifest(KUBE_OBJECT_POD, &c, &o);
    _cleanup_json_ json_t *policy = kube_manifest(KUBE_OBJECT_POLICY, &c, &o);
    check_stream_container(json_object_get(pod, "spec"));
    expect_dumped(json_object_get(json_object_get(policy, "spec"), "egress"),
                  "[{\"ports\":[{\"port\":8080,\"protocol\":\"TCP\"}],"
                  "\"to\":[{\"ipBlock\":{\"cidr\":\"192.0.2.7/32\"}}]}]",
                  "the endpoint, and nothing else");
}

/* Pods that were made before there were stream containers have ids where those have theirs. */
static void check_uids(void)
{
    struct error err = {0};
    _cleanup_kube_ceiling_ struct kube_ceiling before = load_ceiling();
    _cleanup_kube_ceiling_ struct kube_ceiling after = load_stream_ceiling(NULL, NULL, &err);
    struct kube_order o = plain_order();
    o.slot = kube_ceiling_slots(&before) - 1;
    _cleanup_json_ json_t *pod = kube_manifest(KUBE_OBJECT_POD, &before, &o);
    struct kube_uids there = kube_uids_read(pod);
    struct kube_uids same = kube_uids_of_slot(&before, o.slot, false);
    ok(memcmp(&there, &same, sizeof(same)) == 0, "a pod says which user ids it has: %u, %u",
       there.ids[0], there.ids[1]);
    struct kube_uids first = kube_uids_of_slot(&after, 0, true);
    struct kube_uids plain = kube_uids_of_slot(&after, 0, false);
    struct kube_uids third = kube_uids_of_slot(&after, 2, true);
    ok(kube_uids_meet(&there, &first), "the stream of slot 0 would have one of them: %u",
       first.ids[KUBE_UID_STREAM]);
    ok(!kube_uids_meet(&there, &plain) && !kube_uids_meet(&there, &third),
       "without a stream, or in another slot, it has not");
    o.slot = 0;
    o.flags = KUBE_STREAM;
    strcpy(o.stream_token, STREAM_TOKEN);
    _cleanup_json_ json_t *streamed = kube_manifest(KUBE_OBJECT_POD, &after, &o);
    struct kube_uids all = kube_uids_read(streamed);
    ok(kube_uids_meet(&there, &all) && all.ids[2], "a pod with a stream has three");
}

/* A pod of the pool, in the namespace of all, by the direct carrier, with a stream container. */
static void check_stream_shared(void)
{
    struct error err = {0};
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_stream_ceiling(NULL, NULL, &err);
    struct kube_order o = plain_order(), other = plain_order(), bare = plain_order();
    char name[80], name_other[80], name_bare[80];
    c.shared_namespace = xstrdup("all");
    c.direct_port = 7443;
    c.direct_from = xstrdup("mas-sandbox");
    strcpy(c.direct_peer, "sha256:00");
    o.flags = other.flags = KUBE_STREAM | KUBE_POOL_MEMBER;
    strcpy(o.stream_token, STREAM_TOKEN);
    strcpy(other.stream_token, STREAM_TOKEN);
    other.stream_token[0] = 'b';
    strcpy(other.id, "b2");
    ok(kube_ceiling_check(&c, &o, &err) == 0, "it can be ordered: %s", err.message);
    _cleanup_json_ json_t *pod = kube_manifest(KUBE_OBJECT_POD, &c, &o);
    _cleanup_json_ json_t *policy = kube_manifest(KUBE_OBJECT_POLICY, &c, &o);
    const json_t *init = json_object_get(json_object_get(pod, "spec"), "initContainers");
    expect_dumped(json_object_get(json_array_get(init, 1), "command"),
                  "[\"/mas-link\",\"--listen\",\"/mas-channel/socket\",\"--direct\",\"7443\","
                  "\"--peer\",\"sha256:00\",\"--events\",\"/mas-events\"]",
                  "its link has both tasks");
    const json_t *rules = json_object_get(policy, "spec");
    ok(json_array_size(json_object_get(rules, "ingress")) == 1 &&
           json_array_size(json_object_get(rules, "egress")) == 1,
       "its policy has one way in and one way out");
    kube_manifest_name(KUBE_OBJECT_POLICY, &c, &o, name, sizeof(name));
    kube_manifest_name(KUBE_OBJECT_POLICY, &c, &other, name_other, sizeof(name_other));
    kube_manifest_name(KUBE_OBJECT_POLICY, &c, &bare, name_bare, sizeof(name_bare));
    ok(strcmp(name, name_other) == 0, "which all such pods share: %s", name);
    ok(strcmp(name, name_bare) != 0, "and those without a stream do not");
    check_stream_container(json_object_get(pod, "spec"));
}

static void expect_no_stream(const char *member, const char *value, const char *words)
{
    struct error err = {0};
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_stream_ceiling(member, value, &err);
    ok(!c.prefix && strstr(err.message, words), "%s %s: %s", member, value ? value : "missing",
       err.message);
}

static void expect_no_ceiling(const char *member, json_t *value, const char *words)
{
    struct error err = {0};
    struct kube_ceiling c = {0};
    _cleanup_json_ json_t *o = json_parse(ceiling_text, strlen(ceiling_text), &err);
    json_object_set_new(o, "direct_port", json_integer(7443));
    json_object_set_new(o, "direct_from", json_string("mas-sandbox"));
    json_object_set_new(o, member, value);
    ok(kube_ceiling_parse(&c, o, &err) < 0 && strstr(err.message, words), "%s: %s", member,
       err.message);
}

static void write_objects(const char *dir, const struct kube_ceiling *c)
{
    static const char *const names[] = {"namespace", "account", "policy",
                                        "workspace", "cache",   "pod"};
    struct kube_order orders[] = {plain_order(), full_order()};
    for (size_t k = 0; k < ELEMENTS(orders); k++)
        for (int i = 0; i < _KUBE_OBJECT_MAX; i++) {
            char path[500];
            _cleanup_json_ json_t *m = kube_manifest(i, c, &orders[k]);
            snprintf(path, sizeof(path), "%s/%s-%s.json", dir, k ? "full" : "plain", names[i]);
            if (m && json_dump_file(m, path, JSON_INDENT(1)) < 0)
                ok(false, "%s cannot be written", path);
        }
}

int main(int argc, char **argv)
{
    _cleanup_kube_ceiling_ struct kube_ceiling c = load_ceiling();
    struct kube_order plain = plain_order(), full = full_order();
    check_golden(argc > 1 ? argv[1] : "tests/data/kube/manifests.txt", &c);
    check_restricted(&c, &plain);
    check_restricted(&c, &full);
    check_ceiling(&c);
    check_uses(&c);
    check_ownership(&c);
    check_shared(&c);
    check_networks();
    check_direct();
    expect_no_ceiling("shared_namespace", json_string("a b"), "namespace");
    expect_no_ceiling("shared_namespace", json_string("mas-sandbox"), "Leases");
    expect_no_ceiling("home", json_string("a b"), "home");
    expect_no_ceiling("direct_port", json_integer(443), "1024");
    expect_no_ceiling("direct_port", json_integer(70000), "65535");
    expect_no_ceiling("direct_from", json_null(), "namespace");
    expect_no_ceiling("direct_from", json_string("a b"), "namespace");
    check_streamed();
    check_stream_shared();
    check_uids();
    expect_no_stream("stream_image", NULL, "stream_image");
    expect_no_stream("stream_endpoint", NULL, "stream_endpoint");
    expect_no_stream("stream_endpoint", "192.0.2.7:8080", "stream_endpoint");
    expect_no_stream("stream_endpoint", "http://daemon.example:8080", "is a name");
    expect_no_stream("stream_endpoint", "http://192.0.2.7:8080/x", "stream_endpoint");
    expect_no_stream("stream_endpoint", "http://u@192.0.2.7:8080", "stream_endpoint");
    expect_no_stream("stream_events_dir", "events", "stream_events_dir");
    expect_no_stream("stream_events_dir", "/", "stream_events_dir");
    expect_no_stream("stream_events_dir", "/mas-channel", "stream_events_dir");
    if (argc > 2)
        write_objects(argv[2], &c);
    if (argc > 3) { /* to make manifests.txt again, and then to read what changed */
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(TEXT_MAX);
        format_golden(&c, &out);
        FILE *f = fopen(argv[3], "we");
        fputs(out.data, f);
        fclose(f);
    }
    return tap_done();
}
