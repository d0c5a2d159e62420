/* SPDX-License-Identifier: Apache-2.0 */
/* After the sources: files that hold secrets, and everything that concerns more than one key or
 * what the chosen runtime can do. A setting that would be ignored although it matters is an error
 * that names it. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/url.h"
#include "warden/warden.h"

#define MIB              (1024LL * 1024)
#define IMAGES_ALLOW_MAX 64 /* as many as the keeper shows */

/* --- files */

static char *read_secret(const char *key, const char *path, struct config_problems *p)
{
    struct strbuf text = STRBUF_INIT(CONFIG_SECRET_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &text);
    if (r == 0 && text.len && strlen(text.data) == text.len)
        return strbuf_steal(&text);
    if (r == -EFBIG)
        config_error(p, "%s: %s is larger than %d bytes", key, path, CONFIG_SECRET_MAX);
    else if (r < 0)
        config_error(p, "%s: %s: %s", key, path, strerror(-r));
    else
        config_error(p, "%s: %s is empty or holds a NUL byte", key, path);
    strbuf_done(&text);
    return NULL;
}

static void load_token(struct config *c, struct config_problems *p)
{
    struct stat st;
    if (c->api.token) {
        config_error(p, "auth_token and auth_token_file are both set; which one is meant?");
        return;
    }
    if (stat(c->auth_token_file, &st) == 0 && (st.st_mode & 0007))
        config_warn(p, "auth_token_file: every user can read or change %s", c->auth_token_file);
    char *text = read_secret("auth_token_file", c->auth_token_file, p);
    if (!text)
        return;
    text[strcspn(text, "\r\n")] = 0;
    if (!*text)
        config_error(p, "auth_token_file: the first line of %s is empty", c->auth_token_file);
    c->api.token = text;
}

void config_load_secrets(struct config *c, struct config_problems *p)
{
    if (c->auth_token_file)
        load_token(c, p);
    if (c->tls_cert && c->tls_key) {
        free(c->http.tls_cert);
        free(c->http.tls_key);
        c->http.tls_cert = read_secret("tls_cert", c->tls_cert, p);
        c->http.tls_key = read_secret("tls_key", c->tls_key, p);
    }
}

/* --- checks, a function a subject */

/* Relative to where the operator started us, not to wherever a daemon goes later. */
static void make_absolute(char **path, struct config_problems *p)
{
    if (!*path || **path == '/')
        return;
    _cleanup_free_ char *cwd = getcwd(NULL, 0);
    if (!cwd) {
        config_error(p, "'%s' is relative and the working directory is gone", *path);
        return;
    }
    char *absolute = xasprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, *path);
    free(*path);
    *path = absolute;
}

static void check_paths(struct config *c, struct config_problems *p)
{
    config_for_each_key(k) {
        if (k->type == CONFIG_PATH)
            make_absolute((char **)(void *)((char *)c + k->offset), p);
        else if (k->type == CONFIG_PATHS)
            for (char **v = config_value_items(c, k); v && *v; v++)
                make_absolute(v, p);
    }
    for (char **v = c->mounts_allow; v && *v; v++) {
        struct stat st;
        if (stat(*v, &st) < 0)
            config_error(p, "mounts.allow: %s: %s", *v, strerror(errno));
        else if (!S_ISDIR(st.st_mode))
            config_error(p, "mounts.allow: %s is not a directory", *v);
    }
}

static void check_skill_root(const struct config *c, struct config_problems *p)
{
    struct stat st;
    if (!c->api.skill_root)
        return;
    bool allowed = false;
    for (char **v = c->mounts_allow; v && *v; v++)
        allowed =
            allowed || (path_is_clean(c->api.skill_root) && path_below(*v, c->api.skill_root));
    if (!allowed)
        config_error(p, "skill_root: %s is not below mounts.allow", c->api.skill_root);
    else if (stat(c->api.skill_root, &st) < 0)
        config_error(p, "skill_root: %s: %s", c->api.skill_root, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        config_error(p, "skill_root: %s is not a directory", c->api.skill_root);
}

static void check_token(const struct config *c, struct config_problems *p)
{
    for (const char *s = c->api.token; s && *s; s++)
        if (*s <= ' ' || (unsigned char)*s > 0x7e) {
            config_error(p, "auth_token holds a space or a character that headers cannot carry");
            return;
        }
}

static void check_listen(const struct config *c, struct config_problems *p)
{
    if (!c->tls_cert != !c->tls_key)
        config_error(p, "tls_cert and tls_key go together");
    if (c->use_mcp_stdio && c->listen)
        config_warn(p, "listen has no effect with mcp, which speaks on stdin and stdout");
    if (c->tls_cert && !c->listen)
        config_error(p, "tls_cert is set, but nothing is listened on");
    for (char **o = c->api.allowed_origins; o && *o; o++)
        if (!origin_host(*o))
            config_error(p, "allowed_origins: '%s' is not scheme://host[:port]", *o);
    check_token(c, p);
}

/* A size that the file and a key of ours both name would be one of the two. */
static bool machine_says(const struct config *c, const char *member, uint64_t value,
                         const char *key, struct config_problems *p)
{
    if (value && config_origin(c, key) != ORIGIN_DEFAULT)
        config_error(p, "runtime_config: %s and %s are both set; they mean the same", member, key);
    return value != 0;
}

static void check_runtime(struct config *c, struct config_problems *p)
{
    struct machine_sizes sizes = {0};
    machine_config_init(&c->machine, c->microvm_dir);
    if (!c->runtime_config)
        return;
    if (!config_runtime(c)->is_machine) {
        config_error(p, "runtime_config: runtime '%s' takes no configuration file", c->runtime);
        return;
    }
    machine_config_load(&c->machine, &sizes, c->runtime_config, p);
    strv_free(c->machine_cidrs);
    c->machine_cidrs = machine_cidrs_format(&c->machine);
    if (machine_says(c, "machine.vcpu_count", sizes.vcpu_count, "default_cpu_cores", p))
        c->default_limits.cpu_millicores = sizes.vcpu_count * 1000;
    if (machine_says(c, "machine.mem_mib", sizes.mem_mib, "default_memory_mb", p))
        c->default_limits.memory_bytes = (uint64_t)sizes.mem_mib * MIB;
    if (machine_says(c, "pool.size", sizes.pool_size, "microvm_blanks", p))
        c->warden.microvm_blanks = sizes.pool_size;
    if (c->machine.memory_max_bytes && c->machine.memory_max_bytes < c->default_limits.memory_bytes)
        config_error(p,
                     "runtime_config: cgroup.memory_max_bytes is less than the machine's memory");
}

static void check_ceiling(struct config_problems *p, const char *key, double value,
                          const char *ceiling, double max)
{
    if (max > 0 && value > max)
        config_error(p, "%s (%g) is over %s (%g)", key, value, ceiling, max);
}

static const char *key_name_at(size_t offset)
{
    config_for_each_key(k) {
        if (k->offset == offset)
            return k->name;
    }
    return NULL;
}

static void check_limits(const struct config *c, struct config_problems *p)
{
    limit_for_each(row) {
        check_ceiling(p, key_name_at(offsetof(struct config, default_limits) + row->offset),
                      limit_in_unit(row, limit_get(row, &c->default_limits)),
                      key_name_at(offsetof(struct config, max_limits) + row->offset),
                      limit_in_unit(row, limit_get(row, &c->max_limits)));
    }
    check_ceiling(p, "exec_timeout", (double)c->api.exec_timeout_ms, "exec_max_timeout",
                  (double)c->api.exec_max_timeout_ms);
    check_ceiling(p, "journal_exec_bytes", (double)c->journal.limit_bytes, "journal_total_bytes",
                  (double)c->journal.total_limit);
    if ((uint64_t)c->warden.id_first + c->warden.id_count > UINT32_MAX)
        config_error(p, "uid_range_first + uid_range_count is beyond the last uid");
    if (c->warden.id_count / c->warden.id_block < c->manager.max_sandboxes)
        config_error(p, "uid_range_count / uid_block is less than max_sandboxes (%lld)",
                     (long long)c->manager.max_sandboxes);
    if (strchr(c->cgroup_prefix, '/') || c->cgroup_prefix[0] == '.' ||
        strlen(c->cgroup_prefix) > WARDEN_PREFIX_MAX)
        config_error(p, "cgroup_prefix: '%s' is not a name of at most %d characters",
                     c->cgroup_prefix, WARDEN_PREFIX_MAX);
}

/* cpu_limit and mem_limit are the sbx API's names of two of our defaults. */
static void apply_quantities(struct config *c, struct config_problems *p)
{
    if (c->cpu_limit_millicores) {
        if (config_origin(c, "default_cpu_cores") != ORIGIN_DEFAULT)
            config_error(p, "cpu_limit and default_cpu_cores are both set; they mean the same");
        c->default_limits.cpu_millicores = c->cpu_limit_millicores;
    }
    if (c->mem_limit > 0) {
        if (config_origin(c, "default_memory_mb") != ORIGIN_DEFAULT)
            config_error(p, "mem_limit and default_memory_mb are both set; they mean the same");
        if (c->mem_limit < MIB)
            config_error(p, "mem_limit: %lld bytes is below 1Mi", (long long)c->mem_limit);
        c->default_limits.memory_bytes = c->mem_limit / MIB * MIB;
    }
}

/* kube, kube-gvisor, kube-kata. */
static bool runtime_is_pods(const struct config *c)
{
    return config_runtime(c)->needs_cluster;
}

/* Where sandboxes are pods, the name of their image is the cluster's to look up, not ours. */
static void apply_image(struct config *c, struct config_problems *p)
{
    if (!runtime_is_pods(c) || !c->image)
        return;
    if (c->kube.image)
        config_error(p, "image and kube_image are both set; on runtime 'kube' they mean the same");
    free(c->kube.image);
    c->kube.image = steal_ptr(c->image);
}

/* What a broker would refuse every order for. */
static void check_kube(const struct config *c, struct config_problems *p)
{
    static const char *const needs[] = {"kube_context",         "kube_direct_port",
                                        "kube_exec_plugins",    "kube_home",
                                        "kube_image",           "kube_images",
                                        "kube_link_image",      "kube_runtime_classes",
                                        "kube_storage_classes", "kube_unproven_network",
                                        "kube_hostpath",        "kube_shared_namespace"};
    static const char *const brokers[] = {"kube_context",          "kube_direct_from",
                                          "kube_direct_port",      "kube_exec_plugins",
                                          "kube_hostpath",         "kube_images",
                                          "kube_link_image",       "kube_max_disk",
                                          "kube_lease_namespace",  "kube_namespace_prefix",
                                          "kube_node_disk",        "kube_own_users",
                                          "kube_priority_class",   "kube_runtime_classes",
                                          "kube_shared_namespace", "kube_storage_classes",
                                          "kube_uid_count",        "kube_uid_first",
                                          "kube_writable_root",    "orphan_ttl"};
    const struct kube_config *k = &c->kube;
    if ((k->config_file != NULL) + k->in_cluster + (k->socket != NULL) > 1)
        config_error(p, "kube_config, kube_in_cluster and kube_socket: only one of them says how "
                        "the cluster is reached");
    if (kube_is_configured(k) && !k->socket && !k->link_image)
        config_error(p, "kube_link_image: needed with kube_config or kube_in_cluster");
    if (kube_is_configured(k) && !k->socket && !k->images)
        config_error(p, "kube_images: needed with kube_config or kube_in_cluster");
    if (!kube_is_configured(k) && runtime_is_pods(c))
        config_error(p, "runtime: kube needs kube_config, kube_in_cluster or kube_socket");
    for (size_t i = 0; k->socket && i < ELEMENTS(brokers); i++)
        if (config_origin(c, brokers[i]) != ORIGIN_DEFAULT)
            config_warn(p, "%s has no effect with kube_socket: it is in that broker's settings",
                        brokers[i]);
    for (size_t i = 0; !kube_is_configured(k) && i < ELEMENTS(needs); i++)
        if (config_origin(c, needs[i]) != ORIGIN_DEFAULT)
            config_warn(p, "%s has no effect without kube_config or kube_in_cluster", needs[i]);
}

/* A sandbox that asks for a smaller limit has a smaller request; one of the operator's that can
 * never be met is a mistake. */
static void check_requests(const struct config *c, struct config_problems *p)
{
    const struct limits *l = &c->default_limits;
    if (l->cpu_millicores && c->kube.cpu_request_millicores > l->cpu_millicores &&
        config_origin(c, "cpu_request") != ORIGIN_DEFAULT)
        config_error(p, "cpu_request: it is more than cpu_limit");
    if (l->memory_bytes && c->kube.memory_request_bytes > l->memory_bytes)
        config_error(p, "mem_request: it is more than mem_limit");
}

bool config_has_streams(const struct config *c)
{
    return strcmp(c->stream_mode, "sidecar") == 0;
}

/* What mas-stream reads at once, 32 KiB, is up to six times as much as JSON. One that is too long
 * ends the connection, and the next one begins with it again. */
#define STREAM_MESSAGE_LEAST (256 * 1024)

/* Pods have one network for all of their containers, so that commands reach what the stream
 * container reaches: without a key they would have all of the API. */
static void check_streams(const struct config *c, struct config_problems *p)
{
    static const char *const of_sidecars[] = {"stream_sidecar_image", "stream_endpoint",
                                              "stream_events_dir"};
    bool broker = kube_is_configured(&c->kube) && c->kube.socket;
    bool sidecar = config_has_streams(c);
    for (size_t i = 0; i < ELEMENTS(of_sidecars); i++) {
        if (config_origin(c, of_sidecars[i]) == ORIGIN_DEFAULT)
            continue;
        if (!sidecar)
            config_warn(p, "%s has no effect without stream_mode: sidecar", of_sidecars[i]);
        else if (broker)
            config_warn(p, "%s has no effect with kube_socket: it is in that broker's settings",
                        of_sidecars[i]);
    }
    if (!sidecar)
        return;
    if (!kube_is_configured(&c->kube))
        config_error(p, "stream_mode: sidecar needs the kube runtime (kube_config)");
    if (!broker && !c->stream_sidecar_image)
        config_error(p, "stream_sidecar_image: needed with stream_mode: sidecar");
    if (!broker && !c->stream_endpoint)
        config_error(p, "stream_endpoint: needed with stream_mode: sidecar");
    if (c->http.ws_max_message < STREAM_MESSAGE_LEAST)
        config_error(p, "ws_max_message: stream_mode: sidecar needs 256Ki or more");
    if (!c->api.token && !c->auth_token_file && !c->api.require_keys)
        config_error(p,
                     "stream_mode: sidecar lets commands reach this daemon: it needs auth_token, "
                     "auth_token_file or require_keys");
}

static void check_cluster(const struct config *c, struct config_problems *p)
{
    check_kube(c, p);
    bool kube = runtime_is_pods(c);
    if (strcmp(c->api.volume_mode, "pvc") == 0 && !kube)
        config_error(p, "volume_mode: pvc needs the kube runtime");
    if (strcmp(c->api.cache_mode, "pvc") == 0 && !kube)
        config_error(p, "cache_mode: pvc needs the kube runtime");
    check_requests(c, p);
    check_streams(c, p);
    if (c->pool.max && c->pool.min > c->pool.max)
        config_error(p, "warm_pool_min: %lld is more than warm_pool_max", (long long)c->pool.min);
    if (config_origin(c, "warm_control_namespace") != ORIGIN_DEFAULT)
        config_warn(p, "warm_control_namespace has no effect yet");
    static const char *const kube_only[] = {"cpu_request", "mem_request", "cache_pvc_size",
                                            "cache_pvc_storage_class", "cache_pvc_access_mode"};
    for (size_t i = 0; i < ELEMENTS(kube_only) && !kube; i++)
        if (config_origin(c, kube_only[i]) != ORIGIN_DEFAULT)
            config_warn(p, "%s has no effect on runtime '%s'", kube_only[i], c->runtime);
}

/* Keys whose names begin so and that are set, although what they are about is not there. */
static void warn_without(const struct config *c, const char *prefix, const char *why,
                         struct config_problems *p)
{
    config_for_each_key(k) {
        if (strncmp(k->name, prefix, strlen(prefix)) == 0 &&
            config_origin(c, k->name) != ORIGIN_DEFAULT)
            config_warn(p, "%s has no effect %s", k->name, why);
    }
}

static void check_unused(const struct config *c, struct config_problems *p)
{
    if (!c->api.webhook.url)
        warn_without(c, "webhook_", "without webhook_url", p);
    if (!c->use_audit)
        warn_without(c, "audit_", "with audit: false", p);
    if (!c->images)
        warn_without(c, "images_", "with images: false", p);
    if (c->pool.autosize) {
        warn_without(c, "warm_pool_size", "with warm_pool_autosize: true", p);
    } else {
        warn_without(c, "warm_pool_min", "without warm_pool_autosize: true", p);
        warn_without(c, "warm_pool_max", "without warm_pool_autosize: true", p);
    }
}

static void check_audit(const struct config *c, struct config_problems *p)
{
    if (c->audit.max_bytes && !c->audit.retention_ms)
        config_error(p, "audit_max_bytes: drops records that audit_retention: 0 keeps for ever");
}

static void check_images(const struct config *c, struct config_problems *p)
{
    if (c->image && !c->images)
        config_error(p, "image: images are switched off (images: false)");
    if (strv_length(c->keeper.allow) > IMAGES_ALLOW_MAX)
        config_error(p, "images_allow: more than %d directories", IMAGES_ALLOW_MAX);
    for (char **v = c->keeper.insecure_registries; v && *v; v++)
        if (strcmp(*v, "*") == 0)
            config_error(p, "images_insecure_registries: '*' would be every registry");
}

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 && (len == 1 || path[len] == '/' || !path[len]);
}

/* On the host a cache path is a mount like any other. */
static void check_cache(const struct config *c, struct config_problems *p)
{
    if (strcmp(c->api.cache_mode, "hostpath") != 0)
        return;
    if (runtime_is_pods(c)) {
        if (!c->kube.host_path && !c->kube.socket)
            config_error(p, "cache_mode: hostpath needs kube_hostpath: true on runtime 'kube'");
        return;
    }
    for (char **v = c->mounts_allow; v && *v; v++)
        if (is_below(c->api.cache_hostpath, *v))
            return;
    config_error(p, "cache_mode: hostpath %s is not under mounts.allow", c->api.cache_hostpath);
}

static void check_engines(const struct config *c, struct config_problems *p)
{
    for (char **v = c->engines; v && *v; v++)
        if (!runtime_is_engine(*v))
            config_error(p, "engines: there is no container engine '%s' (podman, docker)", *v);
}

void config_check(struct config *c, struct config_problems *p)
{
    check_engines(c, p);
    check_paths(c, p);
    check_skill_root(c, p);
    check_listen(c, p);
    check_runtime(c, p);
    apply_quantities(c, p);
    apply_image(c, p);
    check_limits(c, p);
    check_cluster(c, p);
    check_audit(c, p);
    check_images(c, p);
    check_cache(c, p);
    check_unused(c, p);
}
