/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a policy file: texts, lists, names of verdicts, risks, roles, capabilities and limits.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "identity/identity.h"
#include "policy/policy.h"
#include "policy/rules-internal.h"

int rules_parse_text(struct rules_parse *p, const struct node *n, size_t max, const char **ret)
{
    if (n->type != NODE_TEXT)
        return rules_fail(p, n, "a plain value is expected");
    if (!*n->text)
        return rules_fail(p, n, "the value is empty");
    if (strlen(n->text) > max)
        return rules_fail(p, n, "longer than %zu bytes", max);
    for (const char *c = n->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return rules_fail(p, n, "a control character in a value");
    *ret = n->text;
    return 0;
}

/* One text or a list of them. */
int rules_parse_list(struct rules_parse *p, const struct node *n, char ***ret)
{
    const struct node *items = n->type == NODE_LIST ? n->items : n;
    size_t count = n->type == NODE_LIST ? n->n_items : 1;
    if (count == 0)
        return rules_fail(p, n, "the list is empty");
    if (count > RULES_LIST_MAX)
        return rules_fail(p, n, "more than %d items", RULES_LIST_MAX);
    _cleanup_strv_ char **list = xcalloc(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        const char *text;
        int r = rules_parse_text(p, &items[i], RULES_PATTERN_MAX, &text);
        if (r < 0)
            return r;
        list[i] = xstrdup(text);
    }
    *ret = steal_ptr(list);
    return 0;
}

int rules_parse_verdict(struct rules_parse *p, const struct node *n, enum verdict *ret)
{
    int v = n->type == NODE_TEXT ? verdict_find(n->text) : -1;
    if (v < 0)
        return rules_fail(p, n, "one of allow, ask and deny is expected");
    *ret = (enum verdict)v;
    return 0;
}

int rules_parse_risk(struct rules_parse *p, const struct node *n, enum risk *ret)
{
    int v = n->type == NODE_TEXT ? risk_find(n->text) : -1;
    if (v < 0)
        return rules_fail(p, n, "one of low, medium, high and critical is expected");
    *ret = (enum risk)v;
    return 0;
}

int rules_parse_bool(struct rules_parse *p, const struct node *n, bool *ret)
{
    bool yes = n->type == NODE_TEXT && strcmp(n->text, "true") == 0;
    if (!yes && (n->type != NODE_TEXT || strcmp(n->text, "false") != 0))
        return rules_fail(p, n, "true or false is expected");
    *ret = yes;
    return 0;
}

int rules_parse_roles(struct rules_parse *p, const struct node *n, unsigned *ret)
{
    _cleanup_strv_ char **names = NULL;
    int r = rules_parse_list(p, n, &names);
    for (size_t i = 0; r >= 0 && names[i]; i++) {
        unsigned role = role_find(names[i], strlen(names[i]));
        *ret |= role;
        if (!role)
            r = rules_fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                           "'%.40s' is not a role: agent, operator, approver, auditor or admin",
                           names[i]);
    }
    return r;
}

int rules_parse_capabilities(struct rules_parse *p, const struct node *n, unsigned *ret)
{
    static const struct {
        const char *name;
        unsigned bit;
    } table[] = {
        {"network", CAPABILITY_NETWORK}, {"file", CAPABILITY_FILE}, {"unsafe", CAPABILITY_UNSAFE}};
    _cleanup_strv_ char **names = NULL;
    int r = rules_parse_list(p, n, &names);
    for (size_t i = 0; r >= 0 && names[i]; i++) {
        size_t k = 0;
        while (k < ELEMENTS(table) && strcmp(table[k].name, names[i]) != 0)
            k++;
        if (k == ELEMENTS(table))
            return rules_fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                              "'%.40s' is not a capability: network, file or unsafe", names[i]);
        *ret |= table[k].bit;
    }
    return r;
}

int rules_find_limit(struct rules_parse *p, const struct node *key, int *ret)
{
    for (int i = 0; i < _RULES_LIMIT_MAX; i++)
        if (rules_limit(i)->name && strcmp(key->text, rules_limit(i)->name) == 0) {
            *ret = i;
            return 0;
        }
    return rules_fail(p, key,
                      "'%.40s' is not a limit: memory_mb, disk_mb, io_mb_per_s, cpu_cores, "
                      "max_processes, open_files or timeout_s",
                      key->text);
}

int rules_parse_number(struct rules_parse *p, const struct node *n, const char *text, double *ret)
{
    char *end;
    double v = isdigit((unsigned char)*text) ? strtod(text, &end) : (end = (char *)text, 0);
    if (end == text || *end || !isfinite(v) || v <= 0 || v > 1e9)
        return rules_fail(p, n, "a number above 0 is expected");
    *ret = v;
    return 0;
}

/* {memory_mb: 512, ...} as plain limits. */
int rules_parse_limits(struct rules_parse *p, const struct node *n, struct rules_limits *ret)
{
    if (n->type != NODE_MAP)
        return rules_fail(p, n, "a map of limits is expected");
    for (size_t i = 0; i + 1 < n->n_items; i += 2) {
        int index;
        double v;
        const char *text;
        int r = rules_find_limit(p, &n->items[i], &index);
        if (r < 0)
            return r;
        r = rules_parse_text(p, &n->items[i + 1], 40, &text);
        if (r < 0)
            return r;
        r = rules_parse_number(p, &n->items[i + 1], text, &v);
        if (r < 0)
            return r;
        if (!rules_limit_cap(ret, index, v))
            return rules_fail(p, &n->items[i + 1], "%s of %s cannot be enforced: it is %s",
                              rules_limit(index)->name, text,
                              v < 1 ? "too little" : "no whole number");
    }
    return 0;
}
