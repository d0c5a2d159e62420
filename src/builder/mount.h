/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of a sandbox, made by the process that builds it, in a copy of the template root. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/plan.h"

/* A directory below dirfd ("": itself), by a path without links, to look at and to mount on. */
int mount_open_beneath(int dirfd, const char *path);
/* Is target a place where a host directory may go? System directories are not. */
bool mount_target_ok(const char *target);

#define MOUNT_TEXT(number)     MOUNT_TEXT_NOW(number)
#define MOUNT_TEXT_NOW(number) #number
#define MOUNT_PTYS_MAX         MOUNT_TEXT(PLAN_PTYS_MAX)

/* What of /proc a sandbox does not see, and does not write. NULL-terminated. Sandboxes that the
 * warden builds itself write nothing at all there, by one mount that is read-only instead of one
 * for each of these. */
extern const char *const mount_proc_masked[], *const mount_proc_read_only[];

int mount_proc(void);
int mount_proc_masks(void);
int mount_proc_seal(void);
int mount_devpts(void);

/* The sandbox's disk: one file system, parts of it bound to each writable place. A blank starts
 * with a tmpfs, which is resized or replaced when the order is known. */
int mount_disk_prepare(uid_t runner_id, uid_t tool_id);
int mount_disk_resize(uint64_t bytes, uint64_t inodes);
/* Puts a mounted image, whose parts the warden made, in the tmpfs's place. */
int mount_disk_replace(int image_fd);
/* Changes the owner of the tool's parts of the tmpfs. */
int mount_disk_give(uid_t tool_id);
/* Makes the parts' directories below a file system's root: in the child for the tmpfs, in the
 * warden's helper for an image, where only the host's root may. */
int mount_disk_make_parts(int root_fd, uid_t runner_id, uid_t tool_id);

/* What the disk holds and where each part goes. */
struct disk_part {
    const char *name, *target;
    mode_t mode;
    bool tools; /* owned by the tool, else by the runner */
};
extern const struct disk_part disk_parts[];
extern const size_t n_disk_parts;

#define MOUNT_WRITABLE_MAX 8
/* Places that the disk is bound to. Returns how many. */
size_t mount_writable_dirs(const char **ret);

/* Do these targets need directories that the shared template lacks? Then the sandbox gets a root of
 * its own, made of binds from the template, which is sealed (read-only) at the end. */
bool mount_targets_need_root(const char *const *targets, size_t n);
int mount_own_root(void);
/* The part of it that binds the template at `from` ("" is the root) into the new tmpfs at `at`. */
int mount_fill_root(const char *from, const char *at, int root_fd);
#define MOUNT_OWN_ROOT_OPTIONS "size=1m,nr_inodes=1k,mode=0755"
int mount_seal_root(void);
/* Makes the target's missing directories below root (owned by owner) and opens the last; what is
 * there must be a directory, not a link. A descriptor or -errno. */
int mount_make_target(const char *root, const char *target, uid_t owner);
/* The part of the disk that a path is in, and the rest of the path; NULL when in none. */
const struct disk_part *mount_find_part(const char *target, const char **ret_rest);
/* A new file at place, which every user may read: the host's certificate authorities, which are
 * in the file hosts, and the one in authority_fd. */
int mount_write_authorities(const char *hosts, int authority_fd, const char *place);
/* Mounts the host's certificate authorities and the one in the file over the former. */
int mount_authority(int authority_fd);
/* Attaches a detached mount, making directories where needed (owned by the tool). */
int mount_attach(int tree_fd, const char *target, uid_t owner);
