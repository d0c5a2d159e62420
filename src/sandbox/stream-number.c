/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/stream-number.h"

#define GENERATIONS 0x800u
#define COUNT_BITS  21 /* with the lowest, which is always set */
#define COUNT_MASK  ((1u << COUNT_BITS) - 1)

void stream_numbers_init(struct stream_numbers *s, uint64_t generation)
{
    s->first = s->next = (uint32_t)(generation % GENERATIONS) << COUNT_BITS | 1;
    s->meet = generation >= GENERATIONS;
}

static uint32_t following(uint32_t number)
{
    return (number & ~COUNT_MASK) | ((number + 2) & COUNT_MASK);
}

uint32_t stream_numbers_take(struct stream_numbers *s, bool (*taken)(void *data, uint32_t number),
                             void *data)
{
    uint32_t number = s->next;
    while (s->meet && taken(data, number))
        number = following(number);
    s->next = following(number);
    s->meet = s->meet || s->next == s->first;
    return number;
}
