/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane may ask of the warden: fixed-size binary records over a SOCK_SEQPACKET
 * socketpair, descriptors as SCM_RIGHTS. Never JSON, never a path that the warden has not opened
 * itself, nothing beyond the ceiling it fixed before the control plane existed.
 *
 * Every request gets one reply with its tag; events have tag 0. A record of the wrong size or
 * version, an unterminated string or a value over the ceiling is refused (reply.error), never fatal
 * to the warden. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/checkpoint.h"
#include "proto/handover.h"
#include "proto/limit.h"
#include "proto/net.h"

#define PLAN_VERSION       PROTOCOL_MAJOR /* in every record */
#define PLAN_ID_SIZE       72 /* canonical sandbox id with NUL: [a-z0-9-], starts with a letter */
#define PLAN_PATH_SIZE     256
#define PLAN_MOUNTS_MAX    8
#define PLAN_PTYS_MAX      64 /* per sandbox; the host has 4096 (kernel.pty.max) for all users */
#define PLAN_IMAGE_SIZE    65 /* a SHA-256 in lower-case hexadecimal, with NUL */
#define PLAN_SNAPSHOT_SIZE 33 /* as many of a-z and 0-9, with NUL */

enum plan_op {
    PLAN_CREATE = 1, /* reply carries the runner connection as fds[0] */
    PLAN_KILL,       /* ends everything in it; the EXITED event follows; unknown id: -ENOENT */
    PLAN_CONNECT,    /* a fresh runner connection for this control-plane generation: fds[0] */
    PLAN_STATS,
    PLAN_LIST, /* one EVENT_ALIVE per sandbox, then the reply */
    PLAN_FREEZE,
    PLAN_THAW,
    PLAN_PROBE,     /* what this host can enforce: reply.mechanism, reply.features; of an OCI
                       runtime also its version, or error: reply.message, "" while not known */
    PLAN_POLICY,    /* the operator's policy file as it is now, open for reading: fds[0] */
    PLAN_SIGN,      /* a checkpoint of the audit: reply.checkpoint; seq 0: the newest there is.
                       Of purpose CHECKPOINT_ROTATE: and another key from here on */
    PLAN_UPGRADE,   /* a control plane of the installed mas-sandboxd in place of this one. 0 once
                       that program says that it fits, with its version: reply.message. The signal
                       to leave (SIGUSR2) follows */
    PLAN_INTERCEPT, /* starts the interceptor of a sandbox that is to be made, or is there: fds[0]
                       of the reply takes connections (proto/intercept.h). With the plan comes a
                       sealed memory file of struct intercept_pairs */
    PLAN_NETWORK,   /* other ranges for a sandbox that has a network by address, all at once */
    PLAN_SAVE,      /* keeps a virtual machine as it is now, which goes on, in files that are called
                       plan.snapshot; reply.disk_used_bytes is their size */
    PLAN_LOAD,      /* brings these files into memory; to be done before a PLAN_CREATE or a
                       PLAN_RETURN with their name, and soon before */
    PLAN_RETURN,    /* a machine goes back to what they have; the reply is that to PLAN_CONNECT */
    PLAN_DROP,      /* removes them; unknown name: 0, too */
    _PLAN_OP_MAX,
};

/* The things a sandbox can be limited in or walled from; index of the mechanism tables. */
enum wall {
    WALL_MEMORY,
    WALL_CPU,
    WALL_PROCESSES,
    WALL_DISK,
    WALL_IO,
    WALL_FILESYSTEM,
    WALL_NETWORK,
    WALL_SYSCALLS,
    WALL_USERS,
    WALL_LANDLOCK,
    _WALL_MAX,
};

/* What enforces a wall. Names for the `effective` report are in plan.c. */
enum mechanism {
    MECHANISM_NONE,
    MECHANISM_CGROUP_V1,
    MECHANISM_CGROUP_V2,
    MECHANISM_RLIMIT,
    MECHANISM_TMPFS, /* charged to memory */
    MECHANISM_LOOP,  /* ext4 image on a loop device */
    MECHANISM_NAMESPACE,
    MECHANISM_SECCOMP,
    MECHANISM_LANDLOCK,
    MECHANISM_UID_RANGE,  /* runner and tool on uids of their own, no host uid mapped */
    MECHANISM_UID_SHARED, /* runner and tool share the caller's uid: uid_separation false */
    MECHANISM_SENTRY,     /* a kernel of the sandbox's own, in user space */
    MECHANISM_UID_ENGINE, /* as UID_RANGE, in a range that all containers of an engine share */
    MECHANISM_UID_HOST,   /* no user namespace: the tool on a uid of the range, the runner on 0 */
    MECHANISM_VM,         /* a machine of the sandbox's own, with a kernel of its own */
    MECHANISM_NFTABLES,   /* a network by address, through mas-net */
    MECHANISM_CLAIM,      /* volumes of a cluster, each no larger than was ordered */
    MECHANISM_NETWORK_POLICY, /* a cluster's, tried from inside */
    _MECHANISM_MAX,
};

/* Where the proxy is in a sandbox that has a network by name: 127.0.0.1 and this port. */
#define PLAN_PROXY_PORT "3128"
/* What a node there loads, so that its fetch() uses the proxy. */
#define PLAN_NODE_PROXY "/.mas/node-proxy.js"
/* What ssh there starts to reach a host (toolrunner/through-proxy.h). */
#define PLAN_SSH_PROXY "/.mas/mas-toolrunner --through-proxy %h %p"
/* With PLAN_AUTHORITY: the certificate authorities that programs there trust, and where they are
 * beside the image's own places where there is one. */
#define PLAN_AUTHORITIES       "/etc/ssl/certs/ca-certificates.crt"
#define PLAN_IMAGE_AUTHORITIES "/etc/mas-authorities.crt"

enum plan_flags {
    PLAN_TOOL_NET = 1,    /* /.mas/gateway.sock and mas-tool-net exist in this sandbox */
    PLAN_TOOL_NOBODY = 2, /* the tool is 65534 instead of 1000 */
    PLAN_PROCESS = 4,     /* no walls at all; refused unless the operator enabled it */
    PLAN_LANDLOCK = 8,    /* no namespaces: behind Landlock; of PLAN_PROBE too */
    PLAN_PROXY = 16,      /* the runner listens for the gateway's proxy on the sandbox's loopback */
    PLAN_AUTHORITY = 32,  /* its programs trust the certificates of its interceptor */
    PLAN_VM = 64,         /* a virtual machine; of PLAN_PROBE too */
    PLAN_ADDRESSES = 128, /* a way out by address, to the plan's ranges */
    _PLAN_FLAGS_END = 256, /* the bit after the last */
};

/* Who builds the sandbox: the warden itself, an OCI runtime that it starts, or a container engine
 * that a broker of the warden's asks. */
enum oci_backend {
    OCI_NONE,
    OCI_CRUN,
    OCI_RUNC,
    OCI_RUNSC, /* gVisor */
    OCI_KATA,
    OCI_PODMAN,
    OCI_DOCKER,
    _OCI_BACKEND_MAX,
};

static inline bool oci_backend_is_engine(uint32_t b)
{
    return b == OCI_PODMAN || b == OCI_DOCKER;
}

struct plan_mount {
    int32_t allow_index; /* into the warden's list of allowed host directories */
    uint32_t read_only;
    char subpath[PLAN_PATH_SIZE]; /* below it, "" for itself; resolved without symlinks */
    char target[PLAN_PATH_SIZE];  /* absolute path inside */
};

/* Of PLAN_SIGN. A sequence number is signed once, and after it only greater ones. */
struct plan_sign {
    uint32_t purpose; /* enum checkpoint_purpose */
    uint32_t reserved;
    uint64_t seq;
    uint8_t head[CHECKPOINT_HASH_SIZE];
};

/* weaker[w] != 0: the caller accepts that wall w is not enforced (operator default, or
 * accept_weaker). Otherwise a limit that cannot be enforced fails the create with the wall named.
 */
struct plan {
    uint32_t version;
    uint32_t op;
    uint64_t tag; /* chosen by the control plane, not 0 */
    char id[PLAN_ID_SIZE];
    uint32_t flags;
    uint32_t n_mounts;
    uint32_t backend; /* enum oci_backend */
    uint32_t inner; /* enum oci_backend: the runtime that an engine is to use; 0: its own choice */
    struct limits limits;
    uint8_t weaker[16];
    char hostname[64];
    char workdir[PLAN_PATH_SIZE];      /* inside; "" is /workspace */
    char image[PLAN_IMAGE_SIZE];       /* digest of a stored image; "" is the host's view */
    char snapshot[PLAN_SNAPSHOT_SIZE]; /* what a machine is a copy of; "": it is new */
    struct plan_mount mounts[PLAN_MOUNTS_MAX];
    struct plan_sign sign;
    uint32_t n_ranges; /* with PLAN_ADDRESSES, and of PLAN_NETWORK */
    uint32_t reserved;
    struct net_range ranges[NET_RANGES_MAX];
};

enum plan_event {
    EVENT_NONE,
    EVENT_EXITED = 1,
    EVENT_ALIVE,
    EVENT_PROBED, /* a container engine came, went or changed, or an OCI runtime's version is
                     known now: as the reply to PLAN_PROBE */
};

enum host_features {
    FEATURE_USERNS = 1,
    FEATURE_SUBUIDS = 2,
    FEATURE_ROOT = 4,
    FEATURE_LOOP = 8,
    FEATURE_FREEZER = 16,
    FEATURE_VM = 32,               /* there are an emulator and what a machine starts from */
    FEATURE_RESTORED = 64,         /* of a sandbox: its machine is a copy of one that had booted */
    FEATURE_SAVES = 128,           /* machines can be kept by PLAN_SAVE */
    FEATURE_FIRECRACKER = 1 << 30, /* of a sandbox: that runs its machine, and not QEMU */
};
#define FEATURE_OCI(backend) (256u << (backend)) /* its program is there, and we may use it */

struct plan_reply {
    uint32_t version;
    uint32_t event; /* EVENT_NONE for the reply to a plan */
    uint64_t tag;
    char id[PLAN_ID_SIZE];
    int32_t error;     /* 0 or an errno */
    int32_t wall;      /* the wall that could not be built, or -1 */
    char message[256]; /* with error: which step failed */
    int32_t pid;       /* PID 1 of the sandbox as the warden sees it */
    uint32_t backend;  /* of PLAN_PROBE and EVENT_PROBED */
    uint32_t frozen;   /* it stands still: it was frozen, and not let go on since */
    int32_t wait_status;
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, processes, oom_kills, disk_used_bytes;
    uint32_t features;
    uint32_t landlock_abi;
    uint8_t mechanism[16];        /* per wall, enum mechanism */
    char box[PLAN_PATH_SIZE];     /* without namespaces: its own directory on the host; else "" */
    struct checkpoint checkpoint; /* of PLAN_SIGN */
    uint8_t audit_key[CHECKPOINT_KEY_SIZE]; /* public, with it */
};

/* "memory", "cpu", ... as the API spells them. */
const char *wall_name(enum wall w);
/* "cgroup v1", ... ; NULL for MECHANISM_NONE. */
const char *mechanism_name(enum mechanism m);
/* "crun", "runc", "runsc", "kata", "podman", "docker"; NULL for OCI_NONE. */
const char *oci_backend_name(enum oci_backend b);
/* 0, or -EINVAL with a text in why (size bytes): strings terminated, ids well-formed, counts in
 * range. */
int plan_check(const struct plan *p, char *why, unsigned size);
