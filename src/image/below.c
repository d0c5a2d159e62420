/* SPDX-License-Identifier: Apache-2.0 */
#include "image/below.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

static int open_how(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    int fd;
    /* -EAGAIN: a rename somewhere on the machine while ".." of a link was resolved. */
    for (int tries = 0; tries < 64; tries++) {
        fd = (int)syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd < 0 ? -errno : fd;
}

int below_open(int dir_fd, const char *path, uint64_t flags)
{
    return open_how(dir_fd, path, flags, RESOLVE_BENEATH);
}

int below_open_plain(int dir_fd, const char *path, uint64_t flags)
{
    return open_how(dir_fd, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static bool is_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Without CAP_DAC_OVERRIDE a directory may have to be opened up first. */
static int open_to_clear(int dir_fd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir_fd, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
        fd = openat(dir_fd, name, flags);
    return fd < 0 ? -errno : fd;
}

/* Takes fd. It needs one descriptor per level: trees may be as deep as IMAGE_DEPTH_MAX. */
static int clear_taken(int fd)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        int r = -errno;
        close(fd);
        return r;
    }
    int r = 0;
    struct dirent *e;
    while (errno = 0, (e = readdir(d))) {
        int one = is_dots(e->d_name) ? 0 : below_remove(fd, e->d_name);
        r = r ? r : one;
    }
    if (!r && errno)
        r = -errno;
    closedir(d);
    return r;
}

int below_clear(int dir_fd)
{
    int own = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return own < 0 ? -errno : clear_taken(own);
}

int below_remove(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    int fd = open_to_clear(dir_fd, name);
    int r = fd < 0 ? fd : clear_taken(fd);
    if (r < 0)
        return r;
    return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
