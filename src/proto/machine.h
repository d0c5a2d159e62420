/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator says of virtual machines (runtime_config), as a fixed record: mas-sandboxd
 * reads the file before there is a control plane, and the warden and mas-vmm get only this.
 *
 * A text is "" where the operator said nothing. Paths are absolute. MACHINE_ID in one stands for
 * the id of the sandbox that the machine is. */
#pragma once

#include <stdint.h>

#include "proto/net.h"

#define MACHINE_ID           "{id}"
#define MACHINE_BOOT_ARGS    "console=ttyS0 reboot=k panic=1 pci=off"
#define MACHINE_PATH_SIZE    256
#define MACHINE_SOCKET_SIZE  108 /* as sun_path */
#define MACHINE_LINE_SIZE    1024
#define MACHINE_DRIVES_MAX   8
#define MACHINE_WRITABLE_MAX 4           /* of them, that machines can write */
#define MACHINE_PORT_MAX     0x6d617300u /* of vsock; those above it are the machine's own */
#define MACHINE_DRIVE_SIZE   20 /* of a drive's id; what a virtio disk has for a serial number */

enum machine_vmm {
    MACHINE_AUTO, /* Firecracker where it and /dev/kvm are there, else QEMU */
    MACHINE_QEMU,
    MACHINE_FIRECRACKER,
    _MACHINE_VMM_MAX,
};

/* A bucket of tokens: size of them, all back after refill_ms; burst more once. size 0: no limit. */
struct machine_bucket {
    uint64_t size, burst, refill_ms;
};

struct machine_rate {
    struct machine_bucket bytes, operations;
};

struct machine_drive {
    char id[MACHINE_DRIVE_SIZE + 1];
    char path[MACHINE_PATH_SIZE];
    uint32_t writable;
    uint32_t reserved;
    struct machine_rate rate;
};

struct machine_config {
    uint32_t vmm; /* enum machine_vmm */
    uint32_t n_drives;
    char firecracker_bin[MACHINE_PATH_SIZE];
    char qemu_bin[MACHINE_PATH_SIZE];
    char kernel_image[MACHINE_PATH_SIZE];
    char initramfs[MACHINE_PATH_SIZE];
    char rootfs[MACHINE_PATH_SIZE];
    char snapshot[MACHINE_PATH_SIZE];
    char api_socket[MACHINE_SOCKET_SIZE];
    char log_path[MACHINE_PATH_SIZE];
    char metrics_path[MACHINE_PATH_SIZE];
    char boot_args[MACHINE_LINE_SIZE]; /* "": MACHINE_BOOT_ARGS with Firecracker, none with QEMU */
    char uds_path[MACHINE_SOCKET_SIZE];
    uint32_t cid, port;
    uint32_t cpu_quota_us;   /* of 100 ms, of every machine's control group; 0: as the sandbox's */
    uint32_t network_closed; /* machines have no network by address, whatever others may have */
    uint32_t reserved;
    uint32_t n_cidrs; /* 0: machines may ask for what all sandboxes may (network_cidrs) */
    struct net_range cidrs[NET_RANGES_MAX];
    uint64_t memory_max_bytes; /* of the same group; 0: the machine's memory and what is needed */
    char cgroup_path[MACHINE_PATH_SIZE];
    struct machine_rate rootfs_rate;
    struct machine_drive drives[MACHINE_DRIVES_MAX];
};

/* 0, or -EPERM with a text in why: a range that the operator's file does not let machines have. */
int machine_ranges_check(const struct machine_config *m, const struct net_range *ranges, uint32_t n,
                         char *why, unsigned size);
