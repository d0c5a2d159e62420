/* From an action's type and parameters to what runs, at which level. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "api/action.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "tool/tool.h"

#define WRITE_MAX (10 * 1024 * 1024)
#define READ_MAX  (1024 * 1024)

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
    free(p->path);
    free(p->sandbox_id);
    policy_done(&p->policy);
}

/* --- files */

static const struct operation {
    const char *name, *action;
    bool high;
} operations[] = {
    {"read", "read", false},   {"list", "list", false},    {"write", "write", true},
    {"modify", "write", true}, {"delete", "delete", true}, {"create_dir", NULL, false},
};

static const char *const extensions[] = {".txt", ".md", ".json", ".yaml", ".yml", ".csv",
                                         ".py",  ".js", ".html", ".css",  ".xml"};

static const struct operation *operation_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}

static int check_extension(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash + 1 : path, '.');
    if (!dot)
        return 0;
    for (size_t i = 0; i < ELEMENTS(extensions); i++)
        if (strcmp(extensions[i], dot) == 0)
            return 0;
    return error_field(err, "path", "files of the kind '%.20s' are not for this skill", dot);
}

/* Below the root, whatever it says; links inside are the runner's to check. */
static int make_path(const json_t *parameters, bool is_file, char **ret, struct error *err)
{
    const char *path = NULL;
    int r = json_member_string(parameters, "path", &path, err);
    if (r < 0)
        return r;
    if (!path || !*path)
        path = is_file ? NULL : ".";
    if (!path)
        return error_field(err, "path", "'path' is missing");
    char *whole = strcmp(path, ".") == 0 ? xstrdup(ACTION_ROOT)
                  : *path == '/'         ? xstrdup(path)
                                         : xasprintf(ACTION_ROOT "/%s", path);
    if (!path_is_clean(whole) || !path_below(ACTION_ROOT, whole))
        r = error_field(err, "path", "'path' must be below " ACTION_ROOT " and without '..'");
    if (r >= 0 && is_file)
        r = check_extension(whole, err);
    if (r < 0)
        free(whole);
    else
        *ret = whole;
    return r;
}

static int check_content(const json_t *parameters, struct error *err)
{
    const char *content = NULL;
    int r = json_member_string(parameters, "content", &content, err);
    if (r >= 0 && !content)
        r = error_field(err, "content", "'content' is missing");
    if (r >= 0 && strlen(content) > WRITE_MAX)
        r = error_field(err, "content", "'content' is over %d bytes", WRITE_MAX);
    return r;
}

static int plan_files(const json_t *parameters, struct action_plan *p, struct error *err)
{
    const char *name = NULL, *sandbox = NULL;
    int r = json_member_string(parameters, "operation", &name, err);
    if (r >= 0)
        r = json_member_string(parameters, "sandbox_id", &sandbox, err);
    if (r < 0)
        return r;
    const struct operation *op = name ? operation_find(name) : NULL;
    if (!op)
        return error_field(err, "operation",
                           "'operation' must be read, list, write, delete or create_dir");
    bool is_file = strcmp(name, "list") != 0 && op->action;
    r = make_path(parameters, is_file, &p->path, err);
    if (r >= 0 && op->action && strcmp(op->action, "write") == 0)
        r = check_content(parameters, err);
    if (r < 0)
        return r;
    p->files = true;
    p->sandbox_id = sandbox ? xstrdup(sandbox) : NULL;
    p->kind = op->action ? ACTION_TOOL : ACTION_MAKE_DIR;
    p->tool = op->action ? "file_system" : "";
    p->level = op->high ? RISK_HIGH : RISK_MEDIUM;
    p->args = json_pack("{s:s, s:s, s:O*, s:O*, s:O*}", "action", op->action ? op->action : name,
                        "path", p->path, "content", json_object_get(parameters, "content"),
                        "append", json_object_get(parameters, "append"), "recursive",
                        json_object_get(parameters, "recursive"));
    char *root[] = {(char *)ACTION_ROOT, NULL};
    p->policy.allowed_paths = strv_copy(root);
    return 0;
}

int action_plan_check_result(const struct action_plan *p, const json_t *result, struct error *err)
{
    const json_t *content = json_object_get(result, "content");
    if (p->files && json_string_length(content) > READ_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "the file is over %d bytes", READ_MAX);
    return 0;
}

/* --- tools */

/* Network only for the host of its own URL. */
static int allow_network(struct action_plan *p, struct error *err)
{
    struct tool_command command = {0};
    const struct tool *tool = tool_find(p->tool);
    int r = tool->build(p->args, &command, err);
    if (r >= 0 && command.host) {
        char *hosts[] = {command.host, NULL};
        p->policy.allowed_hosts = strv_copy(hosts);
    }
    p->policy.has_network = p->policy.network_enabled = true;
    tool_command_done(&command);
    return r;
}

static int plan_tool(const char *name, const json_t *parameters, struct action_plan *p,
                     struct error *err)
{
    const struct tool *tool = tool_find(name);
    if (!tool)
        return error_field(err, "skill_id", "there is no skill '%.60s'", name);
    p->kind = ACTION_TOOL;
    p->tool = tool->name;
    p->args = json_deep_copy(parameters);
    p->level = tool->capabilities & (CAPABILITY_UNSAFE | CAPABILITY_FILE) ? RISK_HIGH : RISK_MEDIUM;
    return tool->capabilities & CAPABILITY_NETWORK ? allow_network(p, err) : 0;
}

static int plan_skill(const char *skill_id, const json_t *parameters, struct action_plan *p,
                      struct error *err)
{
    if (!skill_id || !*skill_id)
        return error_field(err, "skill_id", "'skill_id' is missing");
    if (strcmp(skill_id, "filesystem") != 0)
        return plan_tool(strcmp(skill_id, "system") == 0 ? "shell" : skill_id, parameters, p, err);
    int r = plan_files(parameters, p, err);
    p->level = RISK_HIGH; /* of this skill, whatever the operation */
    return r;
}

static int plan_change(const json_t *parameters, struct action_plan *p, struct error *err)
{
    const char *change = NULL;
    int r = json_member_string(parameters, "change", &change, err);
    if (r < 0)
        return r;
    if (!change || strcmp(change, "reload_policy") != 0)
        return error_field(err, "change", "'change' must be reload_policy");
    p->kind = ACTION_CHANGE;
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
                     struct action_plan *ret, struct error *err)
{
    struct action_plan p = {.tool = ""};
    int t = type_find(type, err), r = t;
    policy_init(&p.policy);
    if (t < 0)
        return t;
    p.type = (enum action_type)t;
    switch (p.type) {
    case ACTION_SKILL_EXECUTION:
        r = plan_skill(skill_id, parameters, &p, err);
        break;
    case ACTION_FILE_OPERATION:
        r = plan_files(parameters, &p, err);
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
