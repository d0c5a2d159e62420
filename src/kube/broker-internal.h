/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the broker share. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "kube/broker.h"
#include "kube/client.h"
#include "kube/manifest.h"
#include "kube/status.h"
#include "loop/loop.h"
#include "proto/kube.h"
#include "proto/witness.h"

#define BROKER_TASKS_MAX    256
#define BROKER_CARRIERS_MAX 1024 /* a socket, a TLS session and up to two buffers each */

struct kube_broker {
    struct kube_broker_options o;
    uv_poll_t poll;
    bool ending; /* nothing is read or sent any more */
    bool freed;  /* its memory goes with the last handle */
    size_t n_open;
    struct list tasks, carriers, queue; /* queue: replies that wait for room */
    size_t n_tasks, n_queued, n_carriers;
    struct kube_watch *watch;
    struct map *pods;         /* struct known_pod by id */
    struct map *routes;       /* struct route by id; NULL: none is known (kube/route.h) */
    struct kube_lease *lease; /* NULL: no home is asked for (KUBE_HOLD) */
    struct kube_sweep *sweep; /* NULL: sandboxes have namespaces of their own */
    bool synced;
    uint32_t epoch; /* proto/kube.h */
};

/* One order on its way. The memory is freed by task_finish() and by the broker's end. */
struct broker_task {
    struct list node;
    struct kube_broker *broker;
    struct kube_order order;
    struct kube_call *call;
    struct loop_timer timer;
    int64_t deadline_ms;
    /* of a create */
    int object;   /* enum kube_object */
    bool looking; /* its object was looked for, not posted */
    bool made;    /* the namespace is of this task, and goes with a failure */
    char space_uid[KUBE_NAME_SIZE], pod_uid[KUBE_NAME_SIZE];
    unsigned tries;
    struct error failure; /* why it is being undone */
    uint32_t retry_after_s;
    /* of what is written to an object, and read of it */
    uint64_t generation;
    char space_version[KUBE_NAME_SIZE]; /* the resourceVersion of the namespace */
    bool fenced;   /* the pod may be written to or deleted, and so may its namespace */
    int answer_fd; /* goes with the answer; -1: none */
    /* of a proof, which makes other objects than a create and goes on with them (broker-prove.c) */
    json_t *(*manifest)(const struct broker_task *t); /* of t->object; NULL: a sandbox's */
    void (*on_made)(struct broker_task *t);           /* in place of the answer; NULL */
    bool fencing;                                     /* the policy is being posted, or is there */
    char address[WITNESS_ADDRESS_SIZE];
    /* of an answer that was forbidden, and of a probe */
    unsigned question;
    struct kube_result forbidden;
    char version[KUBE_NAME_SIZE], missing[KUBE_MESSAGE_SIZE], crds[KUBE_MESSAGE_SIZE],
        classes[KUBE_MESSAGE_SIZE];
};

/* Answers the order and frees the task. */
void task_finish(struct broker_task *t, const struct error *err);
/* The same with what a call came to, in the words of a caller. */
void task_fail(struct broker_task *t, const struct kube_result *why, const char *what);
enum error_code broker_error_code(enum kube_outcome outcome);
/* Sends a request; its answer goes to on_done. One at a time per task. body is borrowed. */
void task_call(struct broker_task *t, const char *method, const char *path, const json_t *body,
               void (*on_done)(void *data, const struct kube_answer *answer));
/* The same about one object of the order's sandbox. */
void task_call_object(struct broker_task *t, const char *method, enum kube_object object,
                      const json_t *body,
                      void (*on_done)(void *data, const struct kube_answer *answer));
/* Calls go_on after a while: as long as the server asked for, and a growing pause besides. */
void task_wait(struct broker_task *t, uint32_t retry_after_s, void (*go_on)(void *data));
bool task_is_late(const struct broker_task *t);
/* Where waiting may mend what a call came to, and there is time: the same as task_wait(). */
bool task_repeats(struct broker_task *t, const struct kube_result *r, void (*go_on)(void *data));
/* Without an answer. */
void task_free(struct broker_task *t);
/* Answers an order that is not begun. */
void broker_answer_error(struct kube_broker *b, const struct kube_order *o,
                         const struct error *err);
/* -errno where the control plane does not read. Takes fd (-1: none). */
void broker_send(struct kube_broker *b, const struct kube_reply *reply, int fd);

/* Its memory goes with the last of b->n_open. */
void broker_unref(struct kube_broker *b);
/* KUBE_HOLD (broker-hold.c). */
void hold_start(struct kube_broker *b, const struct kube_order *o);
/* Is this an order that writes for a home which is not held? err says whose it is. */
bool hold_refuses(const struct kube_broker *b, const struct kube_order *o, struct error *err);

/* Policies that no pod has (broker-sweep.c), and whether this one is about to be deleted. A home
 * that is lost ends what is under way. */
void sweep_start(struct kube_broker *b);
void sweep_give_up(struct kube_broker *b);
void sweep_end(struct kube_broker *b);
bool sweep_is_at(const struct kube_broker *b, const char *policy);
/* Has a pod that is known the policy of this sum? */
bool broker_knows_net(const struct kube_broker *b, const char *sum);

void task_start_create(struct broker_task *t);
void task_start_delete(struct broker_task *t);
void task_start_probe(struct broker_task *t);
void task_start_annotate(struct broker_task *t);
void task_start_prove(struct broker_task *t);
void task_start_claim(struct broker_task *t);
/* Ends the proof whose witness or caller has this id, because the pod is to be deleted. */
void tasks_give_up_proof(struct kube_broker *b, const char *id);
/* What the watch has said of the pod of this id; NULL: nothing. */
const struct kube_reply *broker_find_pod(const struct kube_broker *b, const char *id);
/* The resourceVersion in which the watch has last seen the pod of this id, made ahead and without a
 * caller; NULL: it has not. */
const char *broker_find_open(const struct kube_broker *b, const char *id);
/* Whether a pod says that it was made ahead and has no caller (claim.c). */
bool kube_claim_is_open(const json_t *pod);
/* Whether the namespace of the pod of this id was found to be ours, and that it was. */
bool broker_trusts_pod(const struct kube_broker *b, const char *id);
void broker_trust_pod(struct kube_broker *b, const char *id);
/* Has a pod that is known any of these user ids? */
struct kube_uids;
bool broker_knows_uids(const struct kube_broker *b, const struct kube_uids *uids);
/* Finds out which of its meanings a 403 to a create has, and fails it with that; or, where waiting
 * helps, tries again. */
void task_explain_forbidden(struct broker_task *t, const struct kube_result *why);
/* A create ends with t->failure, once what it made is gone; or looks again after a pause. */
void task_undo_create(struct broker_task *t);
void task_retry_create(struct broker_task *t);
/* A stream to the link of a sandbox; answers by itself. */
void carrier_start(struct kube_broker *b, const struct kube_order *order);
void carriers_end(struct kube_broker *b);
