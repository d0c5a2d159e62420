/* SPDX-License-Identifier: Apache-2.0 */
/* What a command of a sandbox finds of its walls, where the one who asks has not built them: a
 * cluster has. The runner's builtin of this name prints one record, as a command with no more
 * rights than any other; its arguments are the address of a witness (proto/witness.h) that is to be
 * tried, or "", and the places that are to be looked at. */
#pragma once

#include <stdint.h>

#define WALLS_BUILTIN    "walls"
#define WALLS_VERSION    3
#define WALLS_PLACES_MAX 8

/* Whose kernel it is, by what that says of itself. */
enum walls_kernel {
    WALLS_KERNEL_ANY, /* the node's, as far as is known */
    WALLS_KERNEL_GVISOR,
    WALLS_KERNEL_KATA, /* of a guest that kata has booted */
};

struct walls_place {
    uint64_t bytes;     /* of the file system that it is on */
    uint32_t in_memory; /* that is a tmpfs */
    uint32_t is_mount;  /* of its own, and no part of the root */
};

struct walls {
    uint32_t version;
    uint32_t cgroup; /* 1 or 2; 0: none is to be seen */
    uint64_t memory_bytes;
    uint64_t capabilities; /* of all sets together */
    uint64_t processes;    /* as RLIMIT_NPROC has it */
    uint32_t cpu_millicores;
    uint32_t uid, gid;
    uint32_t seccomp; /* 2: a filter */
    uint32_t no_new_privs;
    uint32_t landlock_abi;
    uint32_t root_read_only;
    uint32_t own_processes; /* its process ids are not the host's: the runner is the first */
    uint32_t n_places;
    uint32_t own_filter; /* the filter of sandboxes is on, besides what the cluster put on */
    uint32_t witness;    /* enum witness_answer */
    uint32_t kernel;     /* enum walls_kernel */
    struct walls_place places[WALLS_PLACES_MAX];
};
