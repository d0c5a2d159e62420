/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines are kept, and which are copies (vmm/snapshot.c).
 *
 * Only machines of the usual size are: a caller can make the warden keep no more than one snapshot
 * per image. The warden reads nothing of one. It makes the two files, gives them to the cell whose
 * machine is kept, and to others only once they are sealed; a cell that is given a machine has
 * closed them before any program of a caller's runs in it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/cell-internal.h"
#include "warden/vm/vm.h"

void vm_snapshots_init(struct vm_host *h)
{
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++)
        h->snapshots[i] = (struct vm_snapshot){.memory_fd = -1, .state_fd = -1};
}

static void snapshot_drop(struct vm_snapshot *k)
{
    fd_close(&k->memory_fd);
    fd_close(&k->state_fd);
    k->maker = NULL;
}

void vm_snapshots_done(struct vm_host *h)
{
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++)
        snapshot_drop(&h->snapshots[i]);
}

/* The state is sealed last. */
static bool is_sealed(const struct vm_snapshot *k)
{
    return k->state_fd >= 0 && fcntl(k->state_fd, F_GET_SEALS) & F_SEAL_WRITE;
}

static bool is_being_made(const struct vm_snapshot *k)
{
    return k->maker && !is_sealed(k);
}

/* That of the image, or else one that is free, or the one that was used longest ago. NULL: all are
 * being made. */
static struct vm_snapshot *find_place(struct vm_host *h, const char *image)
{
    struct vm_snapshot *oldest = NULL;
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++) {
        struct vm_snapshot *k = &h->snapshots[i];
        if (k->memory_fd >= 0 && strcmp(k->image, image) == 0)
            return k;
        if (!is_being_made(k) && (!oldest || k->used < oldest->used))
            oldest = k;
    }
    return oldest;
}

static int begin_snapshot(struct vm_snapshot *k, struct cell *s)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    snapshot_drop(k);
    k->memory_fd = memfd_create("machine-memory", flags);
    k->state_fd = memfd_create("machine-state", flags);
    if (k->memory_fd < 0 || k->state_fd < 0 ||
        ftruncate(k->memory_fd, (off_t)s->order.limits.memory_bytes) < 0) {
        int r = -errno;
        snapshot_drop(k);
        return r;
    }
    k->maker = s;
    memcpy(k->image, s->plan.image, sizeof(k->image));
    return 0;
}

static bool has_usual_size(const struct cell *s)
{
    const struct limits *usual = &s->warden->usual_limits, *l = &s->order.limits;
    uint64_t cpu = s->mechanism[WALL_CPU] ? usual->cpu_millicores : 0;
    return !vm_drives_are_written(s->warden->hosts[CELL_VM]) && !s->order.n_shares &&
           !s->order.net_slot && (!s->order.disk_from_fd || s->order.image_disk) &&
           container_of(s, struct vm_cell, cell)->usual_disk &&
           l->memory_bytes == vm_memory_bytes(usual) && l->cpu_millicores == cpu;
}

ino_t vm_inode_of(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Whether a file that machines share is there still: to be mapped by others, or mapped by one. */
static bool memory_is_there(const struct warden *w, ino_t inode)
{
    const struct vm_host *h = w->hosts[CELL_VM];
    size_t cursor = 0;
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        if (vm_inode_of(h->loaded[i].memory_fd) == inode)
            return true;
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++)
        if (vm_inode_of(h->snapshots[i].memory_fd) == inode)
            return true;
    for (struct cell *s; (s = map_next(w->by_id, &cursor));)
        if (s->kind == CELL_VM && container_of(s, struct vm_cell, cell)->memory_inode == inode)
            return true;
    return false;
}

int vm_allow_shared(struct cell *s, ino_t inode)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    struct limits outer = s->order.limits;
    for (uint32_t i = 0; inode && i < v->n_read; i++)
        if (v->read_inodes[i] == inode)
            return 0;
    if (h->machine.memory_max_bytes)
        return -ENOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_read; i++)
        if (memory_is_there(v->cell.warden, v->read_inodes[i]))
            v->read_inodes[n++] = v->read_inodes[i];
    v->n_read = n;
    if (inode && v->n_read == VM_READ_MAX)
        return -EMFILE;
    if (inode)
        v->read_inodes[v->n_read++] = inode;
    else
        v->makes_shared = true;
    outer.memory_bytes +=
        VM_OVERHEAD_BYTES + (v->makes_shared + v->n_read) * s->order.limits.memory_bytes;
    cgroup_limit(&s->cgroup, WALL_MEMORY, &outer); /* where there is no such group, none limits */
    return 0;
}

/* A copy of a machine that was a caller's. */
static int choose_saved(struct cell *s)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    s->order.origin = VM_COPIED;
    v->disk_fd =
        s->order.disk_from_fd ? vm_saved_open_file(h, s->plan.snapshot, VM_SAVED_DISK) : -1;
    if (s->order.disk_from_fd && v->disk_fd < 0)
        return v->disk_fd;
    return vm_loaded_find(h, s->plan.snapshot) ? 0 : -ESTALE;
}

int vm_snapshot_choose(struct cell *s)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    container_of(s, struct vm_cell, cell)->disk_fd = -1;
    if (s->plan.snapshot[0])
        return choose_saved(s);
    struct vm_snapshot *k = has_usual_size(s) ? find_place(h, s->plan.image) : NULL;
    s->order.origin = VM_BOOTED;
    if (k && is_sealed(k) && strcmp(k->image, s->plan.image) == 0)
        s->order.origin = VM_RESTORED;
    else if (k && !is_being_made(k) && vm_allow_shared(s, 0) == 0 && begin_snapshot(k, s) == 0)
        s->order.origin = VM_KEPT;
    if (s->order.origin != VM_BOOTED)
        k->used = s->serial;
    return 0;
}

/* The kernel charges a page to the group that touches it first, for as long as the page is there.
 */
uint64_t vm_snapshot_charged(const struct cell *s)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct stat st;
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++)
        if (h->snapshots[i].maker == s && fstat(h->snapshots[i].memory_fd, &st) == 0)
            return (uint64_t)st.st_blocks * 512;
    return 0;
}

int vm_send_files(struct cell *s)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    int fds[FD_PASS_MAX];
    size_t n = 0;
    if (s->order.origin == VM_COPIED) {
        const struct vm_loaded *l = vm_loaded_find(h, s->plan.snapshot);
        if (!l)
            return -ESTALE;
        fds[n++] = l->memory_fd;
        fds[n++] = l->state_fd;
    } else if (s->order.origin != VM_BOOTED) {
        const struct vm_snapshot *k = find_place(h, s->plan.image);
        fds[n++] = k->memory_fd;
        fds[n++] = k->state_fd;
    }
    v->memory_inode = n ? vm_inode_of(fds[0]) : 0;
    if (s->order.image_disk)
        fds[n++] = v->image_fd;
    if (s->order.origin == VM_COPIED && s->order.disk_from_fd)
        fds[n++] = v->disk_fd;
    if (s->order.net_slot)
        fds[n++] = s->network_fd;
    if (v->has_authority)
        fds[n++] = v->authority_fd;
    for (uint32_t i = 0; i < v->n_drives; i++)
        fds[n++] = v->drive_fds[i];
    int r = n ? (int)fd_send_msg(s->channel_fd, "s", 1, fds, n) : 0;
    fd_close(&s->network_fd); /* the link is to go with the emulator, */
    vm_drives_close(s);       /* and so are drives */
    return r;
}

void vm_snapshot_end(struct cell *s)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    for (size_t i = 0; i < ELEMENTS(h->snapshots); i++) {
        struct vm_snapshot *k = &h->snapshots[i];
        /* One that is being made anew is not what it came from. */
        bool copy_failed = s->order.origin == VM_RESTORED && s->failure.error &&
                           !is_being_made(k) && k->memory_fd >= 0 &&
                           strcmp(k->image, s->plan.image) == 0;
        if (copy_failed)
            log_warn("a machine could not be restored, the next will boot: %s", s->failure.step);
        if (copy_failed || (k->maker == s && !is_sealed(k)))
            snapshot_drop(k);
        if (k->maker == s)
            k->maker = NULL;
    }
}
