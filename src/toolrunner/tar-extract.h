/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking and packing below a directory. */
#pragma once

#include <stddef.h>

struct tar;

/* Unpacks everything below root_fd. Never leaves it and never goes through a symlink, also not one
 * that the archive itself brought; replaces files, keeps directories, owns everything as we do.
 * 0, or -errno with t->why naming the entry at fault. */
int tar_extract(struct tar *t, int root_fd);

/* Whether all that t has could be unpacked below root_fd (-1: a directory that is not there yet),
 * as far as names, types and what is there can tell. Changes nothing. 0, or -errno as above; what
 * t's read function returned is passed on. */
int tar_check(struct tar *t, int root_fd);

/* Writes a tar of path to fd: a directory's content with names relative to it, or the one file
 * under its own name. 0, or -errno with the file at fault in why. */
int tar_create(const char *path, int fd, char *why, size_t why_size);
