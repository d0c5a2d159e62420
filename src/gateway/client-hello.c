/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/client-hello.h"

#include <stdbool.h>
#include <string.h>

#define RECORD_HEADER     5
#define HANDSHAKE_HEADER  4
#define CLIENT_HELLO_TYPE 1
#define EXTENSION_NAME    0
#define NAME_TYPE_HOST    0

/* Bytes that are still to be read; `bad` once more was asked for than there are. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take_bytes(struct cursor *c, size_t n)
{
    const uint8_t *at = c->at;
    if (c->bad || n > c->left) {
        c->bad = true;
        return NULL;
    }
    c->at += n;
    c->left -= n;
    return at;
}

static size_t take_number(struct cursor *c, size_t bytes)
{
    const uint8_t *at = take_bytes(c, bytes);
    size_t value = 0;
    for (size_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* A vector with its length in front, as a cursor of its own. */
static struct cursor take_vector(struct cursor *c, size_t length_bytes)
{
    size_t n = take_number(c, length_bytes);
    const uint8_t *at = take_bytes(c, n);
    return (struct cursor){at, at ? n : 0, !at};
}

static bool is_whole(const uint8_t *message, size_t n)
{
    return n >= HANDSHAKE_HEADER &&
           n - HANDSHAKE_HEADER >= (size_t)(message[1] << 16 | message[2] << 8 | message[3]);
}

/* Puts the handshake's bytes of its records together, as many as are there. What comes behind the
 * message is not looked at: a client may send data along with it. */
static enum client_hello join_records(const uint8_t *data, size_t len, uint8_t *out, size_t *n)
{
    *n = 0;
    while (len && !is_whole(out, *n)) {
        if (data[0] != CLIENT_HELLO_TLS || (len > 1 && data[1] != 3))
            return HELLO_BAD;
        if (len < RECORD_HEADER)
            break;
        size_t size = (size_t)(data[3] << 8 | data[4]);
        if (size == 0 || size > CLIENT_HELLO_MAX)
            return HELLO_BAD;
        size_t have = len - RECORD_HEADER < size ? len - RECORD_HEADER : size;
        memcpy(out + *n, data + RECORD_HEADER, have);
        *n += have;
        data += RECORD_HEADER + have;
        len -= RECORD_HEADER + have;
    }
    return HELLO_MORE;
}

/* One name of the type host; a list of anything else is nothing that a client sends. */
static enum client_hello read_name(struct cursor extension, char ret_name[SERVER_NAME_SIZE])
{
    struct cursor list = take_vector(&extension, 2);
    size_t type = take_number(&list, 1);
    struct cursor name = take_vector(&list, 2);
    if (list.bad || name.bad || extension.left || list.left || type != NAME_TYPE_HOST ||
        name.left == 0 || name.left >= SERVER_NAME_SIZE || memchr(name.at, 0, name.left))
        return HELLO_BAD;
    memcpy(ret_name, name.at, name.left);
    ret_name[name.left] = 0;
    return HELLO_NAME;
}

static enum client_hello read_extensions(struct cursor c, char ret_name[SERVER_NAME_SIZE])
{
    enum client_hello found = HELLO_NO_NAME;
    while (c.left && !c.bad) {
        size_t type = take_number(&c, 2);
        struct cursor value = take_vector(&c, 2);
        if (c.bad || value.bad)
            return HELLO_BAD;
        if (type != EXTENSION_NAME)
            continue;
        /* Two names would be compared by one and served by the other. */
        if (found != HELLO_NO_NAME)
            return HELLO_BAD;
        found = read_name(value, ret_name);
        if (found == HELLO_BAD)
            return HELLO_BAD;
    }
    return c.bad ? HELLO_BAD : found;
}

static enum client_hello read_hello(struct cursor c, char ret_name[SERVER_NAME_SIZE])
{
    take_bytes(&c, 2 + 32); /* version, random */
    take_vector(&c, 1);     /* session */
    take_vector(&c, 2);     /* ciphers */
    take_vector(&c, 1);     /* compressions */
    if (!c.bad && c.left == 0)
        return HELLO_NO_NAME; /* older than extensions */
    struct cursor extensions = take_vector(&c, 2);
    if (c.bad || extensions.bad || c.left)
        return HELLO_BAD;
    return read_extensions(extensions, ret_name);
}

enum client_hello client_hello_parse(const uint8_t *data, size_t len,
                                     char ret_name[SERVER_NAME_SIZE])
{
    uint8_t joined[CLIENT_HELLO_MAX];
    size_t n;
    if (len > CLIENT_HELLO_MAX)
        len = CLIENT_HELLO_MAX;
    if (join_records(data, len, joined, &n) == HELLO_BAD || (n && joined[0] != CLIENT_HELLO_TYPE))
        return HELLO_BAD;
    enum client_hello more = len == CLIENT_HELLO_MAX ? HELLO_BAD : HELLO_MORE;
    if (n > 1 && joined[1] != 0) /* longer than CLIENT_HELLO_MAX */
        return HELLO_BAD;
    if (!is_whole(joined, n))
        return more;
    size_t size = (size_t)(joined[2] << 8 | joined[3]);
    return read_hello((struct cursor){joined + HANDSHAKE_HEADER, size, false}, ret_name);
}
