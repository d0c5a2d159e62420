/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/proof.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"
#include "runtime/kube/cluster.h"

#define FAILED_AGAIN_MS 60000
#define ENDED_AGAIN_MS  1000
#define END_MS          15000
#define ID_PREFIX       "wall-"

struct proof {
    struct cluster *cluster;
    struct proof_report report;
    char id[KUBE_ID_SIZE]; /* of the witness; "": there is none */
    struct loop_timer timer;
    bool under_way;
    bool ending; /* its pods are being deleted */
    bool ended;  /* and are gone, or were waited for long enough */
    unsigned n_deletes;
    void (*on_end)(void *data);
    void *end_data;
    void (*on_closed)(void *data);
    void *closed_data;
};

static void make_proof(void *data);

bool proof_is_pod(const char *id)
{
    return strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0;
}

static void caller_id(const struct proof *p, char out[KUBE_ID_SIZE])
{
    snprintf(out, KUBE_ID_SIZE, "%.*s" KUBE_CALLER_SUFFIX,
             KUBE_ID_SIZE - (int)sizeof(KUBE_CALLER_SUFFIX), p->id);
}

static void on_dropped(void *data, const struct kube_reply *reply, int fd)
{
    struct proof *p = data;
    fd_close(&fd);
    if (reply->error)
        log_warn("a pod of the proof is not deleted id=%s: %s", reply->id, reply->message);
    cluster_let_go(p->cluster, reply->id, p);
}

/* Held until it is gone: it is no stranger. */
static void drop_pod(struct proof *p, const char *id)
{
    cluster_ask(p->cluster, KUBE_DELETE, id, on_dropped, p);
}

static void drop_caller(struct proof *p)
{
    char id[KUBE_ID_SIZE];
    caller_id(p, id);
    drop_pod(p, id);
}

static void proof_again(struct proof *p, uint64_t ms)
{
    if (p->id[0])
        drop_pod(p, p->id);
    p->id[0] = 0;
    if (!p->ending)
        loop_timer_start(&p->timer, ms);
}

/* The pods of a proof that is under way are the broker's to look at. */
static void on_probe_told(void *data, const struct kube_reply *told)
{
    struct proof *p = data;
    bool lives = told->phase == KUBE_POD_PENDING || told->phase == KUBE_POD_RUNNING;
    if (p->under_way || p->ending || lives || strcmp(told->id, p->id) != 0)
        return;
    log_warn("the witness of the cluster's network policies has ended; there will be another id=%s",
             p->id);
    p->report = (struct proof_report){.state = PROOF_PENDING};
    proof_again(p, ENDED_AGAIN_MS);
}

static void on_proved(void *data, const struct kube_reply *reply, int fd)
{
    struct proof *p = data;
    fd_close(&fd);
    p->under_way = false;
    if (p->ending)
        return;
    drop_caller(p);
    p->report = (struct proof_report){.state = reply->error ? PROOF_FAILED : PROOF_GIVEN};
    if (reply->error) {
        snprintf(p->report.why, sizeof(p->report.why), "%.255s", reply->message);
        log_warn("that network policies are enforced is not proven: %s", reply->message);
        proof_again(p, FAILED_AGAIN_MS);
        return;
    }
    snprintf(p->report.witness, sizeof(p->report.witness), "%.47s", reply->message);
    log_info("the cluster enforces network policies witness=%s", p->report.witness);
}

static void make_proof(void *data)
{
    struct proof *p = data;
    char caller[KUBE_ID_SIZE];
    if (p->under_way || p->ending || p->report.state == PROOF_GIVEN)
        return;
    loop_timer_stop(&p->timer);
    p->under_way = true;
    snprintf(p->id, sizeof(p->id), ID_PREFIX "%08x%08x", random_below(UINT32_MAX),
             random_below(UINT32_MAX));
    caller_id(p, caller);
    cluster_hold(p->cluster, p->id, on_probe_told, p);
    cluster_hold(p->cluster, caller, on_probe_told, p);
    struct kube_order order = {.op = KUBE_PROVE};
    snprintf(order.id, sizeof(order.id), "%s", p->id);
    snprintf(order.home, sizeof(order.home), "%s", cluster_options(p->cluster)->home);
    cluster_send(p->cluster, &order, on_proved, p);
}

void proof_begin(struct proof *p)
{
    make_proof(p);
}

const struct proof_report *proof_report(const struct proof *p)
{
    return &p->report;
}

/* --- its end */

static void end_told(void *data)
{
    struct proof *p = data;
    if (p->ended && !p->on_end)
        return;
    loop_timer_stop(&p->timer);
    p->ended = true;
    if (p->on_end)
        p->on_end(p->end_data);
    p->on_end = NULL;
}

static void on_last_dropped(void *data, const struct kube_reply *reply, int fd)
{
    struct proof *p = data;
    on_dropped(p, reply, fd);
    if (--p->n_deletes == 0)
        end_told(p);
}

static void delete_pod(struct proof *p, const char *id)
{
    p->n_deletes++;
    cluster_ask(p->cluster, KUBE_DELETE, id, on_last_dropped, p);
}

void proof_end(struct proof *p, void (*cb)(void *data), void *data)
{
    p->on_end = cb;
    p->end_data = data;
    if (p->ended || (!p->ending && !p->id[0])) {
        p->ending = true;
        end_told(p);
        return;
    }
    if (p->ending)
        return;
    p->ending = true;
    p->timer.cb = end_told;
    loop_timer_start(&p->timer, END_MS);
    delete_pod(p, p->id);
    if (!p->under_way)
        return;
    char caller[KUBE_ID_SIZE];
    caller_id(p, caller);
    delete_pod(p, caller);
}

struct proof *proof_new(struct cluster *c)
{
    struct proof *p = new0(struct proof);
    p->cluster = c;
    loop_timer_init(&p->timer, cluster_options(c)->loop, make_proof, p);
    return p;
}

static void on_timer_closed(void *data)
{
    struct proof *p = data;
    p->on_closed(p->closed_data);
    free(p);
}

void proof_close(struct proof *p, void (*on_closed)(void *data), void *data)
{
    if (!p)
        return;
    p->on_closed = on_closed;
    p->closed_data = data;
    loop_timer_close(&p->timer, on_timer_closed, p);
}
