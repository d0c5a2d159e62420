/* SPDX-License-Identifier: Apache-2.0 */
/* The decision, and the only place where rules are asked.
 *
 * It has two halves. session_decide() is asked once the target is known and before anything leaves
 * the host, not even a lookup of the name: what judges a host, a port, a method or a path, hands a
 * connection to another process, or waits for a person, belongs there. session_may_connect() is
 * asked about each address that the name has led to; the connection goes to one that it has
 * allowed and to no other. */
#include "gateway/session-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"

/* Whether an address is this host's own, which a socket can then be bound to; nothing is sent.
 * Where that cannot be found out, and where the host lets sockets have any address
 * (net.ipv4.ip_nonlocal_bind), it is taken for one. */
static bool is_own_address(const struct address *a)
{
    struct sockaddr_storage sa;
    socklen_t size = address_to_sockaddr(a, 0, &sa);
    _cleanup_close_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    return bind(fd, (struct sockaddr *)&sa, size) == 0 || errno != EADDRNOTAVAIL;
}

static struct rule_request request_of(const struct session *s)
{
    return (struct rule_request){.target = &s->target,
                                 .method = s->method,
                                 .path = s->path,
                                 .overrides = s->overrides,
                                 .later = session_is_intercepted(s)};
}

/* What the operator opened to everything, or to this. A host of images is never the metadata of a
 * cloud, whatever its name leads to. */
static bool is_opened(const struct session *s, const struct address *a)
{
    enum address_class class = address_classify(a);
    return rule_check_address(&s->gateway->private_hosts, &s->target, a) == GATEWAY_OK ||
           (s->images && (class == ADDRESS_LOOPBACK || class == ADDRESS_PRIVATE) &&
            rule_check_address(&s->gateway->image_hosts, &s->target, a) == GATEWAY_OK);
}

static bool is_open_address(const struct session *s, const struct address *a)
{
    const struct gateway *g = s->gateway;
    struct rule_request q = request_of(s);
    return !rule_list_find_denial(&g->deny_hosts, &q, a) &&
           !rule_list_find_denial(&s->rules.set->denied, &q, a) && is_opened(s, a) &&
           (address_classify(a) != ADDRESS_PUBLIC || !is_own_address(a) ||
            rule_list_has_address(&g->private_hosts, &s->target, a));
}

/* A translator on the way would lead an IPv6 address that carries an IPv4 address there: both have
 * to be open. */
bool session_may_connect(const struct session *s, const struct address *a)
{
    struct address carried;
    return is_open_address(s, a) && (!address_carried(a, &carried) || is_open_address(s, &carried));
}

void session_refuse_address(struct session *s, enum address_class class)
{
    if (class == ADDRESS_PUBLIC)
        session_refuse(s, GATEWAY_ADDRESS_NOT_ALLOWED,
                       "%s has an address that is denied or this host's own", s->target.host);
    else
        session_refuse(s, GATEWAY_ADDRESS_NOT_ALLOWED, "%s is a %s address", s->target.host,
                       address_class_name(class));
}

static void keep_rule(struct session *s, const struct rule *rule)
{
    _cleanup_free_ char *text = rule->id ? xstrdup(rule->id) : rule_format(rule);
    snprintf(s->rule, sizeof(s->rule), "%s", text);
}

/* A rule about methods or paths does not help a tunnel, whose client should learn why. */
static const char *why_nothing_allows(const struct session *s)
{
    return !s->method && rule_list_has_host(&s->rules.set->hosts, &s->target)
               ? "is allowed only for requests that the gateway can read, not for a tunnel"
           : rule_list_has_host(&s->rules.set->hosts, &s->target)
               ? s->overrides ? "is not allowed with a header that names another method or path"
                              : "is not allowed with this method or path"
               : "is not an allowed host";
}

/* Why the client may not ask for its target, or NULL. *ret_ask: unless a person says yes, about
 * what everything else allows. */
static const char *why_not(struct session *s, bool *ret_ask)
{
    const struct gateway *g = s->gateway;
    struct rule_request q = request_of(s);
    const struct rule *denial = rule_list_find_denial(&s->rules.set->denied, &q, NULL);
    const struct rule *allowance =
        s->any_host ? NULL : rule_list_find_allowance(&s->rules.set->hosts, &q);
    if (denial || allowance)
        keep_rule(s, denial ? denial : allowance);
    if (denial)
        return "is denied in this sandbox";
    if (!s->any_host && !allowance)
        return why_nothing_allows(s);
    if (rule_check_host(&g->allow_hosts, g->allow_hosts.n == 0, &s->target) != GATEWAY_OK ||
        rule_list_find_denial(&g->deny_hosts, &q, NULL))
        return "is not an allowed host of this daemon";
    *ret_ask = allowance && allowance->ask && !(q.later && allowance->http);
    return *ret_ask ? "needs a person's approval: try again when it was given" : NULL;
}

/* A tunnel to a name is for that name; one to an address is for any that is not denied. */
const char *session_why_not_name(const struct session *s, const char *name)
{
    struct target named = {.port = s->target.port};
    if (target_parse_host(name, strlen(name), &named) < 0)
        return "the server name that TLS asks for is not a host name";
    if (!s->target.is_address)
        return strcmp(named.host, s->target.host) == 0 ? NULL : "TLS asks for another name";
    struct rule_request q = {.target = &named};
    if (rule_list_find_denial(&s->rules.set->denied, &q, NULL) ||
        rule_list_find_denial(&s->gateway->deny_hosts, &q, NULL))
        return "TLS asks for a name that is denied";
    return NULL;
}

void session_decide(struct session *s)
{
    const struct address *a = &s->target.address;
    bool ask = false;
    const char *why = why_not(s, &ask);
    if (!why && s->tls && rule_list_has_host(&s->rules.set->intercepted, &s->target))
        session_refuse_as(s, GATEWAY_BAD_REQUEST, 501,
                          "%s is intercepted in this sandbox: its requests have to come by CONNECT",
                          s->target.host);
    else if (!why && session_is_intercepted(s) && s->rules.intercept_fd < 0)
        session_refuse_as(s, GATEWAY_CONNECT_FAILED, 503,
                          "%s port %u: the interceptor is not there", s->target.host,
                          s->target.port);
    else if (why)
        session_refuse(s, ask ? GATEWAY_ASK : GATEWAY_HOST_NOT_ALLOWED, "%s port %u %s",
                       s->target.host, s->target.port, why);
    else if (!s->target.is_address)
        session_start_resolve(s);
    else if (!session_may_connect(s, a))
        session_refuse_address(s, address_classify(a));
    else {
        s->addresses[s->n_addresses++] = *a;
        session_start_connect(s);
    }
}
