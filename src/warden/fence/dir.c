/* SPDX-License-Identifier: Apache-2.0 */
/* Where fenced sandboxes keep their files: one directory of the warden's, locked while it lives,
 * with a box for each. The directory is searchable by all users, because commands have users of
 * their own; the boxes are not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/fence/fence.h"
#include "warden/state.h"

#define DIR_NAME      "mas-boxes-"
#define DIR_TRIES     8
#define REMOVE_DEPTH  64 /* what is deeper is moved up first */
#define REMOVE_ROUNDS 10000
#define UIDS_DIR      "/run/mas-sandbox-uids"

/* What a sandbox has of its own; the first is where commands start. */
static const char *const parts[] = {FENCE_WORKDIR, "tmp", "home"};

/* --- removing */

struct removal {
    int top_fd;
    unsigned moved;
    int64_t end_ms; /* 0: takes as long as it takes */
    bool failed;
};

static void remove_entry(struct removal *r, int parent, const char *name, int depth);

/* By descriptor: what stands under a name may be a link by now. No file has a directory's inode. */
int fence_dir_unlock(int parent, const char *name)
{
    char path[32];
    _cleanup_close_ int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (chmod(path, 0700) < 0)
        return -errno;
    int open_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return open_fd < 0 ? -errno : open_fd;
}

static int open_dir(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        return fence_dir_unlock(parent, name);
    return fd < 0 ? -errno : fd;
}

static bool is_late(struct removal *r)
{
    r->failed = r->failed || (r->end_ms && clock_mono_ms() > r->end_ms);
    return r->failed;
}

static void remove_all_in(struct removal *r, int fd, int depth)
{
    fchmod(fd, 0700);
    /* Its own position: this may be another round over the same descriptor. */
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    for (struct dirent *e; dir && !is_late(r) && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_entry(r, fd, e->d_name, depth);
    if (dir)
        closedir(dir);
}

/* A walk must not follow a tree as deep as a sandbox could build it. */
static void move_up(struct removal *r, int parent, const char *name)
{
    char to[32];
    snprintf(to, sizeof(to), "removed-%u", r->moved++);
    if (renameat(parent, name, r->top_fd, to) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        r->failed = true;
}

static void remove_entry(struct removal *r, int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        return;
    if (depth == REMOVE_DEPTH)
        return move_up(r, parent, name);
    _cleanup_close_ int fd = open_dir(parent, name);
    if (fd >= 0)
        remove_all_in(r, fd, depth + 1);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTEMPTY)
        r->failed = true;
}

int fence_box_remove(int dir_fd, const char *name, int max_ms)
{
    _cleanup_close_ int top = open_dir(dir_fd, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    struct removal r = {.top_fd = top, .end_ms = max_ms ? clock_mono_ms() + max_ms : 0};
    for (int round = 0; round < REMOVE_ROUNDS && !r.failed; round++) {
        remove_all_in(&r, top, 0);
        if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTEMPTY)
            return -errno;
    }
    return -ENOTEMPTY;
}

/* --- making */

int fence_box_make(const char *path, uid_t uid, gid_t gid)
{
    if (mkdir(path, 0700) < 0)
        return -errno;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < ELEMENTS(parts); i++)
        if (mkdirat(fd, parts[i], 0755) < 0 ||
            fchownat(fd, parts[i], uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    return fchown(fd, uid, gid) < 0 ? -errno : 0;
}

/* Between making it and locking it, another daemon may have taken it for a leftover. */
static int make_locked(char *path)
{
    struct stat st;
    if (!mkdtemp(path))
        return -errno;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -EAGAIN : -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0)
        return -EAGAIN;
    return fchmod(fd, 0711) < 0 ? -errno : fd_steal(&fd);
}

int fence_dir_open(struct fence_host *h, const char *parent)
{
    int r = -EAGAIN;
    for (int i = 0; i < DIR_TRIES && r == -EAGAIN; i++) {
        int n = snprintf(h->path, sizeof(h->path), "%s/" DIR_NAME "XXXXXX", parent);
        r = n < (int)sizeof(h->path) ? make_locked(h->path) : -ENAMETOOLONG;
    }
    if (r < 0)
        return r;
    h->dir_fd = fcntl(r, F_DUPFD_CLOEXEC, FENCE_FD_MIN); /* the lock is the same */
    close(r);
    h->parent_fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (h->dir_fd < 0 || h->parent_fd < 0)
        return -errno;
    if (geteuid() == 0 && (mkdir(UIDS_DIR, 0700) == 0 || errno == EEXIST))
        h->uids_fd = open(UIDS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return 0;
}

/* --- ids */

static int lock_id(int uids_fd, int64_t first)
{
    char name[32];
    snprintf(name, sizeof(name), "%lld", (long long)first);
    _cleanup_close_ int fd = openat(uids_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return fd_steal(&fd);
}

int64_t fence_ids_take(struct warden *w, int *ret_lock_fd)
{
    *ret_lock_fd = -1;
    for (uint32_t i = 0; i <= w->ids.n_blocks; i++) {
        int64_t first = id_block_take(&w->ids);
        if (first < 0 || w->ids.shared || fence_host(w)->uids_fd < 0)
            return first;
        *ret_lock_fd = lock_id(fence_host(w)->uids_fd, first);
        if (*ret_lock_fd >= 0)
            return first;
        *ret_lock_fd = -1;
        id_block_release(&w->ids, first); /* the search goes on behind it */
    }
    return -EAGAIN;
}

/* --- leftovers */

struct leftover {
    const char *path;
    uid_t uid; /* a uid that only these sandboxes have, or (uid_t)-1 */
};

/* In its directory, or of its user in our own pid namespace: others are in namespaces of theirs. */
static bool is_left(const struct fence_process *p, const struct fence_process *all, size_t n,
                    const void *data)
{
    const struct leftover *left = data;
    char path[64], link[256] = "", ours[64] = "";
    struct stat st;
    (void)all;
    (void)n;
    snprintf(path, sizeof(path), "/proc/%d/cwd", (int)p->pid);
    size_t len = strlen(left->path);
    if (readlink(path, link, sizeof(link) - 1) > 0 && strncmp(link, left->path, len) == 0 &&
        (link[len] == '/' || link[len] == ' ' || !link[len]))
        return true;
    snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
    if (left->uid == (uid_t)-1 || stat(path, &st) < 0 || st.st_uid != left->uid)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)p->pid);
    memset(link, 0, sizeof(link));
    return readlink(path, link, sizeof(link) - 1) > 0 &&
           readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 && strcmp(link, ours) == 0;
}

/* The user of a box, unless another daemon has given it to a sandbox since; locked meanwhile. */
static uid_t free_uid(uid_t uid, int *ret_lock)
{
    _cleanup_close_ int uids = open(UIDS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (geteuid() != 0 || uid == 0 || uids < 0)
        return (uid_t)-1;
    *ret_lock = lock_id(uids, (int64_t)uid - 1); /* commands have the block's second id */
    return *ret_lock < 0 ? (uid_t)-1 : uid;
}

static void kill_left(const char *dir, int dir_fd, const char *name)
{
    struct stat st;
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    _cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    _cleanup_close_ int lock = -1;
    struct leftover left = {path, free_uid(st.st_uid, &lock)};
    while (fence_kill(proc, is_left, &left))
        usleep(1000);
}

/* A directory of ours whose lock is free: true when it is gone. */
static bool sweep_one(int parent_fd, const char *parent, const char *name)
{
    struct stat st;
    _cleanup_close_ int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    _cleanup_free_ char *path = xasprintf("%s/%s", parent, name);
    DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            kill_left(path, fd, e->d_name);
    if (dir)
        closedir(dir);
    return fence_box_remove(parent_fd, name, 0) == 0;
}

int fence_dir_sweep(const char *parent)
{
    int removed = 0;
    DIR *dir = opendir(parent);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, DIR_NAME, strlen(DIR_NAME)) == 0)
            removed += sweep_one(dirfd(dir), parent, e->d_name);
    if (dir)
        closedir(dir);
    return removed;
}
