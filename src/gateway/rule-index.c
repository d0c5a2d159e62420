/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the names in a list of rules: of exact ones, and of suffixes with their leading dot. A
 * target is looked up by its name and by each part of it that begins with a dot, so that what a
 * decision takes depends on the labels of the name and not on the number of rules. Rules that are
 * not about names (every host, networks) are kept apart and all looked at. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"

struct rule_index {
    uint32_t mask;    /* slots less one */
    uint32_t *slots;  /* the first rule of each, from 1; 0: none */
    uint32_t *next;   /* of each rule, the next of its slot */
    uint32_t *others; /* the rules that are not about names */
    size_t n_others;
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static bool is_about_names(const struct rule *rule)
{
    return rule->kind == RULE_NAME || rule->kind == RULE_SUFFIX;
}

void rule_list_index(struct rule_list *l)
{
    struct rule_index *index = new0(struct rule_index);
    index->mask = 15;
    while (index->mask < 2 * l->n)
        index->mask = index->mask * 2 + 1;
    index->slots = xcalloc(index->mask + 1, sizeof(*index->slots));
    index->next = xcalloc(l->n + 1, sizeof(*index->next));
    index->others = xcalloc(l->n + 1, sizeof(*index->others));
    for (size_t i = 0; i < l->n; i++) {
        if (!is_about_names(&l->rules[i])) {
            index->others[index->n_others++] = (uint32_t)i;
            continue;
        }
        uint32_t *slot = &index->slots[hash_name(l->rules[i].name) & index->mask];
        index->next[i] = *slot;
        *slot = (uint32_t)i + 1;
    }
    rule_index_free(l->index);
    l->index = index;
}

void rule_index_free(struct rule_index *index)
{
    if (!index)
        return;
    free(index->slots);
    free(index->next);
    free(index->others);
    free(index);
}

static void walk_look_up(struct rule_walk *w)
{
    const struct rule_index *index = w->list->index;
    w->at = w->suffix ? index->slots[hash_name(w->suffix) & index->mask] : 0;
}

void rule_walk_init(struct rule_walk *w, const struct rule_list *l, const struct target *t)
{
    *w = (struct rule_walk){.list = l, .target = t};
    if (!l->index)
        return;
    w->suffix = t->is_address ? NULL : t->host;
    walk_look_up(w);
}

/* The slot may hold rules of other names. The caller compares names and passes over these few. */
static const struct rule *next_of_name(struct rule_walk *w)
{
    while (w->suffix && !w->at) {
        w->suffix = strchr(w->suffix + 1, '.');
        walk_look_up(w);
    }
    if (!w->at)
        return NULL;
    uint32_t i = w->at - 1;
    w->at = w->list->index->next[i];
    return &w->list->rules[i];
}

const struct rule *rule_walk_next(struct rule_walk *w)
{
    const struct rule_index *index = w->list->index;
    if (!index)
        return w->other < w->list->n ? &w->list->rules[w->other++] : NULL;
    const struct rule *rule = next_of_name(w);
    if (rule)
        return rule;
    return w->other < index->n_others ? &w->list->rules[index->others[w->other++]] : NULL;
}
