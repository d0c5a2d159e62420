/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/replace-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"

const char *replace_target(const char *path, char real[PATH_MAX])
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
        return real;
    return path;
}

static int write_in_place(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg)
{
    _cleanup_close_ int fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_TRUNC, mode);
    return fd < 0 ? -errno : fill(fd, arg);
}

int replace_file(const char *path, mode_t mode, int (*fill)(int fd, void *arg), void *arg)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    _cleanup_close_ int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) /* not ours to write, or a file system without O_TMPFILE */
        return write_in_place(path, mode, fill, arg);
    int r = fill(fd, arg);
    if (r < 0)
        return r;
    if (fchmod(fd, mode) < 0)
        r = -errno;
    if (r < 0)
        return r;
    /* A file without a name becomes path; for a moment it has a name of its own beside it. */
    char source[64];
    _cleanup_free_ char *temp =
        xasprintf("%s/.mas-%d-%llx", dir, (int)getpid(), (unsigned long long)clock_mono_ns());
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, source, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) < 0)
        return -errno;
    if (rename(temp, path) == 0)
        return 0;
    r = -errno;
    unlink(temp);
    return r;
}
