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

int cgroup_make(const struct cgroup *cg, int seats[_CGROUP_MAX])
{
    int n = 0;
    for (int i = 0; i < _CGROUP_MAX; i++) {
        if (!cg->in[i])
            continue;
        seats[n] = open_seat(cg, i);
        if (seats[n] < 0)
            return seats[n];
        n++;
    }
    return n;
}

int cgroup_sit(int *seats, int n)
{
    for (int i = 0; i < n; i++) {
        if (write(seats[i], "0", 1) != 1)
            return -errno;
        fd_close(&seats[i]);
    }
    return 0;
}

int cgroup_enter(const struct cgroup *cg)
{
    int seats[_CGROUP_MAX];
    int n = cgroup_make(cg, seats);
    return n < 0 ? n : cgroup_sit(seats, n);
}
