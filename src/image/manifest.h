/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON of an image says: which manifest of an index, which configuration, which layers. */
#pragma once

#include "image/blob.h"

/* The manifest for this machine in an index, whole or nested; ref as for image_from_layout(). The
 * index is the layout's own. */
int manifest_choose(const struct blobs *b, const json_t *index, const char *ref,
                    struct descriptor *ret, char media_type[128], struct error *err);
/* "linux/amd64" of a configuration must be this machine's. */
int manifest_check_platform(const json_t *config, struct error *err);

/* What a JSON document of an image can be. One that has the marks of another kind as well is
 * refused: read one way and the other, the same digest would be two images. */
enum manifest_kind {
    MANIFEST_INDEX,
    MANIFEST_IMAGE,
    MANIFEST_CONFIG,
    _MANIFEST_KIND_MAX,
};
int manifest_check_kind(const json_t *obj, enum manifest_kind kind, struct error *err);

struct manifest {
    struct descriptor config, *layers;
    size_t n_layers;
};
void manifest_done(struct manifest *m);
#define _cleanup_manifest_ __attribute__((cleanup(manifest_done)))
/* An image manifest, OCI or Docker's; text in *ret is borrowed from obj. */
int manifest_parse(const json_t *obj, const struct image_limits *l, struct manifest *ret,
                   struct error *err);
/* The diff ids of a configuration: exactly n, as info->layers. */
int manifest_diff_ids(const json_t *config, size_t n, char ***ret, struct error *err);
