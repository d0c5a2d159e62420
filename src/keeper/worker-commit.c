/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a job: room in the budget, the rename that makes an image visible, the answer.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "keeper/internal.h"

/* --- room */

struct keep {
    const json_t *digests;
    int64_t now_ns;
    struct image_store *store;
};

static bool is_kept(void *arg, const char *digest)
{
    const struct keep *keep = arg;
    size_t i;
    json_t *item;
    json_array_foreach(keep->digests, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), digest) == 0)
            return true;
    }
    _cleanup_image_info_ struct image_info info = {0};
    if (image_store_find(keep->store, digest, &info, NULL) < 0)
        return false;
    return keep->now_ns - info.last_use_ns < KEEPER_GC_GRACE_MS * 1000000LL;
}

static int evict_images(struct worker *w, const json_t *answer, struct error *err)
{
    struct keep keep = {json_object_get(answer, "keep"), clock_real_ns(), w->store};
    uint64_t max = (uint64_t)json_integer_value(json_object_get(answer, "max_bytes"));
    _cleanup_strv_ char **victims = NULL;
    int r = image_store_victims(w->store, max, is_kept, &keep, &victims, err);
    for (char **v = victims; r >= 0 && v && *v; v++) {
        log_info("image is removed to make room digest=%s", *v);
        r = image_store_remove(w->store, *v, err);
    }
    if (r < 0)
        return r;
    _cleanup_image_list_ struct image_list left = {0};
    uint64_t used = 0;
    r = image_store_list(w->store, &left, err);
    for (size_t i = 0; i < left.count; i++)
        used += left.items[i].size_bytes;
    if (r >= 0 && used > max)
        r = error_set(
            err, ERROR_NO_SPACE, 0,
            "the images are over images_max_bytes, and those that could make room are in use");
    return r;
}

/* Waits until the budget has room for the image that is about to be visible. */
static int make_room(struct worker *w, const struct image_info *info, struct error *err)
{
    if (info->size_bytes > w->o->config.max_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0, "the image is larger than images_max_bytes");
    worker_tell(w, json_pack("{s:I}", "need", (json_int_t)info->size_bytes));
    _cleanup_json_ json_t *answer = worker_ask(w);
    if (!answer)
        return error_set(err, ERROR_TIMEOUT, 0,
                         "there was no answer about what may be removed for the image");
    return json_object_get(answer, "go") ? 0 : evict_images(w, answer, err);
}

static size_t env_bytes(const struct image_info *info)
{
    size_t n = 0;
    for (char *const *e = info->env; e && *e; e++)
        n += strlen(*e);
    return n;
}

int worker_commit(struct worker *w, struct image_info *info, const char *source, const char *name,
                  struct error *err)
{
    if (!info->files)
        return error_set(err, ERROR_INVALID, 0, "there is nothing in the image");
    if (env_bytes(info) >= KEEPER_ENV_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "the image's environment is over %d bytes",
                         KEEPER_ENV_MAX);
    int r = w->o->config.disks ? disk_make(w, info, err) : 0;
    if (r < 0)
        return r;
    r = make_room(w, info, err);
    if (r < 0)
        return r;
    free(info->name);
    info->name = xstrdup(source);
    r = image_store_commit(w->store, w->work, info, err);
    if (r < 0)
        return r;
    if (name && *name)
        r = image_store_name(w->store, name, info->digest, err);
    return r;
}

int worker_finish(struct worker *w, const char *digest, bool fetched, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = image_store_find(w->store, digest, &info, err);
    if (r < 0)
        return r;
    r = image_store_touch(w->store, digest, err);
    if (r < 0)
        return r;
    json_t *view =
        w->asked ? keeper_view_of(w->store, w->o, w->asked, &info) : keeper_view(w->store, &info);
    json_object_set_new(view, "fetched", json_boolean(fetched));
    worker_tell(w, json_pack("{s:o}", "done", view));
    return 0;
}

int worker_unpack(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                  const char *from, const char *name, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = unpack_image(w, kind, source, ref, &info, err);
    if (r < 0)
        return r;
    r = worker_commit(w, &info, from, name, err);
    if (r < 0)
        return r;
    return worker_finish(w, info.digest, true, err);
}
