/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's sockets and files on the host, where the operator named them: made here, because
 * only the warden sees the host's paths, and served by mas-vmm (vmm/lines.c, relay.c, outlet.c).
 *
 * What has the machine's id in its name goes with the machine, or there would be more of them from
 * day to day. But the console of a machine that ended by itself says why, so its files are left
 * until as many others have ended so. A file without the id is the operator's. */
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

static int open_socket(struct vm_socket *k, const struct sockaddr_un *sa)
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
    memcpy(k->path, sa->sun_path, sizeof(k->path));
    k->inode = st.st_ino;
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

static int announce_socket(struct cell *s, struct vm_socket *k, const char *pattern,
                           const char *what)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (!pattern[0])
        return 0;
    int r = expand_path(s, pattern, sa.sun_path, sizeof(sa.sun_path));
    if (r < 0)
        return r;
    enter(s->warden->host_ns_fd);
    int fd = open_socket(k, &sa);
    enter(s->warden->own_ns_fd);
    return announce(s, fd, what);
}

static void keep_own_file(struct vm_own_file *f, const char *path, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    snprintf(f->path, sizeof(f->path), "%s", path);
    f->device = st.st_dev;
    f->inode = st.st_ino;
}

/* Appended to, and never through a link that others may have made. */
static int announce_file(struct cell *s, struct vm_own_file *f, const char *pattern,
                         const char *what)
{
    const int flags =
        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    char path[MACHINE_PATH_SIZE + 64];
    if (!pattern[0])
        return 0;
    int r = expand_path(s, pattern, path, sizeof(path));
    if (r < 0)
        return r;
    enter(s->warden->host_ns_fd);
    int fd = open(path, flags, 0600);
    r = fd < 0 ? -errno : 0;
    enter(s->warden->own_ns_fd);
    if (r >= 0 && strstr(pattern, MACHINE_ID))
        keep_own_file(f, path, fd);
    return announce(s, r < 0 ? r : fd, what);
}

int vm_socket_announce(struct cell *s)
{
    const struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    int r = announce_file(s, &v->log, h->machine.log_path, CHANNEL_LOG);
    if (r < 0)
        return r;
    r = announce_file(s, &v->metrics, h->machine.metrics_path, CHANNEL_METRICS);
    if (r < 0)
        return r;
    r = announce_socket(s, &v->api, h->machine.api_socket, CHANNEL_API);
    if (r < 0)
        return r;
    return announce_socket(s, &v->vsock, h->machine.uds_path, CHANNEL_LISTENER);
}

static void end_socket(const struct cell *s, struct vm_socket *k)
{
    struct stat st;
    if (!k->path[0])
        return;
    enter(s->warden->host_ns_fd);
    if (lstat(k->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == k->inode)
        unlink(k->path);
    enter(s->warden->own_ns_fd);
    k->path[0] = 0;
}

/* In the host view. What has taken its name since is another's. */
static void remove_own_file(struct vm_own_file *f)
{
    struct stat st;
    if (f->path[0] && lstat(f->path, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == f->device &&
        st.st_ino == f->inode)
        unlink(f->path);
    f->path[0] = 0;
}

/* The control plane kills what it has lost, so a machine that ended by itself may have been killed
 * before its exit was read: what counts is what ended mas-vmm. */
static bool was_killed(const struct cell *s)
{
    return s->killed && WIFSIGNALED(s->wait_status) && WTERMSIG(s->wait_status) == SIGKILL;
}

static void end_file(struct cell *s, struct vm_own_file *f)
{
    struct vm_host *h = s->warden->hosts[CELL_VM];
    struct vm_own_file *place = &h->left_files[h->n_left_files % VM_LEFT_FILES_MAX];
    if (!f->path[0])
        return;
    enter(s->warden->host_ns_fd);
    if (was_killed(s)) {
        remove_own_file(f);
    } else {
        remove_own_file(place); /* the oldest makes way */
        *place = *f;
        h->n_left_files++;
    }
    enter(s->warden->own_ns_fd);
}

void vm_socket_end(struct cell *s)
{
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    end_file(s, &v->log);
    end_file(s, &v->metrics);
    end_socket(s, &v->api);
    end_socket(s, &v->vsock);
}
