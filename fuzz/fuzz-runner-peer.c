/* SPDX-License-Identifier: Apache-2.0 */
/* The runner protocol as the control plane reads it (and the other way): frames and the payload of
 * every message. What is parsed must come out of format as the same bytes. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "proto/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

/* Undoes the splitting of a SPAWN. */
static void join_frames(const struct strbuf *in, struct strbuf *payload)
{
    for (size_t at = 0; at < in->len;) {
        struct frame f;
        int n = frame_parse((const uint8_t *)in->data + at, in->len - at, &f);
        expect(n > 0);
        strbuf_append(payload, f.payload, f.length);
        at += (size_t)n;
    }
}

static void expect_same(const struct strbuf *formatted, const uint8_t *payload, size_t len)
{
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(16 << 20);
    join_frames(formatted, &joined);
    expect(joined.len == len && (!len || !memcmp(joined.data, payload, len)));
}

/* Frees what a parse function allocated: only SPAWN's does. */
#define msg_done(m)                                                                                \
    _Generic((m), struct msg_spawn * : msg_spawn_done, default : msg_done_nothing)((void *)(m))
static void msg_done_nothing(void *m)
{
    (void)m;
}

#define DEFINE_TRY(name, TYPE)                                                                     \
    static void try_##name(const uint8_t *payload, size_t len)                                     \
    {                                                                                              \
        _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(16 << 20);                                  \
        struct msg_##name m;                                                                       \
        int r = msg_##name##_parse(payload, len, &m);                                              \
        expect(r == 0 || r == -EPROTO);                                                            \
        if (r < 0)                                                                                 \
            return;                                                                                \
        expect(msg_##name##_format(&b, 9, &m) == 0);                                               \
        expect_same(&b, payload, len);                                                             \
        msg_done(&m);                                                                              \
    }
PROTO_MESSAGES(DEFINE_TRY)

static void try_payload(uint8_t type, const uint8_t *payload, size_t len)
{
#define TRY(name, TYPE)                                                                            \
    if (type == MSG_##TYPE)                                                                        \
        try_##name(payload, len);
    PROTO_MESSAGES(TRY)
#undef TRY
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame f;
    for (size_t at = 0; at < size;) {
        int n = frame_parse(data + at, size - at, &f);
        expect(n == 0 || n == -EPROTO || (n >= FRAME_HEADER_SIZE && (size_t)n <= size - at));
        if (n <= 0)
            break;
        try_payload(f.type, f.payload, f.length);
        at += (size_t)n;
    }
    if (size > 1 && size - 1 <= FRAME_PAYLOAD_MAX - 64)
        try_payload(data[0], data + 1, size - 1);
    return 0;
}
