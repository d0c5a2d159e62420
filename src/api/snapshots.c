/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of sandboxes: keep one, copy one, put one back; list and remove what is kept. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/view.h"
#include "audit/audit.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/weak.h"
#include "guard/gate.h"
#include "sandbox/snapshot.h"
#include "tool/network.h"
#include "tool/run.h"

static json_t *view_snapshot(const struct snapshot *k)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s?, s:I, s:o}", "name", snapshot_name(k), "owner",
                     snapshot_owner(k), "sandbox", snapshot_sandbox(k), "runtime",
                     snapshot_runtime(k), "image", snapshot_image(k), "bytes",
                     (json_int_t)snapshot_bytes(k), "created_at",
                     view_time(snapshot_created_ns(k)));
}

/* A role that may look at all sandboxes may not make copies of what is in them. NULL after
 * answering. */
static struct sandbox *find_own(struct api_request *req)
{
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return NULL;
    if (strcmp(sandbox_owner(sb), req->owner) != 0)
        error_set(&err, ERROR_FORBIDDEN, 0, "sandbox %s belongs to another key", sandbox_id(sb));
    else if (sandbox_check_keepable(sb, &err) >= 0)
        return sb;
    api_fail(req, &err);
    return NULL;
}

static int require_text(struct api_request *req, const char *member, const char **ret,
                        struct error *err)
{
    *ret = NULL;
    int r = json_member_string(req->body, member, ret, err);
    return r < 0 || *ret ? r : error_field(err, member, "'%s' is missing", member);
}

/* --- keeping */

static void on_kept(void *data, const struct snapshot *k, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 201, view_snapshot(k));
}

int handle_sandbox_snapshot(struct api_request *req)
{
    const char *name;
    struct sandbox *sb = find_own(req);
    if (!sb)
        return 0;
    int r = require_text(req, "name", &name, req->err);
    if (r < 0)
        return r;
    r = run_record_sandbox(req->services->audit, sb, req->who, "snapshot", NULL, req->err);
    if (r < 0)
        return r;
    sandbox_snapshot(sb, name, on_kept, api_later(req));
    return 0;
}

/* --- going back */

struct restore_call {
    struct weak *req;
    struct sandbox *sb;
};

static void on_restored(void *data, const struct snapshot *k, const struct error *err)
{
    struct restore_call *call = data;
    struct api_request *req = weak_unref(call->req);
    (void)k;
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, view_sandbox(call->sb));
    sandbox_unref(call->sb);
    free(call);
}

int handle_sandbox_restore(struct api_request *req)
{
    const char *name;
    struct sandbox *sb = find_own(req);
    if (!sb)
        return 0;
    int r = require_text(req, "snapshot", &name, req->err);
    if (r < 0)
        return r;
    const struct snapshot *k = snapshot_find(req->services->manager, req->owner, name);
    if (!k)
        return error_set(req->err, ERROR_NOT_FOUND, 0, "there is no snapshot '%s'", name);
    r = run_record_sandbox(req->services->audit, sb, req->who, "restore", NULL, req->err);
    if (r < 0)
        return r;
    struct restore_call *call = new0(struct restore_call);
    *call = (struct restore_call){api_later(req), sandbox_ref(sb)};
    sandbox_go_back(sb, k, on_restored, call);
    return 0;
}

/* --- copies */

static void on_forked(void *data, struct sandbox *const *copies, size_t n, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (req && err)
        api_fail(req, err);
    if (!req || err)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, view_sandbox(copies[i]));
    api_reply(req, 201, json_pack("{s:o}", "sandboxes", list));
}

int handle_sandbox_fork(struct api_request *req)
{
    struct sandbox_maker by;
    _cleanup_spec_ struct spec spec = {0};
    int64_t count = 1;
    struct sandbox *sb = find_own(req);
    if (!sb)
        return 0;
    sandbox_copy_spec(sb, &spec);
    int r = json_member_int(req->body, "count", 1, SNAPSHOT_FORK_MAX, &count, req->err);
    if (r < 0)
        return r;
    /* Each copy is a sandbox that is made: its image and its network are asked for again. */
    struct gate *gate = req->services->gate;
    r = spec.image ? gate_check_image(gate, req->who, spec.image_names, spec.image_digest, req->err)
                   : 0;
    if (r < 0)
        return r;
    r = gate_check_network(gate, req->who, spec.runtime, spec.network ? spec.hosts : NULL,
                           req->err);
    if (r < 0)
        return r;
    r = gate_check_network(gate, req->who, spec.runtime, spec.cidrs, req->err);
    if (r < 0)
        return r;
    r = network_admit(gate, req->who, &spec, &by, req->err);
    if (r < 0)
        return r;
    r = run_record_sandbox(req->services->audit, sb, req->who, "fork", NULL, req->err);
    if (r < 0)
        return r;
    sandbox_fork(sb, (size_t)count, &by, on_forked, api_later(req));
    return 0;
}

/* --- what is kept */

static void add_snapshot(void *data, const struct snapshot *k)
{
    json_array_append_new(data, view_snapshot(k));
}

int handle_snapshot_list(struct api_request *req)
{
    json_t *list = json_array();
    snapshot_for_each(req->services->manager, identity_scope(req->who), add_snapshot, list);
    api_reply(req, 200, json_pack("{s:o}", "snapshots", list));
    return 0;
}

static void on_deleted(void *data, const struct snapshot *k, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, json_pack("{s:s, s:s}", "name", snapshot_name(k), "status", "deleted"));
}

static int record_deletion(struct api_request *req, const struct snapshot *k, struct error *err)
{
    _cleanup_json_ json_t *details =
        json_pack("{s:s, s:s}", "snapshot", snapshot_name(k), "owner", snapshot_owner(k));
    struct audit_record r = {.kind = "sandbox",
                             .who = req->who,
                             .sandbox = snapshot_sandbox(k),
                             .outcome = "snapshot deleted",
                             .details = details};
    return req->services->audit ? audit_write(req->services->audit, &r, NULL, err) : 0;
}

/* The caller's own, or another's where the caller may end all that there is: keys go, and what they
 * kept would stay for good. */
static struct snapshot *find_deletable(struct api_request *req, struct error *err)
{
    struct manager *m = req->services->manager;
    const char *name = req->params[0], *owner = http_request_query(req->http, "owner");
    bool sees_all = identity_sees_all(req->who);
    struct snapshot *k = NULL;
    size_t n = 0;
    if (!owner || sees_all || strcmp(owner, req->owner) == 0)
        k = snapshot_find(m, owner ? owner : req->owner, name);
    if (!k && !owner && sees_all)
        k = snapshot_find_any(m, name, &n);
    if (!k)
        error_set(err, ERROR_NOT_FOUND, 0, "there is no snapshot '%s'", name);
    else if (n > 1)
        error_set(err, ERROR_CONFLICT, 0,
                  "%zu keys have a snapshot '%s': name the key with ?owner=", n, name);
    return n > 1 ? NULL : k;
}

int handle_snapshot_delete(struct api_request *req)
{
    struct snapshot *k = find_deletable(req, req->err);
    if (!k || record_deletion(req, k, req->err) < 0)
        return -1;
    snapshot_delete(req->services->manager, k, on_deleted, api_later(req));
    return 0;
}
