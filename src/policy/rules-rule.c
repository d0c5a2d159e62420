/* SPDX-License-Identifier: Apache-2.0 */
/* One rule of a policy file: its conditions, and what it says. Every key has a row in a table; one
 * that is not there is an error, because a misspelt condition would make a rule wider than it was
 * meant. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/rules-internal.h"

/* --- conditions of a rule */

static int parse_keys(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_list(p, n, &rule->keys);
}

static int parse_roles(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_roles(p, n, &rule->roles);
}

static int parse_tools(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_list(p, n, &rule->tools);
}

static int parse_capabilities(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_capabilities(p, n, &rule->capabilities);
}

static int parse_runtimes(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_list(p, n, &rule->runtimes);
}

static int parse_findings(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return rules_parse_list(p, n, &rule->findings);
}

static int parse_severity(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    enum risk risk = RISK_LOW;
    int r = rules_parse_risk(p, n, &risk);
    if (r < 0)
        return r;
    rule->severity = (int)risk;
    return 0;
}

static int parse_commands(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    if (r < 0)
        return r;
    rule->commands = xcalloc(strv_length(list), sizeof(*rule->commands));
    for (size_t i = 0; list[i]; i++)
        if (command_pattern_parse(list[i], &rule->commands[rule->n_commands++]) < 0)
            return rules_fail(
                p, n->type == NODE_LIST ? &n->items[i] : n,
                "'%.100s' is not a command pattern: words with spaces between, quotes closed, "
                "the name first",
                list[i]);
    return 0;
}

/* Patterns are made absolute, so that matching knows one kind only. */
static int parse_globs(struct rules_parse *p, const struct node *n, char ***ret)
{
    int r = rules_parse_list(p, n, ret);
    for (size_t i = 0; r >= 0 && (*ret)[i]; i++) {
        char *g = (*ret)[i], *whole = NULL;
        if (strncmp(g, "~/", 2) == 0 || strcmp(g, "~") == 0)
            whole = xasprintf("%s%s", p->rs->home, g + 1);
        else if (g[0] != '/' && strncmp(g, "**", 2) != 0)
            whole = xasprintf("%s/%s", p->rs->workspace, strncmp(g, "./", 2) == 0 ? g + 2 : g);
        const char *t = whole ? whole : g;
        size_t len = strlen(t);
        if (strstr(t, "/../") || strstr(t, "/./") || strstr(t, "//") || len > RULES_PATTERN_MAX ||
            (len > 1 && t[len - 1] == '/') || (len > 2 && strcmp(t + len - 3, "/..") == 0))
            r = rules_fail(
                p, n->type == NODE_LIST ? &n->items[i] : n,
                "'%.100s' is not a path pattern: no '//', '.' or '..' in it, no '/' at its end", g);
        if (whole) {
            free(g);
            (*ret)[i] = whole;
        }
    }
    return r;
}

static int parse_paths(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return parse_globs(p, n, &rule->paths);
}

static int parse_reads(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return parse_globs(p, n, &rule->reads);
}

static int parse_writes(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return parse_globs(p, n, &rule->writes);
}

static int parse_hosts(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    rule->has_hosts = true;
    for (size_t i = 0; r >= 0 && list[i]; i++)
        if (rule_list_add(&rule->hosts, list[i]) < 0)
            r = rules_fail(
                p, n->type == NODE_LIST ? &n->items[i] : n,
                "'%.100s' is not a host: a name, *.name, an address or a network, with or "
                "without :port",
                list[i]);
    return r;
}

/* ">512", "<=2": no limit at all counts as more than any. */
static int parse_limit_test(struct rules_parse *p, const struct node *n, struct limit_test *t)
{
    const char *text;
    int r = rules_parse_text(p, n, 40, &text);
    if (r < 0)
        return r;
    bool above = text[0] == '>', equal = (above || text[0] == '<') && text[1] == '=';
    if (!above && text[0] != '<')
        return rules_fail(p, n, "a comparison such as \">512\" is expected");
    t->op = above ? equal ? LIMIT_AT_LEAST : LIMIT_ABOVE : equal ? LIMIT_AT_MOST : LIMIT_BELOW;
    text += 1 + equal;
    return rules_parse_number(p, n, text + strspn(text, " "), &t->value);
}

static int parse_limit_tests(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    if (n->type != NODE_MAP || n->n_items == 0)
        return rules_fail(p, n, "a map of limits is expected");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        struct limit_test *t = &rule->limits[rule->n_limits];
        int r = rules_find_limit(p, &n->items[i], &t->index);
        if (r < 0)
            return r;
        r = parse_limit_test(p, &n->items[i + 1], t);
        if (r < 0)
            return r;
        rule->n_limits++;
    }
    return 0;
}

static int find_day(const char *text)
{
    static const char *const names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strncmp(text, names[i], 3) == 0)
            return (int)i;
    return -1;
}

static int parse_days(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    for (size_t i = 0; r >= 0 && list[i]; i++) {
        size_t len = strlen(list[i]);
        int from = find_day(list[i]);
        int to = len == 7 && list[i][3] == '-' ? find_day(list[i] + 4) : len == 3 ? from : -1;
        if (from < 0 || to < 0)
            return rules_fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                              "'%.40s' is not a day or a range of days: mon, or mon-fri", list[i]);
        for (int d = from;; d = (d + 1) % 7) {
            rule->days |= 1u << d;
            if (d == to)
                break;
        }
    }
    return r;
}

int rules_parse_minutes(const char *text)
{
    if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]) || text[2] != ':' ||
        !isdigit((unsigned char)text[3]) || !isdigit((unsigned char)text[4]))
        return -1;
    int h = (text[0] - '0') * 10 + text[1] - '0', m = (text[3] - '0') * 10 + text[4] - '0';
    return h * 60 + m <= 24 * 60 && m < 60 ? h * 60 + m : -1;
}

static int parse_hours(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    if (r < 0)
        return r;
    if (strv_length(list) > RULES_HOURS_MAX)
        return rules_fail(p, n, "more than %d items", RULES_HOURS_MAX);
    for (size_t i = 0; list[i]; i++) {
        bool shape = strlen(list[i]) == 11 && list[i][5] == '-';
        int from = shape ? rules_parse_minutes(list[i]) : -1;
        int to = shape ? rules_parse_minutes(list[i] + 6) : -1;
        if (from < 0 || to < 0)
            return rules_fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                              "'%.40s' is not a range of hours: \"09:00-17:30\"", list[i]);
        rule->hours[rule->n_hours].from = from;
        rule->hours[rule->n_hours++].to = to;
    }
    return 0;
}

/* --- what a rule says */

static int parse_id(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    const char *text;
    int r = rules_parse_text(p, n, RULES_ID_MAX, &text);
    if (r < 0)
        return r;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_./:", *c))
            return rules_fail(p, n, "an id has letters, digits and -_./: only");
    if (strcmp(text, "default") == 0 || strcmp(text, "unknown") == 0)
        return rules_fail(p, n, "'%s' is what decides when no rule does; give the rule another id",
                          text);
    rule->id = xstrdup(text);
    return 0;
}

static int parse_verdict(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    rule->has_verdict = true;
    return rules_parse_verdict(p, n, &rule->verdict);
}

static int parse_rule_risk(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    rule->has_risk = true;
    return rules_parse_risk(p, n, &rule->risk);
}

static int parse_reason(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    const char *text;
    int r = rules_parse_text(p, n, 160, &text);
    if (r < 0)
        return r;
    rule->reason = xstrdup(text);
    return 0;
}

static int parse_redact(struct rules_parse *p, const struct node *n, struct rules_obligations *o)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    for (size_t i = 0; r >= 0 && list[i]; i++) {
        if (strcmp(list[i], "args") != 0)
            r = rules_fail(
                p, n,
                "'%.40s' cannot be redacted, only args can: output is never recorded but as a hash",
                list[i]);
        o->redact_args = true;
    }
    return r;
}

static int parse_min_runtime(struct rules_parse *p, const struct node *n,
                             struct rules_obligations *o)
{
    const char *text;
    int r = rules_parse_text(p, n, sizeof(o->min_runtime) - 1, &text);
    if (r < 0)
        return r;
    if (rules_runtime_rank(text) < 0)
        return rules_fail(p, n, "'%s' is not a runtime of this build", text);
    snprintf(o->min_runtime, sizeof(o->min_runtime), "%s", text);
    return 0;
}

static int parse_caps(struct rules_parse *p, const struct node *n, struct rules_obligations *o)
{
    return rules_parse_limits(p, n, &o->caps);
}

static int parse_no_network(struct rules_parse *p, const struct node *n,
                            struct rules_obligations *o)
{
    return rules_parse_bool(p, n, &o->strip_network);
}

/* clang-format off */
static const struct {
    struct rules_key key;
    int (*parse)(struct rules_parse *p, const struct node *n, struct rules_obligations *o);
} require_keys[] = {
    {{"runtime", "NAME", "The call runs in this runtime or in a stronger one, by the isolation that GET /v1/status shows of each. "
      "A name that this build does not have is an error."}, parse_min_runtime},
    {{"limits", "MAP", "The call gets at most these limits: {memory_mb: 512, timeout_s: 60}."}, parse_caps},
    {{"no_network", "true or false", "With true, the call gets no network."}, parse_no_network},
    {{"redact", "args", "The audit has only a hash of the call's arguments. Output is never in it but as a hash."}, parse_redact},
};
/* clang-format on */

static int parse_obligation(struct rules_parse *p, const struct node *key, const struct node *value,
                            struct rules_obligations *o)
{
    for (size_t i = 0; i < ELEMENTS(require_keys); i++)
        if (strcmp(require_keys[i].key.name, key->text) == 0)
            return require_keys[i].parse(p, value, o);
    return rules_fail(p, key, "unknown key '%.40s': runtime, limits, no_network or redact",
                      key->text);
}

static int parse_require(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    int r = 0;
    if (n->type != NODE_MAP || n->n_items == 0)
        return rules_fail(p, n, "a map is expected");
    for (size_t i = 0; r >= 0 && i + 1 < n->n_items; i += 2)
        r = parse_obligation(p, &n->items[i], &n->items[i + 1], &rule->obligations);
    return r;
}

/* clang-format off */
static const struct {
    struct rules_key key;
    int (*parse)(struct rules_parse *p, const struct node *n, struct rules_rule *rule);
    /* It says who asks, when, or for which image. Such a rule can deny an image before there is a
     * call (rules-image.c); a rule with any other condition waits for the call. */
    bool is_early;
} rule_keys[] = {
    {{"id", "NAME", "The rule's name in answers, approvals and the audit: letters, digits and -_./: only. Every rule has one of its own."}, parse_id, true},
    {{"verdict", "VERDICT", "What the rule says of the calls that it matches. A rule has this, or require, or both."}, parse_verdict, true},
    {{"risk", "RISK", "How bad such a call may be; medium where it is not said. Approving a critical one takes two people."}, parse_rule_risk, true},
    {{"reason", "TEXT", "What the caller and the approver are shown, at most 160 bytes."}, parse_reason, true},
    {{"require", "MAP", "What must hold when a matching call runs, with or without a verdict; see below."}, parse_require, true},
    {{"key", "PATTERNS", "The name or the id of the caller's key."}, parse_keys, true},
    {{"role", "ROLES", "One of the roles of the caller's key."}, parse_roles, true},
    {{"tool", "PATTERNS", "The tool's name: exec, shell, code, file.read, and so on; GET /v1/tools lists them."}, parse_tools, true},
    {{"capability", "CAPABILITIES", "What the tool needs."}, parse_capabilities},
    {{"command", "COMMANDS", "A command of the call: words with spaces between. An allow rule means exactly these words, "
      "any other rule also every other way to write them. \"*\" in an allow rule is every command, known or not."}, parse_commands},
    {{"path", "PATHS", "A file that is used in any way."}, parse_paths},
    {{"read", "PATHS", "A file that is read."}, parse_reads},
    {{"write", "PATHS", "A file that is written."}, parse_writes},
    {{"host", "HOSTS", "A host that a URL tool wants to reach: name, *.name, address or network, each with or without :port."}, parse_hosts},
    {{"runtime", "PATTERNS", "The runtime that is asked for."}, parse_runtimes},
    {{"image", "IMAGES", "What the sandbox's root is made of, by the image's full name or digest; none is the host's programs."}, rules_parse_images, true},
    {{"image_except", "IMAGES", "Any image but these."}, rules_parse_images_except, true},
    {{"limits", "MAP", "Comparisons with limits that are asked for, such as {memory_mb: \">4096\"}; no limit is more than any."}, parse_limit_tests},
    {{"finding", "PATTERNS", "What a check has found in the call's texts, or the check's name for all that it finds."}, parse_findings},
    {{"severity", "RISK", "A finding is at least that bad."}, parse_severity},
    {{"days", "DAYS", "A day of the week, mon, or some in a row, mon-fri."}, parse_days, true},
    {{"hours", "HOURS", "A time of the day, as \"22:00-06:00\", in the file's time zone; at most 16."}, parse_hours, true},
};
/* clang-format on */

const struct rules_key *rules_rule_key(size_t index)
{
    return index < ELEMENTS(rule_keys) ? &rule_keys[index].key : NULL;
}

const struct rules_key *rules_require_key(size_t index)
{
    return index < ELEMENTS(require_keys) ? &require_keys[index].key : NULL;
}

static int parse_member(struct rules_parse *p, const struct node *key, const struct node *value,
                        struct rules_rule *rule)
{
    for (size_t i = 0; i < ELEMENTS(rule_keys); i++)
        if (strcmp(rule_keys[i].key.name, key->text) == 0) {
            rule->needs_call = rule->needs_call || !rule_keys[i].is_early;
            return rule_keys[i].parse(p, value, rule);
        }
    return rules_fail(p, key, "unknown key '%.40s' in a rule", key->text);
}

int rules_parse_rule(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    *rule = (struct rules_rule){.line = n->line, .severity = -1, .risk = RISK_MEDIUM};
    if (n->type != NODE_MAP)
        return rules_fail(p, n, "a rule is a map");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        int r = parse_member(p, &n->items[i], &n->items[i + 1], rule);
        if (r < 0)
            return r;
    }
    if (!rule->id)
        return rules_fail(p, n, "a rule without 'id'");
    if (!rule->has_verdict && !node_find(n, "require"))
        return rules_fail(p, n, "rule '%s' has neither 'verdict' nor 'require'", rule->id);
    for (size_t i = 0; i + 1 < p->rs->n_rules; i++)
        if (strcmp(p->rs->rules[i].id, rule->id) == 0)
            return rules_fail(p, n, "rule '%s' is there twice, first in line %zu", rule->id,
                              p->rs->rules[i].line);
    return 0;
}
