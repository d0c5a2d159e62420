/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's sockets and files on the host, where the operator named them: made here, because
 * only the warden sees the host's paths, and served by mas-vmm (vmm/lines.c, relay.c, outlet.c).
 *
 * What has the machine's id in its name goes with the machine, or there would be more of them from
 * day to day. But the console of a machine that ended by itself says why, so its files are left
 * until as many others have ended so. A file without the id is the operator's. All of them are on
 * record (record.c), so that they go, too, where this warden is killed. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/channel.h"
#include "warden/cell-internal.h"
#include "warden/vm/vm.h"

#define BACKLOG 16

/* The operator's path with the sandbox's id in it. */
static int expand_path(const struct cell *s, const char *pattern, char *ret, size_t size)
{
    const char *at = strstr(pattern, MACHINE_ID);
    int n = at ? snprintf(ret, size, "%.*s%s%s", (int)(at - pattern), pattern, s->id,
                          at + strlen(MACHINE_ID))
               : snprintf(ret, size, "%s", pattern);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* What a warden that is gone has left there, or a machine before this one whose path has no id. */
static void remove_old(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
}

static int open_socket(const struct sockaddr_un *sa, uint64_t *ret_inode)
{
    struct stat st;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    remove_old(sa->sun_path);
    mode_t old = umask(0177); /* the operator's alone */
    int r = bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno : 0;
    umask(old);
    if (r < 0 || listen(fd, BACKLOG) < 0 || lstat(sa->sun_path, &st) < 0)
        return r < 0 ? r : -errno;
    *ret_inode = st.st_ino;
    return fd_steal(&fd);
}

static void enter(int ns_fd)
{
    if (setns(ns_fd, CLONE_NEWNS) == 0)
        return;
    log_error("cannot change the mount namespace error=%s", strerror(errno));
    _exit(1); /* everything that follows would be done in the wrong one */
}

static int announce(struct cell *s, int fd, const char *what)
{
    int r = fd < 0 ? fd : (int)fd_send_msg(s->channel_fd, what, 1, &fd, 1);
    if (fd >= 0)
        close(fd);
    return r < 0 ? r : 0;
}

static int announce_socket(struct cell *s, const char *pattern, const char *what,
                           uint64_t *ret_inode)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int r = expand_path(s, pattern, sa.sun_path, sizeof(sa.sun_path));
    if (r < 0)
        return r;
    enter(s->warden->host_ns_fd);
    int fd = open_socket(&sa, ret_inode);
    enter(s->warden->own_ns_fd);
    return announce(s, fd, what);
}

/* Appended to, and never through a link that others may have made. */
static int announce_file(struct cell *s, const char *pattern, const char *what, uint64_t *ret_inode)
{
    const int flags =
        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    char path[MACHINE_PATH_SIZE + PLAN_ID_SIZE];
    struct stat st;
    int r = expand_path(s, pattern, path, sizeof(path));
    if (r < 0)
        return r;
    enter(s->warden->host_ns_fd);
    int fd = open(path, flags, 0600);
    r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    enter(s->warden->own_ns_fd);
    if (r == 0)
        *ret_inode = st.st_ino;
    else
        fd_close(&fd);
    return announce(s, r < 0 ? r : fd, what);
}

/* What the operator's file says of the places of all machines. */
struct place_row {
    const char *pattern, *what;
    int (*announce)(struct cell *s, const char *pattern, const char *what, uint64_t *ret_inode);
};

static struct place_row place_row(const struct vm_host *h, enum vm_place_kind kind)
{
    const struct machine_config *m = &h->machine;
    const struct place_row rows[] = {
        [VM_PLACE_LOG] = {m->log_path, CHANNEL_LOG, announce_file},
        [VM_PLACE_METRICS] = {m->metrics_path, CHANNEL_METRICS, announce_file},
        [VM_PLACE_API] = {m->api_socket, CHANNEL_API, announce_socket},
        [VM_PLACE_VSOCK] = {m->uds_path, CHANNEL_LISTENER, announce_socket},
    };
    static_assert(ELEMENTS(rows) == _VM_PLACE_MAX, "a row per place");
    return rows[kind];
}

/* Before any of them is made. */
static int record_places(struct cell *s, struct vm_record *record)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    bool any = false;
    vm_record_begin(h, record, s->id);
    for (int i = 0; i < _VM_PLACE_MAX; i++) {
        const struct place_row row = place_row(h, i);
        struct vm_place *p = &record->places[i];
        if (!row.pattern[0] || (row.announce == announce_file && !strstr(row.pattern, MACHINE_ID)))
            continue;
        int r = expand_path(s, row.pattern, p->path, sizeof(p->path));
        if (r < 0)
            return r;
        any = true;
    }
    if (!any)
        record->id[0] = 0;
    return any ? vm_record_save(h, record) : 0;
}

int vm_socket_announce(struct cell *s)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_record *record = &container_of(s, struct vm_cell, cell)->record;
    int r = record_places(s, record);
    for (int i = 0; r == 0 && i < _VM_PLACE_MAX; i++) {
        const struct place_row row = place_row(h, i);
        if (row.pattern[0])
            r = row.announce(s, row.pattern, row.what, &record->places[i].inode);
    }
    return r < 0 || !record->id[0] ? r : vm_record_save(h, record);
}

/* The control plane kills what it has lost, so a machine that ended by itself may have been killed
 * before its exit was read: what counts is what ended mas-vmm. */
static bool was_killed(const struct cell *s)
{
    return s->killed && WIFSIGNALED(s->wait_status) && WTERMSIG(s->wait_status) == SIGKILL;
}

void vm_socket_end(struct cell *s)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_record *record = &container_of(s, struct vm_cell, cell)->record;
    if (!record->id[0])
        return;
    enter(s->warden->host_ns_fd);
    if (was_killed(s))
        vm_record_remove(h, record);
    else
        vm_record_leave(h, record);
    enter(s->warden->own_ns_fd);
}

void vm_sockets_sweep(struct warden *w)
{
    enter(w->host_ns_fd);
    vm_records_sweep(w->hosts[CELL_VM]);
    enter(w->own_ns_fd);
}
