/* SPDX-License-Identifier: Apache-2.0 */
/* the actions API's skills: which there are, and whether each may be used. */
#include "api/durable-reply.h"
#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "guard/gate.h"
#include "tool/skill.h"

int handle_skill_list(struct api_request *req)
{
    api_reply(req, 200, skills_to_json(req->services->skills));
    return 0;
}

/* The audit has the change before it holds: one that cannot be recorded does not happen. */
static int record_change(struct api_request *req, const char *id, bool enabled, struct error *err)
{
    _cleanup_json_ json_t *details = json_pack("{s:s, s:b}", "skill", id, "enabled", enabled);
    return gate_record(req->services->gate, "config_change", req->who, NULL, NULL,
                       enabled ? "enabled" : "disabled", details, err);
}

static void set_enabled(struct api_request *req, bool enabled)
{
    struct error err = {0};
    const char *id = req->params[0];
    struct skills *skills = req->services->skills;
    if (!skill_exists(id))
        error_set(&err, ERROR_NOT_FOUND, 0, "there is no skill '%.60s'", id);
    if (error_is_set(&err) || record_change(req, id, enabled, &err) < 0) {
        api_fail(req, &err);
        return;
    }
    log_info("skill %s id=%s by=%s", enabled ? "enabled" : "disabled", id, req->owner);
    struct durable_reply *p = durable_reply_new(req, 200);
    p->answer = json_pack("{s:s, s:b}", "skill_id", id, "enabled", enabled);
    skill_set_enabled(skills, id, enabled, durable_reply_send, p, &err);
}

int handle_skill_enable(struct api_request *req)
{
    set_enabled(req, true);
    return 0;
}

int handle_skill_disable(struct api_request *req)
{
    set_enabled(req, false);
    return 0;
}
