/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that are kept once, before anything was asked of them, and copied.
 *
 * A guest that waits for its order is like any other of its size: whatever must differ comes with
 * the order (guest/guest.h). The first one of a size is therefore kept, as two memory files: the
 * guest's memory, which the emulator has mapped shared until then, and the state of its devices.
 * Its emulator is ended, so that nothing maps the files for writing, and they are sealed; a machine
 * that has been given to a caller can change nothing in them, whatever its emulator was made to do.
 * Copies map the memory privately: all of them share the pages that they do not write. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

/* What follows the order (proto/vm.h). */
static void receive_files(struct vm *vm)
{
    int fds[FD_PASS_MAX], *wanted[FD_PASS_MAX];
    const struct machine_config *m = &vm->start.machine;
    size_t n = 0;
    char byte;
    if (vm->start.child.origin != VM_BOOTED) {
        wanted[n++] = &vm->memory_fd;
        wanted[n++] = &vm->state_fd;
    }
    if (vm->start.child.image_disk)
        wanted[n++] = &vm->image_fd;
    if (vm->start.child.origin == VM_COPIED && vm->start.child.disk_from_fd)
        wanted[n++] = &vm->disk_fd;
    if (vm->start.child.net_slot)
        wanted[n++] = &vm->tap_fd;
    if (vm->start.child.flags & PLAN_AUTHORITY)
        wanted[n++] = &vm->authority_fd;
    for (uint32_t i = 0, k = 0; i < m->n_drives && n < FD_PASS_MAX; i++)
        if (m->drives[i].writable && k < MACHINE_WRITABLE_MAX)
            wanted[n++] = &vm->drive_fds[k++];
    if (n == 0)
        return;
    bool good = fd_recv_msg(CHILD_CHANNEL_FD, &byte, 1, fds) == 1;
    for (size_t i = 0; i < FD_PASS_MAX; i++) {
        if (i < n)
            *wanted[i] = fds[i];
        else
            fd_close(&fds[i]);
    }
    child_must(!good || fds[n - 1] < 0 ? -EPROTO : 0, "receive the machine's files", -1);
}

void vm_end_emulator(struct vm *vm)
{
    int status;
    vm->driver->stop(vm);
    child_must(waitpid(vm->emulator, &status, 0) != vm->emulator ? -errno : 0, "end the emulator",
               -1);
    fd_close(&vm->emulator_pidfd);
    fd_close(&vm->message_fd);
}

static void seal(int fd)
{
    child_must(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0
                   ? -errno
                   : 0,
               "seal the snapshot", -1);
}

static void keep(struct vm *vm)
{
    vm->driver->snapshot(vm);
    vm_end_emulator(vm);
    seal(vm->memory_fd);
    seal(vm->state_fd); /* the last: the warden looks at this one */
}

/* The descriptor is one of many for the same open file, which has one position. */
static void open_state_anew(struct vm *vm)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", vm->state_fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    child_must(fd < 0 ? -errno : 0, "open the snapshot", -1);
    close(vm->state_fd);
    vm->state_fd = fd;
}

static void boot(struct vm *vm)
{
    vm->driver->start(vm);
    vm->driver->connect(vm);
    guest_await_boot(vm);
}

/* An emulator that keeps no machine boots each; the warden sees files that are never sealed. */
static uint32_t choose_origin(struct vm *vm)
{
    if (vm->driver->snapshot)
        return vm->start.child.origin;
    child_must(vm->start.child.origin == VM_COPIED ? -EOPNOTSUPP : 0, "copy a machine", -1);
    fd_close(&vm->memory_fd);
    fd_close(&vm->state_fd);
    return VM_BOOTED;
}

/* From vm->memory_fd and vm->state_fd. */
void vm_restore(struct vm *vm)
{
    open_state_anew(vm);
    vm->restored = true;
    vm->driver->restore(vm);
    vm->driver->connect(vm);
    if (vm->driver->vsock_socket)
        guest_await_boot(vm);
    fd_close(&vm->memory_fd); /* the emulator has them */
    fd_close(&vm->state_fd);
}

void vm_start(struct vm *vm)
{
    receive_files(vm);
    uint32_t origin = choose_origin(vm);
    if (origin == VM_COPIED)
        vm_copy_disk(vm);
    else
        vm_make_disk(vm);
    if (origin == VM_BOOTED || origin == VM_KEPT)
        boot(vm);
    if (origin == VM_BOOTED)
        return;
    if (origin == VM_KEPT)
        keep(vm);
    vm_restore(vm);
}
