/* SPDX-License-Identifier: Apache-2.0 */
/* The row of virtual machines; see vm.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/path.h"
#include "filter/filter.h"
#include "warden/cell-internal.h"
#include "warden/limits.h"
#include "warden/local/local.h"
#include "warden/local/mount.h"
#include "warden/vm/vm.h"

#define SCRATCH_BYTES (1024 * 1024)
#define CPU_PERIOD_US 100000 /* that cgroup.cpu_quota_us is of */

static struct vm_host *host_of(const struct warden *w)
{
    return w->hosts[CELL_VM];
}

static bool has_firecracker(const struct machine_config *m)
{
    _cleanup_close_ int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    return kvm >= 0 && m->firecracker_bin[0] && access(m->firecracker_bin, X_OK) == 0;
}

/* Which emulator "auto" stands for here. Where the operator's file names no Firecracker, or QEMU as
 * well, config/machine.c has left no choice. */
static void choose_emulator(struct vm_host *h)
{
    struct machine_config *m = &h->machine;
    const char *program;
    if (m->vmm == MACHINE_AUTO)
        m->vmm = has_firecracker(m) ? MACHINE_FIRECRACKER : MACHINE_QEMU;
    if (m->vmm == MACHINE_QEMU && m->metrics_path[0])
        snprintf(
            h->why, sizeof(h->why),
            "metrics_path of the machines' file: the emulator here is QEMU, which writes none");
    program = m->vmm == MACHINE_QEMU ? m->qemu_bin : m->firecracker_bin;
    if (access(program, X_OK) < 0)
        snprintf(h->why, sizeof(h->why), "%.160s is not installed%s", program,
                 m->vmm == MACHINE_QEMU ? " (Debian: qemu-system-x86)" : "");
}

/* What is missing for machines is kept as a reason and fails no start: the daemon serves the other
 * runtimes, and `sbx doctor` shows the reason. */
static int vm_open_host(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    struct vm_host *h = w->hosts[CELL_VM] = new0(struct vm_host);
    h->saved_fd = h->devices_fd = h->places_fd = -1;
    vm_snapshots_init(h);
    vm_loaded_init(h);
    h->machine = o->machine;
    int r = filter_compile(filter_for_guests(), &h->filter, err);
    if (r < 0)
        return r;
    if (o->vmm_fd < 0 || !h->machine.kernel_image[0])
        snprintf(h->why, sizeof(h->why), "mas-vmm is not installed");
    else
        choose_emulator(h);
    vm_saved_open(w);
    vm_records_open(h, w->state_fd);
    return 0;
}

static void vm_start_host(struct warden *w)
{
    if (w->no_namespaces[0])
        return;
    vm_sockets_sweep(w);
    if (!host_of(w)->why[0])
        vm_files_open(w);
}

static void vm_close_host(struct warden *w)
{
    struct vm_host *h = host_of(w);
    if (!h)
        return;
    vm_snapshots_done(h);
    vm_loaded_done(h);
    fd_close(&h->saved_fd);
    fd_close(&h->places_fd);
    filter_done(&h->filter);
    vm_files_close(h);
    fd_close(&h->devices_fd);
    free(h);
    w->hosts[CELL_VM] = NULL;
}

static bool vm_takes(const struct plan *p)
{
    return p->flags & PLAN_VM;
}

/* The machine's own files are a mount of its cell, too. */
static int vm_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    if (host_of(w)->why[0]) {
        snprintf(reply->message, sizeof(reply->message), "%s", host_of(w)->why);
        return -EOPNOTSUPP;
    }
    bool firecracker = host_of(w)->machine.vmm == MACHINE_FIRECRACKER;
    if (firecracker && p->flags & PLAN_ADDRESSES) {
        snprintf(reply->message, sizeof(reply->message),
                 "a network by address: Firecracker opens its links itself, which it has no right "
                 "to in a cell; QEMU's machines can have one");
        return -EOPNOTSUPP;
    }
    if (!p->n_mounts)
        return 0;
    if (firecracker) {
        snprintf(reply->message, sizeof(reply->message),
                 "mounts: Firecracker's machines have no directories of the host; QEMU's do");
        return -EOPNOTSUPP;
    }
    if (p->n_mounts >= PLAN_MOUNTS_MAX) {
        snprintf(reply->message, sizeof(reply->message),
                 "mounts: a virtual machine takes at most %d", PLAN_MOUNTS_MAX - 1);
        return -EOPNOTSUPP;
    }
    for (uint32_t i = 0; host_of(w)->machine.n_drives && i < p->n_mounts; i++)
        if (path_below(GUEST_DRIVES_DIR, p->mounts[i].target)) {
            snprintf(reply->message, sizeof(reply->message),
                     "mounts: " GUEST_DRIVES_DIR " has the drives that the operator's file names");
            return -EOPNOTSUPP;
        }
    return 0;
}

static bool vm_has_addresses(enum oci_backend b)
{
    (void)b;
    return true;
}

static int vm_check_ranges(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    return machine_ranges_check(&w->options.machine, p->ranges, p->n_ranges, reply->message,
                                sizeof(reply->message));
}

static uint32_t vm_features(const struct warden *w)
{
    const struct vm_host *h = host_of(w);
    if (!h || h->why[0])
        return 0;
    bool saves = h->saved_fd >= 0 && h->machine.vmm == MACHINE_QEMU;
    return FEATURE_VM | (saves ? FEATURE_SAVES : 0);
}

static void vm_describe_walls(const struct warden *w, enum oci_backend b, uint8_t *mechanism)
{
    (void)b;
    mechanism[WALL_FILESYSTEM] = mechanism[WALL_NETWORK] = mechanism[WALL_SYSCALLS] = MECHANISM_VM;
    mechanism[WALL_MEMORY] = MECHANISM_VM;
    mechanism[WALL_USERS] = w->ids.shared ? MECHANISM_UID_SHARED : MECHANISM_UID_RANGE;
    mechanism[WALL_LANDLOCK] = MECHANISM_NONE;
}

static void vm_probe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    warden_describe_host(w, ret);
    vm_describe_walls(w, b, ret->mechanism);
    if (ret->mechanism[WALL_PROCESSES])
        ret->mechanism[WALL_PROCESSES] = MECHANISM_RLIMIT;
    snprintf(ret->message, sizeof(ret->message), "%s",
             w->no_namespaces[0] ? w->no_namespaces : host_of(w)->why);
}

static void vm_main(const struct cell *s, const struct cell_ends *ends)
{
    struct child_template t = s->warden->child_template;
    t.become_other = vm_become_vmm;
    t.scratch_bytes = SCRATCH_BYTES;
    t.other_seccomp = &host_of(s->warden)->filter;
    t.other_config = &host_of(s->warden)->machine;
    child_main(&t, ends->in_group ? NULL : &s->cgroup, ends->stream, ends->channel, ends->failure);
}

static unsigned vm_wanted_blanks(const struct warden *w)
{
    return vm_features(w) && !vm_drives_are_written(host_of(w)) ? w->options.config.microvm_blanks
                                                                : 0;
}

static void apply_operators_limits(const struct machine_config *m, struct limits *outer)
{
    uint32_t millicores = m->cpu_quota_us / (CPU_PERIOD_US / 1000);
    if (m->memory_max_bytes && m->memory_max_bytes < outer->memory_bytes)
        outer->memory_bytes = m->memory_max_bytes;
    if (millicores && (!outer->cpu_millicores || millicores < outer->cpu_millicores))
        outer->cpu_millicores = millicores;
}

/* The machine limits the memory, and its group only what the emulator adds to it. */
static int apply_groups(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply)
{
    struct plan plan = *p;
    struct limits outer = *limits;
    /* The group's limit is allowed to be missing, because the machine itself cannot have more
     * memory than it was started with. */
    plan.weaker[WALL_MEMORY] = 1;
    outer.memory_bytes += VM_OVERHEAD_BYTES;
    apply_operators_limits(&host_of(s->warden)->machine, &outer);
    int r = limits_apply_groups(s, &plan, &outer, LIMITS_COUNT_BY_UID, reply);
    if (r < 0)
        return r;
    s->order.limits.memory_bytes = limits->memory_bytes;
    outer.processes = VM_PROCESSES;
    cgroup_limit(&s->cgroup, WALL_PROCESSES, &outer); /* inside, the guest's kernel counts */
    return 0;
}

/* What others share is not what this machine uses. */
static int vm_read_stats(struct cell *s, struct plan_reply *ret)
{
    int r = cell_read_group_stats(s, ret);
    uint64_t shared = vm_snapshot_charged(s);
    ret->memory_bytes -= shared < ret->memory_bytes ? shared : ret->memory_bytes;
    return r;
}

uint64_t vm_memory_bytes(const struct limits *l)
{
    return !l->memory_bytes                 ? VM_DEFAULT_BYTES
           : l->memory_bytes < VM_MIN_BYTES ? VM_MIN_BYTES
                                            : l->memory_bytes;
}

/* The digest was checked to be hexadecimal digits (proto/plan.c), so that the caller has no say in
 * where the path leads. */
static int open_image_disk(const struct warden *w, const char *digest)
{
    char path[sizeof("images/store/") + PLAN_IMAGE_SIZE];
    snprintf(path, sizeof(path), "images/store/%s", digest);
    _cleanup_close_ int dir = mount_open_host(w->host_ns_fd, w->own_ns_fd, w->store_fd, path, true);
    int fd = dir < 0 ? -1 : openat(dir, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* An image is a disk of the machine's instead of a tree of the host's. Above it goes a disk that
 * keeps an overlay's marks, which the memory of Debian's kernel does not. */
static int use_image(struct cell *s, struct plan_reply *reply)
{
    struct child_order *o = &s->order;
    int fd = open_image_disk(s->warden, s->plan.image);
    if (fd < 0) {
        snprintf(reply->message, sizeof(reply->message),
                 "there is no disk of image sha256:%.12s…: images_disks makes one when an image is "
                 "fetched, or fetched again after its removal",
                 s->plan.image);
        return -EOPNOTSUPP;
    }
    container_of(s, struct vm_cell, cell)->image_fd = fd;
    fd_close(&s->trees.image);
    o->image_from_fd = 0;
    o->image_disk = 1;
    if (!o->disk_from_fd && s->warden->disks.usable) {
        o->disk_from_fd = 1;
        s->mechanism[WALL_DISK] = MECHANISM_LOOP;
    }
    return 0;
}

static void vm_end(struct cell *s)
{
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    vm_work_end(s);
    vm_snapshot_end(s);
    vm_socket_end(s);
    if (s->order.origin == VM_COPIED && s->order.disk_from_fd)
        fd_close(&v->disk_fd);
    if (s->order.image_disk)
        fd_close(&v->image_fd);
    if (v->has_authority)
        fd_close(&v->authority_fd);
    vm_drives_close(s);
}

/* The guest's disk is in its memory where it fits, or a file on a disk image of the cell's. */
static int vm_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                           struct plan_reply *reply)
{
    const struct limits *usual = &s->warden->usual_limits;
    struct limits inner = *limits;
    bool small = inner.memory_bytes && inner.memory_bytes < VM_MIN_BYTES;
    if (small && !p->weaker[WALL_MEMORY])
        return limits_refuse(reply, WALL_MEMORY, -ERANGE,
                             "a virtual machine needs at least 128 MiB");
    inner.memory_bytes = vm_memory_bytes(limits);
    int r = apply_groups(s, p, &inner, reply);
    if (r < 0)
        return r;
    if (small)
        s->mechanism[WALL_MEMORY] = MECHANISM_NONE;
    container_of(s, struct vm_cell, cell)->usual_disk =
        limits->disk_bytes == usual->disk_bytes && limits->disk_inodes == usual->disk_inodes;
    inner.memory_bytes -= VM_KERNEL_BYTES;
    r = limits_apply_disk(s, p, &inner, reply);
    if (r >= 0 && s->trees.image >= 0)
        r = use_image(s, reply);
    if (s->trees.authority >= 0) {
        /* The certificate is for the guest, and not for the cell that it is in. */
        struct vm_cell *v = container_of(s, struct vm_cell, cell);
        v->authority_fd = fd_steal(&s->trees.authority);
        v->has_authority = true;
        s->order.authority_from_fd = 0;
    }
    if (r < 0)
        return r;
    r = vm_drives_take(s, reply);
    if (r < 0 || !p->snapshot[0])
        return r;
    return vm_saved_check(s, p->snapshot, reply);
}

/* Takes tree. */
static int add_own_mount(struct cell *s, const char *target, int tree)
{
    struct child_order *o = &s->order;
    if (o->n_mounts >= PLAN_MOUNTS_MAX) {
        fd_close(&tree);
        return -E2BIG;
    }
    snprintf(o->mounts[o->n_mounts].target, sizeof(o->mounts[0].target), "%s", target);
    s->trees.mounts[o->n_mounts++] = tree;
    return 0;
}

/* The machine's files are a mount more, of the sandbox that the emulator is in, behind those that
 * the guest has. */
static int vm_send_order(struct cell *s)
{
    const struct warden *w = s->warden;
    struct child_order *o = &s->order;
    int tree = vm_files_tree(w);
    if (tree < 0)
        return tree;
    o->n_shares = o->n_mounts = s->plan.n_mounts;
    for (uint32_t i = 0; i < o->n_shares; i++)
        o->shares_read_only |= (uint32_t)(s->plan.mounts[i].read_only != 0) << i;
    int r = add_own_mount(s, VM_FILES_DIR, tree);
    if (r < 0)
        return r;
    if (host_of(w)->devices_fd >= 0) {
        if ((tree = vm_devices_tree(w)) < 0)
            return tree;
        if ((r = add_own_mount(s, "/dev", tree)) < 0)
            return r;
    }
    o->net_slot = s->net_slot;
    o->net_pools[0] = w->options.network.pool4;
    o->net_pools[1] = w->options.network.pool6;
    vm_files_identify(w);
    container_of(s, struct vm_cell, cell)->emulator = host_of(w)->file_ids[0];
    r = vm_snapshot_choose(s);
    if (r < 0)
        return r;
    return cell_send_child_order(s);
}

static void vm_describe(const struct cell *s, struct plan_reply *ret)
{
    bool restored = s->order.origin == VM_RESTORED || s->order.origin == VM_COPIED;
    ret->features = restored ? FEATURE_RESTORED : 0;
    if (host_of(s->warden)->machine.vmm == MACHINE_FIRECRACKER)
        ret->features |= FEATURE_FIRECRACKER;
}

const struct cell_ops cell_vm = {
    .name = "microvm",
    .size = sizeof(struct vm_cell),
    .open_host = vm_open_host,
    .start_host = vm_start_host,
    .close_host = vm_close_host,
    .needs_namespaces = true,
    .has_authority = true,
    .has_proxy = true,
    .has_addresses = vm_has_addresses,
    .is_network_first = vm_has_addresses,
    .check_ranges = vm_check_ranges,
    .has_tap = true,
    .takes = vm_takes,
    .check = vm_check,
    .features = vm_features,
    .probe = vm_probe,
    .has_group = true,
    .clone_flags = LOCAL_CLONE_FLAGS,
    .take_ids = cell_take_ids,
    .clone = cell_clone,
    .main = vm_main,
    .admit = local_admit,
    .wanted_blanks = vm_wanted_blanks,
    .arms = true,
    .flags = PLAN_VM,
    .apply_limits = vm_apply_limits,
    .describe_walls = vm_describe_walls,
    .send_order = vm_send_order,
    .send_more = vm_send_files,
    .kill = cell_kill_process,
    .freeze = cell_freeze_group,
    .read_stats = vm_read_stats,
    .on_channel = vm_on_channel,
    .save = vm_save,
    .go_back = vm_go_back,
    .load = vm_load,
    .drop = vm_saved_drop,
    .abandon = vm_work_abandon,
    .abandon_host = vm_loads_abandon,
    .describe = vm_describe,
    .announce = vm_socket_announce,
    .end = vm_end,
};
