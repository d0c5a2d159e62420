/* What `docker save` and `podman save` write: manifest.json, which names a configuration and layers
 * by their places in the archive. The configuration's hash is the image's identity, and its diff
 * ids hold for every layer. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "image/hash.h"
#include "image/info.h"
#include "image/layers.h"
#include "image/manifest.h"
#include "image/name.h"
#include "image/spool.h"

static json_t *read_json(struct spool *s, const char *name, char ret_digest[IMAGE_DIGEST_SIZE],
                         struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BLOB_JSON_MAX);
    char q[NAME_QUOTED_SIZE];
    if (spool_read(s, name, &text, err) < 0)
        return NULL;
    hash_bytes(text.data, text.len, ret_digest);
    json_t *value = json_parse(text.data, text.len, err);
    if (!value)
        error_prefix(err, "'%s'", name_quote(name, q));
    return value;
}

static bool has_tag(const json_t *image, const char *ref)
{
    json_t *tag;
    size_t i;
    json_array_foreach(json_object_get(image, "RepoTags"), i, tag)
    {
        const char *text = json_string_value(tag);
        if (text && !strcmp(text, ref))
            return true;
    }
    return false;
}

static const json_t *choose_image(const json_t *list, const char *ref, struct error *err)
{
    json_t *image;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) == 0) {
        error_set(err, ERROR_INVALID, 0, "the archive's manifest.json lists no image");
        return NULL;
    }
    if (!ref && json_array_size(list) > 1) {
        error_set(err, ERROR_INVALID, 0, "the archive has %zu images: name one by its tag",
                  json_array_size(list));
        return NULL;
    }
    json_array_foreach(list, i, image)
    {
        if (json_is_object(image) && (!ref || has_tag(image, ref)))
            return image;
    }
    error_set(err, ERROR_NOT_FOUND, 0, "the archive has no image '%.200s'", ref ? ref : "");
    return NULL;
}

/* Where a name ends with a digest (HEX, HEX.json) the content must be it. */
static const char *digest_in_name(const char *name, char ret[IMAGE_DIGEST_SIZE])
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    size_t n = strcspn(base, ".");
    ret[0] = 0;
    if (n != IMAGE_DIGEST_SIZE - 1 || (base[n] && strcmp(base + n, ".json")))
        return ret;
    memcpy(ret, base, n);
    ret[n] = 0;
    if (!image_digest_is_valid(ret))
        ret[0] = 0;
    return ret;
}

static json_t *read_config(struct spool *s, const json_t *image, char ret_digest[IMAGE_DIGEST_SIZE],
                           struct error *err)
{
    const char *name = NULL;
    char said[IMAGE_DIGEST_SIZE], q[NAME_QUOTED_SIZE];
    if (json_member_string(image, "Config", &name, err) < 0 || !name) {
        error_set(err, ERROR_INVALID, 0, "the archive's manifest.json names no configuration");
        return NULL;
    }
    _cleanup_json_ json_t *config = read_json(s, name, ret_digest, err);
    if (!config)
        return NULL;
    if (!json_is_object(config)) {
        error_set(err, ERROR_INVALID, 0, "the archive's configuration is not an object");
        return NULL;
    }
    if (*digest_in_name(name, said) && strcmp(said, ret_digest)) {
        error_set(err, ERROR_INVALID, EBADMSG, "'%s' is tampered with: it is sha256:%s",
                  name_quote(name, q), ret_digest);
        return NULL;
    }
    return json_incref(config);
}

static int open_layers(struct spool *s, char **names, char **diff_ids, struct layers *ret,
                       struct error *err)
{
    layers_init(ret, strv_length(names));
    for (size_t i = 0; i < ret->count; i++) {
        struct layer *layer = &ret->items[i];
        layer->fd = spool_file(s, names[i], &layer->size, err);
        if (layer->fd < 0)
            return layer->fd;
        digest_in_name(names[i], layer->digest);
        memcpy(layer->diff_id, diff_ids[i], IMAGE_DIGEST_SIZE);
    }
    return 0;
}

static int from_spool(struct spool *s, const char *ref, int work_fd, struct meter *m,
                      struct image_info *info, struct error *err)
{
    _cleanup_layers_ struct layers layers = {0};
    _cleanup_strv_ char **names = NULL;
    char unused[IMAGE_DIGEST_SIZE];
    _cleanup_json_ json_t *list = read_json(s, "manifest.json", unused, err);
    const json_t *image = list ? choose_image(list, ref, err) : NULL;
    if (!image || json_member_strv(image, "Layers", m->options->limits.layers, &names, err) < 0)
        return -EINVAL;
    _cleanup_json_ json_t *config = read_config(s, image, info->digest, err);
    if (!config || manifest_check_kind(config, MANIFEST_CONFIG, err) < 0 ||
        manifest_check_platform(config, err) < 0 ||
        manifest_diff_ids(config, strv_length(names), &info->layers, err) < 0 ||
        image_info_from_config(config, info, err) < 0 ||
        open_layers(s, names, info->layers, &layers, err) < 0)
        return -EINVAL;
    return layers_unpack(&layers, work_fd, m, info, err);
}

int image_from_docker_archive(int tar_fd, const char *ref, int work_fd,
                              const struct image_options *o, struct image_info *ret,
                              struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_spool_ struct spool *s = NULL;
    struct meter m;
    meter_init(&m, o, &info);
    int r = meter_step(&m, "copy", 0, err);
    if (r == 0)
        r = spool_open(tar_fd, work_fd, &m, &s, err);
    if (r == 0)
        r = from_spool(s, ref, work_fd, &m, &info, err);
    if (r < 0)
        return r;
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
