/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper answers at once, from its store. */
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "keeper/internal.h"
#include "keeper/keeper-proto.h"
#include "keeper/reference.h"

#define TEXTS_MAX (8 * 1024) /* of what is only shown, so that a record holds it */

static json_t *texts_to_json(char *const *v, size_t max)
{
    json_t *list = json_array();
    for (size_t used = 0; v && *v && used < max; v++) {
        used += strlen(*v);
        if (used < max)
            json_array_append_new(list, json_message(*v));
    }
    return list;
}

json_t *keeper_view(struct image_store *store, const struct image_info *info)
{
    _cleanup_strv_ char **names = NULL;
    image_store_names(store, info->digest, &names, NULL);
    return json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I}", "digest", info->digest,
        "names", texts_to_json(names, TEXTS_MAX), "source",
        json_message(info->name ? info->name : ""), "size_bytes", (json_int_t)info->size_bytes,
        "files", (json_int_t)info->files, "created_ns", (json_int_t)info->created_ns, "last_use_ns",
        (json_int_t)info->last_use_ns, "env", texts_to_json(info->env, KEEPER_ENV_MAX), "workdir",
        json_message(info->workdir ? info->workdir : ""), "user",
        json_message(info->user ? info->user : ""), "cmd", texts_to_json(info->cmd, TEXTS_MAX),
        "layers", (json_int_t)strv_length(info->layers));
}

json_t *keeper_view_of(struct image_store *store, const struct keeper_options *o, const char *text,
                       const struct image_info *info)
{
    char digest[IMAGE_DIGEST_SIZE];
    struct error ignored = {0};
    bool is_name = image_store_resolve(store, text, digest, &ignored) >= 0;
    _cleanup_free_ char *shown = reference_show(text, o->config.default_registry, is_name);
    json_t *view = keeper_view(store, info);
    if (shown)
        json_object_set_new(view, "reference", json_message(shown));
    return view;
}

int keeper_find(struct image_store *store, const struct keeper_options *o, const char *text,
                struct image_info *ret, struct error *err)
{
    char digest[IMAGE_DIGEST_SIZE];
    struct error ignored = {0};
    _cleanup_reference_ struct reference ref = {0};
    int r = image_store_resolve(store, text, digest, err);
    if (r < 0 && err->code == ERROR_NOT_FOUND &&
        reference_parse(text, o->config.default_registry, &ref, &ignored) >= 0) {
        _cleanup_free_ char *full = reference_format(&ref);
        error_clear(err);
        r = image_store_resolve(store, full, digest, err);
    }
    if (r < 0 && err->code == ERROR_NOT_FOUND) {
        error_clear(err);
        return error_set(
            err, ERROR_NOT_FOUND, 0,
            "there is no image '%.200s' here ('sbx image ls' shows what there is, 'sbx "
            "image pull' and 'sbx image build-from-tar' add to it)",
            text);
    }
    if (r < 0)
        return r;
    return image_store_find(store, digest, ret, err);
}

bool keeper_is_local(const char *text)
{
    return strncmp(text, "sha256:", 7) == 0 || image_digest_is_valid(text);
}

/* An image that a caller gave that name is that caller's. */
bool keeper_default_is_old(const struct keeper_options *o, const struct image_info *info)
{
    struct stat ours, name;
    _cleanup_free_ char *path = xasprintf("%s/names/" KEEPER_DEFAULT, o->dir);
    if (o->default_fd < 0 || strcmp(info->name, KEEPER_DEFAULT) != 0)
        return false;
    if (fstat(o->default_fd, &ours) < 0 || stat(path, &name) < 0)
        return false;
    return ours.st_mtim.tv_sec > name.st_mtim.tv_sec;
}

void keeper_answer_list(struct keeper *k, const json_t *request, int64_t id, struct error *err)
{
    _cleanup_image_list_ struct image_list list = {0};
    (void)request;
    if (image_store_list(k->store, &list, err) < 0)
        return;
    uint64_t used = 0;
    for (size_t i = 0; i < list.count; i++) {
        used += list.items[i].size_bytes;
        keeper_send(k, json_pack("{s:I, s:o}", "id", (json_int_t)id, "item",
                                 keeper_view(k->store, &list.items[i])));
    }
    keeper_send(k, json_pack("{s:I, s:{s:I, s:I}}", "id", (json_int_t)id, "done", "used_bytes",
                             (json_int_t)used, "max_bytes", (json_int_t)k->o->config.max_bytes));
}

void keeper_answer_find(struct keeper *k, const json_t *request, int64_t id, struct error *err)
{
    const char *text = json_string_value(json_object_get(request, "image"));
    _cleanup_image_info_ struct image_info info = {0};
    if (keeper_find(k->store, k->o, text ? text : "", &info, err) < 0)
        return;
    if (json_is_true(json_object_get(request, "use")))
        image_store_touch(k->store, info.digest, NULL);
    keeper_send(
        k, json_pack("{s:I, s:o}", "id", (json_int_t)id, "done", keeper_view(k->store, &info)));
}

void keeper_answer_touch(struct keeper *k, const json_t *request, int64_t id, struct error *err)
{
    const char *digest = json_string_value(json_object_get(request, "digest"));
    struct error ignored = {0};
    (void)id;
    (void)err;
    if (digest && image_digest_is_valid(digest) &&
        image_store_touch(k->store, digest, &ignored) < 0)
        log_debug("image cannot be touched: %s", ignored.message);
}
