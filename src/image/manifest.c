/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

#define INDEX_DEPTH_MAX   4
#define INDEX_ENTRIES_MAX 1024
#define REF_ANNOTATION    "org.opencontainers.image.ref.name"

static const char *const index_types[] = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json", NULL};
static const char *const manifest_types[] = {"application/vnd.oci.image.manifest.v1+json",
                                             "application/vnd.docker.distribution.manifest.v2+json",
                                             NULL};
static const char *const config_types[] = {"application/vnd.oci.image.config.v1+json",
                                           "application/vnd.docker.container.image.v1+json", NULL};
static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    NULL};

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(text, *list))
            return true;
    return false;
}

/* Machines as uname(2) and as images name them. */
static const char *const architectures[][2] = {
    {"x86_64", "amd64"},    {"aarch64", "arm64"},   {"i686", "386"},    {"armv7l", "arm"},
    {"ppc64le", "ppc64le"}, {"riscv64", "riscv64"}, {"s390x", "s390x"}, {"loongarch64", "loong64"},
};

static const char *host_architecture(void)
{
    static _Thread_local struct utsname u;
    if (uname(&u) < 0)
        return "unknown";
    for (size_t i = 0; i < ELEMENTS(architectures); i++)
        if (!strcmp(u.machine, architectures[i][0]))
            return architectures[i][1];
    return u.machine;
}

int manifest_check_platform(const json_t *config, struct error *err)
{
    const char *os = json_member_text(config, "os"),
               *arch = json_member_text(config, "architecture");
    if ((*os && strcmp(os, "linux")) || (*arch && strcmp(arch, host_architecture())))
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the image is for %.40s/%.40s, this is linux/%s", os, arch,
                         host_architecture());
    return 0;
}

/* One without a platform may be for any; its configuration tells. */
static bool fits_platform(const json_t *entry)
{
    const json_t *p = json_object_get(entry, "platform");
    if (!json_is_object(p))
        return true;
    return !strcmp(json_member_text(p, "os"), "linux") &&
           !strcmp(json_member_text(p, "architecture"), host_architecture());
}

static bool fits_ref(const json_t *entry, const char *ref)
{
    return !ref ||
           !strcmp(json_member_text(json_object_get(entry, "annotations"), REF_ANNOTATION), ref) ||
           (!strncmp(ref, "sha256:", 7) && !strcmp(json_member_text(entry, "digest"), ref));
}

static int choose_entry(const json_t *index, const char *ref, bool only_one, const json_t **ret,
                        struct error *err)
{
    json_t *list = NULL, *entry, *found = NULL;
    size_t i, named = 0, fitting = 0;
    if (json_member_array(index, "manifests", &list, err) < 0)
        return -EINVAL;
    if (json_array_size(list) > INDEX_ENTRIES_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "an index of more than %d manifests",
                         INDEX_ENTRIES_MAX);
    json_array_foreach(list, i, entry)
    {
        if (!fits_ref(entry, ref))
            continue;
        named++;
        if (!fits_platform(entry))
            continue;
        fitting++;
        found = found ? found : entry;
    }
    if (ref && !named)
        return error_set(err, ERROR_NOT_FOUND, 0, "the layout has no image '%.200s'", ref);
    if (!found)
        return error_set(err, ERROR_UNSUPPORTED, 0, "no image for linux/%s", host_architecture());
    if (only_one && fitting > 1)
        return error_set(err, ERROR_INVALID, 0, "the layout has %zu images: name one", fitting);
    *ret = found;
    return 0;
}

/* Members that only one kind has. */
static const char *const kind_marks[_MANIFEST_KIND_MAX][3] = {
    [MANIFEST_INDEX] = {"manifests"},
    [MANIFEST_IMAGE] = {"layers", "schemaVersion"},
    [MANIFEST_CONFIG] = {"rootfs", "history"},
};

/* One document that is both an index and a manifest means different images to different readers:
 * what another program scanned, or signed, need not be what runs here (CVE-2021-41190). */
int manifest_check_kind(const json_t *obj, enum manifest_kind kind, struct error *err)
{
    for (size_t other = 0; other < _MANIFEST_KIND_MAX; other++)
        for (const char *const *mark = kind_marks[other]; other != kind && *mark; mark++) {
            bool shared = kind == MANIFEST_INDEX && !strcmp(*mark, "schemaVersion");
            if (!shared && json_object_get(obj, *mark))
                return error_set(
                    err, ERROR_INVALID, 0,
                    "the image has a document that could be read as two kinds: it also has '%s'",
                    *mark);
        }
    return 0;
}

static bool is_index(const struct descriptor *d, const json_t *obj)
{
    return is_one_of(d->media_type, index_types) ||
           (!*d->media_type && json_object_get(obj, "manifests"));
}

int manifest_choose(const struct blobs *b, const json_t *index, const char *ref,
                    struct descriptor *ret, char media_type[128], struct error *err)
{
    _cleanup_json_ json_t *at = json_incref((json_t *)index);
    for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
        const json_t *entry = NULL;
        if (manifest_check_kind(at, MANIFEST_INDEX, err) < 0 ||
            choose_entry(at, depth ? NULL : ref, depth == 0, &entry, err) < 0 ||
            descriptor_parse(entry, "manifest", ret, err) < 0)
            return -EINVAL;
        snprintf(media_type, 128, "%s", ret->media_type);
        ret->media_type = media_type;
        json_t *next = blob_read_json(b, ret, err);
        if (!next)
            return -EINVAL;
        json_decref(at);
        at = next;
        if (!is_index(ret, at))
            return 0;
    }
    return error_set(err, ERROR_INVALID, 0, "indexes nested deeper than %d", INDEX_DEPTH_MAX);
}

void manifest_done(struct manifest *m)
{
    free(m->layers);
    *m = (struct manifest){0};
}

static int check_type(const char *type, const char *const *known, const char *what,
                      struct error *err)
{
    if (!*type || is_one_of(type, known))
        return 0;
    return error_set(err, ERROR_UNSUPPORTED, 0, "the image's %s is of the type '%.120s'", what,
                     type);
}

int manifest_parse(const json_t *obj, const struct image_limits *l, struct manifest *ret,
                   struct error *err)
{
    _cleanup_manifest_ struct manifest m = {0};
    json_t *layers = NULL, *layer;
    const char *type = "";
    size_t i;
    if (manifest_check_kind(obj, MANIFEST_IMAGE, err) < 0 ||
        json_member_string(obj, "mediaType", &type, err) < 0 ||
        check_type(type, manifest_types, "manifest", err) < 0 ||
        json_member_array(obj, "layers", &layers, err) < 0 ||
        descriptor_parse(json_object_get(obj, "config"), "configuration", &m.config, err) < 0 ||
        check_type(m.config.media_type, config_types, "configuration", err) < 0)
        return -EINVAL;
    m.n_layers = json_array_size(layers);
    if (m.n_layers > l->layers)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the image has %zu layers, images_max_layers is %llu", m.n_layers,
                         (unsigned long long)l->layers);
    m.layers = xcalloc(m.n_layers + 1, sizeof(*m.layers));
    json_array_foreach(layers, i, layer)
    {
        if (descriptor_parse(layer, "layer", &m.layers[i], err) < 0 ||
            check_type(m.layers[i].media_type, layer_types, "layer", err) < 0)
            return -EINVAL;
        if (m.layers[i].size > l->layer_bytes)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "layer sha256:%s is larger than images_max_layer_bytes",
                             m.layers[i].digest);
    }
    *ret = m;
    m.layers = NULL;
    return 0;
}

int manifest_diff_ids(const json_t *config, size_t n, char ***ret, struct error *err)
{
    json_t *rootfs = NULL;
    _cleanup_strv_ char **ids = NULL;
    if (json_member_object(config, "rootfs", &rootfs, err) < 0 ||
        (rootfs && json_member_strv(rootfs, "diff_ids", n, &ids, err) < 0)) {
        error_prefix(err, "the image's configuration");
        return -EINVAL;
    }
    if (strv_length(ids) != n)
        return error_set(err, ERROR_INVALID, 0,
                         "the image's configuration has %zu diff ids for %zu layers",
                         strv_length(ids), n);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(ids[i], "sha256:", 7) || !image_digest_is_valid(ids[i] + 7))
            return error_set(err, ERROR_INVALID, 0, "the diff id '%.80s' is not a sha256", ids[i]);
        memmove(ids[i], ids[i] + 7, IMAGE_DIGEST_SIZE);
    }
    *ret = ids ? ids : xcalloc(1, sizeof(*ids));
    ids = NULL;
    return 0;
}
