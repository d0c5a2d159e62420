/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the runner protocol. Header: u32 payload length, u32 stream, u8 type, u8 flags, two
 * zero bytes; integers little-endian. */
#include "proto/frame.h"

#include <errno.h>

#include "base/strbuf.h"
#include "proto/wire.h"

static bool frame_type_known(uint8_t type)
{
    return (type >= MSG_HELLO && type <= MSG_CONNECT) ||
           (type >= MSG_DATA && type <= MSG_DATA_END) ||
           (type >= MSG_HELLO_OK && type <= MSG_CONNECTED);
}

int frame_parse(const uint8_t *data, size_t len, struct frame *ret)
{
    if (len < FRAME_HEADER_SIZE)
        return 0;
    uint32_t length = wire_load_u32(data);
    uint8_t type = data[8], flags = data[9];
    if (length > FRAME_PAYLOAD_MAX || !frame_type_known(type) || data[10] || data[11])
        return -EPROTO;
    if (flags & ~FRAME_MORE || (flags & FRAME_MORE && type != MSG_SPAWN))
        return -EPROTO;
    if (len - FRAME_HEADER_SIZE < length)
        return 0;
    *ret = (struct frame){
        .type = type,
        .flags = flags,
        .stream = wire_load_u32(data + 4),
        .payload = data + FRAME_HEADER_SIZE,
        .length = length,
    };
    return FRAME_HEADER_SIZE + (int)length;
}

void frame_header(uint8_t out[FRAME_HEADER_SIZE], uint8_t type, uint32_t stream, size_t len)
{
    wire_store_u32(out, (uint32_t)len);
    wire_store_u32(out + 4, stream);
    out[8] = type;
    out[9] = out[10] = out[11] = 0;
}

static int frame_append_one(struct strbuf *out, uint8_t type, uint8_t flags, uint32_t stream,
                            const uint8_t *payload, size_t len)
{
    int r = strbuf_reserve(out, FRAME_HEADER_SIZE + len);
    if (r < 0)
        return r;
    uint8_t header[FRAME_HEADER_SIZE];
    frame_header(header, type, stream, len);
    header[9] = flags;
    strbuf_append(out, header, sizeof(header));
    return strbuf_append(out, payload, len);
}

int frame_append(struct strbuf *out, uint8_t type, uint32_t stream, const void *payload, size_t len)
{
    const uint8_t *p = payload;
    size_t frames = len ? (len + FRAME_PAYLOAD_MAX - 1) / FRAME_PAYLOAD_MAX : 1;
    if (frames > 1 && (type != MSG_SPAWN || len > PROTO_SPAWN_MAX))
        return -EMSGSIZE;
    int r = strbuf_reserve(out, len + frames * FRAME_HEADER_SIZE);
    while (r >= 0 && frames--) {
        size_t part = len > FRAME_PAYLOAD_MAX ? FRAME_PAYLOAD_MAX : len;
        r = frame_append_one(out, type, frames ? FRAME_MORE : 0, stream, p, part);
        if (part)
            p += part;
        len -= part;
    }
    return r;
}
