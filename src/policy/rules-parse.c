/* From the YAML tree to a ruleset. Every key has a row in a table; one that is not there is an
 * error, because a misspelt condition would make a rule wider than it was meant. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/path.h"
#include "policy/rules-internal.h"

#define fail(p, n, ...) node_error((n), (p)->rs->name, (p)->err, __VA_ARGS__)

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
    if (r >= 0)
        rule->severity = (int)risk;
    return r;
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
            return fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                        "'%.100s' is no command pattern: words with spaces between, quotes closed, "
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
            r = fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                     "'%.100s' is no path pattern: no '//', '.' or '..' in it, no '/' at its end",
                     g);
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
            r = fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                     "'%.100s' is no host: a name, *.name, an address or a network, with or "
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
        return fail(p, n, "a comparison such as \">512\" is expected");
    t->op = above ? equal ? LIMIT_AT_LEAST : LIMIT_ABOVE : equal ? LIMIT_AT_MOST : LIMIT_BELOW;
    text += 1 + equal;
    return rules_parse_number(p, n, text + strspn(text, " "), &t->value);
}

static int parse_limit_tests(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    if (n->type != NODE_MAP || n->n_items == 0)
        return fail(p, n, "a map of limits is expected");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        struct limit_test *t = &rule->limits[rule->n_limits];
        int r = rules_find_limit(p, &n->items[i], &t->index);
        if (r >= 0)
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
            return fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                        "'%.40s' is no day: mon, or mon-fri", list[i]);
        for (int d = from;; d = (d + 1) % 7) {
            rule->days |= 1u << d;
            if (d == to)
                break;
        }
    }
    return r;
}

static int parse_minutes(const char *text)
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
    if (r >= 0 && strv_length(list) > RULES_HOURS_MAX)
        return fail(p, n, "more than %d items", RULES_HOURS_MAX);
    for (size_t i = 0; r >= 0 && list[i]; i++) {
        bool shape = strlen(list[i]) == 11 && list[i][5] == '-';
        int from = shape ? parse_minutes(list[i]) : -1;
        int to = shape ? parse_minutes(list[i] + 6) : -1;
        if (from < 0 || to < 0)
            return fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                        "'%.40s' are no hours: \"09:00-17:30\"", list[i]);
        rule->hours[rule->n_hours].from = from;
        rule->hours[rule->n_hours++].to = to;
    }
    return r;
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
            return fail(p, n, "an id has letters, digits and -_./: only");
    if (strcmp(text, "default") == 0 || strcmp(text, "unknown") == 0)
        return fail(p, n, "'%s' is what decides when no rule does; give the rule another id", text);
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
    if (r >= 0)
        rule->reason = xstrdup(text);
    return r;
}

static int parse_redact(struct rules_parse *p, const struct node *n, struct rules_obligations *o)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    for (size_t i = 0; r >= 0 && list[i]; i++) {
        if (strcmp(list[i], "args") != 0)
            r = fail(
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
    if (r >= 0 && rules_runtime_rank(text) < 0)
        return fail(p, n, "'%s' is no runtime", text);
    if (r >= 0)
        snprintf(o->min_runtime, sizeof(o->min_runtime), "%s", text);
    return r;
}

static int parse_require(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    struct rules_obligations *o = &rule->obligations;
    int r = 0;
    if (n->type != NODE_MAP || n->n_items == 0)
        return fail(p, n, "a map is expected");
    for (size_t i = 0; r >= 0 && i + 1 < n->n_items; i += 2) {
        const struct node *key = &n->items[i], *value = &n->items[i + 1];
        if (strcmp(key->text, "runtime") == 0)
            r = parse_min_runtime(p, value, o);
        else if (strcmp(key->text, "limits") == 0)
            r = rules_parse_limits(p, value, &o->caps);
        else if (strcmp(key->text, "no_network") == 0)
            r = rules_parse_bool(p, value, &o->strip_network);
        else if (strcmp(key->text, "redact") == 0)
            r = parse_redact(p, value, o);
        else
            r = fail(p, key, "unknown key '%.40s': runtime, limits, no_network or redact",
                     key->text);
    }
    return r;
}

static const struct {
    const char *name;
    int (*parse)(struct rules_parse *p, const struct node *n, struct rules_rule *rule);
} rule_keys[] = {
    {"id", parse_id},
    {"verdict", parse_verdict},
    {"risk", parse_rule_risk},
    {"reason", parse_reason},
    {"require", parse_require},
    {"key", parse_keys},
    {"role", parse_roles},
    {"tool", parse_tools},
    {"capability", parse_capabilities},
    {"command", parse_commands},
    {"path", parse_paths},
    {"read", parse_reads},
    {"write", parse_writes},
    {"host", parse_hosts},
    {"runtime", parse_runtimes},
    {"image", rules_parse_images},
    {"image_except", rules_parse_images_except},
    {"limits", parse_limit_tests},
    {"finding", parse_findings},
    {"severity", parse_severity},
    {"days", parse_days},
    {"hours", parse_hours},
};

static int parse_member(struct rules_parse *p, const struct node *key, const struct node *value,
                        struct rules_rule *rule)
{
    for (size_t i = 0; i < ELEMENTS(rule_keys); i++)
        if (strcmp(rule_keys[i].name, key->text) == 0)
            return rule_keys[i].parse(p, value, rule);
    return fail(p, key, "unknown key '%.40s' in a rule", key->text);
}

static int check_rule(struct rules_parse *p, const struct node *n, const struct rules_rule *rule)
{
    if (!rule->id)
        return fail(p, n, "a rule without 'id'");
    if (!rule->has_verdict && !node_find(n, "require"))
        return fail(p, n, "rule '%s' has neither 'verdict' nor 'require'", rule->id);
    for (size_t i = 0; i + 1 < p->rs->n_rules; i++)
        if (strcmp(p->rs->rules[i].id, rule->id) == 0)
            return fail(p, n, "rule '%s' is there twice, first in line %zu", rule->id,
                        p->rs->rules[i].line);
    return 0;
}

static int parse_rule(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    *rule = (struct rules_rule){.line = n->line, .severity = -1, .risk = RISK_MEDIUM};
    if (n->type != NODE_MAP)
        return fail(p, n, "a rule is a map");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        int r = parse_member(p, &n->items[i], &n->items[i + 1], rule);
        if (r < 0)
            return r;
    }
    return check_rule(p, n, rule);
}

static int parse_rules(struct rules_parse *p, const struct node *n)
{
    if (n->type != NODE_LIST)
        return fail(p, n, "'rules' is a list");
    if (n->n_items > RULES_MAX)
        return fail(p, n, "more than %d rules", RULES_MAX);
    p->rs->rules = xcalloc(n->n_items + 1, sizeof(*p->rs->rules));
    for (size_t i = 0; i < n->n_items; i++) {
        int r = parse_rule(p, &n->items[i], &p->rs->rules[p->rs->n_rules++]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- the file */

static int parse_cases(struct rules_parse *p, const struct node *n)
{
    if (n->type != NODE_LIST)
        return fail(p, n, "'tests' is a list");
    if (n->n_items > RULES_TESTS_MAX)
        return fail(p, n, "more than %d tests", RULES_TESTS_MAX);
    p->rs->cases = xcalloc(n->n_items + 1, sizeof(*p->rs->cases));
    for (size_t i = 0; i < n->n_items; i++) {
        int r = rules_case_parse(p, &n->items[i], &p->rs->cases[p->rs->n_cases++]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_version(struct rules_parse *p, const struct node *n)
{
    if (n->type != NODE_TEXT || strcmp(n->text, "1") != 0)
        return fail(p, n, "this version reads policies of version 1");
    return 0;
}

static int parse_default(struct rules_parse *p, const struct node *n)
{
    return rules_parse_verdict(p, n, &p->rs->fallback);
}

static int parse_unknown(struct rules_parse *p, const struct node *n)
{
    int r = rules_parse_verdict(p, n, &p->rs->unknown);
    if (r >= 0 && p->rs->unknown == VERDICT_ALLOW)
        return fail(p, n, "what is not known is never allowed: ask or deny");
    return r;
}

/* "utc" or "+02:00": the daemon has no time zone files where it decides. */
static int parse_timezone(struct rules_parse *p, const struct node *n)
{
    const char *t = n->type == NODE_TEXT ? n->text : "";
    if (strcmp(t, "utc") == 0 || strcmp(t, "UTC") == 0)
        return 0;
    int minutes = strlen(t) == 6 && (*t == '+' || *t == '-') ? parse_minutes(t + 1) : -1;
    if (minutes < 0 || minutes > 14 * 60)
        return fail(p, n, "utc or an offset such as \"+02:00\" is expected");
    p->rs->utc_offset_s = (*t == '-' ? -60 : 60) * minutes;
    return 0;
}

static int parse_directory(struct rules_parse *p, const struct node *n, char **ret)
{
    const char *text;
    int r = rules_parse_text(p, n, 255, &text);
    if (r < 0)
        return r;
    if (!path_is_clean(text) || !glob_is_literal(text))
        return fail(p, n, "an absolute path without patterns is expected");
    free(*ret);
    *ret = xstrdup(strcmp(text, "/") == 0 ? "" : text);
    return 0;
}

static int parse_workspace(struct rules_parse *p, const struct node *n)
{
    return parse_directory(p, n, &p->rs->workspace);
}

static int parse_home(struct rules_parse *p, const struct node *n)
{
    return parse_directory(p, n, &p->rs->home);
}

/* In the order in which they are read, whatever their order in the file. */
static const struct {
    const char *name;
    bool required;
    int (*parse)(struct rules_parse *p, const struct node *n);
} file_keys[] = {
    {"version", true, parse_version},      {"default", true, parse_default},
    {"unknown", false, parse_unknown},     {"timezone", false, parse_timezone},
    {"workspace", false, parse_workspace}, {"home", false, parse_home},
    {"rules", true, parse_rules},          {"tests", false, parse_cases},
};

static int check_keys(struct rules_parse *p, const struct node *root)
{
    for (size_t i = 0; i + 1 < root->n_items; i += 2) {
        size_t k = 0;
        while (k < ELEMENTS(file_keys) && strcmp(file_keys[k].name, root->items[i].text) != 0)
            k++;
        if (k == ELEMENTS(file_keys))
            return fail(p, &root->items[i], "unknown key '%.40s'", root->items[i].text);
    }
    return 0;
}

int rules_parse_tree(struct ruleset *rs, const struct node *root, struct error *err)
{
    struct rules_parse p = {.rs = rs, .err = err};
    rs->workspace = xstrdup("/workspace");
    rs->home = xstrdup("/home/sandbox");
    if (root->type != NODE_MAP)
        return fail(&p, root, "not a map of keys and values");
    int r = check_keys(&p, root);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(file_keys); i++) {
        const struct node *value = node_find(root, file_keys[i].name);
        if (value)
            r = file_keys[i].parse(&p, value);
        else if (file_keys[i].required)
            r = fail(&p, root, "'%s' is missing", file_keys[i].name);
        if (r >= 0 && strcmp(file_keys[i].name, "unknown") == 0 && rs->unknown < rs->fallback)
            rs->unknown = rs->fallback; /* never looser than what nothing speaks of */
        if (r >= 0 && strcmp(file_keys[i].name, "unknown") == 0 && rs->unknown < VERDICT_ASK)
            rs->unknown = VERDICT_ASK;
    }
    return r;
}
