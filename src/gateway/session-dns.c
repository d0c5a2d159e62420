/* SPDX-License-Identifier: Apache-2.0 */
/* A name is asked of the host's first name server by the loop itself: two datagrams there, two
 * back.
 *
 * That is what libc's resolver does for most names, but it waits meanwhile and so needs a thread,
 * with two pipes and as many wake-ups, and it looks at all links and routes of the host for every
 * name. What is not as simple is its business all the same: hosts whose files say anything else
 * than "the hosts file, then name servers", answers that are too long for a datagram or say that
 * the server failed, and a server that is silent, which is left alone for a while.
 *
 * Each lookup has a socket of its own, whose port the kernel chooses, and two numbers by chance, so
 * that what comes from elsewhere does not fit. Nothing is kept of an answer: the next connection
 * asks again, so that no name is believed for longer than it is so. */
#include "gateway/session-internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/dns.h"

#define DNS_PORT      53
#define ANSWER_MS     1000  /* a server that has not answered by then is left to libc's resolver, */
#define SILENT_FOR_MS 30000 /* and so are the names of so much time */
#define DATAGRAMS_MAX 16    /* that are read of one lookup, with what does not belong to it */

static const enum dns_type types[_LOOKUP_KINDS] = {[LOOKUP_IPV4] = DNS_A, [LOOKUP_IPV6] = DNS_AAAA};

struct dns_exchange {
    struct lookup *lookup;
    struct epoll_watch server;
    struct epoll_timer timer;
    unsigned datagrams;
    bool unclear; /* an answer was */
    bool unknown; /* an answer was that there is no such name */
    struct {
        uint16_t id;
        bool answered;
        struct address found[FOUND_MAX];
        size_t n;
    } kinds[_LOOKUP_KINDS];
};

static void exchange_free(struct dns_exchange *x)
{
    epoll_timer_clear(&x->timer);
    epoll_watch_close(&x->lookup->gateway->loop, &x->server);
    x->lookup->exchange = NULL;
    free(x);
}

/* As libc's resolver finds out: a socket for datagrams is connected only where there is a way. */
static bool has_way_to(const struct address *a)
{
    struct sockaddr_storage sa;
    socklen_t size = address_to_sockaddr(a, DNS_PORT, &sa);
    _cleanup_close_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&sa, size) == 0;
}

static void take_kind(struct lookup *l, const struct dns_exchange *x, size_t kind)
{
    memcpy(l->found + l->n_found, x->kinds[kind].found, x->kinds[kind].n * sizeof(l->found[0]));
    l->n_found += x->kinds[kind].n;
}

static void exchange_end(struct dns_exchange *x)
{
    struct lookup *l = x->lookup;
    bool six_first = x->kinds[LOOKUP_IPV6].n && has_way_to(&x->kinds[LOOKUP_IPV6].found[0]);
    take_kind(l, x, six_first ? LOOKUP_IPV6 : LOOKUP_IPV4);
    take_kind(l, x, six_first ? LOOKUP_IPV4 : LOOKUP_IPV6);
    l->error = x->unknown && !l->n_found ? EAI_NONAME : 0;
    exchange_free(x);
    lookup_end(l);
}

static void exchange_give_up(struct dns_exchange *x)
{
    struct lookup *l = x->lookup;
    exchange_free(x);
    if (l->session && lookup_send(l) == 0)
        return;
    l->error = EAI_AGAIN;
    lookup_end(l);
}

static void exchange_give_up_silent(struct dns_exchange *x)
{
    x->lookup->gateway->resolver.not_before_ms = clock_mono_ms() + SILENT_FOR_MS;
    exchange_give_up(x);
}

static void on_silence(struct epoll_timer *t)
{
    exchange_give_up_silent(container_of(t, struct dns_exchange, timer));
}

static void take_answer(struct dns_exchange *x, const uint8_t *data, size_t size)
{
    enum dns_answer answer = DNS_STRANGE;
    for (size_t i = 0; i < _LOOKUP_KINDS && answer == DNS_STRANGE; i++) {
        if (x->kinds[i].answered)
            continue;
        answer = dns_answer_parse(data, size, x->lookup->host, types[i], x->kinds[i].id,
                                  x->kinds[i].found, FOUND_MAX, &x->kinds[i].n);
        x->kinds[i].answered = answer != DNS_STRANGE;
    }
    x->unclear = x->unclear || answer == DNS_UNCLEAR;
    x->unknown = x->unknown || answer == DNS_NO_NAME;
}

/* Both answers are waited for, whatever the first is: the host would say to the server that the
 * second has come to a closed port. */
static void on_server(struct epoll_watch *w, uint32_t ready)
{
    struct dns_exchange *x = container_of(w, struct dns_exchange, server);
    uint8_t data[DNS_ANSWER_MAX];
    (void)ready;
    while (!x->kinds[LOOKUP_IPV4].answered || !x->kinds[LOOKUP_IPV6].answered) {
        ssize_t n = recv(w->fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 || ++x->datagrams > DATAGRAMS_MAX) {
            exchange_give_up_silent(x);
            return;
        }
        take_answer(x, data, (size_t)n);
    }
    if (x->unclear)
        exchange_give_up(x);
    else
        exchange_end(x);
}

static int open_socket(const struct address *server, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t size = address_to_sockaddr(server, port ? port : DNS_PORT, &sa);
    _cleanup_close_ int fd = socket(server->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, size) < 0)
        return -errno;
    return fd_steal(&fd);
}

static bool send_questions(struct dns_exchange *x)
{
    uint16_t ids[_LOOKUP_KINDS];
    if (getrandom(ids, sizeof(ids), 0) != sizeof(ids))
        return false;
    for (size_t i = 0; i < _LOOKUP_KINDS; i++) {
        uint8_t question[DNS_QUESTION_MAX];
        size_t len = dns_question_format(x->lookup->host, types[i], ids[i], question);
        x->kinds[i].id = ids[i];
        if (!len || send(x->server.fd, question, len, MSG_NOSIGNAL) != (ssize_t)len)
            return false;
    }
    return true;
}

bool lookup_ask_server(struct lookup *l)
{
    struct gateway *g = l->gateway;
    struct address server;
    if (!hosts_file_leaves_to_servers(&g->hosts, l->host) ||
        !resolv_file_find(&g->resolver.file, &server) ||
        clock_mono_ms() < g->resolver.not_before_ms)
        return false;
    int fd = open_socket(&server, g->resolver.file.port);
    if (fd < 0)
        return false;
    struct dns_exchange *x = new0(struct dns_exchange);
    x->lookup = l;
    l->exchange = x;
    epoll_watch_init(&x->server, fd, on_server);
    epoll_timer_init(&x->timer, on_silence);
    if (!send_questions(x) || epoll_watch_set(&g->loop, &x->server, EPOLLIN) < 0) {
        exchange_free(x);
        return false;
    }
    epoll_timer_set_us(&g->loop, &x->timer, ANSWER_MS * 1000ULL);
    return true;
}
