/* SPDX-License-Identifier: Apache-2.0 */
/* Whiteouts, as the OCI image specification has them: they hide what lower layers left and never
 * what is in their own layer, in whatever order the entries come. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "image/below.h"
#include "image/rootfs.h"

static int hide_entry(struct rootfs *r, int parent, ino_t parent_ino, const char *base,
                      unsigned depth);

/* Takes fd. Every directory is walked once a layer: what comes into it later is of this layer, and
 * a marker that is repeated costs nothing. */
static int hide_in(struct rootfs *r, int fd, unsigned depth)
{
    struct stat st;
    int bad = depth > IMAGE_DEPTH_MAX ? -ENAMETOOLONG : fstat(fd, &st) < 0 ? -errno : 0;
    bool walked = bad == 0 && place_set_has(&r->pruned, st.st_ino, "");
    DIR *d = bad < 0 || walked ? NULL : fdopendir(fd);
    if (!d) {
        bad = bad < 0 || walked ? bad : -errno;
        close(fd);
        return bad;
    }
    place_set_add(&r->pruned, st.st_ino, "");
    struct dirent *e;
    while (bad == 0 && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            bad = hide_entry(r, fd, st.st_ino, e->d_name, depth + 1);
    if (bad == 0 && errno)
        bad = -errno;
    closedir(d);
    return bad;
}

static int hide_entry(struct rootfs *r, int parent, ino_t parent_ino, const char *base,
                      unsigned depth)
{
    struct stat st;
    bool made = place_set_has(&r->made, parent_ino, base);
    if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode))
        return made ? 0 : unlinkat(parent, base, 0) < 0 ? -errno : 0;
    int fd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int bad = fd < 0 ? -errno : hide_in(r, fd, depth);
    if (bad < 0 || made)
        return bad;
    /* Not empty: this layer put something below it. */
    if (unlinkat(parent, base, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    return 0;
}

int rootfs_hide(struct rootfs *r, const char *name, struct error *err)
{
    const char *base;
    struct stat st;
    _cleanup_close_ int parent = rootfs_open_parent(r, name, false, &base, err);
    if (parent == -ENOENT)
        return 0;
    if (parent < 0)
        return parent;
    int bad = fstat(parent, &st) < 0 ? -errno : hide_entry(r, parent, st.st_ino, base, 0);
    return bad < 0 ? rootfs_fail(name, -bad, err) : 0;
}

int rootfs_hide_children(struct rootfs *r, const char *name, struct error *err)
{
    const char *base;
    char inside[NAME_PATH_MAX + 2];
    size_t len = strlen(name);
    memcpy(inside, name, len);
    memcpy(inside + len, "/.", 3); /* the directory itself, as the parent of something in it */
    _cleanup_close_ int fd = rootfs_open_parent(r, inside, false, &base, err);
    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return fd;
    int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int bad = dir < 0 ? -errno : hide_in(r, dir, 0);
    return bad < 0 ? rootfs_fail(name, -bad, err) : 0;
}
