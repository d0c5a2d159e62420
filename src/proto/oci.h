/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden and mas-oci say to each other.
 *
 * mas-oci is started for one launcher (a process that builds a sandbox with an OCI runtime and
 * stays with it, see oci/launcher.h) or for one question. Channel: SOCK_SEQPACKET, descriptor 4.
 * The first message is struct oci_start, followed by the system call filter that it counts, with
 * the host's /run as its descriptor, where the warden has that. A launcher then goes on as any
 * process that builds a sandbox (builder/child.h); a question is answered with struct oci_report.
 */
#pragma once

#include <stdint.h>

#include "proto/order.h"

#define OCI_PATH_SIZE    64
#define OCI_GROUP_SIZE   136
#define OCI_VERSION_SIZE 64
#define OCI_FILTER_MAX   4096 /* instructions: the kernel takes no more */
/* Below the host's /run: on what a kernel of a runtime's can stand here (oci/launcher.h). */
#define OCI_PLATFORM_FILE "mas-sandbox-gvisor"

/* What the launcher makes is below this, in its own mount namespace; the warden looks at the disk
 * to see how full it is. */
#define OCI_DIR  "/run"
#define OCI_DISK OCI_DIR "/disk"

enum oci_task {
    OCI_LAUNCH = 1,
    OCI_ASK, /* one program for its version */
};

struct oci_start {
    uint32_t task;
    uint32_t backend; /* enum oci_backend; of a question: whom to ask */
    char programs[_OCI_BACKEND_MAX][OCI_PATH_SIZE]; /* "": not here */
    /* Of a launcher. */
    uint32_t runner_id, tool_id, nobody_id; /* on the host */
    uint32_t cgroup_v2;                     /* the version of its control groups is 2 */
    char group[OCI_GROUP_SIZE];             /* how their paths end; "": it has none */
    struct user_limits user_limits;
    uint64_t kvm_device; /* its number; 0: the host has none */
    uint32_t n_filter;   /* instructions that follow the record */
    uint32_t reserved;
};

struct oci_report {
    uint32_t backend;
    uint32_t error;              /* errno: it did not answer as programs do */
    uint32_t platform_known;     /* on what its kernel can stand was found out since the boot */
    char text[OCI_VERSION_SIZE]; /* the version, or what is wrong */
};
