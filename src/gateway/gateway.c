/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's process: confines itself, then turns each datagram of the control plane into a
 * session. It reads nothing of the file system but the resolver's files; CONNECT lines and
 * heads of HTTP requests are the only text it parses. */
#include "gateway/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/client-socket.h"
#include "gateway/confine.h"
#include "gateway/gateway-proto.h"
#include "gateway/rule.h"
#include "gateway/session.h"

/* Sessions beyond the limit that are only told so. */
#define OVERLOAD_SLACK 64
/* Of a session: its client, its report, the server, and with TLS or an interceptor two more. */
#define SESSION_DESCRIPTORS 5
/* Descriptors beside those of sessions: the loop's, the resolver's, stderr. */
#define SPARE_DESCRIPTORS 128
#define HTTP_PORT         80
#define HTTPS_PORT        443

struct control {
    struct gateway gateway;
    struct epoll_watch watch;
    int sock;
    bool ended;
};

static bool label_ok(const char *label)
{
    size_t len = strnlen(label, GATEWAY_LABEL_SIZE);
    if (len == GATEWAY_LABEL_SIZE)
        return false;
    for (size_t i = 0; i < len; i++)
        if (label[i] <= ' ' || label[i] > '~' || label[i] == '"')
            return false;
    return true;
}

static int check_request(const struct gateway_request *req, size_t size)
{
    const size_t before = offsetof(struct gateway_request, hosts);
    if (size < before || req->version != GATEWAY_VERSION || req->flags & ~_GATEWAY_FLAGS_ALL)
        return -EPROTO;
    if (req->flags & GATEWAY_SOCKET && !(req->flags & GATEWAY_PROXY))
        return -EPROTO;
    if (!label_ok(req->label) || req->n_hosts > GATEWAY_HOSTS_MAX ||
        req->n_denied > GATEWAY_HOSTS_MAX || req->n_intercepted > GATEWAY_HOSTS_MAX ||
        req->hosts_len > GATEWAY_HOSTS_SIZE)
        return -EPROTO;
    if (size - before != (req->flags & GATEWAY_TEXT_FILE ? 0 : req->hosts_len))
        return -EPROTO;
    /* A list and "any" contradict each other, and no list without "any" allows nothing. */
    return (req->n_hosts == 0) == !!(req->flags & GATEWAY_ANY_HOST) ? 0 : -EPROTO;
}

/* What a sandbox has passed out is looked at closely; a socket pair is of the control plane. */
static bool is_client(int fd, uint32_t flags)
{
    if (flags & GATEWAY_SOCKET)
        return client_socket_check(fd) == 0;
    int type = 0;
    socklen_t size = sizeof(type);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Takes the last descriptor. Only a memory file that no process can change any more is read:
 * reading anything else could take any time. */
static int read_text(struct gateway_request *req, int *fds)
{
    size_t last = FD_PASS_MAX - 1;
    while (last > 0 && fds[last] < 0)
        last--;
    _cleanup_close_ int fd = last > 0 ? fd_steal(&fds[last]) : -1;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    const int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
    if (seals < 0 || (seals & wanted) != wanted || lseek(fd, 0, SEEK_END) != (off_t)req->hosts_len)
        return -EPROTO;
    return pread(fd, req->hosts, req->hosts_len, 0) == (ssize_t)req->hosts_len ? 0 : -EPROTO;
}

static void on_datagram(struct control *c, struct gateway_request *req, size_t size, int *fds)
{
    struct gateway *g = &c->gateway;
    struct session_rules rules = {.intercept_fd = -1};
    if (check_request(req, size) < 0 ||
        (req->flags & GATEWAY_TEXT_FILE && read_text(req, fds) < 0) ||
        !(rules.set = rule_sets_get(&g->rule_sets, req)) || !is_client(fds[0], req->flags))
        log_warn("gateway dropped a malformed request size=%zu", size);
    else {
        rules.intercept_fd = fd_steal(&fds[2]);
        session_start(g, req, &rules, fd_steal(&fds[0]), fd_steal(&fds[1]));
    }
    session_rules_done(&rules);
}

/* An empty datagram and the end of the socket read the same. */
static bool has_ended(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLRDHUP};
    return poll(&p, 1, 0) != 0;
}

static void on_control(struct epoll_watch *w, uint32_t ready)
{
    struct control *c = container_of(w, struct control, watch);
    struct gateway_request req;
    int fds[FD_PASS_MAX];
    (void)ready;
    ssize_t n = fd_recv_msg(c->sock, &req, sizeof(req), fds);
    if (n == -EAGAIN)
        return;
    if (n == -EMSGSIZE) {
        log_warn("gateway dropped a request that is too large");
        return;
    }
    if (n < 0 || (n == 0 && has_ended(c->sock))) {
        c->ended = true;
        return;
    }
    if (fds[0] >= 0)
        on_datagram(c, &req, (size_t)n, fds);
    client_socket_close(&fds[0]);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static int load_rules(struct rule_list *l, char *const *rules)
{
    for (; rules && *rules; rules++)
        if (rule_list_add(l, *rules) < 0) {
            log_error("gateway: '%s' is not a host, *.domain, address or network", *rules);
            return -EINVAL;
        }
    rule_list_index(l); /* the operator's lists are asked for every connection */
    return 0;
}

/* Only one host by its own name or address: below a domain, or in a network, others than the
 * operator could have a name or a place. Without a port it is where registries are spoken to. */
static void add_image_host(struct rule_list *l, const char *text, uint16_t port)
{
    if (rule_list_add(l, text) < 0)
        return;
    struct rule *rule = &l->rules[l->n - 1];
    if (rule->kind != RULE_NAME &&
        (rule->kind != RULE_NETWORK || rule->bits != address_bits(&rule->network))) {
        rule_done(rule);
        l->n--;
    } else if (!rule->port) {
        rule->port = port;
    }
}

static void load_image_hosts(struct rule_list *l, const struct gateway_options *o)
{
    char **lists[] = {o->image_registries, o->image_hosts};
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        for (char **text = lists[i]; text && *text; text++) {
            add_image_host(l, *text, HTTPS_PORT);
            add_image_host(l, *text, HTTP_PORT);
        }
    rule_list_index(l);
}

static int gateway_init(struct gateway *g, const struct gateway_options *o)
{
    *g = (struct gateway){0};
    list_init(&g->sessions);
    list_init(&g->lookups);
    rule_sets_init(&g->rule_sets);
    g->request_timeout_ms = or_default(o->config.request_timeout_ms, GATEWAY_REQUEST_TIMEOUT_MS);
    g->resolve_timeout_ms = or_default(o->config.resolve_timeout_ms, GATEWAY_RESOLVE_TIMEOUT_MS);
    g->connect_timeout_ms = or_default(o->config.connect_timeout_ms, GATEWAY_CONNECT_TIMEOUT_MS);
    g->idle_timeout_ms = or_default(o->config.idle_timeout_ms, GATEWAY_IDLE_TIMEOUT_MS);
    g->max_sessions = or_default(o->config.max_connections, GATEWAY_CONNECTIONS_MAX);
    g->max_sessions_per_label =
        or_default(o->config.max_connections_per_label, GATEWAY_CONNECTIONS_PER_MAX);
    if (load_rules(&g->private_hosts, o->config.allow_private) < 0 ||
        load_rules(&g->allow_hosts, o->config.allow_hosts) < 0 ||
        load_rules(&g->deny_hosts, o->config.deny_hosts) < 0)
        return -EINVAL;
    load_image_hosts(&g->image_hosts, o);
    return session_loop_open(g);
}

/* Names are looked up as they are given, never with a search domain behind them, and by few short
 * tries. Read by libc at the first lookup. What the loop asks by itself (resolv-file.c) relies on
 * it: both ways have to ask for the same name. */
static void set_resolver(void)
{
    setenv("LOCALDOMAIN", ".", 1);
    setenv("RES_OPTIONS", "timeout:2 attempts:2", 1);
}

static void raise_descriptors(const struct gateway *g)
{
    rlim_t want =
        SESSION_DESCRIPTORS * ((rlim_t)g->max_sessions + OVERLOAD_SLACK) + SPARE_DESCRIPTORS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(struct control *c)
{
    struct epoll_loop *loop = &c->gateway.loop;
    epoll_watch_init(&c->watch, c->sock, on_control);
    int r = epoll_watch_set(loop, &c->watch, EPOLLIN);
    while (r >= 0 && !c->ended)
        r = epoll_loop_once(loop, -1);
    session_end_all(&c->gateway);
    return r;
}

int gateway_main(int sock, const struct gateway_options *options)
{
    /* A thread of the resolver may still wait for a name when this returns, and then looks at it.
     */
    static struct control control;
    struct control *c = &control;
    int fd = confine_descriptors(sock);
    int r = fd < 0 ? fd : confine_identity(options->uid, options->gid);
    if (r < 0) {
        log_error("gateway cannot give up its privileges: %s", strerror(-r));
        return 1;
    }
    confine_signals();
    confine_files();
    set_resolver();
    c->sock = fd;
    r = gateway_init(&c->gateway, options);
    if (r < 0 || (r = fd_set_nonblock(fd, true)) < 0)
        return 1;
    raise_descriptors(&c->gateway);
    log_info("gateway ready uid=%u", (unsigned)getuid());
    r = serve(c);
    rule_sets_done(&c->gateway.rule_sets);
    hosts_file_done(&c->gateway.hosts);
    rule_list_done(&c->gateway.private_hosts);
    rule_list_done(&c->gateway.allow_hosts);
    rule_list_done(&c->gateway.deny_hosts);
    rule_list_done(&c->gateway.image_hosts);
    return r < 0;
}
