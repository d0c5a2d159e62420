/* SPDX-License-Identifier: Apache-2.0 */
/* docker. The root of its containers is an image with the places that everything else is bound to:
 * the template's directories, the disk, the runner. It has one range of ids for all containers,
 * where its operator gave it one, or none: then the runner is the host's root, with three rights
 * and no new ones, and the tool has an id of the warden's block inside, too. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "builder/mount.h"
#include "builder/flavour.h"
#include "builder/root.h"
#include "oci/seccomp.h"

#define NANO_PER_MILLI 1000000
#define PROFILE_MAX    (1024 * 1024)
#define RANGE_LEAST    65536 /* ids that a range must have to hold all of ours */

/* --- whose its containers are */

static bool is_remapped(const json_t *info)
{
    const json_t *option;
    size_t i;
    json_array_foreach(json_object_get(info, "SecurityOptions"), i, option)
    {
        const char *text = json_string_value(option);
        if (text && strcmp(text, "name=userns") == 0)
            return true;
    }
    return false;
}

/* Its directory ends in the range's first ids: "/var/lib/docker/165536.165536". A range that begins
 * with root is none. */
static int remapped_first(const json_t *info, uint32_t *ret)
{
    const char *root = json_string_value(json_object_get(info, "DockerRootDir"));
    const char *slash = root ? strrchr(root, '/') : NULL;
    char expected[32];
    unsigned long long first = slash ? strtoull(slash + 1, NULL, 10) : 0;
    if (first == 0 || first > UINT32_MAX - RANGE_LEAST)
        return -EPROTO;
    snprintf(expected, sizeof(expected), "/%llu.%llu", first, first);
    if (strcmp(slash, expected) != 0)
        return -EPROTO;
    *ret = (uint32_t)first;
    return 0;
}

static int docker_find_users(struct engine *e)
{
    _cleanup_json_ json_t *info = NULL;
    uint32_t first = 0;
    int status = api_get(e, &info, "/info");
    if (status != 200)
        return status < 0 ? status : -EIO;
    if (!is_remapped(info)) {
        e->users = MECHANISM_UID_HOST;
        e->runner_id = 0;
        e->tool_inside = e->tool_id;
        return 0;
    }
    e->users = MECHANISM_UID_ENGINE;
    int r = remapped_first(info, &first);
    if (r < 0) {
        snprintf(e->rest.why, sizeof(e->rest.why), "its user namespace has no range that is known");
        return r;
    }
    e->runner_id = first;
    e->tool_id = first + e->tool_inside;
    return 0;
}

/* --- what it is asked for */

/* -1 where a path is no text, which JSON cannot say. */
static int add_mount(json_t *list, const char *target, const char *source, bool read_only)
{
    return json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Target", target, "Source",
                        source, "ReadOnly", read_only, "BindOptions", "Propagation", "rprivate"));
}

static bool is_view_dir(const struct engine *e, const char *name)
{
    /* The engine's own, or the disk's. */
    static const char *const image_not[] = {"proc",  "sys",       "dev", "tmp",
                                            "cache", "workspace", ".mas"};
    static const char *const not_ours[] = {"proc", "sys", "dev",   "run",      "tmp",
                                           "home", "var", "cache", "workspace"};
    for (size_t i = 0; e->image && i < ELEMENTS(image_not); i++)
        if (strcmp(name, image_not[i]) == 0)
            return false;
    for (size_t i = 0; !e->image && i < ELEMENTS(not_ours); i++)
        if (strcmp(name, not_ours[i]) == 0)
            return false;
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void add_view(json_t *list, const struct engine *e)
{
    char path[2 * ENGINE_PATH_SIZE], source[2 * ENGINE_PATH_SIZE + 260], target[260];
    snprintf(path, sizeof(path), "%s/%s", e->root, e->image ? "root" : "view");
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        snprintf(source, sizeof(source), "%s/%s", path, d->d_name);
        if (!is_view_dir(e, d->d_name) || lstat(source, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        snprintf(target, sizeof(target), "/%s", d->d_name);
        add_mount(list, target, source, !e->image);
    }
    closedir(dir);
    if (e->image) {
        snprintf(source, sizeof(source), "%s/view/.mas", e->root);
        add_mount(list, "/.mas", source, true);
        return;
    }
    snprintf(source, sizeof(source), "%s/passwd", e->order.dir);
    add_mount(list, "/etc/passwd", source, true);
    snprintf(source, sizeof(source), "%s/group", e->order.dir);
    add_mount(list, "/etc/group", source, true);
}

static json_t *format_mounts(const struct engine *e)
{
    const struct engine_order *o = &e->order;
    json_t *list = json_array();
    int r = 0;
    char source[2 * ENGINE_PATH_SIZE];
    add_view(list, e);
    for (size_t i = 0; i < n_disk_parts; i++) {
        snprintf(source, sizeof(source), "%s/disk/%s", o->dir, disk_parts[i].name);
        r |= add_mount(list, disk_parts[i].target, source, false);
    }
    for (uint32_t i = 0; i < o->child.n_mounts; i++) {
        snprintf(source, sizeof(source), "%s/m%u", o->dir, i);
        r |= add_mount(list, o->child.mounts[i].target, source, false);
    }
    snprintf(source, sizeof(source), "%s/" ENGINE_LINK, o->dir);
    r |= add_mount(list, OCI_LINK_INSIDE, source, true);
    if (o->child.authority_from_fd && !e->image) {
        snprintf(source, sizeof(source), "%s/" ENGINE_AUTHORITIES, o->dir);
        r |= add_mount(list, ROOT_AUTHORITIES, source, true);
    }
    if (r == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *format_ulimit(const char *name, uint64_t value)
{
    return json_pack("{s:s, s:I, s:I}", "Name", name, "Hard", (json_int_t)value, "Soft",
                     (json_int_t)value);
}

static json_t *format_security(void)
{
    _cleanup_json_ json_t *profile = oci_seccomp_new(false);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(PROFILE_MAX);
    if (strbuf_puts(&text, "seccomp=") < 0 || json_format(profile, &text) < 0)
        return NULL;
    return json_pack("[s, s]", "no-new-privileges", text.data);
}

static void set_limits(json_t *h, const struct engine *e)
{
    const struct child_order *c = &e->order.child;
    const struct limits *l = &c->limits;
    if (l->memory_bytes) {
        json_object_set_new(h, "Memory", json_integer((json_int_t)l->memory_bytes));
        json_object_set_new(h, "MemorySwap", json_integer((json_int_t)l->memory_bytes));
    }
    if (l->cpu_millicores)
        json_object_set_new(h, "NanoCpus",
                            json_integer((json_int_t)l->cpu_millicores * NANO_PER_MILLI));
    if (l->processes && !engine_own_kernel(e))
        json_object_set_new(h, "PidsLimit", json_integer((json_int_t)l->processes));
    if (l->io_bytes_per_s) {
        json_object_set_new(h, "BlkioDeviceReadBps", io_by_path(e));
        json_object_set_new(h, "BlkioDeviceWriteBps", io_by_path(e));
    }
    json_object_set_new(h, "Ulimits", body_rlimits(e, format_ulimit));
}

static json_t *host_config(const struct engine *e)
{
    json_t *h =
        json_pack("{s:s, s:s, s:s, s:[s], s:o, s:b, s:o, s:o, s:o, s:i, s:{s:s}, s:{s:s}}",
                  "NetworkMode", "none", "IpcMode", "none", "CgroupnsMode", "private", "CapDrop",
                  "ALL", "CapAdd", json_from_words(child_runner_caps), "ReadonlyRootfs", 1,
                  "Mounts", format_mounts(e), "MaskedPaths", body_masked(), "ReadonlyPaths",
                  json_from_words(mount_proc_read_only), "OomScoreAdj", atoi(CHILD_OOM_ADJ),
                  "RestartPolicy", "Name", "no", "LogConfig", "Type", "none");
    json_t *opt = format_security();
    if (!opt) {
        json_decref(h);
        return NULL;
    }
    json_object_set_new(h, "SecurityOpt", opt);
    set_limits(h, e);
    if (engine_runtime(e))
        json_object_set_new(h, "Runtime", json_string(engine_runtime(e)->name));
    return h;
}

static json_t *docker_body(const struct engine *e)
{
    const char *argv[BODY_ARGS_MAX];
    char uid[16];
    body_args(e, argv, uid, sizeof(uid));
    json_t *host = host_config(e);
    if (!host)
        return NULL;
    /* A pipe for its standard input: some runtimes (runsc) make the streams the container's, which
     * must not be the host's /dev/null. */
    return json_pack("{s:s, s:[s], s:o, s:o, s:s, s:s, s:s, s:b, s:b, s:o, s:o}", "Image", e->base,
                     "Entrypoint", argv[0], "Cmd", json_from_words(argv + 1), "Env",
                     json_from_words(child_runner_env), "User", "0:0", "WorkingDir", "/",
                     "Hostname", e->order.child.hostname, "NetworkDisabled", 1, "OpenStdin", 1,
                     "Labels", body_labels(e), "HostConfig", host);
}

static int docker_create(struct engine *e, const json_t *body, json_t **ret)
{
    return api_post(e, body, ret, "/containers/create?name=%s", e->name);
}

static bool docker_can_run(const json_t *info, const char *runtime)
{
    return json_object_get(json_object_get(info, "Runtimes"), runtime);
}

const struct engine_dialect dialect_docker = {
    .component = "Engine",
    .image_at = "/usr",
    .can_run = docker_can_run,
    .find_users = docker_find_users,
    .prepare = image_ensure,
    .body = docker_body,
    .create = docker_create,
    .end_remains = shim_end,
};
