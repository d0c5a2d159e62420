/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an engine now and then who it is: one broker per question, so that an engine that hangs
 * holds up nothing else. Every question to the warden gets the newest answer; a control plane hears
 * of a change by itself.
 */
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "warden/control.h"
#include "warden/engine/internal.h"

#define AGAIN_MS        20000
#define AGAIN_ABSENT_MS 2000
#define FIRST_REPORT_MS 5000 /* what a control plane's start waits for an engine at most */

void engine_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    const struct engine_probe *p = &engines_of(w)->probe[b];
    memset(ret->mechanism, 0, sizeof(ret->mechanism));
    ret->backend = b;
    ret->features &= ~(uint32_t)(FEATURE_FREEZER | FEATURE_OCI(b));
    for (uint32_t i = OCI_NONE + 1; i < OCI_PODMAN; i++)
        ret->features &= ~FEATURE_OCI(i);
    if (!p->enabled) {
        snprintf(ret->message, sizeof(ret->message), "is not in 'engines'");
        return;
    }
    if (!p->probed) {
        snprintf(ret->message, sizeof(ret->message), "has not answered yet");
        return;
    }
    snprintf(ret->message, sizeof(ret->message), "%s", p->report.text);
    if (p->report.error)
        return;
    memcpy(ret->mechanism, p->report.mechanism, sizeof(ret->mechanism));
    ret->mechanism[WALL_DISK] = w->disks.usable ? MECHANISM_LOOP : MECHANISM_TMPFS;
    ret->features |= p->report.features | FEATURE_OCI(b);
}

static void answer_waiting(struct engine_probe *p)
{
    struct plan_reply reply;
    uint64_t tag = p->waiting_tag;
    if (!tag)
        return;
    p->waiting_tag = 0;
    watch_remove(p->waiting);
    p->waiting = NULL;
    warden_probe(p->task.warden, CELL_ENGINE, p->backend, &reply);
    reply.tag = tag;
    control_send(p->task.warden, &reply, -1);
}

static void on_waited(void *data)
{
    struct engine_probe *p = data;
    p->waiting = NULL;
    answer_waiting(p);
}

bool engine_probe_later(struct warden *w, enum oci_backend b, uint64_t tag)
{
    struct engine_probe *p = &engines_of(w)->probe[b];
    if (!p->enabled || p->probed || p->waiting_tag)
        return false;
    p->waiting_tag = tag;
    p->waiting = watcher_add_timer(w->watcher, FIRST_REPORT_MS, on_waited, p);
    return true;
}

static void on_again(void *data)
{
    struct engine_probe *p = data;
    p->timer = NULL;
    engine_probe_start(p->task.warden, p->backend);
}

static void on_report(struct program_task *t, const void *answer)
{
    struct engine_probe *p = container_of(t, struct engine_probe, task);
    const struct engine_message *m = answer;
    if (m->kind != ENGINE_REPORT)
        return;
    bool changed = !p->probed || memcmp(&p->report, m, sizeof(*m)) != 0;
    p->report = *m;
    p->report.text[sizeof(p->report.text) - 1] = 0;
    p->probed = true;
    answer_waiting(p);
    if (!changed)
        return;
    log_info("container engine name=%s %s=\"%s\"", oci_backend_name(p->backend),
             m->error ? "unavailable" : "version", p->report.text);
    struct plan_reply event;
    warden_probe(p->task.warden, CELL_ENGINE, p->backend, &event);
    event.event = EVENT_PROBED;
    control_send(p->task.warden, &event, -1);
}

static void ask_again(struct engine_probe *p, int delay_ms)
{
    p->timer = watcher_add_timer(p->task.warden->watcher, delay_ms, on_again, p);
}

static void on_asked(struct program_task *t, int wait_status)
{
    struct engine_probe *p = container_of(t, struct engine_probe, task);
    (void)wait_status;
    ask_again(p, p->probed && !p->report.error ? AGAIN_MS : AGAIN_ABSENT_MS);
}

void engine_probe_init(struct warden *w, enum oci_backend b)
{
    engines_of(w)->probe[b] = (struct engine_probe){
        .backend = b,
        .task = {.warden = w,
                 .answer_size = sizeof(struct engine_message),
                 .on_answer = on_report,
                 .on_end = on_asked,
                 .channel_fd = -1},
    };
}

void engine_probe_start(struct warden *w, enum oci_backend b)
{
    struct engine_probe *p = &engines_of(w)->probe[b];
    struct engine_order order;
    if (p->task.pid)
        return;
    watch_remove(p->timer);
    p->timer = NULL;
    engine_order_init(w, ENGINE_PROBE, b, &order);
    if (program_task_start(&p->task, engine_exec, &order, sizeof(order), -1) < 0) {
        log_warn("cannot start a broker engine=%s", oci_backend_name(b));
        ask_again(p, AGAIN_MS);
    }
}

void engine_probe_stop(struct engine_probe *p)
{
    watch_remove(p->timer);
    watch_remove(p->waiting);
    p->timer = p->waiting = NULL;
    program_task_stop(&p->task);
}
