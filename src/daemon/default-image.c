/* SPDX-License-Identifier: Apache-2.0 */
/* The image that every sandbox has that names no other: it is there before a caller can ask for
 * one, so that no call waits for it and a daemon without it does not start. */
#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/control-internal.h"
#include "keeper/images.h"

struct default_image {
    struct image_wait wait;
    struct spec *spec;
    const char *name;
    struct error err;
    bool done;
};

static void on_default_image(struct image_wait *w, const struct image_found *found,
                             const struct error *err)
{
    struct default_image *d = container_of(w, struct default_image, wait);
    d->done = true;
    if (err)
        d->err = *err;
    else
        spec_set_image(d->spec, d->name, found->digest, found->env, found->workdir, found->names);
}

/* A registry that is down must not keep what is here from being used. */
int control_find_default_image(struct control *k, struct error *err)
{
    const char *name = k->ctx->config->image, *policy = NULL;
    while (name) {
        struct default_image d = {.wait = {.on_found = on_default_image, .policy = policy},
                                  .spec = &k->default_spec,
                                  .name = name};
        int r = images_resolve(k->images, name, &d.wait, err);
        if (r < 0)
            return r;
        loop_run(k->ctx->loop, 0, &d.done);
        if (!d.done)
            error_set(&d.err, ERROR_INTERNAL, 0, "the image keeper has gone");
        if (!error_is_set(&d.err))
            return 0;
        error_prefix(&d.err, "image '%s'", name);
        if (policy) {
            *err = d.err;
            return -ENOENT;
        }
        log_warn("%s; looking for it here", d.err.message);
        policy = "never";
    }
    return 0;
}
