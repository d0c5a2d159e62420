/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "gateway/rule.h"
#include "proto/policy-members.h"

#define POLICY_LIST_MAX 256

void policy_init(struct policy *p)
{
    *p = (struct policy){0};
}

void policy_done(struct policy *p)
{
    strv_free(p->allowed_tools);
    strv_free(p->allowed_caps);
    strv_free(p->allowed_paths);
    strv_free(p->env_whitelist);
    strv_free(p->allowed_hosts);
    free(p->workdir);
    policy_init(p);
}

/* The member whose key is name but for case and underscores; two of them are an error. */
static int find_member(const json_t *obj, const char *name, const char **ret_key, struct error *err)
{
    const char *key;
    json_t *value;
    *ret_key = NULL;
    json_object_foreach((json_t *)obj, key, value)
    {
        if (!json_key_is(key, name))
            continue;
        if (*ret_key)
            return error_field(err, key, "policy has both '%s' and '%s'", *ret_key, key);
        *ret_key = key;
    }
    return 0;
}

static int parse_list(const json_t *obj, const char *name, char ***ret, struct error *err)
{
    const char *key;
    int r = find_member(obj, name, &key, err);
    if (r < 0 || !key)
        return r;
    r = json_member_strv(obj, key, POLICY_LIST_MAX, ret, err);
    return r < 0 ? r : 0;
}

/* A number is in nanoseconds, because that is how Go's time.Duration arrives as JSON; a text is
 * a duration as people write it. */
static int parse_timeout(const json_t *obj, int64_t *ret, struct error *err)
{
    const char *key;
    int r = find_member(obj, "timeout", &key, err);
    if (r < 0 || !key)
        return r;
    json_t *v = json_object_get(obj, key);
    if (json_is_string(v)) {
        if (clock_parse_duration(json_string_value(v), ret) < 0 || *ret < 0)
            return error_field(err, key, "'%s' is not a duration such as \"30s\"", key);
        return 0;
    }
    r = json_member_int(obj, key, 0, INT64_MAX, ret, err);
    return r < 0 ? r : 0;
}

static int parse_int(const json_t *obj, const char *name, int64_t *ret, struct error *err)
{
    const char *key;
    int r = find_member(obj, name, &key, err);
    if (r < 0 || !key)
        return r;
    r = json_member_int(obj, key, 0, INT64_MAX, ret, err);
    return r < 0 ? r : 0;
}

static int parse_network(const json_t *obj, struct policy *p, struct error *err)
{
    const char *key;
    json_t *net = NULL;
    int r = find_member(obj, "network", &key, err);
    if (r < 0 || !key)
        return r;
    r = json_member_object(obj, key, &net, err);
    if (r <= 0)
        return r;
    p->has_network = true;
    const char *enabled;
    r = find_member(net, "enabled", &enabled, err);
    if (r >= 0 && enabled)
        r = json_member_bool(net, enabled, &p->network_enabled, err);
    if (r < 0)
        return error_within(err, r, "%s", key);
    r = parse_list(net, "allowedhosts", &p->allowed_hosts, err);
    return r < 0 ? error_within(err, r, "%s", key) : 0;
}

static int parse_members(const json_t *obj, struct policy *p, struct error *err)
{
    const struct {
        const char *name;
        char ***ret;
    } lists[] = {{"allowedtools", &p->allowed_tools},
                 {"allowedcaps", &p->allowed_caps},
                 {"allowedpaths", &p->allowed_paths},
                 {"envwhitelist", &p->env_whitelist}};
    const char *key, *text = NULL;
    int64_t memory = 0;
    for (size_t i = 0; i < ELEMENTS(lists); i++) {
        int r = parse_list(obj, lists[i].name, lists[i].ret, err);
        if (r < 0)
            return r;
    }
    int r = parse_network(obj, p, err);
    if (r < 0)
        return r;
    r = parse_timeout(obj, &p->timeout_ns, err);
    if (r < 0)
        return r;
    r = parse_int(obj, "memorylimit", &memory, err);
    if (r < 0)
        return r;
    p->memory_bytes = (uint64_t)memory;
    r = parse_int(obj, "maxconcurrent", &p->max_concurrent, err);
    if (r < 0)
        return r;
    r = find_member(obj, "workdir", &key, err);
    if (r < 0)
        return r;
    r = key ? json_member_string(obj, key, &text, err) : 0;
    if (r < 0)
        return r;
    p->workdir = text && *text ? xstrdup(text) : NULL;
    return 0;
}

int policy_parse(const json_t *json, struct policy *ret, struct error *err)
{
    struct policy p;
    policy_init(&p);
    if (json && !json_is_null(json)) {
        if (!json_is_object(json))
            return error_field(err, "policy", "'policy' must be an object");
        int r = policy_members_check(json, err);
        if (r < 0)
            return r;
        r = error_within(err, parse_members(json, &p, err), "policy");
        if (r < 0) {
            policy_done(&p);
            return r;
        }
    }
    *ret = p;
    return 0;
}

/* policy_parse() reads stored policies, too, which may have been written under another limit.
 * Only what a caller sends is held to this one. */
int policy_parse_request(const json_t *json, struct policy *ret, struct error *err)
{
    struct policy p;
    int r = policy_parse(json, &p, err);
    if (r < 0)
        return r;
    if (p.memory_bytes > POLICY_MEMORY_MAX) {
        policy_done(&p);
        return error_field(err, "policy.MemoryLimit",
                           "'policy.MemoryLimit' must be from 0 to %llu bytes", POLICY_MEMORY_MAX);
    }
    *ret = p;
    return 0;
}

static void put_list(json_t *obj, const char *key, char *const *list)
{
    if (list)
        json_object_set_new(obj, key, json_from_strv(list));
}

json_t *policy_format(const struct policy *p)
{
    json_t *o =
        json_pack("{s:I, s:I, s:I}", "Timeout", (json_int_t)p->timeout_ns, "MemoryLimit",
                  (json_int_t)p->memory_bytes, "MaxConcurrent", (json_int_t)p->max_concurrent);
    put_list(o, "AllowedTools", p->allowed_tools);
    put_list(o, "AllowedCaps", p->allowed_caps);
    put_list(o, "AllowedPaths", p->allowed_paths);
    put_list(o, "EnvWhitelist", p->env_whitelist);
    if (p->workdir)
        json_object_set_new(o, "Workdir", json_string(p->workdir));
    if (p->has_network) {
        json_t *network = json_pack("{s:b}", "Enabled", p->network_enabled);
        put_list(network, "AllowedHosts", p->allowed_hosts);
        json_object_set_new(o, "Network", network);
    }
    return o;
}

static bool list_contains(char *const *list, const char *item)
{
    for (; list && *list; list++)
        if (strcmp(*list, item) == 0)
            return true;
    return false;
}

/* An empty list is no limit. A tool without any capability fits no list
 * that has one: the caller has listed what it wants, and this is not in it. */
static int check_capabilities(const struct policy *p, unsigned caps, struct error *err)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        {CAPABILITY_NETWORK, "network"}, {CAPABILITY_FILE, "file"}, {CAPABILITY_UNSAFE, "unsafe"}};
    if (!p->allowed_caps || !p->allowed_caps[0])
        return 0;
    if (!caps)
        return error_set(err, ERROR_DENIED, 0, "capability not allowed: the tool has none");
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if ((caps & names[i].bit) && !list_contains(p->allowed_caps, names[i].name))
            return error_set(err, ERROR_DENIED, 0, "capability not allowed: %s", names[i].name);
    return 0;
}

int policy_check_tool(const struct policy *p, const char *tool, unsigned caps, struct error *err)
{
    if (p->allowed_tools && p->allowed_tools[0] && !list_contains(p->allowed_tools, tool))
        return error_set(err, ERROR_DENIED, 0, "tool not allowed");
    int r = check_capabilities(p, caps, err);
    if (r < 0)
        return r;
    if ((caps & CAPABILITY_NETWORK) && p->has_network && !p->network_enabled)
        return error_set(err, ERROR_DENIED, 0, "network disabled");
    return 0;
}

/* A host that cannot be parsed is refused wherever there is a list. A list with an entry that is
 * no host is an error of the policy and never a match. */
int policy_check_host(const struct policy *p, const char *host, uint16_t port, struct error *err)
{
    struct rule_list rules = {0};
    struct target target = {.port = port};
    if (!p->allowed_hosts || !p->allowed_hosts[0])
        return 0;
    bool allowed = target_parse_host(host, strlen(host), &target) >= 0;
    for (char **h = p->allowed_hosts; allowed && *h; h++)
        if (rule_list_add(&rules, *h) < 0) {
            rule_list_done(&rules);
            return error_field(err, "policy", "AllowedHosts: '%.100s' is not a host", *h);
        }
    allowed = allowed && rule_list_has_host(&rules, &target);
    rule_list_done(&rules);
    return allowed ? 0 : error_set(err, ERROR_DENIED, 0, "host not allowed");
}

/* NULL means that paths are not narrowed at all, which an empty list is not. The working
 * directory counts as allowed, or a command could not start in it. */
char **policy_paths(const struct policy *p)
{
    size_t n = strv_length(p->allowed_paths);
    if (!p->allowed_paths && !p->workdir)
        return NULL;
    char **paths = xcalloc(n + 2, sizeof(*paths));
    for (size_t i = 0; i < n; i++)
        paths[i] = xstrdup(p->allowed_paths[i]);
    if (p->workdir)
        paths[n] = xstrdup(p->workdir);
    return paths;
}

char **policy_filter_env(const struct policy *p, char *const *env)
{
    size_t n = 0;
    char **kept = xcalloc(strv_length(env) + 1, sizeof(*kept));
    for (; env && *env; env++) {
        _cleanup_free_ char *name = xstrndup(*env, strcspn(*env, "="));
        if (!p->env_whitelist || list_contains(p->env_whitelist, name))
            kept[n++] = xstrdup(*env);
    }
    return kept;
}
