/* SPDX-License-Identifier: Apache-2.0 */
/* Our text of a JSON value against the library's own, which is the specification. */
#include <stdlib.h>
#include <string.h>

#include "base/json-format.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"

#define ROUNDS 2000

static unsigned state = 12345;

static unsigned next(unsigned below)
{
    state = state * 1103515245u + 12345u;
    return (state >> 16) % below;
}

static json_t *random_string(void)
{
    char text[64];
    bool lossy;
    size_t n = next(20);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(next(4) ? next(128) : next(256));
    return json_string_from_bytes(text, n, &lossy);
}

static json_t *random_value(int depth)
{
    json_t *v;
    switch (next(depth > 4 ? 6 : 8)) {
    case 0:
        return json_integer((json_int_t)next(3) - 1);
    case 1:
        return json_integer((json_int_t)(((uint64_t)next(65536) << 48) | next(65536)));
    case 2:
        return json_real((double)next(10000) / (double)(1 << next(8)));
    case 3:
        return next(2) ? json_real((double)next(65536) / 1000) : json_boolean(next(2));
    case 4:
        return json_null();
    case 5:
        return random_string();
    case 6:
        v = json_array();
        for (unsigned n = next(5); n; n--)
            json_array_append_new(v, random_value(depth + 1));
        return v;
    default:
        v = json_object();
        for (unsigned n = next(5); n; n--) {
            json_t *key = random_string();
            json_object_setn_new(v, json_string_value(key), json_string_length(key),
                                 random_value(depth + 1));
            json_decref(key);
        }
        return v;
    }
}

static bool same(const json_t *v)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    char *want = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    bool equal = json_format(v, &b) >= 0 && want && strcmp(want, b.data) == 0;
    if (!equal)
        printf("# %s\n# %s\n", want ? want : "(null)", b.data ? b.data : "(null)");
    free(want);
    return equal;
}

static void test_trees(void)
{
    bool equal = true;
    for (int i = 0; i < ROUNDS && equal; i++) {
        _cleanup_json_ json_t *v = random_value(0);
        equal = same(v);
    }
    ok(equal, "random values are written as the library writes them");
    static const double reals[] = {0.1 + 0.2, 1.0 / 3, 123456789012345678.0, 1e-300 / 3, 0.1};
    bool whole = true;
    for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100);
        _cleanup_json_ json_t *v = json_real(reals[i]);
        whole &= json_format(v, &text) >= 0 && strtod(text.data, NULL) == reals[i];
    }
    ok(whole, "a number that 15 digits do not tell from its neighbours is read back as it was");
    _cleanup_json_ json_t *edges = json_pack("[I, I, f, f, f, s]", INT64_MIN, INT64_MAX, 0.1, 1e300,
                                             -0.0, "\x7f\x1f\"\\/\b\f\n\r\t");
    ok(same(edges), "so are the least and the largest, and every escape");
    _cleanup_json_ json_t *bad = json_stringn_nocheck("a\xff", 2);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(100), small = STRBUF_INIT(4);
    ok(json_format(bad, &b) < 0, "a string that is no UTF-8 is refused");
    ok(json_format(edges, &small) < 0, "what does not fit is an error");
    ok(json_format(NULL, &b) < 0, "so is no value");
}

static void test_text(void)
{
    static const char bytes[] = "a\"\xff\xc3\xa4\xe2\x82";
    bool lossy;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1000);
    struct json_text t = json_text_begin(&b, '{');
    json_text_int(&t, "n", -5);
    json_text_open(&t, "list", '[');
    json_text_bool(&t, NULL, true);
    json_text_bytes(&t, NULL, bytes, strlen(bytes));
    json_text_open(&t, NULL, '[');
    json_text_close(&t, ']');
    json_text_close(&t, ']');
    json_text_string(&t, "s", "x");
    _cleanup_json_ json_t *inner = json_pack("{s:n}", "k");
    json_text_value(&t, "v", inner);
    ok(json_text_end(&t, '}') == 0, "members are written one by one");
    _cleanup_json_ json_t *want =
        json_pack("{s:i, s:[b, o, []], s:s, s:O}", "n", -5, "list", 1,
                  json_string_from_bytes(bytes, strlen(bytes), &lossy), "s", "x", "v", inner);
    _cleanup_json_ json_t *got = json_parse(b.data, b.len, NULL);
    ok(got && json_equal(got, want), "and make the same as a tree");

    _cleanup_strbuf_ struct strbuf small = STRBUF_INIT(10);
    t = json_text_begin(&small, '{');
    json_text_string(&t, "key", "too long for it");
    json_text_int(&t, "n", 1);
    ok(json_text_end(&t, '}') < 0 && small.len <= 10, "the first error stays");
}

int main(void)
{
    test_trees();
    test_text();
    return tap_done();
}
