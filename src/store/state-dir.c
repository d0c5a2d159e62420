/* SPDX-License-Identifier: Apache-2.0 */
#include "store/state-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/tree.h"

#define ROOT_STATE_DIR "/var/lib/mas-sandbox"
#define TEMPORARY_NAME "mas-sandbox-"
/* A younger directory may belong to a daemon that has not locked it yet. */
#define ABANDONED_AFTER_S 60
#define LOCK_WAIT_MS      10000 /* for what a killed daemon left to let go of it */
#define LOCK_POLL_MS      10
#define STATUS_MAX        8192

/* --- where */

static char *default_path(struct error *err)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (geteuid() == 0)
        return xstrdup(ROOT_STATE_DIR);
    if (xdg && *xdg == '/')
        return xasprintf("%s/mas-sandbox", xdg);
    if (home && *home == '/')
        return xasprintf("%s/.local/state/mas-sandbox", home);
    error_set(err, ERROR_INVALID, 0, "no state directory: set --state-dir, XDG_STATE_HOME or HOME");
    return NULL;
}

static int make_parents(const char *path, struct error *err)
{
    _cleanup_free_ char *copy = xstrdup(path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int r = fd_make_dir_at(AT_FDCWD, copy, 0755);
        if (r < 0)
            return error_set(err, ERROR_INVALID, -r, "make '%s'", copy);
        *slash = '/';
    }
    return 0;
}

/* The directory has to be the daemon's own: what another user could put there would be taken for
 * state. Rights of others are taken away rather than refused, since mkdir() by hand leaves some. */
static int open_own(const char *path, struct error *err)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERROR_INVALID, errno, "make state directory '%s'", path);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, ERROR_INVALID, errno, "state directory '%s'", path);
    if (st.st_uid != geteuid())
        return error_set(err, ERROR_INVALID, 0, "state directory '%s' belongs to uid %u", path,
                         (unsigned)st.st_uid);
    if ((st.st_mode & 077) && fchmod(fd, 0700) < 0)
        return error_set(err, ERROR_INVALID, errno, "make state directory '%s' private", path);
    return fd_steal(&fd);
}

/* --- temporary ones */

/* A daemon that was killed leaves its directory; its lock is free. */
static bool is_abandoned(int parent, const char *name)
{
    struct stat st;
    _cleanup_close_ int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid() ||
        time(NULL) - st.st_mtime < ABANDONED_AFTER_S)
        return false;
    _cleanup_close_ int lock = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
}

static int make_temporary(struct state_dir *s, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    const char *parent = tmp && *tmp == '/' ? tmp : "/tmp";
    DIR *dir = opendir(parent);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, TEMPORARY_NAME, strlen(TEMPORARY_NAME)) == 0 &&
            is_abandoned(dirfd(dir), e->d_name))
            tree_remove_at(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
    s->path = xasprintf("%s/" TEMPORARY_NAME "XXXXXX", parent);
    if (!mkdtemp(s->path))
        return error_set(err, ERROR_INVALID, errno, "make a directory in '%s'", parent);
    s->temporary = true;
    s->parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->parent_fd < 0 ? error_set(err, ERROR_INVALID, errno, "'%s'", parent) : 0;
}

/* --- open and close */

static int find_path(struct state_dir *s, const char *path, bool temporary, struct error *err)
{
    if (!path && temporary)
        return make_temporary(s, err);
    s->path = path ? xstrdup(path) : default_path(err);
    return s->path ? make_parents(s->path, err) : -EINVAL;
}

static void read_holder(int lock_fd, char *pid, size_t size)
{
    ssize_t n = pread(lock_fd, pid, size - 1, 0);
    pid[n > 0 ? n : 0] = 0;
    pid[strcspn(pid, "\n")] = 0;
}

/* Whether SIGKILL waits for a process, by a line of its status. */
static bool is_killed(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line && strtoull(line + strlen(name), NULL, 16) & 1ull << (SIGKILL - 1);
}

/* Dead, or about to be. What cannot be looked at lives. */
static bool is_dying(const char *pid)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(STATUS_MAX);
    char *end;
    long number = strtol(pid, &end, 10);
    if (number <= 0 || *end)
        return false;
    if (kill((pid_t)number, 0) < 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof(path), "/proc/%ld/status", number);
    if (fd_read_file_at(AT_FDCWD, path, &b) < 0 || !b.len)
        return false;
    const char *state = strstr(b.data, "\nState:\t");
    return (state && strchr("ZX", state[8])) || is_killed(b.data, "\nSigPnd:\t") ||
           is_killed(b.data, "\nShdPnd:\t");
}

/* The lock of a daemon that was killed stays a little longer than it does: with a sandbox that was
 * being made and cannot die before the kernel has put it into its control groups. */
static int lock_or_wait(int lock_fd)
{
    char pid[32];
    for (int waited_ms = 0; flock(lock_fd, LOCK_EX | LOCK_NB) < 0; waited_ms += LOCK_POLL_MS) {
        int error = errno;
        read_holder(lock_fd, pid, sizeof(pid));
        if (error != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS || !is_dying(pid))
            return -error;
        usleep(LOCK_POLL_MS * 1000);
    }
    return 0;
}

/* The lock is the descriptor's, not the process's: it lasts until the last process that inherited
 * it is gone. The pid in the file is for the message, and for lock_or_wait(). */
static int take_lock(struct state_dir *s, struct error *err)
{
    char pid[32];
    s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return error_set(err, ERROR_INVALID, errno, "lock in '%s'", s->path);
    if (lock_or_wait(s->lock_fd) < 0) {
        read_holder(s->lock_fd, pid, sizeof(pid));
        return error_set(err, ERROR_CONFLICT, 0, "state directory '%s' is in use by process %s",
                         s->path, *pid ? pid : "?");
    }
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(s->lock_fd, 0) < 0 || pwrite(s->lock_fd, pid, (size_t)n, 0) != n)
        return error_set(err, ERROR_NO_SPACE, errno, "lock in '%s'", s->path);
    return 0;
}

/* A database that root made while the daemon was stopped, for the control plane that comes. Only
 * while the directory is root's: later its names are the control plane's own. */
static int give_files(int dir, uid_t uid, gid_t gid)
{
    struct stat st;
    if (uid == (uid_t)-1 || fstat(dir, &st) < 0 || st.st_uid != 0)
        return 0;
    int r = fchownat(dir, "state.db", uid, gid, AT_SYMLINK_NOFOLLOW);
    return r < 0 && errno != ENOENT ? -errno : 0;
}

int state_dir_make_images(struct state_dir *s, uid_t uid, struct error *err)
{
    s->images_path = xasprintf("%s/images", s->path);
    s->images_fd = fd_enter_dir_at(s->fd, "images", 0700);
    if (s->images_fd < 0)
        return error_set(err, ERROR_INVALID, -s->images_fd, "make '%s'", s->images_path);
    if (geteuid() == 0 && fchown(s->images_fd, uid, uid) < 0)
        return error_set(err, ERROR_INVALID, errno, "give '%s' to uid %u", s->images_path,
                         (unsigned)uid);
    return 0;
}

int state_dir_open(struct state_dir *s, const char *path, bool temporary, uid_t uid, gid_t gid,
                   struct error *err)
{
    *s = (struct state_dir)STATE_DIR_INIT;
    int r = find_path(s, path, temporary, err);
    if (r < 0)
        return r;
    s->fd = open_own(s->path, err);
    if (s->fd < 0)
        return s->fd;
    r = take_lock(s, err);
    if (r < 0)
        return r;
    s->control_path = xasprintf("%s/control", s->path);
    s->warden_path = xasprintf("%s/warden", s->path);
    _cleanup_close_ int fd = fd_enter_dir_at(s->fd, "control", 0700);
    if (fd < 0)
        return error_set(err, ERROR_INVALID, -fd, "make '%s'", s->control_path);
    if (geteuid() == 0 && (give_files(fd, uid, gid) < 0 || fchown(fd, uid, gid) < 0))
        return error_set(err, ERROR_INVALID, errno, "give '%s' to uid %u", s->control_path,
                         (unsigned)uid);
    s->control_fd = openat(s->fd, "control", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return s->control_fd < 0 ? error_set(err, ERROR_INVALID, errno, "'%s'", s->control_path) : 0;
}

void state_dir_close(struct state_dir *s)
{
    if (s->temporary && s->parent_fd >= 0)
        tree_remove_at(s->parent_fd, strrchr(s->path, '/') + 1);
    fd_close(&s->control_fd);
    fd_close(&s->images_fd);
    fd_close(&s->fd);
    fd_close(&s->parent_fd);
    fd_close(&s->lock_fd);
    free(s->path);
    free(s->control_path);
    free(s->warden_path);
    free(s->images_path);
    *s = (struct state_dir)STATE_DIR_INIT;
}
