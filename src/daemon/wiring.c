/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane consists of, put together: warden client, sandbox manager, tools, API, and
 * either an HTTP server or the line protocol. */
#include "daemon/control-internal.h"

#include <errno.h>
#include <fcntl.h>
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
#include "daemon/daemon.h"
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
#include "runtime/kube/cluster.h"
#include "runtime/warden-client.h"
#include "sandbox/sandbox.h"
#include "port/token.h"
#include "secret/secrets.h"
#include "store/store.h"
#include "tool/network-change.h"
#include "tool/network.h"
#include "tool/run.h"
#include "tool/skill.h"

#define JOURNAL_MEMORY_BYTES (64 * 1024)        /* most commands print less, and need no file */
#define OUTPUT_MAX_BYTES     (16 * 1024 * 1024) /* of each stream in a synchronous answer */
#define RESUME_MS            2000 /* callers wait so long at most for runners to answer */

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
    struct secrets_options o = {
        .config = k->ctx->config->secrets, .store = k->store, .loop = k->ctx->loop};
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
    traffic_tokens_drop_owner(k->traffic, id);
    /* One that was rotated lives: its holder may come back for the answer. */
    const struct key *key = keys_find(k->keys, id);
    if (key && key_is_live(key))
        return;
    if (k->api)
        api_key_ended(k->api, id);
    if (k->mcp)
        mcp_key_ended(k->mcp, id);
}

static void on_traffic_token_ended(void *data, const char *id)
{
    struct control *k = data;
    if (k->server)
        http_server_drop(k->server, id, "the traffic token has ended");
}

static char **find_secret_hosts(void *data, const char *owner, char *const *names,
                                struct error *err)
{
    const struct control *k = data;
    return secrets_find_hosts(k->secrets, owner, names, err);
}

static int open_secret_pairs(void *data, const char *owner, char *const *names, char *const *hosts,
                             const char *generation, struct error *err)
{
    const struct control *k = data;
    return secrets_open_pairs(k->secrets, owner, names, hosts, generation, err);
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
        .ask_network = network_ask,
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
                    .room = *k->ctx->room},
        .find_quota = find_quota,
        .quota_data = k,
        .pool = {.config = c->pool, .spec = &k->default_spec},
    };
    o.config.streams = config_has_streams(c);
    o.journal.room.dir_fd = journal_dir;
    o.journal.room.reserve_bytes = c->warden.state_reserve_bytes / 2;
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

static int restore_sandboxes(struct control *k, struct error *err)
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
        log_warn("no keys are configured: approvals do not name their approver, and nothing "
                 "critical can be approved");
    k->gate = gate_new(&o, err);
    p.gate = k->gate;
    k->policy = k->gate ? policy_file_open(&p, err) : NULL;
    return k->policy ? 0 : -1;
}

/* Where an owner is a key's, the key has to be there: what it owns could not be used. */
static bool is_owner_known(void *data, const char *owner)
{
    const struct control *k = data;
    struct identity who = keys_identity_of(k->keys, owner);
    return !identity_has_key(&who) || keys_find(k->keys, owner);
}

static int on_sandbox_found(void *data, const struct cluster_found *found, struct error *err)
{
    struct control *k = data;
    if (found->pooled)
        return manager_adopt_member(k->manager, found->runtime_id);
    struct sandbox_remains remains = {.runtime_id = found->runtime_id,
                                      .record = found->record,
                                      .len = found->len,
                                      .owner = found->owner,
                                      .last_exec_s = found->last_exec_s};
    if (k->keys)
        remains.is_owner_known = is_owner_known;
    remains.data = k;
    return manager_rebuild(k->manager, &remains, err);
}

static void on_all_found(void *data)
{
    struct control *k = data;
    manager_rebuilt(k->manager);
}

/* The next control plane takes its sandboxes over as at the start of the daemon, once the home is
 * its own: until then it waits for them, however long that takes. This one would count them as
 * lost. */
static void on_home_lost(void *data)
{
    log_warn("another control plane of this home has written to the cluster: this one makes way");
    control_make_way(data);
}

/* A pod that does not come to run is given up before the manager would do so, with the reason. */
static struct cluster *make_cluster(struct control *k)
{
    const struct config *c = k->ctx->config;
    uint64_t most_ms = c->manager.create_timeout_ms;
    bool has_pool = c->pool.size || c->pool.autosize;
    struct cluster_options o = {.loop = k->ctx->loop,
                                .sock = k->ctx->kube_sock,
                                .generation = k->ctx->generations_before + k->ctx->generation,
                                .home = c->kube.home ? c->kube.home : c->kube.instance,
                                .on_found = on_sandbox_found,
                                .on_rebuilt = on_all_found,
                                .on_home_lost = on_home_lost,
                                .found_data = k,
                                .image = c->kube.image,
                                .pool_spec = has_pool ? &k->default_spec : NULL,
                                .cpu_request_millicores = c->kube.cpu_request_millicores,
                                .memory_request_bytes = c->kube.memory_request_bytes,
                                .unproven_network = c->kube.unproven_network,
                                .start_ms = most_ms - most_ms / 10};
    return o.sock < 0 ? NULL : cluster_new(&o);
}

/* The warden is asked first: what it can build decides whether the configuration holds here. */
static int open_host(struct control *k, struct error *err)
{
    const struct config *c = k->ctx->config;
    struct plan_reply probed;
    default_spec_fill(&k->default_spec, c);
    k->warden = warden_client_new(k->ctx->loop, k->ctx->warden_sock);
    daemon_fill_network(c, &k->network);
    k->host = (struct runtime_host){.warden = k->warden,
                                    .network = &k->network,
                                    .machine = &c->machine,
                                    .cluster = make_cluster(k),
                                    .mounts_allow = c->mounts_allow,
                                    .process_enabled = config_process_enabled(c),
                                    .oci_runtime = c->oci_runtime,
                                    .min_isolation = c->min_isolation};
    if (warden_client_probe(k->warden, &probed, err) < 0)
        return -1;
    if (!runtime_find(c->runtime))
        return error_set(err, ERROR_UNSUPPORTED, 0, "there is no runtime '%s' in this build",
                         c->runtime);
    return runtime_choose(&k->host, &(struct runtime_wish){0}, &k->default_spec, err);
}

/* What outlives this process, and the gate, which needs most of it. */
static int open_state(struct control *k, struct error *err)
{
    struct control_context *ctx = k->ctx;
    /* A call over lines ends with its process: nothing of it is there to come back to. */
    if (!ctx->line_mode && !(k->store = store_open(ctx->state_path, ctx->loop, err)))
        return -1;
    if (open_events(k, err) < 0 || open_keys(k, err) < 0 || open_secrets(k, err) < 0 ||
        !(k->traffic = traffic_tokens_open(
              k->store, ctx->loop, &(struct traffic_maker){IDENTITY_TOKEN, ctx->config->api.token},
              err)) ||
        !(k->skills = skills_new(k->store, err)) ||
        audit_wire(ctx, k->warden, k->store, &k->audit, err) < 0)
        return -1;
    return make_gate(k, err);
}

/* Takes over the sandboxes of the control plane before this one and settles their calls. This comes
 * before the API listens, so that no caller sees a sandbox that is not adopted yet. */
static int open_sandboxes(struct control *k, int journal_dir, struct error *err)
{
    open_images(k);
    /* The pool makes sandboxes of the default image as soon as there is a manager. */
    if (control_find_default_image(k, err) < 0)
        return -1;
    k->manager = make_manager(k, journal_dir);
    secrets_on_changed(k->secrets, on_secret_changed, k);
    if (restore_sandboxes(k, err) < 0)
        return -1;
    traffic_tokens_sweep(k->traffic, is_sandbox_there, k); /* only those of lost ones go */
    /* An exec that only its runner remembers must not be unknown to the first who asks for it. */
    int64_t end = clock_mono_ms() + RESUME_MS;
    while (manager_is_resuming(k->manager) && clock_mono_ms() < end)
        uv_run(k->ctx->loop, UV_RUN_ONCE);
    event_journal_started(k->events); /* all that was restored has been compared with it */
    loop_timer_init(&k->settle_timer, k->ctx->loop, settle_calls, k);
    settle_calls(k);
    return 0;
}

/* All sandboxes that may have a row are known by now. Those that only the cluster knows should be
 * before the first caller is there; a create is refused until they are. */
static void start_cluster(struct control *k)
{
    struct cluster *c = k->host.cluster;
    int64_t end = clock_mono_ms() + RESUME_MS;
    cluster_start(c);
    const struct cluster_report *r = cluster_probed(c);
    while (!cluster_is_rebuilt(c) && (r->available || !r->known) && clock_mono_ms() < end)
        uv_run(k->ctx->loop, UV_RUN_ONCE);
}

static int control_init(struct control *k, struct error *err)
{
    int journal_dir = open(k->ctx->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal_dir < 0)
        return error_set(err, ERROR_INTERNAL, errno, "open '%s'", k->ctx->state_path);
    if (open_host(k, err) < 0 || open_state(k, err) < 0 || open_sandboxes(k, journal_dir, err) < 0)
        return -1;
    if (k->host.cluster)
        start_cluster(k);
    /* Callers come last, when everything that they can ask for is there. */
    const struct control_context *ctx = k->ctx;
    k->api = make_api(k);
    traffic_tokens_on_ended(k->traffic, on_traffic_token_ended, k);
    control_watch_signals(k);
    if ((!ctx->line_mode || ctx->config->use_mcp_stdio) && make_mcp(k, err) < 0)
        return -1;
    if (!ctx->line_mode) {
        keys_on_ended(k->keys, on_key_ended, k);
        if (make_server(k, err) < 0)
            return -1;
        if (k->way_due) /* the home was lost while the cluster was asked for sandboxes */
            control_make_way(k);
        return 0;
    }
    if (k->mcp)
        k->mcp_stdio = mcp_stdio_start(k->mcp, control_end, k);
    else
        k->line = line_mode_start(ctx->loop, k->api, ctx->config->max_line_bytes, control_end, k);
    return 0;
}

/* After the loop. The audit writes its last records to the store, and the store its last rows;
 * sandboxes, keys and events are called back when a row is written, so they go after it. */
static void control_free(struct control *k)
{
    line_mode_free(k->line);
    mcp_stdio_free(k->mcp_stdio);
    mcp_free(k->mcp);
    audit_close(k->audit);
    store_close(k->store);
    manager_free(k->manager);
    keys_free(k->keys);
    secrets_free(k->secrets);
    traffic_tokens_free(k->traffic);
    skills_free(k->skills);
    api_free(k->api);
    gate_free(k->gate);
    event_journal_free(k->events);
    spec_done(&k->default_spec);
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
    control_free(&k);
    return 0;
}
