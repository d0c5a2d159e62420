/* SPDX-License-Identifier: Apache-2.0 */
/* One pod of the kube runtime, for the files that see it through its life. It goes through these
 * steps, each of which waits for one thing:
 *
 *   POD_MAKING      the broker's answer to the create
 *   POD_STARTING    the cluster's word that the pod runs
 *   POD_FINDING     of an adopted one: the first list of sandboxes
 *   POD_READING     of the same: its pod's own word that it is this sandbox's
 *   POD_TAKING      of the same: its next generation, which is written to its pod before its runner
 *                   hears of it
 *   POD_CLAIMING    of one that has a sandbox and still says that it is the pool's: its claim
 *   POD_CONNECTING  a connection to the runner, which is tried again until the start is late; of an
 *                   adopted one, for as long as its pod is there
 *   POD_LOOKING     the runner's account of its walls; then a connection for good (POD_CONNECTING)
 *   POD_RUNNING     its end: the sandbox has the connection, and asks for others
 *   POD_DELETING    the broker's word that the namespace is gone
 *
 * What the sandbox has to hear, it hears once, and the instance is gone after it: on_started() with
 * an error, or on_exited(). A pod that ended, or never came to run, is deleted; what is left then
 * is the cluster's to remove. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/sha256.h"
#include "loop/loop.h"
#include "proto/kube.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/pod-spec.h"
#include "runtime/kube/pool.h"
#include "runtime/runtime.h"

struct walls_question;
struct weak;

#define POD_FIRST_GENERATION 1
#define POD_TRY_AGAIN_MS     300

enum pod_step {
    POD_MAKING,
    POD_STARTING,
    POD_FINDING,
    POD_READING,
    POD_TAKING,
    POD_CLAIMING,
    POD_CONNECTING,
    POD_LOOKING,
    POD_RUNNING,
    POD_DELETING,
};

struct runtime_instance {
    const struct runtime_ops *ops;
    struct cluster *cluster;
    char id[KUBE_ID_SIZE];
    char uid[KUBE_NAME_SIZE]; /* of its pod; "": not known yet */
    const struct runtime_events *events;
    void *data;
    struct spec spec;
    enum pod_step step;
    bool stopping; /* it is to be deleted as soon as no create is under way */
    bool started;  /* on_started was called */
    bool looked;   /* its walls were found good */
    bool left;     /* nothing is reported any more: the sandbox knows of its end */
    bool asked;    /* a connection is being made */
    bool adopted;
    bool taken;        /* its pod has its generation */
    bool unclaimed;    /* its pod says that it has no caller, and has one by its row */
    bool overdue;      /* an adopted one is not there in time, and is waited for */
    char problem[160]; /* what its start met last; "": nothing */
    unsigned proof_tries, witness_tries;
    struct effective effective;
    struct error failure;   /* why it did not start */
    struct kube_reply told; /* the last of its pod */
    char deleted[120];      /* why its pod was being deleted when that was not our doing; "" */
    struct walls_question *question;
    int fd;                  /* a connection that waits for the runner's first byte; -1 */
    uv_poll_t poll;          /* of it */
    struct loop_timer timer; /* to try again, and for the deletion */
    struct loop_timer late;  /* of the start */
    uint64_t generation;     /* which is sent to its runner */
    struct loop_timer mark;  /* when what it is, and its last command, is written to its objects */
    int64_t marked_ms;       /* when that was done last; 0: never */
    bool marking;
    bool mark_again;                    /* what is being written has changed since */
    bool ahead;                         /* it was made for no caller yet */
    char pool_record[POOL_RECORD_SIZE]; /* that it has then; "" */
    void (*on_claimed)(void *data, const struct error *err); /* NULL: it is not being claimed */
    void *claim_data;
    struct kube_order *claim;     /* waits until no mark is under way; NULL: none does */
    enum kube_state state;        /* that its objects say; KUBE_STATE_SAME: not known */
    uint8_t written[SHA256_SIZE]; /* sum of what its pod says it is; zeros: not known */
    unsigned n_open;
    bool closing;
    struct weak *weak;
};

/* instance.c */
struct runtime_instance *instance_new(const struct runtime_ops *ops, struct runtime_host *host,
                                      const char *id, const struct spec *spec,
                                      const struct runtime_events *events, void *data);
void instance_free(struct runtime_instance *in);
/* An order about its pod, which goes on without the sandbox: the callback gets a struct weak of it.
 */
void pod_send(struct runtime_instance *in, const struct kube_order *order, cluster_reply_fn cb);
void pod_ask(struct runtime_instance *in, enum kube_op op, cluster_reply_fn cb);
void pod_wait_then(struct runtime_instance *in, uint64_t ms, void (*go_on)(void *data));
/* The connection that waits for the runner's first byte, which waits no more; -1: none did. The
 * poll handle exists while one does. */
int pod_take_waiting(struct runtime_instance *in);
void pod_stop_waiting(struct runtime_instance *in); /* and closes it */

/* pod-end.c */
/* The sandbox hears of the end once. Deleting goes on without it, where that was not asked for. */
void pod_tell_end(struct runtime_instance *in, const struct runtime_end *end);
/* Legal in every step but POD_MAKING, whose answer comes here by itself. */
void pod_begin_delete(struct runtime_instance *in);
/* It cannot start. The sandbox hears of it at once; what was made is deleted behind its back. */
void pod_fail_start(struct runtime_instance *in, enum error_code code, const char *why);
void pod_format_reason(const struct kube_reply *r, const char *what, char *out, size_t size);
/* What stands in the way of a start, and how long it takes until that is tried again. */
uint64_t pod_note_problem(struct runtime_instance *in, const char *why);
bool pod_waits_ahead(struct runtime_instance *in);
void pod_on_late(void *data);

/* pod-connect.c */
void pod_connect(void *data);
struct pod_network pod_network_of(const struct cluster *c, bool adopted);

/* pod-record.c */
bool pod_is_ahead(const struct runtime_events *events, void *data);
/* What describe() says, to the order. pool_record: of one that was made ahead. */
int pod_record_fill(struct kube_order *o, const struct runtime_events *events, void *data,
                    const char *pool_record, struct error *err);
void pod_record_sum(const struct kube_order *o, uint8_t out[SHA256_SIZE]);
/* struct runtime_ops.note: the record is written some time later. */
void pod_note(struct runtime_instance *in);
void pod_mark(void *data);

/* pod-claim.c */
int pod_claim(struct runtime_instance *in, void (*cb)(void *data, const struct error *err),
              void *data, struct error *err);
/* What another one has is left to it; what ends, or may not be written to, is deleted. The sandbox
 * hears of nothing else any more. */
void pod_lose_claim(struct runtime_instance *in, const struct error *err);
void pod_send_claim(struct runtime_instance *in);
/* The claim of one that is unclaimed; then it is connected to. */
void pod_claim_own(void *data);

/* pod-adopt.c */
void pod_read(void *data);
/* One that another control plane has, or that is another sandbox's, is left as it is: this one must
 * not even delete it. */
void pod_leave(struct runtime_instance *in, const char *why);
/* Its pod is this control plane's: on it goes. */
void pod_go_on(struct runtime_instance *in);

/* pod-told.c */
void pod_on_told(void *data, const struct kube_reply *told);
