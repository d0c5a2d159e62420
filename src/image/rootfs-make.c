/* SPDX-License-Identifier: Apache-2.0 */
/* Making what an entry says at its place. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/below.h"
#include "image/rootfs.h"

#define DIR_BYTES 4096u

static int remember_place(struct rootfs *r, int parent, const char *base)
{
    struct stat st;
    if (fstat(parent, &st) < 0)
        return -errno;
    place_set_add(&r->made, st.st_ino, base);
    return 0;
}

/* The parent of an entry that replaces whatever is at its place. */
static int clear_place(struct rootfs *r, const char *name, const char **ret_base, struct error *err)
{
    if (!*name)
        return error_set(err, ERROR_INVALID, 0, "an entry replaces the root itself");
    _cleanup_close_ int parent = rootfs_open_parent(r, name, true, ret_base, err);
    if (parent < 0)
        return parent;
    int bad = below_remove(parent, *ret_base);
    if (bad == 0)
        bad = remember_place(r, parent, *ret_base);
    return bad < 0 ? rootfs_fail(name, -bad, err) : fd_steal(&parent);
}

/* 1 where there was a directory already. */
static int mkdir_or_replace(int parent, const char *base)
{
    struct stat st;
    if (mkdirat(parent, base, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return 1;
    int bad = below_remove(parent, base);
    return bad < 0 ? bad : mkdirat(parent, base, 0700) < 0 ? -errno : 0;
}

int rootfs_make_dir(struct rootfs *r, const char *name, struct error *err)
{
    const char *base;
    if (!*name) {
        int fd = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? rootfs_fail(".", errno, err) : fd;
    }
    _cleanup_close_ int parent = rootfs_open_parent(r, name, true, &base, err);
    if (parent < 0)
        return parent;
    int bad = mkdir_or_replace(parent, base);
    if (bad == 0 && rootfs_count_bytes(r, DIR_BYTES, err) < 0)
        return -EFBIG;
    if (bad >= 0)
        bad = remember_place(r, parent, base);
    if (bad < 0)
        return rootfs_fail(name, -bad, err);
    int fd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? rootfs_fail(name, errno, err) : fd;
}

int rootfs_make_file(struct rootfs *r, const char *name, struct error *err)
{
    const char *base;
    _cleanup_close_ int parent = clear_place(r, name, &base, err);
    if (parent < 0)
        return parent;
    int fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? rootfs_fail(name, errno, err) : fd;
}

/* Whose files this process makes. The change takes the rights over files out of effect; what the
 * process may have at all stays as it is. */
static int set_maker(unsigned uid, unsigned gid)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    setfsgid(gid);
    setfsuid(uid);
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    for (size_t i = 0; i < ELEMENTS(data); i++)
        data[i].effective = data[i].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* A link cannot be opened, so that it could only be given away by its path, which the unpacker may
 * not do: it is made as its owner's. That is also why a link has the time of its unpacking. */
static int make_link(const struct rootfs *r, const char *target, int parent, const char *base,
                     const struct rootfs_meta *m)
{
    unsigned uid = rootfs_squash_id(m->uid), gid = rootfs_squash_id(m->gid);
    bool others = r->owners && (uid != 0 || gid != 0);
    int bad = others ? set_maker(uid, gid) : 0;
    if (bad == 0 && symlinkat(target, parent, base) < 0)
        bad = -errno;
    int restored = others ? set_maker(0, 0) : 0;
    return bad < 0 ? bad : restored;
}

int rootfs_make_symlink(struct rootfs *r, const char *name, const char *target,
                        const struct rootfs_meta *m, struct error *err)
{
    char q[NAME_QUOTED_SIZE];
    const char *base;
    if (!*target)
        return error_set(err, ERROR_INVALID, 0, "entry '%s' is a link to nothing",
                         name_quote(name, q));
    if (strlen(target) > r->limits->path_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "entry '%s' is a link to more than images_max_path_bytes",
                         name_quote(name, q));
    _cleanup_close_ int parent = clear_place(r, name, &base, err);
    if (parent < 0)
        return parent;
    int bad = make_link(r, target, parent, base, m);
    return bad < 0 ? rootfs_fail(name, -bad, err) : 0;
}

static bool same_file(int a, const char *x, int b, const char *y)
{
    struct stat s, t;
    return fstatat(a, x, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(b, y, &t, AT_SYMLINK_NOFOLLOW) == 0 && s.st_ino == t.st_ino;
}

/* The target is what was unpacked under that name; a link on the way has to stay below the root,
 * and a link at its end is itself what is linked. */
int rootfs_make_hardlink(struct rootfs *r, const char *name, const char *target, struct error *err)
{
    char q[NAME_QUOTED_SIZE], t[NAME_QUOTED_SIZE];
    const char *base, *target_base;
    name_quote(name, q);
    name_quote(target, t);
    if (!*name)
        return error_set(err, ERROR_INVALID, 0, "an entry replaces the root itself");
    _cleanup_close_ int from = rootfs_open_parent(r, target, false, &target_base, err);
    struct stat st;
    if (from == -ENOENT || (from >= 0 && fstatat(from, target_base, &st, AT_SYMLINK_NOFOLLOW) < 0))
        return error_set(err, ERROR_INVALID, ENOENT, "entry '%s' is a hard link to '%s'", q, t);
    if (from < 0) {
        error_prefix(err, "entry '%s' is a hard link", q);
        return from;
    }
    if (S_ISDIR(st.st_mode) || !*target)
        return error_set(err, ERROR_INVALID, 0, "entry '%s' is a hard link to the directory '%s'",
                         q, t);
    _cleanup_close_ int parent = rootfs_open_parent(r, name, true, &base, err);
    if (parent < 0)
        return parent;
    /* The target may have been below the directory that is replaced: then linkat() fails. */
    int bad = 0;
    if (!same_file(parent, base, from, target_base)) {
        bad = below_remove(parent, base);
        if (bad == 0 && linkat(from, target_base, parent, base, 0) < 0)
            bad = -errno;
    }
    if (bad == 0)
        bad = remember_place(r, parent, base);
    return bad < 0 ? rootfs_fail(name, -bad, err) : 0;
}
