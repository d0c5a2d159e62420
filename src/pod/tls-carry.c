/* SPDX-License-Identifier: Apache-2.0 */
/* One connection, in a process of its own. See tls.h. */
#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/pin.h"
#include "pod/link.h"
#include "pod/tls.h"

#define BUFFER_SIZE 16384 /* of a TLS record */

struct buffer {
    size_t begin, end;
    char bytes[BUFFER_SIZE];
};

struct carry {
    SSL *ssl;
    int net, door;
    struct buffer in, out;       /* from the network, and to it */
    short net_wants, door_wants; /* what the next poll() waits for */
};

/* Whether to go on: n > 0 bytes were moved, or the connection waits for the network. */
static bool carry_ssl_goes_on(struct carry *c, int n)
{
    if (n > 0)
        return true;
    int why = SSL_get_error(c->ssl, n);
    ERR_clear_error();
    if (why == SSL_ERROR_WANT_READ)
        c->net_wants |= POLLIN;
    else if (why == SSL_ERROR_WANT_WRITE)
        c->net_wants |= POLLOUT;
    else
        return false;
    return true;
}

static bool carry_door_goes_on(struct carry *c, ssize_t n, short wants)
{
    if (n > 0)
        return true;
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        return false;
    c->door_wants |= wants;
    return true;
}

/* Each of the two moves once: fills an empty buffer, or takes from a full one. */
static bool carry_inwards(struct carry *c, bool *moved)
{
    struct buffer *b = &c->in;
    if (b->begin < b->end) {
        ssize_t n = write(c->door, b->bytes + b->begin, b->end - b->begin);
        *moved |= n > 0;
        b->begin += n > 0 ? (size_t)n : 0;
        return carry_door_goes_on(c, n, POLLOUT);
    }
    int n = SSL_read(c->ssl, b->bytes, sizeof(b->bytes));
    *moved |= n > 0;
    b->begin = 0;
    b->end = n > 0 ? (size_t)n : 0;
    return carry_ssl_goes_on(c, n);
}

static bool carry_outwards(struct carry *c, bool *moved)
{
    struct buffer *b = &c->out;
    if (b->begin < b->end) {
        int n = SSL_write(c->ssl, b->bytes + b->begin, (int)(b->end - b->begin));
        *moved |= n > 0;
        b->begin += n > 0 ? (size_t)n : 0;
        return carry_ssl_goes_on(c, n);
    }
    ssize_t n = read(c->door, b->bytes, sizeof(b->bytes));
    *moved |= n > 0;
    b->begin = 0;
    b->end = n > 0 ? (size_t)n : 0;
    return carry_door_goes_on(c, n, POLLIN);
}

/* A descriptor that nothing is wanted of is not polled: a hang-up would be reported again and again
 * while the other side takes what is left. */
static int carry_copy(struct carry *c)
{
    for (;;) {
        bool moved = false;
        c->net_wants = c->door_wants = 0;
        if (!carry_inwards(c, &moved) || !carry_outwards(c, &moved))
            return 0;
        if (moved)
            continue;
        struct pollfd p[] = {{.fd = c->net_wants ? c->net : -1, .events = c->net_wants},
                             {.fd = c->door_wants ? c->door : -1, .events = c->door_wants}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return -errno;
    }
}

int tls_carry(struct ssl_ctx_st *ctx, int fd, const struct tls_options *o)
{
    static struct carry c;
    const char open = PIN_OPEN;
    alarm(TLS_HANDSHAKE_S);
    c.net = fd;
    c.ssl = pin_connection_new(ctx, fd, o->peer);
    if (!c.ssl || SSL_accept(c.ssl) != 1)
        return -EPROTO;
    c.door = link_connect_door(o->door_path);
    if (c.door < 0 || SSL_write(c.ssl, &open, 1) != 1)
        return -ENOTCONN;
    alarm(0);
    if (fd_set_nonblock(c.net, true) < 0 || fd_set_nonblock(c.door, true) < 0)
        return -errno;
    int r = carry_copy(&c);
    SSL_shutdown(c.ssl);
    return r;
}
