/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual machines: a local cell in all respects but its first process, which is mas-vmm
 * (vmm/vmm.h). The directory of the machine's files is mounted there, read-only. The order goes to
 * the guest, where the same code as on the host builds a sandbox of it (guest/guest.h). */
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "proto/vm.h"

struct child_order;
struct child_template;

/* What an emulator needs beside the guest's memory. */
#define VM_OVERHEAD_BYTES (192ull << 20)
/* The guest's memory, where nobody limits it. */
#define VM_DEFAULT_BYTES (512ull << 20)
/* Less is not enough to boot. */
#define VM_MIN_BYTES (128ull << 20)
/* Of the guest's memory, what its kernel needs. */
#define VM_KERNEL_BYTES (64ull << 20)
/* Threads and processes of the emulator and mas-vmm. */
#define VM_PROCESSES 128

struct vm_host {
    struct sock_fprog filter; /* of sandboxes, in a guest */
    int dir_fd;               /* of the files, in the host view; or -1 */
    char dir[256];            /* its path */
    char why[250];            /* there are no machines here; "": there are */
};

/* start.c: in the process of the cell, for child_template.become_other. */
void vm_become_vmm(const struct child_template *t, const struct child_order *o)
    __attribute__((noreturn));
