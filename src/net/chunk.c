/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked bodies, strictly: CRLF only, no space around a size, extensions only as the RFC writes
 * them, and a bound on all bytes that are not data, so that a sender cannot keep us busy with
 * framing. Trailers must look like fields and are dropped. */
#include "net/chunk.h"

#include <errno.h>
#include <string.h>

#include "base/digits.h"
#include "net/scan.h"

enum state {
    SIZE,
    SIZE_LF,
    EXT_NAME_START,
    EXT_NAME,
    EXT_VALUE_START,
    EXT_VALUE,
    EXT_QUOTED,
    EXT_ESCAPE,
    EXT_QUOTED_END,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_START,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
};

#define CHUNK_DIGITS_MAX 15 /* 60 bits: sums of sizes cannot wrap */

static bool is_text(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static int size_byte(struct chunk_decoder *d, unsigned char c)
{
    int v = hex_value((char)c);
    if (v >= 0) {
        d->left = d->left << 4 | (unsigned)v;
        return ++d->digits > CHUNK_DIGITS_MAX ? -1 : SIZE;
    }
    if (!d->digits)
        return -1;
    return c == '\r' ? SIZE_LF : c == ';' ? EXT_NAME_START : -1;
}

static int size_end(struct chunk_decoder *d)
{
    d->digits = 0;
    d->last = d->left == 0;
    return d->last ? TRAILER_START : DATA;
}

static int extension_byte(unsigned state, unsigned char c)
{
    switch (state) {
    case EXT_NAME_START:
        return scan_is_token(c) ? EXT_NAME : -1;
    case EXT_NAME:
        if (scan_is_token(c))
            return EXT_NAME;
        return c == '=' ? EXT_VALUE_START : c == ';' ? EXT_NAME_START : c == '\r' ? SIZE_LF : -1;
    case EXT_VALUE_START:
        return c == '"' ? EXT_QUOTED : scan_is_token(c) ? EXT_VALUE : -1;
    case EXT_VALUE:
        if (scan_is_token(c))
            return EXT_VALUE;
        return c == ';' ? EXT_NAME_START : c == '\r' ? SIZE_LF : -1;
    case EXT_QUOTED:
        return c == '"' ? EXT_QUOTED_END : c == '\\' ? EXT_ESCAPE : is_text(c) ? EXT_QUOTED : -1;
    case EXT_ESCAPE:
        return is_text(c) ? EXT_QUOTED : -1;
    default: /* EXT_QUOTED_END */
        return c == ';' ? EXT_NAME_START : c == '\r' ? SIZE_LF : -1;
    }
}

static int trailer_byte(struct chunk_decoder *d, unsigned char c)
{
    switch (d->state) {
    case TRAILER_START:
        return c == '\r' ? END_LF : scan_is_token(c) ? TRAILER_NAME : -1;
    case TRAILER_NAME:
        return scan_is_token(c) ? TRAILER_NAME : c == ':' ? TRAILER_VALUE : -1;
    case TRAILER_VALUE:
        return is_text(c) ? TRAILER_VALUE : c == '\r' ? TRAILER_LF : -1;
    case TRAILER_LF:
        return c == '\n' ? TRAILER_START : -1;
    default: /* END_LF */
        if (c != '\n')
            return -1;
        d->done = true;
        return END_LF;
    }
}

static int framing_byte(struct chunk_decoder *d, unsigned char c)
{
    switch (d->state) {
    case SIZE:
        return size_byte(d, c);
    case SIZE_LF:
        return c == '\n' ? size_end(d) : -1;
    case DATA_CR:
        return c == '\r' ? DATA_LF : -1;
    case DATA_LF:
        return c == '\n' ? SIZE : -1;
    default:
        return d->last ? trailer_byte(d, c) : extension_byte(d->state, c);
    }
}

static size_t take_data(struct chunk_decoder *d, size_t len)
{
    size_t n = d->left < len ? (size_t)d->left : len;
    d->left -= n;
    if (!d->left) {
        d->state = DATA_CR;
        /* A chunk that carried data is forgiven the framing that every chunk needs, so that many
         * small chunks are legal. What adds up towards the bound is extensions and trailers. */
        d->overhead -= d->overhead < CHUNK_OVERHEAD_FREE ? d->overhead : CHUNK_OVERHEAD_FREE;
    }
    return n;
}

ssize_t chunk_decode(struct chunk_decoder *d, const char *data, size_t len, const char **ret_piece,
                     size_t *ret_len)
{
    size_t i = 0;
    *ret_len = 0;
    while (i < len && !d->done) {
        if (d->state == DATA) {
            *ret_piece = data + i;
            *ret_len = take_data(d, len - i);
            return (ssize_t)(i + *ret_len);
        }
        int next = framing_byte(d, (unsigned char)data[i++]);
        /* Once wrong, a decoder is not asked again: the caller ends the connection (request.c). */
        if (next < 0 || ++d->overhead > CHUNK_OVERHEAD_MAX)
            return -EBADMSG;
        d->state = (unsigned)next;
    }
    return (ssize_t)i;
}
