/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-vmm is told: it is executed by the process of a cell that has all walls up (descriptors
 * 3 to 5 as in builder/child.h), and reads struct vm_start and the filter's instructions from
 * VM_START_FD. */
#pragma once

#include <stdint.h>

#include "proto/guest.h"

#define VM_START_FD 6

struct vm_start {
    uint32_t n_filter;
    uint32_t reserved;
    struct user_limits user_limits;
    struct child_order child; /* the guest's */
};

/* Where the machine's files are, and what they are called. */
#define VM_FILES_DIR      "/workspace/machine"
#define VM_KERNEL_NAME    "vmlinux"
#define VM_INITRAMFS_NAME "initramfs"
#define VM_ROOT_NAME      "root.img"
/* Where the cell has a disk image, the guest's disk is this file on it. */
#define VM_DISK_FILE "/workspace/disk"
