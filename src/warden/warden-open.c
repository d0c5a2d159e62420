/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden takes from the host at its start and keeps as descriptors. The order of
 * warden_open_host() matters: what needs the host's view is opened first, ids before mounts (an
 * ordinary user gets rights over mounts only with a user namespace), the template root last. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/key-memory.h"
#include "base/log.h"
#include "secret/seal-key.h"
#include "warden/local/root.h"
#include "warden/state.h"
#include "warden/sweep.h"

static int open_state(struct warden *w, struct error *err)
{
    const char *path = w->options.state_dir;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make '%s'", path);
    w->state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->state_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", path);
    return 0;
}

static int open_signer(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    if (!o->sign_audit)
        return 0;
    int r = signer_open(&w->signer, w->state_fd, err);
    if (r < 0)
        return r;
    r = o->audit_checkpoint_file ? signer_open_file(&w->signer, o->audit_checkpoint_file, err) : 0;
    if (r < 0)
        return r;
    return o->audit_checkpoint_syslog ? signer_open_syslog(&w->signer, err) : 0;
}

/* The key of the seals, and the program that they are for. */
static int open_intercept(struct warden *w, struct error *err)
{
    if (w->options.intercept_fd < 0)
        return 0;
    w->intercept_fd = fcntl(w->options.intercept_fd, F_DUPFD_CLOEXEC, 0);
    if (w->intercept_fd < 0)
        return error_set(err, ERROR_INTERNAL, errno, "mas-intercept");
    w->seal_key = key_memory_new(SEAL_KEY_SIZE);
    if (!w->seal_key)
        return error_set(err, ERROR_UNAVAILABLE, errno, "memory for the key of the seals");
    return seal_key_open(w->options.state_dir, w->seal_key, err);
}

/* Leftovers, cgroups, disks: all that is found by host paths and kept as descriptors. */
static int open_host_parts(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = open_state(w, err);
    if (r < 0)
        return r;
    r = open_signer(w, err);
    if (r < 0)
        return r;
    r = open_intercept(w, err);
    if (r < 0)
        return r;
    int swept = sweep_cgroups(o->cgroup_prefix);
    swept = (swept < 0 ? 0 : swept) + sweep_images(w->state_fd, o->cgroup_prefix);
    if (swept)
        log_info("swept leftovers of dead wardens count=%d", swept);
    cgroup_root_open(&w->cgroups, o->cgroup_prefix);
    disks_add(&w->cgroups.disks, w->state_fd);
    _cleanup_close_ int usr = open("/usr", O_PATH | O_CLOEXEC);
    if (usr >= 0)
        disks_add(&w->cgroups.disks, usr);
    disk_maker_open(&w->disks, w->state_fd, o->config.disk_templates, w->cgroups.instance);
    for (int kind = 0; kind < _CELL_KIND_MAX && r >= 0; kind++)
        r = cell_kinds[kind]->open_host ? cell_kinds[kind]->open_host(w, err) : 0;
    return r;
}

/* Opened from the host view's own namespace: only there may they be cloned later. */
static int open_allowed(struct warden *w, struct error *err)
{
    char *const *dirs = w->options.mounts_allow;
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "enter the host view");
    const char *dir = w->options.store_dir ? w->options.store_dir : w->options.state_dir;
    w->store_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = w->store_fd < 0 ? error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", dir) : 0;
    for (; r == 0 && dirs && dirs[w->n_allowed]; w->n_allowed++) {
        int fd = open(dirs[w->n_allowed], O_PATH | O_DIRECTORY | O_CLOEXEC);
        w->allowed_fds[w->n_allowed] = fd;
        if (fd < 0)
            r = error_set(err, ERROR_INVALID, errno, "mounts.allow: '%s'", dirs[w->n_allowed]);
    }
    if (setns(w->own_ns_fd, CLONE_NEWNS) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "leave the host view");
    return r;
}

/* The directory, not the file: editors replace a file by another of its name. */
static int open_policy_dir(struct warden *w, struct error *err)
{
    const char *path = w->options.policy_file;
    if (!path)
        return 0;
    const char *slash = strrchr(path, '/');
    if (!slash || !slash[1])
        return error_set(err, ERROR_INVALID, 0, "policy_file: '%s' names no file", path);
    _cleanup_free_ char *dir = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    w->policy_dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->policy_dir_fd < 0)
        return error_set(err, ERROR_INVALID, errno, "policy_file: '%s'", dir);
    w->policy_name = xstrdup(slash + 1);
    return 0;
}

void warden_set_no_namespaces(struct warden *w, const char *why)
{
    if (w->no_namespaces[0])
        return;
    snprintf(w->no_namespaces, sizeof(w->no_namespaces), "%s", why);
    log_warn("this host allows no namespaces: %s; sandboxes can be of the landlock runtime only",
             why);
}

/* What the host forbids is known from now on, and no reason not to start: the landlock runtime
 * needs none of it. */
static int forgive_unsupported(struct warden *w, int r, struct error *err)
{
    if (r >= 0 || err->code != ERROR_UNSUPPORTED)
        return r;
    warden_set_no_namespaces(w, err->message);
    error_clear(err);
    return 0;
}

static int enter_root(struct warden *w, struct error *err)
{
    const struct root_options root = {
        .scratch_dir = w->options.state_dir,
        .runner_fd = w->options.runner_fd,
        .toolnet_fd = w->options.toolnet_fd,
        .vmm_fd = w->options.vmm_fd,
    };
    int r = w->no_namespaces[0] ? 0 : root_enter(&root, &w->host_ns_fd, &w->own_ns_fd, err);
    r = forgive_unsupported(w, r, err);
    if (r < 0)
        return r;
    w->disks.host_ns_fd = w->host_ns_fd;
    w->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->proc_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open /proc");
    return w->no_namespaces[0] ? 0 : open_allowed(w, err); /* nothing else has mounts */
}

static int open_ids(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    int r = id_range_open(&w->ids, o->config.id_first, o->config.id_count, o->config.id_block, err);
    if (r < 0 && forgive_unsupported(w, r, err) == 0) {
        id_range_share(&w->ids);
        return 0;
    }
    return r;
}

int warden_open_host(struct warden *w, struct error *err)
{
    int r = open_host_parts(w, err);
    if (r < 0)
        return r;
    r = open_policy_dir(w, err);
    if (r < 0)
        return r;
    r = open_ids(w, err);
    if (r < 0)
        return r;
    return enter_root(w, err);
}
