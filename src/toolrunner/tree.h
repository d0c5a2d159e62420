/* SPDX-License-Identifier: Apache-2.0 */
/* Directory trees: walking, removing, making. Symlinks are never followed on the way down. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define TREE_DEPTH_MAX   256
#define TREE_ENTRIES_MAX 10000 /* of one listing */

struct tree_entry {
    const char *name;
    const char *path; /* root/…/name, where root is as the caller gave it */
    int dirfd;        /* the directory that name is in */
    struct stat st;   /* of the name itself */
};

/* Calls visit for everything below path (one level without recursive), directories before what is
 * in them, in the order of names. Something that vanishes meanwhile is passed over. 0; 1 when it
 * stopped after max entries; -errno; or what visit returned when not 0. A path that is not a
 * directory is -ENOTDIR. */
int tree_walk(const char *path, bool recursive, size_t max,
              int (*visit)(const struct tree_entry *e, void *arg), void *arg);
/* Removes path and all below it. 0 or -errno. What cannot go is found before anything is touched:
 * "." and ".." (-EINVAL), the working directory and mount points (-EBUSY), and what permissions
 * keep
 * (-EACCES, -EPERM). */
int tree_remove(const char *path);

/* Directories that a call has made so far. A call that is refused takes them away again. */
struct tree_made {
    char **paths;
    size_t n;
};
#define _cleanup_made_ __attribute__((cleanup(tree_made_done)))

/* Makes the directories that path's last part is to be in, and notes them in made. 0, or -errno
 * with nothing made. */
int tree_make_parents(const char *path, mode_t mode, struct tree_made *made);
/* Removes what was noted, the last first. A directory that something was put into meanwhile stays.
 */
void tree_unmake(struct tree_made *made);
void tree_made_done(struct tree_made *made);
