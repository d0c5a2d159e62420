/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-warden hands to the processes that it starts from mas-sandboxd: the control plane, the
 * gateway and the image keeper. Each finds its socket and its configuration at the first two
 * descriptors. With its first record, the control plane gets a descriptor of what sandboxes have
 * been promised (proto/promised.h). The configuration is a sealed memory file that the mas-sandboxd
 * of the operator wrote before it became the warden, which only passes it on: nothing has to be
 * read from disk after rights were given up, and root parses none of it. */
#pragma once

#include <limits.h>
#include <stdint.h>

#define HANDOVER_CONTROL_FLAG "--control-stage" /* argv[1] of a control plane, and so on */
#define HANDOVER_GATEWAY_FLAG "--gateway-stage"
#define HANDOVER_KEEPER_FLAG  "--keeper-stage"

#define HANDOVER_PROBE_FLAG "--probe-stage"

/* The protocol between a warden and its control planes: this record, plans, replies and events. A
 * control plane may be of another version than the warden, when mas-sandboxd was replaced under
 * living sandboxes. Another major is refused by name. A minor adds operations, flags and events to
 * records of the same size; what one side does not know of the other's it refuses, one by one. */
#ifndef PROTOCOL_MAJOR /* a test builds another */
#define PROTOCOL_MAJOR 7
#endif
#define PROTOCOL_MINOR 0

#define HANDOVER_LISTENERS_MAX 64
#define HANDOVER_CONFIG_MAX    (16 * 1024 * 1024) /* bytes of a configuration */

enum control_fd {
    HANDOVER_WARDEN = 3, /* plans (proto/plan.h); the first record is a struct handover */
    HANDOVER_CONFIG,
    HANDOVER_GATEWAY,
    HANDOVER_KEEPER,
    HANDOVER_READY,  /* write end of a pipe: READY_DROPPED, then READY_SERVES */
    HANDOVER_STATE,  /* O_PATH of the state subdirectory, to compare with what was mounted */
    HANDOVER_LISTEN, /* first of n_listeners */
    /* Behind all of them, so that a control plane of another version finds those where they were:
     * the control plane's end of mas-kube's socket. Closed where there is no cluster. */
    HANDOVER_KUBE = HANDOVER_LISTEN + HANDOVER_LISTENERS_MAX,
};

/* What an installed mas-sandboxd is asked before the running control plane makes way for it. */
enum probe_fd {
    PROBE_ANSWER = 3, /* a pipe: PROBE_ANSWER_FORMAT, or in words why it cannot be started */
    PROBE_CONFIG,     /* the configuration that it would get */
};
#define PROBE_ANSWER_MAX    255
#define PROBE_ANSWER_FORMAT "mas-sandboxd %s protocol %u.%u"
#define PROBE_VERSION_SIZE  64

enum gateway_fd {
    GATEWAY_SOCK = 3, /* its end of the control plane's socket */
    GATEWAY_CONFIG,
    _GATEWAY_FD_END,
};

/* mas-kube, the broker of a cluster, which is a program of its own. */
#define HANDOVER_KUBE_FLAG "--warden"
enum kube_fd {
    KUBE_SOCK = 3,
    KUBE_SETTINGS,
};

enum keeper_fd {
    KEEPER_SOCK = 3, /* its end of the control plane's socket */
    KEEPER_CONFIG,
    KEEPER_DIR,           /* O_PATH of the directory of all images, to compare with the mount */
    KEEPER_DEFAULT_IMAGE, /* the tar that comes with the daemon, where there is one */
    KEEPER_PROMISED,      /* what the warden's sandboxes have been promised (proto/promised.h) */
    KEEPER_GATEWAY,       /* the control plane's end of the gateway's socket */
    KEEPER_CLAIMS,        /* what image keeper and control plane have claimed (proto/claims.h) */
    _KEEPER_FD_END,
};

/* What a control plane says of itself, a byte each. Only of a program that serves does the warden
 * believe that it can: its state may be of a version that it does not know. */
#define READY_DROPPED 'd'
#define READY_SERVES  's'

/* Exit status of a control plane that has made way for the next one, which was installed meanwhile
 * or is to know its sandboxes anew. */
#define CONTROL_EXIT_LEFT 76
/* Exit status of a control plane that says "starting again will not help". */
#define CONTROL_EXIT_REFUSED 78
/* "It will, once the disk has room": sandboxes wait for that, however long it takes. */
#define CONTROL_EXIT_NO_SPACE 75

struct handover {
    uint32_t major, minor;       /* first in every version */
    uint64_t generation;         /* 1 for the first control plane of this warden, then 2, ... */
    uint64_t generations_before; /* of earlier wardens, whose sandboxes may live */
    int32_t warden_pid;
    uint32_t privileged; /* the daemon was started as root */
    uint32_t own_root;   /* the host allows namespaces: a root of its own can be had */
    uint32_t line_mode;
    uint32_t announce; /* no control plane was ready yet: say where we listen */
    uint32_t n_listeners;
    uint32_t uid, gid; /* to become, when privileged */
    char state_path[PATH_MAX];
};
