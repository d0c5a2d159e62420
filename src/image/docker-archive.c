/* SPDX-License-Identifier: Apache-2.0 */
/* What `docker save` and `podman save` write: manifest.json, which names a configuration and layers
 * by their places in the archive. The configuration's hash is the image's identity, and its diff
 * ids hold for every layer.
 *
 * A caller that has to be sure of that without reading the archive lets another process take it
 * apart, hashes the parts, and has them unpacked by a third: neither process can give an image the
 * digest of another. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "image/below.h"
#include "image/blob.h"
#include "image/hash.h"
#include "image/layer-stream.h"
#include "image/name.h"
#include "image/spool.h"
#include "image/unpack.h"

#define PARTS_DIR "parts"

static int no_room(int r, struct error *err)
{
    return error_set(err, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
                     "take the archive apart");
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

static int make_part(int parts_fd, const char *name, struct error *err)
{
    int fd = openat(parts_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? no_room(-errno, err) : fd;
}

static int take_config(struct spool *s, const json_t *image, int parts_fd, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BLOB_JSON_MAX);
    const char *name = NULL;
    char said[IMAGE_DIGEST_SIZE], digest[IMAGE_DIGEST_SIZE], q[NAME_QUOTED_SIZE];
    if (json_member_string(image, "Config", &name, err) < 0 || !name)
        return error_set(err, ERROR_INVALID, 0,
                         "the archive's manifest.json names no configuration");
    int r = spool_read(s, name, &text, err);
    if (r < 0)
        return r;
    hash_bytes(text.data, text.len, digest);
    if (*digest_in_name(name, said) && strcmp(said, digest))
        return error_set(err, ERROR_INVALID, EBADMSG, "'%s' is tampered with: it is sha256:%s",
                         name_quote(name, q), digest);
    _cleanup_close_ int to = make_part(parts_fd, IMAGE_PARTS_CONFIG, err);
    if (to < 0)
        return to;
    r = fd_write_all(to, text.data, text.len);
    return r < 0 ? no_room(r, err) : 0;
}

/* *left: what all layers may still take, as tars. */
static int take_layer(struct spool *s, const char *name, size_t number, int parts_fd,
                      struct meter *m, uint64_t *left, struct error *err)
{
    char part[32], digest[IMAGE_DIGEST_SIZE], said[IMAGE_DIGEST_SIZE];
    const void *data;
    uint64_t size;
    ssize_t n;
    _cleanup_layer_stream_ struct layer_stream *in = NULL;
    _cleanup_close_ int from = spool_file(s, name, &size, err);
    snprintf(part, sizeof(part), "%zu", number);
    _cleanup_close_ int to = from < 0 ? from : make_part(parts_fd, part, err);
    if (to < 0 || layer_stream_open(from, m->options->limits.layer_bytes, *left, m, &in, err) < 0)
        return -EINVAL;
    while ((n = layer_stream_next(in, &data, err)) > 0) {
        int r = meter_claim(m, (uint64_t)n, err);
        if (r < 0)
            return r;
        r = fd_write_all(to, data, (size_t)n);
        if (r < 0)
            return no_room(r, err);
        *left -= (uint64_t)n < *left ? (uint64_t)n : *left;
    }
    if (n < 0 || layer_stream_finish(in, digest, NULL, err) < 0)
        return -EINVAL;
    if (*digest_in_name(name, said) && strcmp(said, digest))
        return error_set(err, ERROR_INVALID, EBADMSG,
                         "it is tampered with: its digest is sha256:%s, not sha256:%s", digest,
                         said);
    return 0;
}

static int take_image(struct spool *s, const json_t *image, int parts_fd, struct meter *m,
                      struct error *err)
{
    _cleanup_strv_ char **names = NULL;
    uint64_t left = unpack_largest_tar(&m->options->limits);
    int r = json_member_strv(image, "Layers", m->options->limits.layers, &names, err);
    if (r < 0)
        return r;
    r = take_config(s, image, parts_fd, err);
    if (r < 0)
        return r;
    m->progress.layers = strv_length(names);
    for (size_t i = 0; names && names[i]; i++) {
        m->progress.layer = i + 1;
        r = take_layer(s, names[i], i, parts_fd, m, &left, err);
        if (r < 0) {
            error_prefix(err, "layer %zu", i + 1);
            return r;
        }
    }
    return r;
}

int image_take_apart(int tar_fd, const char *ref, int parts_fd, const struct image_options *o,
                     struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BLOB_JSON_MAX);
    _cleanup_spool_ struct spool *s = NULL;
    struct image_info none = {0};
    struct meter m;
    meter_init(&m, o, &none);
    int r = meter_step(&m, "copy", 0, err);
    if (r == 0)
        r = spool_open(tar_fd, parts_fd, &m, &s, err);
    if (r == 0)
        r = spool_read(s, "manifest.json", &text, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *list = json_parse(text.data, text.len, err);
    if (!list)
        error_prefix(err, "'manifest.json'");
    const json_t *image = list ? choose_image(list, ref, err) : NULL;
    return image ? take_image(s, image, parts_fd, &m, err) : -EINVAL;
}

int image_from_docker_archive(int tar_fd, const char *ref, int work_fd,
                              const struct image_options *o, struct image_info *ret,
                              struct error *err)
{
    _cleanup_close_ int parts = fd_enter_dir_at(work_fd, PARTS_DIR, 0700);
    if (parts < 0)
        return no_room(parts, err);
    int r = image_take_apart(tar_fd, ref, parts, o, err);
    if (r >= 0)
        r = image_from_parts(parts, work_fd, o, ret, err);
    below_remove(work_fd, PARTS_DIR);
    return r;
}
