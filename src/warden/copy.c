/* SPDX-License-Identifier: Apache-2.0 */
/* See copy.h. */
#include "warden/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

int copy_fd(int source_fd, int target_dirfd, const char *target, mode_t mode)
{
    _cleanup_close_ int out =
        openat(target_dirfd, target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    off_t offset = 0;
    if (out < 0)
        return -errno;
    for (;;) {
        ssize_t n = sendfile(out, source_fd, &offset, 1 << 20);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int copy_entry(int source, int target, const char *name, struct copy_budget *budget);

static int copy_dir(int source, int target, const char *name, struct copy_budget *budget)
{
    if (budget->depth == 0)
        return 0;
    if (mkdirat(target, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int to = openat(target, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int from = openat(source, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = from < 0 ? NULL : fdopendir(from);
    if (!dir || to < 0) {
        fd_close(&from);
        return 0;
    }
    int r = 0;
    budget->depth--;
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = copy_entry(dirfd(dir), to, e->d_name, budget);
    budget->depth++;
    closedir(dir);
    return r;
}

/* The link's text is copied and not followed: inside a sandbox it leads to what is there, or
 * nowhere. */
static int copy_link(int source, int target, const char *name)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(source, name, text, sizeof(text) - 1);
    if (n < 0)
        return 0;
    text[n] = 0;
    return symlinkat(text, target, name) < 0 && errno != EEXIST ? -errno : 0;
}

/* Only what every user of the host may read is copied: the copy is read by every sandbox. What
 * cannot be copied within the budget is left out, because a host's /etc may be of any size, and a
 * sandbox without one of its files still starts. */
static int copy_entry(int source, int target, const char *name, struct copy_budget *budget)
{
    struct stat st;
    if (fstatat(source, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || budget->files == 0)
        return 0;
    budget->files--;
    if (S_ISLNK(st.st_mode))
        return copy_link(source, target, name);
    if (S_ISDIR(st.st_mode))
        return st.st_mode & S_IXOTH ? copy_dir(source, target, name, budget) : 0;
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || (uint64_t)st.st_size > budget->bytes)
        return 0;
    _cleanup_close_ int fd = openat(source, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    budget->bytes -= (uint64_t)st.st_size;
    int r = copy_fd(fd, target, name, st.st_mode & 0555);
    return r == -EEXIST ? 0 : r;
}

/* A pattern without a star is one name, which need not be there. */
int copy_each(int dirfd, const char *pattern, int (*each)(void *data, const char *name), void *data)
{
    size_t n = strlen(pattern) - 1;
    if (pattern[n] != '*')
        return each(data, pattern);
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;
    if (!dir) {
        fd_close(&fd);
        return 0;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strncmp(e->d_name, pattern, n) == 0)
            r = each(data, e->d_name);
    closedir(dir);
    return r;
}

struct copying {
    int source, target;
    struct copy_budget *budget;
};

static int on_copy(void *data, const char *name)
{
    struct copying *c = data;
    return copy_entry(c->source, c->target, name, c->budget);
}

int copy_matching(int source_dirfd, int target_dirfd, const char *name, struct copy_budget *budget)
{
    struct copying c = {source_dirfd, target_dirfd, budget};
    const char *slash = strchr(name, '/');
    if (!slash)
        return copy_each(source_dirfd, name, on_copy, &c);
    char first[NAME_MAX + 1];
    snprintf(first, sizeof(first), "%.*s", (int)(slash - name), name);
    _cleanup_close_ int from =
        openat(source_dirfd, first, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return 0;
    if (mkdirat(target_dirfd, first, 0755) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int to = openat(target_dirfd, first, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return to < 0 ? -errno : copy_matching(from, to, slash + 1, budget);
}
