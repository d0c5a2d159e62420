/* Outside of a pid namespace of our own nobody ends a command's background processes but us.
 * Killing a parent makes its children ours, so rounds over /proc come to an end unless somebody
 * forks faster than we read; then the rounds are bounded. */
#include "toolrunner/descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"

#define STAT_MAX 4096

/* The parent of a process, or -1. The name in its stat may contain any byte. */
static pid_t parent_of(int proc_fd, const char *pid)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(STAT_MAX);
    snprintf(path, sizeof(path), "%.20s/stat", pid);
    if (fd_read_file_at(proc_fd, path, &b) < 0 || !b.data)
        return -1;
    const char *after = strrchr(b.data, ')');
    int parent;
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : -1;
}

static unsigned kill_children(void)
{
    unsigned n = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *d; (d = readdir(proc));) {
        if (isdigit((unsigned char)d->d_name[0]) && parent_of(dirfd(proc), d->d_name) == getpid())
            n += kill(atoi(d->d_name), SIGKILL) == 0;
    }
    closedir(proc);
    return n;
}

void descendants_kill(void)
{
    for (int round = 0; round < DESCENDANTS_ROUNDS_MAX && kill_children(); round++) {
        /* At least one was killed: wait for it, then for all that are dead already. */
        int options = 0;
        while (waitpid(-1, NULL, options) > 0)
            options = WNOHANG;
    }
}
