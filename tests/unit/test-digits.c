/* SPDX-License-Identifier: Apache-2.0 */
/* base/digits.h, over every byte. */
#include "base/digits.h"

#include <stdbool.h>
#include <string.h>

#include "tests/unit/tap.h"

/* Whether f gives each digit its place among digits, and every other byte -1. */
static bool reads_only(int (*f)(char c), const char *digits)
{
    for (int c = 0; c < 256; c++) {
        const char *at = c ? strchr(digits, c) : NULL;
        long value = at ? at - digits : -1;
        if (f((char)c) != (value > 15 ? value - 6 : value))
            return false;
    }
    return true;
}

int main(void)
{
    uint64_t n = 7;
    ok(reads_only(hex_value, "0123456789abcdefABCDEF"), "digits of either case");
    ok(reads_only(hex_value_lower, "0123456789abcdef"), "digits of lower case only");
    ok(reads_only(hex_value_upper, "0123456789ABCDEF"), "digits of upper case only");
    ok(decimal_parse("18446744073709551615", &n) == 0 && n == UINT64_MAX, "the largest number");
    ok(decimal_parse("18446744073709551616", &n) < 0 && decimal_parse("-1", &n) < 0 &&
           decimal_parse(" 1", &n) < 0 && decimal_parse("", &n) < 0 && decimal_parse("1x", &n) < 0,
       "what is no number, or too large");
    return tap_done();
}
