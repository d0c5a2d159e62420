/* SPDX-License-Identifier: Apache-2.0 */
/* Stream numbers: never one that a command has, however many were given before. */
#include <string.h>

#include "sandbox/stream-number.h"
#include "tests/unit/tap.h"

#define ALL  (1u << 20) /* of one generation */
#define HELD 5

static uint32_t held[HELD];
static unsigned asked;

static bool is_held(void *data, uint32_t number)
{
    (void)data;
    asked++;
    for (int i = 0; i < HELD; i++)
        if (held[i] == number)
            return true;
    return false;
}

static bool never(void *data, uint32_t number)
{
    (void)data;
    (void)number;
    asked++;
    return false;
}

static void test_generations(void)
{
    struct stream_numbers a, b;
    bool odd = true, apart = true;
    for (uint64_t g = 0; g < 2047; g++) {
        stream_numbers_init(&a, g);
        stream_numbers_init(&b, g + 1);
        uint32_t n = stream_numbers_take(&a, never, NULL);
        odd = odd && n % 2 == 1;
        apart = apart && n >> 21 == g && stream_numbers_take(&b, never, NULL) >> 21 == g + 1;
    }
    ok(odd && apart, "numbers are odd and each generation's its own");
    ok(asked == 0, "while none can have been given before, nothing is looked up");
}

static void test_wrap(void)
{
    struct stream_numbers s;
    bool inside = true, twice = false;
    stream_numbers_init(&s, 3);
    uint32_t first = s.first;
    for (unsigned i = 0; i < HELD; i++) /* one at the start, then some far apart */
        held[i] = first + 2 * (i * (ALL / HELD));
    for (unsigned i = 0; i < ALL; i++)
        inside = inside && stream_numbers_take(&s, is_held, NULL) >> 21 == 3;
    ok(inside, "2^20 commands stay in their generation's numbers");
    for (unsigned i = 0; i < 2 * ALL; i++)
        twice = twice || is_held(NULL, stream_numbers_take(&s, is_held, NULL));
    ok(!twice, "commands that still run keep their numbers for themselves");
}

static void test_later_generation(void)
{
    struct stream_numbers old, new;
    stream_numbers_init(&old, 7);
    for (int i = 0; i < HELD; i++)
        held[i] = stream_numbers_take(&old, never, NULL);
    stream_numbers_init(&new, 7 + 2048);
    uint32_t n = stream_numbers_take(&new, is_held, NULL);
    ok(!is_held(NULL, n) && n == held[HELD - 1] + 2,
       "nor does a control plane 2048 later take them");
}

int main(void)
{
    test_generations();
    test_wrap();
    test_later_generation();
    return tap_done();
}
