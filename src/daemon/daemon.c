/* Start-up in stages, each of which needs what the next one gives up:
 *
 *   signals      wait in a descriptor from now on
 *   listeners    while we may bind and see paths
 *   programs     opened, because the warden's root does not have them
 *   state        made, locked, given to the control plane's user
 *   stdin/stdout set aside: only the control plane of line mode ever has them
 *   warden       this process moves into its own namespaces
 *   supervision  gateway and control plane are forked, the loop runs
 *
 * and the way back in reverse. */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/drop.h"
#include "daemon/listeners.h"
#include "daemon/notify.h"
#include "daemon/programs.h"
#include "store/state-dir.h"
#include "daemon/supervise.h"
#include "gateway/rule.h"
#include "policy/rules.h"
#include "warden/warden.h"

#define LINE_MODE_BLANKS 1
#define LINE_FD_MIN      16 /* out of the way of anything that expects low numbers */

struct daemon {
    const struct config *config;
    struct listeners listeners;
    struct programs programs;
    struct state_dir state;
    struct warden *warden;
    struct supervise_options supervise;
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

static void check_policy(struct config_problems *p, const char *path)
{
    struct error err = {0};
    struct ruleset *rs = path ? ruleset_load(path, &err) : NULL;
    if (path && !rs)
        config_error(p, "policy_file: %s", err.message);
    ruleset_unref(rs);
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
    check_policy(p, c->policy_file);
    check_rules(p, "gateway_allow_private", c->gateway_allow_private);
    check_rules(p, "allowed_hosts", c->allowed_hosts);
    check_rules(p, "disallowed_hosts", c->disallowed_hosts);
    int r = find_user(c, &uid, &gid);
    if (r == -EPERM)
        config_error(p, "user: '%s' is root", c->user);
    else if (r < 0)
        config_error(p, "user: there is no user '%s'", c->user);
}

/* --- stages */

static int stage_signals(struct daemon *d, struct error *err)
{
    int fd = supervise_block_signals();
    if (fd < 0)
        return error_set(err, ERROR_INTERNAL, -fd, "signals");
    d->supervise.signal_fd = fd;
    d->supervise.notify_fd = notify_open();
    return 0;
}

static int stage_listeners(struct daemon *d, struct error *err)
{
    int r = d->config->use_mcp_stdio ? 0 : listeners_open(&d->listeners, d->config, err);
    d->supervise.line_mode = d->listeners.n == 0;
    return r;
}

static int stage_state(struct daemon *d, struct error *err)
{
    struct supervise_options *s = &d->supervise;
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

/* Whoever writes to stdout by mistake writes to nowhere. */
static int stage_standard_streams(struct daemon *d, struct error *err)
{
    struct supervise_options *s = &d->supervise;
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

/* Without a root of its own the control plane has to pass through, as another user; what it is not
 * to see there belongs to root alone. The next start closes it again. */
static int open_state_dir(struct daemon *d, struct error *err)
{
    if (!d->supervise.privileged || warden_has_own_root(d->warden))
        return 0;
    if (fchmod(d->state.fd, 0711) < 0)
        return error_set(err, ERROR_INVALID, errno, "let the control plane into '%s'",
                         d->state.path);
    return 0;
}

static int stage_warden(struct daemon *d, struct error *err)
{
    const struct config *c = d->config;
    struct warden_options o;
    warden_options_init(&o);
    o.state_dir = d->state.warden_path;
    o.store_dir = d->state.path;
    o.mounts_allow = c->mounts_allow;
    o.policy_file = c->policy_file;
    o.fence_dir = c->landlock_dir;
    o.cgroup_prefix = c->cgroup_prefix;
    o.id_first = c->uid_range_first;
    o.id_count = c->uid_range_count;
    o.id_block = c->uid_block;
    o.max_sandboxes = (uint32_t)c->manager.max_sandboxes;
    o.blanks = c->blanks;
    o.oci_blanks = c->oci_blanks;
    /* Most line-mode daemons live for one call. */
    if (d->supervise.line_mode && o.blanks > LINE_MODE_BLANKS &&
        config_origin(c, "blanks") == ORIGIN_DEFAULT)
        o.blanks = LINE_MODE_BLANKS;
    o.memory_reserve_bytes = c->memory_reserve_bytes;
    o.state_reserve_bytes = c->state_reserve_bytes;
    o.tmpfs_max_bytes = c->tmpfs_max_bytes;
    o.disk_templates = c->disk_templates;
    o.inotify_instances = c->inotify_instances;
    o.inotify_watches = c->inotify_watches;
    o.fanotify_groups = c->fanotify_groups;
    o.fanotify_marks = c->fanotify_marks;
    o.disk_default_bytes = c->default_limits.disk_bytes;
    o.disk_default_inodes = c->default_disk_inodes;
    o.open_files_default = c->default_limits.open_files;
    o.create_timeout_ms = (uint32_t)c->manager.create_timeout_ms;
    o.process_enabled = config_process_enabled(c);
    o.process_uid = d->supervise.privileged ? DROP_PROCESS_UID : geteuid();
    o.process_gid = d->supervise.privileged ? DROP_PROCESS_UID : getegid();
    /* A temporary directory, and every proof with it, is gone when the daemon is. */
    o.sign_audit = c->use_audit && !d->state.temporary;
    o.audit_checkpoint_file = c->audit_checkpoint_file;
    o.audit_checkpoint_syslog = c->audit_checkpoint_syslog;
    o.podman_socket = config_has_engine(c, "podman") ? c->podman_socket : NULL;
    o.docker_socket = config_has_engine(c, "docker") ? c->docker_socket : NULL;
    o.engine_timeout_ms = c->engine_timeout_ms;
    o.engine_connect_timeout_ms = c->engine_connect_timeout_ms;
    o.engine_start_timeout_ms = c->engine_start_timeout_ms;
    o.engine_fd = d->programs.engine;
    o.runner_fd = d->programs.runner;
    o.toolnet_fd = d->programs.toolnet;
    o.ceiling = c->max_limits;
    if (!c->image) /* no blank can be armed with one: its owners are mapped for its ids */
        o.usual = c->default_limits;
    if (c->api.debug_endpoints)
        fault_arm(getenv("MAS_FAULT"), FAULT_WARDEN);
    d->warden = warden_new(&o, err);
    return d->warden ? open_state_dir(d, err) : -EINVAL;
}

static int start(struct daemon *d, struct error *err)
{
    int r = stage_signals(d, err);
    if (r == 0)
        r = stage_listeners(d, err);
    if (r == 0)
        r = programs_open(&d->programs, d->config->libexec_dir, err);
    if (r == 0)
        r = stage_state(d, err);
    if (r == 0)
        r = stage_standard_streams(d, err);
    if (r == 0)
        r = stage_warden(d, err);
    return r;
}

static void finish(struct daemon *d)
{
    listeners_close(&d->listeners);
    warden_free(d->warden);
    state_dir_close(&d->state);
    programs_close(&d->programs);
    fd_close(&d->supervise.line_in);
    fd_close(&d->supervise.line_out);
    fd_close(&d->supervise.signal_fd);
    fd_close(&d->supervise.notify_fd);
}

int daemon_run(const struct config *c)
{
    struct error err = {0};
    struct daemon d = {
        .config = c,
        .programs = PROGRAMS_INIT,
        .state = STATE_DIR_INIT,
        .supervise = {.signal_fd = -1, .notify_fd = -1, .line_in = -1, .line_out = -1},
    };
    int code = 1;
    if (start(&d, &err) < 0) {
        log_error("cannot start: %s", err.message);
    } else {
        d.supervise.config = c;
        d.supervise.warden = d.warden;
        d.supervise.programs = &d.programs;
        d.supervise.listeners = &d.listeners;
        d.supervise.state = &d.state;
        code = supervise(&d.supervise);
    }
    finish(&d);
    return code;
}

int daemon_clean(const struct config *c)
{
    struct error err = {0};
    struct state_dir state = STATE_DIR_INIT;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0)
        find_user(c, &uid, &gid);
    /* A state directory in use is its daemon's to clean; the cgroups of others still go. */
    if (state_dir_open(&state, c->state_dir, false, uid, gid, &err) < 0)
        log_info("state directory is left alone: %s", err.message);
    int removed =
        warden_clean(state.warden_path ? state.warden_path : "", c->cgroup_prefix, c->landlock_dir);
    state_dir_close(&state);
    if (removed < 0) {
        log_error("cannot clean: %s", strerror(-removed));
        return 1;
    }
    printf("removed %d leftovers\n", removed);
    return 0;
}
