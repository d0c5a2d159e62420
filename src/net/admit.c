/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: who may have a connection, and whose goes when there are too many.
 *
 * This is the only place that counts connections. A connection is a stranger's until a request of
 * its has shown who it is for (http_request_admit()). Strangers are counted by address, the others
 * by their tag; a Unix socket has no address, and part of all connections is kept for those.
 *
 * Callers that only wait keep no other caller out. When all connections are taken, the one that has
 * been incomplete for longest is answered 503 and gives its place to the newcomer: a stranger whose
 * request has not come, or, where there is none, a request whose body has not. A newcomer whose
 * address has more than its share of strangers takes the place of one of those. Only when
 * everything else is at work the newcomer itself gets the 503. A connection that is turned away is
 * kept a moment, uncounted, so that it can read that answer; of those, too, the oldest makes room.
 *
 * A whole answer is queued however large it is, and a client may read it slowly. What waits for all
 * readers together has a bound (max_write_total). Over it, the tag (for connections without one:
 * the address) that has most waiting gives way, so that a caller loses nothing to one that holds
 * more. Of its connections, the one is reset that has burdened us most: with what waits, times for
 * how long.
 *
 * Refusals cost us more than the caller who collects them, so an address has a bucket of them that
 * fills again with time. An address without a connection is remembered while its bucket is not
 * full, up to PEERS_IDLE_MAX of them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "net/conn.h"

#define PEERS_IDLE_MAX 1024

struct peer {
    struct list strangers; /* connections, oldest first */
    struct list idle;      /* server->idle_peers */
    size_t n_conns, n_strangers;
    double refusals; /* left */
    uint64_t refilled_at;
    size_t kept; /* for its connections without a holder; find_slow_reader() alone uses it */
    char name[INET6_ADDRSTRLEN];
};

struct holder {
    size_t n_conns;
    size_t kept; /* for its connections, as above */
};

void admit_init(struct http_server *s)
{
    s->peers = map_new();
    s->holders = map_new();
    list_init(&s->strangers);
    list_init(&s->refused);
    list_init(&s->idle_peers);
}

void admit_done(struct http_server *s)
{
    size_t at = 0;
    struct peer *p;
    struct holder *h;
    while ((p = map_next(s->peers, &at)))
        free(p);
    for (at = 0; (h = map_next(s->holders, &at));)
        free(h);
    map_free(s->peers);
    map_free(s->holders);
}

/* --- addresses */

/* Sets c->address, and writes what it is counted by: in IPv6 a caller has 64 bits to choose from.
 */
static void name_peer(struct conn *c, char name[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage a = {0};
    int len = sizeof(a);
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a;
    *name = 0;
    if (uv_tcp_getpeername(&c->h.tcp, (struct sockaddr *)&a, &len) < 0)
        return;
    if (a.ss_family == AF_INET) {
        uv_ip4_name((const struct sockaddr_in *)&a, c->address, sizeof(c->address));
    } else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        uv_inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], c->address, sizeof(c->address));
    } else {
        uv_ip6_name(six, c->address, sizeof(c->address));
        memset(&six->sin6_addr.s6_addr[8], 0, 8);
        uv_ip6_name(six, name, INET6_ADDRSTRLEN);
        return;
    }
    memcpy(name, c->address, INET6_ADDRSTRLEN);
}

static void refill_tokens(struct http_server *s, struct peer *p)
{
    uint64_t now = uv_now(s->o.loop);
    double most = (double)s->o.config.refusals_per_minute;
    p->refusals += (double)(now - p->refilled_at) * most / 60000;
    p->refilled_at = now;
    if (p->refusals > most)
        p->refusals = most;
}

static struct peer *take_peer(struct http_server *s, const char *name)
{
    struct peer *p = map_find(s->peers, name);
    if (!p) {
        p = new0(struct peer);
        strcpy(p->name, name);
        p->refusals = (double)s->o.config.refusals_per_minute;
        p->refilled_at = uv_now(s->o.loop);
        list_init(&p->strangers);
        list_init(&p->idle);
        map_put(s->peers, name, p);
    }
    if (!list_empty(&p->idle)) {
        list_remove(&p->idle);
        s->n_idle_peers--;
    }
    p->n_conns++;
    return p;
}

static void forget_peer(struct http_server *s, struct peer *p)
{
    if (!list_empty(&p->idle))
        s->n_idle_peers--;
    list_remove(&p->idle);
    map_remove(s->peers, p->name);
    free(p);
}

static void leave_peer(struct http_server *s, struct peer *p)
{
    if (--p->n_conns)
        return;
    refill_tokens(s, p);
    if (p->refusals >= (double)s->o.config.refusals_per_minute) {
        forget_peer(s, p);
        return;
    }
    list_append(&s->idle_peers, &p->idle);
    if (++s->n_idle_peers > PEERS_IDLE_MAX)
        forget_peer(s, container_of(s->idle_peers.next, struct peer, idle));
}

/* --- counting */

static void leave_strangers(struct conn *c)
{
    if (list_empty(&c->stranger))
        return;
    list_remove(&c->stranger);
    list_remove(&c->stranger_of_peer);
    if (c->peer)
        c->peer->n_strangers--;
}

static void leave_holder(struct conn *c)
{
    struct holder *h = steal_ptr(c->holder);
    if (h && !--h->n_conns)
        free(map_remove(c->server->holders, c->tag));
    *c->tag = 0;
}

static void conn_uncount(struct conn *c)
{
    struct http_server *s = c->server;
    if (!c->counted)
        return;
    c->counted = false;
    s->n_conns--;
    s->n_tcp -= !c->is_unix;
    leave_strangers(c);
    leave_holder(c);
}

void admit_gone(struct conn *c)
{
    struct http_server *s = c->server;
    if (!c->counted && !list_empty(&c->node))
        s->n_refused--;
    conn_uncount(c);
    list_remove(&c->node);
    if (c->peer)
        leave_peer(s, steal_ptr(c->peer));
}

static void count_conn(struct conn *c)
{
    struct http_server *s = c->server;
    c->counted = true;
    c->accepted_at = uv_now(s->o.loop);
    s->n_conns++;
    s->n_tcp += !c->is_unix;
    list_append(&s->conns, &c->node);
    list_append(&s->strangers, &c->stranger);
    if (c->peer) {
        list_append(&c->peer->strangers, &c->stranger_of_peer);
        c->peer->n_strangers++;
    }
}

/* For connections that get this answer, that there is no room, and are then closed. */
static void put_aside(struct conn *c)
{
    struct http_server *s = c->server;
    conn_uncount(c);
    list_remove(&c->node);
    list_append(&s->refused, &c->node);
    if (++s->n_refused <= CONN_REFUSED_MAX)
        return;
    struct conn *oldest = container_of(s->refused.next, struct conn, node);
    list_remove(&oldest->node);
    s->n_refused--;
    conn_close(oldest);
}

/* --- making room */

static bool is_incomplete(const struct conn *c)
{
    const struct http_request *req = &c->req;
    /* What a connection of this very turn has sent is not read yet. */
    if (c->yielded || c->accepted_at == uv_now(c->server->o.loop))
        return false;
    switch (c->state) {
    case CONN_HEAD:
        return !c->admitted || c->in_pos < c->in_len;
    case CONN_BUSY:
        return request_waits(req);
    case CONN_LINGER:
        return true;
    default:
        return false;
    }
}

static void evict_conn(struct conn *c)
{
    static const char why[] = "there are too many connections, and this one was slow";
    put_aside(c);
    if (c->state == CONN_HEAD)
        conn_refuse(c, 503, why);
    else if (c->state == CONN_BUSY && c->req.answer == ANSWER_NONE)
        response_error(&c->req, 503, why);
    else
        conn_close(c);
}

/* Lists are in the order in which connections came. */
static bool evict_of_peer(struct peer *p)
{
    list_for_each(c, &p->strangers, struct conn, stranger_of_peer) {
        if (is_incomplete(c)) {
            evict_conn(c);
            return true;
        }
    }
    return false;
}

static bool evict_any(struct http_server *s, bool unix_too)
{
    list_for_each(c, &s->strangers, struct conn, stranger) {
        if ((unix_too || !c->is_unix) && is_incomplete(c)) {
            evict_conn(c);
            return true;
        }
    }
    list_for_each(c, &s->conns, struct conn, node) {
        if ((unix_too || !c->is_unix) && is_incomplete(c)) {
            evict_conn(c);
            return true;
        }
    }
    return false;
}

/* Of all connections; at least one. */
static size_t share_of(const struct http_config *o, unsigned percent)
{
    size_t n = o->max_connections * percent / 100;
    return n ? n : 1;
}

static bool has_room(struct conn *c, const char **ret_why)
{
    struct http_server *s = c->server;
    const struct http_config *o = &s->o.config;
    size_t reserve = o->max_connections * o->unix_reserve_percent / 100;
    size_t for_tcp = o->max_connections - (s->has_unix ? reserve : 0);
    if (s->n_conns < o->max_connections && (c->is_unix || s->n_tcp < for_tcp))
        return true;
    *ret_why = "this address has too many connections that have shown no key";
    if (c->peer && o->address_percent && c->peer->n_strangers >= share_of(o, o->address_percent))
        return evict_of_peer(c->peer);
    *ret_why = "too many connections";
    return evict_any(s, c->is_unix);
}

/* --- answers that wait for their readers */

/* Byte-milliseconds. What was queued in this very turn has burdened us with nothing yet. */
static double conn_burden(const struct conn *c)
{
    return (double)c->kept * (double)(uv_now(c->server->o.loop) - c->write_began);
}

static size_t *find_sum(const struct conn *c, size_t *others)
{
    return c->holder ? &c->holder->kept : c->peer ? &c->peer->kept : others;
}

/* NULL: all that waits has come in this turn. */
static struct conn *find_slow_reader(struct http_server *s)
{
    struct conn *found = NULL;
    size_t others = 0, most = 0;
    double heaviest = 0;
    /* One that has lost its place goes first: it only waits to read that. */
    list_for_each(c, &s->refused, struct conn, node) {
        if (conn_burden(c) > heaviest) {
            heaviest = conn_burden(c);
            found = c;
        }
    }
    if (found)
        return found;
    list_for_each(c, &s->conns, struct conn, node)
        *find_sum(c, &others) = 0;
    list_for_each(c, &s->conns, struct conn, node)
        *find_sum(c, &others) += c->kept;
    list_for_each(c, &s->conns, struct conn, node) {
        size_t sum = *find_sum(c, &others);
        double burden = conn_burden(c);
        if (burden > 0 && (sum > most || (sum == most && burden > heaviest))) {
            most = sum;
            heaviest = burden;
            found = c;
        }
    }
    return found;
}

/* The reset shows the client that its answer is not whole. */
void admit_relieve(struct http_server *s)
{
    size_t n = 0, before = s->kept;
    struct conn *c;
    for (; s->kept > s->o.config.max_write_total && (c = find_slow_reader(s)); n++)
        conn_reset(c);
    if (n)
        log_warn("reset %zu clients that read slowly and had %zu bytes waiting, because all "
                 "clients together had more than max_write_total",
                 n, before - s->kept);
}

bool admit_conn(struct conn *c, const char **ret_why)
{
    struct http_server *s = c->server;
    char name[INET6_ADDRSTRLEN];
    if (!c->is_unix) {
        name_peer(c, name);
        c->peer = *name ? take_peer(s, name) : NULL;
    }
    if (has_room(c, ret_why)) {
        count_conn(c);
        return true;
    }
    put_aside(c);
    return false;
}

/* --- what a handler says of its caller */

int http_request_admit(struct http_request *req, const char *tag)
{
    struct conn *c = req->conn;
    struct http_server *s = c->server;
    if (c->admitted && !strncmp(c->tag, tag, HTTP_TAG_SIZE - 1))
        return 0;
    if (!c->counted)
        return 0; /* it is going */
    c->admitted = true;
    leave_strangers(c);
    leave_holder(c);
    if (!*tag)
        return 0;
    snprintf(c->tag, sizeof(c->tag), "%s", tag);
    struct holder *h = map_find(s->holders, c->tag);
    if (!h) {
        h = new0(struct holder);
        map_put(s->holders, c->tag, h);
    }
    c->holder = h;
    h->n_conns++;
    if (c->server->o.config.tag_percent &&
        h->n_conns > share_of(&s->o.config, s->o.config.tag_percent)) {
        req->close = true;
        return -EUSERS;
    }
    return 0;
}

void http_request_set_credential(struct http_request *req, const char *id)
{
    snprintf(req->conn->credential, sizeof(req->conn->credential), "%s", id);
}

bool http_request_refusal(struct http_request *req)
{
    struct conn *c = req->conn;
    if (c->admitted || !c->peer || !c->server->o.config.refusals_per_minute)
        return true;
    refill_tokens(c->server, c->peer);
    if (c->peer->refusals < 1) {
        req->close = true;
        return false;
    }
    c->peer->refusals -= 1;
    return true;
}
