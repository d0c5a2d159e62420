/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the names in a list of rules: of exact ones, and of suffixes with their leading dot. A
 * target is looked up by its name and by each part of it that begins with a dot, so that what a
 * decision takes depends on the labels of the name and not on the number of rules. Networks are in
 * the same table by their first bits, and an address is looked up once for each length that a
 * network of the list has. Rules about every host are kept apart and all looked at. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"

struct prefix_length {
    sa_family_t family;
    size_t bits;
};

struct rule_index {
    uint32_t mask;    /* slots less one */
    uint32_t *slots;  /* the first rule of each, from 1; 0: none */
    uint32_t *next;   /* of each rule, the next of its slot */
    uint32_t *others; /* the rules about every host */
    size_t n_others;
    struct prefix_length *lengths; /* of the networks, each once */
    size_t n_lengths;
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static uint32_t hash_prefix(const struct address *a, size_t bits)
{
    uint32_t hash = (2166136261u ^ a->family ^ (uint32_t)bits << 8) * 16777619u;
    for (size_t i = 0; i < bits / 8; i++)
        hash = (hash ^ a->bytes[i]) * 16777619u;
    uint8_t rest = bits % 8 ? a->bytes[bits / 8] & (0xff00 >> bits % 8) : 0;
    return (hash ^ rest) * 16777619u;
}

static void index_add_length(struct rule_index *index, const struct rule *rule)
{
    for (size_t i = 0; i < index->n_lengths; i++)
        if (index->lengths[i].family == rule->network.family &&
            index->lengths[i].bits == rule->bits)
            return;
    index->lengths[index->n_lengths++] = (struct prefix_length){rule->network.family, rule->bits};
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
    index->lengths = xcalloc(l->n + 1, sizeof(*index->lengths));
    for (size_t i = 0; i < l->n; i++) {
        const struct rule *rule = &l->rules[i];
        if (rule->kind == RULE_ANY) {
            index->others[index->n_others++] = (uint32_t)i;
            continue;
        }
        if (rule->kind == RULE_NETWORK)
            index_add_length(index, rule);
        uint32_t hash = rule->kind == RULE_NETWORK ? hash_prefix(&rule->network, rule->bits)
                                                   : hash_name(rule->name);
        uint32_t *slot = &index->slots[hash & index->mask];
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
    free(index->lengths);
    free(index);
}

static void walk_look_up(struct rule_walk *w)
{
    const struct rule_index *index = w->list->index;
    w->at = w->suffix ? index->slots[hash_name(w->suffix) & index->mask] : 0;
}

void rule_walk_init(struct rule_walk *w, const struct rule_list *l, const struct target *t,
                    const struct address *a)
{
    *w = (struct rule_walk){.list = l, .addresses = {t->is_address ? &t->address : NULL, a}};
    if (!l->index)
        return;
    w->suffix = t->is_address ? NULL : t->host;
    walk_look_up(w);
}

/* To the slot of the next part of the name, and then to that of the next prefix of an address;
 * false after the last. */
static bool walk_move_on(struct rule_walk *w)
{
    const struct rule_index *index = w->list->index;
    if (w->suffix) {
        w->suffix = strchr(w->suffix + 1, '.');
        walk_look_up(w);
        return true;
    }
    for (; w->which < ELEMENTS(w->addresses); w->which++, w->length = 0) {
        const struct address *a = w->addresses[w->which];
        while (a && w->length < index->n_lengths) {
            const struct prefix_length *p = &index->lengths[w->length++];
            if (p->family != a->family)
                continue;
            w->at = index->slots[hash_prefix(a, p->bits) & index->mask];
            return true;
        }
    }
    return false;
}

/* A slot may hold rules of other names and networks. The caller compares, and passes over these
 * few. */
const struct rule *rule_walk_next(struct rule_walk *w)
{
    const struct rule_index *index = w->list->index;
    if (!index)
        return w->other < w->list->n ? &w->list->rules[w->other++] : NULL;
    while (!w->at && walk_move_on(w))
        ;
    if (!w->at)
        return w->other < index->n_others ? &w->list->rules[index->others[w->other++]] : NULL;
    uint32_t i = w->at - 1;
    w->at = index->next[i];
    return &w->list->rules[i];
}
