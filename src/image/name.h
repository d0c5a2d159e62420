/* SPDX-License-Identifier: Apache-2.0 */
/* Names of entries: from what an archive says to a clean path below the root, or a refusal; and the
 * same names in messages. */
#pragma once

#include "image/image.h"

#define NAME_PATH_MAX 4096

/* Writes the relative path with no empty, "." or ".." component ("" for the root itself). Absolute
 * names, "..", and what is longer or deeper than the limits are refused. `what` is the word for it
 * in the message ("entry", "hard link to"). */
int name_clean(const char *name, const struct image_limits *l, const char *what,
               char ret[NAME_PATH_MAX], struct error *err);

#define NAME_QUOTED_SIZE 208
/* For messages: control and other bytes that are not ASCII as \xNN, cut in the middle when long. */
const char *name_quote(const char *name, char out[NAME_QUOTED_SIZE]);
