/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cgroup.h that a child needs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/cgroup.h"

const char *cgroup_path(const struct cgroup *cg, const char *file, char path[CGROUP_PATH_SIZE])
{
    snprintf(path, CGROUP_PATH_SIZE, "%s/%s", cg->name, file);
    return path;
}

int cgroup_write(const struct cgroup *cg, int i, const char *file, const char *text)
{
    char path[CGROUP_PATH_SIZE];
    return fd_write_file_at(cg->root->fd[i], cgroup_path(cg, file, path), text);
}

/* A process of one thread that moves itself through version 1's "tasks" takes no lock against forks
 * of the whole host, for which "cgroup.procs" may wait for a grace period of the kernel's. */
static int open_seat(const struct cgroup *cg, int i)
{
    static const char *const files[] = {"tasks", "cgroup.procs"};
    char path[CGROUP_PATH_SIZE];
    if (mkdirat(cg->root->fd[i], cg->name, 0755) < 0)
        return -errno;
    int fd = openat(cg->root->fd[i], cgroup_path(cg, files[0], path), O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        fd = openat(cg->root->fd[i], cgroup_path(cg, files[1], path), O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cgroup_sit(int *seat)
{
    int r = write(*seat, "0", 1) == 1 ? 0 : -errno;
    fd_close(seat);
    return r;
}

int cgroup_enter_early(const struct cgroup *cg, int *ret_seat)
{
    int r = 0;
    *ret_seat = -1;
    for (int i = 0; r == 0 && i < _CGROUP_MAX; i++) {
        if (!cg->in[i])
            continue;
        int seat = open_seat(cg, i);
        if (seat < 0)
            r = seat;
        else if (i == CGROUP_MEMORY)
            *ret_seat = seat;
        else
            r = cgroup_sit(&seat);
    }
    return r;
}

int cgroup_enter(const struct cgroup *cg)
{
    int seat;
    int r = cgroup_enter_early(cg, &seat);
    return r < 0 || seat < 0 ? r : cgroup_sit(&seat);
}
