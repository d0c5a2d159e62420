/* SPDX-License-Identifier: Apache-2.0 */
/* Saved machines in memory: their memory and state as sealed memory files, which all copies of one
 * have in common and map privately. A process of the warden's own reads them, so that what is
 * shared is charged to no sandbox, and the warden need not wait for it. A few are kept: the next
 * copy of one is made at once.
 *
 * Each is as large as a guest's memory, so those that are being read and those that are kept are
 * VM_LOADED_MAX together: one that is kept makes way for the next. One that the control plane was
 * promised does not, until the sandbox has gone back to it or, where copies are made of it, until
 * it is dropped. Such a promise lasts PROMISE_MAX_MS, because the control plane
 * does not say when it gives up in between. When none can make way, the next is refused. Requests
 * for one that is being read wait for that. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"
#include "warden/control.h"
#include "warden/state.h"
#include "warden/vm/vm.h"

#define PROMISE_MAX_MS 60000

struct vm_load {
    struct list node; /* in vm_host.loads */
    struct warden *warden;
    uint64_t *tags; /* of all that wait; none when the control plane that asked is gone */
    size_t n_tags;
    bool dropped; /* the snapshot was removed meanwhile */
    char name[PLAN_SNAPSHOT_SIZE];
    int sock;
    struct watch *watch;
};

/* --- those that are there */

static void loaded_close(struct vm_loaded *l)
{
    fd_close(&l->memory_fd);
    fd_close(&l->state_fd);
    l->name[0] = 0;
}

void vm_loaded_init(struct vm_host *h)
{
    list_init(&h->loads);
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        h->loaded[i] = (struct vm_loaded){.memory_fd = -1, .state_fd = -1};
}

const struct vm_loaded *vm_loaded_find(struct vm_host *h, const char *name)
{
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        if (strcmp(h->loaded[i].name, name) == 0) {
            h->loaded[i].used = ++h->loaded_uses;
            return &h->loaded[i];
        }
    return NULL;
}

void vm_loaded_drop(struct vm_host *h, const char *name)
{
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        if (strcmp(h->loaded[i].name, name) == 0)
            loaded_close(&h->loaded[i]);
    list_for_each(l, &h->loads, struct vm_load, node) {
        if (strcmp(l->name, name) == 0)
            l->dropped = true;
    }
}

/* Promises that were not used in time do not count: their control plane has given up, and nothing
 * would ever settle them. */
static void loaded_promise(struct vm_host *h, const char *name, size_t n)
{
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++) {
        struct vm_loaded *l = &h->loaded[i];
        if (!n || strcmp(l->name, name) != 0)
            continue;
        int64_t now = clock_mono_ms();
        l->promised = (now < l->promised_until_ms ? l->promised : 0) + (unsigned)n;
        l->promised_until_ms = now + PROMISE_MAX_MS;
    }
}

void vm_loaded_settle(struct vm_host *h, const char *name)
{
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        if (strcmp(h->loaded[i].name, name) == 0 && h->loaded[i].promised)
            h->loaded[i].promised--;
}

static bool is_promised(const struct vm_loaded *l)
{
    return l->promised && clock_mono_ms() < l->promised_until_ms;
}

/* The one that was used longest ago, of those that may go. NULL: there is none. */
static struct vm_loaded *find_oldest(struct vm_host *h)
{
    struct vm_loaded *oldest = NULL;
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++) {
        struct vm_loaded *l = &h->loaded[i];
        if (l->name[0] && !is_promised(l) && (!oldest || l->used < oldest->used))
            oldest = l;
    }
    return oldest;
}

/* For one more that is read. */
static int make_room(struct vm_host *h)
{
    size_t n = 0;
    list_for_each(l, &h->loads, struct vm_load, node)
        n++;
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        n += h->loaded[i].name[0] != 0;
    if (n < VM_LOADED_MAX)
        return 0;
    struct vm_loaded *oldest = find_oldest(h);
    if (!oldest)
        return -EAGAIN;
    loaded_close(oldest);
    return 0;
}

/* make_room() has left a place for it. */
static void keep_loaded(struct vm_host *h, const char *name, int memory_fd, int state_fd)
{
    struct vm_loaded *l = &h->loaded[0];
    while (l->name[0] && l < &h->loaded[VM_LOADED_MAX - 1])
        l++;
    loaded_close(l);
    *l = (struct vm_loaded){.memory_fd = memory_fd, .state_fd = state_fd, .used = ++h->loaded_uses};
    snprintf(l->name, sizeof(l->name), "%s", name);
}

/* --- in the helper */

static int load_file(int file_fd, const char *what)
{
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    _cleanup_close_ int fd = memfd_create(what, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : fd_copy_sparse(file_fd, fd);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
        r = -errno;
    return r < 0 ? r : fd_steal(&fd);
}

static void __attribute__((noreturn)) load_main(int memory_fd, int state_fd, int sock)
{
    int fds[2] = {load_file(memory_fd, "machine-memory"), load_file(state_fd, "machine-state")};
    int error = fds[0] < 0 ? -fds[0] : fds[1] < 0 ? -fds[1] : 0;
    ssize_t n = fd_send_msg(sock, &error, sizeof(error), fds, error ? 0 : 2);
    _exit(n == sizeof(error) ? 0 : 1);
}

/* --- the warden's side of it */

static void load_free(struct vm_load *l)
{
    list_remove(&l->node);
    watch_remove(l->watch);
    fd_close(&l->sock);
    free(l->tags);
    free(l);
}

static void load_add_tag(struct vm_load *l, uint64_t tag)
{
    l->tags = xrealloc(l->tags, (l->n_tags + 1) * sizeof(*l->tags));
    l->tags[l->n_tags++] = tag;
}

static void load_answer(const struct vm_load *l, int error)
{
    for (size_t i = 0; i < l->n_tags; i++) {
        struct plan_reply reply = {.tag = l->tags[i], .wall = -1, .error = error};
        if (l->dropped)
            snprintf(reply.message, sizeof(reply.message), "the snapshot was removed");
        else if (error)
            snprintf(reply.message, sizeof(reply.message), "read the snapshot: %s",
                     strerror(error));
        control_send(l->warden, &reply, -1);
    }
}

static void on_helper_exit(pid_t pid, int wait_status, void *data)
{
    (void)pid;
    (void)wait_status;
    (void)data;
}

static void on_loaded(int sock, uint32_t events, void *data)
{
    struct vm_load *l = data;
    struct vm_host *h = l->warden->hosts[CELL_VM];
    int error = EIO, fds[FD_PASS_MAX];
    (void)events;
    bool whole = fd_recv_msg(sock, &error, sizeof(error), fds) == sizeof(error) && fds[1] >= 0;
    if (whole && !l->dropped)
        keep_loaded(h, l->name, fd_steal(&fds[0]), fd_steal(&fds[1]));
    loaded_promise(h, l->name, l->n_tags);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    list_remove(&l->node); /* an answer may end in vm_loads_abandon(), which is not for this one */
    load_answer(l, l->dropped ? ESTALE : whole ? 0 : error ? error : EIO);
    load_free(l);
}

static int load_start(struct warden *w, const struct plan *p, int memory_fd, int state_fd)
{
    struct vm_host *h = w->hosts[CELL_VM];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    const int kept[] = {pair[1], memory_fd, state_fd};
    pid_t pid = helper_fork(kept, ELEMENTS(kept));
    if (pid == 0)
        load_main(memory_fd, state_fd, pair[1]);
    close(pair[1]);
    struct vm_load *l = new0(struct vm_load);
    *l = (struct vm_load){.warden = w, .sock = pair[0]};
    snprintf(l->name, sizeof(l->name), "%s", p->snapshot);
    load_add_tag(l, p->tag);
    list_append(&h->loads, &l->node);
    if (pid > 0)
        l->watch = watcher_add_fd(w->watcher, pair[0], EPOLLIN, on_loaded, l);
    if (pid < 0 || !l->watch || !watcher_add_child(w->watcher, pid, -1, on_helper_exit, NULL)) {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        load_free(l);
        return -EAGAIN;
    }
    return -EINPROGRESS;
}

int vm_load(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (!h || h->saved_fd < 0)
        return -EOPNOTSUPP;
    if (vm_loaded_find(h, p->snapshot)) {
        loaded_promise(h, p->snapshot, 1);
        return 0;
    }
    list_for_each(l, &h->loads, struct vm_load, node) {
        if (!l->dropped && strcmp(l->name, p->snapshot) == 0) {
            load_add_tag(l, p->tag);
            return -EINPROGRESS;
        }
    }
    _cleanup_close_ int memory = vm_saved_open_file(h, p->snapshot, VM_SAVED_MEMORY);
    _cleanup_close_ int state = vm_saved_open_file(h, p->snapshot, VM_SAVED_STATE);
    if (memory < 0 || state < 0) {
        snprintf(reply->message, sizeof(reply->message), "the snapshot's files are gone");
        return -ESTALE;
    }
    if (make_room(h) < 0) {
        snprintf(reply->message, sizeof(reply->message),
                 "%d snapshots are being read into memory, or are there to be used next; try again",
                 VM_LOADED_MAX);
        return -EAGAIN;
    }
    return load_start(w, p, memory, state);
}

void vm_loads_abandon(struct warden *w)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (!h)
        return;
    list_for_each(l, &h->loads, struct vm_load, node)
        l->n_tags = 0;
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        h->loaded[i].promised = 0;
}

void vm_loaded_done(struct vm_host *h)
{
    list_for_each_safe(l, &h->loads, struct vm_load, node)
        load_free(l);
    for (size_t i = 0; i < ELEMENTS(h->loaded); i++)
        loaded_close(&h->loaded[i]);
}
