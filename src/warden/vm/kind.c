/* SPDX-License-Identifier: Apache-2.0 */
/* The row of virtual machines; see vm.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "filter/filter.h"
#include "warden/cell-internal.h"
#include "warden/limits.h"
#include "warden/local/local.h"
#include "warden/local/mount.h"
#include "warden/vm/vm.h"

#define EMULATOR      "/usr/bin/qemu-system-x86_64"
#define SCRATCH_BYTES (1024 * 1024)

static const char *const file_names[] = {VM_KERNEL_NAME, VM_INITRAMFS_NAME, VM_ROOT_NAME};

static struct vm_host *host_of(const struct warden *w)
{
    return w->hosts[CELL_VM];
}

static int vm_open_host(struct warden *w, struct error *err)
{
    const struct warden_options *o = &w->options;
    struct vm_host *h = w->hosts[CELL_VM] = new0(struct vm_host);
    h->dir_fd = -1;
    int r = filter_compile(filter_for_guests(), &h->filter, err);
    if (r < 0)
        return r;
    if (o->microvm_dir)
        snprintf(h->dir, sizeof(h->dir), "%s", o->microvm_dir);
    if (o->vmm_fd < 0 || !h->dir[0])
        snprintf(h->why, sizeof(h->why), "mas-vmm is not installed");
    else if (access(EMULATOR, X_OK) < 0)
        snprintf(h->why, sizeof(h->why), EMULATOR " is not installed (Debian: qemu-system-x86)");
    return 0;
}

/* What others may write to is theirs, and the guest's kernel is not to be. */
static bool is_good_file(const struct vm_host *h, const char *name, bool was_root)
{
    struct stat st;
    return fstatat(h->dir_fd, name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
           !(st.st_mode & S_IWOTH) && (!was_root || st.st_uid == 0);
}

static void look_at_files(const struct warden *w, struct vm_host *h)
{
    h->dir_fd = open(h->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < ELEMENTS(file_names) && !h->why[0]; i++)
        if (h->dir_fd < 0 || !is_good_file(h, file_names[i], w->was_root))
            snprintf(h->why, sizeof(h->why),
                     "%.120s/%s is not a file of the daemon's user that others cannot write; "
                     "scripts/microvm/machine.sh makes it",
                     h->dir, file_names[i]);
}

/* From the host view's own namespace: only there may the directory be cloned later. */
static void vm_start_host(struct warden *w)
{
    struct vm_host *h = host_of(w);
    if (h->why[0] || w->no_namespaces[0])
        return;
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0) {
        snprintf(h->why, sizeof(h->why), "cannot enter the host view: %s", strerror(errno));
        return;
    }
    look_at_files(w, h);
    if (setns(w->own_ns_fd, CLONE_NEWNS) < 0) {
        log_error("cannot leave the host view error=%s", strerror(errno));
        _exit(1); /* everything that follows would be done on the host */
    }
}

static void vm_close_host(struct warden *w)
{
    struct vm_host *h = host_of(w);
    if (!h)
        return;
    filter_done(&h->filter);
    fd_close(&h->dir_fd);
    free(h);
    w->hosts[CELL_VM] = NULL;
}

static bool vm_takes(const struct plan *p)
{
    return p->flags & PLAN_VM;
}

static int vm_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    (void)p;
    if (!host_of(w)->why[0])
        return 0;
    snprintf(reply->message, sizeof(reply->message), "%s", host_of(w)->why);
    return -EOPNOTSUPP;
}

static uint32_t vm_features(const struct warden *w)
{
    return host_of(w) && !host_of(w)->why[0] ? FEATURE_VM : 0;
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
    child_main(&t, ends->in_group ? NULL : &s->cgroup, ends->stream, ends->channel, ends->failure);
}

static unsigned vm_wanted_blanks(const struct warden *w)
{
    return vm_features(w) ? w->options.config.microvm_blanks : 0;
}

/* The machine limits the memory, and its group only what the emulator adds to it. */
static int apply_groups(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply)
{
    struct plan plan = *p;
    struct limits outer = *limits;
    plan.weaker[WALL_MEMORY] = 1;
    outer.memory_bytes += VM_OVERHEAD_BYTES;
    int r = limits_apply_groups(s, &plan, &outer, LIMITS_COUNT_BY_UID, reply);
    if (r < 0)
        return r;
    s->order.limits.memory_bytes = limits->memory_bytes;
    outer.processes = VM_PROCESSES;
    cgroup_limit(&s->cgroup, WALL_PROCESSES, &outer); /* inside, the guest's kernel counts */
    return 0;
}

/* The guest's disk is in its memory where it fits, or a file on a disk image of the cell's. */
static int vm_apply_limits(struct cell *s, const struct plan *p, const struct limits *limits,
                           struct plan_reply *reply)
{
    struct limits inner = *limits;
    bool small = inner.memory_bytes && inner.memory_bytes < VM_MIN_BYTES;
    if (small && !p->weaker[WALL_MEMORY])
        return limits_refuse(reply, WALL_MEMORY, -ERANGE,
                             "a virtual machine needs at least 128 MiB");
    if (small)
        inner.memory_bytes = VM_MIN_BYTES;
    if (!inner.memory_bytes)
        inner.memory_bytes = VM_DEFAULT_BYTES;
    int r = apply_groups(s, p, &inner, reply);
    if (r < 0)
        return r;
    if (small)
        s->mechanism[WALL_MEMORY] = MECHANISM_NONE;
    inner.memory_bytes -= VM_KERNEL_BYTES;
    return limits_apply_disk(s, p, &inner, reply);
}

/* The machine's files are a mount more, of the sandbox that the emulator is in. */
static int vm_send_order(struct cell *s)
{
    const struct warden *w = s->warden;
    struct child_order *o = &s->order;
    int tree = mount_open_host(w->host_ns_fd, w->own_ns_fd, host_of(w)->dir_fd, "", true);
    if (tree < 0)
        return tree;
    s->trees.mounts[0] = tree;
    o->n_mounts = 1;
    snprintf(o->mounts[0].target, sizeof(o->mounts[0].target), "%s", VM_FILES_DIR);
    return cell_send_child_order(s);
}

const struct cell_ops cell_vm = {
    .name = "microvm",
    .size = sizeof(struct cell),
    .open_host = vm_open_host,
    .start_host = vm_start_host,
    .close_host = vm_close_host,
    .needs_namespaces = true,
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
    .kill = cell_kill_process,
    .freeze = cell_freeze_group,
    .read_stats = cell_read_group_stats,
};
