/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an address from the configuration into a listening socket. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "net/http.h"

/* --- Unix sockets */

static int open_unix_socket(struct error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 ? fd : error_set(err, ERROR_INTERNAL, errno, "socket");
}

/* A socket file without a listener is what a killed server leaves behind; anything else stays. */
static int remove_stale(const struct sockaddr_un *addr, struct error *err)
{
    struct stat st;
    if (lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : error_set(err, ERROR_INVALID, errno, "'%s'", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERROR_INVALID, EEXIST, "'%s' is there and is not a socket",
                         addr->sun_path);
    _cleanup_close_ int probe = open_unix_socket(err);
    if (probe < 0)
        return probe;
    if (connect(probe, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
        return error_set(err, ERROR_CONFLICT, EADDRINUSE, "'%s'", addr->sun_path);
    if (errno != ECONNREFUSED)
        return error_set(err, ERROR_INVALID, errno, "'%s'", addr->sun_path);
    if (unlink(addr->sun_path) < 0 && errno != ENOENT)
        return error_set(err, ERROR_INVALID, errno, "remove stale socket '%s'", addr->sun_path);
    return 0;
}

static int bind_unix(const char *path, struct error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (!len || len >= sizeof(addr.sun_path))
        return error_set(err, ERROR_INVALID, 0, "socket path of 1 to %zu bytes needed: '%s'",
                         sizeof(addr.sun_path) - 1, path);
    memcpy(addr.sun_path, path, len);
    int r = remove_stale(&addr, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = open_unix_socket(err);
    if (fd < 0)
        return fd;
    /* Linux gives the file the socket's own mode, so there is no moment when it is open to others.
     */
    if (fchmod(fd, 0600) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "fchmod");
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return error_set(err, ERROR_INVALID, errno, "bind '%s'", path);
    return fd_steal(&fd);
}

/* --- TCP */

static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a))
        return a->s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(a);
}

static int refuse_address(const char *address, struct error *err)
{
    return error_set(err, errno == EADDRINUSE ? ERROR_CONFLICT : ERROR_INVALID, errno,
                     "listen on '%s'", address);
}

/* [::] takes IPv4 as well, as people expect of it. A single IPv6 address does not: that would
 * open addresses which were not named. */
static int bind_tcp(const struct sockaddr *sa, socklen_t len, const char *address,
                    struct error *err)
{
    static const int on = 1, off = 0;
    _cleanup_close_ int fd =
        socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0)
        return error_set(err, ERROR_INVALID, errno, "listen on '%s'", address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sa->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
        bool any = IN6_IS_ADDR_UNSPECIFIED(a);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof(on));
    }
    if (bind(fd, sa, len) < 0)
        return refuse_address(address, err);
    return fd_steal(&fd);
}

static int parse_port(const char *text, uint16_t *ret)
{
    unsigned port = 0;
    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        port = port * 10 + (unsigned)(*text - '0');
        if (port > 65535)
            return -ERANGE;
    }
    *ret = (uint16_t)port;
    return 0;
}

/* Splits "host:port" and "[v6]:port". */
static int split_address(const char *address, char host[256], uint16_t *ret_port, struct error *err)
{
    const char *colon = strrchr(address, ':');
    const char *start = address;
    size_t len = colon ? (size_t)(colon - address) : 0;
    if (!colon || parse_port(colon + 1, ret_port) < 0)
        return error_set(err, ERROR_INVALID, 0,
                         "'%s' is not HOST:PORT, [V6]:PORT, :PORT or unix:PATH", address);
    if (len >= 2 && start[0] == '[' && start[len - 1] == ']') {
        start++;
        len -= 2;
    } else if (memchr(start, ':', len)) {
        return error_set(err, ERROR_INVALID, 0, "IPv6 addresses go in brackets: '[%.*s]%s'",
                         (int)len, start, colon);
    }
    if (len >= 256)
        return error_set(err, ERROR_INVALID, 0, "the host in '%s' is too long", address);
    memcpy(host, start, len);
    host[len] = 0;
    return 0;
}

/* A host without IPv6 has the wildcard of IPv4 only. An address in use is no reason to try it:
 * the error of the first attempt is the one that helps. */
static int bind_any(uint16_t port, const char *address, struct error *err)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct error first = {0};
    int fd = bind_tcp((struct sockaddr *)&six, sizeof(six), address, &first);
    if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL) {
        if (fd < 0 && err)
            *err = first;
        return fd;
    }
    return bind_tcp((struct sockaddr *)&four, sizeof(four), address, err);
}

static int bind_host(const char *host, uint16_t port, const char *address, bool *ret_loopback,
                     struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    /* What "localhost" means is not a question for a name server. */
    if (!strcasecmp(host, "localhost"))
        host = "127.0.0.1";
    struct addrinfo *list = NULL;
    int r = getaddrinfo(host, service, &hints, &list);
    if (r != 0)
        return error_set(err, ERROR_INVALID, 0, "cannot resolve '%s': %s", host, gai_strerror(r));
    bool loopback = is_loopback(list->ai_addr);
    int fd = bind_tcp(list->ai_addr, list->ai_addrlen, address, err);
    freeaddrinfo(list);
    if (fd >= 0)
        *ret_loopback = loopback;
    return fd;
}

static int bind_address(const char *address, bool *ret_loopback, struct error *err)
{
    if (!strncmp(address, "unix:", 5)) {
        int fd = bind_unix(address + 5, err);
        if (fd >= 0)
            *ret_loopback = true;
        return fd;
    }
    char host[256];
    uint16_t port = 0;
    int r = split_address(address, host, &port, err);
    if (r < 0)
        return r;
    if (*host)
        return bind_host(host, port, address, ret_loopback, err);
    r = bind_any(port, address, err);
    if (r >= 0)
        *ret_loopback = false;
    return r;
}

int http_listen_open(const char *address, int backlog, bool *ret_loopback, struct error *err)
{
    _cleanup_close_ int fd = bind_address(address, ret_loopback, err);
    if (fd < 0)
        return fd;
    return listen(fd, backlog) < 0 ? refuse_address(address, err) : fd_steal(&fd);
}
