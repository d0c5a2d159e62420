/* SPDX-License-Identifier: Apache-2.0 */
/* mas-vmm: one virtual machine, from inside the walls of a cell.
 *
 * Theory of operation. The cell that the warden builds for a machine is a local one in all respects
 * but one: where a local sandbox would have its runner as the first process, this one has mas-vmm,
 * which starts the emulator as the tool's user. So whoever breaks out of the guest is the tool of a
 * local sandbox: no network, no host files but read-only programs, its system calls filtered, its
 * memory and processors limited by the cell's group. mas-vmm has no right over the host either.
 *
 * It gives the guest its order over the control port and then carries the control plane's
 * connections over the data port (proto/guest.h): the first comes as a descriptor with the start,
 * later ones over the channel, as a runner gets them. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>

#include "link/pump.h"
#include "proto/vm.h"

struct vm {
    struct vm_start start;
    struct sock_filter filter[GUEST_FILTER_MAX];
    pid_t emulator;
    int emulator_pidfd;
    int ctl_fd, data_fd; /* our ends of the guest's ports */
    int message_fd;      /* what the emulator says on its standard error */
    uint8_t mark[GUEST_MARK_SIZE];
    bool ended; /* the guest says that its runner is gone: */
    int wait_status;
};

/* disk.c: makes the guest's disk, where it is not in its memory. Fails by child_must(). */
void vm_make_disk(const struct vm *vm);

/* qemu.c: starts the emulator. Fails by child_must(). */
void qemu_start(struct vm *vm);
/* The last line that it said, or "". */
void qemu_read_message(struct vm *vm, char *ret, size_t size);

/* guest.c: waits for the guest, gives it its order, and waits for the runner. Fails by
 * child_must(). */
void guest_begin(struct vm *vm);
/* Reads news while it runs: 0, or -errno when there will be no more. *closed: the connection with
 * that number was closed inside. */
int guest_hear(struct vm *vm, uint32_t *closed);

/* serve.c: carries connections until the machine ends. Reports that the machine runs once the guest
 * has answered on the first. */
void vm_serve(struct vm *vm, int stream_fd);
