/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a person: listing and deciding. the actions API's actions are approvals too, with
 * the same ids. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/weak.h"
#include "guard/approval.h"

#define LIST_MAX    10000
#define PREFIX_MAX  1024
#define SESSION_TTL 3600

static struct approvals *approvals_of(const struct api_request *req)
{
    return gate_approvals(req->services->gate);
}

int handle_approval_list(struct api_request *req)
{
    const char *status = http_request_query(req->http, "status");
    int state = status ? approval_state_find(status) : -1;
    struct approval **found = xcalloc(LIST_MAX, sizeof(struct approval *));
    size_t n = approvals_list(approvals_of(req), req->who, state, found, LIST_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, approval_view(found[i], false));
    free(found);
    api_reply(req, 200, json_pack("{s:o}", "approvals", list));
    return 0;
}

int handle_approval_get(struct api_request *req)
{
    struct approval *a =
        api_found(req, approvals_find(approvals_of(req), req->who, req->params[0]), "approval");
    if (a)
        api_reply(req, 200, approval_view(a, true));
    return 0;
}

/* --- deciding */

struct decide_call {
    struct weak *req;
    void (*answer)(struct api_request *req, struct approval *a);
};

static void on_decided(void *data, struct approval *a, const struct error *err)
{
    _cleanup_free_ struct decide_call *c = data;
    struct api_request *req = weak_unref(c->req);
    if (req && err)
        api_fail(req, err);
    else if (req)
        c->answer(req, a);
}

void approval_reply(struct api_request *req, const char *id, const struct approval_decision *d,
                    void (*answer)(struct api_request *req, struct approval *a))
{
    struct error err = {0};
    struct decide_call *c = new0(struct decide_call);
    *c = (struct decide_call){api_later(req), answer};
    if (approvals_decide(approvals_of(req), id, d, on_decided, c, &err) >= 0)
        return;
    weak_unref(c->req);
    free(c);
    /* The actions API knows one answer for what cannot be decided any more. */
    if (err.code == ERROR_CONFLICT && req->route->style == STYLE_ACTIONS)
        err.code = ERROR_NOT_FOUND;
    api_fail(req, &err);
}

static void answer_view(struct api_request *req, struct approval *a)
{
    api_reply(req, 200, approval_view(a, true));
}

static int parse_session(const json_t *body, struct approval_session *s, char ***prefix,
                         char ***rules, bool *ret_given, struct error *err)
{
    json_t *o = NULL;
    int r = json_member_object(body, "session", &o, err);
    *ret_given = r > 0;
    if (r <= 0)
        return r;
    s->count = 1;
    s->ttl_s = SESSION_TTL;
    r = json_member_int(o, "count", 1, APPROVAL_SESSION_MAX, &s->count, err);
    if (r < 0)
        return error_within(err, r, "session");
    r = json_member_int(o, "ttl_seconds", 1, APPROVAL_SESSION_S, &s->ttl_s, err);
    if (r < 0)
        return error_within(err, r, "session");
    r = json_member_strv(o, "argv_prefix", PREFIX_MAX, prefix, err);
    if (r < 0)
        return error_within(err, r, "session");
    s->argv_prefix = *prefix;
    r = json_member_strv(o, "rules", RULES_LIST_MAX, rules, err);
    s->rules = *rules;
    return error_within(err, r, "session");
}

static int decide_approval(struct api_request *req, bool approve)
{
    struct approval_session session = {0};
    struct approval_decision d = {.who = req->who, .approve = approve};
    _cleanup_strv_ char **prefix = NULL, **rules = NULL;
    bool has_session = false;
    if (req->body) {
        int r = json_member_string(req->body, "reason", &d.reason, req->err);
        if (r < 0)
            return r;
        r = json_member_string(req->body, "user_id", &d.user_id, req->err);
        if (r < 0)
            return r;
        r = parse_session(req->body, &session, &prefix, &rules, &has_session, req->err);
        if (r < 0)
            return r;
        if (has_session && !approve)
            return error_field(req->err, "session",
                               "'session' is for a call that is approved, not for one that is "
                               "rejected");
    }
    d.session = has_session ? &session : NULL;
    approval_reply(req, req->params[0], &d, answer_view);
    return 0;
}

int handle_approval_approve(struct api_request *req)
{
    return decide_approval(req, true);
}

int handle_approval_reject(struct api_request *req)
{
    return decide_approval(req, false);
}

/* --- the policy */

static void on_reloaded(void *data, bool changed, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (!req)
        return;
    if (err)
        api_fail(req, err);
    else
        api_reply(req, 200,
                  json_pack("{s:b, s:o}", "changed", changed, "policy",
                            gate_policy_view(req->services->gate)));
}

int handle_policy_reload(struct api_request *req)
{
    req->services->reload_policy(req->services->reload_data, req->who, on_reloaded, api_later(req));
    return 0;
}
