/* SPDX-License-Identifier: Apache-2.0 */
/* See sweep.h. Runs at the start of a warden and for `sbx doctor --clean`. */
#include "warden/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "warden/cgroup.h"
#include "warden/kind.h"
#include "warden/warden.h"

/* A pid and its start time together name a process for as long as the host is up: the number alone
 * is given again. 0 when there is no such process. */
static unsigned long long start_time(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(4096);
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return 0;
    /* Field 22; the name in field 2 may hold anything, so count from its closing parenthesis. */
    const char *p = strrchr(text.data, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

void sweep_instance_name(const char *prefix, char *ret, size_t size)
{
    snprintf(ret, size, "%.24s-%d-%llu", prefix, (int)getpid(), start_time((int)getpid()));
}

/* Does name start with an instance's name, and is that instance dead by what /proc says? It says
 * nothing of an instance in another pid namespace: such a one has its groups locked. */
static bool is_dead_instance(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    int pid, used = 0;
    unsigned long long started;
    if (strncmp(name, prefix, n) != 0)
        return false;
    if (sscanf(name + n, "-%d-%llu%n", &pid, &started, &used) != 2 || used == 0)
        return false;
    /* Images and leaves go on with "-word"; a number there makes it another prefix's name. */
    const char *rest = name + n + used;
    if (rest[0] && (rest[0] != '-' || (rest[1] >= '0' && rest[1] <= '9')))
        return false;
    return pid > 0 && start_time(pid) != started;
}

/* A living warden, or its janitor, has the instance's directory locked (cgroup_root_open()). */
static bool is_locked(int parent_fd, const char *name)
{
    _cleanup_close_ int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static bool has_line(const struct strbuf *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text->data; at && (at = strstr(at, line)); at += len)
        if ((at == text->data || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

/* The number may be another process's by now: what is killed is what is still in the group when its
 * descriptor is open. */
static void kill_member(int group_fd, const char *pid)
{
    _cleanup_strbuf_ struct strbuf now = STRBUF_INIT(1 << 20);
    _cleanup_close_ int fd = atoi(pid) > 0 ? pidfd_open(atoi(pid), 0) : -1;
    if (fd >= 0 && fd_read_file_at(group_fd, "cgroup.procs", &now) >= 0 && has_line(&now, pid))
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
}

/* What outlived its warden: frozen perhaps, and in no namespace that ended it. */
static void empty_group(int parent_fd, const char *name)
{
    static const struct {
        const char *file, *text;
    } wakes[] = {{"freezer.state", "THAWED"}, {"cgroup.freeze", "0"}, {"cgroup.kill", "1"}};
    _cleanup_close_ int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_strbuf_ struct strbuf pids = STRBUF_INIT(1 << 20);
    if (fd < 0 || fd_read_file_at(fd, "cgroup.procs", &pids) < 0 || !pids.len)
        return;
    for (size_t i = 0; i < ELEMENTS(wakes); i++)
        fd_write_file_at(fd, wakes[i].file, wakes[i].text);
    char *save = NULL;
    for (char *pid = strtok_r(pids.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
        kill_member(fd, pid);
}

/* One level: groups of sandboxes have none below them, because nothing in a sandbox can make one. A
 * directory that is still in use stays, and is tried again by the caller or at the next start. */
int sweep_cgroup_tree(int parent_fd, const char *name)
{
    int removed = 0;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.') {
            empty_group(dirfd(dir), e->d_name);
            removed += unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) == 0;
        }
    closedir(dir);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
        removed++;
    return removed;
}

struct sweep_state {
    const char *prefix;
    int removed;
};

static void sweep_dir(const char *path, struct sweep_state *s)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_type == DT_DIR && is_dead_instance(s->prefix, e->d_name) &&
            !is_locked(dirfd(dir), e->d_name))
            s->removed += sweep_cgroup_tree(dirfd(dir), e->d_name);
    closedir(dir);
}

static void sweep_own_group(const char *mountpoint, struct sweep_state *s)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64 * 1024);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", &text) < 0)
        return;
    char *save = NULL;
    for (char *l = strtok_r(text.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        if (strncmp(l, "0::/", 4) != 0 || !l[4])
            continue;
        _cleanup_free_ char *own = xasprintf("%s/%s", mountpoint, l + 4);
        sweep_dir(own, s);
        /* When our family was moved to a leaf, instances are beside the leaf. */
        _cleanup_free_ char *above = xasprintf("%s/..", own);
        sweep_dir(above, s);
    }
}

static int on_mount(const char *fstype, const char *mountpoint, const char *super, void *data)
{
    struct sweep_state *s = data;
    (void)super;
    sweep_dir(mountpoint, s);
    if (strcmp(fstype, "cgroup2") == 0)
        sweep_own_group(mountpoint, s);
    return 0;
}

int sweep_cgroups(const char *prefix)
{
    struct sweep_state s = {.prefix = prefix};
    int r = cgroup_each_mount(on_mount, &s);
    return r < 0 ? r : s.removed;
}

int sweep_images(int state_fd, const char *prefix)
{
    int removed = 0;
    int fd = state_fd < 0 ? -1 : openat(state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (is_dead_instance(prefix, e->d_name) && unlinkat(dirfd(dir), e->d_name, 0) == 0)
            removed++;
    closedir(dir);
    return removed;
}

int warden_clean(const struct warden_options *o)
{
    int removed = sweep_cgroups(o->cgroup_prefix);
    if (removed < 0)
        return removed;
    _cleanup_close_ int fd =
        o->state_dir ? open(o->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    removed += sweep_images(fd, o->cgroup_prefix);
    for (int kind = 0; kind < _CELL_KIND_MAX; kind++)
        removed += cell_kinds[kind]->sweep_host ? cell_kinds[kind]->sweep_host(o) : 0;
    return removed;
}
