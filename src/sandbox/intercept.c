/* SPDX-License-Identifier: Apache-2.0 */
/* The interceptor of a sandbox, as the control plane has it: a socket that connections can be
 * handed to, which the warden gives out. It is asked for before the sandbox is made, again by the
 * next control plane, when a secret changes, and when the process at its other end dies. While
 * there is none, connections to the hosts of its secrets are refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "gateway/gateway-client.h"
#include "gateway/rule.h"
#include "proto/intercept.h"
#include "runtime/warden-client.h"
#include "sandbox/internal.h"

#define HTTPS_PORT    443
#define AGAIN_MS      100  /* after it died */
#define AGAIN_SLOW_MS 5000 /* when it has died often */
#define DEATHS_QUICK  5

struct interceptor_link {
    struct sandbox *sandbox; /* NULL: it is gone, and the answer under way is to be dropped */
    int fd;                  /* -1: there is no interceptor now */
    uv_poll_t *poll;         /* on fd, for its end; freed by its close callback */
    struct loop_timer again;
    bool asked;     /* PLAN_INTERCEPT is under way */
    bool stale;     /* and asks for what has changed since */
    bool emptied;   /* it asks for one without secrets, because one of them is gone */
    bool launching; /* the sandbox is made when it is there, and its runtime's reference waits */
    bool closed;    /* the timer is; what is left is freed with the last answer */
    unsigned deaths;
    struct error failure; /* of launching, before anything was asked */
};

static void on_poll_closed(uv_handle_t *h)
{
    free(h);
}

static void link_drop(struct interceptor_link *l)
{
    if (l->poll)
        uv_close((uv_handle_t *)steal_ptr(l->poll), on_poll_closed);
    fd_close(&l->fd);
}

int interceptor_fd(const struct sandbox *sb)
{
    return sb->interceptor ? sb->interceptor->fd : -1;
}

/* --- its end */

static void interceptor_ask(struct sandbox *sb);

static void on_again(void *data)
{
    struct interceptor_link *l = data;
    if (!l->launching || !error_is_set(&l->failure)) {
        interceptor_ask(l->sandbox);
        return;
    }
    l->launching = false;
    sandbox_start_intercepted(l->sandbox, &l->failure);
}

static void ask_later(struct interceptor_link *l)
{
    loop_timer_start(&l->again, l->deaths++ < DEATHS_QUICK ? AGAIN_MS : AGAIN_SLOW_MS);
}

static void on_disconnect(uv_poll_t *poll, int status, int events)
{
    struct interceptor_link *l = poll->data;
    (void)status;
    (void)events;
    log_warn("interceptor is gone id=%s", l->sandbox->id);
    link_drop(l);
    ask_later(l);
}

/* Takes fd, also where it fails. */
static int link_watch(struct interceptor_link *l, int fd)
{
    uv_poll_t *poll = new0(uv_poll_t);
    int r = uv_poll_init(l->sandbox->manager->options.loop, poll, fd);
    if (r < 0) {
        free(poll);
        fd_close(&fd);
        return r;
    }
    link_drop(l);
    l->fd = fd;
    l->poll = poll;
    poll->data = l;
    return uv_poll_start(poll, UV_DISCONNECT, on_disconnect);
}

/* --- asking */

/* What the warden started for a sandbox that is not to be ends with it. */
static void on_discarded(void *data, const struct plan_reply *reply, int fd)
{
    (void)data;
    (void)reply;
    fd_close(&fd);
}

static void link_set_error(struct error *err, const struct plan_reply *reply)
{
    enum error_code code = !reply                       ? ERROR_UNAVAILABLE
                           : reply->error == EOPNOTSUPP ? ERROR_UNSUPPORTED
                           : reply->error == EINVAL     ? ERROR_INVALID
                           : reply->error == EAGAIN     ? ERROR_LIMIT
                                                        : ERROR_INTERNAL;
    error_set(err, code, 0, "%s", reply ? reply->message : "the warden is gone");
}

static void on_interceptor(void *data, const struct plan_reply *reply, int fd)
{
    struct interceptor_link *l = data;
    struct sandbox *sb = l->sandbox;
    struct error err = {0};
    l->asked = false;
    if (!sb) {
        fd_close(&fd);
        if (l->closed)
            free(l);
        return;
    }
    if (l->stale) {
        /* A secret has changed since, also while the sandbox is being made, which then waits for
         * the one that has what is so now. */
        fd_close(&fd);
        interceptor_ask(sb);
        return;
    }
    if (l->emptied) {
        fd_close(&fd); /* its certificates would be believed, and its requests lack the secret */
    } else if (!reply || reply->error || fd < 0 || link_watch(l, fd) < 0) {
        link_set_error(&err, reply);
        log_warn("no interceptor id=%s: %s", sb->id, err.message);
    }
    if (l->launching) {
        l->launching = false;
        sandbox_start_intercepted(sb, error_is_set(&err) ? &err : NULL);
    } else if (error_is_set(&err)) {
        ask_later(l);
    }
}

/* Where a secret is gone, the interceptor that still has it makes way for one that has none, and no
 * connection is handed to that. */
static int open_pairs(struct sandbox *sb, struct error *err)
{
    const struct manager_secrets *s = &sb->manager->options.secrets;
    struct error why = {0};
    int fd = s->open_pairs(s->data, sb->owner, sb->spec.inject, sb->spec.intercept_hosts,
                           sb->generation, &why);
    sb->interceptor->emptied = fd < 0;
    if (fd >= 0)
        return fd;
    log_warn("a secret of a sandbox is gone id=%s: %s", sb->id, why.message);
    sb->interceptor->stale = false;
    link_drop(sb->interceptor);
    return s->open_pairs(s->data, sb->owner, NULL, NULL, sb->generation, err);
}

static void interceptor_ask(struct sandbox *sb)
{
    struct interceptor_link *l = sb->interceptor;
    struct plan plan = {.op = PLAN_INTERCEPT};
    struct error err = {0};
    if (l->asked) {
        l->stale = true;
        return;
    }
    _cleanup_close_ int fd = open_pairs(sb, &err);
    if (fd < 0) {
        /* From the loop: the caller is the sandbox, which is being made. */
        log_warn("no interceptor id=%s: %s", sb->id, err.message);
        l->failure = err;
        ask_later(l);
        return;
    }
    l->failure = (struct error){0};
    l->asked = true;
    l->stale = false;
    snprintf(plan.id, sizeof(plan.id), "%s", sb->runtime_id);
    warden_client_send_fd(sb->manager->options.host->warden, &plan, fd, on_interceptor, l);
}

void interceptor_new(struct sandbox *sb)
{
    struct interceptor_link *l = new0(struct interceptor_link);
    l->sandbox = sb;
    l->fd = -1;
    l->launching = !sb->instance;
    loop_timer_init(&l->again, sb->manager->options.loop, on_again, l);
    sb->interceptor = l;
    interceptor_ask(sb);
}

static void on_timer_closed(void *data)
{
    struct interceptor_link *l = data;
    l->closed = true;
    if (!l->asked)
        free(l);
}

/* An answer of the warden's may be under way and cannot be called off: the link outlives its
 * sandbox then, without a pointer to it, until that answer has come and the timer is closed. */
void interceptor_free(struct sandbox *sb)
{
    struct interceptor_link *l = steal_ptr(sb->interceptor);
    if (!l)
        return;
    link_drop(l);
    if (!sb->instance) {
        struct plan plan = {.op = PLAN_KILL};
        snprintf(plan.id, sizeof(plan.id), "%s", sb->runtime_id);
        warden_client_send(sb->manager->options.host->warden, &plan, on_discarded, NULL);
    }
    l->sandbox = NULL;
    if (l->launching)
        sandbox_unref(sb);
    loop_timer_close(&l->again, on_timer_closed, l);
}

/* --- what it is for */

static bool spec_injects(const struct spec *s, const char *name)
{
    for (char **n = s->inject; n && *n; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return false;
}

void manager_secret_changed(struct manager *m, const char *owner, const char *name)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        if (sb->interceptor && strcmp(sb->owner, owner) == 0 && spec_injects(&sb->spec, name))
            interceptor_ask(sb);
    }
}

/* The host and port of a rule that only the interceptor can enforce, because it is about methods
 * or paths of https. NULL for any other rule. */
static char *text_of_read_host(const char *text)
{
    struct rule_list l = {0};
    char *host = NULL;
    rule_list_add_full(&l, text);
    if (l.n && l.rules[0].http && l.rules[0].port == HTTPS_PORT)
        host = rule_format_host(&l.rules[0]);
    rule_list_done(&l);
    return host;
}

/* Each host once, however many rules are about it. */
static char **add_read_hosts(char **hosts, char *const *rules)
{
    for (; rules && *rules; rules++) {
        _cleanup_free_ char *host = text_of_read_host(*rules);
        if (host)
            network_add_text(&hosts, host);
    }
    return hosts;
}

int interceptor_check_rules(const struct sandbox *sb, char *const *rules, struct error *err)
{
    for (; rules && *rules; rules++) {
        _cleanup_free_ char *host = text_of_read_host(*rules);
        char *const one[] = {host, NULL};
        if (host && !gateway_hosts_cover(sb->spec.intercept_hosts, one))
            return error_set(err, ERROR_UNSUPPORTED, 0,
                             "requests to %s are not read in this sandbox: a rule about methods or "
                             "paths of its https was not there when it was made",
                             host);
    }
    return 0;
}

/* What its start has room for (proto/intercept.h). */
static int check_read_hosts(char *const *hosts, struct error *err)
{
    size_t n = 0, bytes = 0;
    for (; hosts[n]; n++)
        bytes += strlen(hosts[n]) + 1;
    if (n > INTERCEPT_HOSTS_MAX)
        return error_field(err, "intercept", "more than %d hosts would be intercepted",
                           INTERCEPT_HOSTS_MAX);
    if (bytes > INTERCEPT_TEXT_SIZE)
        return error_field(err, "intercept",
                           "the names of the hosts that would be intercepted have more than %d "
                           "bytes",
                           INTERCEPT_TEXT_SIZE);
    return 0;
}

int interceptor_check(const struct manager *m, const struct runtime_ops *ops,
                      const struct spec *spec, const char *owner, char ***ret, struct error *err)
{
    const struct manager_secrets *s = &m->options.secrets;
    *ret = NULL;
    if (!spec->intercept)
        return spec->inject && *spec->inject
                   ? error_field(err, "inject",
                                 "'inject' needs \"intercept\": true: the secrets go "
                                 "into requests inside TLS")
                   : 0;
    if (!spec->network)
        return error_field(err, "intercept", "'intercept' needs a network by names");
    if (!ops->has_interceptor)
        return error_unsupported(err, "intercept",
                                 "sandboxes of runtime '%s' cannot be intercepted", ops->name);
    if (!s->find_hosts)
        return error_set(err, ERROR_UNSUPPORTED, 0, "this daemon has no secrets");
    *ret = s->find_hosts(s->data, owner, spec->inject, err);
    if (*ret)
        *ret = add_read_hosts(add_read_hosts(*ret, spec->hosts), spec->denied_hosts);
    const struct gateway_rules rules = {.hosts = spec->hosts,
                                        .denied = spec->denied_hosts,
                                        .intercepted = *ret,
                                        .intercept_fd = -1,
                                        .proxy = true};
    if (!*ret)
        return -ENOENT;
    if (check_read_hosts(*ret, err) < 0)
        return -EINVAL;
    struct error why = {0};
    return gateway_rules_check(&rules, &why) < 0 ? error_field(err, "intercept", "%s", why.message)
                                                 : 0;
}
