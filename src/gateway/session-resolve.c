/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses: one lookup per session, and turns so that no label has all of the resolver.
 */
#include "gateway/session-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

/* A lookup cannot be taken back once a thread has it: it is left to end alone (lookup_end). */
void session_abandon_lookup(struct session *s)
{
    if (!s->lookup)
        return;
    s->lookup->session = NULL;
    s->lookup = NULL;
}

/* Keeps the addresses that may be connected to; these and no others are used from here on. */
static void choose_addresses(struct session *s, const struct lookup *l)
{
    enum address_class class = _ADDRESS_CLASS_MAX;
    for (size_t i = 0; i < l->n_found && s->n_addresses < ADDRESSES_MAX; i++) {
        const struct address *a = &l->found[i];
        if (session_may_connect(s, a))
            s->addresses[s->n_addresses++] = *a;
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

void lookup_end(struct lookup *l)
{
    struct gateway *g = l->gateway;
    struct session *s = l->session;
    list_remove(&l->node);
    if (s) {
        s->lookup = NULL;
        if (l->error == 0)
            choose_addresses(s, l);
        else
            session_refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host,
                           gai_strerror(l->error));
    }
    free(l);
    for (struct session *next; (next = find_waiting(g));)
        start_lookup(next);
}

/* --- the resolver's threads */

static void resolver_look_up(struct lookup *l)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    l->error = getaddrinfo(l->host, NULL, &hints, &list);
    for (const struct addrinfo *ai = list; ai && l->n_found < ELEMENTS(l->found); ai = ai->ai_next)
        l->n_found += address_from_sockaddr(ai->ai_addr, &l->found[l->n_found]) == 0;
    if (list)
        freeaddrinfo(list);
}

static void *resolver_main(void *data)
{
    const struct gateway_resolver *r = data;
    struct lookup *l;
    while (read(r->ask[0], &l, sizeof(l)) == sizeof(l)) {
        resolver_look_up(l);
        if (write(r->answer[1], &l, sizeof(l)) != sizeof(l))
            abort(); /* a pipe has room for all that are looked up at a time */
    }
    return NULL;
}

/* There are never more lookups than threads can be, so none waits behind another. */
int lookup_send(struct lookup *l)
{
    struct gateway_resolver *r = &l->gateway->resolver;
    size_t busy = 0;
    list_for_each(other, &l->gateway->lookups, struct lookup, node)
        busy += other->threaded;
    if (r->n_threads <= busy && r->n_threads < GATEWAY_LOOKUPS &&
        pthread_create(&r->threads[r->n_threads], NULL, resolver_main, r) == 0)
        r->n_threads++;
    if (r->n_threads == 0)
        return -EAGAIN;
    l->threaded = true;
    return write(r->ask[1], &l, sizeof(l)) == sizeof(l) ? 0 : -EIO;
}

static void on_answer(struct epoll_watch *w, uint32_t ready)
{
    struct lookup *l;
    (void)ready;
    if (read(w->fd, &l, sizeof(l)) == sizeof(l))
        lookup_end(l);
}

static void start_lookup(struct session *s)
{
    struct gateway *g = s->gateway;
    struct lookup *l = new0(struct lookup);
    memcpy(l->host, s->target.host, sizeof(l->host));
    memcpy(l->label, s->label, sizeof(l->label));
    l->gateway = g;
    l->owner = s->owner;
    l->session = s;
    int r = lookup_ask_server(l) ? 0 : lookup_send(l);
    if (r < 0) {
        free(l);
        session_refuse(s, GATEWAY_RESOLVE_FAILED, "%s: %s", s->target.host, strerror(-r));
        return;
    }
    list_append(&g->lookups, &l->node);
    s->lookup = l;
}

/* As of a target that is an address. */
static void use_known(struct session *s, const struct address *a)
{
    if (!session_may_connect(s, a)) {
        session_refuse_address(s, address_classify(a));
        return;
    }
    s->addresses[s->n_addresses++] = *a;
    session_start_connect(s);
}

void session_start_resolve(struct session *s)
{
    struct address known;
    if (hosts_file_find(&s->gateway->hosts, s->target.host, &known)) {
        use_known(s, &known);
        return;
    }
    s->state = SESSION_RESOLVE;
    session_set_timer(s, s->gateway->resolve_timeout_ms);
    if (session_share_lookup(s))
        start_lookup(s);
    session_update_watches(s);
}

int session_loop_open(struct gateway *g)
{
    struct gateway_resolver *v = &g->resolver;
    int r = epoll_loop_init(&g->loop);
    if (r < 0)
        return r;
    if (pipe2(v->ask, O_CLOEXEC) < 0 || pipe2(v->answer, O_CLOEXEC) < 0)
        return -errno;
    epoll_watch_init(&v->answers, v->answer[0], on_answer);
    return epoll_watch_set(&g->loop, &v->answers, EPOLLIN);
}

void session_loop_close(struct gateway *g)
{
    struct gateway_resolver *v = &g->resolver;
    while (!list_empty(&g->lookups))
        epoll_loop_once(&g->loop, -1);
    fd_close(&v->ask[1]); /* which the threads take for the end */
    for (size_t i = 0; i < v->n_threads; i++)
        pthread_join(v->threads[i], NULL);
    epoll_watch_close(&g->loop, &v->answers);
    fd_close(&v->ask[0]);
    fd_close(&v->answer[1]);
    epoll_loop_done(&g->loop);
    hosts_file_done(&g->hosts);
}
