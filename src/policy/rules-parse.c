/* SPDX-License-Identifier: Apache-2.0 */
/* From the YAML tree to a ruleset: the file's own keys, each with a row in a table. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/path.h"
#include "policy/rules-internal.h"

static int parse_rules(struct rules_parse *p, const struct node *n)
{
    if (n->type != NODE_LIST)
        return rules_fail(p, n, "'rules' is a list");
    if (n->n_items > RULES_MAX)
        return rules_fail(p, n, "more than %d rules", RULES_MAX);
    p->rs->rules = xcalloc(n->n_items + 1, sizeof(*p->rs->rules));
    for (size_t i = 0; i < n->n_items; i++) {
        int r = rules_parse_rule(p, &n->items[i], &p->rs->rules[p->rs->n_rules++]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_cases(struct rules_parse *p, const struct node *n)
{
    if (n->type != NODE_LIST)
        return rules_fail(p, n, "'tests' is a list");
    if (n->n_items > RULES_TESTS_MAX)
        return rules_fail(p, n, "more than %d tests", RULES_TESTS_MAX);
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
        return rules_fail(p, n, "this version reads policies of version 1");
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
        return rules_fail(p, n, "an unknown command is never allowed: 'ask' or 'deny' is expected");
    return r;
}

/* "utc" or "+02:00": the daemon has no time zone files where it decides. */
static int parse_timezone(struct rules_parse *p, const struct node *n)
{
    const char *t = n->type == NODE_TEXT ? n->text : "";
    if (strcmp(t, "utc") == 0 || strcmp(t, "UTC") == 0)
        return 0;
    int minutes = strlen(t) == 6 && (*t == '+' || *t == '-') ? rules_parse_minutes(t + 1) : -1;
    if (minutes < 0 || minutes > 14 * 60)
        return rules_fail(p, n, "utc or an offset such as \"+02:00\" is expected");
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
        return rules_fail(p, n, "an absolute path without patterns is expected");
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
/* clang-format off */
static const struct {
    struct rules_key key;
    bool required;
    int (*parse)(struct rules_parse *p, const struct node *n);
} file_keys[] = {
    {{"version", "1", "The version of the format."}, true, parse_version},
    {{"default", "VERDICT", "What holds where no rule speaks."}, true, parse_default},
    {{"unknown", "ask or deny", "What holds for a command that cannot be known before it runs. It is never looser than default, "
      "and ask where it is not said."}, false, parse_unknown},
    {{"timezone", "utc or \"+02:00\"", "The time zone of days and hours; utc where it is not said."}, false, parse_timezone},
    {{"workspace", "PATH", "The directory that ./ means in a pattern; /workspace where it is not said."}, false, parse_workspace},
    {{"home", "PATH", "The directory that ~/ means in a pattern; /home/sandbox where it is not said."}, false, parse_home},
    {{"rules", "LIST", "The rules, in any order: deny wins over ask, and ask over allow."}, true, parse_rules},
    {{"tests", "LIST", "Calls with the verdict that they must get. A file whose tests fail is not loaded."}, false, parse_cases},
};
/* clang-format on */

const struct rules_key *rules_file_key(size_t index)
{
    return index < ELEMENTS(file_keys) ? &file_keys[index].key : NULL;
}

static int check_keys(struct rules_parse *p, const struct node *root)
{
    for (size_t i = 0; i + 1 < root->n_items; i += 2) {
        size_t k = 0;
        while (k < ELEMENTS(file_keys) && strcmp(file_keys[k].key.name, root->items[i].text) != 0)
            k++;
        if (k == ELEMENTS(file_keys))
            return rules_fail(p, &root->items[i], "unknown key '%.40s'", root->items[i].text);
    }
    return 0;
}

int rules_parse_tree(struct ruleset *rs, const struct node *root, struct error *err)
{
    struct rules_parse p = {.rs = rs, .err = err};
    rs->workspace = xstrdup("/workspace");
    rs->home = xstrdup("/home/sandbox");
    if (root->type != NODE_MAP)
        return rules_fail(&p, root, "not a map of keys and values");
    int r = check_keys(&p, root);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(file_keys); i++) {
        const struct node *value = node_find(root, file_keys[i].key.name);
        if (value)
            r = file_keys[i].parse(&p, value);
        else if (file_keys[i].required)
            r = rules_fail(&p, root, "'%s' is missing", file_keys[i].key.name);
        if (r >= 0 && strcmp(file_keys[i].key.name, "unknown") == 0 && rs->unknown < rs->fallback)
            rs->unknown = rs->fallback; /* never looser than what nothing speaks of */
        if (r >= 0 && strcmp(file_keys[i].key.name, "unknown") == 0 && rs->unknown < VERDICT_ASK)
            rs->unknown = VERDICT_ASK;
    }
    return r;
}
