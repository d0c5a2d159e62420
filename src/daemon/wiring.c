/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane consists of, put together: warden client, sandbox manager, tools, API, and
 * either an HTTP server or the line protocol. Also how it ends: drain, then delete every sandbox.
 */
#include "daemon/control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/ports.h"
#include "api/request.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "daemon/audit-wiring.h"
#include "config/config.h"
#include "daemon/line-mode.h"
#include "daemon/policy-file.h"
#include "event/event-journal.h"
#include "guard/approval.h"
#include "audit/audit.h"
#include "guard/gate.h"
#include "identity/keys.h"
#include "keeper/images.h"
#include "loop/loop.h"
#include "mcp/mcp.h"
#include "mcp/tools/catalog.h"
#include "net/http.h"
#include "runtime/choose.h"
#include "runtime/warden-client.h"
#include "sandbox/sandbox.h"
#include "port/token.h"
#include "secret/secrets.h"
#include "store/store.h"
#include "tool/network.h"
#include "tool/run.h"
#include "tool/skill.h"

#define JOURNAL_MEMORY_BYTES (64 * 1024)        /* most commands print less, and need no file */
#define OUTPUT_MAX_BYTES     (16 * 1024 * 1024) /* of each stream in a synchronous answer */
#define MCP_CATALOGS_MAX     2                  /* ours, and the fixtures of tests */
#define RESUME_MS            2000 /* callers wait so long at most for runners to answer */
#define LEAVE_MS             2000 /* running requests have so long when another control plane waits */

struct control {
    struct control_context *ctx;
    struct warden_client *warden;
    struct runtime_host host;
    struct spec default_spec;
    struct store *store;
    struct event_journal *events; /* NULL in line mode */
    struct keys *keys;            /* NULL in line mode */
    struct secrets *secrets;
    struct traffic_tokens *traffic;
    struct skills *skills;
    struct images *images; /* NULL: switched off */
    struct audit *audit;
    struct gate *gate;
    struct policy_file *policy;
    struct manager *manager;
    struct api *api;
    struct http_server *server;
    struct line_mode *line;
    struct mcp *mcp; /* not with the line protocol */
    struct mcp_stdio *mcp_stdio;
    const struct mcp_catalog *catalogs[MCP_CATALOGS_MAX];
    struct loop_signal sigterm, sighup, sigusr2;
    struct loop_timer drain_timer, settle_timer, leave_timer;
    int stops; /* SIGTERMs seen */
    bool deleting, leaving, ended;
    int status;
};

static void default_spec_fill(struct spec *s, const struct config *c)
{
    spec_init(s);
    s->runtime = xstrdup(c->runtime);
    s->limits = c->default_limits;
    s->env = strv_copy(c->env);
}

static void find_quota(void *data, const char *owner, struct owner_quota *ret)
{
    const struct control *k = data;
    struct key_quotas q = keys_quotas(k->keys, owner);
    *ret = (struct owner_quota){(size_t)q.max_sandboxes, (size_t)q.max_execs};
}

static int open_keys(struct control *k, struct error *err)
{
    const struct config *c = k->ctx->config;
    struct keys_options o = {.loop = k->ctx->loop, .store = k->store, .config = c->keys};
    if (!k->store)
        return 0;
    k->keys = keys_open(&o, err);
    return k->keys ? 0 : -1;
}

static int open_secrets(struct control *k, struct error *err)
{
    struct secrets_options o = {.config = k->ctx->config->secrets, .store = k->store};
    k->secrets = secrets_open(&o, err);
    return k->secrets ? 0 : -1;
}

/* Before anything is restored, because that is compared with it. */
static int open_events(struct control *k, struct error *err)
{
    char data[64];
    struct event_journal_options o = {
        .config = k->ctx->config->events, .loop = k->ctx->loop, .store = k->store};
    if (!k->store)
        return 0;
    k->events = event_journal_open(&o, err);
    if (!k->events)
        return -1;
    snprintf(data, sizeof(data), "{\"version\":\"" MAS_VERSION "\",\"generation\":%llu}",
             (unsigned long long)(k->ctx->generations_before + k->ctx->generation));
    event_append(k->events, EVENT_DAEMON_STARTED, "daemon", "", data);
    return 0;
}

/* What is open in the name of a key that has ended ends with it, and so do its approvals and votes.
 */
static void on_key_ended(void *data, const char *id)
{
    struct control *k = data;
    approvals_check_all(gate_approvals(k->gate));
    if (k->server)
        http_server_drop(k->server, id, "the key has ended");
    /* One that was rotated lives: its holder may come back for the answer. */
    const struct key *key = keys_find(k->keys, id);
    if (key && key_is_live(key))
        return;
    if (k->api)
        api_key_ended(k->api, id);
    if (k->mcp)
        mcp_key_ended(k->mcp, id);
}

static char **find_secret_hosts(void *data, const char *owner, char *const *names,
                                struct error *err)
{
    const struct control *k = data;
    return secrets_find_hosts(k->secrets, owner, names, err);
}

static int open_secret_pairs(void *data, const char *owner, char *const *names,
                             const char *generation, struct error *err)
{
    const struct control *k = data;
    return secrets_open_pairs(k->secrets, owner, names, generation, err);
}

static void on_secret_changed(void *data, const char *owner, const char *name)
{
    struct control *k = data;
    manager_secret_changed(k->manager, owner, name);
}

static void on_sandbox_gone(void *data, struct sandbox *sb)
{
    struct control *k = data;
    traffic_tokens_drop(k->traffic, sandbox_generation(sb));
}

static bool is_sandbox_there(void *data, const char *id, const char *generation)
{
    struct control *k = data;
    struct sandbox *sb = sandbox_find(k->manager, "", id);
    return sb && strcmp(sandbox_generation(sb), generation) == 0;
}

static struct manager *make_manager(struct control *k, int journal_dir)
{
    const struct config *c = k->ctx->config;
    struct manager_options o = {
        .loop = k->ctx->loop,
        .host = &k->host,
        .store = k->store,
        .events = k->events,
        .on_exec = run_on_exec,
        .on_input = run_on_input,
        .is_call_of = run_is_call_of,
        .on_exec_data = k->gate,
        .find_denied_hosts = network_denied_hosts,
        .on_sandbox = audit_on_sandbox,
        .on_connection = audit_on_connection,
        .on_connections_cut = audit_on_connections_cut,
        .on_record_data = k->audit,
        .on_gone = on_sandbox_gone,
        .on_gone_data = k,
        .gateway_sock = k->ctx->gateway_sock,
        .generation = k->ctx->generations_before + k->ctx->generation,
        .config = c->manager,
        .secrets = {.find_hosts = find_secret_hosts, .open_pairs = open_secret_pairs, .data = k},
        .journal = {.config = c->journal,
                    .dir_fd = journal_dir,
                    .memory_bytes = JOURNAL_MEMORY_BYTES,
                    .least_free = c->warden.state_reserve_bytes / 2},
        .find_quota = find_quota,
        .quota_data = k,
        .pool = {.config = c->pool, .spec = &k->default_spec},
    };
    /* A call over lines makes what it needs: its process may end with it. */
    if (k->ctx->line_mode)
        o.pool.config = (struct pool_config){0};
    return manager_new(&o);
}

static void on_reload_policy(void *data, const struct identity *who,
                             void (*done)(void *data, bool changed, const struct error *err),
                             void *done_data)
{
    struct control *k = data;
    policy_file_reload(k->policy, who, done, done_data);
}

static struct api *make_api(struct control *k)
{
    const struct config *c = k->ctx->config;
    struct services o = {
        .config = c->api,
        .loop = k->ctx->loop,
        .audit = k->audit,
        .manager = k->manager,
        .gate = k->gate,
        .reload_policy = on_reload_policy,
        .reload_data = k,
        .store = k->store,
        .events = k->events,
        .images = k->images,
        .images_max_upload_bytes = c->keeper.max_upload_bytes,
        .host = &k->host,
        .default_spec = &k->default_spec,
        .inotify_instances = c->warden.user_limits.inotify_instances,
        .inotify_watches = c->warden.user_limits.inotify_watches,
        .keys = k->keys,
        .secrets = k->secrets,
        .traffic = k->traffic,
        .skills = k->skills,
        .max_output_bytes = OUTPUT_MAX_BYTES,
        .warden_pid = k->ctx->warden_pid,
        .tool = {.manager = k->manager,
                 .gate = k->gate,
                 .mounts_allow = c->mounts_allow,
                 .default_spec = &k->default_spec,
                 .web_search_endpoint = c->web_search_endpoint,
                 .max_timeout_ms = c->api.exec_max_timeout_ms,
                 .max_output_bytes = OUTPUT_MAX_BYTES},
    };
    return api_new(&o);
}

static int make_mcp(struct control *k, struct error *err)
{
    const struct config *c = k->ctx->config;
    size_t n = 0;
    k->catalogs[n++] = &mcp_sandbox_catalog;
    if (&mcp_fixtures)
        k->catalogs[n++] = &mcp_fixtures;
    struct mcp_options o = {
        .loop = k->ctx->loop,
        .services = api_services(k->api),
        .catalogs = k->catalogs,
        .n_catalogs = n,
        .config = c->mcp,
        .shutdown_grace_ms = c->shutdown_grace_ms,
    };
    k->mcp = mcp_new(&o, err);
    if (!k->mcp)
        return -1;
    struct api_extension extension = mcp_extension(k->mcp);
    api_extend(k->api, &extension);
    return 0;
}

static int make_server(struct control *k, struct error *err)
{
    const struct config *c = k->ctx->config;
    struct http_options o = {.loop = k->ctx->loop,
                             .on_request = api_on_request,
                             .data = k->api,
                             .config = c->http,
                             .format_error = api_format_error,
                             .takes_encoded = ports_take_encoded,
                             .error_type = "application/json"};
    k->server = http_server_new(&o, err);
    if (!k->server)
        return -1;
    for (size_t i = 0; i < k->ctx->n_listeners; i++)
        if (http_server_listen_fd(k->server, k->ctx->listeners[i], err) < 0)
            return -1;
    return 0;
}

/* --- the end */

static void close_rest(struct control *k)
{
    if (k->server)
        http_server_close(k->server);
    images_close(steal_ptr(k->images));
    warden_client_close(k->warden);
    keys_stop(k->keys);
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
static void on_manager_closed(void *data)
{
    struct control *k = data;
    struct audit_record stop = {.kind = "stop"};
    audit_note(k->audit, &stop);
    if (k->audit)
        audit_checkpoint_now(k->audit, CHECKPOINT_PERIODIC, on_last_checkpoint, k);
    else
        close_rest(k);
}

static void delete_all(void *data)
{
    struct control *k = data;
    if (k->deleting)
        return;
    k->deleting = true;
    loop_timer_stop(&k->drain_timer);
    mcp_close(k->mcp);
    manager_close(k->manager, on_manager_closed, k);
}

static void on_stop_signal(void *data, int signo)
{
    struct control *k = data;
    (void)signo;
    loop_timer_stop(&k->leave_timer); /* the end of all, which has its own grace, comes first */
    if (k->stops++ > 0 || !k->server) {
        delete_all(k);
        return;
    }
    log_info("draining: no new connections, running requests may finish");
    mcp_drain(k->mcp);
    event_journal_drain(k->events);
    http_server_drain(k->server, delete_all, k);
    loop_timer_start(&k->drain_timer, k->ctx->config->shutdown_grace_ms);
}

/* Killing this process loses nothing that is written or acknowledged, so no more is done about it
 * than about a crash: sandboxes, commands and journals are the next control plane's. */
static void leave(void *data)
{
    (void)data;
    _exit(CONTROL_EXIT_LEFT);
}

/* Another control plane waits to take over. Connections that come meanwhile wait for it. */
static void on_leave_signal(void *data, int signo)
{
    struct control *k = data;
    (void)signo;
    if (k->stops || k->leaving || !k->server)
        return;
    k->leaving = true;
    log_info("making way: no new connections, running requests may finish in %d ms", LEAVE_MS);
    loop_timer_start(&k->leave_timer, LEAVE_MS);
    mcp_drain(k->mcp);
    http_server_drain(k->server, leave, k);
}

static void on_reload_signal(void *data, int signo)
{
    struct control *k = data;
    (void)signo;
    if (!k->deleting)
        policy_file_reload(k->policy, NULL, NULL, NULL);
}

static void on_line_end(void *data)
{
    delete_all(data);
}

/* --- the start */

static int restore(struct control *k, struct error *err)
{
    struct map *alive = warden_client_list(k->warden, err);
    size_t cursor = 0;
    if (!alive)
        return -1;
    int r = manager_restore(k->manager, alive, err);
    for (void *id; (id = map_next(alive, &cursor));)
        free(id);
    map_free(alive);
    return r;
}

/* An exec that only its runner remembers must not be unknown to the first who asks for it. */
static void wait_resumed(struct control *k)
{
    int64_t end = clock_mono_ms() + RESUME_MS;
    while (manager_is_resuming(k->manager) && clock_mono_ms() < end)
        uv_run(k->ctx->loop, UV_RUN_ONCE);
}

static bool call_lives(void *data, const char *call_id)
{
    struct control *k = data;
    return manager_runs_call(k->manager, call_id);
}

static void for_each_image(void *data, void (*cb)(void *arg, const char *digest), void *arg)
{
    struct control *k = data;
    if (k->manager)
        manager_for_each_image(k->manager, cb, arg);
    if (k->gate)
        approvals_for_each_image(gate_approvals(k->gate), cb, arg);
    if (k->default_spec.image_digest)
        cb(arg, k->default_spec.image_digest);
}

static void open_images(struct control *k)
{
    const struct config *c = k->ctx->config;
    struct images_options o = {.loop = k->ctx->loop,
                               .sock = k->ctx->keeper_sock,
                               .generation = k->ctx->generation,
                               .policy = c->image_pull,
                               .for_each_used = for_each_image,
                               .data = k};
    if (c->images)
        k->images = images_new(&o);
}

struct default_image {
    struct image_wait wait;
    struct spec *spec;
    const char *name;
    struct error err;
    bool done;
};

static void on_default_image(struct image_wait *w, const struct image_found *found,
                             const struct error *err)
{
    struct default_image *d = container_of(w, struct default_image, wait);
    d->done = true;
    if (err)
        d->err = *err;
    else
        spec_set_image(d->spec, d->name, found->digest, found->env, found->workdir, found->names);
}

/* What every sandbox has that names no other: it is there before a caller can ask for one, so that
 * no call waits for it and a daemon without it does not start. A registry that is down must not
 * keep what is here from being used. */
static int find_default_image(struct control *k, struct error *err)
{
    const char *name = k->ctx->config->image, *policy = NULL;
    while (name) {
        struct default_image d = {.wait = {.on_found = on_default_image, .policy = policy},
                                  .spec = &k->default_spec,
                                  .name = name};
        int r = images_resolve(k->images, name, &d.wait, err);
        if (r < 0)
            return r;
        loop_run(k->ctx->loop, 0, &d.done);
        if (!d.done)
            error_set(&d.err, ERROR_INTERNAL, 0, "the image keeper has gone");
        if (!error_is_set(&d.err))
            return 0;
        error_prefix(&d.err, "image '%s'", name);
        if (policy) {
            *err = d.err;
            return -ENOENT;
        }
        log_warn("%s; looking for it here", d.err.message);
        policy = "never";
    }
    return 0;
}

/* A runner that is slow to answer may still know of a call. */
static void settle_calls(void *data)
{
    struct control *k = data;
    if (manager_is_resuming(k->manager))
        loop_timer_start(&k->settle_timer, RESUME_MS);
    else
        audit_settle(k->audit, call_lives, k);
}

/* What every call passes: the audit, approvals, and the operator's policy. */
static int make_gate(struct control *k, struct error *err)
{
    const struct control_context *ctx = k->ctx;
    const struct config *c = ctx->config;
    struct gate_options o = {.loop = ctx->loop,
                             .store = k->store,
                             .keys = k->keys,
                             .audit = k->audit,
                             .events = k->events,
                             .approvals = c->approvals,
                             .env = c->env};
    struct policy_file_options p = {.loop = ctx->loop,
                                    .warden = k->warden,
                                    .name = c->policy_file,
                                    .state_dir = ctx->state_path,
                                    .again = ctx->generation > 1};
    if (!ctx->line_mode && !keys_any(k->keys) && !c->api.token && c->api.require_keys)
        log_warn(
            "require_keys is set and there is no key: every call is refused until one was made "
            "with 'sbx keys add -state-dir DIR' while the daemon is stopped");
    else if (!ctx->line_mode && !keys_any(k->keys) && !c->api.token)
        log_warn("no keys are configured: approvals are by nobody in particular, and nothing "
                 "critical can be approved");
    k->gate = gate_new(&o, err);
    p.gate = k->gate;
    k->policy = k->gate ? policy_file_open(&p, err) : NULL;
    return k->policy ? 0 : -1;
}

static int control_init(struct control *k, struct error *err)
{
    struct control_context *ctx = k->ctx;
    struct plan_reply probed;
    int journal_dir = open(ctx->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal_dir < 0)
        return error_set(err, ERROR_INTERNAL, errno, "open '%s'", ctx->state_path);
    default_spec_fill(&k->default_spec, ctx->config);
    k->warden = warden_client_new(ctx->loop, ctx->warden_sock);
    k->host = (struct runtime_host){.warden = k->warden,
                                    .mounts_allow = ctx->config->mounts_allow,
                                    .process_enabled = config_process_enabled(ctx->config),
                                    .oci_runtime = ctx->config->oci_runtime,
                                    .min_isolation = ctx->config->min_isolation};
    if (warden_client_probe(k->warden, &probed, err) < 0)
        return -1;
    if (!runtime_find(ctx->config->runtime))
        return error_set(err, ERROR_UNSUPPORTED, 0, "there is no runtime '%s' in this build",
                         ctx->config->runtime);
    if (runtime_choose(&k->host, &(struct runtime_wish){0}, &k->default_spec, err) < 0)
        return -1;
    /* A call over lines ends with its process: nothing of it is there to come back to. */
    if (!ctx->line_mode && !(k->store = store_open(ctx->state_path, ctx->loop, err)))
        return -1;
    if (open_events(k, err) < 0 || open_keys(k, err) < 0 || open_secrets(k, err) < 0 ||
        !(k->traffic = traffic_tokens_open(k->store, err)) ||
        !(k->skills = skills_new(k->store, err)) ||
        audit_wire(k->ctx, k->warden, k->store, &k->audit, err) < 0 || make_gate(k, err) < 0)
        return -1;
    open_images(k);
    if (find_default_image(k, err) < 0)
        return -1;
    k->manager = make_manager(k, journal_dir);
    secrets_on_changed(k->secrets, on_secret_changed, k);
    if (restore(k, err) < 0)
        return -1;
    traffic_tokens_sweep(k->traffic, is_sandbox_there, k);
    wait_resumed(k);
    event_journal_started(k->events);
    loop_timer_init(&k->settle_timer, ctx->loop, settle_calls, k);
    settle_calls(k);
    k->api = make_api(k);
    loop_timer_init(&k->drain_timer, ctx->loop, delete_all, k);
    loop_signal_init(&k->sigterm, ctx->loop, SIGTERM, on_stop_signal, k);
    loop_signal_init(&k->sighup, ctx->loop, SIGHUP, on_reload_signal, k);
    loop_signal_init(&k->sigusr2, ctx->loop, SIGUSR2, on_leave_signal, k);
    loop_timer_init(&k->leave_timer, ctx->loop, leave, k);
    if (!ctx->line_mode || ctx->config->use_mcp_stdio)
        if (make_mcp(k, err) < 0)
            return -1;
    if (ctx->line_mode && k->mcp) {
        k->mcp_stdio = mcp_stdio_start(k->mcp, on_line_end, k);
        return 0;
    }
    if (ctx->line_mode) {
        k->line = line_mode_start(ctx->loop, k->api, ctx->config->max_line_bytes, on_line_end, k);
        return 0;
    }
    keys_on_ended(k->keys, on_key_ended, k);
    return make_server(k, err);
}

int control_main(struct control_context *ctx)
{
    struct control k = {.ctx = ctx};
    struct error err = {0};
    if (control_init(&k, &err) < 0) {
        log_error("%s", err.message);
        bool full = err.code == ERROR_NO_SPACE || err.sys_errno == ENOSPC;
        return full && ctx->generation > 1 ? CONTROL_EXIT_NO_SPACE : CONTROL_EXIT_REFUSED;
    }
    log_info("control plane ready listeners=%zu runtime=%s", ctx->n_listeners,
             ctx->config->runtime);
    ctx->on_serving();
    loop_run(ctx->loop, ctx->config->busy_poll_us, &k.ended);
    line_mode_free(k.line);
    mcp_stdio_free(k.mcp_stdio);
    mcp_free(k.mcp);
    audit_close(k.audit);
    store_close(k.store);
    manager_free(k.manager);
    keys_free(k.keys);
    secrets_free(k.secrets);
    traffic_tokens_free(k.traffic);
    skills_free(k.skills);
    api_free(k.api);
    gate_free(k.gate);
    event_journal_free(k.events);
    spec_done(&k.default_spec);
    return k.status;
}
