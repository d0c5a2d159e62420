/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and ending processes without a pid namespace to end, by walks over /proc. SIGKILL keeps a
 * process from forking on, and the dead count against the limit on processes until they are reaped;
 * so at last a walk finds no process alive. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "warden/fence/fence.h"
#include "warden/state.h"

#define STAT_MAX      4096
#define CHAIN_MAX     100000
#define STRAY_TURN_MS 10

/* The name in its stat may hold any byte. */
static bool read_process(int proc_fd, const char *pid, struct fence_process *ret)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(STAT_MAX);
    snprintf(path, sizeof(path), "%.20s/stat", pid);
    if (fd_read_file_at(proc_fd, path, &text) < 0 || !text.data)
        return false;
    const char *after = strrchr(text.data, ')');
    int parent;
    /* Fields 3, 4 and 22. */
    if (!after || sscanf(after,
                         ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &ret->state, &parent, &ret->started) != 3)
        return false;
    ret->pid = (pid_t)atoi(pid);
    ret->parent = (pid_t)parent;
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    return ((const struct fence_process *)a)->pid - ((const struct fence_process *)b)->pid;
}

static struct fence_process *read_all(int proc_fd, size_t *ret_n)
{
    struct fence_process *all = NULL;
    size_t n = 0, room = 0;
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        fd_close(&fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (n == room)
            all = xrealloc(all, (room = room ? 2 * room : 256) * sizeof(*all));
        n += read_process(proc_fd, e->d_name, &all[n]);
    }
    if (dir)
        closedir(dir);
    if (n)
        qsort(all, n, sizeof(*all), compare_pids);
    *ret_n = n;
    return all;
}

bool fence_descends(const struct fence_process *p, const struct fence_process *all, size_t n,
                    const void *ancestor)
{
    pid_t wanted = *(const pid_t *)ancestor;
    for (int i = 0; p && i < CHAIN_MAX; i++) {
        if (p->parent == wanted)
            return true;
        struct fence_process key = {.pid = p->parent};
        p = p->parent ? bsearch(&key, all, n, sizeof(*all), compare_pids) : NULL;
    }
    return false;
}

/* Since it was read, its number may have become another process's: of what the descriptor is open
 * for, /proc says the same as before, or it is left alone. */
static bool kill_process(int proc_fd, const struct fence_process *p)
{
    char name[16];
    struct fence_process now;
    _cleanup_close_ int fd = pidfd_open(p->pid, 0);
    snprintf(name, sizeof(name), "%d", (int)p->pid);
    return fd >= 0 && read_process(proc_fd, name, &now) && now.started == p->started &&
           pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0;
}

unsigned fence_kill(int proc_fd, fence_is_one is_one, const void *data)
{
    size_t n;
    unsigned killed = 0;
    _cleanup_free_ struct fence_process *all = read_all(proc_fd, &n);
    for (size_t i = 0; i < n; i++) {
        bool dead = all[i].state == 'Z' || all[i].state == 'X';
        if (!dead && is_one(&all[i], all, n, data) && kill_process(proc_fd, &all[i]))
            killed++;
    }
    return killed;
}

/* --- what a killed keeper left to the warden */

static bool is_stray(const struct fence_process *p, const struct fence_process *all, size_t n,
                     const void *data)
{
    const struct warden *w = data;
    (void)all;
    (void)n;
    return p->parent == getpid() && !watcher_has_child(w->watcher, p->pid);
}

static void end_strays(void *data);

/* Their children become ours with their death: until none is left. */
static void end_strays(void *data)
{
    struct warden *w = data;
    fence_host(w)->stray_timer = NULL;
    unsigned killed = fence_kill(w->proc_fd, is_stray, w);
    size_t n;
    _cleanup_free_ struct fence_process *all = read_all(w->proc_fd, &n);
    for (size_t i = 0; i < n; i++)
        if (is_stray(&all[i], all, n, w))
            waitpid(all[i].pid, NULL, WNOHANG);
    if (killed)
        fence_host(w)->stray_timer = watcher_add_timer(w->watcher, STRAY_TURN_MS, end_strays, w);
}

static void on_remover_exit(pid_t pid, int wait_status, void *data)
{
    (void)pid;
    (void)data;
    if (wait_status)
        log_warn("a box could not be removed; the next start tries again");
}

void fence_end_strays(struct warden *w, const struct cell *s)
{
    char name[32];
    fence_box_name(s, name);
    if (faccessat(fence_host(w)->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* the keeper's last deed, if it had the time */
    if (!fence_host(w)->stray_timer)
        end_strays(w);
    /* In a process of its own: the warden must not wait for a large tree. */
    pid_t pid = helper_fork(&fence_host(w)->dir_fd, 1);
    if (pid == 0)
        _exit(fence_box_remove(fence_host(w)->dir_fd, name, 0) < 0);
    if (pid < 0 || !watcher_add_child(w->watcher, pid, -1, on_remover_exit, w))
        log_warn("cannot remove box %s error=%s", name, strerror(errno));
}
