/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual machines: a local cell in all respects but its first process, which is mas-vmm
 * (vmm/vmm.h). The directory of the machine's files is mounted there, read-only. The order goes to
 * the guest, where the same code as on the host builds a sandbox of it (guest/guest.h). */
#pragma once

#include <linux/filter.h>
#include <stdint.h>

#include "proto/machine.h"
#include "proto/vm.h"
#include "warden/state.h"

struct child_order;
struct child_template;
struct warden;

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

/* Machines that are kept, one per image, to be copied. */
#define VM_SNAPSHOTS_MAX 8

struct vm_snapshot {
    int memory_fd, state_fd;     /* of the two files; or -1 */
    char image[PLAN_IMAGE_SIZE]; /* "" without one */
    const struct cell *maker;    /* the cell whose machine is kept; NULL when that has ended */
    uint64_t used;               /* the serial of the last cell that was given it */
};

struct vm_host {
    struct vm_snapshot snapshots[VM_SNAPSHOTS_MAX];
    struct sock_fprog filter;      /* of sandboxes, in a guest */
    struct machine_config machine; /* the operator's, with one emulator chosen */
    int dir_fd;                    /* of the files, in the host view; or -1 */
    int devices_fd;                /* the same of /dev, where cells need another; or -1 */
    char why[250];                 /* there are no machines here; "": there are */
};

struct vm_cell {
    struct cell cell;
    int image_fd;    /* with order.image_disk: the file of the image */
    bool usual_disk; /* its disk has the operator's default size */
    struct vm_socket {
        char path[MACHINE_SOCKET_SIZE]; /* on the host; or "" */
        ino_t inode;
    } vsock, api; /* the machine's, and that of its emulator's control */
};

/* The guest's memory under these limits, where they are enough for a machine. */
uint64_t vm_memory_bytes(const struct limits *l);

/* snapshot.c. */
void vm_snapshots_init(struct vm_host *h);
void vm_snapshots_done(struct vm_host *h);
/* Fills in where the machine comes from. */
void vm_snapshot_choose(struct cell *s);
/* For cell_ops.send_more: what follows the order (proto/vm.h). */
int vm_send_files(struct cell *s);
/* The cell has ended. */
void vm_snapshot_end(struct cell *s);

/* files.c: puts the machine's files into one directory; vm_host.why where that fails. */
void vm_files_open(struct warden *w);
/* A detached copy of that directory, or -errno. */
int vm_files_tree(const struct warden *w);

/* device.c: from the host view, makes the /dev of cells that need /dev/kvm; vm_host.why where that
 * fails. */
void vm_devices_open(const struct warden *w, struct vm_host *h);
/* A detached copy of it, or -errno. To be called only where vm_host.devices_fd is there. */
int vm_devices_tree(const struct warden *w);

/* socket.c: for cell_ops.announce and end. */
int vm_socket_announce(struct cell *s);
void vm_socket_end(struct cell *s);

/* start.c: in the process of the cell, for child_template.become_other. */
void vm_become_vmm(const struct child_template *t, const struct child_order *o)
    __attribute__((noreturn));
