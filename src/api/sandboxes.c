/* SPDX-License-Identifier: Apache-2.0 */
/* Native sandboxes: create from a spec, get, list, delete, stats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/idempotency.h"
#include "api/sandbox-reply.h"
#include "api/spec-json.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/weak.h"
#include "tool/image-find.h"
#include "tool/network.h"
#include "tool/run.h"

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     1000
#define NAME_MAX_          63

bool api_query_switch(const struct api_request *req, const char *name)
{
    const char *value = http_request_query(req->http, name);
    return value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0;
}

int api_query_number(const struct api_request *req, const char *name, uint64_t min, uint64_t max,
                     uint64_t *ret, struct error *err)
{
    const char *text = http_request_query(req->http, name);
    if (!text)
        return 0;
    size_t n = strlen(text);
    bool good = n > 0 && n < 20 && strspn(text, "0123456789") == n;
    uint64_t value = good ? strtoull(text, NULL, 10) : 0;
    if (!good || value < min || value > max)
        return error_field(err, name, "'%s' must be a number from %llu to %llu", name,
                           (unsigned long long)min, (unsigned long long)max);
    *ret = value;
    return 0;
}

int api_check_stream(const struct api_request *req, uint64_t *ret_since, struct error *err)
{
    *ret_since = 0;
    if ((req->route->flags & ROUTE_WS) && !http_request_wants_ws(req->http))
        return error_set(err, ERROR_INVALID, 0, "a WebSocket handshake is expected here");
    return api_query_number(req, "since", 0, INT64_MAX, ret_since, err);
}

/* --- answers that wait for a sandbox */

struct pending {
    struct sandbox_waiter waiter;
    struct api_request *req;
    json_t *(*view)(struct sandbox *sb);
    int status;
};

static void on_pending_abort(struct api_request *req)
{
    struct pending *p = req->state;
    sandbox_waiter_cancel(&p->waiter);
    free(p);
}

static void on_event(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err)
{
    struct pending *p = container_of(w, struct pending, waiter);
    struct api_request *req = p->req;
    json_t *(*view)(struct sandbox *) = p->view;
    int status = p->status;
    free(p);
    if (err)
        api_fail(req, err);
    else
        api_reply(req, status, view(sb));
}

static struct pending *pending_new(struct api_request *req, int status,
                                   json_t *(*view)(struct sandbox *sb))
{
    struct pending *p = new0(struct pending);
    p->req = req;
    p->view = view;
    p->status = status;
    p->waiter.on_event = on_event;
    req->state = p;
    req->on_abort = on_pending_abort;
    return p;
}

void sandbox_reply_ready(struct api_request *req, struct sandbox *sb, int status,
                         json_t *(*view)(struct sandbox *sb))
{
    struct pending *p = pending_new(req, status, view);
    sandbox_wait_ready(sb, &p->waiter);
}

void sandbox_reply_deleted(struct api_request *req, struct sandbox *sb, int status,
                           json_t *(*view)(struct sandbox *sb))
{
    struct pending *p = pending_new(req, status, view);
    sandbox_delete(sb, &p->waiter);
}

/* --- creating: the image comes first */

struct creation {
    struct image_find image;
    struct api_request *req;
    struct spec spec;
    const char *name;
    int status;
    json_t *(*view)(struct sandbox *sb);
    int (*begin)(struct api_request *req, struct sandbox *sb, struct error *err);
};

static void creation_free(struct creation *c)
{
    spec_done(&c->spec);
    free(c);
}

static void on_creation_abort(struct api_request *req)
{
    struct creation *c = req->state;
    image_find_cancel(&c->image);
    creation_free(c);
}

/* Takes c. */
static void create_from(struct creation *c)
{
    struct api_request *req = c->req;
    struct error err = {0};
    struct sandbox_maker by;
    struct sandbox *sb =
        network_admit(req->services->gate, req->who, &c->spec, &by, &err) < 0
            ? NULL
            : sandbox_create(req->services->manager, &c->spec, &by, c->name, NULL, false, &err);
    if (sb && c->begin && c->begin(req, sb, &err) < 0) {
        sandbox_delete(sb, NULL);
        sb = NULL;
    }
    if (sb)
        sandbox_reply_ready(req, sb, c->status, c->view);
    else
        api_fail(req, &err);
    creation_free(c);
}

static void on_image_found(struct image_find *f, const struct error *err)
{
    struct creation *c = container_of(f, struct creation, image);
    struct api_request *req = c->req;
    req->state = NULL;
    req->on_abort = NULL;
    if (!req->http) /* its client left, and the headers went with the client */
        req->terms.approval_id = NULL;
    if (!err) {
        create_from(c);
        return;
    }
    creation_free(c);
    api_fail(req, err);
}

void sandbox_reply_created(struct api_request *req, struct spec *spec, const char *name, int status,
                           json_t *(*view)(struct sandbox *sb),
                           int (*begin)(struct api_request *req, struct sandbox *sb,
                                        struct error *err))
{
    const struct services *o = req->services;
    struct error err = {0};
    struct creation *c = new0(struct creation);
    *c = (struct creation){.image.on_done = on_image_found,
                           .req = req,
                           .spec = *spec,
                           .name = name,
                           .status = status,
                           .view = view,
                           .begin = begin};
    spec_init(spec);
    int r = gate_check_network(o->gate, req->who, c->spec.runtime,
                               c->spec.network ? c->spec.hosts : NULL, &err);
    if (r >= 0)
        r = gate_check_network(o->gate, req->who, c->spec.runtime, c->spec.cidrs, &err);
    if (r >= 0)
        r = image_find_start(&c->image, o->images, o->gate, req->who, req->terms.approval_id,
                             &c->spec, &err);
    if (r > 0) {
        req->state = c;
        req->on_abort = on_creation_abort;
    } else if (r == 0) {
        create_from(c);
    } else {
        creation_free(c);
        api_fail(req, &err);
    }
}

int sandbox_name_check(const char *name, struct error *err)
{
    size_t n = strlen(name);
    bool good = n >= 1 && n <= NAME_MAX_ && name[0] != '-' && name[n - 1] != '-';
    for (size_t i = 0; good && i < n; i++)
        good = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
               name[i] == '-';
    if (!good)
        return error_field(err, "id", "'id' must be 1 to %d of a-z, 0-9 and '-', not '-' at an end",
                           NAME_MAX_);
    return 0;
}

/* --- handlers */

static json_t *view_created(struct sandbox *sb)
{
    return view_sandbox(sb);
}

struct sandbox *sandbox_of_key(struct api_request *req, const char **name)
{
    char id[NAME_MAX_ + 8];
    if (*name || !req->idempotency)
        return NULL;
    const char *own = idempotency_name(req->idempotency);
    snprintf(id, sizeof(id), "sbx-%s", own);
    struct sandbox *sb = sandbox_find(req->services->manager, req->owner, id);
    if (sb && sandbox_state(sb) == SANDBOX_CRASHED) {
        sandbox_delete(sb, NULL); /* it died with the answer: this try makes it anew */
        sb = sandbox_find(req->services->manager, req->owner, id);
    }
    if (!sb)
        *name = own;
    return sb && sandbox_state(sb) != SANDBOX_STOPPING ? sb : NULL;
}

int handle_sandbox_create(struct api_request *req)
{
    _cleanup_spec_ struct spec spec = {0};
    const char *name = NULL;
    int r = json_member_string(req->body, "id", &name, req->err);
    if (r < 0)
        return r;
    if (name) {
        r = sandbox_name_check(name, req->err);
        if (r < 0)
            return r;
    }
    r = spec_json_parse(req->body, req->services, &spec, req->err);
    if (r < 0)
        return r;
    struct sandbox *sb = sandbox_of_key(req, &name);
    if (sb)
        sandbox_reply_ready(req, sb, 201, view_created);
    else
        sandbox_reply_created(req, &spec, name, 201, view_created, NULL);
    return 0;
}

int handle_sandbox_list(struct api_request *req)
{
    const char *cursor = http_request_query(req->http, "cursor");
    uint64_t limit = LIST_LIMIT_DEFAULT;
    /* Any other text would be before or behind all of them, and pass for the end of the list. */
    if (cursor && strncmp(cursor, "sbx-", 4) != 0)
        return error_field(req->err, "cursor",
                           "'cursor' is the 'next_cursor' of the page before, not '%.40s'", cursor);
    if (api_query_number(req, "limit", 1, LIST_LIMIT_MAX, &limit, req->err) < 0)
        return -1;
    struct sandbox **found = xcalloc(limit + 1, sizeof(struct sandbox *));
    size_t n =
        sandbox_list(req->services->manager, identity_scope(req->who), cursor, found, limit + 1);
    json_t *list = json_array(), *o = json_object();
    for (size_t i = 0; i < n && i < limit; i++)
        json_array_append_new(list, view_sandbox(found[i]));
    json_object_set_new(o, "sandboxes", list);
    if (n > limit)
        json_object_set_new(o, "next_cursor", json_string(sandbox_id(found[limit - 1])));
    free(found);
    api_reply(req, 200, o);
    return 0;
}

int handle_sandbox_get(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        api_reply(req, 200, view_sandbox(sb));
    return 0;
}

static json_t *view_deleted(struct sandbox *sb)
{
    return json_pack("{s:s, s:s}", "id", sandbox_id(sb), "status", "deleted");
}

int handle_sandbox_delete(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        sandbox_reply_deleted(req, sb, 200, view_deleted);
    return 0;
}

static void on_stats(void *data, const struct runtime_stats *s)
{
    struct api_request *req = weak_unref(data);
    struct error err = {0};
    if (!req)
        return;
    if (!s) {
        error_set(&err, ERROR_CONFLICT, 0, "the sandbox is not running");
        api_fail(req, &err);
        return;
    }
    api_reply(req, 200,
              json_pack("{s:I, s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)s->memory_bytes,
                        "memory_peak_bytes", (json_int_t)s->memory_peak_bytes, "cpu_ms",
                        (json_int_t)(s->cpu_us / 1000), "processes", (json_int_t)s->processes,
                        "oom_kills", (json_int_t)s->oom_kills));
}

int handle_sandbox_stats(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        sandbox_stats(sb, on_stats, api_later(req));
    return 0;
}

static void on_paused(void *data, struct sandbox *sb, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, view_sandbox(sb));
}

static void pause_or_resume(struct api_request *req, bool on)
{
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return;
    if (run_record_sandbox(req->services->audit, sb, req->who, on ? "pause" : "resume", NULL,
                           &err) < 0)
        api_fail(req, &err);
    else
        sandbox_pause(sb, on, on_paused, api_later(req));
}

int handle_sandbox_pause(struct api_request *req)
{
    pause_or_resume(req, true);
    return 0;
}

int handle_sandbox_resume(struct api_request *req)
{
    pause_or_resume(req, false);
    return 0;
}

int handle_refused(struct api_request *req)
{
    const char *what = strrchr(req->route->path, '/') + 1;
    return error_set(req->err, ERROR_UNSUPPORTED, 0, "'%s' is not supported by this version", what);
}
