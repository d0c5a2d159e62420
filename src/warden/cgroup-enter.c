/* The part of cgroup.h that a child needs. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

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
static int join(const struct cgroup *cg, int i)
{
    int r = cgroup_write(cg, i, "tasks", "0");
    return r == -ENOENT ? cgroup_write(cg, i, "cgroup.procs", "0") : r;
}

int cgroup_enter(const struct cgroup *cg)
{
    int r = 0;
    for (int i = 0; r == 0 && i < _CGROUP_MAX; i++) {
        if (!cg->in[i])
            continue;
        if (mkdirat(cg->root->fd[i], cg->name, 0755) < 0)
            return -errno;
        r = join(cg, i);
    }
    return r;
}
