/* SPDX-License-Identifier: Apache-2.0 */
/* Cases in a policy file: calls with the verdict that they must get. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/path.h"
#include "identity/identity.h"
#include "policy/policy.h"
#include "policy/rules-internal.h"

#define CASE_LINE_MAX  4096
#define CASE_PATHS_MAX 16

void rules_case_done(struct rules_case *c)
{
    free(c->title);
    strv_free(c->argv);
    free(c->tool);
    free(c->cwd);
    free(c->host);
    free(c->runtime);
    free(c->key);
    free(c->rule);
    free(c->image);
    for (size_t i = 0; i < c->n_paths; i++)
        free((char *)c->paths[i].path);
    free(c->paths);
    *c = (struct rules_case){0};
}

static int parse_command(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    if (n->type != NODE_TEXT || strlen(n->text) > CASE_LINE_MAX)
        return rules_fail(p, n, "a shell line of at most %d bytes is expected", CASE_LINE_MAX);
    if (c->argv)
        return rules_fail(p, n, "either 'command' or 'argv'");
    c->argv = xcalloc(4, sizeof(char *));
    c->argv[0] = xstrdup("sh");
    c->argv[1] = xstrdup("-c");
    c->argv[2] = xstrdup(n->text);
    c->title = xstrdup(n->text);
    return 0;
}

static int parse_argv(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    if (n->type != NODE_LIST || !n->n_items || n->n_items > RULES_LIST_MAX || c->argv)
        return rules_fail(p, n, "a list of words is expected, and no 'command' beside it");
    c->argv = xcalloc(n->n_items + 1, sizeof(char *));
    for (size_t i = 0; i < n->n_items; i++) {
        if (n->items[i].type != NODE_TEXT)
            return rules_fail(p, &n->items[i], "a word is expected");
        c->argv[i] = xstrdup(n->items[i].text);
    }
    c->title = xstrdup(c->argv[0]);
    return 0;
}

static int parse_word(struct rules_parse *p, const struct node *n, char **ret)
{
    const char *text;
    int r = rules_parse_text(p, n, RULES_PATTERN_MAX, &text);
    if (r < 0)
        return r;
    *ret = xstrdup(text);
    return r;
}

static int parse_tool(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return parse_word(p, n, &c->tool);
}

static int parse_cwd(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    int r = parse_word(p, n, &c->cwd);
    return r >= 0 && !path_is_clean(c->cwd) ? rules_fail(p, n, "an absolute path is expected") : r;
}

static int parse_runtime(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return parse_word(p, n, &c->runtime);
}

static int parse_image(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return parse_word(p, n, &c->image);
}

static int parse_key(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return parse_word(p, n, &c->key);
}

static int parse_expected_rule(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return parse_word(p, n, &c->rule);
}

static int parse_role(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return rules_parse_roles(p, n, &c->roles);
}

static int parse_capability(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return rules_parse_capabilities(p, n, &c->capabilities);
}

static int parse_limits(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return rules_parse_limits(p, n, &c->limits);
}

static int parse_expect(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return rules_parse_verdict(p, n, &c->expect);
}

static int add_paths(struct rules_parse *p, const struct node *n, struct rules_case *c, bool write)
{
    _cleanup_strv_ char **list = NULL;
    int r = rules_parse_list(p, n, &list);
    if (r < 0)
        return r;
    size_t count = strv_length(list);
    if (c->n_paths + count > CASE_PATHS_MAX)
        return rules_fail(p, n, "more than %d paths", CASE_PATHS_MAX);
    c->paths = xrealloc(c->paths, (c->n_paths + count) * sizeof(*c->paths));
    for (size_t i = 0; i < count; i++)
        c->paths[c->n_paths++] = (struct rules_path){
            .path = rules_word_path(p->rs, list[i], *p->rs->workspace ? p->rs->workspace : "/"),
            .write = write};
    return 0;
}

static int parse_read(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return add_paths(p, n, c, false);
}

static int parse_write(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    return add_paths(p, n, c, true);
}

static int parse_host(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    int r = parse_word(p, n, &c->host);
    if (r < 0)
        return r;
    c->port = 443;
    if (target_cut_port(c->host, &c->port) < 0)
        return rules_fail(p, n, "a host with or without :port is expected");
    return 0;
}

/* "2026-01-05T10:00", in the policy's time zone. */
static int parse_time(struct rules_parse *p, const struct node *n, struct rules_case *c)
{
    struct tm tm = {0};
    const char *end = n->type == NODE_TEXT ? strptime(n->text, "%Y-%m-%dT%H:%M", &tm) : NULL;
    if (!end || *end)
        return rules_fail(p, n, "a time such as 2026-01-05T10:00 is expected");
    c->now_s = (int64_t)timegm(&tm) - p->rs->utc_offset_s;
    return 0;
}

/* clang-format off */
static const struct {
    struct rules_key key;
    int (*parse)(struct rules_parse *p, const struct node *n, struct rules_case *c);
} case_keys[] = {
    {{"command", "TEXT", "A shell line that is run."}, parse_command},
    {{"argv", "LIST", "A command by its words, without a shell; instead of command."}, parse_argv},
    {{"tool", "NAME", "The tool; where it is not said, what fits the other keys: shell, fetch, file.read, file.write or exec."}, parse_tool},
    {{"cwd", "PATH", "The directory that the command starts in; the workspace where it is not said."}, parse_cwd},
    {{"runtime", "NAME", "The runtime that is asked for."}, parse_runtime},
    {{"image", "NAME", "The image of the sandbox; none where it is not said."}, parse_image},
    {{"key", "NAME", "The caller's key."}, parse_key},
    {{"rule", "NAME", "The id of the rule that must decide."}, parse_expected_rule},
    {{"role", "ROLES", "The caller's roles; agent where they are not said."}, parse_role},
    {{"capability", "CAPABILITIES", "What the tool needs."}, parse_capability},
    {{"limits", "MAP", "Limits that are asked for."}, parse_limits},
    {{"read", "PATHS", "Files that the call reads."}, parse_read},
    {{"write", "PATHS", "Files that the call writes; at most 16 with those that it reads."}, parse_write},
    {{"host", "HOST", "The host that the call reaches, with or without :port; 443 where it is not said."}, parse_host},
    {{"time", "TIME", "When the call comes, as 2026-01-05T10:00, in the file's time zone."}, parse_time},
    {{"expect", "VERDICT", "The verdict that the call must get. Every test has this key."}, parse_expect},
};
/* clang-format on */

const struct rules_key *rules_case_key(size_t index)
{
    return index < ELEMENTS(case_keys) ? &case_keys[index].key : NULL;
}

static int parse_member(struct rules_parse *p, const struct node *key, const struct node *value,
                        struct rules_case *c)
{
    for (size_t i = 0; i < ELEMENTS(case_keys); i++)
        if (strcmp(case_keys[i].key.name, key->text) == 0)
            return case_keys[i].parse(p, value, c);
    return rules_fail(p, key, "unknown key '%.40s' in a test", key->text);
}

static void fill_defaults(const struct ruleset *rs, struct rules_case *c)
{
    if (!c->tool)
        c->tool = xstrdup(c->argv      ? "shell"
                          : c->host    ? "fetch"
                          : c->n_paths ? c->paths[0].write ? "file.write" : "file.read"
                                       : "exec");
    if (!c->cwd)
        c->cwd = xstrdup(*rs->workspace ? rs->workspace : "/");
    if (!c->title)
        c->title = xasprintf("%s %s", c->tool,
                             c->host      ? c->host
                             : c->n_paths ? c->paths[0].path
                                          : "");
}

int rules_case_parse(struct rules_parse *p, const struct node *n, struct rules_case *ret)
{
    *ret = (struct rules_case){.line = n->line};
    if (n->type != NODE_MAP)
        return rules_fail(p, n, "a test is a map");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        int r = parse_member(p, &n->items[i], &n->items[i + 1], ret);
        if (r < 0)
            return r;
    }
    if (!node_find(n, "expect"))
        return rules_fail(p, n, "a test without 'expect'");
    fill_defaults(p->rs, ret);
    return 0;
}

static json_t *run_case(const struct ruleset *rs, const struct rules_case *c, bool *ret_passed)
{
    struct identity who = {.roles = c->roles ? c->roles : ROLE_AGENT, .authenticated = c->key};
    if (c->key)
        snprintf(who.name, sizeof(who.name), "%s", c->key);
    char *const names[] = {c->image ? c->image : (char *)RULES_NO_IMAGE, NULL};
    struct rules_call call = {.who = &who,
                              .tool = c->tool,
                              .capabilities = c->capabilities,
                              .argv = c->argv,
                              .cwd = c->cwd,
                              .paths = c->paths,
                              .n_paths = c->n_paths,
                              .host = c->host,
                              .port = c->port,
                              .runtime = c->runtime,
                              .image_names = names,
                              .limits = c->limits,
                              .now_s = c->now_s};
    struct rules_decision d;
    ruleset_decide(rs, &call, &d);
    *ret_passed = d.verdict == c->expect && (!c->rule || strcmp(c->rule, d.rule) == 0);
    return json_pack("{s:b,s:I,s:s,s:s,s:s,s:s*,s:s,s:s}", "passed", *ret_passed, "line",
                     (json_int_t)c->line, "what", c->title, "expected", verdict_name(c->expect),
                     "verdict", verdict_name(d.verdict), "expected_rule", c->rule, "rule", d.rule,
                     "reason", d.reason);
}

json_t *ruleset_test(const struct ruleset *rs, size_t *ret_failed)
{
    json_t *results = json_array();
    *ret_failed = 0;
    for (size_t i = 0; i < rs->n_cases; i++) {
        bool passed;
        json_array_append_new(results, run_case(rs, &rs->cases[i], &passed));
        *ret_failed += !passed;
    }
    return results;
}
