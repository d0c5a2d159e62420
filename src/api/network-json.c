/* SPDX-License-Identifier: Apache-2.0 */
#include "api/network-json.h"

#include <errno.h>
#include <string.h>

#include "api/view.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "gateway/gateway-client.h"
#include "gateway/rule.h"
#include "runtime/spec.h"
#include "tool/network-change.h"

#define NETWORK_RULES_MAX 1024 /* of one list */
#define NETWORK_NAMES_MAX 128
#define NETWORK_PORTS_MAX 16
#define NETWORK_WORDS_MAX 32
#define HTTPS_PORT        443

/* --- one rule */

/* Texts that grow. */
struct texts {
    char **list;
    size_t n;
};

/* A name without brackets may not bring its port along, and a network is not a host. */
static int check_host_text(const char *host, struct error *err)
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    if (strpbrk(host, "/ "))
        return error_field(err, "host", "'%.100s' is not a host; networks are in 'cidr'", host);
    if (end ? end[1] : strchr(host, ':') != NULL)
        return error_field(err, "host", "ports are in 'ports', and an IPv6 address in brackets");
    return 0;
}

static int parse_place(const json_t *item, const char **ret, char **ret_owned, struct error *err)
{
    const char *host = NULL, *cidr = NULL;
    int r = json_member_string(item, "host", &host, err);
    if (r < 0)
        return r;
    r = json_member_string(item, "cidr", &cidr, err);
    if (r < 0)
        return r;
    if (!host == !cidr)
        return error_field(err, "host", "a rule has either 'host' or 'cidr'");
    if (cidr && (!strchr(cidr, '/') || strpbrk(cidr, " []")))
        return error_field(err, "cidr", "'%.100s' is not a network such as 192.0.2.0/24", cidr);
    if (host)
        r = check_host_text(host, err);
    *ret_owned = cidr && strchr(cidr, ':') ? xasprintf("[%s]", cidr) : NULL;
    *ret = *ret_owned ? *ret_owned : host ? host : cidr;
    return r;
}

static char *text_append(char *text, const char *before, const char *more)
{
    char *both = xasprintf("%s%s%s", text, before, more);
    free(text);
    return both;
}

/* Appends the list of words under key to *text, each after its separator. */
static int append_words(const json_t *item, const char *key, bool (*good)(const char *),
                        const char *first, const char *others, char **text, struct error *err)
{
    _cleanup_strv_ char **words = NULL;
    int r = json_member_strv(item, key, NETWORK_WORDS_MAX, &words, err);
    if (r < 0 || !words)
        return r;
    if (!words[0])
        return error_field(err, key, "'%s' is empty", key);
    for (char **w = words; *w; w++) {
        if (!good(*w))
            return error_field(err, key, "'%.100s' cannot be one of '%s'", *w, key);
        *text = text_append(*text, w == words ? first : others, *w);
    }
    return 1;
}

static int append_protocol(const json_t *item, char **text, struct error *err)
{
    const char *protocol = NULL;
    int r = json_member_string(item, "protocol", &protocol, err);
    if (r < 0 || !protocol || strcmp(protocol, "tcp") == 0)
        return r;
    if (strcmp(protocol, "http") != 0)
        return error_unsupported(err, "protocol",
                                 "a network by name knows \"tcp\", and \"http\" for requests "
                                 "that the gateway reads");
    *text = text_append(*text, " ", "http");
    return 1;
}

static int append_end(const json_t *item, int64_t now_s, char **text, struct error *err)
{
    const char *duration = NULL;
    int64_t ns = 0;
    int r = json_member_string(item, "for", &duration, err);
    if (r < 0 || !duration)
        return r;
    int64_t s = clock_parse_duration(duration, &ns) < 0 ? 0 : ns / 1000000000;
    if (s < NETWORK_FOR_MIN_S || s > NETWORK_FOR_MAX_S)
        return error_field(err, "for", "'for' is a duration from 1s to 24h, such as \"10m\"");
    _cleanup_free_ char *end = xasprintf("%lld", (long long)(now_s + s));
    *text = text_append(*text, " until=", end);
    return 0;
}

static int append_ask(const json_t *item, char **text, struct error *err)
{
    bool ask = false;
    int r = json_member_bool(item, "ask", &ask, err);
    if (r >= 0 && ask)
        *text = text_append(*text, " ", "ask");
    return r;
}

static int append_name(const json_t *item, char **text, struct error *err)
{
    const char *name = NULL;
    int r = json_member_string(item, "name", &name, err);
    if (r <= 0)
        return r;
    if (!*name || strchr(name, ' '))
        return error_field(err, "name", "'name' is 1 to 64 letters, digits, '-', '_' and '.'");
    *text = text_append(*text, " name=", name);
    return 0;
}

/* What follows the host. *ret_read: the rule is about requests that have to be read. */
static int format_attributes(const json_t *item, int64_t now_s, char **text, bool *ret_read,
                             struct error *err)
{
    int http = append_protocol(item, text, err);
    if (http < 0)
        return http;
    int methods = append_words(item, "methods", rule_method_ok, " methods=", ",", text, err);
    if (methods < 0)
        return methods;
    int paths = append_words(item, "paths", rule_path_ok, " path=", " path=", text, err);
    if (paths < 0)
        return paths;
    int r = append_ask(item, text, err);
    if (r < 0)
        return r;
    r = append_end(item, now_s, text, err);
    if (r < 0)
        return r;
    *ret_read = http > 0 || methods > 0 || paths > 0;
    return append_name(item, text, err);
}

static int add_rule(struct texts *t, const char *place, json_int_t port, const char *attributes,
                    struct error *err)
{
    struct rule_list l = {0};
    char *text = port ? xasprintf("%s:%u%s", place, (unsigned)port, attributes)
                      : xasprintf("%s%s", place, attributes);
    int r = rule_list_add_full(&l, text);
    rule_list_done(&l);
    if (r < 0) {
        free(text);
        return error_field(
            err, *place && strchr(place, '/') ? "cidr" : "host",
            "'%.100s' is not a host, *.domain, address or network, or the rule's 'name' is not "
            "valid",
            place);
    }
    t->list = xrealloc(t->list, (t->n + 2) * sizeof(*t->list));
    t->list[t->n++] = text;
    t->list[t->n] = NULL;
    return 0;
}

/* An authority is good for names alone, and for those that it was made with. */
static bool is_name(const char *place)
{
    struct rule_list l = {0};
    rule_list_add(&l, place);
    bool name = l.n && (l.rules[0].kind == RULE_NAME || l.rules[0].kind == RULE_SUFFIX);
    rule_list_done(&l);
    return name;
}

/* Method and path of what goes through a tunnel cannot be seen unless the interceptor looks, so a
 * rule about them that a caller might take for one about https is refused without it. */
static int check_readable(const char *place, const json_t *ports, bool intercept, struct error *err)
{
    const json_t *port;
    size_t i;
    if (!ports)
        return error_unsupported(err, "ports",
                                 "a rule with methods, paths or protocol \"http\" names its "
                                 "ports: 80, or 443 with \"intercept\": true");
    json_array_foreach((json_t *)ports, i, port)
    {
        if (json_integer_value(port) != HTTPS_PORT)
            continue;
        if (!intercept)
            return error_unsupported(err, "ports",
                                     "methods, paths and protocol \"http\" of port 443 need "
                                     "\"intercept\": true, because nothing else sees into https");
        if (!is_name(place))
            return error_unsupported(err, strchr(place, '/') ? "cidr" : "host",
                                     "a rule about methods or paths of port 443 is for a name or "
                                     "*.domain: others are not intercepted");
    }
    return 0;
}

static int parse_rule(const json_t *item, const struct network_reading *how, struct texts *t,
                      struct error *err)
{
    _cleanup_free_ char *owned = NULL, *attributes = xstrdup("");
    const char *place = NULL;
    json_t *ports = NULL;
    bool read = false;
    int r = parse_place(item, &place, &owned, err);
    if (r < 0)
        return r;
    r = json_member_array(item, "ports", &ports, err);
    if (r < 0)
        return r;
    r = format_attributes(item, how->now_s, &attributes, &read, err);
    if (r < 0)
        return r;
    if (read)
        r = check_readable(place, ports, how->intercept, err);
    if (r < 0)
        return r;
    json_t *port;
    size_t i;
    if (!ports)
        return add_rule(t, place, 0, attributes, err);
    if (json_array_size(ports) == 0 || json_array_size(ports) > NETWORK_PORTS_MAX)
        return error_field(err, "ports", "'ports' has 1 to %d ports", NETWORK_PORTS_MAX);
    json_array_foreach(ports, i, port)
    {
        json_int_t v = json_integer_value(port);
        if (v < 1 || v > 65535)
            return error_field(err, "ports", "a port is a number from 1 to 65535");
        r = add_rule(t, place, v, attributes, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- lists */

int network_json_rules(const json_t *o, const char *key, const struct network_reading *how,
                       char ***ret, struct error *err)
{
    json_t *list = NULL, *item;
    size_t i;
    struct texts t = {0};
    int r = json_member_array(o, key, &list, err);
    if (r <= 0)
        return r;
    if (json_array_size(list) > NETWORK_RULES_MAX)
        return error_field(err, key, "more than %d rules", NETWORK_RULES_MAX);
    json_array_foreach(list, i, item)
    {
        if (strcmp(key, "deny") == 0 && json_object_get(item, "for"))
            r = error_field(err, "for", "a rule that denies has no end");
        else if (strcmp(key, "deny") == 0 && json_is_true(json_object_get(item, "ask")))
            r = error_within(err, error_field(err, "ask", "a rule of 'deny' cannot ask"),
                             "deny[%zu]", i);
        else
            r = json_is_object(item)
                    ? error_within(err, parse_rule(item, how, &t, err), "%s[%zu]", key, i)
                    : error_field(err, key, "each of '%s' must be an object", key);
        if (r < 0) {
            strv_free(t.list);
            return r;
        }
    }
    strv_free(*ret);
    *ret = t.list ? t.list : xcalloc(1, sizeof(char *));
    return 0;
}

/* By name, "cidrs" is short for rules with a 'cidr' and nothing else. */
static int parse_cidr_rules(const json_t *o, char ***hosts, struct error *err)
{
    _cleanup_strv_ char **cidrs = NULL;
    struct texts t = {*hosts, strv_length(*hosts)};
    int r = json_member_strv(o, "cidrs", NETWORK_NAMES_MAX, &cidrs, err);
    for (char **c = cidrs; r >= 0 && c && *c; c++) {
        _cleanup_json_ json_t *rule = json_pack("{s:s}", "cidr", *c);
        r = error_within(err, parse_rule(rule, &(struct network_reading){0}, &t, err), "cidrs[%zu]",
                         (size_t)(c - cidrs));
    }
    *hosts = t.list;
    return r;
}

/* By address, they are the networks that commands reach without a proxy. */
static int parse_cidrs(const json_t *o, struct spec *s, struct error *err)
{
    struct net_range range;
    int r = json_member_strv(o, "cidrs", NET_RANGES_MAX, &s->cidrs, err);
    for (char **text = s->cidrs; r >= 0 && text && *text; text++)
        if (net_range_parse(*text, &range) < 0)
            r = error_field(err, "cidrs",
                            "'%.100s' is not a network: 192.0.2.0/24, an address, or either with "
                            "':port', which IPv6 needs brackets for",
                            *text);
    return r;
}

/* A packet has no name, so a name that is denied could not be held. */
int network_json_check_denied(char *const *denied, struct error *err)
{
    struct net_range range;
    for (char *const *text = denied; text && *text; text++)
        if (net_range_parse(*text, &range) < 0)
            return error_unsupported(err, "deny",
                                     "by address, 'deny' has addresses and networks with ports: "
                                     "a packet has no name, method or path");
    return 0;
}

int network_json_check(struct spec *s, const char *allowed, const char *denied, struct error *err)
{
    s->network = s->hosts && s->hosts[0];
    if (!s->network)
        return 0;
    return gateway_rules_check(&(struct gateway_rules){.hosts = s->hosts,
                                                       .denied = s->denied_hosts,
                                                       .hosts_member = allowed,
                                                       .denied_member = denied,
                                                       .proxy = true},
                               err);
}

/* Rules that allow something are a network; without one there is none, whatever is denied. */
static int parse_lists(const json_t *o, bool by_address, struct spec *s, struct error *err)
{
    int r = json_member_bool(o, "intercept", &s->intercept, err);
    if (r < 0)
        return r;
    r = json_member_strv(o, "inject", NETWORK_NAMES_MAX, &s->inject, err);
    if (r < 0)
        return r;
    const struct network_reading how = {s->intercept, clock_seen_ns() / 1000000000};
    r = network_json_rules(o, "allow", &how, &s->hosts, err);
    if (r < 0)
        return r;
    r = by_address ? parse_cidrs(o, s, err) : parse_cidr_rules(o, &s->hosts, err);
    if (r < 0)
        return r;
    r = network_json_rules(o, "deny", &how, &s->denied_hosts, err);
    if (r < 0)
        return r;
    if (by_address)
        r = network_json_check_denied(s->denied_hosts, err);
    if (r < 0)
        return r;
    return network_json_check(s, "allow", "deny", err);
}

int network_json_parse(const json_t *body, struct spec *s, struct error *err)
{
    const json_t *v = json_object_get(body, "network");
    const json_t *o = json_is_object(v) ? v : NULL;
    const json_t *mode = json_object_get(o, "mode");
    bool lists =
        json_object_get(o, "allow") || json_object_get(o, "deny") || json_object_get(o, "cidrs");
    if (o)
        v = mode ? mode : json_object_get(o, "enabled");
    bool named = json_is_string(v) && strcmp(json_string_value(v), "names") == 0;
    bool addressed = json_is_string(v) && strcmp(json_string_value(v), "addresses") == 0;
    bool none =
        json_is_false(v) || (json_is_string(v) && strcmp(json_string_value(v), "none") == 0);
    if (!o && (!v || json_is_null(v) || none))
        return 0;
    if (!o || (v && !json_is_null(v) && !none && !named && !addressed))
        return error_unsupported(
            err, "network",
            "'network' can be \"none\", or an object with the hosts to 'allow' or with 'cidrs'");
    if (none && lists)
        return error_field(
            err, "network",
            "'network' has the mode \"none\" and names hosts: leave one of them out");
    if (named && !json_object_get(o, "allow") && !json_object_get(o, "cidrs"))
        return error_field(err, "network", "'network' by names needs 'allow' or 'cidrs'");
    if (addressed && !json_object_get(o, "cidrs"))
        return error_field(err, "network", "'network' by addresses needs 'cidrs'");
    bool by_address = addressed || (!named && json_object_get(o, "cidrs"));
    return error_within(err, parse_lists(o, by_address, s, err), "network");
}

/* --- back */

static json_t *view_rule(const struct rule *rule)
{
    struct rule place = *rule;
    place.port = 0;
    bool network = rule->kind == RULE_NETWORK && rule->bits != address_bits(&rule->network);
    _cleanup_free_ char *text = rule_format_host(&place);
    size_t len = strlen(text);
    bool bracketed = network && *text == '[';
    json_t *o = json_object();
    json_object_set_new(o, network ? "cidr" : "host",
                        json_stringn(text + bracketed, len - 2 * bracketed));
    if (rule->port)
        json_object_set_new(o, "ports", json_pack("[i]", rule->port));
    if (rule->http && !rule->methods && !rule->paths)
        json_object_set_new(o, "protocol", json_string("http"));
    if (rule->methods)
        json_object_set_new(o, "methods", json_from_strv(rule->methods));
    if (rule->paths)
        json_object_set_new(o, "paths", json_from_strv(rule->paths));
    if (rule->ask)
        json_object_set_new(o, "ask", json_true());
    if (rule->id)
        json_object_set_new(o, "name", json_string(rule->id));
    if (rule->until_s)
        json_object_set_new(o, "expires_at", view_time(rule->until_s * 1000000000));
    return o;
}

static json_t *view_rules(char *const *texts)
{
    json_t *list = json_array();
    struct rule_list l = {0};
    for (; texts && *texts; texts++)
        if (strcmp(*texts, GATEWAY_HOST_NONE) != 0)
            rule_list_add_full(&l, *texts);
    for (size_t i = 0; i < l.n; i++)
        json_array_append_new(list, view_rule(&l.rules[i]));
    rule_list_done(&l);
    return list;
}

json_t *network_json_view(const struct spec *s)
{
    bool by_address = spec_has_addresses(s);
    const char *mode = by_address ? "addresses" : s->network ? "names" : "none";
    json_t *o =
        json_pack("{s:s, s:o, s:o}", "mode", mode, "allow",
                  view_rules(s->network ? s->hosts : s->lent), "deny", view_rules(s->denied_hosts));
    if (by_address)
        json_object_set_new(o, "cidrs", json_from_strv(s->cidrs));
    return o;
}
