/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's side of sandboxes that an engine holds: see engine.h for how it works. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/control.h"
#include "warden/engine/internal.h"

#define LIST_MAX_MS 10000

/* --- start and end */

struct engines *engines_of(const struct warden *w)
{
    return w->hosts[CELL_ENGINE];
}

static int open_dirs(struct warden *w)
{
    struct engines *e = engines_of(w);
    if (mkdirat(w->state_fd, ENGINE_DIR_NAME, 0700) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_free_ char *state = realpath(w->options.state_dir, NULL);
    if (!state)
        return -errno;
    int n = snprintf(e->dir, sizeof(e->dir), "%s/" ENGINE_DIR_NAME, state);
    /* The longest name below it must fit an order, too. */
    return n + PLAN_ID_SIZE >= (int)sizeof(e->dir) ? -ENAMETOOLONG : 0;
}

/* Of a warden that had engines: its leftovers are removed, though no engine is configured now. */
static bool has_left(const struct warden *w)
{
    return w->was_root && engines_of(w)->program_fd >= 0 &&
           faccessat(w->state_fd, ENGINE_DIR_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int engines_open(struct warden *w, struct error *err)
{
    const char *const sockets[_OCI_BACKEND_MAX] = {
        [OCI_PODMAN] = w->options.podman_socket, [OCI_DOCKER] = w->options.docker_socket};
    int program = w->options.engine_fd;
    struct engines *e = w->hosts[CELL_ENGINE] = new0(struct engines);
    e->program_fd = program < 0 ? -1 : fcntl(program, F_DUPFD_CLOEXEC, 0);
    e->removals = map_new();
    for (int b = 0; b < _OCI_BACKEND_MAX; b++) {
        struct engine_probe *p = &e->probe[b];
        engine_probe_init(w, (enum oci_backend)b);
        if (!sockets[b] || !w->was_root || e->program_fd < 0)
            continue;
        if (snprintf(p->socket, sizeof(p->socket), "%s", sockets[b]) >= (int)sizeof(p->socket))
            return error_set(err, ERROR_INVALID, 0, "%s_socket: '%s' is too long",
                             oci_backend_name((enum oci_backend)b), sockets[b]);
        p->enabled = true;
    }
    if (!e->probe[OCI_PODMAN].enabled && !e->probe[OCI_DOCKER].enabled && !has_left(w))
        return 0;
    int r = open_dirs(w);
    return r < 0 ? error_set(err, ERROR_UNAVAILABLE, -r, "make a directory for container engines")
                 : 0;
}

static int start_broker(struct cell *s, struct engine_order *order)
{
    struct warden *w = s->warden;
    fd_close(&s->channel_fd);
    pid_t pid = program_spawn(w, engine_exec, &s->channel_fd);
    if (pid < 0)
        return pid;
    s->pid = pid;
    s->pidfd = pidfd_open(pid, 0);
    s->child_watch = watcher_add_child(w->watcher, pid, s->pidfd, cell_on_child_exit, s);
    if (s->child_watch) {
        cell_watch_channel(s);
        ssize_t n = fd_send_msg(s->channel_fd, order, sizeof(*order), NULL, 0);
        return n < 0 ? (int)n : 0;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fd_close(&s->pidfd);
    return -EIO;
}

static void engine_cell_adopt(struct warden *w, const struct engine_record *r)
{
    struct engine_order order;
    struct cell *s = cell_new(w, CELL_ENGINE);
    s->plan = r->plan;
    s->limits = r->limits;
    engine_cell(s)->mark = r->mark;
    s->id_block = id_block_reserve(&w->ids, r->id_block) ? r->id_block : -1;
    memcpy(s->mechanism, r->mechanism, sizeof(s->mechanism));
    engine_order_from_record(w, ENGINE_ADOPT, r, &order);
    cell_take_over(s);
    if (start_broker(s, &order) < 0)
        engine_remove(w, r, s);
}

/* A broker has read it, but what a plan may ask for is the warden's to check. */
static bool record_is_good(const struct engine_record *r)
{
    char why[64];
    return r->magic == ENGINE_RECORD_MAGIC && r->size == sizeof(*r) &&
           r->state < _ENGINE_RECORD_STATE_MAX &&
           memchr(r->mark.container, 0, sizeof(r->mark.container)) &&
           plan_check(&r->plan, why, sizeof(why)) == 0 && oci_backend_is_engine(r->plan.backend);
}

static void take_up(struct warden *w, const struct engine_record *r)
{
    if (!record_is_good(r))
        return;
    /* A link ends with the router, and that with the warden that had it. */
    bool whole = !(r->plan.flags & PLAN_ADDRESSES);
    if (r->state == ENGINE_RECORD_RUNNING && engines_of(w)->probe[r->plan.backend].enabled && whole)
        return engine_cell_adopt(w, r);
    log_info("a container is left over id=%s", r->plan.id);
    engine_remove(w, r, NULL);
}

/* The warden waits for it: before all that is left is taken up it can say neither which sandboxes
 * there are nor which ids are free. */
static void take_up_all(struct warden *w)
{
    struct engine_order order;
    struct engine_record r;
    int fds[FD_PASS_MAX], channel;
    pid_t pid = program_spawn(w, engine_exec, &channel);
    if (pid < 0) {
        log_error("cannot start a broker to find what is left error=%s", strerror(-pid));
        return;
    }
    struct pollfd p = {.fd = channel, .events = POLLIN};
    engine_order_init(w, ENGINE_LIST, OCI_PODMAN, &order);
    fd_send_msg(channel, &order, sizeof(order), NULL, 0);
    while (poll(&p, 1, LIST_MAX_MS) == 1) {
        ssize_t n = fd_recv_msg(channel, &r, sizeof(r), fds);
        for (size_t i = 0; i < FD_PASS_MAX; i++)
            fd_close(&fds[i]);
        if (n == sizeof(r))
            take_up(w, &r);
        else if (n != 1) /* its "r" */
            break;
    }
    close(channel);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void engines_start(struct warden *w)
{
    if (!engines_of(w)->dir[0])
        return;
    if (w->no_namespaces[0]) /* nothing that a container could be made of */
        return;
    take_up_all(w);
    for (int b = 0; b < _OCI_BACKEND_MAX; b++)
        if (engines_of(w)->probe[b].enabled)
            engine_probe_start(w, (enum oci_backend)b);
}

void engines_close(struct warden *w)
{
    struct engines *e = engines_of(w);
    if (!e)
        return;
    for (int b = 0; w->watcher && b < _OCI_BACKEND_MAX; b++)
        engine_probe_stop(&e->probe[b]);
    engine_removals_stop(w);
    map_free(e->removals);
    fd_close(&e->program_fd);
    free(e);
    w->hosts[CELL_ENGINE] = NULL;
}

/* --- one sandbox */

static void record_of(const struct cell *s, struct engine_record *ret)
{
    const struct id_range *ids = &s->warden->ids;
    *ret = (struct engine_record){
        .magic = ENGINE_RECORD_MAGIC,
        .size = sizeof(*ret),
        .plan = s->plan,
        .limits = s->limits,
        .id_block = s->id_block,
        .mark = engine_cell(s)->mark,
        .runner_id = id_block_host_id(ids, s->id_block, SANDBOX_RUNNER_ID),
        .tool_id = id_block_host_id(ids, s->id_block, SANDBOX_TOOL_ID),
        .nobody_id = id_block_host_id(ids, s->id_block, SANDBOX_NOBODY_ID),
    };
    memcpy(ret->mechanism, s->mechanism, sizeof(ret->mechanism));
}

int engine_send_order(struct cell *s)
{
    struct engine_order order;
    struct engine_record r;
    record_of(s, &r);
    engine_order_from_record(s->warden, ENGINE_CREATE, &r, &order);
    for (int i = 0; i < _WALL_MAX; i++)
        order.must[i] = engine_cell(s)->must[i];
    order.child = s->order;
    order.record = r;
    engine_cell(s)->recorded = true;
    ssize_t n =
        fd_send_msg(s->channel_fd, &order, sizeof(order), s->trees.mounts, s->order.n_mounts);
    return n < 0 ? (int)n : 0;
}

/* The mechanisms are what the broker found, and not what the plan asked for. */
static void take_ready(struct cell *s, const struct engine_message *m, int *fd)
{
    memcpy(s->mechanism, m->mechanism, sizeof(s->mechanism));
    engine_cell(s)->mark = m->mark;
    fd_close(&s->network_fd);
    s->network_fd = fd_steal(fd);
}

static void take_answer(struct cell *s, const struct engine_message *m)
{
    struct plan_reply reply = {.tag = m->tag, .wall = -1, .error = m->error};
    uint64_t *asked = engine_cell(s)->asked;
    for (size_t i = 0; i < ENGINE_ASKED_MAX; i++) {
        if (!m->tag || asked[i] != m->tag)
            continue;
        asked[i] = 0;
        cell_describe(s, &reply);
        reply.memory_bytes = m->memory_bytes;
        reply.memory_peak_bytes = m->memory_peak_bytes;
        reply.cpu_us = m->cpu_us;
        reply.processes = m->processes;
        reply.oom_kills = m->oom_kills;
        reply.disk_used_bytes = m->disk_used_bytes;
        snprintf(reply.message, sizeof(reply.message), "%s", m->text);
        control_send(s->warden, &reply, -1);
        return;
    }
}

static void take_message(struct cell *s, const struct engine_message *m, int *fd)
{
    switch (m->kind) {
    case ENGINE_READY:
        return take_ready(s, m, fd);
    case ENGINE_LINKED:
        return cell_take_stream(s, fd_steal(fd));
    case ENGINE_DONE:
        return take_answer(s, m);
    case ENGINE_ENDED:
        engine_cell(s)->ended = true;
        s->wait_status = m->wait_status;
        s->oom_kills = m->oom_kills;
        return;
    default:
        log_warn("a broker sent a record that is not allowed now id=%s kind=%u", s->id, m->kind);
    }
}

void engine_on_channel(struct cell *s)
{
    for (;;) {
        struct engine_message m;
        int fds[FD_PASS_MAX];
        ssize_t n = fd_recv_msg(s->channel_fd, &m, sizeof(m), fds);
        if (n == -EAGAIN)
            return;
        for (size_t i = 1; i < FD_PASS_MAX; i++)
            fd_close(&fds[i]);
        m.text[sizeof(m.text) - 1] = 0;
        if (n == sizeof(m))
            take_message(s, &m, &fds[0]);
        fd_close(&fds[0]);
        if (n != sizeof(m) && n != 1) { /* its exit follows; 1: a new broker's "r" */
            watch_remove(s->channel_watch);
            s->channel_watch = NULL;
            return;
        }
    }
}

static int ask_broker(struct cell *s, enum engine_request_kind kind, uint64_t tag)
{
    const struct engine_request request = {.kind = kind, .tag = tag};
    uint64_t *asked = engine_cell(s)->asked;
    for (size_t i = 0; i < ENGINE_ASKED_MAX; i++) {
        if (asked[i])
            continue;
        ssize_t n = fd_send_msg(s->channel_fd, &request, sizeof(request), NULL, 0);
        if (n < 0)
            return (int)n;
        asked[i] = tag;
        return -EINPROGRESS;
    }
    return -EBUSY;
}

int engine_freeze(struct cell *s, bool on, uint64_t tag)
{
    return ask_broker(s, on ? ENGINE_ASK_FREEZE : ENGINE_ASK_THAW, tag);
}

int engine_read_stats(struct cell *s, struct plan_reply *ret)
{
    return s->state == CELL_RUNNING ? ask_broker(s, ENGINE_ASK_STATS, ret->tag) : 0;
}

void engine_abandon(struct cell *s)
{
    memset(engine_cell(s)->asked, 0, sizeof(engine_cell(s)->asked));
}

/* The broker is gone. The cell goes on if another broker adopts its container, or ends once that
 * container has. */
bool engine_on_exit(struct cell *s)
{
    struct engine_record record;
    struct engine_order order;
    struct warden *w = s->warden;
    s->pidfd = -1;
    /* What the broker said before its end may be that the container has ended: then there is
     * nothing to adopt. It may also be the mark of the container, which the record needs. */
    if (s->channel_watch)
        engine_on_channel(s);
    record_of(s, &record);
    watch_remove(s->channel_watch);
    s->channel_watch = NULL;
    /* The broker that owed these answers is gone. */
    for (size_t i = 0; i < ENGINE_ASKED_MAX; i++) {
        struct engine_message m = {.tag = engine_cell(s)->asked[i], .error = EIO};
        take_answer(s, &m);
    }
    if (s->state != CELL_RUNNING) {
        if (s->failure.error == EHOSTDOWN) /* the status should know soon, too */
            engine_probe_start(w, (enum oci_backend)s->plan.backend);
        if (engine_cell(s)->recorded)
            engine_remove(w, &record, NULL);
        return false;
    }
    if (!s->killed && !engine_cell(s)->ended) {
        log_warn("a broker died, another one adopts its container id=%s", s->id);
        engine_order_from_record(w, ENGINE_ADOPT, &record, &order);
        if (start_broker(s, &order) == 0)
            return true;
    }
    engine_remove(w, &record, s);
    return true;
}
