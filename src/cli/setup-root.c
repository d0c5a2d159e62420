/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup-root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/temp-file.h"

int setup_root_open(const char *dir, struct setup_root *ret)
{
    int fd = open(dir ? dir : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret = (struct setup_root){.fd = fd, .is_host = !dir};
    return 0;
}

void setup_root_close(struct setup_root *root)
{
    fd_close(&root->fd);
}

static int open_inside(const struct setup_root *root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* The directory that path is in, for reading; *ret_name is path's last part. */
static int open_parent(const struct setup_root *root, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = xstrndup(path, (size_t)(slash - path));
    *ret_name = slash + 1;
    return open_inside(root, *dir ? dir : "/", O_RDONLY | O_DIRECTORY);
}

bool setup_root_has(const struct setup_root *root, const char *path)
{
    _cleanup_close_ int fd = open_inside(root, path, O_PATH);
    return fd >= 0;
}

int setup_root_read(const struct setup_root *root, const char *path, struct strbuf *b)
{
    _cleanup_close_ int fd = open_inside(root, path, O_RDONLY | O_NONBLOCK);
    return fd < 0 ? fd : fd_read_all(fd, b);
}

static int fill_file(int fd, const char *text, const struct stat *was, mode_t mode)
{
    if (was && fchown(fd, was->st_uid, was->st_gid) < 0)
        return -errno;
    if (fchmod(fd, was ? was->st_mode & 07777 : mode) < 0)
        return -errno;
    int r = fd_write_all(fd, text, strlen(text));
    if (r < 0)
        return r;
    return fsync(fd) < 0 ? -errno : 0;
}

int setup_root_write(const struct setup_root *root, const char *path, const char *text, mode_t mode)
{
    struct stat st;
    char temp[TEMP_NAME_SIZE];
    const char *name;
    _cleanup_close_ int dir = open_parent(root, path, &name);
    if (dir < 0)
        return dir;
    bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISREG(st.st_mode))
        return -ELOOP;
    _cleanup_close_ int fd = temp_create(dir, temp);
    if (fd < 0)
        return fd;
    int r = fill_file(fd, text, there ? &st : NULL, mode);
    if (r == 0 && renameat(dir, temp, dir, name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(dir, temp, 0);
    else
        fsync(dir);
    return r;
}

static int unlink_inside(const struct setup_root *root, const char *path, int flags)
{
    const char *name;
    _cleanup_close_ int dir = open_parent(root, path, &name);
    return dir < 0 ? dir : unlinkat(dir, name, flags) < 0 ? -errno : 0;
}

int setup_root_remove(const struct setup_root *root, const char *path)
{
    return unlink_inside(root, path, 0);
}

int setup_root_remove_dir(const struct setup_root *root, const char *path)
{
    return unlink_inside(root, path, AT_REMOVEDIR);
}

int setup_root_make_dir(const struct setup_root *root, const char *path)
{
    const char *name;
    _cleanup_close_ int dir = open_parent(root, path, &name);
    return dir < 0 ? dir : mkdirat(dir, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
}
