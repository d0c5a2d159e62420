/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors, children and timers on base/epoll-loop.h; see watch.h for the contract. A watch that
 * is removed while callbacks run is kept until the last of them has returned, so that its owner may
 * still remove it again without effect. */
#include "warden/watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/epoll-loop.h"
#include "base/fd.h"
#include "base/list.h"

struct watch {
    struct watcher *owner;
    struct list link; /* in live or dead */
    bool dead;
    pid_t pid;                /* of a child; 0 otherwise */
    struct epoll_watch ready; /* on the descriptor, or on a child's pidfd; empty for timers */
    struct epoll_timer timer;
    union {
        watch_fd_fn on_fd;
        watch_child_fn on_child;
        watch_timer_fn on_timer;
    };
    void *data;
};

struct watcher {
    struct epoll_loop loop;
    bool quit;
    unsigned depth; /* > 0 while callbacks run */
    struct list live, dead;
};

struct watcher *watcher_new(void)
{
    struct watcher *w = new0(struct watcher);
    list_init(&w->live);
    list_init(&w->dead);
    if (epoll_loop_init(&w->loop) < 0) {
        free(w);
        return NULL;
    }
    return w;
}

static void watch_free(struct watch *watch)
{
    list_remove(&watch->link);
    epoll_timer_clear(&watch->timer);
    if (watch->pid)
        fd_close(&watch->ready.fd);
    free(watch);
}

static void free_list(struct list *head)
{
    list_for_each_safe(watch, head, struct watch, link)
        watch_free(watch);
}

void watcher_free(struct watcher *w)
{
    if (!w)
        return;
    free_list(&w->live);
    free_list(&w->dead);
    epoll_loop_done(&w->loop);
    free(w);
}

static void on_child_ready(struct epoll_watch *ready, uint32_t events)
{
    struct watch *watch = container_of(ready, struct watch, ready);
    int status = 0;
    (void)events;
    /* A pidfd is readable once its process is a zombie. With a debugger attached that is before
     * waitpid() has the status for us; then the loop comes back to it. */
    if (waitpid(watch->pid, &status, WNOHANG) == 0)
        return;
    /* Removed before the callback: the pid is reaped and may be given to another process at once,
     * so that nothing may signal it through this watch any more. The memory stays until the loop's
     * round is over (see watch_remove()). */
    watch_remove(watch);
    watch->on_child(watch->pid, status, watch->data);
}

static void on_fd_ready(struct epoll_watch *ready, uint32_t events)
{
    struct watch *watch = container_of(ready, struct watch, ready);
    watch->on_fd(ready->fd, events, watch->data);
}

static void on_timer(struct epoll_timer *timer)
{
    struct watch *watch = container_of(timer, struct watch, timer);
    watch_remove(watch);
    watch->on_timer(watch->data);
}

static struct watch *watch_new(struct watcher *w, int fd, pid_t pid, uint32_t events, void *data)
{
    struct watch *watch = new0(struct watch);
    watch->owner = w;
    watch->pid = pid;
    watch->data = data;
    epoll_watch_init(&watch->ready, fd, pid ? on_child_ready : on_fd_ready);
    epoll_timer_init(&watch->timer, on_timer);
    int r = epoll_watch_set(&w->loop, &watch->ready, events);
    if (r < 0) {
        free(watch);
        errno = -r;
        return NULL;
    }
    list_append(&w->live, &watch->link);
    return watch;
}

struct watch *watcher_add_fd(struct watcher *w, int fd, uint32_t epoll_events, watch_fd_fn fn,
                             void *data)
{
    struct watch *watch = watch_new(w, fd, 0, epoll_events, data);
    if (watch)
        watch->on_fd = fn;
    return watch;
}

bool watcher_has_child(const struct watcher *w, pid_t pid)
{
    list_for_each(watch, &w->live, struct watch, link) {
        if (watch->pid == pid)
            return true;
    }
    return false;
}

struct watch *watcher_add_child(struct watcher *w, pid_t pid, int pidfd, watch_child_fn fn,
                                void *data)
{
    _cleanup_close_ int opened = -1;
    if (pidfd < 0) {
        pidfd = opened = pidfd_open(pid, 0);
        if (pidfd < 0)
            return NULL;
    }
    struct watch *watch = watch_new(w, pidfd, pid, EPOLLIN, data);
    if (!watch)
        return NULL;
    fd_steal(&opened);
    watch->on_child = fn;
    return watch;
}

struct watch *watcher_add_timer(struct watcher *w, int delay_ms, watch_timer_fn fn, void *data)
{
    struct watch *watch = watch_new(w, -1, 0, 0, data);
    watch->on_timer = fn;
    epoll_timer_set_us(&w->loop, &watch->timer, delay_ms > 0 ? (uint64_t)delay_ms * 1000 : 0);
    return watch;
}

void watch_remove(struct watch *watch)
{
    if (!watch || watch->dead)
        return;
    struct watcher *w = watch->owner;
    epoll_watch_set(&w->loop, &watch->ready, 0);
    epoll_timer_clear(&watch->timer);
    watch->dead = true;
    list_remove(&watch->link);
    /* epoll may have returned this watch already in the round that runs. Its memory must not go, or
     * be given to another watch, before that round is over. */
    if (w->depth)
        list_append(&w->dead, &watch->link);
    else
        watch_free(watch);
}

int watcher_once(struct watcher *w, int timeout_ms)
{
    w->depth++;
    int r = epoll_loop_once(&w->loop, timeout_ms);
    if (--w->depth == 0)
        free_list(&w->dead);
    return r;
}

int watcher_run(struct watcher *w)
{
    w->quit = false;
    while (!w->quit) {
        int r = watcher_once(w, -1);
        if (r < 0)
            return r;
    }
    return 0;
}

void watcher_quit(struct watcher *w)
{
    w->quit = true;
}
