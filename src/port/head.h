/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an answer that a server inside a sandbox gives, taken apart strictly.
 *
 * The server is hostile. What it sends must have one meaning: every line ends in CRLF, a field name
 * is a token followed at once by a colon, nothing is folded, there are no control bytes, and the
 * body's length is said at most once and in one way. Everything else is refused, so that no client
 * or proxy behind us can read another answer out of the same bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PORT_HEAD_MAX   65536 /* bytes of one head */
#define PORT_FIELDS_MAX 100

struct port_field {
    char *name, *value;
};

enum port_framing {
    PORT_BODY_NONE,
    PORT_BODY_LENGTH,
    PORT_BODY_CHUNKED,
    PORT_BODY_UNTIL_END, /* of the connection */
};

struct port_head {
    int status; /* 100 to 599 */
    enum port_framing framing;
    uint64_t length; /* with PORT_BODY_LENGTH */
    bool has_length; /* it was said, whether or not there is a body (HEAD, 304) */
    size_t n_fields;
    struct port_field fields[PORT_FIELDS_MAX]; /* without those that are about this connection */
};

/* Takes one head from the start of data, which it writes to: fields are terminated in place.
 * bodiless: the request was HEAD. Returns the head's size, 0 when more is needed (at most
 * PORT_HEAD_MAX), or -EBADMSG with *ret_why. */
ssize_t port_head_parse(char *data, size_t len, bool bodiless, struct port_head *ret,
                        const char **ret_why);
/* A field's value, or NULL. */
const char *port_head_find(const struct port_head *h, const char *name);
