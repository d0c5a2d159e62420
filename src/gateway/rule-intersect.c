/* SPDX-License-Identifier: Apache-2.0 */
/* Rules as sets: what two of them allow together, and a rule as text again. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

/* Is every host of b one of a? Ports apart. A name is never covered by a network, although all
 * that it resolves to may be: that can change after this was decided. */
static bool covers_host(const struct rule *a, const struct rule *b)
{
    if (a->kind == RULE_ANY)
        return true;
    if (a->kind == RULE_NETWORK)
        return b->kind == RULE_NETWORK && a->bits <= b->bits &&
               address_in_prefix(&b->network, &a->network, a->bits);
    if (b->kind != RULE_NAME && b->kind != RULE_SUFFIX)
        return false;
    if (a->kind == RULE_NAME)
        return b->kind == RULE_NAME && strcmp(a->name, b->name) == 0;
    return ends_with(b->name, a->name);
}

bool rule_covers(const struct rule *a, const struct rule *b)
{
    return covers_host(a, b) && (!a->port || a->port == b->port) && rule_attributes_cover(a, b);
}

bool rule_intersect(const struct rule *a, const struct rule *b, struct rule *ret)
{
    if (a->port && b->port && a->port != b->port)
        return false;
    if (!covers_host(a, b) && !covers_host(b, a))
        return false;
    const struct rule *host = covers_host(a, b) ? b : a;
    *ret = (struct rule){.kind = host->kind,
                         .name = host->name ? xstrdup(host->name) : NULL,
                         .network = host->network,
                         .bits = host->bits,
                         .port = a->port ? a->port : b->port};
    if (rule_attributes_intersect(a, b, ret))
        return true;
    rule_done(ret);
    return false;
}

static char *format_host(const struct rule *rule)
{
    char text[ADDRESS_TEXT_SIZE];
    if (rule->kind == RULE_ANY)
        return xstrdup("*");
    if (rule->kind != RULE_NETWORK)
        return xasprintf("%s%s", rule->kind == RULE_SUFFIX ? "*" : "", rule->name);
    address_format(&rule->network, text);
    const char *open = rule->network.family == AF_INET6 ? "[" : "";
    const char *close = *open ? "]" : "";
    if (rule->bits == address_bits(&rule->network))
        return xasprintf("%s%s%s", open, text, close);
    return xasprintf("%s%s/%zu%s", open, text, rule->bits, close);
}

char *rule_format_host(const struct rule *rule)
{
    char *host = format_host(rule);
    if (!rule->port)
        return host;
    char *both = xasprintf("%s:%u", host, rule->port);
    free(host);
    return both;
}

char *rule_format(const struct rule *rule)
{
    return rule_format_attributes(rule, rule_format_host(rule));
}
