/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that the warden builds: turns a spec into a plan and the warden's reply into an
 * effective report. Nothing here has privileges; the mechanisms are in src/warden. */
#include "runtime/warden-instance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/weak.h"
#include "runtime/warden-client.h"

struct runtime_instance {
    const struct runtime_ops *ops;
    struct runtime_host *host;
    char id[PLAN_ID_SIZE];
    const struct runtime_events *events;
    void *data;
    struct spec spec;
    bool stopping;
    bool started;
    struct weak *weak; /* for a reconnection that is under way */
};

static void instance_free(struct runtime_instance *in)
{
    weak_clear(&in->weak);
    spec_done(&in->spec);
    free(in);
}

static int set_text(char *out, size_t size, const char *text, const char *field, struct error *err)
{
    if (strlen(text) >= size)
        return error_field(err, field, "'%s' is longer than %zu bytes", field, size - 1);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

/* Which allowed directory a host path lies under: its index, and the rest of the path. */
static int find_allowed(const struct runtime_host *host, const char *source, const char **ret_rest)
{
    for (int i = 0; host->mounts_allow && host->mounts_allow[i]; i++) {
        const char *rest = path_below(host->mounts_allow[i], source);
        if (rest) {
            *ret_rest = rest;
            return i;
        }
    }
    return -1;
}

/* The plan names an allowed directory by its index and only the rest by a path: the warden opens
 * the rest below a descriptor that it has had since its start, so that no path of the control
 * plane's is resolved from the root. */
static int plan_mount_fill(const struct runtime_host *host, const struct spec_mount *m,
                           struct plan_mount *out, struct error *err)
{
    const char *rest;
    int index = path_is_clean(m->source) ? find_allowed(host, m->source, &rest) : -1;
    if (index < 0)
        return error_set(err, ERROR_DENIED, 0, "host path '%s' is not under mounts.allow",
                         m->source);
    out->allow_index = index;
    out->read_only = m->read_only;
    int r = set_text(out->subpath, sizeof(out->subpath), rest, "mounts", err);
    if (r < 0)
        return r;
    return set_text(out->target, sizeof(out->target), m->target, "mounts", err);
}

/* One text of a list, which may go on with attributes (gateway/rule.h). */
static int plan_range_add(const char *text, bool deny, struct plan *p, struct error *err)
{
    char place[NET_RANGE_TEXT_SIZE];
    struct net_range range;
    if (p->n_ranges == NET_RANGES_MAX)
        return error_field(err, deny ? "deny" : "cidrs", "more than %d networks", NET_RANGES_MAX);
    snprintf(place, sizeof(place), "%.*s", (int)strcspn(text, " "), text);
    if (net_range_parse(place, &range) < 0)
        return error_field(err, deny ? "deny" : "cidrs", "'%.100s' is not a network", text);
    range.deny = deny;
    p->ranges[p->n_ranges++] = range;
    return 0;
}

/* Ranges that are denied come from addresses among the denied hosts. Names among them are denied by
 * the gateway, where there is a network by name as well. */
static int plan_ranges_fill(const struct spec *s, struct plan *p, struct error *err)
{
    char *const *lists[] = {s->cidrs, s->lent, s->denied_hosts};
    struct net_range ignored;
    int r = 0;
    for (size_t i = 0; i < ELEMENTS(lists); i++) {
        bool deny = lists[i] == s->denied_hosts;
        for (char *const *text = lists[i]; r >= 0 && text && *text; text++)
            if (!deny || !s->network || net_range_parse(*text, &ignored) == 0)
                r = plan_range_add(*text, deny, p, err);
    }
    return r;
}

static int plan_fill(const struct runtime_host *host, const char *id, const struct spec *s,
                     struct plan *p, struct error *err)
{
    *p = (struct plan){.op = PLAN_CREATE, .n_mounts = (uint32_t)s->n_mounts};
    p->flags = (s->tool_net ? PLAN_TOOL_NET : 0) | (s->network ? PLAN_PROXY : 0) |
               (s->intercept ? PLAN_AUTHORITY : 0);
    p->limits = s->limits;
    for (int w = 0; w < _WALL_MAX; w++)
        p->weaker[w] = s->accept_weaker[w] || !s->asked[w];
    /* Nothing that a caller accepts makes these three walls optional. */
    p->weaker[WALL_FILESYSTEM] = p->weaker[WALL_NETWORK] = p->weaker[WALL_SYSCALLS] = 0;
    if (s->image && !s->image_digest) /* never the host's view in its place */
        return error_field(err, "image", "image '%s' has not been resolved", s->image);
    const struct {
        const char *name, *text; /* NULL: the plan has none */
        char *to;
        size_t size;
    } texts[] = {{"id", id, p->id, sizeof(p->id)},
                 {"hostname", "sandbox", p->hostname, sizeof(p->hostname)},
                 {"workdir", spec_workdir(s), p->workdir, sizeof(p->workdir)},
                 {"image", s->image_digest, p->image, sizeof(p->image)},
                 {"snapshot", s->snapshot, p->snapshot, sizeof(p->snapshot)}};
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        int r = texts[i].text
                    ? set_text(texts[i].to, texts[i].size, texts[i].text, texts[i].name, err)
                    : 0;
        if (r < 0)
            return r;
    }
    if (spec_has_addresses(s)) {
        p->flags |= PLAN_ADDRESSES;
        int r = plan_ranges_fill(s, p, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s->n_mounts; i++) {
        int r = plan_mount_fill(host, &s->mounts[i], &p->mounts[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

void warden_effective_fill(struct effective *e, const char *runtime, const struct plan_reply *reply,
                           const struct spec *s)
{
    *e = (struct effective){.runtime = runtime, .landlock_abi = reply->landlock_abi};
    e->uid_separation = reply->mechanism[WALL_USERS] != MECHANISM_NONE &&
                        reply->mechanism[WALL_USERS] != MECHANISM_UID_SHARED;
    for (int w = 0; w < _WALL_MAX; w++)
        e->by[w] = mechanism_name(reply->mechanism[w]);
    if (!s)
        return;
    if (reply->mechanism[WALL_FILESYSTEM] == MECHANISM_VM) {
        e->machine = reply->features & FEATURE_RESTORED ? "restored" : "booted";
        e->vmm = reply->features & FEATURE_FIRECRACKER ? "firecracker" : "qemu";
    }
    e->network_by_name = s->network;
    e->intercepted = s->intercept;
    e->network_by_address = reply->mechanism[WALL_NETWORK] == MECHANISM_NFTABLES;
    limit_for_each(row) {
        if (row->wall >= 0 && e->by[row->wall])
            limit_set(row, &e->limits, limit_get(row, &s->limits));
    }
    e->disk_in_memory = reply->mechanism[WALL_DISK] == MECHANISM_TMPFS;
}

/* Who is to blame for a failed start, by the warden's errno. */
static enum error_code start_error_code(const struct plan_reply *reply)
{
    switch (reply->error) {
    case EPERM:
    case EACCES:
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EXDEV:
        return ERROR_DENIED;
    case EINVAL:
    case E2BIG:
    case ERANGE:
        return ERROR_INVALID;
    case EEXIST:    /* not one of ours: it is being removed since a restart, and soon gone */
    case EHOSTDOWN: /* a container engine that does not answer */
    case ERRNO_NO_JIT_MEMORY:
        return ERROR_UNAVAILABLE;
    case EBUSY:
    case ESTALE: /* a snapshot that no machine can be made from any more */
        return ERROR_CONFLICT;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EUSERS:
        return ERROR_LIMIT;
    case ENOSPC:
        return ERROR_NO_SPACE;
    case EOPNOTSUPP:
        return ERROR_UNSUPPORTED;
    case ETIMEDOUT:
        return ERROR_TIMEOUT;
    default:
        return ERROR_INTERNAL;
    }
}

static void set_start_error(struct error *err, const struct plan_reply *reply)
{
    if (!reply) {
        error_set(err, ERROR_UNAVAILABLE, 0, "the warden is gone");
        return;
    }
    enum error_code code = start_error_code(reply);
    bool wall = reply->wall >= 0 && reply->wall < _WALL_MAX;
    if (wall && code != ERROR_DENIED && code != ERROR_LIMIT && code != ERROR_NO_SPACE &&
        reply->error != ERRNO_NO_JIT_MEMORY)
        error_set(err, ERROR_UNENFORCEABLE, 0, "%s cannot be enforced here: %s",
                  wall_name((enum wall)reply->wall), reply->message);
    else
        error_set(err, code, 0, "%s", reply->message);
}

static void on_exit_event(void *data, const struct plan_reply *event)
{
    struct runtime_instance *in = data;
    struct runtime_end end = {.wait_status = event->wait_status, .oom_kills = event->oom_kills};
    in->events->on_exited(in->data, &end);
    instance_free(in);
}

static void on_killed(void *data, const struct plan_reply *reply, int fd)
{
    (void)data;
    (void)reply;
    fd_close(&fd);
}

static void send_kill(struct runtime_instance *in)
{
    struct plan plan = {.op = PLAN_KILL};
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(in->host->warden, &plan, on_killed, NULL);
}

/* Without a root of its own, a sandbox works where the warden made it a place. */
static void set_workdir(struct effective *e, const struct runtime_ops *ops,
                        const struct plan_reply *reply)
{
    size_t n = strnlen(reply->box, sizeof(reply->box) - 1);
    if (ops->workdir)
        snprintf(e->workdir, sizeof(e->workdir), "%s", ops->workdir);
    else if (n && n + sizeof("/workspace") <= sizeof(e->workdir))
        snprintf(e->workdir, sizeof(e->workdir), "%.*s/workspace", (int)n, reply->box);
    snprintf(e->box, sizeof(e->box), "%.*s", (int)n, reply->box);
    e->shares = ops->kind->shares ? ops->kind->shares(e) : NULL;
}

static void on_created(void *data, const struct plan_reply *reply, int fd)
{
    struct runtime_instance *in = data;
    struct error err = {0};
    if (!reply || reply->error || fd < 0) {
        set_start_error(&err, reply);
        fd_close(&fd);
        in->events->on_started(in->data, -1, NULL, &err);
        instance_free(in);
        return;
    }
    struct effective e;
    warden_effective_fill(&e, in->ops->name, reply, &in->spec);
    set_workdir(&e, in->ops, reply);
    in->started = true;
    warden_client_on_exit(in->host->warden, in->id, on_exit_event, in);
    if (in->stopping)
        send_kill(in);
    in->events->on_started(in->data, fd, &e, NULL);
}

static struct runtime_instance *instance_new(const struct runtime_ops *ops,
                                             struct runtime_host *host, const char *id,
                                             const struct spec *spec,
                                             const struct runtime_events *events, void *data)
{
    struct runtime_instance *in = new0(struct runtime_instance);
    in->ops = ops;
    in->host = host;
    in->events = events;
    in->data = data;
    snprintf(in->id, sizeof(in->id), "%s", id);
    spec_copy(&in->spec, spec);
    return in;
}

struct runtime_instance *warden_instance_start(const struct runtime_ops *ops,
                                               struct runtime_host *host, const char *id,
                                               const struct spec *spec,
                                               const struct runtime_events *events, void *data,
                                               struct error *err)
{
    struct plan plan;
    if ((ops->check && ops->check(ops, host, spec, err) < 0) ||
        plan_fill(host, id, spec, &plan, err) < 0)
        return NULL;
    plan.flags |= ops->kind->flags;
    plan.backend = ops->kind->backend;
    plan.inner = ops->kind->inner;
    struct runtime_instance *in = instance_new(ops, host, id, spec, events, data);
    warden_client_send(host->warden, &plan, on_created, in);
    return in;
}

struct runtime_instance *warden_instance_adopt(const struct runtime_ops *ops,
                                               struct runtime_host *host, const char *id,
                                               const struct spec *spec,
                                               const struct runtime_events *events, void *data,
                                               struct error *err)
{
    (void)err;
    struct plan plan = {.op = PLAN_CONNECT};
    struct runtime_instance *in = instance_new(ops, host, id, spec, events, data);
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(host->warden, &plan, on_created, in);
    return in;
}

static void on_connected(void *data, const struct plan_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    if (in && reply && !reply->error && fd >= 0)
        in->events->on_reconnected(in->data, fd_steal(&fd));
    fd_close(&fd);
}

void warden_instance_reconnect(struct runtime_instance *in)
{
    struct plan plan = {.op = PLAN_CONNECT};
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(in->host->warden, &plan, on_connected, weak_ref(&in->weak, in));
}

void warden_instance_discard(struct runtime_host *host, const char *id)
{
    struct plan plan = {.op = PLAN_KILL};
    snprintf(plan.id, sizeof(plan.id), "%s", id);
    warden_client_send(host->warden, &plan, on_killed, NULL);
}

void warden_instance_stop(struct runtime_instance *in)
{
    if (in->stopping)
        return;
    in->stopping = true;
    if (in->started)
        send_kill(in);
}

struct stats_call {
    void (*cb)(void *data, const struct runtime_stats *stats);
    void *data;
};

static void on_stats(void *data, const struct plan_reply *reply, int fd)
{
    struct stats_call *call = data;
    fd_close(&fd);
    if (!reply || reply->error) {
        call->cb(call->data, NULL);
    } else {
        struct runtime_stats s = {.memory_bytes = reply->memory_bytes,
                                  .memory_peak_bytes = reply->memory_peak_bytes,
                                  .cpu_us = reply->cpu_us,
                                  .processes = reply->processes,
                                  .oom_kills = reply->oom_kills};
        call->cb(call->data, &s);
    }
    free(call);
}

void warden_instance_stats(struct runtime_instance *in,
                           void (*cb)(void *data, const struct runtime_stats *stats), void *data)
{
    struct stats_call *call = new0(struct stats_call);
    *call = (struct stats_call){cb, data};
    struct plan plan = {.op = PLAN_STATS};
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(in->host->warden, &plan, on_stats, call);
}

struct freeze_call {
    void (*cb)(void *data, int result);
    void *data;
};

static void on_frozen(void *data, const struct plan_reply *reply, int fd)
{
    struct freeze_call *call = data;
    fd_close(&fd);
    call->cb(call->data, reply ? -reply->error : -ESRCH);
    free(call);
}

void warden_instance_freeze(struct runtime_instance *in, bool on,
                            void (*cb)(void *data, int result), void *data)
{
    struct freeze_call *call = new0(struct freeze_call);
    *call = (struct freeze_call){cb, data};
    struct plan plan = {.op = on ? PLAN_FREEZE : PLAN_THAW};
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(in->host->warden, &plan, on_frozen, call);
}

struct addresses_call {
    void (*cb)(void *data, const struct error *err);
    void *data;
};

static void on_addresses_changed(void *data, const struct plan_reply *reply, int fd)
{
    struct addresses_call *call = data;
    struct error err = {0};
    fd_close(&fd);
    if (!reply || reply->error)
        set_start_error(&err, reply);
    call->cb(call->data, error_is_set(&err) ? &err : NULL);
    free(call);
}

int warden_instance_check_addresses(const struct runtime_instance *in, const struct spec *spec,
                                    struct error *err)
{
    struct plan plan = {.op = PLAN_NETWORK};
    const struct warden_kind *kind = in->ops->kind;
    char why[sizeof(err->message)];
    int r = plan_ranges_fill(spec, &plan, err);
    if (r < 0 || !in->host->network)
        return r;
    r = kind->check_ranges ? kind->check_ranges(in->host, &plan, why, sizeof(why)) : 0;
    r = r < 0 ? r
              : net_ceiling_check(in->host->network, plan.ranges, plan.n_ranges, why, sizeof(why));
    return r < 0 ? error_set(err, ERROR_DENIED, 0, "%s", why) : 0;
}

int warden_instance_change_addresses(struct runtime_instance *in, const struct spec *spec,
                                     void (*cb)(void *data, const struct error *err), void *data,
                                     struct error *err)
{
    struct plan plan = {.op = PLAN_NETWORK};
    int r = plan_ranges_fill(spec, &plan, err);
    if (r < 0)
        return r;
    struct addresses_call *call = new0(struct addresses_call);
    *call = (struct addresses_call){cb, data};
    memcpy(plan.id, in->id, sizeof(plan.id));
    warden_client_send(in->host->warden, &plan, on_addresses_changed, call);
    return 0;
}

struct snapshot_call {
    runtime_snapshot_fn cb;
    void *data;
};

static void on_snapshot_answer(void *data, const struct plan_reply *reply, int fd)
{
    struct snapshot_call *call = data;
    struct error err = {0};
    bool failed = !reply || reply->error;
    if (failed) {
        set_start_error(&err, reply);
        fd_close(&fd);
    }
    call->cb(call->data, failed ? &err : NULL, failed ? 0 : reply->disk_used_bytes, fd);
    free(call);
}

/* id: of the sandbox, or NULL. */
static void send_snapshot_plan(struct runtime_host *host, enum plan_op op, const char *id,
                               const char *name, runtime_snapshot_fn cb, void *data)
{
    struct plan plan = {.op = op};
    struct snapshot_call *call = new0(struct snapshot_call);
    *call = (struct snapshot_call){cb, data};
    snprintf(plan.id, sizeof(plan.id), "%s", id ? id : "");
    snprintf(plan.snapshot, sizeof(plan.snapshot), "%s", name);
    warden_client_send(host->warden, &plan, on_snapshot_answer, call);
}

void warden_instance_save(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                          void *data)
{
    send_snapshot_plan(in->host, PLAN_SAVE, in->id, name, cb, data);
}

void warden_instance_load(struct runtime_host *host, const char *name, runtime_snapshot_fn cb,
                          void *data)
{
    send_snapshot_plan(host, PLAN_LOAD, NULL, name, cb, data);
}

void warden_instance_go_back(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                             void *data)
{
    send_snapshot_plan(in->host, PLAN_RETURN, in->id, name, cb, data);
}

void warden_instance_drop(struct runtime_host *host, const char *name, runtime_snapshot_fn cb,
                          void *data)
{
    send_snapshot_plan(host, PLAN_DROP, NULL, name, cb, data);
}
