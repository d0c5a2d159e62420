/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up in stages, each of which needs what the next one gives up:
 *
 *   signals      blocked: they wait for the warden
 *   listeners    while we may bind and see paths
 *   programs     opened, because the warden's root does not have them
 *   state        made, locked, given to the control plane's user
 *   secrets      read and sealed, so that nothing after this stage can open them
 *   stdin/stdout set aside: only the control plane of line mode ever has them
 *   warden       all of it becomes a record (warden/startup.h), and this process mas-warden
 *
 * From there on src/warden/supervise has the story; the way back is there, too. */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/drop.h"
#include "daemon/gateway-stage.h"
#include "daemon/handover.h"
#include "daemon/keeper-stage.h"
#include "daemon/kube-stage.h"
#include "daemon/listeners.h"
#include "daemon/programs.h"
#include "gateway/rule.h"
#include "policy/rules.h"
#include "port/host.h"
#include "secret/seal-key.h"
#include "secret/source.h"
#include "store/state-dir.h"
#include "warden/startup.h"

#define LINE_MODE_BLANKS 1
#define LINE_FD_MIN      16 /* out of the way of anything that expects low numbers */

struct daemon {
    struct config *config;
    struct listeners listeners;
    struct programs programs;
    struct state_dir state;
    struct startup startup; /* borrows all of the above */
};

static void check_rules(struct config_problems *p, const char *key, char **rules)
{
    for (; rules && *rules; rules++) {
        struct rule_list list = {0};
        if (rule_list_add(&list, *rules) < 0)
            config_error(p, "%s: '%s' is not a host, *.domain, address or network", key, *rules);
        rule_list_done(&list);
    }
}

/* The gateway takes them for rules: one that cannot be read would stop every fetch. */
static void check_registries(struct config_problems *p, char **registries)
{
    for (; registries && *registries; registries++) {
        struct rule_list list = {0};
        if (rule_list_add(&list, *registries) < 0)
            config_error(p, "images_registries: '%s' is not a host, host:port or \"*\"",
                         *registries);
        rule_list_done(&list);
    }
}

/* The ranges among rules; names are none. */
static uint32_t fill_ranges(char *const *texts, struct net_range *ret)
{
    uint32_t n = 0;
    for (; texts && *texts && n < NET_RANGES_MAX; texts++)
        n += net_range_parse(*texts, &ret[n]) == 0;
    return n;
}

void daemon_fill_network(const struct config *c, struct net_config *ret)
{
    *ret = c->network;
    net_range_parse(c->network_pool, &ret->pool4);
    net_range_parse(c->network_pool6, &ret->pool6);
    ret->n_ceiling = fill_ranges(c->network_cidrs, ret->ceiling);
    if (!ret->n_ceiling && c->machine.n_cidrs) {
        ret->machines_only = 1;
        ret->n_ceiling = c->machine.n_cidrs;
        memcpy(ret->ceiling, c->machine.cidrs, sizeof(ret->ceiling));
    }
    ret->n_open = fill_ranges(c->gateway.allow_private, ret->open);
    ret->n_denied = fill_ranges(c->gateway.deny_hosts, ret->denied);
}

static void check_network(const struct config *c, struct config_problems *p)
{
    struct net_range range;
    struct net_config network = {0};
    char *const *const lists[] = {c->network_cidrs, c->gateway.allow_private,
                                  c->gateway.deny_hosts};
    for (char **text = c->network_cidrs; text && *text; text++)
        if (net_range_parse(*text, &range) < 0)
            config_error(p, "network_cidrs: '%s' is not a network", *text);
    /* What does not fit would be less than the operator wrote. */
    bool used = (c->network_cidrs && c->network_cidrs[0]) || c->machine.n_cidrs;
    for (size_t i = 0; used && i < ELEMENTS(lists); i++)
        if (strv_length((char **)lists[i]) > NET_RANGES_MAX)
            config_error(p,
                         "network_cidrs: it, gateway_allow_private and disallowed_hosts may have "
                         "%d entries each",
                         NET_RANGES_MAX);
    daemon_fill_network(c, &network);
    if (!net_config_is_valid(&network))
        config_error(
            p,
            "network_pool, network_pool6: they must be a network of IPv4 and one of IPv6 with room "
            "for sandboxes");
}

static void check_secrets(struct config_problems *p, const struct secrets_config *c)
{
    struct error err = {0};
    struct pair_host host;
    if (source_check_all(c->pairs, &err) < 0)
        config_error(p, "secrets: %s", err.message);
    for (char **h = c->hosts; h && *h; h++)
        if (pair_parse_host(*h, &host) < 0)
            config_error(p, "secret_hosts: '%s' is not a host name or *.domain", *h);
}

/* A name of the API's below the domain would never be reached: such a Host is a sandbox's. */
static void check_ports_domain(struct config_problems *p, const struct config *c)
{
    uint16_t port;
    char id[PORT_HOST_ID_SIZE];
    const char *domain = c->api.ports_domain;
    if (domain && port_domain_check(domain) < 0)
        config_error(p, "ports_domain: '%s' is not a domain in lower case, as ports.example.com",
                     domain);
    for (char **h = c->api.allowed_hosts; h && *h; h++)
        if (port_host_parse(*h, domain, &port, id) != 0)
            config_error(p,
                         "allowed_hosts_header: '%s' is below ports_domain, which is for "
                         "sandboxes",
                         *h);
}

static int find_user(const struct config *c, uid_t *ret_uid, gid_t *ret_gid)
{
    const struct passwd *pw = getpwnam(c->user);
    if (pw) {
        *ret_uid = pw->pw_uid;
        *ret_gid = pw->pw_gid;
        return pw->pw_uid == 0 ? -EPERM : 0;
    }
    *ret_uid = *ret_gid = DROP_CONTROL_UID;
    return config_origin(c, "user") == ORIGIN_DEFAULT ? 0 : -ENOENT;
}

void daemon_check(const struct config *c, struct config_problems *p)
{
    uid_t uid;
    gid_t gid;
    struct error err = {0};
    struct ruleset *rs = c->policy_file ? ruleset_load(c->policy_file, &err) : NULL;
    if (c->policy_file && !rs)
        config_error(p, "policy_file: %s", err.message);
    ruleset_unref(rs);
    if (strv_length(c->mounts_allow) > WARDEN_ALLOWED_MAX)
        config_error(p, "mounts.allow: more than %d directories", WARDEN_ALLOWED_MAX);
    check_rules(p, "gateway_allow_private", c->gateway.allow_private);
    check_ports_domain(p, c);
    check_rules(p, "allowed_hosts", c->gateway.allow_hosts);
    check_rules(p, "disallowed_hosts", c->gateway.deny_hosts);
    check_registries(p, c->keeper.registries);
    check_rules(p, "images_hosts", c->keeper.hosts);
    check_network(c, p);
    check_secrets(p, &c->secrets);
    int r = find_user(c, &uid, &gid);
    if (r == -EPERM)
        config_error(p, "user: '%s' is root", c->user);
    else if (r < 0)
        config_error(p, "user: there is no user '%s'", c->user);
}

/* --- stages */

/* SIGPIPE is blocked and never read: EPIPE is an answer. */
static int stage_signals(struct error *err)
{
    static const int waiting[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ELEMENTS(waiting); i++)
        sigaddset(&set, waiting[i]);
    return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? error_set(err, ERROR_INTERNAL, errno, "signals")
                                                  : 0;
}

static int stage_listeners(struct daemon *d, struct error *err)
{
    int r = d->config->use_mcp_stdio ? 0 : listeners_open(&d->listeners, d->config, err);
    d->startup.line_mode = d->listeners.n == 0;
    return r;
}

static int stage_state(struct daemon *d, struct error *err)
{
    struct startup *s = &d->startup;
    s->privileged = geteuid() == 0;
    s->uid = geteuid();
    s->gid = getegid();
    if (s->privileged)
        find_user(d->config, &s->uid, &s->gid);
    int r = state_dir_open(&d->state, d->config->state_dir, s->line_mode, s->uid, s->gid, err);
    if (r >= 0 && d->config->images)
        r = state_dir_make_images(&d->state, DROP_KEEPER_UID, err);
    return r;
}

/* The configuration that goes on has the operator's secrets as seals, which only the warden has the
 * key of. */
static int stage_secrets(struct daemon *d, struct error *err)
{
    struct secrets_config *s = &d->config->secrets;
    uint8_t private_key[SEAL_KEY_SIZE], public_key[SEAL_KEY_SIZE];
    char hex[2 * SEAL_KEY_SIZE + 1];
    int r = seal_key_open(d->state.warden_path, private_key, err);
    if (r < 0)
        return r;
    r = seal_public_key(private_key, public_key);
    explicit_bzero(private_key, sizeof(private_key));
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "the warden's key");
    hex_format(public_key, sizeof(public_key), hex);
    s->public_key = xstrdup(hex);
    return s->pairs ? source_seal_all(s->pairs, public_key, &s->sealed, err) : 0;
}

/* What is written to stdout by mistake goes nowhere. */
static int stage_standard_streams(struct daemon *d, struct error *err)
{
    struct startup *s = &d->startup;
    if (s->line_mode) {
        s->line_in = fcntl(0, F_DUPFD_CLOEXEC, LINE_FD_MIN);
        s->line_out = fcntl(1, F_DUPFD_CLOEXEC, LINE_FD_MIN);
        if (s->line_in < 0 || s->line_out < 0)
            return error_set(err, ERROR_INVALID, errno, "line mode needs stdin and stdout");
    }
    _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "/dev/null");
    return 0;
}

static void fill_warden_options(struct daemon *d, struct warden_options *o)
{
    const struct config *c = d->config;
    o->config = c->warden;
    o->state_dir = d->state.warden_path;
    o->store_dir = d->state.path;
    o->mounts_allow = c->mounts_allow;
    o->policy_file = c->policy_file;
    o->fence_dir = c->landlock_dir;
    o->cgroup_prefix = c->cgroup_prefix;
    o->max_sandboxes = (uint32_t)c->manager.max_sandboxes;
    /* Most line-mode daemons live for one call. */
    if (d->startup.line_mode && o->config.blanks > LINE_MODE_BLANKS &&
        config_origin(c, "blanks") == ORIGIN_DEFAULT)
        o->config.blanks = LINE_MODE_BLANKS;
    o->disk_default_bytes = c->default_limits.disk_bytes;
    o->open_files_default = c->default_limits.open_files;
    o->create_timeout_ms = (uint32_t)c->manager.create_timeout_ms;
    o->process_enabled = config_process_enabled(c);
    o->process_uid = d->startup.privileged ? DROP_PROCESS_UID : geteuid();
    o->process_gid = d->startup.privileged ? DROP_PROCESS_UID : getegid();
    /* A temporary directory, and every proof with it, is gone when the daemon is. */
    o->sign_audit = c->use_audit && !d->state.temporary;
    o->audit_checkpoint_file = c->audit_checkpoint_file;
    o->audit_checkpoint_syslog = c->audit_checkpoint_syslog;
    o->podman_socket = config_has_engine(c, "podman") ? c->podman_socket : NULL;
    o->docker_socket = config_has_engine(c, "docker") ? c->docker_socket : NULL;
    o->engine_fd = d->programs.engine;
    o->oci_fd = d->programs.oci;
    o->intercept_fd = d->programs.intercept;
    o->vmm_fd = d->programs.vmm;
    o->machine = c->machine;
    o->net_fd = d->programs.net;
    daemon_fill_network(c, &o->network);
    o->runner_fd = d->programs.runner;
    o->toolnet_fd = d->programs.toolnet;
    o->ceiling = c->max_limits;
    if (!c->image) /* no blank can be armed with one: its owners are mapped for its ids */
        o->usual = c->default_limits;
}

static void fill_log(struct startup *s, const struct config *c)
{
    enum log_level level = LOG_INFO;
    log_level_parse(c->log_level, &level);
    s->log_level = level;
    s->log_json = strcmp(c->log_format, "json") == 0;
}

static void lend_state_dir(struct startup *s, const struct state_dir *state)
{
    s->control_path = state->control_path;
    s->temporary = state->temporary;
    s->state_fd = state->fd;
    s->state_control_fd = state->control_fd;
    s->state_images_fd = state->images_fd;
    s->state_lock_fd = state->lock_fd;
    s->state_parent_fd = state->parent_fd;
}

/* What the warden passes on and does not read. */
static int seal_configurations(struct daemon *d, struct error *err)
{
    struct startup *s = &d->startup;
    s->control_config_fd = handover_seal_config(d->config);
    s->gateway_config_fd = gateway_stage_seal(s->privileged, d->config);
    if (s->control_config_fd < 0 || s->gateway_config_fd < 0)
        return error_set(err, ERROR_INTERNAL, EFBIG, "hand the configuration over");
    if (kube_is_configured(&d->config->kube)) {
        s->kube_fd = d->programs.kube;
        if (s->kube_fd < 0)
            return error_set(err, ERROR_INVALID, 0,
                             "mas-kube is not installed; a cluster needs it");
        s->kube_settings_fd = kube_stage_seal(d->config, d->state.warden_path, err);
        if (s->kube_settings_fd < 0)
            return s->kube_settings_fd;
    }
    if (!d->config->images)
        return 0;
    if (config_runtime(d->config)->is_machine)
        d->config->keeper.disks = true;
    s->keeper_config_fd = keeper_stage_seal(s->privileged, d->config, d->state.images_path);
    return s->keeper_config_fd < 0
               ? error_set(err, ERROR_INTERNAL, -s->keeper_config_fd, "hand the configuration over")
               : 0;
}

static int stage_warden(struct daemon *d, struct error *err)
{
    const struct config *c = d->config;
    struct startup *s = &d->startup;
    fill_warden_options(d, &s->options);
    fill_log(s, c);
    s->faults = c->api.debug_endpoints;
    s->images = c->images;
    s->shutdown_grace_ms = (int64_t)c->shutdown_grace_ms;
    s->control_restarts = c->control_restarts;
    s->control_restart_window_ms = c->control_restart_window_ms;
    s->daemon_dir_fd = d->programs.self_dir;
    s->daemon_name = d->programs.self_name;
    s->default_image_fd = d->programs.default_image;
    lend_state_dir(s, &d->state);
    listeners_hand_over(&d->listeners, s);
    return seal_configurations(d, err);
}

/* The operator's environment holds tokens, and is of no use to root: only what finds programs and
 * the service manager, and what tests set, goes on. */
static char **warden_environment(void)
{
    static const char *const names[] = {"PATH",           "NOTIFY_SOCKET",  "ASAN_OPTIONS",
                                        "UBSAN_OPTIONS",  "LSAN_OPTIONS",   "MAS_FAULT",
                                        "MAS_CLOCK_JUMP", "MAS_CUT_RUNNERS"};
    char **env = xcalloc(ELEMENTS(names) + 1, sizeof(*env)), **next = env;
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (getenv(names[i]))
            *next++ = xasprintf("%s=%s", names[i], getenv(names[i]));
    return env;
}

/* Returns only on failure. */
static int become_warden(const struct startup *s, int program, struct error *err)
{
    static char name[] = "mas-warden", flag[] = STARTUP_FLAG;
    int record = startup_seal(s);
    if (record < 0)
        return error_set(err, ERROR_INTERNAL, -record, "write the warden's record");
    _cleanup_free_ char *number = xasprintf("%d", record);
    char *argv[] = {name, flag, number, NULL};
    _cleanup_strv_ char **env = warden_environment();
    fexecve(program, argv, env);
    return error_set(err, ERROR_INTERNAL, errno, "execute mas-warden");
}

static int start_daemon(struct daemon *d, struct error *err)
{
    int r = stage_signals(err);
    if (r == 0)
        r = stage_listeners(d, err);
    if (r == 0)
        r = programs_open(&d->programs, d->config->libexec_dir, err);
    if (r == 0)
        r = stage_state(d, err);
    if (r == 0)
        r = stage_secrets(d, err);
    if (r == 0)
        r = stage_standard_streams(d, err);
    if (r == 0)
        r = stage_warden(d, err);
    if (r < 0)
        return r;
    return become_warden(&d->startup, d->programs.warden, err);
}

int daemon_run(struct config *c)
{
    static struct daemon d = {.programs = PROGRAMS_INIT, .state = STATE_DIR_INIT};
    struct error err = {0};
    d.config = c;
    startup_init(&d.startup);
    start_daemon(&d, &err);
    log_error("cannot start: %s", err.message);
    listeners_close(&d.listeners);
    state_dir_close(&d.state);
    return 1;
}

int daemon_clean(const struct config *c)
{
    static struct startup s;
    struct error err = {0};
    struct state_dir state = STATE_DIR_INIT;
    struct programs programs;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0)
        find_user(c, &uid, &gid);
    /* A state directory in use is its daemon's to clean; the cgroups of others still go. */
    if (state_dir_open(&state, c->state_dir, false, uid, gid, &err) < 0)
        log_info("state directory is left alone: %s", err.message);
    startup_init(&s);
    s.mode = STARTUP_CLEAN;
    s.options.state_dir = state.warden_path;
    s.options.cgroup_prefix = c->cgroup_prefix;
    s.options.fence_dir = c->landlock_dir;
    s.state_lock_fd = state.lock_fd;
    fill_log(&s, c);
    if (programs_open(&programs, c->libexec_dir, &err) == 0)
        become_warden(&s, programs.warden, &err);
    log_error("cannot clean: %s", err.message);
    state_dir_close(&state);
    return 1;
}
