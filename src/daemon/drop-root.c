/* SPDX-License-Identifier: Apache-2.0 */
/* A root of its own for a process that gives up its rights: an empty tmpfs with one directory that
 * may be written and the files that it is shown. */
#include "daemon/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"

#define ROOT_SIZE "size=64k,nr_inodes=256,mode=0755"

/* A detached copy of the mount at path: taken first, so that what is mounted later cannot hide it.
 */
static int clone_tree(const char *path)
{
    int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return fd < 0 ? -errno : fd;
}

/* Makes target's parents and target below the current directory. */
static int make_target(const char *target, bool directory)
{
    char path[128];
    snprintf(path, sizeof(path), "%s", target);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    if (directory)
        return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
    _cleanup_close_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

static int attach_tree(int tree, const char *target, bool directory, uint64_t flags)
{
    struct mount_attr attr = {.attr_set = flags | MOUNT_ATTR_NOSUID};
    int r = make_target(target, directory);
    if (r < 0)
        return r;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
        move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int attach_kept(const struct drop_view *v, int *trees, struct error *err)
{
    for (size_t i = 0; i < v->n_kept; i++) {
        const struct drop_kept *k = &v->kept[i];
        const char *target = k->target ? k->target : k->path;
        if (trees[i] < 0)
            continue;
        uint64_t flags = MOUNT_ATTR_RDONLY | (k->device ? 0 : MOUNT_ATTR_NODEV) |
                         (k->programs ? 0 : MOUNT_ATTR_NOEXEC);
        int r = attach_tree(trees[i], target + 1, k->directory, flags);
        if (r < 0)
            return error_set(err, ERROR_INTERNAL, -r, "show %s", k->path);
    }
    return 0;
}

static int attach_state(int tree, const struct drop_view *v, struct error *err)
{
    struct stat want, got;
    int r = attach_tree(tree, v->state_target + 1, true, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "show the state directory");
    if (fstat(v->state_fd, &want) < 0 || stat(v->state_target + 1, &got) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "state directory");
    if (want.st_dev != got.st_dev || want.st_ino != got.st_ino)
        return error_set(err, ERROR_INTERNAL, 0, "the state directory was replaced");
    return 0;
}

static int build_view(const struct drop_view *v, int *trees, struct error *err)
{
    _cleanup_close_ int state = clone_tree(v->state_path);
    if (state < 0)
        return error_set(err, ERROR_INTERNAL, -state, "%s", v->state_path);
    for (size_t i = 0; i < v->n_kept; i++) {
        trees[i] = clone_tree(v->kept[i].path);
        if (trees[i] < 0 && trees[i] != -ENOENT)
            return error_set(err, ERROR_INTERNAL, -trees[i], "%s", v->kept[i].path);
    }
    /* Any directory will do to stand on. */
    if (mount("tmpfs", v->state_path, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_SIZE) < 0 ||
        chdir(v->state_path) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "private root");
    umask(0);
    int r = attach_state(state, v, err);
    if (r == 0)
        r = attach_kept(v, trees, err);
    if (r == 0 && v->fill)
        r = v->fill(v, err);
    umask(077);
    if (r < 0)
        return r;
    /* Swaps the current directory, a mount, for the root and lets go of the old one. */
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_set(err, ERROR_INTERNAL, errno, "change root");
    if (mount(NULL, "/", NULL, flags, NULL) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "make the root read-only");
    return 0;
}

int drop_root_view(const struct drop_view *v, struct error *err)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "private mount namespace");
    _cleanup_free_ int *trees = xcalloc(v->n_kept, sizeof(*trees));
    memset(trees, -1, v->n_kept * sizeof(*trees));
    int r = build_view(v, trees, err);
    for (size_t i = 0; i < v->n_kept; i++)
        fd_close(&trees[i]);
    return r;
}
