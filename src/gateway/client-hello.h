/* SPDX-License-Identifier: Apache-2.0 */
/* The server name in the first message of a TLS client (RFC 8446, RFC 6066), read strictly: what
 * comes in several records is put together, what is malformed or longer than any client writes is
 * refused. With an encrypted hello this is its outer name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CLIENT_HELLO_MAX 16384 /* bytes, records' headers included */
#define CLIENT_HELLO_TLS 0x16  /* the first byte of one */
#define SERVER_NAME_SIZE 256   /* with its NUL */

enum client_hello {
    HELLO_MORE,    /* it is not whole */
    HELLO_NAME,    /* ret_name is the name, as the client wrote it */
    HELLO_NO_NAME, /* it has none */
    HELLO_BAD,
};

/* Looks at bytes that begin with CLIENT_HELLO_TLS. */
enum client_hello client_hello_parse(const uint8_t *data, size_t len,
                                     char ret_name[SERVER_NAME_SIZE]);
