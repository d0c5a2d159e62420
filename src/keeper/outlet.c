/* SPDX-License-Identifier: Apache-2.0 */
/* See outlet.h. */
#include "keeper/outlet.h"

#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "base/target.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "gateway/gateway-client.h"
#include "gateway/gateway-proto.h"
#include "gateway/relay.h"
#include "keeper/keeper.h"

#define DOORS_MAX   32 /* the proxy and registries on loopback */
#define WAYS_MAX    64
#define BACKLOG     64
#define LABEL       "images"
#define HOSTS_TOTAL (GATEWAY_HOSTS_MAX + 1)

/* Where connections come in. */
struct door {
    int fd;
    struct target target; /* where they go; of the proxy, nowhere: it is asked */
};

/* One connection. The gateway ends it when its report is closed. */
struct way {
    int report;         /* -1 if the place is free */
    int client, stream; /* of a registry on loopback; -1: the gateway has the client itself */
    struct relay up, down;
    bool answered; /* the gateway has said OK */
    bool ended;    /* and that there is no more to say */
};

struct outlet {
    int gateway_sock;
    char *hosts[HOSTS_TOTAL];
    size_t n_hosts;
    struct door doors[DOORS_MAX];
    size_t n_doors;
    struct way ways[WAYS_MAX];
};

/* --- rules */

static void add_host(struct outlet *o, const char *text)
{
    if (o->n_hosts < HOSTS_TOTAL - 1)
        o->hosts[o->n_hosts++] = xstrdup(text);
}

static int fill_hosts(struct outlet *o, const struct keeper_config *c, struct error *err)
{
    for (char **r = c->registries; r && *r; r++)
        add_host(o, *r);
    for (char **h = c->hosts; h && *h; h++)
        add_host(o, *h);
    if (!o->n_hosts)
        add_host(o, GATEWAY_HOST_NONE);
    return gateway_rules_check(&(struct gateway_rules){.hosts = o->hosts, .proxy = true}, err);
}

/* --- doors */

static int door_open(struct outlet *o, const struct address *at, uint16_t port)
{
    struct sockaddr_storage sa;
    int on = 1;
    if (o->n_doors == DOORS_MAX)
        return -ENOSPC;
    socklen_t size = address_to_sockaddr(at, port, &sa);
    _cleanup_close_ int fd = socket(at->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&sa, size) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    o->doors[o->n_doors++] = (struct door){.fd = fd_steal(&fd)};
    return 0;
}

static const struct address loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static bool is_open(const struct outlet *o, const struct target *t)
{
    for (size_t i = 0; i < o->n_doors; i++)
        if (o->doors[i].target.port == t->port && strcmp(o->doors[i].target.host, t->host) == 0)
            return true;
    return false;
}

/* "localhost:5000", "127.0.0.1:5000", "[::1]:5000", or one of them without a port, which is then
 * asked at those of https and http; others are asked of the proxy. */
static void open_registry(struct outlet *o, const char *registry)
{
    static const uint16_t usual[] = {443, 80};
    _cleanup_free_ char *host = xstrdup(registry);
    struct target t;
    uint16_t port = 0;
    if (target_cut_port(host, &port) < 0 || target_parse_host(host, strlen(host), &t) < 0)
        return;
    bool named = !t.is_address && strcmp(t.host, "localhost") == 0;
    if (!named && !(t.is_address && address_classify(&t.address) == ADDRESS_LOOPBACK))
        return;
    for (size_t i = 0; i < (port ? 1 : ELEMENTS(usual)); i++) {
        t.port = port ? port : usual[i];
        if (is_open(o, &t))
            continue;
        int r = o->n_doors == DOORS_MAX - 1 /* the proxy's */
                    ? -ENOSPC
                    : door_open(o, named ? &loopback : &t.address, t.port);
        if (r < 0)
            log_warn("registry %s cannot be reached: %s", registry, strerror(-r));
        else
            o->doors[o->n_doors - 1].target = t;
    }
}

static int open_doors(struct outlet *o, const struct keeper_config *c, uint16_t *ret_port)
{
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    char **lists[] = {c->registries, c->insecure_registries};
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        for (char **r = lists[i]; r && *r; r++)
            open_registry(o, *r);
    int r = door_open(o, &loopback, 0);
    if (r < 0 || getsockname(o->doors[o->n_doors - 1].fd, (struct sockaddr *)&own, &size) < 0)
        return r < 0 ? r : -errno;
    *ret_port = ntohs(own.sin_port);
    return 0;
}

/* --- ways */

static void way_close(struct way *w)
{
    fd_close(&w->report);
    fd_close(&w->client);
    fd_close(&w->stream);
    relay_done(&w->up);
    relay_done(&w->down);
}

static struct way *find_free(struct outlet *o)
{
    for (size_t i = 0; i < WAYS_MAX; i++)
        if (o->ways[i].report < 0)
            return &o->ways[i];
    return NULL;
}

static int ask_gateway(const struct outlet *o, struct way *w, int stream, bool proxy)
{
    struct error err = {0};
    struct gateway_rules rules = {.hosts = o->hosts,
                                  .intercept_fd = -1,
                                  .proxy = proxy,
                                  .socket = proxy,
                                  .images = true,
                                  .label = LABEL};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    w->report = pair[0];
    int r = gateway_open(o->gateway_sock, &rules, stream, pair[1], &err);
    close(pair[1]);
    if (r < 0)
        log_warn("images have no way out: %s", err.message);
    return r;
}

/* A registry on loopback: the outlet says where to, and carries what follows. */
static int way_carry(const struct outlet *o, struct way *w, const struct door *d, int *client)
{
    char line[GATEWAY_LINE_MAX], host[TARGET_TEXT_SIZE];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    target_format_host(&d->target, host);
    w->stream = pair[0];
    w->client = fd_steal(client);
    int r = ask_gateway(o, w, pair[1], false);
    close(pair[1]);
    int n = snprintf(line, sizeof(line), "CONNECT %s %u\n", host, d->target.port);
    relay_put(&w->up, line, (size_t)n);
    return r;
}

static void door_serve(struct outlet *o, const struct door *d)
{
    _cleanup_close_ int client = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct way *w = client < 0 ? NULL : find_free(o);
    if (!w)
        return;
    *w = (struct way){.report = -1, .client = -1, .stream = -1};
    relay_init(&w->up);
    relay_init(&w->down);
    int r = d->target.port ? way_carry(o, w, d, &client) : ask_gateway(o, w, client, true);
    if (r < 0)
        way_close(w);
}

/* Nothing of the gateway's own words goes to the client. False: it has refused. */
static bool take_answer(struct way *w)
{
    relay_fill(&w->down, w->stream);
    const char *line = w->down.data ? w->down.data + w->down.start : "";
    const char *end = memchr(line, '\n', w->down.len);
    if (!end)
        return !w->down.eof && w->down.len < GATEWAY_LINE_MAX;
    if (w->down.len < 3 || memcmp(line, "OK ", 3) != 0)
        return false;
    size_t n = (size_t)(end - line) + 1;
    w->down.start += n;
    w->down.len -= n;
    w->answered = true;
    return true;
}

static void way_serve(struct way *w)
{
    char ignored[GATEWAY_LINE_MAX];
    ssize_t n = recv(w->report, ignored, sizeof(ignored), MSG_DONTWAIT);
    w->ended = w->ended || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (w->client < 0) {
        if (w->ended)
            way_close(w);
        return;
    }
    relay_pump(&w->up, w->client, w->stream);
    if (!w->answered && !take_answer(w))
        return way_close(w);
    if (w->answered)
        relay_pump(&w->down, w->stream, w->client);
    if ((relay_finished(&w->up) && relay_finished(&w->down)) || w->up.cut || w->down.cut)
        way_close(w);
}

/* --- the loop */

static struct pollfd poll_for(int fd, bool in, bool out)
{
    short events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));
    return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

static size_t fill_way_polls(const struct way *w, struct pollfd *p)
{
    p[0] = (struct pollfd){.fd = w->ended ? -1 : w->report, .events = POLLIN};
    if (w->report < 0 || w->client < 0)
        return 1;
    p[1] =
        poll_for(w->client, relay_wants_read(&w->up), w->answered && relay_wants_write(&w->down));
    p[2] =
        poll_for(w->stream, !w->answered || relay_wants_read(&w->down), relay_wants_write(&w->up));
    return 3;
}

static void outlet_turn(struct outlet *o)
{
    struct pollfd polls[DOORS_MAX + 3 * WAYS_MAX];
    size_t n = 0, first[WAYS_MAX], count[WAYS_MAX];
    for (size_t i = 0; i < o->n_doors; i++)
        polls[n++] = (struct pollfd){.fd = o->doors[i].fd, .events = POLLIN};
    for (size_t i = 0; i < WAYS_MAX; i++) {
        first[i] = n;
        n += count[i] = fill_way_polls(&o->ways[i], &polls[n]);
    }
    if (poll(polls, n, -1) < 0)
        return;
    for (size_t i = 0; i < WAYS_MAX; i++) {
        bool ready = false;
        for (size_t k = 0; k < count[i]; k++)
            ready = ready || (polls[first[i] + k].fd >= 0 && polls[first[i] + k].revents);
        if (ready && o->ways[i].report >= 0)
            way_serve(&o->ways[i]);
    }
    for (size_t i = 0; i < o->n_doors; i++)
        if (polls[i].revents)
            door_serve(o, &o->doors[i]);
}

static void outlet_main(struct outlet *o) __attribute__((noreturn));

/* It needs no right of the keeper's, and no file. */
static int give_up_rights(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &header, none) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "capset");
    return filter_enter(&filter_outlet, err);
}

static void outlet_main(struct outlet *o)
{
    struct error err = {0};
    prctl(PR_SET_NAME, "mas-image-way", 0, 0, 0);
    if (give_up_rights(&err) < 0) {
        log_error("the way out for images cannot give up its rights: %s", err.message);
        _exit(1);
    }
    for (;;)
        outlet_turn(o);
}

pid_t outlet_start(const struct keeper_options *options, uint16_t *ret_port, struct error *err)
{
    static struct outlet o;
    int keep[DOORS_MAX + 1];
    o = (struct outlet){.gateway_sock = options->gateway_sock};
    for (size_t i = 0; i < WAYS_MAX; i++)
        o.ways[i].report = o.ways[i].client = o.ways[i].stream = -1;
    int r = fill_hosts(&o, &options->config, err);
    if (r < 0)
        return r;
    r = open_doors(&o, &options->config, ret_port);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "listen for what fetches images");
    keep[0] = o.gateway_sock;
    for (size_t i = 0; i < o.n_doors; i++)
        keep[i + 1] = o.doors[i].fd;
    pid_t pid = helper_fork(keep, o.n_doors + 1);
    if (pid == 0)
        outlet_main(&o);
    for (size_t i = 0; i < o.n_doors; i++)
        fd_close(&o.doors[i].fd);
    for (size_t i = 0; i < o.n_hosts; i++)
        free(o.hosts[i]);
    return pid < 0 ? error_set(err, ERROR_INTERNAL, -pid, "fork") : pid;
}
