/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that wait for a sandbox to be ready or gone. */
#pragma once

#include <jansson.h>

struct api_request;
struct error;
struct sandbox;
struct spec;

void sandbox_reply_ready(struct api_request *req, struct sandbox *sb, int status,
                         json_t *(*view)(struct sandbox *sb));
void sandbox_reply_deleted(struct api_request *req, struct sandbox *sb, int status,
                           json_t *(*view)(struct sandbox *sb));
/* Makes a sandbox from spec, whose contents it takes and which it leaves empty, once its image is
 * known, and answers when it is ready. name (NULL if there is none) must live as long as the
 * request. begin is optional: it is called when the sandbox is made, which is deleted again where
 * begin fails. */
void sandbox_reply_created(struct api_request *req, struct spec *spec, const char *name, int status,
                           json_t *(*view)(struct sandbox *sb),
                           int (*begin)(struct api_request *req, struct sandbox *sb,
                                        struct error *err));
/* What an earlier try with the same key made before a restart kept its answer; NULL: nothing, then
 * *name (where it is NULL) becomes the name under which a later try finds it. */
struct sandbox *sandbox_of_key(struct api_request *req, const char **name);
/* DNS-1123, at most 63. */
int sandbox_name_check(const char *name, struct error *err);
