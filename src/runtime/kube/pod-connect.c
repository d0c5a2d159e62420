/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the runner of a pod: the first ones, by which its walls are looked at, and all
 * that come after them (runtime/kube/instance.h). */
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/weak.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/instance.h"
#include "runtime/kube/walls.h"

#define FIRST_BYTE_MS                                                                              \
    10000                 /* a kubelet that stands still opens connections and carries nothing     \
                           */
#define PROOF_TRIES   100 /* so often it is looked whether policies are proven to be enforced */
#define WITNESS_TRIES 20  /* and so often a pod looks anew while its policy does not hold yet */

struct pod_network pod_network_of(const struct cluster *c, bool adopted)
{
    return (struct pod_network){.proof = cluster_proven(c),
                                .unproven = cluster_options(c)->unproven_network,
                                .adopted = adopted};
}

/* One with callers is kept where its wall cannot be tried any more. One that was made ahead has
 * none yet, and is held to what a create is. */
static bool has_callers(const struct runtime_instance *in)
{
    return in->adopted && !in->ahead;
}

/* A pod whose network wall has to hold is looked at when it is known whether any does. */
static bool waits_for_proof(struct runtime_instance *in)
{
    struct pod_network n = pod_network_of(in->cluster, has_callers(in));
    return !in->looked && n.proof->state == PROOF_PENDING &&
           pod_needs_network_wall(&in->spec, &n) && in->proof_tries++ < PROOF_TRIES;
}

/* A cluster may be late with its enforcement, which harms nothing as long as no command has run. */
static bool wall_may_come(struct runtime_instance *in, const struct walls *walls,
                          const struct pod_network *n)
{
    return walls->witness == WITNESS_REACHED && !has_callers(in) &&
           pod_needs_network_wall(&in->spec, n) && in->witness_tries++ < WITNESS_TRIES;
}

static void on_runner_walls(void *data, const struct walls *walls, const char *why)
{
    struct runtime_instance *in = data;
    struct error err = {0};
    in->question = NULL;
    in->step = POD_CONNECTING;
    if (!walls) {
        log_info("the walls of a pod could not be checked yet id=%s: %s", in->id, why);
        pod_wait_then(in, pod_note_problem(in, why), pod_connect);
        return;
    }
    struct pod_network n = pod_network_of(in->cluster, has_callers(in));
    if (wall_may_come(in, walls, &n)) {
        pod_wait_then(in, POD_TRY_AGAIN_MS, pod_connect);
        return;
    }
    if (pod_walls_fill(&in->spec, walls, &n, in->ops->name, &in->effective, &err) < 0) {
        pod_fail_start(in, err.code, err.message);
        return;
    }
    cluster_note_cgroup(in->cluster, walls->cgroup);
    in->looked = true;
    pod_connect(in);
}

static void use_connection(struct runtime_instance *in, int fd)
{
    const struct cluster_options *o = cluster_options(in->cluster);
    if (in->step == POD_RUNNING) {
        in->events->on_reconnected(in->data, fd);
        return;
    }
    if (!in->looked) {
        in->step = POD_LOOKING;
        in->question = walls_ask(o->loop, fd, in->generation, cluster_proven(in->cluster)->witness,
                                 on_runner_walls, in);
        return;
    }
    loop_timer_stop(&in->late);
    cluster_note_waiting(in->cluster, in->id, NULL);
    in->overdue = false;
    in->step = POD_RUNNING;
    in->started = true;
    if (in->ahead || in->adopted) /* what changed before its control plane died may not be there */
        pod_note(in);
    in->events->on_started(in->data, fd, &in->effective, NULL);
}

/* A carrier is open before what it leads to is: with a dead link, it ends at once. A runner speaks
 * first, so a connection is one as soon as there is a byte to read. */
static void on_first_byte(uv_poll_t *p, int status, int events)
{
    struct runtime_instance *in = p->data;
    char byte;
    (void)status;
    (void)events;
    if (recv(in->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        int fd = pod_take_waiting(in);
        in->asked = false;
        loop_timer_stop(&in->timer);
        use_connection(in, fd);
        return;
    }
    pod_stop_waiting(in);
    in->asked = false;
    pod_wait_then(in, POD_TRY_AGAIN_MS, pod_connect);
}

static void on_byte_late(void *data)
{
    struct runtime_instance *in = data;
    pod_stop_waiting(in);
    in->asked = false;
    pod_connect(in);
}

static void on_pod_connected(void *data, const struct kube_reply *reply, int fd)
{
    struct runtime_instance *in = weak_unref(data);
    if (!in || reply->error || fd < 0) {
        fd_close(&fd);
        if (!in)
            return;
        in->asked = false;
        log_debug("a runner is not reached id=%s: %s", in->id, reply->message);
        pod_wait_then(in, pod_note_problem(in, reply->message), pod_connect);
        return;
    }
    if (in->closing) { /* the handle of the one before is not gone yet */
        fd_close(&fd);
        in->asked = false;
        pod_wait_then(in, POD_TRY_AGAIN_MS, pod_connect);
        return;
    }
    cluster_note_carrier(in->cluster, reply->reason);
    in->fd = fd;
    in->poll.data = in;
    fd_set_nonblock(fd, true);
    if (uv_poll_init(cluster_options(in->cluster)->loop, &in->poll, fd) < 0)
        abort(); /* it is a socket */
    uv_poll_start(&in->poll, UV_READABLE | UV_DISCONNECT, on_first_byte);
    pod_wait_then(in, FIRST_BYTE_MS, on_byte_late);
}

void pod_connect(void *data)
{
    struct runtime_instance *in = data;
    if (in->asked || (in->step != POD_CONNECTING && in->step != POD_RUNNING))
        return;
    if (waits_for_proof(in)) {
        pod_wait_then(in, POD_TRY_AGAIN_MS, pod_connect);
        return;
    }
    in->asked = true;
    loop_timer_stop(&in->timer);
    pod_ask(in, KUBE_CONNECT, on_pod_connected);
}
