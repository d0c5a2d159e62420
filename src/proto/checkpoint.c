#include "proto/checkpoint.h"

#include <string.h>

static const char magic[24] = "mas-sandbox audit 1";

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (56 - 8 * i));
    return p + 8;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t len)
{
    memcpy(p, data, len);
    return p + len;
}

void checkpoint_statement(const struct checkpoint *c, uint8_t out[CHECKPOINT_STATEMENT_SIZE])
{
    uint8_t *p = put_bytes(out, magic, sizeof(magic));
    *p++ = (uint8_t)c->purpose;
    p = put_u64(p, c->seq);
    p = put_u64(p, c->prev_seq);
    p = put_u64(p, (uint64_t)c->time_ns);
    p = put_bytes(p, c->head, sizeof(c->head));
    put_bytes(p, c->prev, sizeof(c->prev));
}
