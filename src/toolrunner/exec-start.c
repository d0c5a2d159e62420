/* SPDX-License-Identifier: Apache-2.0 */
/* From SPAWN to the first instruction of a command's program, as the control plane sees it.
 *
 * A start that is not waited for (start.h) is known to have worked once the child has left our
 * memory without an error, and STARTED says so when it is looked at: when it ends, when it is not
 * young any more, when it prints, when it is to be signalled. A failed one is reported when its
 * child is reaped. Until then the exec is `starting`; everything else about it is as of any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/plan.h"
#include "toolrunner/builtin.h"
#include "toolrunner/events.h"
#include "toolrunner/exec.h"
#include "toolrunner/pty.h"
#include "toolrunner/runner.h"

/* One pipe: ours does not block, the command's end does. end is 0 for its stdin, 1 for output. */
static int open_pipe(int end, int *ret_ours, int *ret_theirs)
{
    static bool has_modes = true; /* gVisor has no modes of pipes, and calls cost much there */
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    /* Each end is noted before the first call that can fail, so that the caller's clean-up finds
     * both. */
    *ret_ours = fds[!end];
    *ret_theirs = fds[end];
    /* The command is another user, and may open its own end once more: /dev/stdout. */
    if (has_modes && fchmod(*ret_theirs, 0666) < 0) {
        if (errno != EPERM)
            return -errno;
        has_modes = false;
    }
    return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_stdio_pipes(struct runner *r, const struct msg_spawn *m, int ours[3], int theirs[3])
{
    int n = 0;
    if (m->flags & SPAWN_STDIN)
        n = open_pipe(0, &ours[0], &theirs[0]);
    else
        theirs[0] = r->null_fd;
    for (int i = 1; n >= 0 && i < 3; i++)
        n = open_pipe(1, &ours[i], &theirs[i]);
    return n;
}

/* A terminal belongs to whose file-system ids opened it: the tool's, so that it may reopen it. */
static int open_stdio_pty(struct runner *r, const struct msg_spawn *m, int ours[3], int theirs[3])
{
    const struct spawn_identity *id = &r->identity;
    uid_t uid = id->switch_user ? (uid_t)setfsuid(id->uid) : 0;
    gid_t gid = id->switch_user ? (gid_t)setfsgid(id->gid) : 0;
    int n = pty_open(m->rows, m->cols, &ours[1], &theirs[0]);
    if (id->switch_user) {
        setfsgid(gid);
        setfsuid(uid);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* which a change of ids leaves to fs.suid_dumpable */
    }
    if (n < 0)
        return n;
    ours[0] = fcntl(ours[1], F_DUPFD_CLOEXEC, 3);
    theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
    theirs[2] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
    return ours[0] < 0 || theirs[1] < 0 || theirs[2] < 0 ? -errno : 0;
}

/* The environment of a command with a proxy of its own, in which what names the sandbox's names
 * that one. The caller frees the vector and what it has in own. */
static char **env_with_proxy(char *const *env, uint16_t port, char ***ret_own)
{
    static const char shared[] = "=http://127.0.0.1:" PLAN_PROXY_PORT;
    size_t n = strv_length(env), n_own = 0;
    char **all = xcalloc(n + 1, sizeof(*all)), **own = xcalloc(n + 1, sizeof(*own));
    for (size_t i = 0; i < n; i++) {
        const char *value = strchr(env[i], '=');
        all[i] = env[i];
        if (value && strcmp(value, shared) == 0)
            all[i] = own[n_own++] = xasprintf("%.*s=http://127.0.0.1:%u", (int)(value - env[i]),
                                              env[i], (unsigned)port);
    }
    *ret_own = own;
    return all;
}

static pid_t spawn_with_proxy(struct exec *e, struct spawn_plan *plan)
{
    _cleanup_strv_ char **own = NULL;
    struct msg_spawn m = *plan->msg;
    plan->stage = "own proxy";
    int r = gateway_open_own(&e->runner->gateway, e->stream, &plan->proxy_port);
    if (r < 0)
        return r;
    m.env = env_with_proxy(m.env, plan->proxy_port, &own);
    plan->msg = &m;
    pid_t pid = spawn_start(plan);
    free(m.env);
    if (pid < 0)
        gateway_close_own(&e->runner->gateway, e->stream);
    return pid;
}

static pid_t exec_start(struct exec *e, const struct msg_spawn *m, int ours[3],
                        const char **ret_stage)
{
    struct runner *r = e->runner;
    struct spawn_plan plan = {.identity = &r->identity,
                              .msg = m,
                              .fds = {-1, -1, -1},
                              .mark = e->stream,
                              .terminal = m->flags & SPAWN_PTY,
                              /* A runner that connects out is under gVisor or kata, where starts
                               * that are not waited for do not work. */
                              .wait = r->config.connect_path,
                              .start = &e->start};
    *ret_stage = "builtin";
    if (m->flags & SPAWN_BUILTIN && !(plan.builtin = builtin_find(m->argv[0])))
        return -ENOENT;
    *ret_stage = "events";
    int filed = m->flags & SPAWN_EVENTS ? events_open(e, m->events) : 0;
    if (filed < 0)
        return filed;
    *ret_stage = plan.terminal ? "pty" : "pipe";
    pid_t pid = plan.terminal ? open_stdio_pty(r, m, ours, plan.fds)
                              : open_stdio_pipes(r, m, ours, plan.fds);
    if (pid >= 0) {
        oom_order_on_start(&r->oom_order);
        pid = m->flags & SPAWN_OWN_PROXY ? spawn_with_proxy(e, &plan) : spawn_start(&plan);
        *ret_stage = plan.stage;
    }
    /* The command's ends are closed here whether it started or not. A copy that stayed open in the
     * runner would keep the pipe from ever ending. /dev/null is shared and stays. */
    for (int i = plan.fds[0] == r->null_fd; i < 3; i++)
        fd_close(&plan.fds[i]);
    return pid;
}

static void exec_send_started(struct exec *e)
{
    conn_send(&e->runner->conn, started, e->stream, .request_id = e->request_id,
              .pid = (uint32_t)e->pid);
}

static void exec_set_timers(struct exec *e, const struct msg_spawn *m)
{
    struct runner *r = e->runner;
    epoll_timer_set_us(&r->loop, &e->young,
                       r->config.connect_path ? EXEC_YOUNG_DIALED_US : EXEC_YOUNG_US);
    if (m->timeout_ms)
        epoll_timer_set_us(&r->loop, &e->timeout,
                           m->timeout_ms > UINT64_MAX / 1000 ? UINT64_MAX : m->timeout_ms * 1000);
}

static void spawn_refuse(struct runner *r, uint32_t stream, uint64_t request_id, int error,
                         const char *stage)
{
    conn_send(&r->conn, spawn_failed, stream, .request_id = request_id, .error = error,
              .stage = stage);
}

/* Most commands end within EXEC_YOUNG_US. STARTED, their output and EXIT then leave in one write:
 * STARTED alone does not make the connection urgent, unless it was before. */
static void exec_launch(struct runner *r, uint32_t stream, const struct msg_spawn *m)
{
    int ours[3] = {-1, -1, -1};
    const char *stage;
    struct exec *e = exec_new(r, stream, m);
    e->started_ns = clock_mono_ns();
    pid_t pid = exec_start(e, m, ours, &stage);
    /* Also where the start failed: exec_free() closes the pipes through it. */
    exec_io_init(e, ours + 1, ours[0]);
    if (pid < 0) {
        exec_free(e);
        spawn_refuse(r, stream, m->request_id, -pid, stage);
        return;
    }
    e->pid = pid;
    e->starting = start_is_pending(&e->start);
    bool urgent = r->conn.urgent && !r->conn.greeting;
    if (!e->starting)
        exec_send_started(e);
    r->conn.urgent = urgent; /* on_young_over() sends it at the latest */
    exec_set_timers(e, m);
}

/* The request id makes SPAWN safe to send twice: a control plane that lost its connection cannot
 * know whether the first one arrived, and a command must not run twice. Streams that the control
 * plane opens have odd numbers. */
int exec_spawn(struct runner *r, uint32_t stream, const struct msg_spawn *m)
{
    struct exec *known = exec_find_request(r, m->request_id);
    if (known) {
        if (!known->starting) /* else the answer is yet to come */
            exec_send_started(known);
        return 0;
    }
    if (stream % 2 == 0 || exec_find(r, stream))
        return -EPROTO;
    if (r->n_execs >= PROTO_EXECS_MAX)
        spawn_refuse(r, stream, m->request_id, EAGAIN, "limit");
    else
        exec_launch(r, stream, m);
    return 0;
}

bool exec_look_started(struct exec *e)
{
    if (e->starting && start_has_left(&e->start) && !e->start.error)
        e->starting = false;
    return !e->starting;
}

bool exec_check_started(struct exec *e)
{
    bool was_starting = e->starting;
    if (!exec_look_started(e))
        return false;
    if (was_starting && !e->forgotten)
        exec_send_started(e);
    return true;
}

bool exec_wait_started(struct exec *e)
{
    if (e->starting)
        start_wait(&e->start, e->started_ns + START_PATIENCE_NS);
    return exec_check_started(e);
}

bool exec_start_failed(struct exec *e)
{
    start_on_exit(&e->start);
    if (exec_check_started(e))
        return false;
    if (!e->forgotten)
        spawn_refuse(e->runner, e->stream, e->request_id, e->start.error, e->start.stage);
    return true;
}
