/* SPDX-License-Identifier: Apache-2.0 */
/* How the control plane ends: it drains, deletes every sandbox, has what happened signed, and
 * closes what is left. And how it makes way for the next one, which deletes nothing. */
#include <signal.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/control-internal.h"
#include "daemon/policy-file.h"
#include "event/event-journal.h"
#include "identity/keys.h"
#include "keeper/images.h"
#include "mcp/mcp.h"
#include "net/http.h"
#include "port/token.h"
#include "runtime/kube/cluster.h"
#include "runtime/warden-client.h"
#include "sandbox/sandbox.h"
#include "secret/secrets.h"

#define LEAVE_MS 2000 /* running requests have so long when another control plane waits */

static void close_rest(struct control *k)
{
    if (k->server)
        http_server_close(k->server);
    images_close(steal_ptr(k->images));
    warden_client_close(k->warden);
    cluster_close(steal_ptr(k->host.cluster));
    keys_stop(k->keys);
    traffic_tokens_stop(k->traffic);
    secrets_stop(k->secrets);
    event_journal_stop(k->events);
    loop_signal_close(&k->sigterm, NULL, NULL);
    loop_signal_close(&k->sighup, NULL, NULL);
    loop_signal_close(&k->sigusr2, NULL, NULL);
    loop_timer_close(&k->leave_timer, NULL, NULL);
    policy_file_close(k->policy);
    loop_timer_close(&k->drain_timer, NULL, NULL);
    loop_timer_close(&k->settle_timer, NULL, NULL);
    k->ended = true;
}

static void on_last_checkpoint(void *data, const struct checkpoint *c, const struct error *err)
{
    (void)c;
    if (err)
        log_warn("%s", err->message);
    close_rest(data);
}

/* What has happened until now is signed while the warden is there to sign it. */
static void on_cluster_left(void *data)
{
    struct control *k = data;
    struct audit_record stop = {.kind = "stop"};
    audit_note(k->audit, &stop);
    if (k->audit)
        audit_checkpoint_now(k->audit, CHECKPOINT_PERIODIC, on_last_checkpoint, k);
    else
        close_rest(k);
}

static void on_manager_closed(void *data)
{
    struct control *k = data;
    cluster_leave(k->host.cluster, on_cluster_left, k);
}

void control_end(void *data)
{
    struct control *k = data;
    if (k->deleting)
        return;
    k->deleting = true;
    loop_timer_stop(&k->drain_timer);
    mcp_close(k->mcp);
    cluster_leave(k->host.cluster, NULL, NULL); /* while the sandboxes are deleted */
    manager_close(k->manager, on_manager_closed, k);
}

static void on_stop_signal(void *data, int signo)
{
    struct control *k = data;
    (void)signo;
    loop_timer_stop(&k->leave_timer); /* the end of all, which has its own grace, comes first */
    if (k->stops++ > 0 || !k->server) {
        control_end(k);
        return;
    }
    log_info("draining: no new connections, running requests may finish");
    mcp_drain(k->mcp);
    event_journal_drain(k->events);
    http_server_drain(k->server, control_end, k);
    loop_timer_start(&k->drain_timer, k->ctx->config->shutdown_grace_ms);
}

/* Killing this process loses nothing that is written or acknowledged, so no more is done about it
 * than about a crash: sandboxes, commands and journals are the next control plane's. */
static void leave_process(void *data)
{
    (void)data;
    _exit(CONTROL_EXIT_LEFT);
}

/* Connections that come meanwhile wait for the next control plane. */
void control_make_way(void *data)
{
    struct control *k = data;
    k->way_due = !k->server;
    if (k->stops || k->leaving || k->way_due)
        return;
    k->leaving = true;
    log_info("making way: no new connections, running requests may finish in %d ms", LEAVE_MS);
    loop_timer_start(&k->leave_timer, LEAVE_MS);
    mcp_drain(k->mcp);
    http_server_drain(k->server, leave_process, k);
}

/* Another control plane waits to take over. */
static void on_leave_signal(void *data, int signo)
{
    (void)signo;
    control_make_way(data);
}

static void on_reload_signal(void *data, int signo)
{
    struct control *k = data;
    (void)signo;
    if (!k->deleting)
        policy_file_reload(k->policy, NULL, NULL, NULL);
}

void control_watch_signals(struct control *k)
{
    loop_timer_init(&k->drain_timer, k->ctx->loop, control_end, k);
    loop_timer_init(&k->leave_timer, k->ctx->loop, leave_process, k);
    loop_signal_init(&k->sigterm, k->ctx->loop, SIGTERM, on_stop_signal, k);
    loop_signal_init(&k->sighup, k->ctx->loop, SIGHUP, on_reload_signal, k);
    loop_signal_init(&k->sigusr2, k->ctx->loop, SIGUSR2, on_leave_signal, k);
}
