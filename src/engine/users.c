/* Whose the container is on the host. podman maps the warden's block of ids. docker has one range
 * for all containers, where its operator gave it one, or none: then the runner is the host's root,
 * with three rights and no new ones, and the tool has an id of the warden's block inside, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "warden/local/userns.h"

#define RANGE_LEAST 65536

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

/* Its directory ends in the range's first ids: "/var/lib/docker/165536.165536". */
static int remapped_first(const json_t *info, uint32_t *ret)
{
    const char *root = json_string_value(json_object_get(info, "DockerRootDir"));
    const char *slash = root ? strrchr(root, '/') : NULL;
    char expected[32];
    unsigned long long first = slash ? strtoull(slash + 1, NULL, 10) : 0;
    /* A range that begins with root is none, and one must have room for all of ours. */
    if (first == 0 || first > UINT32_MAX - RANGE_LEAST)
        return -EPROTO;
    snprintf(expected, sizeof(expected), "/%llu.%llu", first, first);
    if (strcmp(slash, expected) != 0)
        return -EPROTO;
    *ret = (uint32_t)first;
    return 0;
}

int users_settle(struct engine *e)
{
    _cleanup_json_ json_t *info = NULL;
    const struct engine_order *o = &e->order;
    bool nobody = o->child.flags & PLAN_TOOL_NOBODY;
    uint32_t first = 0;
    e->runner_id = o->runner_id;
    e->tool_id = nobody ? o->nobody_id : o->tool_id;
    e->tool_inside = nobody ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    if (o->backend == OCI_PODMAN)
        return 0;
    int status = api_get(e, &info, "/info");
    if (status != 200)
        return status < 0 ? status : -EIO;
    e->remapped = is_remapped(info);
    if (!e->remapped) {
        e->runner_id = 0;
        e->tool_inside = e->tool_id;
        return 0;
    }
    int r = remapped_first(info, &first);
    if (r < 0) {
        snprintf(e->rest.why, sizeof(e->rest.why), "its user namespace has no range that is known");
        return r;
    }
    e->runner_id = first;
    e->tool_id = first + e->tool_inside;
    return 0;
}
