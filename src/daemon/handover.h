/* What the warden gives a control plane: descriptors at fixed numbers and one sealed memory file
 * with a header and the configuration, so that nothing has to be read from disk after the drop. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct config;
struct error;

#define HANDOVER_FLAG          "--control-stage" /* argv[1] of a control plane */
#define HANDOVER_LISTENERS_MAX 64

enum handover_fd {
    HANDOVER_WARDEN = 3,
    HANDOVER_GATEWAY,
    HANDOVER_KEEPER,
    HANDOVER_MEMORY,
    HANDOVER_READY,  /* write end of a pipe: one byte once the drop is done */
    HANDOVER_STATE,  /* O_PATH of the state subdirectory, to compare with what was mounted */
    HANDOVER_LISTEN, /* first of n_listeners */
};

struct handover {
    uint64_t generation;
    uint64_t generations_before; /* of earlier wardens, whose sandboxes may live */
    int32_t warden_pid;
    uint32_t privileged; /* the daemon was started as root */
    uint32_t own_root;   /* the host allows namespaces: a root of its own can be had */
    uint32_t line_mode;
    uint32_t n_listeners;
    uint32_t uid, gid; /* to become, when privileged */
    char state_path[PATH_MAX];
};

/* A sealed memory file with both. The descriptor, or -errno. */
int handover_seal(const struct handover *h, const struct config *c);
/* In a forked child: moves fds[0..n) to HANDOVER_WARDEN and up, closes all others but 0 to 2 at the
 * next execution. -errno. */
int handover_arrange(const int *fds, size_t n);
/* In the control plane: reads HANDOVER_MEMORY into *ret and into c, and closes it. */
int handover_take(struct handover *ret, struct config *c, struct error *err);
