/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "microvm" machine: no firmware to speak of, no legacy devices, virtio over memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"
#include "vmm/clock-rate.h"
#include "vmm/driver.h"
#include "vmm/qmp.h"
#include "vmm/ram-stream.h"
#include "vmm/vmm.h"

#define ARGS_MAX     128
#define ARGS_SIZE    16384
#define QUIET_WORDS  "quiet loglevel=1"
#define LOUD_WORDS   "console=ttyS0" /* for the log, which makes a boot slower */
#define CONSOLE_LINE " oops=panic panic=-1 reboot=t random.trust_cpu=off tsc=reliable"
/* Bytes a second; QEMU's own limit is for a network. */
#define SAVE_BANDWIDTH (1ll << 40)

/* The emulator's descriptors, at these numbers. */
enum {
    FD_CTL = EMULATOR_FIRST_FD,
    FD_DATA,
    FD_LINES,
    FD_MONITOR,
    FD_MEMORY, /* where the machine has a snapshot */
    FD_STATE,
    FD_IMAGE, /* where it has an image */
    FD_TAP,   /* where it has a network by address */
    FD_SHARES,
    FD_DRIVES = FD_SHARES + PLAN_MOUNTS_MAX, /* those that can be written */
    FD_END = FD_DRIVES + MACHINE_WRITABLE_MAX,
};

struct args {
    const char *argv[ARGS_MAX + 1];
    size_t n, used;
    char text[ARGS_SIZE];
};

static void __attribute__((format(printf, 2, 3))) add(struct args *a, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(a->text + a->used, sizeof(a->text) - a->used, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(a->text) - a->used || a->n >= ARGS_MAX)
        child_must(-E2BIG, "write the emulator's command", -1);
    a->argv[a->n++] = a->text + a->used;
    a->used += (size_t)n + 1;
}

/* The guest's clock is this processor's, but a guest under emulation cannot measure its speed: it
 * would wait for ever for the timer that it compares with. Nor does it trust a clock that the
 * emulated processor does not promise to be steady, and would count timer interrupts instead, of
 * which a busy host loses many; the kernel's command line tells it (tsc=reliable). A machine that
 * is restored read its line when it booted. */
static unsigned long guest_clock_khz(const struct vm *vm)
{
    unsigned long khz = vm->restored ? 1 : clock_rate_khz();
    child_must(khz ? 0 : -ENODEV, "measure the processor's clock", -1);
    return khz;
}

static void add_port(struct args *a, const char *name, int fd, int number)
{
    add(a, "-chardev");
    add(a, "socket,id=%s,fd=%d", name, fd);
    add(a, "-device");
    add(a, "virtserialport,chardev=%s,nr=%d", name, number);
}

/* Of a snapshot, the guest's memory is a file: shared with it while that is being made, and copied
 * page by page, on the first write to each, by the machines that come from it. */
static void add_memory(const struct vm *vm, struct args *a)
{
    add(a, "-m");
    add(a, "%llu", machine_mib(vm));
    add(a, "-object");
    if (vm->memory_fd < 0)
        add(a, "memory-backend-ram,id=memory,size=%lluM", machine_mib(vm));
    else
        add(a, "memory-backend-file,id=memory,size=%lluM,mem-path=/proc/self/fd/%d,share=%s",
            machine_mib(vm), FD_MEMORY, vm->restored ? "off" : "on");
}

/* QEMU counts by the second. */
static void add_bucket(char *text, size_t size, const char *what, const struct machine_bucket *b)
{
    size_t n = strlen(text);
    if (!b->size)
        return;
    uint64_t per_second = (b->size * 1000 + b->refill_ms - 1) / b->refill_ms;
    n += (size_t)snprintf(text + n, size - n, ",throttling.%s-total=%llu", what,
                          (unsigned long long)per_second);
    if (b->burst && n < size)
        snprintf(text + n, size - n, ",throttling.%s-total-max=%llu", what,
                 (unsigned long long)(per_second + b->burst));
}

static void add_disk(struct args *a, const char *id, const char *file, const char *options,
                     const struct machine_rate *rate)
{
    char limits[256] = "";
    if (rate) {
        add_bucket(limits, sizeof(limits), "bps", &rate->bytes);
        add_bucket(limits, sizeof(limits), "iops", &rate->operations);
    }
    add(a, "-drive");
    add(a, "id=%s,file=%s,format=raw,if=none%s%s", id, file, options, limits);
    add(a, "-device");
    add(a, "virtio-blk-device,drive=%s,serial=%s", id, id);
}

/* The file at a descriptor that the emulator is started with, as a name for "-drive". */
static void add_fd(struct args *a, int fd, char *ret, size_t size)
{
    add(a, "-add-fd");
    add(a, "fd=%d,set=%d", fd, fd);
    snprintf(ret, size, "/dev/fdset/%d", fd);
}

static void add_drives(struct args *a, const struct machine_config *m)
{
    char file[128];
    int n_writable = 0;
    for (uint32_t i = 0; i < m->n_drives; i++) {
        const struct machine_drive *d = &m->drives[i];
        if (d->writable)
            add_fd(a, FD_DRIVES + n_writable++, file, sizeof(file));
        else
            snprintf(file, sizeof(file), VM_FILES_DIR "/" VM_DRIVE_PREFIX "%s", d->id);
        /* QEMU would open the former for reading first, which this descriptor is not. */
        add_disk(a, d->id, file, d->writable ? ",auto-read-only=off" : ",readonly=on", &d->rate);
    }
}

/* Ports of the host's directories. */
static void add_shares(const struct vm *vm, struct args *a)
{
    char name[16];
    for (uint32_t i = 0; i < vm->start.child.n_mounts; i++) {
        snprintf(name, sizeof(name), "share%u", i);
        add_port(a, name, FD_SHARES + (int)i, GUEST_FIRST_SHARE + (int)i);
    }
}

/* Nothing but frames goes over it: which packets leave is decided on the host. */
static void add_network(const struct vm *vm, struct args *a)
{
    uint8_t at[NET_HARDWARE_SIZE];
    if (vm->tap_fd < 0)
        return;
    net_hardware_address(vm->start.child.net_slot - 1, true, at);
    add(a, "-netdev");
    add(a, "tap,id=network,fd=%d,vhost=off", FD_TAP);
    add(a, "-device");
    add(a, "virtio-net-device,netdev=network,mac=%02x:%02x:%02x:%02x:%02x:%02x", at[0], at[1],
        at[2], at[3], at[4], at[5]);
}

static void fill_args(const struct vm *vm, struct args *a)
{
    static const char *const fixed[] = {
        "-nodefaults", "-no-user-config",
        "-nographic",  "-no-reboot",
        "-M",          "microvm,x-option-roms=off,rtc=off,memory-backend=memory",
        "-accel",      "tcg,thread=multi,tb-size=64",
        "-cpu",        "qemu64",
        "-device",     "virtio-serial-device",
    };
    *a = (struct args){.n = 0};
    const struct machine_config *m = &vm->start.machine;
    add(a, "%s", m->qemu_bin);
    for (size_t i = 0; i < ELEMENTS(fixed); i++)
        add(a, "%s", fixed[i]);
    add(a, "-serial");
    add(a, m->log_path[0] ? "stdio" : "none");
    if (m->api_socket[0]) {
        add(a, "-qmp");
        add(a, "unix:" VM_API_SOCKET ",server=on,wait=off");
    }
    add_memory(vm, a);
    /* A machine that can never have a second processor is emulated without memory barriers,
     * although QEMU's own threads fill the rings of its devices at the same time: interrupts get
     * lost, and input or a disk stands still until the next one. */
    add(a, "-smp");
    add(a, "cpus=%u,maxcpus=%u", machine_cpus(vm), machine_cpus(vm) > 1 ? machine_cpus(vm) : 2);
    add(a, "-kernel");
    add(a, VM_FILES_DIR "/" VM_KERNEL_NAME);
    add(a, "-initrd");
    add(a, VM_FILES_DIR "/" VM_INITRAMFS_NAME);
    add(a, "-append");
    /* What the kernel reads last counts. */
    char drives[MACHINE_LINE_SIZE], shares[32] = "";
    machine_drives_word(m, drives, sizeof(drives));
    if (vm->start.child.n_mounts)
        snprintf(shares, sizeof(shares), " " GUEST_SHARES_WORD "%u", vm->start.child.n_mounts);
    add(a, "%s%s%s" CONSOLE_LINE " tsc_early_khz=%lu%s%s%s", m->boot_args,
        m->boot_args[0] ? " " : "", m->log_path[0] ? LOUD_WORDS : QUIET_WORDS, guest_clock_khz(vm),
        drives, shares, vm->tap_fd < 0 ? "" : " " GUEST_NETWORK_WORD "1");
    add_disk(a, GUEST_ROOT_DISK, VM_FILES_DIR "/" VM_ROOT_NAME, ",readonly=on", &m->rootfs_rate);
    if (vm->start.child.disk_from_fd)
        add_disk(a, GUEST_DATA_DISK, VM_DISK_FILE, ",cache=unsafe,discard=unmap", NULL);
    if (vm->image_fd >= 0) {
        char file[32];
        add_fd(a, FD_IMAGE, file, sizeof(file));
        add_disk(a, GUEST_IMAGE_DISK, file, ",readonly=on", NULL);
    }
    add_drives(a, m);
    add_port(a, "data", FD_DATA, 1);
    add_port(a, "ctl", FD_CTL, 2);
    add_port(a, "lines", FD_LINES, 3);
    add_shares(vm, a);
    add_network(vm, a);
    add(a, "-chardev");
    add(a, "socket,id=monitor,fd=%d", FD_MONITOR);
    add(a, "-mon");
    add(a, "chardev=monitor,mode=control");
    if (vm->restored) {
        add(a, "-incoming");
        add(a, "defer");
    }
}

/* Our ends of what connects the emulator, until mas-vmm takes those of the ports. */
static int ends[FD_MONITOR + 1 - FD_CTL];

static void qemu_start(struct vm *vm)
{
    static struct args a;
    int fds[FD_END - FD_CTL], pair[2];
    fill_args(vm, &a);
    for (size_t i = 0; i < ELEMENTS(ends); i++) {
        child_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0,
                   "make the machine's ports", -1);
        ends[i] = pair[0];
        fds[i] = pair[1];
    }
    fds[FD_MEMORY - FD_CTL] = vm->memory_fd;
    fds[FD_STATE - FD_CTL] = vm->state_fd;
    fds[FD_IMAGE - FD_CTL] = vm->image_fd;
    fds[FD_TAP - FD_CTL] = vm->tap_fd;
    for (uint32_t i = 0; i < PLAN_MOUNTS_MAX; i++)
        fds[FD_SHARES - FD_CTL + i] = i < vm->start.child.n_mounts ? vm_start_share(vm, i) : -1;
    memcpy(&fds[FD_DRIVES - FD_CTL], vm->drive_fds, sizeof(vm->drive_fds));
    emulator_start(vm, a.argv, fds, ELEMENTS(fds));
    for (size_t i = 0; i < ELEMENTS(ends); i++)
        close(fds[i]);
    for (uint32_t i = 0; i < vm->start.child.n_mounts; i++)
        close(fds[FD_SHARES - FD_CTL + i]);
    fd_close(&vm->tap_fd); /* the link is to go with the emulator */
}

/* The emulator's word where it has one, and the end of this process. */
static void must(struct vm *vm, int r, const char *step)
{
    char said[100] = "", text[160];
    if (r >= 0)
        return;
    snprintf(said, sizeof(said), "%s", qmp_message());
    if (!said[0])
        emulator_read_message(vm, said, sizeof(said));
    snprintf(text, sizeof(text), "%s%s%s", step, said[0] ? ": " : "", said);
    child_must(r, text, -1);
}

/* The emulator holds the other ends from its start on, and keeps what is written for the guest. */
static void qemu_connect(struct vm *vm)
{
    fd_close(&vm->ctl_fd);
    fd_close(&vm->data_fd);
    fd_close(&vm->lines_fd);
    vm->ctl_fd = fd_steal(&ends[0]);
    vm->data_fd = fd_steal(&ends[FD_DATA - FD_CTL]);
    vm->lines_fd = fd_steal(&ends[FD_LINES - FD_CTL]);
}

static int open_monitor(struct vm *vm)
{
    return qmp_open(vm, fd_steal(&ends[FD_MONITOR - FD_CTL]));
}

/* Memory that is shared with a file stays out of the stream: the file has it. */
static int set_capabilities(void)
{
    return qmp_call("migrate-set-capabilities", "{s:[{s:s, s:b}, {s:s, s:b}]}", "capabilities",
                    "capability", "x-ignore-shared", "state", 1, "capability", "events", "state",
                    1);
}

static void qemu_snapshot(struct vm *vm)
{
    int r = open_monitor(vm);
    r = r < 0 ? r : set_capabilities();
    r = r < 0 ? r : qmp_send_fd("state", vm->state_fd);
    r = r < 0 ? r : qmp_call("migrate", "{s:s}", "uri", "fd:state");
    r = r < 0 ? r : qmp_wait_migration();
    must(vm, r, "keep the machine");
}

static void qemu_restore(struct vm *vm)
{
    char uri[16];
    qemu_start(vm);
    snprintf(uri, sizeof(uri), "fd:%d", FD_STATE);
    int r = open_monitor(vm);
    r = r < 0 ? r : set_capabilities();
    r = r < 0 ? r : qmp_call("migrate-incoming", "{s:s}", "uri", uri);
    r = r < 0 ? r : qmp_wait_migration();
    r = r < 0 ? r : qmp_call("cont", NULL); /* one that was kept by qemu_save() stood still then */
    must(vm, r, "restore the machine");
}

static int save_stream(struct vm *vm, int memory_fd, int state_fd)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    int r = qmp_send_fd("state", pair[1]);
    close(pair[1]);
    r = r < 0 ? r : qmp_call("migrate", "{s:s}", "uri", "fd:state");
    r = r < 0 ? r
              : ram_stream_split(pair[0], vm->emulator_pidfd, memory_fd,
                                 vm->start.child.limits.memory_bytes, state_fd);
    close(pair[0]);
    return r < 0 ? r : qmp_wait_migration();
}

/* A machine that was restored has its own pages in memory of the emulator's, where only that can
 * read them; so QEMU sends all of it, and what is the guest's memory is taken out of the stream.
 * What is left is a stream as of qemu_snapshot(). */
static int qemu_save(struct vm *vm, int memory_fd, int state_fd, char *ret, size_t size)
{
    int r = ends[FD_MONITOR - FD_CTL] >= 0 ? open_monitor(vm) : 0;
    r = r < 0 ? r : qmp_call("stop", NULL);
    r = r < 0 ? r : set_capabilities();
    r = r < 0 ? r
              : qmp_call("migrate-set-parameters", "{s:I}", "max-bandwidth",
                         (json_int_t)SAVE_BANDWIDTH);
    r = r < 0 ? r : save_stream(vm, memory_fd, state_fd);
    snprintf(ret, size, "keep the machine%s%s", r < 0 && qmp_message()[0] ? ": " : "",
             r < 0 ? qmp_message() : "");
    return r;
}

static int qemu_go_on(struct vm *vm)
{
    (void)vm;
    return qmp_call("cont", NULL);
}

const struct vmm_driver vmm_qemu = {
    .name = "qemu",
    .start = qemu_start,
    .connect = qemu_connect,
    .snapshot = qemu_snapshot,
    .restore = qemu_restore,
    .save = qemu_save,
    .go_on = qemu_go_on,
    .stop = emulator_kill,
};
