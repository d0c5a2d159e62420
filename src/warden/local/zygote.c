/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's side of the zygote, see zygote.h. A request is answered when the clone is done,
 * which the warden waits for as it would for its own. */
#include "warden/local/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "warden/local/root.h"
#include "warden/state.h"

#define REPLY_MAX_MS 10000 /* a clone that takes longer is the zygote's end */

_Static_assert(_CGROUP_MAX <= FD_PASS_MAX, "all groups fit one message");

static struct zygote *zygote_of(const struct warden *w)
{
    return w->hosts[CELL_LOCAL];
}

static void zygote_exec(int sock) __attribute__((noreturn));

static void zygote_exec(int sock)
{
    static const char *const argv[] = {"mas-toolrunner", ZYGOTE_OPTION, ZYGOTE_PADDING, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Not standard error: it is where the zygote says what is wrong. */
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(sock, ZYGOTE_SOCKET_FD) >= 0)
        execve(ROOT_RUNNER_PATH, (char **)argv, (char **)child_runner_env);
    _exit(127);
}

static int send_filter(int sock, enum filter_part part)
{
    struct sock_fprog p;
    struct error err = {0};
    if (filter_compile_part(filter_for_sandboxes(), part, &p, &err) < 0)
        return -EINVAL;
    ssize_t r = fd_send_msg(sock, p.filter, p.len * sizeof(*p.filter), NULL, 0);
    filter_done(&p);
    return r < 0 ? (int)r : 0;
}

/* The filter goes in two parts and in this order: the zygote puts the first one on at once, before
 * it hears of any sandbox, and keeps the second for its clones (filter/filter.h). */
static int send_setup(const struct warden *w)
{
    struct zygote_setup setup = {.template = w->child_template};
    int fds[FD_PASS_MAX];
    size_t n = 0;
    setup.template.seccomp = NULL;
    for (int i = 0; i < _CGROUP_MAX; i++) {
        setup.has[i] = w->cgroups.fd[i] >= 0;
        if (setup.has[i])
            fds[n++] = w->cgroups.fd[i];
    }
    int sock = zygote_of(w)->sock;
    int r = (int)fd_send_msg(sock, &setup, sizeof(setup), fds, n);
    if (r < 0)
        return r;
    r = send_filter(sock, FILTER_SHARED);
    if (r < 0)
        return r;
    return send_filter(sock, FILTER_OWN);
}

static void on_zygote_exit(pid_t pid, int wait_status, void *data)
{
    struct warden *w = data;
    struct zygote *z = zygote_of(w);
    bool served = z->served;
    log_error("the zygote died pid=%d wait_status=%d", (int)pid, wait_status);
    z->watch = NULL;
    z->pid = 0;
    fd_close(&z->sock);
    if (served) /* one that never served will die again, and cells are cloned from the warden */
        zygote_start(w);
}

static int start_zygote(struct warden *w)
{
    int pair[2];
    struct zygote *z = zygote_of(w);
    if (!z) {
        z = w->hosts[CELL_LOCAL] = new0(struct zygote);
        z->sock = -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    z->pid = helper_fork(&pair[1], 1);
    if (z->pid == 0)
        zygote_exec(pair[1]);
    close(pair[1]);
    z->sock = pair[0];
    z->served = false;
    if (z->pid < 0)
        return z->pid;
    z->watch = watcher_add_child(w->watcher, z->pid, -1, on_zygote_exit, w);
    return z->watch ? send_setup(w) : -errno;
}

void zygote_start(struct warden *w)
{
    if (!warden_has_own_root(w) || w->no_namespaces[0])
        return;
    int r = start_zygote(w);
    if (r == 0)
        return;
    log_warn("no zygote: %s", strerror(-r));
    zygote_stop(w);
}

void zygote_stop(struct warden *w)
{
    struct zygote *z = zygote_of(w);
    if (!z)
        return;
    fd_close(&z->sock);
    watch_remove(z->watch);
    if (z->pid > 0) {
        kill(z->pid, SIGKILL);
        waitpid(z->pid, NULL, 0);
    }
    free(z);
    w->hosts[CELL_LOCAL] = NULL;
}

bool zygote_is_there(const struct warden *w)
{
    return zygote_of(w) && zygote_of(w)->sock >= 0;
}

static pid_t receive_reply(struct zygote *z)
{
    struct pollfd p = {.fd = z->sock, .events = POLLIN};
    struct zygote_reply reply;
    int n;
    do
        n = poll(&p, 1, REPLY_MAX_MS);
    while (n < 0 && errno == EINTR);
    if (n == 1 && recv(z->sock, &reply, sizeof(reply), 0) == sizeof(reply)) {
        z->served = true;
        return reply.pid;
    }
    return -ESRCH;
}

pid_t zygote_clone(struct warden *w, const struct cgroup *cg, int cgroup_fd, const int ends[3])
{
    struct zygote *z = zygote_of(w);
    struct zygote_request q = {.into_cgroup = cgroup_fd >= 0};
    int fds[ZYGOTE_CGROUP + 1] = {ends[0], ends[1], ends[2]};
    size_t n_fds = ZYGOTE_CGROUP;
    memcpy(q.cgroup, cg->name, sizeof(q.cgroup));
    if (q.into_cgroup)
        fds[n_fds++] = cgroup_fd;
    else
        memcpy(q.in, cg->in, sizeof(q.in));
    /* The answer belongs to this request: the socket has one request at a time. A zygote that does
     * not answer is killed and its socket closed, because a late answer would be taken for that of
     * the next request. */
    ssize_t n = fd_send_msg(z->sock, &q, sizeof(q), fds, n_fds);
    pid_t pid = n < 0 ? -ESRCH : receive_reply(z);
    if (pid != -ESRCH)
        return pid;
    fd_close(&z->sock); /* its end follows, or is overdue */
    kill(z->pid, SIGKILL);
    return pid;
}
