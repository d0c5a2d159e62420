/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-vmm and the first process of its guest say to each other.
 *
 * A guest has three serial ports, and one of them carries the connections of others (link/mux.h);
 * or it has three ports of vsock with the same meaning, where others connect one by one. The
 * control port carries
 * the records below, of fixed sizes, in both directions. The data port carries the runner's
 * connection, one after another: it is a stream of bytes that knows no connections, so each begins
 * with the guest's mark and 32 random bytes of its own, which the guest repeats before the runner's
 * first byte. Both sides drop what comes before. The mark is random and never leaves the two;
 * nothing that a tool or a caller sends is taken for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/intercept.h"
#include "proto/machine.h"
#include "proto/order.h"

#define GUEST_VERSION    7 /* one more with each change of what either side says or means */
#define GUEST_MARK_SIZE  32
#define GUEST_SEED_SIZE  64
#define GUEST_FILTER_MAX 4096 /* instructions */
#define GUEST_DATA_PORT  "/dev/vport0p1"
#define GUEST_CTL_PORT   "/dev/vport0p2"
#define GUEST_LINES_PORT                                                                           \
    "/dev/vport0p3" /* connections to the machine's vsock socket (link/mux.h) */
/* Serial numbers of the guest's disks. */
#define GUEST_ROOT_DISK  "root"
#define GUEST_DATA_DISK  "disk"
#define GUEST_IMAGE_DISK "image"
/* Where disks have no serial numbers, their names in the kernel's order follow this word. */
#define GUEST_DISKS_WORD "mas.disks="
/* The machine has vsock instead of serial ports. The number of the port for other clients follows
 * the word; control and data have ports of their own, which take one connection each. */
#define GUEST_VSOCK_WORD "mas.vsock="
#define GUEST_VSOCK_CTL  0x6d617301u
#define GUEST_VSOCK_DATA 0x6d617302u
/* So many directories of the host follow the word, each with a port of its own (vmm/share.h). */
#define GUEST_SHARES_WORD "mas.shares="
#define GUEST_SHARE_PORT  "/dev/vport0p" /* its number follows: */
#define GUEST_FIRST_SHARE 4
/* The machine has a network by address; the rest comes with the order. */
#define GUEST_NETWORK_WORD "mas.network="
/* The operator's drives: their serial numbers follow the word on the kernel's line, with commas,
 * and with this sign after each that can be written. */
#define GUEST_DRIVES_WORD "mas.drives="
#define GUEST_WRITABLE    "+"
#define GUEST_DRIVES_DIR  "/media"

/* From the guest. */
enum guest_news {
    GUEST_READY = 1, /* it waits for its order */
    GUEST_STARTED,   /* the runner runs; or failure.error, and the guest ends */
    GUEST_CLOSED,    /* the runner closed the connection with this number */
    GUEST_ENDED,     /* the runner is gone, and so will be the guest */
    GUEST_RENEWED,   /* it is another machine now; connection: how many it has had */
    _GUEST_NEWS_END,
};

struct guest_message {
    uint64_t magic;
    uint32_t news;       /* enum guest_news */
    uint32_t connection; /* of GUEST_CLOSED: the first is 1; of GUEST_RENEWED */
    int32_t wait_status; /* of GUEST_ENDED */
    uint32_t landlock_abi;
    struct child_failure failure;
};

/* To the guest, once; the filter's instructions follow. */
struct guest_order {
    uint64_t magic;
    uint32_t n_filter;
    uint32_t reserved;
    uint8_t mark[GUEST_MARK_SIZE];
    uint8_t seed[GUEST_SEED_SIZE]; /* for the guest's random numbers */
    int64_t realtime_ns;
    struct user_limits user_limits;
    struct child_order child;
    char authority[INTERCEPT_PEM_SIZE]; /* the certificate of its interceptor's authority, or "" */
};

/* To a guest whose runner runs: in a machine that is a copy, what no two machines may have in
 * common, which the guest answers; and whenever its clock may be behind, the time alone. */
struct guest_renewal {
    uint64_t magic;
    uint32_t only_clock; /* nothing else counts, and there is no answer */
    uint32_t reserved;
    uint8_t mark[GUEST_MARK_SIZE];
    uint8_t seed[GUEST_SEED_SIZE];
    int64_t realtime_ns;
};

/* Every record begins with it. A guest whose initramfs is of another build has another one, so that
 * it is refused before it is sent an order that it would misread: the shapes of what is sent are
 * part of it, beside the version. */
#define GUEST_SHAPE                                                                                \
    (sizeof(struct guest_order) * 65599 + sizeof(struct guest_message) * 8191 +                    \
     sizeof(struct guest_renewal) * 511 + sizeof(struct child_order) * 127 +                       \
     offsetof(struct child_order, limits) * 31 + _PLAN_FLAGS_END * 7 + _WALL_MAX)
#define GUEST_MAGIC (0x6d61730000000000ull | (uint64_t)GUEST_VERSION << 32 | (uint32_t)GUEST_SHAPE)
