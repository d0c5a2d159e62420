/* SPDX-License-Identifier: Apache-2.0 */
/* From an action's type and parameters to what runs, at which level. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "api/action.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "tool/skill.h"
#include "tool/tool.h"

static const char *const type_names[] = {"skill_execution", "file_operation", "api_call",
                                         "config_change"};
static_assert(ELEMENTS(type_names) == _ACTION_TYPE_MAX, "a name per type");

const char *action_type_name(enum action_type t)
{
    return type_names[t];
}

void action_plan_done(struct action_plan *p)
{
    json_decref(p->args);
    free(p->sandbox_id);
    policy_done(&p->policy);
}

/* --- files */

static int plan_files(const json_t *parameters, const char *root, struct action_plan *p,
                      struct error *err)
{
    const char *sandbox = NULL;
    struct skill_file f;
    int r = json_member_string(parameters, "sandbox_id", &sandbox, err);
    if (r < 0)
        return r;
    r = skill_file_parse(parameters, sandbox ? NULL : root, &f, err);
    if (r < 0)
        return r;
    bool high = f.operation == SKILL_WRITE || f.operation == SKILL_DELETE;
    skill_file_done(&f);
    p->kind = ACTION_FILE;
    p->skill = SKILL_FILESYSTEM;
    p->sandbox_id = sandbox ? xstrdup(sandbox) : NULL;
    p->level = high ? RISK_HIGH : RISK_MEDIUM;
    p->args = json_deep_copy(parameters);
    return 0;
}

/* --- tools */

/* Network only for the host of its own URL. */
static void allow_network(struct action_plan *p, const struct tool_command *command)
{
    if (command->host) {
        char *hosts[] = {command->host, NULL};
        p->policy.allowed_hosts = strv_copy(hosts);
    }
    p->policy.has_network = p->policy.network_enabled = true;
}

static int plan_tool(const char *name, const json_t *parameters, struct action_plan *p,
                     struct error *err)
{
    const struct tool *tool = tool_find(name);
    p->kind = ACTION_TOOL;
    p->tool = p->skill = tool->name;
    p->args = json_deep_copy(parameters);
    p->level = tool->capabilities & (CAPABILITY_UNSAFE | CAPABILITY_FILE) ? RISK_HIGH : RISK_MEDIUM;
    /* What cannot run is no question to a person. */
    struct tool_command command = {0};
    int r = tool_build(tool, p->args, &command, err);
    if (r >= 0 && (tool->capabilities & CAPABILITY_NETWORK))
        allow_network(p, &command);
    tool_command_done(&command);
    return r;
}

static int plan_skill(const char *skill_id, const json_t *parameters, const char *root,
                      struct action_plan *p, struct error *err)
{
    if (!skill_id || !*skill_id)
        return error_field(err, "skill_id", "'skill_id' is missing");
    if (!skill_exists(skill_id))
        return error_field(err, "skill_id", "there is no skill '%.60s'", skill_id);
    const char *tool = skill_tool(skill_id);
    int r = tool ? plan_tool(tool, parameters, p, err) : plan_files(parameters, root, p, err);
    if (tool && strcmp(skill_id, SKILL_SYSTEM) == 0)
        p->skill = SKILL_SYSTEM;
    if (!tool)
        p->level = RISK_HIGH; /* of this skill, whatever the operation */
    return r;
}

static int plan_change(const json_t *parameters, struct action_plan *p, struct error *err)
{
    static const char *const names[] = {"reload_policy", "enable_skill", "disable_skill"};
    static_assert(ELEMENTS(names) == _CHANGE_MAX, "a name per change");
    const char *name = NULL, *skill = NULL;
    int change = 0, r = json_member_string(parameters, "change", &name, err);
    if (r < 0)
        return r;
    r = json_member_string(parameters, "skill_id", &skill, err);
    if (r < 0)
        return r;
    while (change < _CHANGE_MAX && (!name || strcmp(name, names[change]) != 0))
        change++;
    if (change == _CHANGE_MAX)
        return error_field(err, "change",
                           "'change' must be reload_policy, enable_skill or disable_skill");
    if (change != CHANGE_RELOAD_POLICY && (!skill || !skill_exists(skill)))
        return error_field(err, "skill_id", "'skill_id' names no skill");
    p->kind = ACTION_CHANGE;
    p->change = (enum action_change)change;
    p->tool = "config_change";
    p->level = RISK_CRITICAL;
    p->args = json_deep_copy(parameters);
    return 0;
}

static int type_find(const char *name, struct error *err)
{
    for (int i = 0; i < _ACTION_TYPE_MAX; i++)
        if (strcmp(type_names[i], name) == 0)
            return i;
    if (strcmp(name, "chat") == 0 || strcmp(name, "model_switch") == 0)
        error_field(err, "action_type",
                    "'%s' belongs to a model gateway, which this daemon does not have", name);
    else
        error_field(err, "action_type", "there is no action type '%.60s'", name);
    return -EINVAL;
}

int action_plan_make(const char *type, const char *skill_id, const json_t *parameters,
                     const char *root, struct action_plan *ret, struct error *err)
{
    struct action_plan p = {.tool = ""};
    int t = type_find(type, err), r = t;
    policy_init(&p.policy);
    if (t < 0)
        return t;
    p.type = (enum action_type)t;
    switch (p.type) {
    case ACTION_SKILL_EXECUTION:
        r = plan_skill(skill_id, parameters, root, &p, err);
        break;
    case ACTION_FILE_OPERATION:
        r = plan_files(parameters, root, &p, err);
        break;
    case ACTION_API_CALL:
        r = plan_tool("http_client", parameters, &p, err);
        break;
    default:
        r = plan_change(parameters, &p, err);
        break;
    }
    if (r < 0)
        action_plan_done(&p);
    else
        *ret = p;
    return r;
}
