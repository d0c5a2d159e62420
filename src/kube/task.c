/* SPDX-License-Identifier: Apache-2.0 */
/* One order on its way: its calls, its pauses and its answer (kube/broker-internal.h). */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "kube/query.h"

#define CALL_MS      15000
#define PAUSE_MS     200
#define PAUSE_MAX_MS 5000

enum error_code broker_error_code(enum kube_outcome outcome)
{
    switch (outcome) {
    case KUBE_DONE:
        return ERROR_NONE;
    case KUBE_INVALID:
        return ERROR_INVALID;
    case KUBE_FORBIDDEN:
        return ERROR_FORBIDDEN;
    case KUBE_NOT_FOUND:
        return ERROR_NOT_FOUND;
    case KUBE_NO_API:
        return ERROR_UNSUPPORTED;
    case KUBE_TERMINATING:
    case KUBE_EXISTS:
    case KUBE_CONFLICT:
        return ERROR_CONFLICT;
    case KUBE_TOO_LARGE:
        return ERROR_TOO_LARGE;
    case KUBE_BUSY:
        return ERROR_LIMIT;
    case KUBE_LATE:
        return ERROR_TIMEOUT;
    default:
        return ERROR_UNAVAILABLE;
    }
}

static void on_task_closed(void *data)
{
    struct broker_task *t = data;
    struct kube_broker *b = t->broker;
    free(t);
    broker_unref(b);
}

void task_free(struct broker_task *t)
{
    kube_call_cancel(steal_ptr(t->call));
    fd_close(&t->answer_fd);
    list_remove(&t->node);
    t->broker->n_tasks--;
    loop_timer_close(&t->timer, on_task_closed, t);
}

void task_finish(struct broker_task *t, const struct error *err)
{
    struct kube_reply r = {.kind = KUBE_ANSWERED,
                           .tag = t->order.tag,
                           .generation = t->order.generation,
                           .retry_after_s = t->retry_after_s};
    snprintf(r.id, sizeof(r.id), "%s", t->order.id);
    snprintf(r.uid, sizeof(r.uid), "%s", t->pod_uid);
    if (t->order.op == KUBE_TAKE || (t->order.op == KUBE_DELETE && t->generation))
        r.generation = t->generation;
    if (err && error_is_set(err)) {
        r.error = err->code;
        snprintf(r.message, sizeof(r.message), "%s", err->message);
    } else if (t->order.op == KUBE_PROBE) {
        snprintf(r.message, sizeof(r.message), "%s", t->version);
    } else if (t->order.op == KUBE_PROVE) {
        snprintf(r.message, sizeof(r.message), "%s", t->address);
    } else if (t->order.op == KUBE_READ) {
        snprintf(r.message, sizeof(r.message), "%s", t->order.owner);
    }
    broker_send(t->broker, &r, fd_steal(&t->answer_fd));
    task_free(t);
}

void task_fail(struct broker_task *t, const struct kube_result *why, const char *what)
{
    struct error err = {0};
    t->retry_after_s = why->retry_after_s;
    error_set(&err, broker_error_code(why->outcome), 0, "%s: %s%s%s", what, why->message,
              why->field[0] ? " at " : "", why->field);
    task_finish(t, &err);
}

bool task_is_late(const struct broker_task *t)
{
    return clock_mono_ms() > t->deadline_ms;
}

void task_call(struct broker_task *t, const char *method, const char *path, const json_t *body,
               void (*on_done)(void *data, const struct kube_answer *answer))
{
    t->call = kube_call_json(t->broker->o.client, method, path, body, CALL_MS, on_done, t);
}

void task_call_object(struct broker_task *t, const char *method, enum kube_object object,
                      const json_t *body,
                      void (*on_done)(void *data, const struct kube_answer *answer))
{
    const struct kube_ceiling *c = t->broker->o.ceiling;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    char name[KUBE_PLACE_SIZE];
    kube_manifest_collection(object, c, &t->order, &path);
    strbuf_printf(&path, "/%s", kube_manifest_name(object, c, &t->order, name, sizeof(name)));
    task_call(t, method, path.data, body, on_done);
}

void task_wait(struct broker_task *t, uint32_t retry_after_s, void (*go_on)(void *data))
{
    uint32_t pause = PAUSE_MS << (t->tries < 5 ? t->tries : 5);
    t->tries++;
    pause = pause > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause;
    t->timer.cb = go_on;
    t->timer.data = t;
    /* A server that is busy tells every order the same time, and would refuse them together again
     * if all of them kept to it: so each comes a while of its own later, which grows. */
    loop_timer_start(&t->timer, 1000ull * retry_after_s + pause / 2 + random_below(pause / 2 + 1));
}

bool task_repeats(struct broker_task *t, const struct kube_result *r, void (*go_on)(void *data))
{
    if (!kube_may_pass(r->outcome) || task_is_late(t))
        return false;
    task_wait(t, r->retry_after_s, go_on);
    return true;
}
