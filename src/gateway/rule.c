/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/rule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define RULE_TEXT_MAX (TARGET_HOST_MAX + 16)
#define RULE_FULL_MAX 4096 /* with attributes */

void rule_done(struct rule *rule)
{
    free(rule->name);
    free(rule->id);
    strv_free(rule->methods);
    strv_free(rule->paths);
    *rule = (struct rule){0};
}

void rule_list_done(struct rule_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        rule_done(&l->rules[i]);
    free(l->rules);
    rule_index_free(l->index);
    *l = (struct rule_list){0};
}

static int parse_bits(const char *text, const struct address *net, size_t *ret)
{
    size_t len = strlen(text), bits = 0;
    if (len == 0 || len > 3)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        bits = bits * 10 + (size_t)(text[i] - '0');
    }
    if (bits > address_bits(net))
        return -EINVAL;
    *ret = bits;
    return 0;
}

/* "address" or "address/bits", without brackets and port. */
static int parse_network(char *text, struct rule *ret)
{
    char *slash = strchr(text, '/');
    if (slash)
        *slash = 0;
    int r = address_parse(text, &ret->network);
    if (r < 0)
        return r;
    ret->kind = RULE_NETWORK;
    ret->bits = address_bits(&ret->network);
    return slash ? parse_bits(slash + 1, &ret->network, &ret->bits) : 0;
}

static int parse_name(const char *text, struct rule *ret)
{
    struct target t = {0};
    if (strcmp(text, "*") == 0) {
        ret->kind = RULE_ANY;
        return 0;
    }
    bool suffix = strncmp(text, "*.", 2) == 0;
    const char *name = suffix ? text + 2 : text;
    int r = target_parse_host(name, strlen(name), &t);
    if (r < 0 || t.is_address)
        return -EINVAL;
    ret->kind = suffix ? RULE_SUFFIX : RULE_NAME;
    ret->name = suffix ? xasprintf(".%s", t.host) : xstrdup(t.host);
    return 0;
}

/* An IPv6 address without brackets never loses its last part to a port: a port is cut off only
 * behind a bracket or where the text has one colon. */
static int rule_parse(char *text, struct rule *ret)
{
    *ret = (struct rule){0};
    int r = target_cut_port(text, &ret->port);
    if (r < 0)
        return r;
    size_t len = strlen(text);
    if (text[0] == '[') {
        if (len < 3 || text[len - 1] != ']')
            return -EINVAL;
        text[len - 1] = 0;
        text++;
        return strchr(text, ':') ? parse_network(text, ret) : -EINVAL;
    }
    if (strchr(text, '/') || strchr(text, ':'))
        return parse_network(text, ret);
    /* The address is tried first: a rule for the name "10.0.0.1" would match nothing, because a
     * target with that text is an address. */
    return parse_network(text, ret) == 0 ? 0 : parse_name(text, ret);
}

/* For lists that callers write. A space would let the text of a host bring attributes of its
 * own. */
int rule_list_add(struct rule_list *l, const char *text)
{
    return strchr(text, ' ') ? -EINVAL : rule_list_add_full(l, text);
}

int rule_list_add_full(struct rule_list *l, const char *text)
{
    struct rule rule;
    size_t host_len = strcspn(text, " ");
    if (host_len == 0 || host_len > RULE_TEXT_MAX || strlen(text) > RULE_FULL_MAX)
        return -EINVAL;
    _cleanup_free_ char *copy = xstrdup(text);
    copy[host_len] = 0;
    int r = rule_parse(copy, &rule);
    if (r >= 0 && text[host_len])
        r = rule_parse_attributes(copy + host_len + 1, &rule);
    if (r < 0) {
        rule_done(&rule);
        return r;
    }
    l->rules = xrealloc(l->rules, (l->n + 1) * sizeof(*l->rules));
    l->rules[l->n++] = rule;
    return 0;
}

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n > m && strcmp(text + n - m, suffix) == 0;
}

static bool port_matches(const struct rule *rule, const struct target *t)
{
    return !rule->port || rule->port == t->port;
}

/* A name never matches an address, nor a network a name. What a name leads to is compared on its
 * own, once it is known (rule_check_address()), so that a client gains nothing by its choice of
 * form. */
static bool matches_host(const struct rule *rule, const struct target *t)
{
    if (!port_matches(rule, t))
        return false;
    switch (rule->kind) {
    case RULE_ANY:
        return true;
    case RULE_NAME:
        return !t->is_address && strcmp(rule->name, t->host) == 0;
    case RULE_SUFFIX:
        return !t->is_address && ends_with(t->host, rule->name);
    case RULE_NETWORK:
        return t->is_address && address_in_prefix(&t->address, &rule->network, rule->bits);
    }
    return false;
}

bool rule_list_has_host(const struct rule_list *l, const struct target *t)
{
    struct rule_walk w;
    rule_walk_init(&w, l, t, NULL);
    for (const struct rule *rule; (rule = rule_walk_next(&w));)
        if (matches_host(rule, t))
            return true;
    return false;
}

bool rule_list_has_address(const struct rule_list *l, const struct target *t,
                           const struct address *a)
{
    struct rule_walk w;
    rule_walk_init(&w, l, t, a);
    for (const struct rule *rule; (rule = rule_walk_next(&w));) {
        if (rule->kind == RULE_NETWORK && port_matches(rule, t) &&
            address_in_prefix(a, &rule->network, rule->bits))
            return true;
    }
    return false;
}

bool rule_is_about(const struct rule *rule, const struct target *t, const struct address *a)
{
    return matches_host(rule, t) || (a && rule->kind == RULE_NETWORK && port_matches(rule, t) &&
                                     address_in_prefix(a, &rule->network, rule->bits));
}

/* Denials and allowances treat doubt in opposite ways: a denial whose attributes cannot be compared
 * yet holds, and an allowance of that kind does not. What is not known is so never let through. */
static bool denies(const struct rule *rule, const struct rule_request *q, const struct address *a)
{
    return rule_is_about(rule, q->target, a) && !(q->later && rule->http) &&
           rule_fits_http(rule, q) != RULE_FITS_NOT;
}

static bool allows(const struct rule *rule, const struct rule_request *q)
{
    return matches_host(rule, q->target) &&
           ((q->later && rule->http) || rule_fits_http(rule, q) == RULE_FITS);
}

/* The walk comes in no order. The first rule of the list is taken, so that records name the same
 * rule whether there is an index or not. */
const struct rule *rule_list_find_denial(const struct rule_list *l, const struct rule_request *q,
                                         const struct address *a)
{
    struct rule_walk w;
    const struct rule *first = NULL;
    rule_walk_init(&w, l, q->target, a);
    for (const struct rule *rule; (rule = rule_walk_next(&w));)
        if ((!first || rule < first) && denies(rule, q, a))
            first = rule;
    return first;
}

const struct rule *rule_list_find_allowance(const struct rule_list *l, const struct rule_request *q)
{
    struct rule_walk w;
    const struct rule *asking = NULL, *first = NULL;
    rule_walk_init(&w, l, q->target, NULL);
    for (const struct rule *rule; (rule = rule_walk_next(&w));) {
        const struct rule **best = rule->ask ? &asking : &first;
        if ((!*best || rule < *best) && allows(rule, q))
            *best = rule;
    }
    return first ? first : asking;
}

enum gateway_code rule_check_host(const struct rule_list *hosts, bool any, const struct target *t)
{
    return any || rule_list_has_host(hosts, t) ? GATEWAY_OK : GATEWAY_HOST_NOT_ALLOWED;
}

/* Does the operator's rule open this address, which is not a public one? A name is answered for
 * by servers that an attacker may own, and could lead anywhere. It therefore opens loopback and
 * private addresses only, and a metadata server, which hands out the machine's credentials, is
 * opened by nothing but its own address. */
static bool opens(const struct rule *rule, const struct target *t, const struct address *a,
                  enum address_class class)
{
    if (!port_matches(rule, t))
        return false;
    if (rule->kind == RULE_NETWORK)
        return address_in_prefix(a, &rule->network, rule->bits) &&
               (class != ADDRESS_METADATA || rule->bits == address_bits(a));
    return (class == ADDRESS_LOOPBACK || class == ADDRESS_PRIVATE) && matches_host(rule, t);
}

enum gateway_code rule_check_address(const struct rule_list *private_hosts, const struct target *t,
                                     const struct address *a)
{
    enum address_class class = address_classify(a);
    if (class == ADDRESS_PUBLIC)
        return GATEWAY_OK;
    if (class == ADDRESS_FORBIDDEN)
        return GATEWAY_ADDRESS_NOT_ALLOWED;
    struct rule_walk w;
    rule_walk_init(&w, private_hosts, t, a);
    for (const struct rule *rule; (rule = rule_walk_next(&w));)
        if (opens(rule, t, a, class))
            return GATEWAY_OK;
    return GATEWAY_ADDRESS_NOT_ALLOWED;
}
