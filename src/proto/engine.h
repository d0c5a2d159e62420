/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden and a broker of a container engine (mas-engine) say to each other.
 *
 * Channel: SOCK_SEQPACKET, descriptor 4 of the broker. It says "r", gets struct engine_order with
 * the mounts' descriptors and, if disk_from_fd and the like are set, one byte with the disk, the
 * image and the authority; then requests, which it answers with messages of the same tag. Failures
 * of a create go over the pipe of builder/child.h.
 */
#pragma once

#include <stdint.h>

#include "proto/order.h"

#define ENGINE_VIEW_FD        6 /* a copy of the template root, detached */
#define ENGINE_PATH_SIZE      200
#define ENGINE_SOCKET_SIZE    108
#define ENGINE_INSTANCE_SIZE  33
#define ENGINE_CONTAINER_SIZE 72
#define ENGINE_DIR_NAME       "engine"

/* Below a sandbox's directory. */
#define ENGINE_LINK   "link" /* the runner's socket and filter; bound to OCI_LINK_INSIDE */
#define ENGINE_FILTER "filter"
#define ENGINE_AUTHORITIES                                                                         \
    "authorities" /* bound to ROOT_AUTHORITIES, if authority_from_fd and no image */

enum engine_task {
    ENGINE_CREATE,
    ENGINE_ADOPT,  /* a container that runs already */
    ENGINE_REMOVE, /* whatever there is of it */
    ENGINE_PROBE,  /* what the engine is and can; containers without a record are removed */
    ENGINE_LIST,   /* answers with each struct engine_record that there is */
    _ENGINE_TASK_MAX,
};

/* What must outlive the broker and the warden. */
struct engine_mark {
    int32_t pid; /* the container's first process, 0: not known; with its start time */
    int32_t reserved;
    uint64_t started;
    char container[ENGINE_CONTAINER_SIZE]; /* its id with the engine, which no rename changes; "" */
};

/* What outlives warden and broker of a sandbox that an engine holds, in a directory of the
 * sandbox's own: brokers write, read and remove it. */
#define ENGINE_RECORD_MAGIC 0x676e6d61u

enum engine_record_state {
    ENGINE_RECORD_CREATING, /* the engine may know it, or soon */
    ENGINE_RECORD_RUNNING,
    _ENGINE_RECORD_STATE_MAX,
};

struct engine_record {
    uint32_t magic, size;
    uint32_t state;
    uint32_t runner_id, tool_id, nobody_id;
    int64_t id_block;
    struct engine_mark mark;
    uint8_t mechanism[16];
    struct plan plan;
    struct limits limits;
};

struct engine_order {
    uint32_t task;
    uint32_t backend, inner; /* enum oci_backend */
    uint32_t timeout_ms;     /* of one request to the engine */
    uint32_t connect_timeout_ms;
    uint32_t start_timeout_ms; /* for the runner to dial */
    char socket[ENGINE_SOCKET_SIZE];
    char instance[ENGINE_INSTANCE_SIZE]; /* of this state directory; the broker's to find out */
    char dir[ENGINE_PATH_SIZE];          /* the sandbox's, as the host sees it; probe: of all */
    char id[PLAN_ID_SIZE];
    char image[PLAN_IMAGE_SIZE];
    uint32_t runner_id, tool_id, nobody_id; /* on the host */
    struct user_limits user_limits;
    uint8_t must[16]; /* walls that were asked for: without them there is no sandbox */
    struct engine_mark mark;
    struct child_order child;
    struct engine_record record; /* of a create */
};

enum engine_message_kind {
    ENGINE_READY = 1, /* verified: mechanism, mark; with PLAN_ADDRESSES its network namespace comes
                         with it */
    ENGINE_LINKED,    /* the runner's connection comes with it */
    ENGINE_ENDED,     /* the container's first process is gone: wait_status, oom_kills */
    ENGINE_CLEARED,   /* of a removal: nothing is mounted for the container any more */
    ENGINE_DONE,      /* answer to a request: error, or numbers */
    ENGINE_REPORT, /* of a probe: error with text why, or text the version, mechanism, features */
};

struct engine_message {
    uint32_t kind;
    int32_t error;
    uint64_t tag;
    struct engine_mark mark;
    int32_t wait_status;
    uint32_t features; /* FEATURE_FREEZER; FEATURE_OCI() of runtimes that the engine knows */
    uint8_t mechanism[16];
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, processes, oom_kills, disk_used_bytes;
    char text[160];
};

enum engine_request_kind { ENGINE_ASK_STATS = 1, ENGINE_ASK_FREEZE, ENGINE_ASK_THAW };

struct engine_request {
    uint32_t kind;
    uint32_t reserved;
    uint64_t tag;
};
