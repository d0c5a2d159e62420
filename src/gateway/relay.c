/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"

/* Fills of one buffer before other connections get their turn. */
#define RELAY_ROUNDS 8

/* The buffer that was given back last: most bytes leave at once, and the next relay needs one. */
static _Thread_local char *spare;

void relay_init(struct relay *r)
{
    *r = (struct relay){0};
}

static void take_buffer(struct relay *r)
{
    if (r->data)
        return;
    /* The spare's old bytes are of another connection: only data[start .. start + len) is ever
     * sent. */
    r->data = spare ? spare : xcalloc(1, RELAY_BUFFER);
    spare = NULL;
}

static void give_buffer_back(struct relay *r)
{
    if (spare)
        free(r->data);
    else
        spare = r->data;
    r->data = NULL;
    r->start = r->len = 0;
}

void relay_done(struct relay *r)
{
    give_buffer_back(r);
    *r = (struct relay){0};
}

bool relay_wants_read(const struct relay *r)
{
    return !r->eof && r->len < RELAY_BUFFER;
}

bool relay_wants_write(const struct relay *r)
{
    return !r->shut && r->len > 0;
}

bool relay_finished(const struct relay *r)
{
    return r->shut;
}

static void make_room(struct relay *r)
{
    take_buffer(r);
    if (r->len == 0)
        r->start = 0;
    if (r->start && r->start + r->len == RELAY_BUFFER) {
        memmove(r->data, r->data + r->start, r->len);
        r->start = 0;
    }
}

bool relay_put(struct relay *r, const void *data, size_t len)
{
    make_room(r);
    if (len > RELAY_BUFFER - r->start - r->len)
        return false;
    memcpy(r->data + r->start + r->len, data, len);
    r->len += len;
    return true;
}

/* Past the limit the source is read all the same, so that its end is noticed. */
static ssize_t relay_receive(struct relay *r, int from)
{
    char dropped[4096];
    if (r->bounded && r->limit == 0) {
        ssize_t n = recv(from, dropped, sizeof(dropped), MSG_DONTWAIT);
        return n > 0 ? -EAGAIN : n < 0 ? -errno : 0;
    }
    make_room(r);
    size_t end = r->start + r->len, room = RELAY_BUFFER - end;
    if (r->bounded && r->limit < room)
        room = (size_t)r->limit;
    ssize_t n = recv(from, r->data + end, room, MSG_DONTWAIT);
    if (n > 0 && r->bounded)
        r->limit -= (uint64_t)n;
    return n < 0 ? -errno : n;
}

int relay_fill(struct relay *r, int from)
{
    if (!relay_wants_read(r))
        return 0;
    ssize_t n = relay_receive(r, from);
    if (n <= 0 && r->len == 0)
        give_buffer_back(r);
    if (n == -EAGAIN || n == -EINTR)
        return 0;
    if (n <= 0) {
        r->eof = true;
        r->cut = r->cut || n < 0;
        return (int)n;
    }
    r->len += (size_t)n;
    return (int)n;
}

void relay_lose_sink(struct relay *r)
{
    if (r->shut)
        return;
    /* What is buffered has nowhere to go. */
    r->sink_gone = true;
    r->len = 0;
    r->eof = r->shut = true;
}

static ssize_t drain(struct relay *r, int to)
{
    if (!relay_wants_write(r))
        return 0;
    ssize_t n = send(to, r->data + r->start, r->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0) {
        /* A socket's error is given out once: what reads from the same socket gets an ordinary end
         * after this. */
        r->sink_broke = errno != EPIPE;
        relay_lose_sink(r);
        return 0;
    }
    r->start += (size_t)n;
    r->len -= (size_t)n;
    r->bytes += (uint64_t)n;
    return n;
}

void relay_drain(struct relay *r, int to)
{
    drain(r, to);
    if (r->len == 0)
        give_buffer_back(r);
}

void relay_pass_end(struct relay *r, int to)
{
    if (!r->eof || r->len || r->shut)
        return;
    /* An end that is passed on after a cut would make half of an answer look like all of it. */
    if (!r->cut)
        shutdown(to, SHUT_WR);
    r->shut = true;
}

void relay_pump(struct relay *r, int from, int to)
{
    for (int i = 0; i < RELAY_ROUNDS; i++) {
        int in = relay_fill(r, from);
        ssize_t out = drain(r, to);
        if (in <= 0 && out <= 0)
            break;
    }
    if (r->len == 0)
        give_buffer_back(r);
    if (!r->keeps_end)
        relay_pass_end(r, to);
}
