/* The end of a sandbox that an engine holds. A broker kills what runs of it, says so, and then has
 * the engine forget it; where the engine does not answer, another one tries later. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/engine/internal.h"

#define RETRY_MS  3000
#define WORDS_MAX 4 /* "r", cleared, ended, and the end */

struct removal {
    struct warden *warden;
    char id[PLAN_ID_SIZE];
    struct cell *cell; /* to be ended when nothing of it runs; NULL: ended, or never was */
    struct engine_order order;
    bool cleared; /* nothing is mounted for it */
    pid_t pid;
    int channel_fd;
    struct watch *child, *channel, *timer;
};

static void start(struct removal *m);

static void end_cell(struct removal *m, const struct engine_message *message)
{
    struct cell *s = steal_ptr(m->cell);
    if (!s)
        return;
    if (message) {
        s->wait_status = message->wait_status;
        s->oom_kills = message->oom_kills;
    }
    cell_end(s);
}

static void stop_watching(struct removal *m)
{
    watch_remove(m->channel);
    m->channel = NULL;
    fd_close(&m->channel_fd);
}

static void on_message(int fd, uint32_t events, void *data)
{
    struct removal *m = data;
    struct engine_message message;
    int fds[FD_PASS_MAX];
    (void)events;
    ssize_t n = fd_recv_msg(fd, &message, sizeof(message), fds);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n == -EAGAIN || n == 1) /* "r" */
        return;
    if (n != sizeof(message))
        return stop_watching(m);
    if (message.kind == ENGINE_CLEARED)
        m->cleared = true;
    if (message.kind == ENGINE_ENDED)
        end_cell(m, &message);
}

static void on_timer(void *data)
{
    struct removal *m = data;
    m->timer = NULL;
    start(m);
}

static void finish(struct removal *m)
{
    end_cell(m, NULL);
    map_remove(m->warden->engines.removals, m->id);
    free(m);
}

/* Nobody may ask its engine, which still knows it: that is for a warden that may. */
static void leave(struct removal *m)
{
    log_warn("a container stays with %s, which is not in 'engines' id=%s",
             oci_backend_name((enum oci_backend)m->order.backend), m->id);
    finish(m);
}

static void on_broker_exit(pid_t pid, int wait_status, void *data)
{
    struct removal *m = data;
    (void)pid;
    m->child = NULL;
    m->pid = 0;
    for (int i = 0; i < WORDS_MAX && m->channel; i++) /* its last words may still be there */
        on_message(m->channel_fd, 0, m);
    stop_watching(m);
    bool done = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (!done && m->cleared && !m->warden->engines.probe[m->order.backend].enabled)
        return leave(m);
    if (!done) {
        log_debug("a container is not removed yet id=%s status=%d", m->id, wait_status);
        m->timer = watcher_add_timer(m->warden->watcher, RETRY_MS, on_timer, m);
        return;
    }
    engine_record_remove(&m->warden->engines, m->id);
    finish(m);
}

static void start(struct removal *m)
{
    struct warden *w = m->warden;
    m->pid = engine_spawn(w, &m->channel_fd);
    if (m->pid > 0)
        m->child = watcher_add_child(w->watcher, m->pid, -1, on_broker_exit, m);
    if (!m->child) {
        log_warn("cannot start a broker to remove a container id=%s", m->id);
        fd_close(&m->channel_fd);
        m->timer = watcher_add_timer(w->watcher, RETRY_MS, on_timer, m);
        return;
    }
    m->channel = watcher_add_fd(w->watcher, m->channel_fd, EPOLLIN, on_message, m);
    fd_send_msg(m->channel_fd, &m->order, sizeof(m->order), NULL, 0);
}

void engine_remove(struct warden *w, const char *id, struct cell *s)
{
    struct engine_record record;
    struct removal *m = new0(struct removal);
    m->warden = w;
    m->cell = s;
    m->channel_fd = -1;
    snprintf(m->id, sizeof(m->id), "%s", id);
    int r = engine_record_load(&w->engines, id, &record);
    if (r == 0)
        engine_order_from_record(w, ENGINE_REMOVE, &record, &m->order);
    map_put(w->engines.removals, m->id, m);
    if (r == 0)
        return start(m);
    /* Nothing tells whose it is: only the sweep by labels can find it. */
    engine_record_remove(&w->engines, m->id);
    finish(m);
}

bool engine_is_removing(const struct warden *w, const char *id)
{
    return w->engines.removals && map_find(w->engines.removals, id);
}

bool engine_is_ending(const struct warden *w, bool must)
{
    size_t cursor = 0;
    if (!w->engines.removals)
        return false;
    for (struct removal *m; (m = map_next(w->engines.removals, &cursor));)
        if (!must || !m->cleared)
            return true;
    return false;
}

void engine_removals_stop(struct warden *w)
{
    size_t cursor = 0;
    for (struct removal *m; (m = map_next(w->engines.removals, &cursor));) {
        watch_remove(m->child);
        watch_remove(m->timer);
        stop_watching(m);
        if (m->pid > 0) {
            kill(m->pid, SIGKILL);
            waitpid(m->pid, NULL, 0);
        }
        free(m);
    }
}
