/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/ceiling.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/url.h"
#include "proto/kube.h"

#define LIST_MAX         256
#define PUBLIC_IPV6_BITS 3 /* 2000::/3; a network with more in it has no list of what is closed */

enum ceiling_type { AS_TEXT, AS_LIST, AS_NUMBER, AS_LARGE, AS_BOOL };

static const struct {
    const char *name;
    enum ceiling_type type;
    size_t offset;
} members[] = {
    {"prefix", AS_TEXT, offsetof(struct kube_ceiling, prefix)},
    {"instance", AS_TEXT, offsetof(struct kube_ceiling, instance)},
    {"home", AS_TEXT, offsetof(struct kube_ceiling, home)},
    {"images", AS_LIST, offsetof(struct kube_ceiling, images)},
    {"runtime_classes", AS_LIST, offsetof(struct kube_ceiling, runtime_classes)},
    {"storage_classes", AS_LIST, offsetof(struct kube_ceiling, storage_classes)},
    {"networks", AS_LIST, offsetof(struct kube_ceiling, networks)},
    {"link_image", AS_TEXT, offsetof(struct kube_ceiling, link_image)},
    {"priority_class", AS_TEXT, offsetof(struct kube_ceiling, priority_class)},
    {"lease_namespace", AS_TEXT, offsetof(struct kube_ceiling, lease_namespace)},
    {"shared_namespace", AS_TEXT, offsetof(struct kube_ceiling, shared_namespace)},
    {"uid_first", AS_NUMBER, offsetof(struct kube_ceiling, uid_first)},
    {"uid_count", AS_NUMBER, offsetof(struct kube_ceiling, uid_count)},
    {"orphan_s", AS_NUMBER, offsetof(struct kube_ceiling, orphan_s)},
    {"cpu_millicores", AS_NUMBER, offsetof(struct kube_ceiling, cpu_millicores)},
    {"memory_bytes", AS_LARGE, offsetof(struct kube_ceiling, memory_bytes)},
    {"disk_bytes", AS_LARGE, offsetof(struct kube_ceiling, disk_bytes)},
    {"direct_port", AS_NUMBER, offsetof(struct kube_ceiling, direct_port)},
    {"direct_from", AS_TEXT, offsetof(struct kube_ceiling, direct_from)},
    {"host_path", AS_TEXT, offsetof(struct kube_ceiling, host_path)},
    {"stream_image", AS_TEXT, offsetof(struct kube_ceiling, stream_image)},
    {"stream_endpoint", AS_TEXT, offsetof(struct kube_ceiling, stream_endpoint)},
    {"stream_events_dir", AS_TEXT, offsetof(struct kube_ceiling, stream_events_dir)},
    {"node_disk", AS_BOOL, offsetof(struct kube_ceiling, node_disk)},
    {"own_users", AS_BOOL, offsetof(struct kube_ceiling, own_users)},
    {"writable_root", AS_BOOL, offsetof(struct kube_ceiling, writable_root)},
};

static void *member_of(const struct kube_ceiling *c, size_t i)
{
    return (char *)(uintptr_t)c + members[i].offset;
}

void kube_ceiling_done(struct kube_ceiling *c)
{
    for (size_t i = 0; i < ELEMENTS(members); i++) {
        if (members[i].type == AS_TEXT)
            free(*(char **)member_of(c, i));
        else if (members[i].type == AS_LIST)
            strv_free(*(char ***)member_of(c, i));
    }
    *c = (struct kube_ceiling){0};
}

static json_t *format_member(const struct kube_ceiling *c, size_t i)
{
    const char *text;
    switch (members[i].type) {
    case AS_TEXT:
        text = *(char **)member_of(c, i);
        return text ? json_string(text) : json_null();
    case AS_LIST:
        return json_from_strv(*(char ***)member_of(c, i));
    case AS_NUMBER:
        return json_integer(*(uint32_t *)member_of(c, i));
    case AS_LARGE:
        return json_integer((json_int_t) * (uint64_t *)member_of(c, i));
    default:
        return json_boolean(*(bool *)member_of(c, i));
    }
}

json_t *kube_ceiling_format(const struct kube_ceiling *c)
{
    json_t *out = json_object();
    for (size_t i = 0; i < ELEMENTS(members); i++)
        json_object_set_new(out, members[i].name, format_member(c, i));
    return out;
}

static int parse_member(struct kube_ceiling *c, size_t i, const json_t *o, struct error *err)
{
    const char *text = NULL;
    int64_t number = 0;
    int r;
    switch (members[i].type) {
    case AS_TEXT:
        r = json_member_string(o, members[i].name, &text, err);
        *(char **)member_of(c, i) = text ? xstrdup(text) : NULL;
        return r;
    case AS_LIST:
        return json_member_strv(o, members[i].name, LIST_MAX, (char ***)member_of(c, i), err);
    case AS_NUMBER:
        r = json_member_int(o, members[i].name, 0, UINT32_MAX, &number, err);
        *(uint32_t *)member_of(c, i) = (uint32_t)number;
        return r;
    case AS_LARGE:
        r = json_member_int(o, members[i].name, 0, (int64_t)KUBE_QUANTITY_MAX, &number, err);
        *(uint64_t *)member_of(c, i) = (uint64_t)number;
        return r;
    default:
        return json_member_bool(o, members[i].name, (bool *)member_of(c, i), err);
    }
}

static int parse_networks(struct kube_ceiling *c, struct error *err)
{
    for (char **text = c->networks; text && *text; text++) {
        if (c->n_ranges == NET_RANGES_MAX)
            return error_set(err, ERROR_INVALID, 0, "networks: more than %d", NET_RANGES_MAX);
        if (net_range_parse(*text, &c->ranges[c->n_ranges++]) < 0)
            return error_set(err, ERROR_INVALID, 0, "networks: '%.80s' is not a network", *text);
    }
    return 0;
}

/* A NetworkPolicy knows no names, so the endpoint has an address. */
static int parse_stream(struct kube_ceiling *c, struct error *err)
{
    struct url url;
    if (!c->stream_image)
        return c->stream_endpoint || c->stream_events_dir
                   ? error_set(err, ERROR_INVALID, 0,
                               "stream_image: needed with stream_endpoint and stream_events_dir")
                   : 0;
    if (!c->stream_endpoint || url_parse(c->stream_endpoint, &url) < 0 || url.has_user ||
        strcmp(url.rest, *url.rest == '/' ? "/" : "") != 0)
        return error_set(err, ERROR_INVALID, 0,
                         "stream_endpoint: with stream_image it is http:// or https://, an address "
                         "and a port");
    if (!url.target.is_address)
        return error_set(err, ERROR_INVALID, 0,
                         "stream_endpoint: '%.80s' is a name, and a NetworkPolicy takes addresses",
                         url.target.host);
    const char *dir = c->stream_events_dir;
    if (!dir || dir[0] != '/' || !dir[1] || strstr(dir, "/.") || strchr(dir, ':') ||
        strncmp(dir, "/mas", 4) == 0)
        return error_set(err, ERROR_INVALID, 0,
                         "stream_events_dir: a whole path, which does not begin with /mas");
    bool v4 = url.target.address.family == AF_INET;
    c->stream_range = (struct net_range){.family = v4 ? NET_IPV4 : NET_IPV6,
                                         .bits = v4 ? 32 : 128,
                                         .port_first = url.target.port,
                                         .port_last = url.target.port};
    memcpy(c->stream_range.address, url.target.address.bytes, v4 ? 4 : 16);
    return 0;
}

uint32_t kube_ceiling_slots(const struct kube_ceiling *c)
{
    return c->uid_count / (c->stream_image ? 3 : 2);
}

static int check_whole(const struct kube_ceiling *c, struct error *err)
{
    size_t n = c->prefix ? strlen(c->prefix) : 0;
    if (n < 2 || n > 20 || c->prefix[n - 1] != '-')
        return error_set(err, ERROR_INVALID, 0,
                         "the prefix of namespaces has 2 to 20 characters and ends with '-'");
    char start[24];
    snprintf(start, sizeof(start), "%.*s", (int)(n - 1), c->prefix);
    if (!kube_label_is_valid(start, 20))
        return error_set(err, ERROR_INVALID, 0, "'%s' cannot begin a namespace", c->prefix);
    if (!c->instance || !kube_label_is_valid(c->instance, 40))
        return error_set(err, ERROR_INVALID, 0,
                         "the instance needs a name of at most 40 letters, "
                         "digits and '-'");
    if (c->home && !kube_label_is_valid(c->home, KUBE_NAME_SIZE - 1))
        return error_set(err, ERROR_INVALID, 0,
                         "the home has at most %d lower-case letters, digits and '-'",
                         KUBE_NAME_SIZE - 1);
    if (!kube_label_is_valid(c->lease_namespace, 63))
        return error_set(err, ERROR_INVALID, 0,
                         "'%.80s' is not a namespace that Leases could be in", c->lease_namespace);
    if (c->shared_namespace && !kube_label_is_valid(c->shared_namespace, 63))
        return error_set(err, ERROR_INVALID, 0,
                         "'%.80s' is not a namespace that sandboxes could be in",
                         c->shared_namespace);
    if (c->shared_namespace && strcmp(c->shared_namespace, c->lease_namespace) == 0)
        return error_set(err, ERROR_INVALID, 0,
                         "the namespace of all sandboxes is that of Leases: it has to be another");
    if (c->shared_namespace && c->host_path)
        return error_set(err, ERROR_INVALID, 0,
                         "a directory of nodes needs namespaces of their own: one namespace of all "
                         "sandboxes has one Pod Security profile");
    if (!c->link_image || !*c->link_image)
        return error_set(err, ERROR_INVALID, 0, "no image for the link is named");
    if (c->uid_first < 1000 || kube_ceiling_slots(c) < 1 ||
        c->uid_first > UINT32_MAX - c->uid_count)
        return error_set(
            err, ERROR_INVALID, 0,
            "the range of user ids must start at 1000 or above and have ids for one sandbox: 2, or 3 with stream_image");
    if (c->host_path && c->host_path[0] != '/')
        return error_set(err, ERROR_INVALID, 0, "the directory of nodes must be an absolute path");
    if (c->direct_port && (c->direct_port < 1024 || c->direct_port > 65535))
        return error_set(err, ERROR_INVALID, 0, "the port of links is from 1024 to 65535");
    if (c->direct_port && (!c->direct_from || !kube_label_is_valid(c->direct_from, 63)))
        return error_set(err, ERROR_INVALID, 0,
                         "the port of links needs the namespace that may reach it");
    return 0;
}

int kube_ceiling_parse(struct kube_ceiling *ret, const json_t *object, struct error *err)
{
    _cleanup_kube_ceiling_ struct kube_ceiling c = {0};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ELEMENTS(members); i++)
        r = parse_member(&c, i, object, err);
    if (r >= 0 && !c.lease_namespace)
        c.lease_namespace = xstrdup(KUBE_LEASE_NAMESPACE);
    r = r < 0 ? r : parse_networks(&c, err);
    r = r < 0 ? r : parse_stream(&c, err);
    r = r < 0 ? r : check_whole(&c, err);
    if (r < 0)
        return r;
    *ret = c;
    c = (struct kube_ceiling){0};
    return 0;
}

const char *kube_ceiling_home(const struct kube_ceiling *c)
{
    return c->home ? c->home : c->instance;
}

/* --- one order */

static bool is_listed(char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* An entry that ends in '/' or ':' is a beginning; any other is the whole name. */
static bool image_is_allowed(char *const *list, const char *image)
{
    for (; list && *list; list++) {
        size_t n = strlen(*list);
        bool begins = n && ((*list)[n - 1] == '/' || (*list)[n - 1] == ':');
        if (begins ? strncmp(image, *list, n) == 0 : strcmp(image, *list) == 0)
            return true;
    }
    return false;
}

static int refuse_beyond_ceiling(struct error *err, const char *what, const char *value)
{
    return error_set(err, ERROR_FORBIDDEN, EPERM, "%s '%.100s' is beyond what the operator allows",
                     what, value);
}

static int check_volume(const struct kube_ceiling *c, const char *name,
                        const struct kube_volume_order *v, struct error *err)
{
    if (v->bytes > c->disk_bytes)
        return refuse_beyond_ceiling(err, "the size of", name);
    if (v->volume == KUBE_VOLUME_NODE && !c->node_disk)
        return refuse_beyond_ceiling(err, "a volume on the node's disk for", name);
    if (v->volume == KUBE_VOLUME_HOST && !c->host_path)
        return refuse_beyond_ceiling(err, "a directory of the node's for", name);
    if (v->volume != KUBE_VOLUME_CLAIM)
        return 0;
    return is_listed(c->storage_classes, v->storage_class[0] ? v->storage_class : "default")
               ? 0
               : refuse_beyond_ceiling(err, "the storage class",
                                       v->storage_class[0] ? v->storage_class : "default");
}

static enum address_class range_class(const struct net_range *r)
{
    struct address a = {.family = r->family == NET_IPV4 ? AF_INET : AF_INET6};
    memcpy(a.bytes, r->address, sizeof(a.bytes));
    return address_class_of_prefix(&a, r->bits);
}

/* What is not public is let out only where the operator names a network that is of the same kind as
 * a whole: a wide one opens no private part of it (kube/manifest.c). */
static bool range_is_allowed(const struct net_range *allowed, const struct net_range *r)
{
    return net_range_covers(allowed, r) && range_class(allowed) == range_class(r);
}

static int check_networks(const struct kube_ceiling *c, const struct kube_order *o,
                          struct error *err)
{
    for (uint32_t i = 0; i < o->n_ranges; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < c->n_ranges; k++)
            covered |= range_is_allowed(&c->ranges[k], &o->ranges[i]);
        if (o->ranges[i].family == NET_IPV6 && o->ranges[i].bits < PUBLIC_IPV6_BITS)
            covered = false;
        char text[NET_RANGE_TEXT_SIZE];
        net_range_format(&o->ranges[i], text);
        if (!covered)
            return refuse_beyond_ceiling(err, "the network", text);
    }
    return 0;
}

static int check_create(const struct kube_ceiling *c, const struct kube_order *o, struct error *err)
{
    if (!image_is_allowed(c->images, o->image))
        return refuse_beyond_ceiling(err, "the image", o->image);
    if (o->runtime_class[0] && !is_listed(c->runtime_classes, o->runtime_class))
        return refuse_beyond_ceiling(err, "the RuntimeClass", o->runtime_class);
    if (o->memory_bytes > c->memory_bytes)
        return refuse_beyond_ceiling(err, "the limit of", "memory");
    if (o->cpu_millicores > c->cpu_millicores)
        return refuse_beyond_ceiling(err, "the limit of", "cpu");
    if (o->tmp_bytes > c->disk_bytes || o->home_bytes > c->disk_bytes)
        return refuse_beyond_ceiling(err, "the size of", "/tmp or /home/sandbox");
    if (o->flags & KUBE_OWN_USERS && !c->own_users)
        return refuse_beyond_ceiling(err, "the flag", "own users");
    if (o->flags & KUBE_WRITABLE_ROOT && !c->writable_root)
        return refuse_beyond_ceiling(err, "the flag", "writable root");
    if (o->flags & KUBE_STREAM && !c->stream_image)
        return refuse_beyond_ceiling(err, "the flag", "stream container");
    if (o->slot != KUBE_SLOT_ANY && o->slot >= kube_ceiling_slots(c))
        return refuse_beyond_ceiling(err, "the number of", "user ids");
    int r = check_volume(c, "/workspace", &o->workspace, err);
    r = r < 0 ? r : check_volume(c, "/cache", &o->cache, err);
    return r < 0 ? r : check_networks(c, o, err);
}

/* What carries a home is of this broker's, whatever the control plane calls itself. */
static int check_home(const struct kube_ceiling *c, const struct kube_order *o, struct error *err)
{
    bool needed = o->op == KUBE_CREATE || o->op == KUBE_TAKE || o->op == KUBE_PROVE;
    if ((!needed && !o->home[0]) || strcmp(o->home, kube_ceiling_home(c)) == 0)
        return 0;
    /* A pod that is to be taken is another's then, for as long as this broker lives: its sandbox
     * does not wait for it. */
    return error_set(err, o->op == KUBE_TAKE ? ERROR_CONFLICT : ERROR_FORBIDDEN, EPERM,
                     "the home '%s' is not '%s', which this broker is for (kube_home of the "
                     "daemon, home in the broker's settings)",
                     o->home, kube_ceiling_home(c));
}

int kube_ceiling_check(const struct kube_ceiling *c, const struct kube_order *o, struct error *err)
{
    if (!kube_order_is_valid(o))
        return error_set(err, ERROR_INVALID, 0, "this is not an order");
    size_t suffix = o->op == KUBE_PROVE ? sizeof(KUBE_CALLER_SUFFIX) - 1 : 0;
    if (o->id[0] && strlen(c->prefix) + strlen(o->id) + suffix > 63)
        return error_set(err, ERROR_INVALID, 0, "'%s%s' is too long for a namespace", c->prefix,
                         o->id);
    int r = check_home(c, o, err);
    return r < 0 || o->op != KUBE_CREATE ? r : check_create(c, o, err);
}
