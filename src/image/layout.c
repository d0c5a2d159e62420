/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are a manifest, a configuration and layers by their digests: OCI layouts, what skopeo
 * writes as "dir:", and what is left of a docker-archive when it is taken apart. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "image/below.h"
#include "image/hash.h"
#include "image/info.h"
#include "image/layers.h"
#include "image/manifest.h"
#include "image/unpack.h"

static json_t *read_json(int dir_fd, const char *path, char ret_digest[IMAGE_DIGEST_SIZE],
                         struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BLOB_JSON_MAX);
    if (blob_read_file(dir_fd, path, &text, err) < 0)
        return NULL;
    hash_bytes(text.data, text.len, ret_digest);
    json_t *value = json_parse_object(text.data, text.len, err);
    if (!value)
        error_prefix(err, "'%s'", path);
    return value;
}

static int open_layers(const struct blobs *b, const struct manifest *m, char **diff_ids,
                       struct layers *ret, struct error *err)
{
    layers_init(ret, m->n_layers);
    for (size_t i = 0; i < m->n_layers; i++) {
        struct layer *layer = &ret->items[i];
        layer->fd = blob_open(b, &m->layers[i], err);
        if (layer->fd < 0)
            return layer->fd;
        memcpy(layer->digest, m->layers[i].digest, IMAGE_DIGEST_SIZE);
        memcpy(layer->diff_id, diff_ids[i], IMAGE_DIGEST_SIZE);
        layer->size = m->layers[i].size;
    }
    return 0;
}

static int verify_or_unpack(struct layers *l, int work_fd, struct meter *m, struct image_info *info,
                            struct error *err)
{
    return work_fd < 0 ? layers_verify(l, m, err) : layers_unpack(l, work_fd, m, info, err);
}

/* info gets everything but the digest. */
static int from_manifest(const struct blobs *b, const json_t *manifest, int work_fd,
                         const struct image_options *o, struct image_info *info, struct error *err)
{
    _cleanup_manifest_ struct manifest m = {0};
    _cleanup_layers_ struct layers layers = {0};
    struct meter meter;
    int r = manifest_parse(manifest, &o->limits, &m, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *config = blob_read_json(b, &m.config, err);
    if (!config || manifest_check_kind(config, MANIFEST_CONFIG, err) < 0 ||
        manifest_check_platform(config, err) < 0 ||
        manifest_diff_ids(config, m.n_layers, &info->layers, err) < 0 ||
        image_info_from_config(config, info, err) < 0 ||
        open_layers(b, &m, info->layers, &layers, err) < 0)
        return -EINVAL;
    meter_init(&meter, o, info);
    return verify_or_unpack(&layers, work_fd, &meter, info, err);
}

static int from_blobs(const struct blobs *b, const json_t *manifest, const char *digest,
                      int work_fd, const struct image_options *o, struct image_info *ret,
                      struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = from_manifest(b, manifest, work_fd, o, &info, err);
    if (r < 0)
        return r;
    memcpy(info.digest, digest, IMAGE_DIGEST_SIZE);
    *ret = info;
    info = (struct image_info){0};
    return 0;
}

int image_from_layout(int layout_fd, const char *ref, int work_fd, const struct image_options *o,
                      struct image_info *ret, struct error *err)
{
    const struct blobs b = {layout_fd, "blobs/sha256/"};
    struct descriptor d;
    char type[128], unused[IMAGE_DIGEST_SIZE];
    _cleanup_json_ json_t *index = read_json(layout_fd, "index.json", unused, err);
    if (!index || manifest_choose(&b, index, ref, &d, type, err) < 0)
        return -EINVAL;
    _cleanup_json_ json_t *manifest = blob_read_json(&b, &d, err);
    return manifest ? from_blobs(&b, manifest, d.digest, work_fd, o, ret, err) : -EINVAL;
}

int image_from_skopeo_dir(int dir_fd, int work_fd, const struct image_options *o,
                          struct image_info *ret, struct error *err)
{
    const struct blobs b = {dir_fd, ""};
    char digest[IMAGE_DIGEST_SIZE];
    _cleanup_json_ json_t *manifest = read_json(dir_fd, "manifest.json", digest, err);
    return manifest ? from_blobs(&b, manifest, digest, work_fd, o, ret, err) : -EINVAL;
}

/* --- parts */

/* A layer is the tar itself, so that its diff id is the digest of its file. */
static int open_parts(int parts_fd, char **diff_ids, const struct image_limits *l,
                      struct layers *ret, struct error *err)
{
    const uint64_t max = unpack_largest_tar(l);
    struct stat st;
    char name[32];
    layers_init(ret, strv_length(diff_ids));
    snprintf(name, sizeof(name), "%zu", ret->count);
    if (fstatat(parts_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return error_set(err, ERROR_INVALID, 0,
                         "the image's configuration has %zu diff ids for more layers", ret->count);
    for (size_t i = 0; i < ret->count; i++) {
        struct layer *layer = &ret->items[i];
        snprintf(name, sizeof(name), "%zu", i);
        layer->fd = below_open_plain(parts_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (layer->fd < 0 || fstat(layer->fd, &st) < 0 || !S_ISREG(st.st_mode))
            return error_set(err, ERROR_INVALID, 0, "layer %zu is not there", i + 1);
        if ((uint64_t)st.st_size > max)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "layer %zu is larger than images_max_unpacked_bytes", i + 1);
        layer->size = (uint64_t)st.st_size;
        memcpy(layer->digest, diff_ids[i], IMAGE_DIGEST_SIZE);
        memcpy(layer->diff_id, diff_ids[i], IMAGE_DIGEST_SIZE);
    }
    return 0;
}

static int from_parts(int parts_fd, int work_fd, const struct image_options *o,
                      struct image_info *info, struct error *err)
{
    _cleanup_layers_ struct layers layers = {0};
    struct meter m;
    _cleanup_json_ json_t *config = read_json(parts_fd, IMAGE_PARTS_CONFIG, info->digest, err);
    size_t n = json_array_size(json_object_get(json_object_get(config, "rootfs"), "diff_ids"));
    if (n > o->limits.layers)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the image has %zu layers, images_max_layers is %llu", n,
                         (unsigned long long)o->limits.layers);
    if (!config || manifest_check_kind(config, MANIFEST_CONFIG, err) < 0 ||
        manifest_check_platform(config, err) < 0 ||
        manifest_diff_ids(config, n, &info->layers, err) < 0 ||
        image_info_from_config(config, info, err) < 0 ||
        open_parts(parts_fd, info->layers, &o->limits, &layers, err) < 0)
        return -EINVAL;
    meter_init(&m, o, info);
    return verify_or_unpack(&layers, work_fd, &m, info, err);
}

int image_from_parts(int parts_fd, int work_fd, const struct image_options *o,
                     struct image_info *ret, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = from_parts(parts_fd, work_fd, o, &info, err);
    if (r < 0)
        return r;
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
