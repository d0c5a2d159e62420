/* SPDX-License-Identifier: Apache-2.0 */
/* The actions API: actions that a person approves, as existing clients speak it. */
#include <string.h>

#include "api/action.h"
#include "api/handlers.h"
#include "api/internal.h"
#include "base/json.h"
#include "base/weak.h"
#include "guard/approval.h"

void handle_actions_root(struct api_request *req)
{
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:s, s:s}", "name", "mas-sandbox", "version", MAS_VERSION,
                        "status", "running", "security_model", "zero_trust"));
}

void handle_actions_status(struct api_request *req)
{
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:I, s:I, s:s}", "status", "running", "version", MAS_VERSION,
                        "pending_actions", (json_int_t)actions_pending(req->api->actions),
                        "pending_approvals",
                        (json_int_t)approvals_pending(gate_approvals(req->services->gate)),
                        "policy_revision", gate_revision(req->services->gate)));
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

void handle_actions_submit(struct api_request *req)
{
    struct error err = {0};
    const char *type = NULL, *skill_id = NULL;
    json_t *parameters = NULL;
    int r = json_member_string(req->body, "action_type", &type, &err);
    if (r >= 0 && !type)
        r = error_field(&err, "action_type", "'action_type' is missing");
    if (r >= 0)
        r = json_member_string(req->body, "skill_id", &skill_id, &err);
    if (r >= 0)
        r = json_member_object(req->body, "parameters", &parameters, &err);
    if (r < 0) {
        api_fail(req, &err);
        return;
    }
    _cleanup_json_ json_t *none = json_object();
    actions_submit(req->api->actions, req->who, type, skill_id, parameters ? parameters : none,
                   on_submitted, api_later(req));
}

/* --- looking and deciding */

void handle_actions_pending(struct api_request *req)
{
    api_reply(req, 200, actions_pending_view(req->api->actions, req->who));
}

static struct action *find_action(struct api_request *req)
{
    return api_found(req, actions_find(req->api->actions, req->who, req->params[0]), "action");
}

void handle_actions_get(struct api_request *req)
{
    struct action *a = find_action(req);
    if (a)
        api_reply(req, 200, action_view(a));
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

void handle_actions_approve(struct api_request *req)
{
    struct error err = {0};
    bool approved = false;
    struct approval_decision d = {.who = req->who};
    int r = json_member_bool(req->body, "approved", &approved, &err);
    if (r == 0)
        r = error_field(&err, "approved", "'approved' is missing");
    if (r >= 0)
        r = json_member_string(req->body, "user_id", &d.user_id, &err);
    if (r >= 0)
        r = json_member_string(req->body, "reason", &d.reason, &err);
    if (r < 0) {
        api_fail(req, &err);
        return;
    }
    d.approve = approved;
    if (find_action(req))
        approval_reply(req, req->params[0], &d, answer_decided);
}
