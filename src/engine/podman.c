/* SPDX-License-Identifier: Apache-2.0 */
/* podman, by its own API: unlike docker's that takes a root that is mounted already and a map of
 * single ids, so that a container has the warden's block of ids and nothing is copied or chowned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "builder/mount.h"
#include "builder/flavour.h"
#include "builder/root.h"

#define CPU_PERIOD_US 100000

/* -1 where a path is no text, which JSON cannot say. */
static int add_mount(json_t *list, const char *target, const char *source, const char *mode)
{
    return json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:[s, s, s, s, s]}", "destination", target, "type", "bind",
                        "source", source, "options", "bind", mode, "nosuid", "nodev", "rprivate"));
}

static json_t *format_mounts(const struct engine *e)
{
    const struct engine_order *o = &e->order;
    json_t *list = json_array();
    int r = 0;
    char source[2 * ENGINE_PATH_SIZE];
    for (size_t i = 0; i < n_disk_parts; i++) {
        snprintf(source, sizeof(source), "%s/disk/%s", o->dir, disk_parts[i].name);
        r |= add_mount(list, disk_parts[i].target, source, "rw");
    }
    for (uint32_t i = 0; i < o->child.n_mounts; i++) {
        snprintf(source, sizeof(source), "%s/m%u", o->dir, i);
        r |= add_mount(list, o->child.mounts[i].target, source, "rw");
    }
    snprintf(source, sizeof(source), "%s/" ENGINE_LINK, o->dir);
    r |= add_mount(list, OCI_LINK_INSIDE, source, "ro");
    if (o->child.authority_from_fd && !e->image) {
        snprintf(source, sizeof(source), "%s/" ENGINE_AUTHORITIES, o->dir);
        r |= add_mount(list, ROOT_AUTHORITIES, source, "ro");
    }
    if (e->image) { /* which has none of ours, or others in their place */
        snprintf(source, sizeof(source), "%s/view/.mas", e->root);
        r |= add_mount(list, "/.mas", source, "ro");
    }
    /* Where podman puts a file of its own. */
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:[s, s, s, s, s]}", "destination",
                                          "/run", "type", "tmpfs", "source", "tmpfs", "options",
                                          "nosuid", "nodev", "noexec", "size=64k", "mode=0755"));
    if (r == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *id_map(const struct engine *e)
{
    const struct engine_order *o = &e->order;
    const struct {
        int inside;
        uint32_t host;
    } ids[] = {{SANDBOX_RUNNER_ID, o->runner_id},
               {SANDBOX_TOOL_ID, o->tool_id},
               {SANDBOX_NOBODY_ID, o->nobody_id}};
    json_t *a = json_array();
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        json_array_append_new(a, json_pack("{s:i, s:I, s:i}", "container_id", ids[i].inside,
                                           "host_id", (json_int_t)ids[i].host, "size", 1));
    return a;
}

static json_t *format_rlimit(const char *type, uint64_t value)
{
    return json_pack("{s:s, s:I, s:I}", "type", type, "hard", (json_int_t)value, "soft",
                     (json_int_t)value);
}

static json_t *format_resources(const struct engine *e)
{
    const struct limits *l = &e->order.child.limits;
    json_t *r = json_object();
    if (l->memory_bytes)
        json_object_set_new(r, "memory",
                            json_pack("{s:I, s:I}", "limit", (json_int_t)l->memory_bytes, "swap",
                                      (json_int_t)l->memory_bytes));
    if (l->cpu_millicores)
        json_object_set_new(r, "cpu",
                            json_pack("{s:I, s:I}", "quota",
                                      (json_int_t)l->cpu_millicores * CPU_PERIOD_US / 1000,
                                      "period", (json_int_t)CPU_PERIOD_US));
    if (l->processes && !engine_own_kernel(e))
        json_object_set_new(r, "pids", json_pack("{s:I}", "limit", (json_int_t)l->processes));
    if (l->io_bytes_per_s)
        json_object_set_new(r, "blockIO",
                            json_pack("{s:o, s:o}", "throttleReadBpsDevice", io_by_number(e),
                                      "throttleWriteBpsDevice", io_by_number(e)));
    return r;
}

static json_t *format_environment(void)
{
    json_t *o = json_object();
    for (const char *const *v = child_runner_env; *v; v++) {
        const char *equals = strchr(*v, '=');
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *v), *v);
        json_object_set_new(o, name, json_string(equals + 1));
    }
    return o;
}

static void set_namespaces(json_t *b)
{
    static const struct {
        const char *key, *mode;
    } all[] = {{"netns", "none"}, {"userns", "private"}, {"cgroupns", "private"},
               {"ipcns", "none"}, {"pidns", "private"},  {"utsns", "private"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        json_object_set_new(b, all[i].key, json_pack("{s:s}", "nsmode", all[i].mode));
}

static void set_security(json_t *b, const struct engine *e)
{
    char profile[2 * ENGINE_PATH_SIZE];
    snprintf(profile, sizeof(profile), "%s/profile", e->order.dir);
    json_object_set_new(b, "seccomp_profile_path", json_string(profile));
    json_object_set_new(b, "cap_drop", json_pack("[s]", "ALL"));
    json_object_set_new(b, "cap_add", json_from_words(child_runner_caps));
    json_object_set_new(b, "no_new_privileges", json_true());
    json_object_set_new(b, "read_only_filesystem", json_boolean(!e->image));
    json_object_set_new(b, "mask", body_masked());
    json_object_set_new(b, "idmappings",
                        json_pack("{s:b, s:b, s:o, s:o}", "HostUIDMapping", 0, "HostGIDMapping", 0,
                                  "UIDMap", id_map(e), "GIDMap", id_map(e)));
    set_namespaces(b);
}

/* What podman would otherwise add of its own. */
static void set_bare(json_t *b)
{
    json_object_set_new(b, "systemd", json_string("false"));
    /* A pipe: crun makes the standard streams the container's, even the host's /dev/null. */
    json_object_set_new(b, "stdin", json_true());
    json_object_set_new(b, "image_volume_mode", json_string("ignore"));
    json_object_set_new(b, "manage_password", json_false());
    json_object_set_new(b, "use_image_hosts", json_true());
    json_object_set_new(b, "use_image_resolve_conf", json_true());
    json_object_set_new(b, "log_configuration", json_pack("{s:s}", "driver", "none"));
    json_object_set_new(b, "oom_score_adj", json_integer(atoi(CHILD_OOM_ADJ)));
}

static json_t *podman_body(const struct engine *e)
{
    const struct child_order *c = &e->order.child;
    const char *argv[BODY_ARGS_MAX];
    char uid[16], root[2 * ENGINE_PATH_SIZE];
    body_args(e, argv, uid, sizeof(uid));
    snprintf(root, sizeof(root), "%s/%s", e->root, e->own_root ? "root" : "view");
    json_t *b = json_pack(
        "{s:s, s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "name", e->name, "rootfs", root,
        "command", json_from_words(argv), "env", format_environment(), "user", "0:0", "work_dir",
        "/", "hostname", c->hostname, "labels", body_labels(e), "mounts", format_mounts(e),
        "resource_limits", format_resources(e), "r_limits", body_rlimits(e, format_rlimit));
    set_security(b, e);
    set_bare(b);
    if (engine_runtime(e))
        json_object_set_new(b, "oci_runtime", json_string(engine_runtime(e)->name));
    return b;
}

static int podman_create(struct engine *e, const json_t *body, json_t **ret)
{
    return api_post(e, body, ret, "/libpod/containers/create");
}

/* podman names all that it was built to know, and its API cannot choose among them (4.3): what
 * counts is the one that its service was started with. */
static bool podman_can_run(const json_t *info, const char *runtime)
{
    const char *own = json_string_value(json_object_get(info, "DefaultRuntime"));
    return own && strcmp(own, runtime) == 0;
}

const struct engine_dialect dialect_podman = {
    .component = "Podman Engine",
    .libpod_least = 4,
    .image_at = "/",
    .image_is_root = true,
    .can_run = podman_can_run,
    .body = podman_body,
    .create = podman_create,
};
