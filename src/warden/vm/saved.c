/* SPDX-License-Identifier: Apache-2.0 */
/* Machines of callers that are kept as they are (PLAN_SAVE), in files of the state directory.
 *
 * Theory of operation. A saved machine has a name, which the control plane chose at random, and
 * up to four files of that name: the guest's memory, the state of its devices, its disk if it has
 * one, and its shape. mas-vmm writes the first three through descriptors, into files that end in
 * ".new"; the warden takes the ending away when all is written, and writes the shape last. So what
 * has a shape is whole, and what has none is removed at the next start. The warden reads nothing
 * but shapes, which are records of its own.
 *
 * Whom a saved machine belongs to is the control plane's to know. A machine is made of one only
 * where the shape is that of the new machine: same size, disk, image and files of the operator's.
 *
 * A copy does not map these files: QEMU opens what it maps for writing, and others must not be
 * made from a file that one copy can write to. load.c brings memory and state into sealed memory
 * files, once for all copies. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/channel.h"
#include "warden/cell-internal.h"
#include "warden/control.h"
#include "warden/vm/vm.h"

#define DIR_NAME    "saved" /* in the warden's directory */
#define NEW_ENDING  ".new"
#define WORK_MAX_MS 300000 /* mas-vmm has limits of its own, which end before */

static const char *const endings[_VM_SAVED_MAX] = {
    [VM_SAVED_MEMORY] = "memory",
    [VM_SAVED_STATE] = "state",
    [VM_SAVED_DISK] = "disk",
    [VM_SAVED_SHAPE] = "shape",
};

struct path {
    char text[PLAN_SNAPSHOT_SIZE + 16];
};

static struct path path_of(const char *name, enum vm_saved_file f, const char *more)
{
    struct path p;
    snprintf(p.text, sizeof(p.text), "%s.%s%s", name, endings[f], more);
    return p;
}

static struct vm_cell *vm_of(struct cell *s)
{
    return container_of(s, struct vm_cell, cell);
}

/* What no shape has was not finished, or is being removed. */
static void remove_unfinished(int fd, const char *file)
{
    char name[PLAN_SNAPSHOT_SIZE] = "";
    size_t n = strcspn(file, ".");
    if (n != sizeof(name) - 1)
        return;
    memcpy(name, file, n);
    if (strstr(file, NEW_ENDING) ||
        faccessat(fd, path_of(name, VM_SAVED_SHAPE, "").text, F_OK, 0) < 0)
        unlinkat(fd, file, 0);
}

static void sweep_saved(int saved_fd)
{
    int fd = openat(saved_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            remove_unfinished(saved_fd, e->d_name);
    closedir(dir);
}

void vm_saved_open(struct warden *w)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (mkdirat(w->state_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
        return;
    h->saved_fd = openat(w->state_fd, DIR_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (h->saved_fd >= 0)
        sweep_saved(h->saved_fd);
}

/* --- shapes */

static void fill_shape(const struct cell *s, struct vm_shape *ret)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    const struct child_order *o = &s->order;
    memset(ret, 0, sizeof(*ret));
    ret->magic = GUEST_MAGIC;
    ret->memory_bytes = o->limits.memory_bytes;
    ret->cpu_millicores = o->limits.cpu_millicores;
    ret->flags = o->flags;
    ret->has_disk = o->disk_from_fd;
    ret->disk_bytes = o->disk_from_fd ? o->disk_bytes : 0;
    memcpy(ret->image, s->plan.image, sizeof(ret->image));
    memcpy(ret->files, h->file_ids, sizeof(ret->files));
}

static int read_shape(const struct vm_host *h, const char *name, struct vm_shape *ret)
{
    _cleanup_close_ int fd = openat(h->saved_fd, path_of(name, VM_SAVED_SHAPE, "").text,
                                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return read(fd, ret, sizeof(*ret)) == sizeof(*ret) ? 0 : -EIO;
}

static int snapshot_refuse(struct plan_reply *reply, int error, const char *why)
{
    snprintf(reply->message, sizeof(reply->message), "%s", why);
    return error;
}

int vm_saved_check(const struct cell *s, const char *name, struct plan_reply *reply)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_shape saved, own;
    int r = read_shape(h, name, &saved);
    if (r < 0)
        return snapshot_refuse(reply, -ESTALE,
                               "the snapshot's files are gone, or were never complete");
    vm_files_identify(s->warden);
    fill_shape(s, &own);
    if (saved.magic != own.magic || memcmp(saved.files, own.files, sizeof(own.files)) != 0)
        return snapshot_refuse(
            reply, -ESTALE,
            "the snapshot is of a machine with another emulator, kernel, initramfs, root "
            "or drive than machines have now");
    if (memcmp(&saved, &own, sizeof(own)) != 0)
        return snapshot_refuse(
            reply, -EINVAL,
            "the snapshot is of a machine with other limits, another image or another "
            "network than this sandbox");
    return 0;
}

static int write_shape(struct cell *s, const char *name)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_shape shape;
    struct path from = path_of(name, VM_SAVED_SHAPE, NEW_ENDING);
    fill_shape(s, &shape);
    shape.files[0] = vm_of(s)->emulator; /* which may have been replaced since */
    _cleanup_close_ int fd =
        openat(h->saved_fd, from.text, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, &shape, sizeof(shape));
    if (r < 0)
        return r;
    return fdatasync(fd) < 0 || renameat(h->saved_fd, from.text, h->saved_fd,
                                         path_of(name, VM_SAVED_SHAPE, "").text) < 0
               ? -errno
               : 0;
}

/* --- files */

int vm_saved_open_file(const struct vm_host *h, const char *name, enum vm_saved_file f)
{
    int fd = openat(h->saved_fd, path_of(name, f, "").text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void remove_files(const struct vm_host *h, const char *name, const char *more)
{
    for (int f = _VM_SAVED_MAX - 1; f >= 0; f--) /* the shape is the first to go */
        unlinkat(h->saved_fd, path_of(name, (enum vm_saved_file)f, more).text, 0);
}

int vm_saved_drop(struct warden *w, const char *name)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (!h || h->saved_fd < 0)
        return 0;
    vm_loaded_drop(h, name);
    remove_files(h, name, "");
    return 0;
}

/* Those that were written, and how much room they take. */
static int publish_files(struct cell *s, const char *name, uint64_t *ret_bytes)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct stat st;
    *ret_bytes = 0;
    for (int f = 0; f < VM_SAVED_SHAPE; f++) {
        struct path from = path_of(name, (enum vm_saved_file)f, NEW_ENDING);
        if (f == VM_SAVED_DISK && !s->order.disk_from_fd)
            continue;
        if (fstatat(h->saved_fd, from.text, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            renameat(h->saved_fd, from.text, h->saved_fd,
                     path_of(name, (enum vm_saved_file)f, "").text) < 0)
            return -errno;
        *ret_bytes += (uint64_t)st.st_blocks * 512;
    }
    return write_shape(s, name);
}

static int make_files(const struct cell *s, const char *name, int fds[VM_SAVED_SHAPE], size_t *n)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    *n = 0;
    for (int f = 0; f < VM_SAVED_SHAPE; f++) {
        if (f == VM_SAVED_DISK && !s->order.disk_from_fd)
            continue;
        fds[*n] =
            openat(h->saved_fd, path_of(name, (enum vm_saved_file)f, NEW_ENDING).text, flags, 0600);
        if (fds[*n] < 0)
            return -errno;
        ++*n;
    }
    return ftruncate(fds[VM_SAVED_MEMORY], (off_t)s->order.limits.memory_bytes) < 0 ? -errno : 0;
}

/* --- what a machine is at */

static void work_finish(struct cell *s, int error, const char *text)
{
    struct vm_cell *v = vm_of(s);
    struct vm_work *work = &v->work;
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct plan_reply reply = {.tag = work->tag, .wall = -1, .error = error};
    int fd = -1;
    watch_remove(work->timer);
    watch_remove(s->channel_watch);
    work->timer = s->channel_watch = NULL;
    cell_describe(s, &reply);
    if (work->op == PLAN_SAVE && !reply.error && work->tag)
        reply.error = -publish_files(s, work->name, &reply.disk_used_bytes);
    if (work->op == PLAN_SAVE && (reply.error || !work->tag)) {
        remove_files(h, work->name, NEW_ENDING);
        remove_files(h, work->name, "");
    }
    if (work->op == PLAN_RETURN && !reply.error && work->tag) {
        fd = cell_connect(s, 0);
        reply.error = fd < 0 ? -fd : 0;
    }
    ledger_release(&s->warden->ledger, &work->claim);
    work->op = 0;
    if (!work->tag) {
        fd_close(&fd);
        return;
    }
    if (reply.error)
        snprintf(reply.message, sizeof(reply.message), "%s: %s", text[0] ? text : "keep the files",
                 strerror(reply.error));
    control_send(s->warden, &reply, fd);
}

void vm_on_channel(struct cell *s)
{
    struct vm_answer answer = {.error = EIO};
    ssize_t n = recv(s->channel_fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n != sizeof(answer) || !vm_of(s)->work.op) { /* its end follows, or it makes no sense */
        watch_remove(s->channel_watch);
        s->channel_watch = NULL;
        return;
    }
    answer.text[sizeof(answer.text) - 1] = 0;
    for (char *c = answer.text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    work_finish(s, answer.error < 0 || answer.error > 4095 ? EIO : answer.error, answer.text);
}

static void on_work_timeout(void *data)
{
    struct cell *s = data;
    vm_of(s)->work.timer = NULL;
    cell_kill(s); /* nothing is known of the machine any more; its end answers */
}

void vm_work_end(struct cell *s)
{
    if (vm_of(s)->work.op)
        work_finish(s, ECHILD, "the machine ended");
}

void vm_work_abandon(struct cell *s)
{
    vm_of(s)->work.tag = 0;
}

static int work_check(const struct cell *s, const struct vm_work *work, struct plan_reply *reply)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    if (h->saved_fd < 0)
        return snapshot_refuse(reply, -EOPNOTSUPP,
                               "the state directory has no place for snapshots");
    if (s->state != CELL_RUNNING || s->killed)
        return snapshot_refuse(reply, -ENOENT, "the machine does not run");
    if (s->paused)
        return snapshot_refuse(reply, -EBUSY, "the machine stands still");
    if (work->op)
        return snapshot_refuse(reply, -EBUSY, "the machine is being kept or restored");
    if (s->order.n_shares) /* what it has open there is not in its memory or on its disk */
        return snapshot_refuse(reply, -EOPNOTSUPP,
                               "a machine with directories of the host (mounts) cannot be kept, "
                               "copied or put back");
    if (vm_drives_are_written(h)) /* which a copy would write to as well */
        return snapshot_refuse(reply, -EOPNOTSUPP,
                               "a machine with drives that it can write (is_read_only: false) "
                               "cannot be kept, copied or put back");
    if (s->plan.flags & PLAN_AUTHORITY) /* which the interceptor of a copy is not */
        return snapshot_refuse(reply, -EOPNOTSUPP,
                               "a machine with an interceptor trusts that one's certificate "
                               "authority, and cannot be kept, copied or put back");
    if (s->order.net_slot) /* a copy would have the same address, and the emulator no link */
        return snapshot_refuse(reply, -EOPNOTSUPP,
                               "a machine with a network by address cannot be kept, copied or put "
                               "back");
    return 0;
}

static int work_start(struct cell *s, const struct plan *p, const char *what, const int *fds,
                      size_t n)
{
    struct vm_work *work = &vm_of(s)->work;
    ssize_t r = fd_send_msg(s->channel_fd, what, 1, fds, n);
    if (r < 0)
        return (int)r;
    work->op = p->op;
    work->tag = p->tag;
    snprintf(work->name, sizeof(work->name), "%s", p->snapshot);
    work->timer = watcher_add_timer(s->warden->watcher, WORK_MAX_MS, on_work_timeout, s);
    cell_watch_channel(s);
    return -EINPROGRESS;
}

static int check_room(struct cell *s, struct plan_reply *reply)
{
    struct warden *w = s->warden;
    const struct vm_host *h = w->hosts[CELL_VM];
    struct vm_work *work = &vm_of(s)->work;
    uint64_t bytes =
        s->order.limits.memory_bytes + (s->order.disk_from_fd ? s->order.disk_bytes : 0);
    struct ledger_claim claim = ledger_claim(&w->ledger, &work->claim, bytes);
    return ledger_check(&claim, h->saved_fd, reply->message, sizeof(reply->message));
}

/* To keep a machine, the emulator reads all of its memory. Where that is a copy's, pages of the
 * common file that no machine has touched come into being by that, and are charged to this one. */
static int allow_reading(struct cell *s, struct plan_reply *reply)
{
    if (s->order.origin == VM_BOOTED)
        return 0;
    int r = vm_allow_shared(s, vm_of(s)->memory_inode);
    if (r == -EMFILE)
        return snapshot_refuse(
            reply, -EAGAIN,
            "the machine was restored and kept from too many snapshots that are still in "
            "memory; try again later");
    return r < 0 ? snapshot_refuse(reply, -EOPNOTSUPP,
                                   "cgroup.memory_max_bytes leaves no room to keep a machine")
                 : 0;
}

int vm_save(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_work *work = &vm_of(s)->work;
    int fds[VM_SAVED_SHAPE] = {-1, -1, -1};
    size_t n = 0;
    int r = work_check(s, work, reply);
    if (r < 0)
        return r;
    if ((r = check_room(s, reply)) >= 0 && (r = allow_reading(s, reply)) >= 0 &&
        (r = make_files(s, p->snapshot, fds, &n)) >= 0)
        r = work_start(s, p, CHANNEL_SAVE, fds, n);
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        fd_close(&fds[i]);
    if (r != -EINPROGRESS) {
        ledger_release(&s->warden->ledger, &work->claim);
        remove_files(h, p->snapshot, NEW_ENDING);
    }
    return r;
}

static int return_start(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    int fds[VM_SAVED_SHAPE], disk = -1;
    size_t n = 0;
    int r = work_check(s, &vm_of(s)->work, reply);
    if (r < 0)
        return r;
    r = vm_saved_check(s, p->snapshot, reply);
    if (r < 0)
        return r;
    const struct vm_loaded *l = vm_loaded_find(h, p->snapshot);
    if (!l)
        return snapshot_refuse(reply, -EAGAIN, "the snapshot is not in memory any more");
    fds[n++] = l->memory_fd;
    fds[n++] = l->state_fd;
    if (s->order.disk_from_fd) {
        disk = vm_saved_open_file(h, p->snapshot, VM_SAVED_DISK);
        if (disk < 0)
            return disk;
        fds[n++] = disk;
    }
    r = work_start(s, p, CHANNEL_RETURN, fds, n);
    if (r == -EINPROGRESS) { /* its memory is another file from here on */
        vm_of(s)->memory_inode = vm_inode_of(l->memory_fd);
        vm_of(s)->emulator = h->file_ids[0];
        s->order.origin = VM_COPIED;
    }
    fd_close(&disk);
    return r;
}

int vm_go_back(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    int r = return_start(s, p, reply);
    vm_loaded_settle(s->warden->hosts[CELL_VM], p->snapshot);
    return r;
}
