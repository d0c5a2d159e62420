/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/rule-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Below it, looking at every rule takes less than an index. */
#define RULES_INDEXED 8

void rule_sets_init(struct rule_sets *c)
{
    list_init(&c->all);
    c->n = 0;
}

void rule_set_unref(struct rule_set *set)
{
    if (!set || --set->refs)
        return;
    rule_list_done(&set->hosts);
    rule_list_done(&set->denied);
    rule_list_done(&set->intercepted);
    free(set->text);
    free(set);
}

static void rule_sets_drop(struct rule_sets *c, struct rule_set *set)
{
    list_remove(&set->node);
    c->n--;
    rule_set_unref(set);
}

void rule_sets_done(struct rule_sets *c)
{
    list_for_each_safe(set, &c->all, struct rule_set, node)
        rule_sets_drop(c, set);
}

static bool is_of_request(const struct rule_set *set, const struct gateway_request *req)
{
    return set->n_hosts == req->n_hosts && set->n_denied == req->n_denied &&
           set->n_intercepted == req->n_intercepted && set->len == req->hosts_len &&
           memcmp(set->text, req->hosts, set->len) == 0;
}

/* A list that is cut short, or has one rule that cannot be read, refuses the whole request: without
 * one of its denials the other rules would allow more than was meant. */
static int read_list(struct rule_list *l, uint32_t n, const char **text, const char *end)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strnlen(*text, (size_t)(end - *text));
        if (*text + len == end || rule_list_add_full(l, *text) < 0)
            return -EINVAL;
        *text += len + 1;
    }
    if (n > RULES_INDEXED)
        rule_list_index(l);
    return 0;
}

static struct rule_set *rule_set_read(const struct gateway_request *req)
{
    const char *text = req->hosts, *end = text + req->hosts_len;
    struct rule_set *set = new0(struct rule_set);
    list_init(&set->node);
    set->refs = 1;
    if (read_list(&set->hosts, req->n_hosts, &text, end) < 0 ||
        read_list(&set->denied, req->n_denied, &text, end) < 0 ||
        read_list(&set->intercepted, req->n_intercepted, &text, end) < 0 || text != end) {
        rule_set_unref(set);
        return NULL;
    }
    set->n_hosts = req->n_hosts;
    set->n_denied = req->n_denied;
    set->n_intercepted = req->n_intercepted;
    set->len = req->hosts_len;
    set->text = xcalloc(1, set->len + 1);
    memcpy(set->text, req->hosts, set->len);
    return set;
}

struct rule_set *rule_sets_get(struct rule_sets *c, const struct gateway_request *req)
{
    struct rule_set *found = NULL;
    list_for_each(set, &c->all, struct rule_set, node)
        if (is_of_request(set, req))
            found = set;
    if (!found && !(found = rule_set_read(req)))
        return NULL;
    if (list_empty(&found->node))
        c->n++;
    list_remove(&found->node);
    list_append(&c->all, &found->node); /* the newest is the last to go */
    found->refs++;
    if (c->n > RULE_SETS_MAX)
        rule_sets_drop(c, container_of(c->all.next, struct rule_set, node));
    return found;
}
