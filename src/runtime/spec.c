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
    free(s->workdir);
    free(s->image);
    free(s->image_digest);
    spec_init(s);
}

void spec_copy(struct spec *dst, const struct spec *src)
{
    *dst = *src;
    dst->runtime = src->runtime ? xstrdup(src->runtime) : NULL;
    dst->workdir = src->workdir ? xstrdup(src->workdir) : NULL;
    dst->image = src->image ? xstrdup(src->image) : NULL;
    dst->image_digest = src->image_digest ? xstrdup(src->image_digest) : NULL;
    dst->env = strv_copy(src->env);
    dst->hosts = strv_copy(src->hosts);
    for (size_t i = 0; i < src->n_mounts; i++) {
        dst->mounts[i].source = xstrdup(src->mounts[i].source);
        dst->mounts[i].target = xstrdup(src->mounts[i].target);
    }
}

int spec_wall_parse(const char *name)
{
    for (int w = 0; w < _WALL_MAX; w++)
        if (strcmp(name, wall_name((enum wall)w)) == 0)
            return w;
    return -1;
}
