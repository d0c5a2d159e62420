/* SPDX-License-Identifier: Apache-2.0 */
/* The listener, and a process per connection. See tls.h. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "net/pin.h"
#include "pod/tls.h"

#define BACKLOG     16
#define KEEPALIVE_S 15

static int listen_family(int family, uint16_t port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    const void *address = family == AF_INET6 ? (const void *)&any6 : (const void *)&any4;
    socklen_t size = family == AF_INET6 ? sizeof(any6) : sizeof(any4);
    const int on = 1, off = 0;
    _cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
        bind(fd, address, size) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return fd_steal(&fd);
}

/* One socket for both families where the pod has IPv6 at all. */
static int listen_at(uint16_t port)
{
    int fd = listen_family(AF_INET6, port);
    return fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL ? listen_family(AF_INET, port) : fd;
}

/* Only a process of this network namespace has an address of it: one that could be bound here. The
 * kernel says of others that they are not there (EADDRNOTAVAIL); whatever else it says proves
 * nothing, and the peer counts as inside. */
static bool peer_is_inside(int fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    const int off = 0;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) < 0)
        return true; /* it has gone */
    if (peer.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&peer)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&peer)->sin_port = 0;
    _cleanup_close_ int probe = socket(peer.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return true;
    if (peer.ss_family == AF_INET6)
        setsockopt(probe, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    return bind(probe, (struct sockaddr *)&peer, size) == 0 || errno != EADDRNOTAVAIL;
}

static void set_keepalive(int fd)
{
    const int on = 1, idle = KEEPALIVE_S, between = 5, times = 4;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
}

/* True where a process has it now. */
static bool start_connection(SSL_CTX *ctx, int listener, const struct tls_options *o)
{
    _cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 || peer_is_inside(fd))
        return false;
    pid_t pid = helper_fork(&fd, 1);
    if (pid != 0)
        return pid > 0;
    signal(SIGALRM, SIG_DFL);
    set_keepalive(fd);
    _exit(tls_carry(ctx, fd, o) < 0);
}

static unsigned reap(unsigned n)
{
    while (n && waitpid(-1, NULL, WNOHANG) > 0)
        n--;
    return n;
}

static void on_child(int sig)
{
    (void)sig; /* it only ends the wait */
}

/* SIGCHLD is taken in ppoll() alone, so that none is missed between a look and the wait. */
static int serve(SSL_CTX *ctx, int listener, const struct tls_options *o)
{
    sigset_t child, before;
    struct sigaction wake = {.sa_handler = on_child};
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    sigaction(SIGCHLD, &wake, NULL);
    for (unsigned n = 0;;) {
        n = reap(n);
        struct pollfd p[] = {{.fd = o->lifeline, .events = POLLIN},
                             {.fd = n < TLS_CONNECTIONS_MAX ? listener : -1, .events = POLLIN}};
        if (ppoll(p, 2, NULL, &before) < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (p[0].revents)
            return 0;
        if (p[1].revents)
            n += start_connection(ctx, listener, o);
    }
}

static int print_fingerprint(EVP_PKEY *key)
{
    uint8_t pin[PIN_SIZE];
    char text[PIN_TEXT_SIZE];
    if (!pin_of_key(key, pin))
        return -ENOTRECOVERABLE;
    pin_format(pin, text);
    return printf(PIN_LINE "%s\n", text) < 0 || fflush(stdout) != 0 ? -EIO : 0;
}

int tls_serve(const struct tls_options *o, const char **ret_what)
{
    *ret_what = "listen";
    _cleanup_close_ int listener = listen_at(o->port);
    if (listener < 0)
        return listener;
    *ret_what = "make a key";
    EVP_PKEY *key = pin_key_new();
    SSL_CTX *ctx = key ? pin_context_new(key, true) : NULL;
    int r = ctx ? 0 : -ENOTRECOVERABLE;
    if (r == 0) {
        *ret_what = "print the fingerprint";
        r = print_fingerprint(key);
    }
    if (r == 0) {
        *ret_what = "serve";
        r = serve(ctx, listener, o);
    }
    SSL_CTX_free(ctx);
    EVP_PKEY_free(key);
    return r;
}
