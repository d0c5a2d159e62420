/* SPDX-License-Identifier: Apache-2.0 */
/* What the gateway says about the connections of a sandbox (gateway/gateway-proto.h), and the hand
 * by which they are held: a connection ends when its report is closed, so none outlives its sandbox
 * or this process, even where another process has a copy of the connection's descriptor. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/target.h"
#include "event/event.h"
#include "gateway/gateway-client.h"
#include "gateway/gateway-proto.h"
#include "sandbox/internal.h"

#define REPORTS_MAX 64 /* connections of one sandbox; the gateway's own limit is below it */

struct gateway_report {
    struct sandbox *sandbox;
    uint32_t stream;
    char exec[EXEC_ID_SIZE];   /* whose it is, which may have ended by now; "": not known */
    char call[EXEC_CALL_SIZE]; /* and what the gate calls it */
    struct list node;
    int fd;
    uv_poll_t poll;
    char line[GATEWAY_LINE_MAX];
    size_t len;
    char asked[GATEWAY_LINE_MAX]; /* the first line */
    char told[GATEWAY_LINE_MAX];  /* the newest decision; "" while there is none */
    char rule[GATEWAY_RULE_SIZE]; /* which decided; "": none */
    bool recorded;                /* its decision is, and so its end will be */
    bool whole;                   /* both sides of it have ended, each by itself */
};

/* The connections that were only counted. Those of a minute are reported with the first of a
 * later one, or when the sandbox's connections end. */
static void record_cut(struct sandbox *sb)
{
    const struct manager_options *o = &sb->manager->options;
    if (o->on_connections_cut && (sb->n_cut_connected || sb->n_cut_refused))
        o->on_connections_cut(o->on_record_data, sb, sb->n_cut_connected, sb->n_cut_refused);
    if (sb->n_cut_connected || sb->n_cut_refused)
        sandbox_announce_cut(sb);
    sb->n_cut_connected = sb->n_cut_refused = 0;
}

/* What one rule has decided in this minute. */
struct record_share {
    struct list node;
    uint32_t n;
    char rule[GATEWAY_RULE_SIZE];
};

#define RECORD_SHARES_MAX 256 /* rules that come and go within a minute share the last */

static void record_shares_free(struct sandbox *sb)
{
    list_for_each_safe(share, &sb->record_shares, struct record_share, node) {
        list_remove(&share->node);
        free(share);
    }
}

static struct record_share *find_record_share(struct sandbox *sb, const char *rule)
{
    struct record_share *last = NULL;
    size_t n = 0;
    list_for_each(share, &sb->record_shares, struct record_share, node) {
        if (strcmp(share->rule, rule) == 0)
            return share;
        last = share;
        n++;
    }
    if (n == RECORD_SHARES_MAX)
        return last;
    struct record_share *share = new0(struct record_share);
    snprintf(share->rule, sizeof(share->rule), "%s", rule);
    list_append(&sb->record_shares, &share->node);
    return share;
}

/* A loop of connects must neither fill the audit nor hide in it what other rules decide: true while
 * the minute has room for one more record of this rule. */
static bool has_record_room(struct sandbox *sb, const char *rule, const char *told)
{
    int64_t now = clock_mono_ms();
    if (!sb->records_from_ms || now - sb->records_from_ms >= 60000) {
        record_cut(sb);
        sb->records_from_ms = now;
        record_shares_free(sb);
    }
    if (find_record_share(sb, rule)->n++ < sb->manager->options.config.network_records_per_minute)
        return true;
    if (strncmp(told, "OK ", 3) == 0)
        sb->n_cut_connected++;
    else
        sb->n_cut_refused++;
    return false;
}

/* Of a connection that begins, through the proxy that all commands share: the one command that
 * runs. With several it is not known whose it is, and one with a proxy of its own does not come
 * this way. */
static const struct exec *find_exec(const struct sandbox *sb)
{
    const struct exec *e =
        sb->n_running == 1 ? container_of(sb->running.next, struct exec, phase_node) : NULL;
    return e && !e->hosts ? e : NULL;
}

static const char *call_of(const struct gateway_report *r)
{
    const struct sandbox *sb = r->sandbox;
    if (*r->exec)
        return r->call;
    return list_empty(&sb->running) ? ""
                                    : container_of(sb->running.next, struct exec, phase_node)->call;
}

static void record_decision(struct gateway_report *r, const char *told)
{
    struct sandbox *sb = r->sandbox;
    const struct manager_options *o = &sb->manager->options;
    bool good = strncmp(told, "OK ", 3) == 0;
    if (good)
        sb->manager->counts.connections_total++;
    else
        sb->manager->counts.connections_refused_total++;
    if (sb->spec.network && !has_record_room(sb, r->rule, told))
        return;
    r->recorded = true;
    if (o->on_connection)
        o->on_connection(o->on_record_data, sb, call_of(r), r->asked, told, r->rule);
    struct connection_facts facts = {
        .asked = r->asked, .told = told, .rule = r->rule, .exec = *r->exec ? r->exec : NULL};
    sandbox_announce_connection(sb, good ? EVENT_NETWORK_ALLOWED : EVENT_NETWORK_DENIED, &facts);
}

/* "END sent received milliseconds reason" */
static void record_end(struct gateway_report *r)
{
    struct manager_counts *counts = &r->sandbox->manager->counts;
    unsigned long long sent = 0, received = 0;
    long long ms = 0;
    char why[16] = "";
    if (sscanf(r->line, "END %llu %llu %lld %15s", &sent, &received, &ms, why) < 3)
        return;
    r->whole = strcmp(why, "done") == 0;
    counts->connection_bytes_total += sent + received;
    struct connection_facts facts = {.asked = r->asked,
                                     .told = "",
                                     .rule = r->rule,
                                     .exec = *r->exec ? r->exec : NULL,
                                     .ended = true,
                                     .sent = sent,
                                     .received = received,
                                     .duration_ms = ms};
    if (r->recorded)
        sandbox_announce_connection(r->sandbox, EVENT_NETWORK_CLOSED, &facts);
}

/* A connection that was allowed can be cut later, because of what it turned out to be: that is a
 * decision of its own. */
static void on_line(struct gateway_report *r)
{
    r->line[r->len] = 0;
    r->len = 0;
    if (!*r->asked) {
        strcpy(r->asked, r->line);
    } else if (strncmp(r->line, "RULE ", 5) == 0) {
        snprintf(r->rule, sizeof(r->rule), "%s", r->line + 5);
    } else if (strncmp(r->line, "END ", 4) == 0) {
        record_end(r);
    } else {
        strcpy(r->told, r->line);
        record_decision(r, r->line);
        static const char asks[] = "ERR approval_needed ";
        struct target t;
        if (strncmp(r->told, asks, strlen(asks)) == 0 &&
            gateway_parse_connect(r->asked, strlen(r->asked), &t) == 0)
            sandbox_ask_network(r->sandbox, &t, r->rule);
    }
}

/* Bytes, 0 at the end, or -errno. */
static ssize_t read_report(struct gateway_report *r)
{
    char buffer[2 * GATEWAY_LINE_MAX];
    ssize_t n = recv(r->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    for (ssize_t i = 0; i < n; i++) {
        if (buffer[i] == '\n')
            on_line(r);
        else if (r->len < sizeof(r->line) - 1)
            r->line[r->len++] = buffer[i] ? buffer[i] : ' ';
    }
    return n < 0 ? -errno : n;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct gateway_report *r = h->data;
    fd_close(&r->fd);
    free(r);
}

/* Also of a gateway that died without another word. What it refused has its answer, and ends as any
 * answer. */
static void report_tell_cut(const struct gateway_report *r)
{
    if (strncmp(r->told, "OK ", 3) == 0 && !r->whole)
        gateway_stream_cut(r->sandbox, r->stream);
}

static struct gateway_report *report_find(struct sandbox *sb, uint32_t stream)
{
    list_for_each(r, &sb->gateway_reports, struct gateway_report, node) {
        if (r->stream == stream)
            return r;
    }
    return NULL;
}

void gateway_report_reset(struct sandbox *sb, uint32_t stream)
{
    const struct gateway_report *r = report_find(sb, stream);
    if (r)
        (void)!send(r->fd, GATEWAY_CLIENT_RESET, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void gateway_report_settle(struct sandbox *sb, uint32_t stream)
{
    struct gateway_report *r;
    /* What a line leads to may end the report, which then has told. */
    while ((r = report_find(sb, stream)) && read_report(r) > 0)
        continue;
    if (r)
        report_tell_cut(r);
}

/* What a line leads to can change the rules, and with them end reports, this one too. */
static void report_end(struct gateway_report *r)
{
    if (uv_is_closing((uv_handle_t *)&r->poll))
        return;
    report_tell_cut(r);
    list_remove(&r->node);
    r->sandbox->n_gateway_reports--;
    uv_close((uv_handle_t *)&r->poll, on_handle_closed);
}

static void on_report(uv_poll_t *poll, int status, int events)
{
    struct gateway_report *r = poll->data;
    (void)status;
    (void)events;
    ssize_t n = read_report(r);
    if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
        report_end(r);
}

static void report_start(struct sandbox *sb, uint32_t stream, const struct exec *of, int fd)
{
    struct gateway_report *r = new0(struct gateway_report);
    of = of ? of : find_exec(sb);
    r->sandbox = sb;
    r->stream = stream;
    if (of) {
        memcpy(r->exec, of->id, sizeof(r->exec));
        memcpy(r->call, of->call, sizeof(r->call));
    }
    r->fd = fd;
    r->poll.data = r;
    list_append(&sb->gateway_reports, &r->node);
    sb->n_gateway_reports++;
    uv_poll_init(sb->manager->options.loop, &r->poll, fd);
    r->poll.data = r;
    uv_poll_start(&r->poll, UV_READABLE, on_report);
}

/* A flood of connections is no flood of lines. */
static void warn_of_refusal(const struct sandbox *sb, const char *why)
{
    static int64_t last_ms;
    int64_t now = clock_mono_ms();
    if (last_ms && now - last_ms < 1000)
        return;
    last_ms = now;
    log_warn("gateway refused a stream id=%s: %s", sb->id, why);
}

void gateway_packet_drop(struct sandbox *sb)
{
    gateway_packet_free(steal_ptr(sb->packet));
    strv_free(steal_ptr(sb->packet_denied));
}

static bool are_equal(char *const *a, char *const *b)
{
    size_t n = strv_length(a);
    bool equal = n == strv_length(b);
    for (size_t i = 0; equal && i < n; i++)
        equal = strcmp(a[i], b[i]) == 0;
    return equal;
}

/* Fewer rules than there are would allow more than they do, so nothing is allowed. A policy that
 * was read again can come to this: other ways to so many rules are refused before. */
static struct gateway_packet *make_closed_packet(const struct sandbox *sb,
                                                 const struct gateway_rules *rules,
                                                 struct error *err)
{
    char *const none[] = {(char *)GATEWAY_HOST_NONE, NULL};
    struct gateway_rules closed = *rules;
    closed.hosts = none;
    closed.denied = closed.intercepted = NULL;
    warn_of_refusal(sb, err->message);
    *err = (struct error){0};
    return gateway_packet_new(&closed, err);
}

static struct gateway_packet *make_packet(struct sandbox *sb, const struct exec *of,
                                          struct gateway_rules *rules, struct error *err)
{
    _cleanup_strv_ char **allowed = exec_allowed_hosts(sb, of), **denied = sandbox_denied_hosts(sb);
    rules->hosts = allowed;
    rules->denied = denied;
    struct gateway_packet *p = gateway_packet_new(rules, err);
    if (!p && err->code == ERROR_INVALID)
        p = make_closed_packet(sb, rules, err);
    rules->hosts = rules->denied = NULL;
    return p;
}

/* The sandbox's rules stay the same from connection to connection, unless one of them ends by
 * itself, and are kept as they are sent. What the policy denies is asked for each time. */
static int send_rules(struct sandbox *sb, const struct exec *of, struct gateway_rules *rules,
                      int client_fd, int report_fd, struct error *err)
{
    const struct manager_options *o = &sb->manager->options;
    bool own = (of && of->hosts) || !list_empty(&sb->expiring_node);
    _cleanup_strv_ char **more =
        own ? NULL : network_policy_denied(sb->manager, sb->owner, &sb->spec);
    if (!own && sb->packet && !are_equal(more, sb->packet_denied))
        gateway_packet_drop(sb);
    struct gateway_packet *p = own || !sb->packet ? make_packet(sb, of, rules, err) : sb->packet;
    int r = p ? gateway_packet_send(p, o->gateway_sock, rules, client_fd, report_fd, err) : -EINVAL;
    if (own) {
        gateway_packet_free(p);
    } else if (!sb->packet && p) {
        sb->packet = p;
        sb->packet_denied = steal_ptr(more);
    }
    return r;
}

int gateway_report_open(struct sandbox *sb, uint32_t stream, const struct exec *of, int client_fd,
                        bool socket)
{
    int pair[2];
    struct error err = {0};
    if (sb->n_gateway_reports >= REPORTS_MAX)
        return -EMFILE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    struct gateway_rules rules = {.proxy = sb->spec.network,
                                  .intercepted = sb->spec.intercept_hosts,
                                  .intercept_fd = interceptor_fd(sb),
                                  .socket = socket,
                                  .label = sb->id,
                                  .owner = sb->owner,
                                  .tag = stream};
    int r = send_rules(sb, of, &rules, client_fd, pair[1], &err);
    fd_close(&pair[1]);
    if (r < 0) {
        warn_of_refusal(sb, err.message);
        fd_close(&pair[0]);
        return r;
    }
    report_start(sb, stream, of, pair[0]);
    return 0;
}

/* The gateway reports before it answers: what ended together with the sandbox is still recorded. A
 * report has no reference to its sandbox, so every way in which a sandbox ends comes through here
 * before its memory can go. */
void gateway_reports_free(struct sandbox *sb)
{
    while (!list_empty(&sb->gateway_reports)) {
        struct gateway_report *r =
            container_of(sb->gateway_reports.next, struct gateway_report, node);
        read_report(r);
        report_end(r);
    }
    record_cut(sb);
    record_shares_free(sb);
    gateway_packet_drop(sb);
}

/* What is still to be decided has the rules of before, and is ended rather than decided by them. A
 * refusal is only being read by its client. */
static bool may_go_on(const struct gateway_report *r)
{
    char ip[ADDRESS_TEXT_SIZE] = "";
    struct target t;
    struct address a;
    if (strncmp(r->told, "ERR ", 4) == 0)
        return true;
    if (sscanf(r->told, "OK %45s", ip) != 1 || address_parse(ip, &a) < 0 ||
        gateway_parse_connect(r->asked, strlen(r->asked), &t) < 0)
        return false;
    return sandbox_still_allows(r->sandbox, &t, &a);
}

void gateway_reports_check(struct sandbox *sb)
{
    list_for_each_safe(r, &sb->gateway_reports, struct gateway_report, node) {
        if (may_go_on(r))
            continue;
        log_info("gateway connection revoked id=%s %s", sb->id, r->asked);
        report_end(r);
    }
}
