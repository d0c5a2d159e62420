/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that a caller has, kept as it is, and put back (warden/vm/saved.c). The machine stands
 * still only while its memory and its disk are read: that they are on the host's disk for good is
 * waited for when it goes on again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

static void answer_warden(int r, const char *text)
{
    struct vm_answer a = {.error = r < 0 ? -r : 0};
    snprintf(a.text, sizeof(a.text), "%s", text);
    send(CHILD_CHANNEL_FD, &a, sizeof(a), MSG_NOSIGNAL);
}

static int sync_files(int memory_fd, int state_fd, int disk_fd)
{
    if (fdatasync(memory_fd) < 0 || fdatasync(state_fd) < 0 ||
        (disk_fd >= 0 && fdatasync(disk_fd) < 0))
        return -errno;
    return 0;
}

int vm_save(struct vm *vm, int memory_fd, int state_fd, int disk_fd)
{
    _cleanup_close_ int memory = memory_fd, state = state_fd, disk = disk_fd;
    char text[160] = "keep the machine";
    if (!vm->driver->save) {
        answer_warden(-EOPNOTSUPP, "this emulator keeps no machines");
        return 0;
    }
    int r = vm->driver->save(vm, memory, state, text, sizeof(text));
    if (r == 0 && disk >= 0) {
        snprintf(text, sizeof(text), "copy the machine's disk");
        r = vm_save_disk(vm, disk);
    }
    int lost = vm->driver->go_on(vm);
    guest_set_clock(vm);
    if (r == 0) {
        snprintf(text, sizeof(text), "write the snapshot");
        r = sync_files(memory, state, disk);
    }
    answer_warden(r, text);
    return lost;
}

void vm_go_back(struct vm *vm, int memory_fd, int state_fd, int disk_fd)
{
    vm_end_emulator(vm);
    vm->memory_fd = memory_fd;
    vm->state_fd = state_fd;
    fd_close(&vm->disk_fd);
    vm->disk_fd = disk_fd;
    vm_copy_disk(vm);
    vm_restore(vm);
    guest_renew(vm);
    answer_warden(0, "");
}
