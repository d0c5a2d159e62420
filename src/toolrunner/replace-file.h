/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file all or nothing. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

/* Where a write through path ends up: symlinks are followed, as open() would. */
const char *replace_target(const char *path, char real[PATH_MAX]);
/* Readers see the old content or the new, and a writer that is killed half-way leaves nothing
 * behind, save where the directory is not ours to write: then the file is written in place. fill
 * writes the content to fd. 0 or -errno. */
int replace_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg);
