/* epoll, pidfds and a sorted timer list; see watch.h for the contract. Watches removed
 * while a batch of events is handled are kept until its end, so that a later event of the same
 * batch never meets freed memory. */
#include "warden/watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"

#define WATCH_BATCH 32

enum watch_kind { WATCH_FD, WATCH_CHILD, WATCH_TIMER };

struct watch {
    struct watcher *owner;
    struct list link;
    enum watch_kind kind;
    bool dead;
    int fd;
    pid_t pid;
    int64_t due_ms;
    union {
        watch_fd_fn on_fd;
        watch_child_fn on_child;
        watch_timer_fn on_timer;
    };
    void *data;
};

struct watcher {
    int epoll_fd;
    bool quit;
    unsigned depth; /* > 0 while callbacks run */
    struct list live, timers, dead;
};

struct watcher *watcher_new(void)
{
    struct watcher *w = new0(struct watcher);
    list_init(&w->live);
    list_init(&w->timers);
    list_init(&w->dead);
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll_fd < 0) {
        free(w);
        return NULL;
    }
    return w;
}

static void watch_free(struct watch *watch)
{
    list_remove(&watch->link);
    if (watch->kind == WATCH_CHILD)
        fd_close(&watch->fd);
    free(watch);
}

static void free_list(struct list *head)
{
    list_for_each_safe(watch, head, struct watch, link) watch_free(watch);
}

void watcher_free(struct watcher *w)
{
    if (!w)
        return;
    free_list(&w->live);
    free_list(&w->timers);
    free_list(&w->dead);
    fd_close(&w->epoll_fd);
    free(w);
}

static struct watch *add(struct watcher *w, enum watch_kind kind, int fd, uint32_t events)
{
    struct watch *watch = new0(struct watch);
    watch->owner = w;
    watch->kind = kind;
    watch->fd = fd;
    list_init(&watch->link);
    struct epoll_event ev = {.events = events, .data.ptr = watch};
    if (fd >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        free(watch);
        return NULL;
    }
    list_append(kind == WATCH_TIMER ? &w->timers : &w->live, &watch->link);
    return watch;
}

struct watch *watcher_add_fd(struct watcher *w, int fd, uint32_t epoll_events, watch_fd_fn fn,
                             void *data)
{
    struct watch *watch = add(w, WATCH_FD, fd, epoll_events);
    if (!watch)
        return NULL;
    watch->on_fd = fn;
    watch->data = data;
    return watch;
}

bool watcher_has_child(const struct watcher *w, pid_t pid)
{
    list_for_each(watch, &w->live, struct watch, link)
    {
        if (watch->kind == WATCH_CHILD && watch->pid == pid)
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
    struct watch *watch = add(w, WATCH_CHILD, pidfd, EPOLLIN);
    if (!watch)
        return NULL;
    fd_steal(&opened);
    watch->pid = pid;
    watch->on_child = fn;
    watch->data = data;
    return watch;
}

/* Almost all are creates' time limits, each later than those before, or something that is due
 * before any of them: the right place is next to an end of the list. */
static void put_in_order(struct watcher *w, struct watch *watch)
{
    list_remove(&watch->link);
    struct list *after = w->timers.prev;
    const struct watch *first = container_of(w->timers.next, struct watch, link);
    if (!list_empty(&w->timers) && first->due_ms > watch->due_ms)
        after = &w->timers;
    while (after != &w->timers && container_of(after, struct watch, link)->due_ms > watch->due_ms)
        after = after->prev;
    list_append(after->next, &watch->link);
}

struct watch *watcher_add_timer(struct watcher *w, int delay_ms, watch_timer_fn fn, void *data)
{
    struct watch *watch = add(w, WATCH_TIMER, -1, 0);
    watch->due_ms = clock_mono_ms() + delay_ms;
    watch->on_timer = fn;
    watch->data = data;
    put_in_order(w, watch);
    return watch;
}

void watch_remove(struct watch *watch)
{
    if (!watch || watch->dead)
        return;
    struct watcher *w = watch->owner;
    if (watch->fd >= 0)
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->dead = true;
    list_remove(&watch->link);
    if (w->depth)
        list_append(&w->dead, &watch->link);
    else
        watch_free(watch);
}

static void dispatch_child(struct watch *watch)
{
    int status = 0;
    pid_t pid = waitpid(watch->pid, &status, WNOHANG);
    if (pid == 0)
        return;
    watch_child_fn fn = watch->on_child;
    void *data = watch->data;
    pid = watch->pid;
    watch_remove(watch);
    fn(pid, status, data);
}

static void dispatch(const struct epoll_event *ev)
{
    struct watch *watch = ev->data.ptr;
    if (watch->dead)
        return;
    if (watch->kind == WATCH_CHILD)
        dispatch_child(watch);
    else
        watch->on_fd(watch->fd, ev->events, watch->data);
}

static struct watch *next_timer(const struct watcher *w)
{
    return list_empty(&w->timers) ? NULL : container_of(w->timers.next, struct watch, link);
}

static int wait_ms(const struct watcher *w, int timeout_ms)
{
    const struct watch *timer = next_timer(w);
    if (!timer)
        return timeout_ms;
    int64_t left = timer->due_ms - clock_mono_ms();
    if (left < 0)
        left = 0;
    return timeout_ms >= 0 && timeout_ms < left ? timeout_ms : (int)left;
}

static void run_timers(struct watcher *w)
{
    for (struct watch *timer; (timer = next_timer(w)) && timer->due_ms <= clock_mono_ms();) {
        watch_timer_fn fn = timer->on_timer;
        void *data = timer->data;
        watch_remove(timer);
        fn(data);
    }
}

int watcher_once(struct watcher *w, int timeout_ms)
{
    struct epoll_event events[WATCH_BATCH];
    int n = epoll_wait(w->epoll_fd, events, WATCH_BATCH, wait_ms(w, timeout_ms));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    w->depth++;
    for (int i = 0; i < n; i++)
        dispatch(&events[i]);
    run_timers(w);
    if (--w->depth == 0)
        free_list(&w->dead);
    return 0;
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
