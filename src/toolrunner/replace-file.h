/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file all or nothing. */
#pragma once

#include <sys/stat.h>

/* Readers see the old content or the new, and a writer that is killed half-way leaves nothing
 * behind, save where the directory is not ours to write: then the file is written in place. fill
 * writes the content to fd. Directories that path needs are made when all of the content is there,
 * and taken away again where the file cannot be put into them. Symlinks are followed, as open()
 * would. 0; -EISDIR, or -EINVAL for what is no regular file; or another -errno. */
int replace_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg);
/* Appends what fill writes, all of it or nothing; a file that is not there is made as by
 * replace_file(). 0 or -errno. */
int append_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg);
