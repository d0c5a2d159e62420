/* SPDX-License-Identifier: Apache-2.0 */
/* Firecracker: its process is configured over its API before the machine starts, and the guest is
 * reached over vsock, which Firecracker shows as a Unix socket of its own ("CONNECT 5000").
 *
 * Its jailer is not used: the walls of the cell, which it could not build from inside, are what it
 * would build. Its own filter of system calls comes on top of the cell's. There is no metadata
 * service, as nothing configures one. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/child.h"
#include "vmm/api.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

#define CPUS_MAX      32
#define GREETING_MAX  32
#define DIAL_AGAIN_MS 20
#define LINE_SIZE     (MACHINE_LINE_SIZE * 3)
#define DEFAULT_CID   3
#define ROOT_DRIVE    "rootfs"
#define BALLOON_MIB   0 /* it gives back what the guest does not use, and takes nothing */
#define QUIET_WORDS   " quiet loglevel=1 8250.nr_uarts=0"
#define OWN_WORDS     " oops=panic panic=-1 reboot=k random.trust_cpu=off"

/* The emulator's descriptors, at these numbers. */
enum {
    FD_MEMORY = EMULATOR_FIRST_FD, /* where the machine has a snapshot */
    FD_STATE,
    FD_IMAGE, /* where it has an image */
    FD_METRICS,
    FD_END,
};

/* Firecracker's word where it has one, and the end of this process. */
static void must(struct vm *vm, int r, const char *step)
{
    char said[100] = "", text[160];
    if (r >= 0)
        return;
    snprintf(said, sizeof(said), "%s", api_message());
    if (!said[0])
        emulator_read_message(vm, said, sizeof(said));
    snprintf(text, sizeof(text), "%s%s%s", step, said[0] ? ": " : "", said);
    child_must(r, text, -1);
}

static void put(struct vm *vm, const char *path, json_t *body)
{
    char step[80];
    snprintf(step, sizeof(step), "configure the machine (%s)", path);
    must(vm, api_call("PUT", path, body), step);
}

static void fd_path(int number, char *ret, size_t size)
{
    snprintf(ret, size, "/proc/self/fd/%d", number);
}

/* --- before the start */

static json_t *bucket(const struct machine_bucket *b)
{
    if (!b->size)
        return NULL;
    json_t *o = json_pack("{s:I, s:I}", "size", (json_int_t)b->size, "refill_time",
                          (json_int_t)b->refill_ms);
    if (b->burst)
        json_object_set_new(o, "one_time_burst", json_integer((json_int_t)b->burst));
    return o;
}

static json_t *rate_limiter(const struct machine_rate *rate)
{
    json_t *bandwidth = rate ? bucket(&rate->bytes) : NULL;
    json_t *operations = rate ? bucket(&rate->operations) : NULL;
    if (!bandwidth && !operations)
        return NULL;
    return json_pack("{s:o*, s:o*}", "bandwidth", bandwidth, "ops", operations);
}

static void put_drive(struct vm *vm, const char *id, const char *file, bool read_only,
                      const struct machine_rate *rate)
{
    char path[64];
    snprintf(path, sizeof(path), "/drives/%s", id);
    put(vm, path,
        json_pack("{s:s, s:s, s:b, s:b, s:o*}", "drive_id", id, "path_on_host", file,
                  "is_root_device", strcmp(id, ROOT_DRIVE) == 0, "is_read_only", read_only,
                  "rate_limiter", rate_limiter(rate)));
}

/* In the order of the guest's word for them (disks_word()). */
static void put_drives(struct vm *vm)
{
    const struct machine_config *m = &vm->start.machine;
    char file[128];
    put_drive(vm, ROOT_DRIVE, VM_FILES_DIR "/" VM_ROOT_NAME, true, &m->rootfs_rate);
    if (vm->start.child.disk_from_fd)
        put_drive(vm, GUEST_DATA_DISK, VM_DISK_FILE, false, NULL);
    if (vm->image_fd >= 0) {
        fd_path(FD_IMAGE, file, sizeof(file));
        put_drive(vm, GUEST_IMAGE_DISK, file, true, NULL);
    }
    for (uint32_t i = 0; i < m->n_drives; i++) {
        snprintf(file, sizeof(file), VM_FILES_DIR "/" VM_DRIVE_PREFIX "%s", m->drives[i].id);
        put_drive(vm, m->drives[i].id, file, true, &m->drives[i].rate);
    }
}

/* Firecracker's disks have no serial numbers that we could choose, but they have an order. */
static void disks_word(const struct vm *vm, char *ret, size_t size)
{
    const struct machine_config *m = &vm->start.machine;
    size_t n = (size_t)snprintf(ret, size, " " GUEST_DISKS_WORD GUEST_ROOT_DISK "%s%s",
                                vm->start.child.disk_from_fd ? "," GUEST_DATA_DISK : "",
                                vm->image_fd >= 0 ? "," GUEST_IMAGE_DISK : "");
    for (uint32_t i = 0; i < m->n_drives && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, ",%s", m->drives[i].id);
}

/* What the kernel reads last counts. */
static void put_boot_source(struct vm *vm)
{
    const struct machine_config *m = &vm->start.machine;
    char line[LINE_SIZE], disks[MACHINE_LINE_SIZE], drives[MACHINE_LINE_SIZE];
    disks_word(vm, disks, sizeof(disks));
    machine_drives_word(m, drives, sizeof(drives));
    snprintf(line, sizeof(line), "%s%s" OWN_WORDS " " GUEST_VSOCK_WORD "%u%s%s",
             m->boot_args[0] ? m->boot_args : MACHINE_BOOT_ARGS, m->log_path[0] ? "" : QUIET_WORDS,
             m->port, disks, drives);
    put(vm, "/boot-source",
        json_pack("{s:s, s:s, s:s}", "kernel_image_path", VM_FILES_DIR "/" VM_KERNEL_NAME,
                  "initrd_path", VM_FILES_DIR "/" VM_INITRAMFS_NAME, "boot_args", line));
}

/* One processor, or an even number of them. */
static unsigned vcpus(const struct vm *vm)
{
    unsigned n = machine_cpus(vm);
    n = n > 1 ? (n + 1) / 2 * 2 : 1;
    return n > CPUS_MAX ? CPUS_MAX : n;
}

static void configure(struct vm *vm)
{
    const struct machine_config *m = &vm->start.machine;
    put(vm, "/machine-config",
        json_pack("{s:i, s:I, s:b}", "vcpu_count", (int)vcpus(vm), "mem_size_mib",
                  (json_int_t)machine_mib(vm), "smt", 0));
    put_boot_source(vm);
    put_drives(vm);
    put(vm, "/vsock",
        json_pack("{s:I, s:s}", "guest_cid", (json_int_t)(m->cid ? m->cid : DEFAULT_CID),
                  "uds_path", VM_VSOCK_SOCKET));
    put(vm, "/balloon",
        json_pack("{s:i, s:b, s:b}", "amount_mib", BALLOON_MIB, "deflate_on_oom", 1,
                  "free_page_reporting", 1));
}

static void start_process(struct vm *vm)
{
    const char *const argv[] = {vm->start.machine.firecracker_bin, "--api-sock", VM_API_SOCKET,
                                NULL};
    char path[32];
    int fds[FD_END - EMULATOR_FIRST_FD];
    fds[FD_MEMORY - EMULATOR_FIRST_FD] = vm->memory_fd;
    fds[FD_STATE - EMULATOR_FIRST_FD] = vm->state_fd;
    fds[FD_IMAGE - EMULATOR_FIRST_FD] = vm->image_fd;
    fds[FD_METRICS - EMULATOR_FIRST_FD] = vm->metrics.pipe_fd;
    emulator_start(vm, argv, fds, ELEMENTS(fds));
    must(vm, api_open(vm, VM_API_SOCKET), "start Firecracker");
    if (vm->metrics.pipe_fd >= 0) {
        fd_path(FD_METRICS, path, sizeof(path));
        put(vm, "/metrics", json_pack("{s:s}", "metrics_path", path));
    }
}

static void firecracker_start(struct vm *vm)
{
    start_process(vm);
    configure(vm);
    must(vm, api_call("PUT", "/actions", json_pack("{s:s}", "action_type", "InstanceStart")),
         "start the machine");
}

/* --- vsock */

/* Waits for a byte of it, for the emulator's end and for the warden's, which is ours. */
static int wait_for_byte(struct vm *vm, int fd, int most_ms)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = vm->emulator_pidfd, .events = POLLIN},
                           {.fd = CHILD_CHANNEL_FD}};
    int n = poll(fds, ELEMENTS(fds), most_ms);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[2].revents & (POLLHUP | POLLERR))
        _exit(0); /* the warden is gone */
    return fds[1].revents && !fds[0].revents ? -EPIPE : 0;
}

/* "OK 1073741824": that the guest has taken the connection. -EAGAIN: nothing listens there yet, and
 * Firecracker has closed it. What follows the line is the guest's. */
static int await_taken(struct vm *vm, int fd)
{
    char line[GREETING_MAX] = "";
    for (size_t n = 0; n < sizeof(line) - 1;) {
        int r = wait_for_byte(vm, fd, -1);
        if (r < 0)
            return r;
        ssize_t got = recv(fd, &line[n], 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return -EAGAIN;
        if (line[n++] == '\n')
            return strncmp(line, "OK ", strlen("OK ")) == 0 ? 0 : -EPROTO;
    }
    return -EPROTO;
}

static int dial_once(struct vm *vm, uint32_t port)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = VM_VSOCK_SOCKET};
    char line[GREETING_MAX];
    int n = snprintf(line, sizeof(line), "CONNECT %u\n", port);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 ||
        send(fd, line, (size_t)n, MSG_NOSIGNAL) != n)
        return errno == ENOENT || errno == ECONNREFUSED || errno == EPIPE ? -EAGAIN : -errno;
    int r = await_taken(vm, fd);
    return r < 0 ? r : fd_steal(&fd);
}

/* The guest listens when its first process runs; the warden ends us when that takes too long. */
static int dial(struct vm *vm, uint32_t port)
{
    int fd;
    while ((fd = dial_once(vm, port)) == -EAGAIN) {
        int r = wait_for_byte(vm, -1, DIAL_AGAIN_MS);
        if (r < 0)
            return r;
    }
    return fd;
}

/* A machine that is kept loses its connections, so that the second one need not be made. */
static void firecracker_connect(struct vm *vm)
{
    fd_close(&vm->ctl_fd);
    fd_close(&vm->data_fd);
    vm->ctl_fd = dial(vm, GUEST_VSOCK_CTL);
    must(vm, vm->ctl_fd, "boot the guest");
    if (vm->memory_fd >= 0 && !vm->restored)
        return;
    vm->data_fd = dial(vm, GUEST_VSOCK_DATA);
    must(vm, vm->data_fd, "connect with the guest");
}

/* --- snapshots */

static void firecracker_snapshot(struct vm *vm)
{
    char memory[32], state[32];
    fd_path(FD_MEMORY, memory, sizeof(memory));
    fd_path(FD_STATE, state, sizeof(state));
    int r = api_call("PATCH", "/vm", json_pack("{s:s}", "state", "Paused"));
    r = r < 0 ? r
              : api_call("PUT", "/snapshot/create",
                         json_pack("{s:s, s:s, s:s}", "snapshot_type", "Full", "snapshot_path",
                                   state, "mem_file_path", memory));
    must(vm, r, "keep the machine");
}

/* The paths of disks and of the vsock socket are those of the machine that was kept: they are the
 * same in every cell. */
static void firecracker_restore(struct vm *vm)
{
    char memory[32], state[32];
    fd_path(FD_MEMORY, memory, sizeof(memory));
    fd_path(FD_STATE, state, sizeof(state));
    start_process(vm);
    must(vm,
         api_call("PUT", "/snapshot/load",
                  json_pack("{s:s, s:{s:s, s:s}, s:b}", "snapshot_path", state, "mem_backend",
                            "backend_type", "File", "backend_path", memory, "resume_vm", 1)),
         "restore the machine");
}

static void firecracker_stop(struct vm *vm)
{
    api_close();
    emulator_kill(vm);
}

const struct vmm_driver vmm_firecracker = {
    .name = "firecracker",
    .vsock_socket = VM_VSOCK_SOCKET,
    .start = firecracker_start,
    .connect = firecracker_connect,
    .snapshot = firecracker_snapshot,
    .restore = firecracker_restore,
    .stop = firecracker_stop,
};
