/* SPDX-License-Identifier: Apache-2.0 */
/* The volumes of the sbx API: what /workspace and /cache of a sandbox are kept on. */
#pragma once

#include <jansson.h>

struct api_config;
struct error;
struct spec;

/* The members of a request, with the operator's settings for what it does not say. An unknown
 * word, and what the spec's runtime does not have, is refused by name. */
int volume_json_parse(const struct api_config *c, const json_t *body, struct spec *s,
                      struct error *err);
