/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's vsock socket on the host, where the operator named one: made here, because only the
 * warden sees the host's paths, and served by mas-vmm (vmm/lines.c). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "proto/channel.h"
#include "warden/cell-internal.h"
#include "warden/vm/vm.h"

#define BACKLOG 16

/* The operator's path with the sandbox's id in it. */
static int expand_path(const struct cell *s, const char *pattern, struct sockaddr_un *ret)
{
    const char *at = strstr(pattern, MACHINE_ID);
    int n = at ? snprintf(ret->sun_path, sizeof(ret->sun_path), "%.*s%s%s", (int)(at - pattern),
                          pattern, s->id, at + strlen(MACHINE_ID))
               : snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", pattern);
    ret->sun_family = AF_UNIX;
    return n < 0 || (size_t)n >= sizeof(ret->sun_path) ? -ENAMETOOLONG : 0;
}

/* What a warden that is gone has left there, or a machine before this one whose path has no id. */
static void remove_old(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
}

static int open_socket(struct vm_cell *v, const struct sockaddr_un *sa)
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
    memcpy(v->socket, sa->sun_path, sizeof(v->socket));
    v->socket_inode = st.st_ino;
    return fd_steal(&fd);
}

static void enter(int ns_fd)
{
    if (setns(ns_fd, CLONE_NEWNS) == 0)
        return;
    log_error("cannot change the mount namespace error=%s", strerror(errno));
    _exit(1); /* everything that follows would be done in the wrong one */
}

int vm_socket_announce(struct cell *s)
{
    const struct warden *w = s->warden;
    const struct vm_host *h = w->hosts[CELL_VM];
    struct sockaddr_un sa = {0};
    if (!h->machine.uds_path[0])
        return 0;
    int r = expand_path(s, h->machine.uds_path, &sa);
    if (r < 0)
        return r;
    enter(w->host_ns_fd);
    int fd = open_socket(container_of(s, struct vm_cell, cell), &sa);
    enter(w->own_ns_fd);
    if (fd < 0)
        return fd;
    r = (int)fd_send_msg(s->channel_fd, CHANNEL_LISTENER, 1, &fd, 1);
    close(fd);
    return r < 0 ? r : 0;
}

void vm_socket_end(struct cell *s)
{
    struct vm_cell *v = container_of(s, struct vm_cell, cell);
    struct stat st;
    if (!v->socket[0])
        return;
    enter(s->warden->host_ns_fd);
    if (lstat(v->socket, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == v->socket_inode)
        unlink(v->socket);
    enter(s->warden->own_ns_fd);
    v->socket[0] = 0;
}
