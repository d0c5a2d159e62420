/* SPDX-License-Identifier: Apache-2.0 */
/* Listening on vsock (or a unix socket, for tests and for hypervisors that offer one). */
#include "toolrunner/listen.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/vm_sockets.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "proto/frame.h"
#include "toolrunner/json-line.h"
#include "toolrunner/runner.h"

#define BACKLOG 64

struct waiting {
    struct listener *listener;
    struct list link;
    struct epoll_watch watch;
    struct epoll_timer timer;
};

static void waiting_free(struct waiting *w)
{
    epoll_watch_close(&w->listener->runner->loop, &w->watch);
    epoll_timer_clear(&w->timer);
    list_remove(&w->link);
    w->listener->n_waiting--;
    free(w);
}

static void on_waiting_over(struct epoll_timer *t)
{
    waiting_free(container_of(t, struct waiting, timer));
}

/* The child becomes the tool's user before it looks at a byte. */
static void __attribute__((noreturn)) lines_child(struct runner *r, int fd)
{
    const struct spawn_identity *id = &r->identity;
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (id->switch_user && (setgroups(0, NULL) < 0 || setresgid(id->gid, id->gid, id->gid) < 0 ||
                            setresuid(id->uid, id->uid, id->uid) < 0))
        _exit(1);
    if (dup2(fd, 3) < 0)
        _exit(1);
    fd_close_from(4);
    fd_set_cloexec(3, true);
    fd_set_nonblock(3, false);
    json_line_serve(3, id->workdir);
    _exit(0);
}

/* A connection beyond LISTEN_LINES_MAX is closed by the caller: a guest must not be able to make
 * the runner fork without limit. */
static void listener_fork_lines(struct listener *l, int fd)
{
    for (size_t i = 0; i < LISTEN_LINES_MAX; i++) {
        if (l->lines_pid[i])
            continue;
        pid_t pid = fork();
        if (pid == 0)
            lines_child(l->runner, fd);
        if (pid > 0)
            l->lines_pid[i] = pid;
        return;
    }
}

bool listener_on_exit(struct listener *l, int pid)
{
    for (size_t i = 0; i < LISTEN_LINES_MAX; i++) {
        if (l->lines_pid[i] == pid) {
            l->lines_pid[i] = 0;
            return true;
        }
    }
    return false;
}

/* The first byte is only peeked at, because the code that serves the connection reads the stream
 * from its beginning. The watch is taken off before the descriptor changes hands: epoll would go
 * on to report it to a watch that is freed. */
static void on_waiting_ready(struct epoll_watch *watch, uint32_t ready)
{
    struct waiting *w = container_of(watch, struct waiting, watch);
    struct listener *l = w->listener;
    struct runner *r = l->runner;
    char first;
    (void)ready;
    ssize_t n = recv(watch->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    epoll_watch_set(&r->loop, watch, 0);
    _cleanup_close_ int fd = fd_steal(&watch->fd);
    waiting_free(w);
    if (n == 1 && first == FRAME_PREFACE[0])
        conn_adopt(r, fd_steal(&fd), NULL, 0);
    else if (n == 1)
        listener_fork_lines(l, fd);
}

static void on_listener_ready(struct epoll_watch *watch, uint32_t ready)
{
    struct listener *l = container_of(watch, struct listener, watch);
    (void)ready;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    /* Out of descriptors or memory. The socket stays readable, so without a pause this would
     * spin. */
    if (fd < 0) {
        epoll_watch_set(&l->runner->loop, watch, 0);
        epoll_timer_set_us(&l->runner->loop, &l->retry, LISTEN_RETRY_MS * 1000);
        return;
    }
    listener_take(l, fd);
}

/* The oldest connection that has said nothing makes room for a new one, so that silent clients
 * cannot keep others out. */
void listener_take(struct listener *l, int fd)
{
    fd_set_nonblock(fd, true);
    if (l->n_waiting >= LISTEN_WAITING_MAX)
        waiting_free(container_of(l->waiting.next, struct waiting, link));
    struct waiting *w = new0(struct waiting);
    w->listener = l;
    list_append(&l->waiting, &w->link);
    l->n_waiting++;
    epoll_watch_init(&w->watch, fd, on_waiting_ready);
    epoll_watch_set(&l->runner->loop, &w->watch, EPOLLIN);
    epoll_timer_init(&w->timer, on_waiting_over);
    epoll_timer_set_us(&l->runner->loop, &w->timer, LISTEN_WAITING_MS * 1000);
}

static void on_listener_retry(struct epoll_timer *t)
{
    struct listener *l = container_of(t, struct listener, retry);
    epoll_watch_set(&l->runner->loop, &l->watch, EPOLLIN);
}

static int listen_on(int family, const struct sockaddr *sa, socklen_t len)
{
    _cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, sa, len) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

static int listen_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    strcpy(sa.sun_path, path);
    unlink(path);
    return listen_on(AF_UNIX, (struct sockaddr *)&sa, sizeof(sa));
}

static int listen_vsock(uint32_t port)
{
    struct sockaddr_vm sa = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port};
    return listen_on(AF_VSOCK, (struct sockaddr *)&sa, sizeof(sa));
}

int listener_init(struct listener *l, struct runner *r, const char *unix_path, int64_t vsock_port)
{
    *l = (struct listener){.runner = r};
    list_init(&l->waiting);
    epoll_timer_init(&l->retry, on_listener_retry);
    int fd = unix_path         ? listen_unix(unix_path)
             : vsock_port >= 0 ? listen_vsock((uint32_t)vsock_port)
                               : -1;
    epoll_watch_init(&l->watch, fd, on_listener_ready);
    if (fd < 0)
        return unix_path || vsock_port >= 0 ? fd : 0;
    epoll_watch_set(&r->loop, &l->watch, EPOLLIN);
    return 0;
}
