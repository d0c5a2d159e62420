/* SPDX-License-Identifier: Apache-2.0 */
/* The order to mas-vmm, which is executed by the process of a cell that has all walls up
 * (descriptors 3 to 5 as in builder/child.h), and reads struct vm_start and the filter's
 * instructions from VM_START_FD. */
#pragma once

#include <stdint.h>

#include "proto/guest.h"
#include "proto/machine.h"

#define VM_START_FD 6

/* child_order.origin: where a machine comes from. With all but the first, two memory files follow
 * the order: the guest's memory, of its full size, and the state of everything else. With
 * child_order.image_disk, the file of the image follows, with child_order.net_slot the machine's
 * link, a tap, with PLAN_AUTHORITY a file with a certificate, and at the end the drives that can be
 * written, which only machines that boot have. All of them come in one message of a byte
 * over the channel, in this order, after everything that belongs to the order itself. */
enum vm_origin {
    VM_BOOTED,   /* the kernel starts */
    VM_KEPT,     /* and as soon as it can take an order, it is kept in the files, which are sealed
                    against writes then; the machine goes on as a copy */
    VM_RESTORED, /* it is a copy of what such a machine kept */
    VM_COPIED,   /* it is a copy of a machine that was a caller's, whose runner runs; after the
                    other files comes that of its disk, with child_order.disk_from_fd */
    _VM_ORIGIN_MAX,
};

/* Over the channel, of CHANNEL_SAVE and CHANNEL_RETURN. */
struct vm_answer {
    int32_t error; /* 0 or an errno */
    char text[160];
};

struct vm_start {
    uint32_t n_filter;
    uint32_t reserved;
    struct user_limits user_limits;
    struct machine_config machine; /* with one emulator chosen, and its path in the cell */
    struct child_order child;      /* the guest's */
};

/* Where the machine's files are, and what they are called. */
#define VM_FILES_DIR      "/workspace/machine"
#define VM_KERNEL_NAME    "vmlinux"
#define VM_INITRAMFS_NAME "initramfs"
#define VM_ROOT_NAME      "root.img"
#define VM_EMULATOR_NAME  "emulator" /* where the cell has none of its own */
#define VM_DRIVE_PREFIX   "drive-"   /* an id follows */
/* What an emulator serves in the cell. */
#define VM_API_SOCKET   "/workspace/api"
#define VM_VSOCK_SOCKET "/workspace/vsock"
/* Where the cell has a disk image, the guest's disk is this file on it. */
#define VM_DISK_FILE "/workspace/disk"
