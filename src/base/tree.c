/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

#define REMOVE_DEPTH 32

static void remove_at(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return;
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 && depth < REMOVE_DEPTH ? fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 0)) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_at(fd, e->d_name, depth + 1);
    if (dir)
        closedir(dir);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        log_warn("cannot remove '%s': %s", name, strerror(errno));
}

void tree_remove_at(int parent, const char *name)
{
    remove_at(parent, name, 0);
}
