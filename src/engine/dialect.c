/* SPDX-License-Identifier: Apache-2.0 */
/* Which engine and which of its runtimes a sandbox is for, and whose the container is on the host:
 * the warden's block of ids, unless the engine has others. */
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"

/* podman first: it also names the component that docker is known by. */
static const struct engine_dialect *const dialects[] = {
    [OCI_PODMAN] = &dialect_podman,
    [OCI_DOCKER] = &dialect_docker,
};
_Static_assert(ELEMENTS(dialects) == _OCI_BACKEND_MAX, "the engines are the last backends");

const struct engine_runtime engine_runtimes[] = {
    [OCI_CRUN] = {.name = "crun"},
    [OCI_RUNC] = {.name = "runc"},
    [OCI_RUNSC] = {.name = "runsc",
                   .own_kernel = true,
                   .process = "runsc",
                   .advice = "runsc needs --host-uds=open in the engine's configuration"},
    [OCI_KATA] = {.name = "kata-runtime", .own_kernel = true},
};

const struct engine_dialect *engine_dialect(const struct engine *e)
{
    return dialects[e->order.backend];
}

const struct engine_runtime *engine_runtime(const struct engine *e)
{
    return e->order.inner ? &engine_runtimes[e->order.inner] : NULL;
}

bool engine_own_kernel(const struct engine *e)
{
    const struct engine_runtime *r = engine_runtime(e);
    return r && r->own_kernel;
}

static const json_t *component_named(const json_t *version, const char *name)
{
    const json_t *component;
    size_t i;
    json_array_foreach(json_object_get(version, "Components"), i, component)
    {
        const char *own = json_string_value(json_object_get(component, "Name"));
        if (own && strcmp(own, name) == 0)
            return component;
    }
    return NULL;
}

const struct engine_dialect *engine_dialect_find(const json_t *version, const json_t **ret)
{
    for (size_t i = 0; i < ELEMENTS(dialects); i++)
        if (dialects[i] && (*ret = component_named(version, dialects[i]->component)))
            return dialects[i];
    return NULL;
}

const char *engine_dialect_name(const struct engine_dialect *d)
{
    size_t i = 0;
    while (dialects[i] != d)
        i++;
    return oci_backend_name((enum oci_backend)i);
}

int engine_find_users(struct engine *e)
{
    const struct engine_order *o = &e->order;
    bool nobody = o->child.flags & PLAN_TOOL_NOBODY;
    e->users = MECHANISM_UID_RANGE;
    e->runner_id = o->runner_id;
    e->tool_id = nobody ? o->nobody_id : o->tool_id;
    e->tool_inside = nobody ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    return engine_dialect(e)->find_users ? engine_dialect(e)->find_users(e) : 0;
}
