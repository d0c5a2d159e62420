/* SPDX-License-Identifier: Apache-2.0 */
/* struct image_info as JSON, and the parts of an image's configuration that end in it. */
#pragma once

#include <jansson.h>

#include "image/image.h"

/* A new reference. */
json_t *image_info_format(const struct image_info *info);
/* What image_info_format() made; ret is zeroed on failure. */
int image_info_parse(const json_t *obj, struct image_info *ret, struct error *err);
/* From an image's configuration (OCI and Docker alike) the env, workdir, user and command. Values
 * that no process could be given are refused. */
int image_info_from_config(const json_t *config, struct image_info *info, struct error *err);
/* Empty strings and vectors where there are none yet. */
void image_info_fill(struct image_info *info);
