/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "kube/client.h"
#include "loop/loop.h"

#define RENEW_MS     3000
#define LOOK_MS      2000
#define AGAIN_MS     200 /* after another's write was first */
#define CALL_MS      5000
#define RELEASE_MS   2000
#define DURATION_MAX 3600 /* seconds, of what another says */

struct kube_lease {
    struct kube_lease_options o;
    char *space, *name, *instance, *holder;
    struct kube_call *call;
    struct loop_timer timer; /* the next call */
    struct loop_timer fence; /* when it is not ours any more */
    unsigned n_open;
    char *version;      /* resourceVersion of what was seen last; NULL: nothing */
    int64_t seen_ms;    /* when that was seen first */
    int64_t sent_ms;    /* when the write under way was sent */
    int64_t renewed_ms; /* when the last one that was answered was sent */
    bool fresh;         /* the last write was answered: the next one needs no look */
    bool held, known;
    bool other;                  /* another one has it */
    char why[200];               /* where it is not held */
    void (*on_done)(void *data); /* of the release; NULL */
    void *done_data;
};

/* A machine that slept did not renew meanwhile: its sleep counts. */
static int64_t lease_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- what is told */

static void lease_set(struct kube_lease *l, bool held, bool other, const char *why)
{
    bool same = l->known && l->held == held && l->other == other && strcmp(l->why, why) == 0;
    l->known = true;
    l->held = held;
    l->other = other;
    snprintf(l->why, sizeof(l->why), "%s", why);
    if (!same)
        kube_lease_tell(l);
}

void kube_lease_tell(const struct kube_lease *l)
{
    if (l->known)
        l->o.on_change(l->o.data, l->other, l->held ? NULL : l->why);
}

bool kube_lease_is_held(const struct kube_lease *l)
{
    return l->held && lease_clock_ms() < l->renewed_ms + KUBE_LEASE_FENCE_MS;
}

static void on_fence(void *data)
{
    struct kube_lease *l = data;
    if (l->held && !kube_lease_is_held(l))
        lease_set(l, false, false, "the Lease could not be renewed in time");
}

/* A failure says nothing about whose it is: while it is held, it stays so until the fence. */
static void lease_fail(struct kube_lease *l, const struct kube_result *r)
{
    char why[sizeof(l->why)];
    snprintf(why, sizeof(why), "the Lease %.60s/%.60s: %.60s", l->space, l->name, r->message);
    loop_timer_start(&l->timer, LOOK_MS);
    if (!kube_lease_is_held(l))
        lease_set(l, false, false, why);
}

/* --- calls */

static void lease_call(struct kube_lease *l, const char *method, const json_t *body,
                       uint32_t deadline_ms,
                       void (*on_done)(void *data, const struct kube_answer *answer))
{
    _cleanup_free_ char *path = xasprintf("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s",
                                          l->space, strcmp(method, "POST") == 0 ? "" : "/",
                                          strcmp(method, "POST") == 0 ? "" : l->name);
    l->sent_ms = lease_clock_ms();
    l->call = kube_call_json(l->o.client, method, path, body, deadline_ms, on_done, l);
}

static void lease_see(struct kube_lease *l, const json_t *lease)
{
    const char *version = json_member_text(json_object_get(lease, "metadata"), "resourceVersion");
    if (l->version && strcmp(l->version, version) == 0)
        return;
    free(l->version);
    l->version = xstrdup(version);
    l->seen_ms = lease_clock_ms();
}

static void on_lease_written(void *data, const struct kube_answer *answer)
{
    struct kube_lease *l = data;
    const struct kube_result *r = &answer->result;
    l->call = NULL;
    l->fresh = r->outcome == KUBE_DONE;
    bool changed = r->outcome == KUBE_CONFLICT || r->outcome == KUBE_EXISTS ||
                   (r->outcome == KUBE_NOT_FOUND && l->version);
    if (l->fresh) {
        lease_see(l, answer->object);
        l->renewed_ms = l->sent_ms;
        loop_timer_start(&l->timer, RENEW_MS);
        loop_timer_start(&l->fence, KUBE_LEASE_FENCE_MS);
        lease_set(l, true, false, "");
    } else if (changed) {
        loop_timer_start(&l->timer, AGAIN_MS);
    } else {
        lease_fail(l, r);
    }
}

static void lease_write(struct kube_lease *l)
{
    char now[40];
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(now + n, sizeof(now) - n, ".%06ldZ", t.tv_nsec / 1000);
    _cleanup_json_ json_t *body = json_pack("{s:{s:s}, s:{s:s, s:i, s:s}}", "metadata", "name",
                                            l->name, "spec", "holderIdentity", l->holder,
                                            "leaseDurationSeconds", KUBE_LEASE_S, "renewTime", now);
    json_t *metadata = json_object_get(body, "metadata");
    if (l->version) {
        json_object_set_new(metadata, "resourceVersion", json_string(l->version));
        lease_call(l, "PATCH", body, CALL_MS, on_lease_written);
        return;
    }
    json_object_set_new(metadata, "labels",
                        json_pack("{s:s, s:s}", "app.kubernetes.io/managed-by", "mas-sandbox",
                                  "mas-sandbox/instance", l->instance));
    lease_call(l, "POST", body, CALL_MS, on_lease_written);
}

/* The holder's own time counts, from when its last change was seen here. */
static bool lease_has_run_out(const struct kube_lease *l, const json_t *spec)
{
    json_int_t s = json_integer_value(json_object_get(spec, "leaseDurationSeconds"));
    s = s < 1 ? KUBE_LEASE_S : s > DURATION_MAX ? DURATION_MAX : s;
    return lease_clock_ms() > l->seen_ms + 1000 * s;
}

static void on_lease_looked(void *data, const struct kube_answer *answer)
{
    struct kube_lease *l = data;
    const struct kube_result *r = &answer->result;
    const json_t *spec = json_object_get(answer->object, "spec");
    const char *holder = json_member_text(spec, "holderIdentity");
    char why[sizeof(l->why)];
    l->call = NULL;
    if (r->outcome == KUBE_NOT_FOUND) {
        free(steal_ptr(l->version));
        lease_write(l);
        return;
    }
    if (r->outcome != KUBE_DONE) {
        lease_fail(l, r);
        return;
    }
    lease_see(l, answer->object);
    bool own = strcmp(holder, l->holder) == 0;
    if (!*holder || own || lease_has_run_out(l, spec)) {
        /* Another one may have had it between two looks, and what it did has to be found. */
        if (!own && (*holder || l->renewed_ms))
            lease_set(l, false, true, "another control plane has had the Lease");
        lease_write(l);
        return;
    }
    snprintf(why, sizeof(why),
             "another control plane, '%.60s', has the Lease %.40s/%.60s; this one waits", holder,
             l->space, l->name);
    loop_timer_start(&l->timer, LOOK_MS);
    lease_set(l, false, true, why);
}

static void lease_turn(void *data)
{
    struct kube_lease *l = data;
    if (l->fresh)
        lease_write(l);
    else
        lease_call(l, "GET", NULL, CALL_MS, on_lease_looked);
}

/* --- the whole */

struct kube_lease *kube_lease_new(const struct kube_lease_options *options)
{
    struct kube_lease *l = new0(struct kube_lease);
    l->o = *options;
    l->space = xstrdup(options->namespace_);
    l->name = xstrdup(options->name);
    l->instance = xstrdup(options->instance);
    l->holder = xstrdup(options->holder);
    l->n_open = 2;
    loop_timer_init(&l->timer, kube_client_loop(options->client), lease_turn, l);
    loop_timer_init(&l->fence, kube_client_loop(options->client), on_fence, l);
    loop_timer_start(&l->timer, 0);
    return l;
}

const char *kube_lease_name(const struct kube_lease *l)
{
    return l->name;
}

static void on_timer_closed(void *data)
{
    struct kube_lease *l = data;
    if (--l->n_open)
        return;
    if (l->on_done)
        l->on_done(l->done_data);
    free(l->space);
    free(l->name);
    free(l->instance);
    free(l->holder);
    free(l->version);
    free(l);
}

void kube_lease_free(struct kube_lease *l)
{
    if (!l)
        return;
    kube_call_cancel(steal_ptr(l->call));
    loop_timer_close(&l->timer, on_timer_closed, l);
    loop_timer_close(&l->fence, on_timer_closed, l);
}

static void on_lease_released(void *data, const struct kube_answer *answer)
{
    struct kube_lease *l = data;
    (void)answer; /* one that is not given back runs out */
    l->call = NULL;
    kube_lease_free(l);
}

void kube_lease_release(struct kube_lease *l, void (*on_done)(void *data), void *data)
{
    l->on_done = on_done;
    l->done_data = data;
    kube_call_cancel(steal_ptr(l->call));
    loop_timer_stop(&l->timer);
    loop_timer_stop(&l->fence);
    if (!kube_lease_is_held(l) || !l->version) {
        kube_lease_free(l);
        return;
    }
    _cleanup_json_ json_t *body = json_pack("{s:{s:s}, s:{s:n}}", "metadata", "resourceVersion",
                                            l->version, "spec", "holderIdentity");
    lease_call(l, "PATCH", body, RELEASE_MS, on_lease_released);
}
