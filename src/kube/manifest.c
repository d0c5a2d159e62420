/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "kube/manifest.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/uids.h"
#include "proto/kube.h"
#include "proto/plan.h"

#define MANAGED_BY     "mas-sandbox"
#define LABEL_MANAGED  "app.kubernetes.io/managed-by"
#define LABEL_INSTANCE "mas-sandbox/instance"
#define LABEL_ID       "mas-sandbox/id"
#define LABEL_HASH     "mas-sandbox/spec-hash"
#define ORDER_SUM      "mas-sandbox/order"

#define RUNNER_DIR     "/mas"
#define RUNNER_PROGRAM "/mas/mas-toolrunner"
#define CHANNEL_DIR    "/mas-channel"
#define CHANNEL_SOCKET "/mas-channel/socket"
#define EVENTS_DIR     "/mas-events"    /* in the link's container */
#define DOOR_DIR       "/mas-link-door" /* of LINK_DOOR in pod/link.h */
#define RUNNER_BYTES   (16ll << 20)
#define CHANNEL_BYTES  (64ll << 10)
#define EVENTS_BYTES   (64ll << 20)
#define GRACE_S        3
#define NODE_LOST_S    30
#define COMMON_PREFIX  "sandbox-"
#define NET_SUM_DIGITS 16 /* of the sum of a policy's rules, in its name and its label */

static const struct {
    const char *kind, *version, *collection, *name;
} objects[] = {
    [KUBE_OBJECT_NAMESPACE] = {"Namespace", "v1", "/api/v1/namespaces", NULL},
    [KUBE_OBJECT_ACCOUNT] = {"ServiceAccount", "v1", "/api/v1/namespaces/%s/serviceaccounts",
                             "sandbox"},
    [KUBE_OBJECT_POLICY] = {"NetworkPolicy", "networking.k8s.io/v1",
                            "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies", "sandbox"},
    [KUBE_OBJECT_WORKSPACE] = {"PersistentVolumeClaim", "v1",
                               "/api/v1/namespaces/%s/persistentvolumeclaims", "workspace"},
    [KUBE_OBJECT_CACHE] = {"PersistentVolumeClaim", "v1",
                           "/api/v1/namespaces/%s/persistentvolumeclaims", "cache"},
    [KUBE_OBJECT_POD] = {"Pod", "v1", "/api/v1/namespaces/%s/pods", KUBE_POD_NAME},
};
static_assert(ELEMENTS(objects) == _KUBE_OBJECT_MAX, "a row for every object");

static json_t *quantity_json(uint64_t value, const char *unit)
{
    char out[40];
    snprintf(out, sizeof(out), "%llu%s", (unsigned long long)value, unit);
    return json_string(out);
}

void kube_manifest_collection(enum kube_object object, const struct kube_ceiling *c,
                              const struct kube_order *o, struct strbuf *ret)
{
    char space[KUBE_PLACE_SIZE];
    const char *form = objects[object].collection, *hole = strstr(form, "%s");
    kube_layout_namespace(c, o->id, space);
    if (hole)
        strbuf_printf(ret, "%.*s%s%s", (int)(hole - form), form, space, hole + 2);
    else
        strbuf_puts(ret, form);
}

/* --- network */

/* The networks within this one that are not public: a wide one that was granted opens none of them,
 * and no cloud's metadata. Nodes, services and pods with public addresses are the operator's to
 * keep out of what callers may ask for (network_cidrs). */
static json_t *make_excepts(const struct net_range *r)
{
    struct address all = {.family = r->family == NET_IPV4 ? AF_INET : AF_INET6}, closed;
    enum address_class class;
    json_t *out = json_array();
    size_t bits;
    memcpy(all.bytes, r->address, sizeof(all.bytes));
    for (size_t i = 0; address_closed_network(i, &closed, &bits, &class); i++) {
        char text[ADDRESS_TEXT_SIZE], cidr[ADDRESS_TEXT_SIZE + 8];
        if (closed.family != all.family || bits <= r->bits ||
            !address_in_prefix(&closed, &all, r->bits))
            continue;
        inet_ntop(closed.family, closed.bytes, text, sizeof(text));
        snprintf(cidr, sizeof(cidr), "%s/%zu", text, bits);
        json_array_append_new(out, json_string(cidr));
    }
    return out;
}

static json_t *make_block(const struct net_range *r)
{
    char address[INET6_ADDRSTRLEN], cidr[INET6_ADDRSTRLEN + 8];
    inet_ntop(r->family == NET_IPV4 ? AF_INET : AF_INET6, r->address, address, sizeof(address));
    snprintf(cidr, sizeof(cidr), "%s/%u", address, r->bits);
    json_t *block = json_pack("{s:s}", "cidr", cidr), *excepts = make_excepts(r);
    if (json_array_size(excepts))
        json_object_set(block, "except", excepts);
    json_decref(excepts);
    return json_pack("{s:o}", "ipBlock", block);
}

/* One rule per range: a list of blocks would have the ports of all. */
static json_t *make_egress(const struct net_range *r)
{
    static const char *const protocols[] = {"TCP", "UDP"};
    json_t *rule = json_pack("{s:[o]}", "to", make_block(r));
    json_t *ports = json_array();
    bool all = r->port_first == 0 && r->port_last == 65535;
    for (size_t i = 0; !all && i < ELEMENTS(protocols); i++)
        json_array_append_new(ports, json_pack("{s:s, s:i, s:i}", "protocol", protocols[i], "port",
                                               r->port_first ? r->port_first : 1, "endPort",
                                               r->port_last));
    if (all)
        json_decref(ports);
    else
        json_object_set_new(rule, "ports", ports);
    return rule;
}

/* The endpoint of the stream container, and nothing else of its host. The containers of a pod have
 * one network, so that commands reach it, too. */
static json_t *make_stream_egress(const struct kube_ceiling *c)
{
    return json_pack("{s:[o], s:[{s:s, s:i}]}", "to", make_block(&c->stream_range), "ports",
                     "protocol", "TCP", "port", (int)c->stream_range.port_first);
}

/* The link's port alone, and only from the broker's namespace. */
static json_t *make_ingress(const struct kube_ceiling *c)
{
    return json_pack("{s:[{s:{s:{s:s}}}], s:[{s:s, s:i}]}", "from", "namespaceSelector",
                     "matchLabels", "kubernetes.io/metadata.name", c->direct_from, "ports",
                     "protocol", "TCP", "port", (int)c->direct_port);
}

static int compare_ranges(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct net_range));
}

/* Each range once, in an order that does not depend on the caller's: equal rules have one policy.
 */
static void add_egress(json_t *list, const struct kube_order *o)
{
    struct net_range ranges[ELEMENTS(o->ranges)];
    memcpy(ranges, o->ranges, sizeof(ranges));
    qsort(ranges, o->n_ranges, sizeof(*ranges), compare_ranges);
    for (uint32_t i = 0; i < o->n_ranges; i++)
        if (i == 0 || compare_ranges(&ranges[i - 1], &ranges[i]) != 0)
            json_array_append_new(list, make_egress(&ranges[i]));
}

/* Both ways: what no rule allows is denied. */
static json_t *make_rules(const struct kube_ceiling *c, const struct kube_order *o)
{
    json_t *egress = json_array(), *ingress = json_array();
    if (c->direct_port)
        json_array_append_new(ingress, make_ingress(c));
    add_egress(egress, o);
    if (o->flags & KUBE_STREAM)
        json_array_append_new(egress, make_stream_egress(c));
    return json_pack("{s:[s, s], s:o, s:o}", "policyTypes", "Ingress", "Egress", "ingress", ingress,
                     "egress", egress);
}

bool kube_manifest_is_common(enum kube_object object, const struct kube_ceiling *c,
                             const struct kube_order *o)
{
    return object == KUBE_OBJECT_POLICY && kube_layout_is_shared(c) && o->op != KUBE_PROVE;
}

/* Equal for equal rules, which sandboxes of one home have one policy for: its control plane alone
 * says when that is not needed any more (broker-sweep.c). */
static void net_sum(const struct kube_ceiling *c, const struct kube_order *o,
                    char out[NET_SUM_DIGITS + 1])
{
    _cleanup_json_ json_t *rules = make_rules(c, o);
    char *text = json_dumps(rules, JSON_COMPACT | JSON_SORT_KEYS), hex[SHA256_HEX_SIZE];
    uint8_t digest[SHA256_SIZE];
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, c->instance, strlen(c->instance) + 1);
    sha256_update(&s, kube_ceiling_home(c), strlen(kube_ceiling_home(c)) + 1);
    sha256_update(&s, text, strlen(text));
    sha256_final(&s, digest);
    sha256_hex(digest, hex);
    snprintf(out, NET_SUM_DIGITS + 1, "%.*s", NET_SUM_DIGITS, hex);
    free(text);
}

/* In a namespace of its own, every pod there. In one that is shared, those with the same rules; and
 * where it is tried what a policy does, the one pod that tries it. */
static json_t *make_selector(const struct kube_ceiling *c, const struct kube_order *o)
{
    char sum[NET_SUM_DIGITS + 1];
    if (!kube_layout_is_shared(c))
        return json_object();
    net_sum(c, o, sum);
    bool common = kube_manifest_is_common(KUBE_OBJECT_POLICY, c, o);
    return json_pack("{s:{s:s, s:s}}", "matchLabels", LABEL_INSTANCE, c->instance,
                     common ? KUBE_LABEL_NET : LABEL_ID, common ? sum : o->id);
}

static json_t *make_policy_spec(const struct kube_ceiling *c, const struct kube_order *o)
{
    _cleanup_json_ json_t *rules = make_rules(c, o);
    json_t *spec = json_pack("{s:o}", "podSelector", make_selector(c, o));
    json_object_update(spec, rules);
    return spec;
}

/* The server leaves lists out that have no members. */
static void drop_empty_lists(json_t *spec)
{
    static const char *const lists[] = {"ingress", "egress"};
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        if (json_array_size(json_object_get(spec, lists[i])) == 0)
            json_object_del(spec, lists[i]);
}

bool kube_manifest_is_same_policy(const json_t *object, const struct kube_ceiling *c,
                                  const struct kube_order *o)
{
    const json_t *labels = json_object_get(json_object_get(object, "metadata"), "labels");
    _cleanup_json_ json_t *spec = make_policy_spec(c, o);
    _cleanup_json_ json_t *found = json_copy(json_object_get(object, "spec"));
    drop_empty_lists(spec);
    drop_empty_lists(found);
    return strcmp(json_member_text(labels, LABEL_MANAGED), MANAGED_BY) == 0 &&
           strcmp(json_member_text(labels, LABEL_INSTANCE), c->instance) == 0 &&
           json_equal(spec, found);
}

const char *kube_manifest_name(enum kube_object object, const struct kube_ceiling *c,
                               const struct kube_order *o, char *buffer, unsigned size)
{
    char sum[NET_SUM_DIGITS + 1];
    if (kube_manifest_is_common(object, c, o)) {
        net_sum(c, o, sum);
        snprintf(buffer, size, COMMON_PREFIX "%s", sum);
        return buffer;
    }
    if (objects[object].name && !kube_layout_is_shared(c))
        return objects[object].name;
    snprintf(buffer, size, "%s%s", c->prefix, o->id);
    return buffer;
}

/* --- metadata */

static json_t *make_labels(enum kube_object object, const struct kube_ceiling *c,
                           const struct kube_order *o)
{
    json_t *labels =
        json_pack("{s:s, s:s}", LABEL_MANAGED, MANAGED_BY, LABEL_INSTANCE, c->instance);
    bool pooled = o->flags & KUBE_POOL_MEMBER;
    char sum[NET_SUM_DIGITS + 1];
    if (kube_manifest_is_common(object, c, o))
        return labels;
    json_object_set_new(labels, LABEL_ID, json_string(o->id));
    /* No other profile lets a directory of the node's in. All else that is restricted is said of
     * each container, and the admission policy that we ship demands it. */
    const char *profile = o->cache.volume == KUBE_VOLUME_HOST ? "privileged" : "restricted";
    if (object == KUBE_OBJECT_NAMESPACE) {
        json_object_set_new(labels, "pod-security.kubernetes.io/enforce", json_string(profile));
        json_object_set_new(labels, "pod-security.kubernetes.io/warn", json_string(profile));
    }
    if (object != KUBE_OBJECT_POD && object != KUBE_OBJECT_NAMESPACE)
        return labels;
    /* One that no pool made is its caller's from the start. */
    json_object_set_new(labels, KUBE_LABEL_STATE, json_string(pooled ? "creating" : "claimed"));
    json_object_set_new(labels, KUBE_LABEL_ALLOCATED, json_string(pooled ? "false" : "true"));
    if (pooled)
        json_object_set_new(labels, "sbx.pool", json_string("warm"));
    if (o->spec_hash[0])
        json_object_set_new(labels, LABEL_HASH, json_string(o->spec_hash));
    if (kube_manifest_is_common(KUBE_OBJECT_POLICY, c, o)) {
        net_sum(c, o, sum);
        json_object_set_new(labels, KUBE_LABEL_NET, json_string(sum));
    }
    return labels;
}

/* What an order says, but for what differs when it is sent again. */
static void order_sum(const struct kube_order *o, char out[SHA256_HEX_SIZE])
{
    static struct kube_order same; /* too large for a stack, and used up at once */
    uint8_t digest[SHA256_SIZE];
    struct sha256 s;
    same = *o;
    same.tag = same.epoch = same.slot = 0;
    sha256_init(&s);
    sha256_update(&s, &same, sizeof(same));
    sha256_final(&s, digest);
    sha256_hex(digest, out);
}

static json_t *make_annotations(enum kube_object object, const struct kube_order *o)
{
    json_t *a = json_object();
    bool pooled = o->flags & KUBE_POOL_MEMBER;
    bool lossy;
    if (object == KUBE_OBJECT_POD || object == KUBE_OBJECT_NAMESPACE)
        json_object_set_new(a, KUBE_ANNOTATION_HOME, json_string(o->home));
    if (object != KUBE_OBJECT_POD)
        return a;
    json_object_set_new(a, KUBE_ANNOTATION_GENERATION, quantity_json(o->generation, ""));
    json_object_set_new(a, KUBE_ANNOTATION_OWNER, json_string(o->owner));
    json_object_set_new(a, KUBE_ANNOTATION_SPEC,
                        json_string_from_bytes(o->spec, strlen(o->spec), &lossy));
    json_object_set_new(a, KUBE_ANNOTATION_EVICT, json_string(pooled ? "true" : "false"));
    return a;
}

static json_t *make_object(enum kube_object object, const struct kube_ceiling *c,
                           const struct kube_order *o)
{
    char buffer[KUBE_PLACE_SIZE];
    json_t *out = json_pack("{s:s, s:s, s:{s:s, s:o}}", "apiVersion", objects[object].version,
                            "kind", objects[object].kind, "metadata", "name",
                            kube_manifest_name(object, c, o, buffer, sizeof(buffer)), "labels",
                            make_labels(object, c, o));
    json_t *metadata = json_object_get(out, "metadata");
    json_t *annotations = make_annotations(object, o);
    char sum[SHA256_HEX_SIZE];
    if (object != KUBE_OBJECT_NAMESPACE)
        json_object_set_new(metadata, "namespace",
                            json_string(kube_layout_namespace(c, o->id, buffer)));
    if (kube_manifest_is_common(object, c, o)) {
        json_object_set_new(annotations, KUBE_ANNOTATION_HOME, json_string(kube_ceiling_home(c)));
    } else {
        order_sum(o, sum);
        json_object_set_new(annotations, ORDER_SUM, json_string(sum));
    }
    json_object_set_new(metadata, "annotations", annotations);
    return out;
}

bool kube_manifest_is_of_order(const json_t *object, const struct kube_order *o)
{
    char sum[SHA256_HEX_SIZE];
    const json_t *annotations = json_object_get(json_object_get(object, "metadata"), "annotations");
    order_sum(o, sum);
    return strcmp(json_member_text(annotations, ORDER_SUM), sum) == 0;
}

void kube_manifest_selector(const struct kube_ceiling *c, char out[KUBE_SELECTOR_SIZE])
{
    snprintf(out, KUBE_SELECTOR_SIZE, LABEL_MANAGED "=" MANAGED_BY "," LABEL_INSTANCE "=%s",
             c->instance);
}

bool kube_manifest_is_ours_by_id(const json_t *object, const struct kube_ceiling *c, const char *id)
{
    const json_t *labels = json_object_get(json_object_get(object, "metadata"), "labels");
    return strcmp(json_member_text(labels, LABEL_MANAGED), MANAGED_BY) == 0 &&
           strcmp(json_member_text(labels, LABEL_INSTANCE), c->instance) == 0 &&
           strcmp(json_member_text(labels, LABEL_ID), id) == 0;
}

bool kube_manifest_is_ours(const json_t *object, const struct kube_ceiling *c,
                           const struct kube_order *o)
{
    return kube_manifest_is_ours_by_id(object, c, o->id);
}

bool kube_manifest_is_of_home(const json_t *object, const struct kube_ceiling *c)
{
    const json_t *annotations = json_object_get(json_object_get(object, "metadata"), "annotations");
    return strcmp(json_member_text(annotations, KUBE_ANNOTATION_HOME), kube_ceiling_home(c)) == 0;
}

const char *kube_manifest_policy_sum(const char *name)
{
    size_t n = strlen(COMMON_PREFIX);
    return strncmp(name, COMMON_PREFIX, n) == 0 ? name + n : "";
}

bool kube_manifest_is_common_policy(const json_t *policy, const struct kube_ceiling *c)
{
    const json_t *metadata = json_object_get(policy, "metadata");
    const json_t *labels = json_object_get(metadata, "labels");
    const char *sum = kube_manifest_policy_sum(json_member_text(metadata, "name"));
    return strlen(sum) == NET_SUM_DIGITS && !json_object_get(labels, LABEL_ID) &&
           strcmp(json_member_text(labels, LABEL_MANAGED), MANAGED_BY) == 0 &&
           strcmp(json_member_text(labels, LABEL_INSTANCE), c->instance) == 0 &&
           kube_manifest_is_of_home(policy, c);
}

/* --- volumes */

static bool is_claim(const struct kube_volume_order *v)
{
    return v->volume == KUBE_VOLUME_CLAIM;
}

static json_t *make_claim_spec(const struct kube_volume_order *v)
{
    static const char *const modes[] = {[KUBE_READ_WRITE_ONCE] = "ReadWriteOnce",
                                        [KUBE_READ_WRITE_ONCE_POD] = "ReadWriteOncePod",
                                        [KUBE_READ_WRITE_MANY] = "ReadWriteMany"};
    static_assert(ELEMENTS(modes) == _KUBE_ACCESS_MODE_MAX, "a word for every mode");
    assert(v->access < ELEMENTS(modes)); /* the order was checked */
    json_t *spec = json_pack("{s:[s], s:{s:{s:o}}}", "accessModes", modes[v->access], "resources",
                             "requests", "storage", quantity_json(v->bytes, ""));
    if (v->storage_class[0])
        json_object_set_new(spec, "storageClassName", json_string(v->storage_class));
    return spec;
}

static json_t *make_empty(const char *name, uint64_t bytes, bool memory)
{
    json_t *empty = json_pack("{s:o}", "sizeLimit", quantity_json(bytes, ""));
    if (memory)
        json_object_set_new(empty, "medium", json_string("Memory"));
    return json_pack("{s:s, s:o}", "name", name, "emptyDir", empty);
}

/* A claim of a namespace of its own ends with that. One of a namespace that is shared is made by
 * the cluster for its pod, and ends with the pod. */
static json_t *make_volume(const char *name, const struct kube_ceiling *c,
                           const struct kube_volume_order *v)
{
    if (v->volume == KUBE_VOLUME_HOST)
        return json_pack("{s:s, s:{s:s, s:s}}", "name", name, "hostPath", "path", c->host_path,
                         "type", "Directory");
    if (is_claim(v) && kube_layout_is_shared(c))
        return json_pack("{s:s, s:{s:{s:{s:{s:s, s:s}}, s:o}}}", "name", name, "ephemeral",
                         "volumeClaimTemplate", "metadata", "labels", LABEL_MANAGED, MANAGED_BY,
                         LABEL_INSTANCE, c->instance, "spec", make_claim_spec(v));
    if (is_claim(v))
        return json_pack("{s:s, s:{s:s}}", "name", name, "persistentVolumeClaim", "claimName",
                         name);
    return make_empty(name, v->bytes, v->volume == KUBE_VOLUME_MEMORY);
}

static json_t *make_volumes(const struct kube_ceiling *c, const struct kube_order *o)
{
    json_t *all = json_pack(
        "[o, o, o, o, o, o, o]", make_empty("runner", RUNNER_BYTES, true),
        make_empty("channel", CHANNEL_BYTES, true), make_empty("door", CHANNEL_BYTES, true),
        make_volume("workspace", c, &o->workspace), make_volume("cache", c, &o->cache),
        make_empty("tmp", o->tmp_bytes, true), make_empty("home", o->home_bytes, true));
    if (o->flags & KUBE_STREAM)
        json_array_append_new(all, make_empty("events", EVENTS_BYTES, true));
    return all;
}

static json_t *make_mount(const char *name, const char *path, bool read_only)
{
    json_t *mount = json_pack("{s:s, s:s}", "name", name, "mountPath", path);
    if (read_only)
        json_object_set_new(mount, "readOnly", json_true());
    return mount;
}

/* --- containers */

static uint32_t uid_of(const struct kube_ceiling *c, const struct kube_order *o,
                       enum kube_uid which)
{
    return kube_uids_of_slot(c, o->slot, o->flags & KUBE_STREAM).ids[which];
}

/* All that the restricted profile demands of a container, said of each. */
static json_t *make_security(uint32_t uid, bool read_only)
{
    return json_pack("{s:b, s:b, s:b, s:I, s:I, s:b, s:{s:[s]}, s:{s:s}}",
                     "allowPrivilegeEscalation", 0, "privileged", 0, "runAsNonRoot", 1, "runAsUser",
                     (json_int_t)uid, "runAsGroup", (json_int_t)uid, "readOnlyRootFilesystem",
                     read_only, "capabilities", "drop", "ALL", "seccompProfile", "type",
                     "RuntimeDefault");
}

static json_t *make_own_resources(void)
{
    return json_pack("{s:{s:o, s:o}, s:{s:o, s:o}}", "limits", "cpu",
                     quantity_json(KUBE_LINK_MILLICORES, "m"), "memory",
                     quantity_json(KUBE_LINK_MEMORY_MIB, "Mi"), "requests", "cpu",
                     quantity_json(KUBE_LINK_REQUEST_MILLICORES, "m"), "memory",
                     quantity_json(KUBE_LINK_MEMORY_MIB, "Mi"));
}

/* Ours: small, and the same whatever was ordered. */
static json_t *make_own_container(const struct kube_ceiling *c, const struct kube_order *o,
                                  const char *name, json_t *command, json_t *mounts, bool link)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "name", name, "image", c->link_image,
                     "imagePullPolicy", "IfNotPresent", "command", command, "volumeMounts", mounts,
                     "resources", make_own_resources(), "securityContext",
                     make_security(uid_of(c, o, link ? KUBE_UID_LINK : KUBE_UID_SANDBOX), true));
}

static json_t *make_variable(const char *name, const char *value)
{
    return json_pack("{s:s, s:s}", "name", name, "value", value);
}

/* Whatever the image runs by itself, as a user that nothing else has, which can read the files of
 * output and write nowhere. It is started again when it ends. */
static json_t *make_stream_container(const struct kube_ceiling *c, const struct kube_order *o)
{
    _cleanup_free_ char *endpoint = NULL, *id = xasprintf("sbx-%s", o->id);
    int n = (int)strlen(c->stream_endpoint);
    n -= c->stream_endpoint[n - 1] == '/';
    endpoint = xasprintf("%.*s?token=%s", n, c->stream_endpoint, o->stream_token);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:[o, o, o], s:[o], s:o, s:o}", "name", "stream", "image",
        c->stream_image, "imagePullPolicy", "IfNotPresent", "restartPolicy", "Always", "env",
        make_variable("SBX_STREAM_ENDPOINT", endpoint), make_variable("SBX_SANDBOX_ID", id),
        make_variable("SBX_EVENTS_DIR", c->stream_events_dir), "volumeMounts",
        make_mount("events", c->stream_events_dir, true), "resources", make_own_resources(),
        "securityContext", make_security(uid_of(c, o, KUBE_UID_STREAM), true));
}

static json_t *make_link_command(const struct kube_ceiling *c, const struct kube_order *o)
{
    json_t *command = json_pack("[s, s, s]", "/mas-link", "--listen", CHANNEL_SOCKET);
    if (c->direct_port) {
        json_array_append_new(command, json_string("--direct"));
        json_array_append_new(command, quantity_json(c->direct_port, ""));
        json_array_append_new(command, json_string("--peer"));
        json_array_append_new(command, json_string(c->direct_peer));
    }
    if (o->flags & KUBE_STREAM) {
        json_array_append_new(command, json_string("--events"));
        json_array_append_new(command, json_string(EVENTS_DIR));
    }
    return command;
}

static json_t *make_init_containers(const struct kube_ceiling *c, const struct kube_order *o)
{
    json_t *install = make_own_container(
        c, o, "install", json_pack("[s, s, s]", "/mas-toolrunner", "--install", RUNNER_DIR),
        json_pack("[o]", make_mount("runner", RUNNER_DIR, false)), false);
    json_t *mounts = json_pack("[o, o]", make_mount("channel", CHANNEL_DIR, false),
                               make_mount("door", DOOR_DIR, false));
    if (o->flags & KUBE_STREAM)
        json_array_append_new(mounts, make_mount("events", EVENTS_DIR, false));
    json_t *link =
        make_own_container(c, o, KUBE_LINK_CONTAINER, make_link_command(c, o), mounts, true);
    json_object_set_new(link, "restartPolicy",
                        json_string("Always")); /* a sidecar that starts first */
    json_t *all = json_pack("[o, o]", install, link);
    if (o->flags & KUBE_STREAM)
        json_array_append_new(all, make_stream_container(c, o));
    return all;
}

static json_t *make_resources(const struct kube_order *o)
{
    uint64_t cpu = o->cpu_request_millicores ? o->cpu_request_millicores : o->cpu_millicores;
    uint64_t memory = o->memory_request_bytes ? o->memory_request_bytes : o->memory_bytes;
    return json_pack("{s:{s:o, s:o}, s:{s:o, s:o}}", "limits", "cpu",
                     quantity_json(o->cpu_millicores, "m"), "memory",
                     quantity_json(o->memory_bytes, ""), "requests", "cpu", quantity_json(cpu, "m"),
                     "memory", quantity_json(memory, ""));
}

/* The channel's directory is read-only here: a socket in it can be connected to all the same, and
 * no command puts anything where the link would find it. */
static json_t *make_sandbox_container(const struct kube_ceiling *c, const struct kube_order *o)
{
    json_t *mounts = json_pack(
        "[o, o, o, o, o, o]", make_mount("runner", RUNNER_DIR, true),
        make_mount("channel", CHANNEL_DIR, true), make_mount("workspace", "/workspace", false),
        make_mount("cache", "/cache", false), make_mount("tmp", "/tmp", false),
        make_mount("home", "/home/sandbox", false));
    json_t *command = json_pack("[s, s, s, s, s, s]", RUNNER_PROGRAM, "--pid1", "--own-filter",
                                "--shared-uid", "--channel-socket", CHANNEL_SOCKET);
    if (o->processes) {
        json_array_append_new(command, json_string("--processes"));
        json_array_append_new(command, quantity_json(o->processes, ""));
    }
    if (o->flags & KUBE_PROXY) {
        json_array_append_new(command, json_string("--proxy-port"));
        json_array_append_new(command, json_string(PLAN_PROXY_PORT));
    }
    if (c->orphan_s) {
        json_array_append_new(command, json_string("--orphan-ttl"));
        json_array_append_new(command, quantity_json(c->orphan_s, ""));
    }
    bool read_only = !(o->flags & KUBE_WRITABLE_ROOT);
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:o, s:o}", "name", KUBE_POD_NAME, "image",
                     o->image, "imagePullPolicy", "IfNotPresent", "command", command, "workingDir",
                     "/workspace", "volumeMounts", mounts, "resources", make_resources(o),
                     "securityContext", make_security(uid_of(c, o, KUBE_UID_SANDBOX), read_only));
}

/* --- pod */

static json_t *make_tolerations(void)
{
    static const char *const keys[] = {"node.kubernetes.io/not-ready",
                                       "node.kubernetes.io/unreachable"};
    json_t *all = json_array();
    for (size_t i = 0; i < ELEMENTS(keys); i++)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:i}", "key", keys[i], "operator",
                                             "Exists", "effect", "NoExecute", "tolerationSeconds",
                                             NODE_LOST_S));
    return all;
}

static void fill_pod(json_t *out, const struct kube_ceiling *c, const struct kube_order *o)
{
    json_int_t uid = uid_of(c, o, KUBE_UID_SANDBOX);
    json_t *spec = json_pack(
        "{s:s, s:b, s:b, s:s, s:i, s:s, s:o, s:{s:b, s:I, s:I, s:I, s:{s:s}}, s:o, s:o, s:[o]}",
        "restartPolicy", "Never", "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "serviceAccountName", objects[KUBE_OBJECT_ACCOUNT].name, "terminationGracePeriodSeconds",
        GRACE_S, "hostname", o->id, "tolerations", make_tolerations(), "securityContext",
        "runAsNonRoot", 1, "runAsUser", uid, "runAsGroup", uid, "fsGroup", uid, "seccompProfile",
        "type", "RuntimeDefault", "volumes", make_volumes(c, o), "initContainers",
        make_init_containers(c, o), "containers", make_sandbox_container(c, o));
    if (o->n_ranges == 0) { /* names go through the gateway, over the runner's connection */
        json_object_set_new(spec, "dnsPolicy", json_string("None"));
        json_object_set_new(spec, "dnsConfig", json_pack("{s:[s]}", "nameservers", "127.0.0.1"));
    }
    if (o->runtime_class[0])
        json_object_set_new(spec, "runtimeClassName", json_string(o->runtime_class));
    if (c->priority_class)
        json_object_set_new(spec, "priorityClassName", json_string(c->priority_class));
    if (o->flags & KUBE_OWN_USERS)
        json_object_set_new(spec, "hostUsers", json_false());
    json_object_set_new(out, "spec", spec);
}

json_t *kube_manifest(enum kube_object object, const struct kube_ceiling *c,
                      const struct kube_order *o)
{
    const struct kube_volume_order *v = object == KUBE_OBJECT_WORKSPACE ? &o->workspace : &o->cache;
    bool claim = object == KUBE_OBJECT_WORKSPACE || object == KUBE_OBJECT_CACHE;
    if (claim && !is_claim(v))
        return NULL;
    if (kube_layout_is_shared(c) && object != KUBE_OBJECT_POLICY && object != KUBE_OBJECT_POD)
        return NULL;
    json_t *out = make_object(object, c, o);
    if (claim)
        json_object_set_new(out, "spec", make_claim_spec(v));
    else if (object == KUBE_OBJECT_ACCOUNT)
        json_object_set_new(out, "automountServiceAccountToken", json_false());
    else if (object == KUBE_OBJECT_POLICY)
        json_object_set_new(out, "spec", make_policy_spec(c, o));
    else if (object == KUBE_OBJECT_POD)
        fill_pod(out, c, o);
    return out;
}
