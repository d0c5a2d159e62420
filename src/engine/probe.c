/* SPDX-License-Identifier: Apache-2.0 */
/* Who the engine is, what it can enforce, and whether it holds containers without a record. */
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

static void set_runtimes(const struct engine *e, const json_t *info, uint32_t *features)
{
    for (unsigned i = OCI_NONE + 1; i < OCI_PODMAN; i++)
        if (engine_dialect(e)->can_run(info, engine_runtimes[i].name))
            *features |= FEATURE_OCI(i);
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

static void sweep_containers(struct engine *e)
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
        log_info("a container without a sandbox is removed id=%.12s", id);
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
    if (ret->mechanism[WALL_MEMORY] == MECHANISM_CGROUP_V2 && e->disks.n)
        ret->mechanism[WALL_IO] = MECHANISM_CGROUP_V2;
    set_runtimes(e, info, &ret->features);
    ret->features |= FEATURE_FREEZER;
    ret->mechanism[WALL_FILESYSTEM] = ret->mechanism[WALL_NETWORK] = MECHANISM_NAMESPACE;
    ret->mechanism[WALL_SYSCALLS] = MECHANISM_SECCOMP;
    if (engine_find_users(e) == 0)
        ret->mechanism[WALL_USERS] = (uint8_t)e->users;
    sweep_containers(e);
}

void task_probe(struct engine *e)
{
    struct engine_message m;
    probe_ask(e, &m);
    fd_send_msg(CHILD_CHANNEL_FD, &m, sizeof(m), NULL, 0);
}
