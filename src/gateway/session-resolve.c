/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses: one lookup per session, and turns so that no label has all of the resolver.
 */
#include "gateway/session-internal.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A lookup cannot be taken back once a thread has it: it is left to end alone (on_resolved). */
void session_abandon_lookup(struct session *s)
{
    if (!s->lookup)
        return;
    s->lookup->session = NULL;
    uv_cancel((uv_req_t *)&s->lookup->req);
    s->lookup = NULL;
}

/* Keeps the addresses that may be connected to; these and no others are used from here on. */
static void choose_addresses(struct session *s, const struct addrinfo *list)
{
    enum address_class class = _ADDRESS_CLASS_MAX;
    for (const struct addrinfo *ai = list; ai && s->n_addresses < ADDRESSES_MAX; ai = ai->ai_next) {
        struct address *a = &s->addresses[s->n_addresses];
        if (address_from_sockaddr(ai->ai_addr, a) < 0)
            continue;
        if (session_may_connect(s, a))
            s->n_addresses++;
        else
            class = address_classify(a);
    }
    if (s->n_addresses)
        session_start_connect(s);
    else if (class != _ADDRESS_CLASS_MAX)
        session_refuse_address(s, class);
    else
        session_refuse(s, GATEWAY_RESOLVE_FAILED, "%s: no address", s->target.host);
}

static void start_lookup(struct session *s);

static size_t count_lookups(const struct gateway *g, uint64_t owner)
{
    size_t n = 0;
    list_for_each(l, &g->lookups, struct lookup, node)
        n += l->owner == owner;
    return n;
}

/* The session whose turn it is: of the owner who has least of the resolver, the one that has waited
 * longest. NULL: none may go on. */
static struct session *find_waiting(struct gateway *g)
{
    struct session *next = NULL;
    size_t least = 0;
    list_for_each(s, &g->sessions, struct session, node) {
        if (s->state != SESSION_RESOLVE || s->lookup || !session_share_lookup(s))
            continue;
        size_t n = count_lookups(g, s->owner);
        if (next && n >= least)
            continue;
        next = s;
        least = n;
    }
    return next;
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct lookup *l = container_of(req, struct lookup, req);
    struct gateway *g = container_of(req->loop, struct gateway, loop);
    struct session *s = l->session;
    list_remove(&l->node);
    free(l);
    if (s) {
        s->lookup = NULL;
        if (status == 0)
            choose_addresses(s, list);
        else
            session_refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host,
                           uv_strerror(status));
    }
    uv_freeaddrinfo(list);
    for (struct session *next; (next = find_waiting(g));)
        start_lookup(next);
}

static void start_lookup(struct session *s)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct gateway *g = s->gateway;
    struct lookup *l = new0(struct lookup);
    int r = uv_getaddrinfo(&g->loop, &l->req, on_resolved, s->target.host, NULL, &hints);
    if (r < 0) {
        free(l);
        session_refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host, uv_strerror(r));
        return;
    }
    l->session = s;
    memcpy(l->label, s->label, sizeof(l->label));
    l->owner = s->owner;
    list_append(&g->lookups, &l->node);
    s->lookup = l;
}

void session_start_resolve(struct session *s)
{
    s->state = SESSION_RESOLVE;
    session_set_timer(s, s->gateway->resolve_timeout_ms);
    if (session_share_lookup(s))
        start_lookup(s);
    session_update_polls(s);
}
