/* SPDX-License-Identifier: Apache-2.0 */
/* Absolute paths as text. Nothing here touches the file system. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Absolute, no empty, "." or ".." components, no trailing slash (but "/" itself). */
bool path_is_clean(const char *path);
/* A relative path without ".", doubled and trailing slashes ("" for the directory itself) into out.
 * -EPERM for one that is absolute or has "..", even where that would stay below; -ENAMETOOLONG. */
int path_normalize(const char *path, char *out, size_t size);
/* Whether the kernel takes a path of this length with names of these lengths: 0 or -ENAMETOOLONG.
 * So that it can be refused before the first of its directories is made. */
int path_check_length(const char *path);
/* Whether the last part of path is a name, so that something can be made or removed there. */
bool path_names_entry(const char *path);
/* The rest of a clean path below dir ("" when equal), or NULL when it is not below it. */
const char *path_below(const char *dir, const char *path);

/* Where a daemon of this user's listens by default and its clients look for it: in /run for root,
 * else in $XDG_RUNTIME_DIR, which no other user can write to. The caller frees it; NULL without
 * such a place. */
char *path_default_socket(void);
