/* SPDX-License-Identifier: Apache-2.0 */
/* See oci.h. */
#include <stdio.h>
#include <unistd.h>

#include "warden/control.h"
#include "warden/oci/oci.h"
#include "warden/state.h"

static void on_report(struct program_task *t, const void *answer)
{
    struct oci_program *p = container_of(t, struct oci_program, task);
    const struct oci_report *report = answer;
    struct plan_reply event;
    p->error = (int)report->error;
    snprintf(p->text, sizeof(p->text), "%.*s", (int)sizeof(report->text), report->text);
    if (report->platform_known)
        oci_host(t->warden)->platform_known = true;
    warden_probe(t->warden, CELL_OCI, p->backend, &event);
    event.event = EVENT_PROBED;
    control_send(t->warden, &event, -1);
}

static void on_asked(struct program_task *t, int wait_status)
{
    (void)t;
    (void)wait_status;
}

void oci_program_init(struct oci_program *p, struct warden *w, enum oci_backend b)
{
    *p = (struct oci_program){.backend = b,
                              .task = {.warden = w,
                                       .answer_size = sizeof(struct oci_report),
                                       .on_answer = on_report,
                                       .on_end = on_asked,
                                       .channel_fd = -1}};
}

static void exec_question(const struct warden *w, int channel_fd)
{
    const struct program_ends ends = {
        .stream = -1, .channel = channel_fd, .failure = -1, .view = -1};
    if (program_arrange(&ends, oci_host(w)->program_fd) == 0)
        program_exec("mas-oci");
}

static void on_version_timer(void *data)
{
    struct warden *w = data;
    struct oci_host *h = oci_host(w);
    struct oci_start start;
    h->version_timer = NULL;
    oci_start_init(w, OCI_ASK, &start);
    for (int b = OCI_NONE + 1; b < _OCI_BACKEND_MAX; b++) {
        start.backend = (uint32_t)b;
        if (h->programs[b].path[0])
            program_task_start(&h->programs[b].task, exec_question, &start, sizeof(start),
                               h->run_fd);
    }
}

/* Not before the loop turns: the start does not wait for it. */
void oci_versions_plan(struct warden *w)
{
    oci_host(w)->version_timer = warden_watch_timer(w, 0, on_version_timer, w);
}
