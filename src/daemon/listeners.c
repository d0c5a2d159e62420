/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "config/config.h"
#include "net/http.h"
#include "warden/startup.h"

#define UNIX_PREFIX      "unix:"
#define SYSTEMD_FD       3 /* the first one of LISTEN_FDS */
#define ADDRESS_TEXT_MAX 160

struct listener {
    int fd;
    /* A Unix socket's file, by its directory: paths mean nothing to the warden. */
    int dir_fd;
    char *name;
    dev_t dev;
    ino_t ino;
};

static struct listener *add_listener(struct listeners *l, int fd)
{
    l->all = xrealloc(l->all, (l->n + 1) * sizeof(*l->all));
    l->fds = xrealloc(l->fds, (l->n + 1) * sizeof(*l->fds));
    l->all[l->n] = (struct listener){.fd = fd, .dir_fd = -1};
    l->fds[l->n] = fd;
    return &l->all[l->n++];
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    if (a->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
    return a->ss_family == AF_UNIX;
}

static void format_address(int fd, char out[ADDRESS_TEXT_MAX])
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);
    char host[INET6_ADDRSTRLEN] = "?";
    if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        a.ss_family = AF_UNSPEC;
    if (a.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
    } else if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else if (a.ss_family == AF_UNIX) {
        snprintf(out, ADDRESS_TEXT_MAX, UNIX_PREFIX "%.108s", ((struct sockaddr_un *)&a)->sun_path);
    } else {
        snprintf(out, ADDRESS_TEXT_MAX, "?");
    }
}

/* Whether callers from other machines are asked who they are, or the operator wants them unasked.
 */
static bool may_leave_loopback(const struct config *c)
{
    return c->api.token || c->api.require_keys || c->insecure;
}

static int refuse_open_door(const struct config *c, const char *address, bool loopback,
                            struct error *err)
{
    if (loopback || may_leave_loopback(c))
        return 0;
    return error_set(err, ERROR_INVALID, 0,
                     "'%s' can be reached from other machines: set require_keys, auth_token or "
                     "auth_token_file, listen on 127.0.0.1, or say --insecure",
                     address);
}

/* Remembers which file is ours, so that another daemon's is never removed. */
static void remember_file(struct listener *l, const char *path)
{
    _cleanup_free_ char *dir = xstrdup(path), *base = xstrdup(path);
    struct stat st;
    l->dir_fd = open(dirname(dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->dir_fd < 0 || fstatat(l->dir_fd, basename(base), &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    l->name = xstrdup(basename(base));
    l->dev = st.st_dev;
    l->ino = st.st_ino;
}

static int open_address(struct listeners *l, const struct config *c, const char *address,
                        struct error *err)
{
    bool loopback = false;
    _cleanup_free_ char *own = NULL;
    if (strcmp(address, UNIX_PREFIX) == 0) {
        _cleanup_free_ char *path = path_default_socket();
        if (!path)
            return error_set(err, ERROR_INVALID, 0,
                             "'unix:' without a path needs $XDG_RUNTIME_DIR");
        address = own = xasprintf(UNIX_PREFIX "%s", path);
    }
    int fd = http_listen_open(address, c->http.listen_backlog, &loopback, err);
    if (fd < 0)
        return fd;
    struct listener *listener = add_listener(l, fd);
    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        remember_file(listener, address + strlen(UNIX_PREFIX));
    return refuse_open_door(c, address, loopback, err);
}

static unsigned port_of(int fd)
{
    struct sockaddr_in a = {0};
    socklen_t len = sizeof(a);
    return getsockname(fd, (struct sockaddr *)&a, &len) < 0 ? 0 : ntohs(a.sin_port);
}

/* ":PORT" names no address. Where nothing would ask other machines who they are, it means this
 * machine's own addresses: the first command of many guides then works, and stays at home. */
static int open_loopback(struct listeners *l, const struct config *c, const char *port,
                         struct error *err)
{
    struct error six = {0};
    _cleanup_free_ char *v4 = xasprintf("127.0.0.1%s", port);
    int r = open_address(l, c, v4, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *v6 = xasprintf("[::1]:%u", port_of(l->fds[l->n - 1]));
    r = open_address(l, c, v6, &six);
    bool without = r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL;
    if (r < 0 && !without) {
        *err = six;
        return r;
    }
    log_warn("listening on loopback only (127.0.0.1%s): '%s' names no address, and neither "
             "auth_token nor require_keys is set",
             without ? "" : " and ::1", port);
    return 0;
}

/* Sockets that systemd opened for us; they come in addition to the config's. */
static int take_systemd(struct listeners *l, const struct config *c, struct error *err)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    /* The variables are inherited by every child of a service: they are ours only where they name
     * us. */
    if (!pid || !count || atol(pid) != (long)getpid())
        return 0;
    int n = atoi(count);
    for (int fd = SYSTEMD_FD; fd < SYSTEMD_FD + n; fd++) {
        struct sockaddr_storage a = {0};
        socklen_t len = sizeof(a);
        char text[ADDRESS_TEXT_MAX];
        if (fd_set_cloexec(fd, true) < 0 || fd_set_nonblock(fd, true) < 0 ||
            getsockname(fd, (struct sockaddr *)&a, &len) < 0)
            return error_set(err, ERROR_INVALID, errno, "socket %d of LISTEN_FDS", fd);
        add_listener(l, fd);
        format_address(fd, text);
        int r = refuse_open_door(c, text, is_loopback(&a), err);
        if (r < 0)
            return r;
    }
    return 0;
}

int listeners_open(struct listeners *l, const struct config *c, struct error *err)
{
    *l = (struct listeners){0};
    int r = take_systemd(l, c, err);
    for (char **a = c->listen; r == 0 && a && *a; a++)
        r = **a == ':' && !may_leave_loopback(c) ? open_loopback(l, c, *a, err)
                                                 : open_address(l, c, *a, err);
    if (r == 0 && l->n > HANDOVER_LISTENERS_MAX)
        r = error_set(err, ERROR_INVALID, 0, "more than %d listening sockets",
                      HANDOVER_LISTENERS_MAX);
    return r;
}

void listeners_log(int fd)
{
    char text[ADDRESS_TEXT_MAX];
    format_address(fd, text);
    log_info("listening address=%s", text);
}

void listeners_hand_over(const struct listeners *l, struct startup *s)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct listener *from = &l->all[i];
        struct startup_listener *to = &s->listeners[s->n_listeners++];
        *to = (struct startup_listener){
            .fd = from->fd, .dir_fd = from->dir_fd, .dev = from->dev, .ino = from->ino};
        snprintf(to->name, sizeof(to->name), "%s", from->name ? from->name : "");
    }
}

/* Another daemon may have replaced the socket since then: only the file that is still the one we
 * made is removed. */
static void remove_file(const struct listener *l)
{
    struct stat st;
    if (l->name && fstatat(l->dir_fd, l->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == l->dev && st.st_ino == l->ino)
        unlinkat(l->dir_fd, l->name, 0);
}

void listeners_close(struct listeners *l)
{
    for (size_t i = 0; i < l->n; i++) {
        remove_file(&l->all[i]);
        fd_close(&l->all[i].fd);
        fd_close(&l->all[i].dir_fd);
        free(l->all[i].name);
    }
    free(l->all);
    free(l->fds);
    *l = (struct listeners){0};
}
