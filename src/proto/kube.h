/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane and mas-kube, the broker of a Kubernetes cluster, say to each other, over
 * one SOCK_SEQPACKET socket: fixed records, one per message. The control plane sends struct
 * kube_order, the broker answers each with a struct kube_reply of the same tag, and sends struct
 * kube_reply with KUBE_TOLD and tag 0 for what happens by itself.
 *
 * The socket outlives both processes. A broker that begins says so with KUBE_BEGUN and an epoch of
 * its own, which is in all of its replies: orders to the one before are lost, or still lie in the
 * socket. So an order has the epoch of the broker that it is meant for, one of another epoch is
 * passed over, and the control plane sends all that are not answered again, to the new one. Each
 * order comes to the same when it is carried out twice. An order with epoch 0 is for any broker: a
 * control plane that begins learns the epoch from the answer.
 *
 * Nothing of an order goes to the API server as it is: the broker checks each member against its
 * ceiling and writes the objects itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"

#define KUBE_VERSION       1
#define KUBE_UID           64219
#define KUBE_ID_SIZE       60 /* a sandbox's id without the prefix, with NUL: 63 with "sbx-" */
#define KUBE_IMAGE_SIZE    256
#define KUBE_NAME_SIZE     64 /* of a class, an owner */
#define KUBE_SPEC_SIZE     32768
#define KUBE_TOKEN_SIZE    44 /* of a stream container: 43 letters and digits */
#define KUBE_QUANTITY_MAX  (1ull << 50)
#define KUBE_CALLER_SUFFIX "-c"
#define KUBE_GENERATIONS   (1u << 31) /* the first that is none */
#define KUBE_REASON_OTHER  "other"
#define KUBE_SLOT_ANY      UINT32_MAX /* the broker takes user ids that no other pod has */

/* What names a sandbox of another home than the broker's, or of none, touches nothing. */
enum kube_op {
    KUBE_PROBE = 1, /* is the cluster there, which version, may we do what we must; where the
                       cluster says so, a KUBE_OFFERED for each enum kube_offer, then the answer */
    KUBE_CREATE,    /* all objects of a sandbox; answered when the pod exists */
    KUBE_DELETE,    /* the namespace with all that is in it; answered when it is gone. Where its pod
                       has another uid than the order, the order's is gone already; a conflict
                       where it has a higher generation, which is the answer's */
    KUBE_LIST,      /* a KUBE_LISTED for each sandbox of this instance, then the answer; one that
                       has a namespace and no pod has KUBE_POD_NONE */
    KUBE_CONNECT,   /* answered with one end of a stream to the link of a sandbox; reason is the
                       carrier */
    KUBE_TAKE,      /* its pod gets the next generation, which is the answer's */
    KUBE_MARK,      /* what became of it, written to its objects: state, last_exec_s, and, where
                       spec is not "", owner and spec; refused where the pod has a higher
                       generation */
    KUBE_READ,      /* answered with a stream that has the text of spec, and then ends; the
                       answer's message is the owner */
    KUBE_PROVE, /* does the cluster enforce network policies: shown by two pods, of which the one
                   with this id stays, as the witness, and the other has KUBE_CALLER_SUFFIX. The
                   answer's message is the witness's address */
    KUBE_HOLD,  /* home is to be this control plane's alone: KUBE_HELD says whether it is, and when
                   that changes. Meanwhile nothing is written for it. Without a home, what is held
                   is given back before the answer */
    KUBE_CLAIM, /* its pod, made ahead, becomes its caller's: state, owner and spec, by one write.
                   A conflict where it has a caller or another generation */
    _KUBE_OP_MAX,
};

enum kube_order_flags {
    KUBE_WRITABLE_ROOT = 1 << 0,
    KUBE_POOL_MEMBER = 1 << 1, /* made ahead; no caller has it yet */
    KUBE_OWN_USERS = 1 << 2,   /* hostUsers: false */
    KUBE_PROXY = 1 << 3,       /* the runner listens on PLAN_PROXY_PORT of the pod's loopback */
    KUBE_STREAM = 1 << 4,      /* it has the ceiling's stream container, which shows stream_token */
    _KUBE_FLAGS_END = 1 << 5,
};

/* Of a sandbox that was made ahead; any other is its caller's from the start. */
enum kube_state {
    KUBE_STATE_SAME,
    KUBE_STATE_READY, /* its runner answers, and no caller has it */
    KUBE_STATE_CLAIMED,
    _KUBE_STATE_MAX,
};

enum kube_volume {
    KUBE_VOLUME_MEMORY, /* emptyDir in memory: its size is a wall */
    KUBE_VOLUME_NODE,   /* emptyDir on the node's disk: its size only evicts */
    KUBE_VOLUME_CLAIM,  /* a PersistentVolumeClaim of its own */
    KUBE_VOLUME_HOST,   /* of /cache: the node's directory that the ceiling names */
    _KUBE_VOLUME_MAX,
};

struct kube_volume_order {
    uint32_t volume; /* enum kube_volume */
    uint32_t access; /* enum kube_access_mode */
    uint64_t bytes;
    char storage_class[KUBE_NAME_SIZE]; /* ""; the cluster's own */
};

enum kube_access_mode {
    KUBE_READ_WRITE_ONCE,
    KUBE_READ_WRITE_ONCE_POD,
    KUBE_READ_WRITE_MANY,
    _KUBE_ACCESS_MODE_MAX,
};

/* Every text ends within its member; unused bytes are 0, and so is every member that the operation
 * does not use (src/kube/order.c has the list). */
struct kube_order {
    uint32_t version;
    uint32_t op; /* enum kube_op */
    uint64_t tag;
    uint32_t flags; /* enum kube_order_flags */
    uint32_t cpu_millicores, cpu_request_millicores;
    uint32_t n_ranges; /* networks that it may reach; 0: none */
    uint64_t memory_bytes, memory_request_bytes;
    uint64_t tmp_bytes, home_bytes;
    uint64_t generation;  /* from 1 on; of KUBE_DELETE, 0: any */
    uint32_t slot;        /* which user ids of the range, from 0; or KUBE_SLOT_ANY */
    uint32_t epoch;       /* of the broker that it is for; 0: any */
    uint64_t nonce;       /* of this create: objects of another one are not taken for its own */
    uint32_t processes;   /* that the sandbox may have, by the runner's word; 0: not limited */
    uint32_t state;       /* enum kube_state, of KUBE_MARK */
    uint64_t last_exec_s; /* when its last command started; 0: it had none */
    struct kube_volume_order workspace, cache;
    char id[KUBE_ID_SIZE];
    char image[KUBE_IMAGE_SIZE];
    char runtime_class[KUBE_NAME_SIZE]; /* "": the cluster's own */
    char owner[KUBE_NAME_SIZE];
    char home[KUBE_NAME_SIZE]; /* the control plane that has it: the broker's */
    char spec_hash[KUBE_NAME_SIZE];
    char uid[KUBE_NAME_SIZE];           /* of its pod; "": any */
    char stream_token[KUBE_TOKEN_SIZE]; /* with KUBE_STREAM; "" without */
    char spec[KUBE_SPEC_SIZE]; /* a text that the pod carries for the daemon that adopts it */
    struct net_range ranges[NET_RANGES_MAX];
};

enum kube_reply_kind {
    KUBE_ANSWERED = 1, /* the last one of a tag */
    KUBE_LISTED,       /* one of several */
    KUBE_TOLD,         /* of itself */
    KUBE_BEGUN,        /* a broker has begun; the orders before are to be sent to it again */
    KUBE_OFFERED,      /* of a probe: phase is an enum kube_offer, message its text */
    KUBE_HELD,         /* of KUBE_HOLD: error 0, or why not; the reason is KUBE_REASON_OTHER where
                          another control plane has the home, or has had it */
    _KUBE_REPLY_KIND_MAX,
};

/* What the broker tells the operator with a probe: names, with a comma between them. Only for
 * people: what is allowed is decided by the broker, with each order. */
enum kube_offer {
    KUBE_OFFER_MISSING_RIGHTS,  /* that its orders need; "": it has them all */
    KUBE_OFFER_RUNTIME_CLASSES, /* that the ceiling allows */
    KUBE_OFFER_STORAGE_CLASSES,
    KUBE_OFFER_CRDS,            /* of agent-sandbox that the cluster has; "": none */
    KUBE_OFFER_CARRIER,         /* that is tried first: KUBE_CARRIER_EXEC or KUBE_CARRIER_DIRECT */
    KUBE_OFFER_MISSING_CLASSES, /* RuntimeClasses that are allowed, and that the cluster lacks */
    _KUBE_OFFER_MAX,
};
#define KUBE_CARRIER_EXEC   "exec"
#define KUBE_CARRIER_DIRECT "direct"
#define KUBE_MESSAGE_SIZE   400

struct kube_reply {
    uint32_t version;
    uint32_t kind; /* enum kube_reply_kind */
    uint64_t tag;
    uint32_t error; /* enum error_code (base/error.h); 0: done */
    uint32_t phase; /* enum kube_phase, of KUBE_LISTED and KUBE_TOLD; or see KUBE_OFFERED */
    uint64_t generation;
    uint32_t retry_after_s; /* 0: the cluster did not say */
    uint32_t epoch;         /* of the broker that sends it; never 0 */
    char id[KUBE_ID_SIZE];
    char uid[KUBE_NAME_SIZE]; /* of the pod */
    char reason[KUBE_NAME_SIZE];
    char home[KUBE_NAME_SIZE]; /* of KUBE_LISTED and KUBE_TOLD: the control plane that has it */
    uint64_t last_exec_s;      /* of KUBE_LISTED; 0: not known */
    char message[KUBE_MESSAGE_SIZE];
};

enum kube_phase {
    KUBE_POD_NONE,
    KUBE_POD_PENDING,
    KUBE_POD_RUNNING,
    KUBE_POD_ENDING, /* it is being deleted */
    KUBE_POD_ENDED,
    _KUBE_PHASE_MAX,
};

/* The broker's side, in src/kube/order.c. Whether every member can be what it says; nothing is
 * checked against a ceiling. */
bool kube_order_is_valid(const struct kube_order *o);
/* DNS-1123: lower-case letters, digits and '-', at most max of them. */
bool kube_label_is_valid(const char *text, unsigned max);
