/* Asks an engine now and then who it is: a broker a time, so that one that hangs holds up nobody.
 * Whoever asks the warden gets the newest answer; a control plane hears of a change by itself. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/control.h"
#include "warden/engine/internal.h"

#define AGAIN_MS        20000
#define AGAIN_ABSENT_MS 2000
#define FIRST_REPORT_MS 5000 /* what a control plane's start waits for an engine at most */

void engine_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret)
{
    const struct engine_probe *p = &w->engines.probe[b];
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

static void tell(struct warden *w, enum oci_backend b)
{
    struct plan_reply event;
    warden_probe(w, CELL_ENGINE, b, &event);
    event.event = EVENT_PROBED;
    control_send(w, &event, -1);
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
    warden_probe(p->warden, CELL_ENGINE, p->backend, &reply);
    reply.tag = tag;
    control_send(p->warden, &reply, -1);
}

static void on_waited(void *data)
{
    struct engine_probe *p = data;
    p->waiting = NULL;
    answer_waiting(p);
}

bool engine_probe_later(struct warden *w, enum oci_backend b, uint64_t tag)
{
    struct engine_probe *p = &w->engines.probe[b];
    if (!p->enabled || p->probed || p->waiting_tag)
        return false;
    p->waiting_tag = tag;
    p->waiting = watcher_add_timer(w->watcher, FIRST_REPORT_MS, on_waited, p);
    return true;
}

static void on_timer(void *data)
{
    struct engine_probe *p = data;
    p->timer = NULL;
    engine_probe_start(p->warden, p->backend);
}

static void take_report(struct engine_probe *p, const struct engine_message *m)
{
    bool changed = !p->probed || memcmp(&p->report, m, sizeof(*m)) != 0;
    p->report = *m;
    p->report.text[sizeof(p->report.text) - 1] = 0;
    p->probed = true;
    answer_waiting(p);
    if (!changed)
        return;
    log_info("container engine name=%s %s=\"%s\"", oci_backend_name(p->backend),
             m->error ? "unavailable" : "version", p->report.text);
    tell(p->warden, p->backend);
}

static void on_message(int fd, uint32_t events, void *data)
{
    struct engine_probe *p = data;
    struct engine_message m;
    int fds[FD_PASS_MAX];
    (void)events;
    ssize_t n = fd_recv_msg(fd, &m, sizeof(m), fds);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n == sizeof(m) && m.kind == ENGINE_REPORT)
        take_report(p, &m);
    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        watch_remove(p->channel);
        p->channel = NULL;
    }
}

static void on_broker_exit(pid_t pid, int wait_status, void *data)
{
    struct engine_probe *p = data;
    (void)pid;
    (void)wait_status;
    p->child = NULL;
    p->pid = 0;
    for (int i = 0; i < 2 && p->channel; i++)
        on_message(p->channel_fd, 0, p);
    watch_remove(p->channel);
    p->channel = NULL;
    fd_close(&p->channel_fd);
    bool there = p->probed && !p->report.error;
    p->timer =
        watcher_add_timer(p->warden->watcher, there ? AGAIN_MS : AGAIN_ABSENT_MS, on_timer, p);
}

void engine_probe_start(struct warden *w, enum oci_backend b)
{
    struct engine_probe *p = &w->engines.probe[b];
    struct engine_order order;
    if (p->pid)
        return;
    watch_remove(p->timer);
    p->timer = NULL;
    pid_t pid = engine_spawn(w, &p->channel_fd);
    if (pid > 0)
        p->child = watcher_add_child(w->watcher, pid, -1, on_broker_exit, p);
    if (!p->child) {
        log_warn("cannot start a broker engine=%s", oci_backend_name(b));
        fd_close(&p->channel_fd);
        p->timer = watcher_add_timer(w->watcher, AGAIN_MS, on_timer, p);
        return;
    }
    p->pid = pid;
    p->channel = watcher_add_fd(w->watcher, p->channel_fd, EPOLLIN, on_message, p);
    engine_order_init(w, ENGINE_PROBE, b, &order);
    fd_send_msg(p->channel_fd, &order, sizeof(order), NULL, 0);
}

void engine_probe_stop(struct engine_probe *p)
{
    watch_remove(p->child);
    watch_remove(p->channel);
    watch_remove(p->timer);
    watch_remove(p->waiting);
    p->child = p->channel = p->timer = p->waiting = NULL;
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    p->pid = 0;
    fd_close(&p->channel_fd);
}
