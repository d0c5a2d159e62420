/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/spec.h"

#include <string.h>

#include "base/alloc.h"

void spec_init(struct spec *s)
{
    *s = (struct spec){0};
}

void spec_done(struct spec *s)
{
    free(s->runtime);
    for (size_t i = 0; i < s->n_mounts; i++) {
        free(s->mounts[i].source);
        free(s->mounts[i].target);
    }
    strv_free(s->env);
    strv_free(s->hosts);
    strv_free(s->cidrs);
    strv_free(s->lent);
    strv_free(s->denied_hosts);
    strv_free(s->inject);
    strv_free(s->intercept_hosts);
    free(s->workdir);
    free(s->image);
    free(s->image_digest);
    strv_free(s->image_env);
    free(s->image_workdir);
    strv_free(s->image_names);
    free(s->snapshot);
    spec_init(s);
}

void spec_copy(struct spec *dst, const struct spec *src)
{
    *dst = *src;
    dst->runtime = src->runtime ? xstrdup(src->runtime) : NULL;
    dst->workdir = src->workdir ? xstrdup(src->workdir) : NULL;
    dst->image = src->image ? xstrdup(src->image) : NULL;
    dst->image_digest = src->image_digest ? xstrdup(src->image_digest) : NULL;
    dst->image_env = src->image_env ? strv_copy(src->image_env) : NULL;
    dst->image_names = src->image_names ? strv_copy(src->image_names) : NULL;
    dst->image_workdir = src->image_workdir ? xstrdup(src->image_workdir) : NULL;
    dst->snapshot = src->snapshot ? xstrdup(src->snapshot) : NULL;
    dst->env = strv_copy(src->env);
    dst->hosts = strv_copy(src->hosts);
    dst->cidrs = strv_copy(src->cidrs);
    dst->lent = src->lent ? strv_copy(src->lent) : NULL;
    dst->denied_hosts = strv_copy(src->denied_hosts);
    dst->inject = src->inject ? strv_copy(src->inject) : NULL;
    dst->intercept_hosts = src->intercept_hosts ? strv_copy(src->intercept_hosts) : NULL;
    for (size_t i = 0; i < src->n_mounts; i++) {
        dst->mounts[i].source = xstrdup(src->mounts[i].source);
        dst->mounts[i].target = xstrdup(src->mounts[i].target);
    }
}

/* Who runs commands is ours to say, whatever the image was made for. */
static bool is_identity(const char *entry)
{
    static const char *const names[] = {"HOME=", "USER=", "LOGNAME="};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char **copy_image_env(char *const *env)
{
    char **copy = xcalloc(strv_length(env) + 1, sizeof(*copy));
    for (size_t n = 0; env && *env; env++)
        if (**env != '=' && strchr(*env, '=') && !is_identity(*env))
            copy[n++] = xstrdup(*env);
    return copy;
}

void spec_set_image(struct spec *s, const char *image, const char *digest, char *const *env,
                    const char *workdir, char *const *names)
{
    char *const asked[] = {(char *)image, NULL};
    free(s->image);
    free(s->image_digest);
    strv_free(s->image_env);
    free(s->image_workdir);
    strv_free(s->image_names);
    s->image_names = image && digest ? strv_copy(names && *names ? names : asked) : NULL;
    s->image = image ? xstrdup(image) : NULL;
    s->image_digest = image && digest ? xstrdup(digest) : NULL;
    s->image_env = s->image_digest ? copy_image_env(env) : NULL;
    s->image_workdir = s->image_digest && workdir && *workdir ? xstrdup(workdir) : NULL;
}

const char *spec_workdir(const struct spec *s)
{
    return s->workdir ? s->workdir : s->image_workdir;
}

int spec_wall_parse(const char *name)
{
    for (int w = 0; w < _WALL_MAX; w++)
        if (strcmp(name, wall_name((enum wall)w)) == 0)
            return w;
    return -1;
}
