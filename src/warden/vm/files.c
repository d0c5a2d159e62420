/* SPDX-License-Identifier: Apache-2.0 */
/* What machines start from: the operator's files, wherever they are, side by side in one directory
 * that is mounted in the cell of every machine, so that the emulator sees these files and none that
 * lie beside them.
 *
 * Each file is opened once, when the warden starts, and looked at through that descriptor: what
 * takes its name later is never used. Only an emulator below /usr is run by its path. The directory
 * is a tmpfs with the files bound into it. Linux binds only onto mounts that are part of a
 * namespace, so for the moment in which a cell's copy is made the tmpfs is mounted in the host
 * view, and no longer: no process that is given a copy of that view ever sees it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/local/mount.h"
#include "warden/state.h"
#include "warden/vm/vm.h"

#define DIR_NAME "machine" /* in the warden's directory */

static void refuse_file(struct vm_host *h, const char *path, int error)
{
    if (error)
        snprintf(h->why, sizeof(h->why), "%.160s: %s", path, strerror(error));
    else
        snprintf(
            h->why, sizeof(h->why),
            "%.120s is not a file that belongs to the daemon's user and that no other can write; "
            "scripts/microvm/machine.sh makes what a machine starts from",
            path);
}

/* What others may write to is theirs, and the guest's kernel is not to be. */
static bool is_safe_file(const struct warden *w, const struct stat *st)
{
    return S_ISREG(st->st_mode) && !(st->st_mode & (S_IWGRP | S_IWOTH)) &&
           (st->st_uid == 0 || (!w->was_root && st->st_uid == geteuid()));
}

static void keep_id(struct vm_file_id *id, const struct stat *st)
{
    id->bytes = (uint64_t)st->st_size;
    id->inode = st->st_ino;
    id->mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

static void open_file(const struct warden *w, struct vm_host *h, const char *path, const char *name)
{
    struct stat st;
    if (h->why[0])
        return;
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return refuse_file(h, path, errno);
    if (!is_safe_file(w, &st))
        return refuse_file(h, path, 0);
    keep_id(&h->file_ids[1 + h->n_files], &st);
    struct vm_file *f = &h->files[h->n_files++];
    snprintf(f->name, sizeof(f->name), "%s", name);
    f->fd = fd_steal(&fd);
}

/* A program that a sandbox sees anyway stays where it is: QEMU finds its files beside itself. */
static bool is_run_by_path(const char *path)
{
    return strncmp(path, "/usr/", strlen("/usr/")) == 0;
}

/* One that is gone is another than it was. */
static void identify_program(struct vm_host *h, const char *path)
{
    struct stat st = {0};
    if (stat(path, &st) < 0)
        memset(&st, 0, sizeof(st));
    keep_id(&h->file_ids[0], &st);
}

static void open_program(const struct warden *w, struct vm_host *h, char path[MACHINE_PATH_SIZE])
{
    if (is_run_by_path(path))
        return identify_program(h, path);
    open_file(w, h, path, VM_EMULATOR_NAME);
    snprintf(path, MACHINE_PATH_SIZE, "%s", VM_FILES_DIR "/" VM_EMULATOR_NAME);
}

static void open_files(const struct warden *w, struct vm_host *h)
{
    struct machine_config *m = &h->machine;
    char name[VM_FILE_NAME_SIZE];
    open_program(w, h, m->vmm == MACHINE_QEMU ? m->qemu_bin : m->firecracker_bin);
    open_file(w, h, m->kernel_image, VM_KERNEL_NAME);
    open_file(w, h, m->initramfs, VM_INITRAMFS_NAME);
    open_file(w, h, m->rootfs, VM_ROOT_NAME);
    for (uint32_t i = 0; i < m->n_drives; i++) {
        snprintf(name, sizeof(name), VM_DRIVE_PREFIX "%s", m->drives[i].id);
        open_file(w, h, m->drives[i].path, name);
    }
}

static void leave_host_view(const struct warden *w)
{
    if (setns(w->own_ns_fd, CLONE_NEWNS) == 0)
        return;
    log_error("cannot leave the host view error=%s", strerror(errno));
    _exit(1); /* everything that follows would be done on the host */
}

void vm_files_open(struct warden *w)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0) {
        snprintf(h->why, sizeof(h->why), "cannot enter the host view: %s", strerror(errno));
        return;
    }
    open_files(w, h);
    if (!h->why[0]) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/" DIR_NAME, w->options.state_dir);
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            refuse_file(h, path, errno);
        else if (!(h->dir = realpath(path, NULL)))
            refuse_file(h, path, errno);
    }
    vm_devices_open(w, h);
    leave_host_view(w);
}

/* An upgrade of the host's replaces the emulator while the warden runs. What a machine that was
 * saved needs is the one that is run next. */
void vm_files_identify(const struct warden *w)
{
    struct vm_host *h = w->hosts[CELL_VM];
    const struct machine_config *m = &h->machine;
    const char *path = m->vmm == MACHINE_QEMU ? m->qemu_bin : m->firecracker_bin;
    if (!is_run_by_path(path) || setns(w->host_ns_fd, CLONE_NEWNS) < 0)
        return;
    identify_program(h, path);
    leave_host_view(w);
}

void vm_files_close(struct vm_host *h)
{
    for (uint32_t i = 0; i < h->n_files; i++)
        fd_close(&h->files[i].fd);
    free(steal_ptr(h->dir));
}

bool vm_drives_are_written(const struct vm_host *h)
{
    for (uint32_t i = 0; i < h->machine.n_drives; i++)
        if (h->machine.drives[i].writable)
            return true;
    return false;
}

/* The lock is one of the open file, which mas-vmm and the emulator have: it goes with the last of
 * them, and holds against machines of other daemons. */
static int take_drive(const struct vm_file *f, int *ret)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
    _cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    *ret = fd_steal(&fd);
    return 0;
}

int vm_drives_take(struct cell *s, struct plan_reply *reply)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    const struct vm_file *first = &h->files[h->n_files - h->machine.n_drives];
    for (uint32_t i = 0; i < h->machine.n_drives; i++) {
        const struct machine_drive *d = &h->machine.drives[i];
        if (!d->writable)
            continue;
        int r = h->machine.vmm == MACHINE_FIRECRACKER
                    ? -EOPNOTSUPP
                    : take_drive(&first[i], &v->drive_fds[v->n_drives]);
        if (r == 0) {
            v->n_drives++;
            continue;
        }
        snprintf(reply->message, sizeof(reply->message), "drive '%s' cannot be written: %s", d->id,
                 r == -EWOULDBLOCK  ? "another machine has it; one at a time can"
                 : r == -EOPNOTSUPP ? "Firecracker opens drives itself, which it has no right to; "
                                      "QEMU's machines can"
                                    : strerror(-r));
        vm_drives_close(s);
        return r == -EWOULDBLOCK ? -EBUSY : r;
    }
    return 0;
}

void vm_drives_close(struct cell *s)
{
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    for (uint32_t i = 0; i < v->n_drives; i++)
        fd_close(&v->drive_fds[i]);
    v->n_drives = 0;
}

static int bind_file(int dir, const struct vm_file *f)
{
    _cleanup_close_ int place = openat(dir, f->name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    _cleanup_close_ int file =
        open_tree(f->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (place < 0 || file < 0 || move_mount(file, "", dir, f->name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* In the host view, with the tmpfs mounted: a detached copy of it with the files, or -errno. */
static int copy_dir(const struct vm_host *h)
{
    int r = 0;
    _cleanup_close_ int dir = open(h->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    for (uint32_t i = 0; r == 0 && i < h->n_files; i++)
        r = bind_file(dir, &h->files[i]);
    return r < 0 ? r : mount_clone_tree(dir);
}

int vm_files_tree(const struct warden *w)
{
    const struct vm_host *h = w->hosts[CELL_VM];
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0)
        return -errno;
    int tree =
        mount("tmpfs", h->dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,nr_inodes=64,mode=0755") < 0
            ? -errno
            : copy_dir(h);
    if (umount2(h->dir, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && tree >= 0) {
        log_error("cannot take the directory of machines away error=%s", strerror(errno));
        fd_close(&tree);
        tree = -EIO;
    }
    leave_host_view(w);
    return tree;
}
