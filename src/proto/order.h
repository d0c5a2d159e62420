/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden says to a process that builds one sandbox, and how that reports a failure. The
 * processes are children of the warden or of its zygote, the launchers of OCI runtimes (mas-oci)
 * and the brokers of container engines (mas-engine). */
#pragma once

#include <stdint.h>

#include "proto/plan.h"

/* Where the sandbox of another program than the runner has the mounts that it passes on. */
#define ORDER_SHARE_DIR "/workspace/share"

struct child_mount {
    char target[PLAN_PATH_SIZE];
};

struct child_order {
    uint32_t flags; /* enum plan_flags */
    uint32_t n_mounts;
    uint32_t disk_from_fd, image_from_fd; /* they come with a second message */
    uint32_t open_files;
    uint32_t process_rlimit;    /* 0: a cgroup limits processes */
    uint32_t backend;           /* enum oci_backend: who builds the rest */
    uint32_t authority_from_fd; /* with the second message, too */
    uint32_t origin;            /* enum vm_origin, of a virtual machine */
    uint32_t image_disk;        /* its image is a disk of its own */
    uint32_t n_shares;          /* of the mounts, so many are the first, and the guest's */
    uint32_t shares_read_only;  /* a bit for each of them */
    uint32_t net_slot;          /* of a machine's network by address, counted from 1; 0: none */
    uint32_t reserved;
    struct net_range net_pools[2]; /* that the address of this slot is of, of IPv4 and of IPv6 */
    uint64_t disk_bytes, disk_inodes;
    struct limits limits; /* those that a cgroup enforces */
    char hostname[64];
    char workdir[PLAN_PATH_SIZE];
    struct child_mount mounts[PLAN_MOUNTS_MAX];
};

struct child_failure {
    int32_t error;
    int32_t wall; /* or -1 */
    char step[160];
};

/* What a user namespace of a sandbox's may have of inotify and fanotify, which the host shares. */
struct user_limits {
    uint32_t inotify_instances, inotify_watches, fanotify_groups, fanotify_marks;
};
