/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 against RFC 4648's examples, all lengths there and back, and what is none. */
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "tests/unit/tap.h"

static void test_examples(void)
{
    static const struct {
        const char *plain, *encoded;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        size_t len;
        _cleanup_free_ char *text = base64_encode(cases[i].plain, strlen(cases[i].plain), &len);
        ok(strcmp(text, cases[i].encoded) == 0 && len == strlen(text), "'%s'", cases[i].plain);
    }
}

static void test_round_trip(void)
{
    char data[256];
    bool same = true;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 7);
    for (size_t n = 0; n <= sizeof(data); n++) {
        size_t len, back_len = 0;
        _cleanup_free_ char *text = base64_encode(data, n, &len), *back = NULL;
        same = same && base64_decode(text, len, &back, &back_len) == 0 && back_len == n &&
               memcmp(back, data, n) == 0;
    }
    ok(same, "every length there and back");
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zm9v\n", "Zm 9", "Zm9-", "=Zm9", "Zg==Zg=="};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        char *out = NULL;
        size_t len;
        ok(base64_decode(bad[i], strlen(bad[i]), &out, &len) < 0 && !out, "bad %zu", i);
    }
}

int main(void)
{
    test_examples();
    test_round_trip();
    test_bad();
    return tap_done();
}
