/* Who the engine is, what it can enforce, and whether it holds containers of nobody's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"

static bool is_true(const json_t *info, const char *key)
{
    return json_is_true(json_object_get(info, key));
}

static void set_limits(const json_t *info, uint8_t *mechanism)
{
    const char *version = json_string_value(json_object_get(info, "CgroupVersion"));
    uint8_t by = version && strcmp(version, "2") == 0 ? MECHANISM_CGROUP_V2 : MECHANISM_CGROUP_V1;
    if (is_true(info, "MemoryLimit"))
        mechanism[WALL_MEMORY] = by;
    if (is_true(info, "CpuCfsQuota"))
        mechanism[WALL_CPU] = by;
    if (is_true(info, "PidsLimit"))
        mechanism[WALL_PROCESSES] = by;
}

/* podman names all that it was built to know, and its API cannot choose among them (4.3): what
 * counts is the one that its service was started with. */
static bool can_run(const struct engine *e, const json_t *info, const char *name)
{
    const char *own = json_string_value(json_object_get(info, "DefaultRuntime"));
    if (e->order.backend == OCI_PODMAN)
        return own && strcmp(own, name) == 0;
    return json_object_get(json_object_get(info, "Runtimes"), name);
}

static void set_runtimes(const struct engine *e, const json_t *info, uint32_t *features)
{
    static const struct {
        const char *name;
        enum oci_backend inner;
    } names[] = {
        {"crun", OCI_CRUN}, {"runc", OCI_RUNC}, {"runsc", OCI_RUNSC}, {"kata-runtime", OCI_KATA}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (can_run(e, info, names[i].name))
            *features |= FEATURE_OCI(names[i].inner);
}

/* Ours to know: of this state directory, whichever instance made it. */
static bool is_stray(const struct engine *e, const json_t *labels)
{
    const char *instance = json_string_value(json_object_get(labels, LABEL_INSTANCE));
    const char *state = json_string_value(json_object_get(labels, LABEL_STATE));
    const char *id = json_string_value(json_object_get(labels, LABEL_ID));
    char path[2 * ENGINE_PATH_SIZE];
    if (!instance || !state || !id || strcmp(state, e->order.dir) != 0)
        return false;
    if (strcmp(instance, e->order.instance) != 0)
        return true;
    if (strchr(id, '/') || strlen(id) >= PLAN_ID_SIZE)
        return true;
    snprintf(path, sizeof(path), "%s/%s", e->order.dir, id);
    return access(path, F_OK) < 0 && errno == ENOENT;
}

static void sweep(struct engine *e)
{
    _cleanup_json_ json_t *list = NULL;
    const json_t *container;
    size_t i;
    int status =
        api_get(e, &list,
                "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_INSTANCE
                "%%22%%5D%%7D");
    if (status != 200)
        return;
    json_array_foreach(list, i, container)
    {
        const char *id = json_string_value(json_object_get(container, "Id"));
        if (!api_is_id(id) || !is_stray(e, json_object_get(container, "Labels")))
            continue;
        log_info("a container of nobody's is removed id=%.12s", id);
        api_remove(e, id);
    }
}

void probe_ask(struct engine *e, struct engine_message *ret)
{
    _cleanup_json_ json_t *info = NULL;
    int r = api_ask_version(e);
    if (r == 0 && api_get(e, &info, "/info") != 200)
        r = -EPROTO;
    *ret = (struct engine_message){.kind = ENGINE_REPORT, .error = -r};
    if (r < 0) {
        snprintf(ret->text, sizeof(ret->text), "%.150s", e->rest.why);
        return;
    }
    snprintf(ret->text, sizeof(ret->text), "%s", e->version);
    set_limits(info, ret->mechanism);
    io_find_common(e);
    if (ret->mechanism[WALL_MEMORY] == MECHANISM_CGROUP_V2 && e->n_disks)
        ret->mechanism[WALL_IO] = MECHANISM_CGROUP_V2;
    set_runtimes(e, info, &ret->features);
    ret->features |= FEATURE_FREEZER;
    ret->mechanism[WALL_FILESYSTEM] = ret->mechanism[WALL_NETWORK] = MECHANISM_NAMESPACE;
    ret->mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
    if (users_settle(e) == 0)
        ret->mechanism[WALL_USERS] = e->order.backend == OCI_PODMAN ? MECHANISM_UID_RANGE
                                     : e->remapped                  ? MECHANISM_UID_ENGINE
                                                                    : MECHANISM_UID_HOST;
    sweep(e);
}

void task_probe(struct engine *e)
{
    struct engine_message m;
    probe_ask(e, &m);
    fd_send_msg(CHILD_CHANNEL_FD, &m, sizeof(m), NULL, 0);
}
