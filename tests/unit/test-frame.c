/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: round trip, splitting, partial input, and every malformed header refused. */
#include <errno.h>
#include <string.h>

#include "base/strbuf.h"
#include "proto/frame.h"
#include "tests/unit/tap.h"

static int parse_header(uint32_t length, uint8_t type, uint8_t flags, uint8_t reserved)
{
    uint8_t raw[FRAME_HEADER_SIZE + 16] = {(uint8_t)length,
                                           (uint8_t)(length >> 8),
                                           (uint8_t)(length >> 16),
                                           (uint8_t)(length >> 24),
                                           [8] = type,
                                           [9] = flags,
                                           [11] = reserved};
    struct frame f;
    return frame_parse(raw, sizeof(raw), &f);
}

static void test_round_trip(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    ok(frame_append(&b, MSG_GOODBYE, 0x01020304, "hello", 5) == 0, "append");
    ok(b.len == FRAME_HEADER_SIZE + 5, "size");
    struct frame f;
    int r = 0;
    for (size_t n = 0; n < b.len && r == 0; n++)
        r = frame_parse((uint8_t *)b.data, n, &f);
    ok(r == 0, "every proper prefix asks for more");
    r = frame_parse((uint8_t *)b.data, b.len, &f);
    ok(r == (int)b.len && f.type == MSG_GOODBYE && f.stream == 0x01020304 && f.flags == 0 &&
           f.length == 5 && !memcmp(f.payload, "hello", 5),
       "parsed back");
}

static void test_split(void)
{
    static char big[FRAME_PAYLOAD_MAX * 2 + 10];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 7);
    ok(frame_append(&b, MSG_OUTPUT, 1, big, sizeof(big)) == -EMSGSIZE, "only SPAWN is split");
    ok(b.len == 0, "and nothing is appended");
    ok(frame_append(&b, MSG_SPAWN, 1, big, sizeof(big)) == 0, "SPAWN is");
    size_t at = 0, seen = 0, frames = 0;
    bool more = true, same = true;
    while (more && at < b.len) {
        struct frame f;
        int r = frame_parse((uint8_t *)b.data + at, b.len - at, &f);
        if (r <= 0)
            break;
        same &= !memcmp(f.payload, big + seen, f.length);
        more = f.flags & FRAME_MORE;
        seen += f.length;
        at += (size_t)r;
        frames++;
    }
    ok(frames == 3 && seen == sizeof(big) && same && !more && at == b.len,
       "three frames, same bytes");
}

static void test_limits(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(20);
    ok(frame_append(&b, MSG_GOODBYE, 0, "12345678", 8) == 0, "fits exactly");
    ok(frame_append(&b, MSG_GOODBYE, 0, "", 0) == -EFBIG && b.len == 20,
       "full buffer stays as it was");
}

int main(void)
{
    test_round_trip();
    test_split();
    test_limits();
    ok(parse_header(4, MSG_HELLO, 0, 0) == FRAME_HEADER_SIZE + 4, "good header");
    ok(parse_header(FRAME_PAYLOAD_MAX + 1, MSG_HELLO, 0, 0) == -EPROTO, "too long");
    ok(parse_header(0xffffffff, MSG_HELLO, 0, 0) == -EPROTO, "far too long");
    ok(parse_header(4, 0, 0, 0) == -EPROTO, "type 0");
    ok(parse_header(4, MSG_CONNECT + 1, 0, 0) == -EPROTO, "type between the groups");
    ok(parse_header(4, MSG_CONNECTED + 1, 0, 0) == -EPROTO, "type past the end");
    ok(parse_header(4, MSG_SPAWN, FRAME_MORE, 0) == FRAME_HEADER_SIZE + 4, "SPAWN may go on");
    ok(parse_header(4, MSG_STDIN, FRAME_MORE, 0) == -EPROTO, "STDIN may not");
    ok(parse_header(4, MSG_SPAWN, 2, 0) == -EPROTO, "unknown flag");
    ok(parse_header(4, MSG_SPAWN, 0, 1) == -EPROTO, "reserved bytes");
    return tap_done();
}
