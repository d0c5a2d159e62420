/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of the host that a guest sees, by FUSE's protocol over a serial port.
 *
 * Theory of operation. The guest's kernel speaks FUSE with a file descriptor, and two processes of
 * its first process's carry the messages over a port of their own (guest/share.c). Here, a process
 * of the tool's user answers them, within the walls of the cell: what it can reach is what the
 * warden has mounted there, the directory and nothing beside it, read-only where the caller or the
 * operator said so, without devices and with the owner's files shown as the tool's. The guest, its
 * kernel included, is hostile. It names a file by a number that this side has given it and a name
 * in one directory; a name with a slash, "." and ".." are refused, and the kernel resolves each
 * path beneath the directory and through no link. A guest that follows links does so by itself,
 * inside. Nothing that it does here has more rights than a tool of a local sandbox has with the
 * same directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARE_NODES_MAX   131072       /* files that the guest's kernel remembers at once */
#define SHARE_HANDLES_MAX 900          /* files that are open at once; a process has 1024 */
#define SHARE_DATA_MAX    (128 * 1024) /* bytes of one read or write */
#define SHARE_MESSAGE_MAX (SHARE_DATA_MAX + 8192)

/* Answers what comes from port_fd until it ends or makes no sense. dir_fd: the directory, by
 * O_PATH. Both are borrowed. */
void share_serve(int dir_fd, int port_fd);

/* share-node.c: which file a number stands for. A node is a name in another node, and is kept while
 * the guest remembers it or has one below it. */
struct share_nodes;

struct share_nodes *share_nodes_new(void);
void share_nodes_free(struct share_nodes *t);
/* The node of a name in a directory, made where there is none, and remembered once more. 0: there
 * are SHARE_NODES_MAX, or the directory is none. */
uint64_t share_nodes_find(struct share_nodes *t, uint64_t dir, const char *name);
uint64_t share_nodes_generation(const struct share_nodes *t, uint64_t id);
void share_nodes_forget(struct share_nodes *t, uint64_t id, uint64_t n);
/* No path leads to it any more: the file was removed, or another took its name. */
void share_nodes_remove(struct share_nodes *t, uint64_t dir, const char *name);
void share_nodes_rename(struct share_nodes *t, uint64_t dir, const char *name, uint64_t to_dir,
                        const char *to_name);
/* The path of a node beneath the directory, "." for the directory itself. -ESTALE, -ENAMETOOLONG.
 */
int share_nodes_path(const struct share_nodes *t, uint64_t id, char *ret, size_t size);
/* The directory that it is in, and its name there: 0 for the directory itself, with ".". */
int share_nodes_place(const struct share_nodes *t, uint64_t id, uint64_t *ret_dir,
                      const char **ret_name);
