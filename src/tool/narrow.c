/* SPDX-License-Identifier: Apache-2.0 */
/* How a request's policy narrows the sandbox it is for. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/path.h"
#include "tool/tool.h"

/* Places that are the sandbox's own, whatever the host has under the same name. */
static bool is_inside(const char *path)
{
    static const char *const places[] = {"/workspace", "/tmp", "/home/sandbox", "/cache",
                                         "/dev/shm"};
    for (size_t i = 0; i < ELEMENTS(places); i++)
        if (path_below(places[i], path))
            return true;
    return false;
}

static bool is_allowed_host_path(const char *path, char *const *mounts_allow)
{
    for (; mounts_allow && *mounts_allow; mounts_allow++)
        if (path_is_clean(path) && path_below(*mounts_allow, path))
            return true;
    return false;
}

static int add_mount(struct spec *spec, const char *path, struct error *err)
{
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (strcmp(spec->mounts[i].target, path) == 0)
            return 0;
    if (spec->n_mounts == SPEC_MOUNTS_MAX)
        return error_set(err, ERROR_INVALID, 0, "more than %d host paths", SPEC_MOUNTS_MAX);
    spec->mounts[spec->n_mounts++] = (struct spec_mount){xstrdup(path), xstrdup(path), false};
    return 0;
}

static int narrow_workdir(struct spec *spec, const char *workdir, char *const *mounts_allow,
                          struct error *err)
{
    if (is_allowed_host_path(workdir, mounts_allow)) {
        int r = add_mount(spec, workdir, err);
        if (r < 0)
            return r;
    } else if (!path_is_clean(workdir) || !is_inside(workdir)) {
        return error_set(err, ERROR_DENIED, 0, "Workdir '%s' is not under mounts.allow", workdir);
    }
    free(spec->workdir);
    spec->workdir = xstrdup(workdir);
    return 0;
}

int tool_narrow_spec(struct spec *spec, const struct policy *p, char *const *mounts_allow,
                     struct error *err)
{
    if (p->memory_bytes &&
        (!spec->limits.memory_bytes || p->memory_bytes < spec->limits.memory_bytes)) {
        spec->limits.memory_bytes = p->memory_bytes;
        spec->asked[WALL_MEMORY] = true;
    }
    char **env = policy_filter_env(p, spec->env);
    strv_free(spec->env);
    spec->env = env;
    for (char **path = p->allowed_paths; path && *path; path++) {
        int r = is_allowed_host_path(*path, mounts_allow) ? add_mount(spec, *path, err) : 0;
        if (r < 0)
            return r;
    }
    return p->workdir ? narrow_workdir(spec, p->workdir, mounts_allow, err) : 0;
}
