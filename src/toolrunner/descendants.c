/* SPDX-License-Identifier: Apache-2.0 */
/* See descendants.h. Outside of a pid namespace of our own only the runner ends a command's
 * background processes. Killing a parent makes its children ours, and one that was sent SIGKILL
 * forks no more, so rounds over /proc come to an end unless a process forks faster than we read;
 * then the rounds are bounded. */
#include "toolrunner/descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/raw-call.h"

#define FILE_MAX    8192
#define MARK_LINE   "\nMax file locks"
#define TRACER_LINE "\nTracerPid:"
#define CHAIN_MAX   100000

/* The name in its stat may contain any byte. */
static bool read_stat(int proc_fd, const char *pid, char *ret_state, pid_t *ret_parent)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    snprintf(path, sizeof(path), "%.20s/stat", pid);
    if (fd_read_file_at(proc_fd, path, &b) < 0 || !b.data)
        return false;
    const char *after = strrchr(b.data, ')');
    return after && sscanf(after, ") %c %d", ret_state, ret_parent) == 2;
}

static bool is_child(int proc_fd, const char *pid, uint32_t mark)
{
    char state;
    pid_t parent;
    (void)mark;
    return read_stat(proc_fd, pid, &state, &parent) && parent == getpid();
}

bool descendants_include(int proc_fd, pid_t ancestor, pid_t pid)
{
    for (int i = 0; pid > 0 && i < CHAIN_MAX; i++) {
        char name[16], state;
        if (pid == ancestor)
            return true;
        snprintf(name, sizeof(name), "%d", (int)pid);
        if (!read_stat(proc_fd, name, &state, &pid))
            return false;
    }
    return false;
}

/* Where /proc is the host's, commands of other sandboxes have the same marks. */
static bool is_marked(int proc_fd, const char *pid, uint32_t mark)
{
    char path[64], state;
    pid_t parent;
    unsigned long long soft;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    snprintf(path, sizeof(path), "%.20s/limits", pid);
    if (fd_read_file_at(proc_fd, path, &b) < 0 || !b.data)
        return false;
    const char *line = strstr(b.data, MARK_LINE);
    return line && sscanf(line + strlen(MARK_LINE), " %llu", &soft) == 1 && soft == mark &&
           read_stat(proc_fd, pid, &state, &parent) && state != 'Z' &&
           descendants_include(proc_fd, getpid(), parent);
}

static bool shows_us(int proc_fd)
{
    char self[32] = "";
    return readlinkat(proc_fd, "self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

/* Between the look at it and the signal, its number may become another process's: it is looked at
 * again once a descriptor holds it. */
static bool kill_one(int proc_fd, const char *pid, bool (*is_one)(int, const char *, uint32_t),
                     uint32_t mark)
{
    _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
    if (fd < 0) /* not every kernel and filter has it */
        return errno != ESRCH && kill(atoi(pid), SIGKILL) == 0;
    return is_one(proc_fd, pid, mark) && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
}

static unsigned kill_those(bool (*is_one)(int, const char *, uint32_t), uint32_t mark)
{
    unsigned n = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    bool ours = shows_us(dirfd(proc));
    for (struct dirent *d; ours && (d = readdir(proc));) {
        if (isdigit((unsigned char)d->d_name[0]) && is_one(dirfd(proc), d->d_name, mark))
            n += kill_one(dirfd(proc), d->d_name, is_one, mark);
    }
    closedir(proc);
    return n;
}

/* At least one was killed, but it may take its time, or all of ours: one that hangs in the kernel,
 * or that a process traces which does not wait for it. */
void descendants_kill(void)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    for (int round = 0; round < DESCENDANTS_ROUNDS_MAX && kill_those(is_child, 0); round++) {
        int status;
        if (descendants_reap(-1, &status, NULL) <= 0)
            nanosleep(&pause, NULL);
        while (descendants_reap(-1, &status, NULL) > 0)
            continue;
    }
}

IN_CHILD int descendants_mark(uint32_t mark)
{
    /* EPERM: the process that started us has limited us below, or the kernel has no such limit
     * (gVisor's); then only the group is known, and a later mark, which is larger, is not tried. */
    static bool refused;
    const uint64_t limit[] = {mark, mark};
    long r = refused ? 0 : raw_call(SYS_prlimit64, 0, RLIMIT_LOCKS, limit, NULL);
    if (r != -EPERM)
        return (int)r;
    refused = true;
    return 0;
}

void descendants_kill_marked(uint32_t mark)
{
    for (int round = 0; round < DESCENDANTS_MARKED_MAX && kill_those(is_marked, mark); round++)
        continue;
}

static bool is_ours(int proc_fd, const char *pid, uint32_t mark)
{
    (void)mark;
    return atoi(pid) != getpid() && descendants_include(proc_fd, getpid(), atoi(pid));
}

static void kill_tracer(int proc_fd, int tasks_fd, const char *task)
{
    char path[64], tracer[16];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
    snprintf(path, sizeof(path), "%.20s/status", task);
    if (fd_read_file_at(tasks_fd, path, &b) < 0 || !b.data)
        return;
    const char *line = strstr(b.data, TRACER_LINE);
    if (line && sscanf(line + strlen(TRACER_LINE), "%15s", tracer) == 1 &&
        is_ours(proc_fd, tracer, 0))
        kill_one(proc_fd, tracer, is_ours, 0);
}

void descendants_kill_tracers(pid_t pid)
{
    char path[32];
    _cleanup_close_ int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%d/task", (int)pid);
    int fd = proc_fd < 0 ? -1 : openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (!tasks)
        return fd_close(&fd);
    bool ours = shows_us(proc_fd);
    for (struct dirent *d; ours && (d = readdir(tasks));) {
        if (isdigit((unsigned char)d->d_name[0]))
            kill_tracer(proc_fd, fd, d->d_name);
    }
    closedir(tasks);
}

pid_t descendants_reap(pid_t which, int *ret_status, struct rusage *ret_usage)
{
    for (;;) {
        pid_t pid = wait4(which, ret_status, WNOHANG, ret_usage);
        if (pid <= 0 || !WIFSTOPPED(*ret_status))
            return pid;
        long signo = WSTOPSIG(*ret_status); /* SIGTRAP is how a tracer learns of execve() */
        ptrace(PTRACE_DETACH, pid, NULL, signo == SIGTRAP ? 0 : signo);
    }
}
