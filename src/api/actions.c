/* SPDX-License-Identifier: Apache-2.0 */
/* The actions API: actions that a person approves, as existing clients speak it. */
#include <string.h>

#include "api/action.h"
#include "api/handlers.h"
#include "api/internal.h"
#include "base/json.h"
#include "base/weak.h"
#include "guard/approval.h"

int handle_actions_root(struct api_request *req)
{
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:s, s:s}", "name", "mas-sandbox", "version", MAS_VERSION,
                        "status", "running", "security_model", "zero_trust"));
    return 0;
}

int handle_actions_status(struct api_request *req)
{
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:I, s:I, s:s}", "status", "running", "version", MAS_VERSION,
                        "pending_actions", (json_int_t)actions_pending(req->api->actions),
                        "pending_approvals",
                        (json_int_t)approvals_pending(gate_approvals(req->services->gate)),
                        "policy_revision", gate_revision(req->services->gate)));
    return 0;
}

/* --- submitting */

static void on_submitted(void *data, struct action *a, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    if (!req)
        return;
    if (err)
        api_fail(req, err);
    else
        api_reply(req, 200, action_submitted_view(a));
}

int handle_actions_submit(struct api_request *req)
{
    const char *type = NULL, *skill_id = NULL;
    json_t *parameters = NULL;
    int r = json_member_string(req->body, "action_type", &type, req->err);
    if (r < 0)
        return r;
    if (!type)
        return error_field(req->err, "action_type", "'action_type' is missing");
    r = json_member_string(req->body, "skill_id", &skill_id, req->err);
    if (r < 0)
        return r;
    r = json_member_object(req->body, "parameters", &parameters, req->err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *none = json_object();
    actions_submit(req->api->actions, req->who, type, skill_id, parameters ? parameters : none,
                   on_submitted, api_later(req));
    return 0;
}

/* --- looking and deciding */

int handle_actions_pending(struct api_request *req)
{
    api_reply(req, 200, actions_pending_view(req->api->actions, req->who));
    return 0;
}

static struct action *find_action(struct api_request *req)
{
    return api_found(req, actions_find(req->api->actions, req->who, req->params[0]), "action");
}

int handle_actions_get(struct api_request *req)
{
    struct action *a = find_action(req);
    if (a)
        api_reply(req, 200, action_view(a));
    return 0;
}

static void answer_decided(struct api_request *req, struct approval *a)
{
    enum approval_state state = approval_state(a);
    const char *status = state == APPROVAL_PENDING    ? "pending"
                         : state == APPROVAL_REJECTED ? "rejected"
                                                      : "approved";
    json_t *o = json_pack("{s:s, s:b, s:s}", "action_id", approval_id(a), "approved",
                          state != APPROVAL_REJECTED, "status", status);
    if (state == APPROVAL_PENDING) /* critical: one of two */
        json_object_set_new(o, "confirmations_missing",
                            json_integer((json_int_t)(approval_confirmations_needed(a) -
                                                      approval_confirmations(a))));
    api_reply(req, 200, o);
}

int handle_actions_approve(struct api_request *req)
{
    bool approved = false;
    struct approval_decision d = {.who = req->who};
    int r = json_member_bool(req->body, "approved", &approved, req->err);
    if (r == 0)
        r = error_field(req->err, "approved", "'approved' is missing");
    if (r < 0)
        return r;
    r = json_member_string(req->body, "user_id", &d.user_id, req->err);
    if (r < 0)
        return r;
    r = json_member_string(req->body, "reason", &d.reason, req->err);
    if (r < 0)
        return r;
    d.approve = approved;
    if (find_action(req))
        approval_reply(req, req->params[0], &d, answer_decided);
    return 0;
}
