/* SPDX-License-Identifier: Apache-2.0 */
/* What a text hides from a reader and not from a model: encoded, spelled apart, in look-alike
 * digits, in characters without a shape. A decoder appends what it understood, one line for each.
 */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/digits.h"
#include "base/utf8.h"
#include "validate/internal.h"

#define BASE64_MIN 24
#define BASE64_MAX 65536
#define HEX_MIN    12 /* bytes */
#define ESCAPE_MIN 4  /* sequences */
#define LEET_MIN   3
#define SPELL_MIN  8 /* letters */

/* Text, not bytes that happened to decode. */
static bool is_text(const char *data, size_t len)
{
    size_t printable = 0;
    if (len < 8 || utf8_valid_prefix(data, len) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        printable += (unsigned char)data[i] >= ' ' || data[i] == '\n' || data[i] == '\t';
    return printable * 10 >= len * 9;
}

static size_t keep_text(const char *data, size_t len, struct strbuf *out)
{
    if (!is_text(data, len) || strbuf_append(out, data, len) < 0 || strbuf_append(out, "\n", 1) < 0)
        return 0;
    return len;
}

/* --- base64 */

static bool is_base64(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '/' || c == '-' || c == '_';
}

static size_t decode_base64_run(const char *run, size_t len, struct strbuf *out)
{
    char *data = NULL;
    size_t n = 0, kept = 0;
    size_t whole = len - (len % 4 == 1);
    char *text = xcalloc(1, whole + 4);
    for (size_t i = 0; i < whole; i++)
        text[i] = run[i] == '-' ? '+' : run[i] == '_' ? '/' : run[i];
    while (whole % 4)
        text[whole++] = '=';
    if (base64_decode(text, whole, &data, &n) == 0)
        kept = keep_text(data, n, out);
    free(data);
    free(text);
    return kept;
}

static size_t decode_base64(const char *text, size_t len, struct strbuf *out)
{
    size_t total = 0;
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && n < BASE64_MAX && is_base64(text[i + n]))
            n++;
        if (n >= BASE64_MIN)
            total += decode_base64_run(text + i, n, out);
        i += n + 1;
    }
    return total;
}

/* --- hexadecimal, also with 0x, \x, % or a separator before each byte */

static size_t skip_hex_prefix(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && n < 2 && strchr(" ,:\n", p[n]))
        n++;
    if (n + 1 < len && (p[n] == '\\' || p[n] == '0') && (p[n + 1] == 'x' || p[n + 1] == 'X'))
        return n + 2;
    return n;
}

static size_t decode_hex(const char *text, size_t len, struct strbuf *out)
{
    size_t total = 0;
    char *bytes = xcalloc(1, len / 2 + 1);
    for (size_t i = 0; i < len;) {
        size_t n = 0, at = i;
        while (at < len) {
            size_t next = at + skip_hex_prefix(text + at, len - at);
            if (next + 1 >= len || hex_value(text[next]) < 0 || hex_value(text[next + 1]) < 0)
                break;
            bytes[n++] = (char)(hex_value(text[next]) << 4 | hex_value(text[next + 1]));
            at = next + 2;
        }
        if (n >= HEX_MIN)
            total += keep_text(bytes, n, out);
        i = n ? at : i + 1;
    }
    free(bytes);
    return total;
}

/* --- escapes: %41, &#65; &#x41; \u0041 \x41 */

static size_t read_number(const char *p, size_t len, int base, size_t digits_max, int32_t *ret)
{
    size_t n = 0;
    int32_t value = 0;
    while (n < len && n < digits_max) {
        int digit = hex_value(p[n]);
        if (digit < 0 || digit >= base)
            break;
        value = value * base + digit;
        n++;
    }
    *ret = value;
    return n;
}

/* The length of an escape at p and its character; 0 if there is none. */
static size_t read_escape(const char *p, size_t len, int32_t *ret)
{
    static const struct {
        const char *start;
        int base;
        size_t min, max;
        char end;
    } kinds[] = {{"&#x", 16, 1, 6, ';'},
                 {"&#", 10, 1, 7, ';'},
                 {"\\u", 16, 4, 4, 0},
                 {"\\x", 16, 2, 2, 0},
                 {"%", 16, 2, 2, 0}};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        size_t start = strlen(kinds[k].start);
        if (len <= start || strncasecmp(p, kinds[k].start, start) != 0)
            continue;
        size_t n = read_number(p + start, len - start, kinds[k].base, kinds[k].max, ret);
        bool ended = !kinds[k].end || (start + n < len && p[start + n] == kinds[k].end);
        if (n >= kinds[k].min && ended)
            return start + n + (kinds[k].end ? 1 : 0);
    }
    return 0;
}

static size_t decode_escapes(const char *text, size_t len, struct strbuf *out)
{
    size_t n_escapes = 0;
    for (size_t i = 0; i < len;) {
        int32_t cp = 0;
        size_t n = strchr("%&\\", text[i]) ? read_escape(text + i, len - i, &cp) : 0;
        if (n && cp > 0 && cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff)) {
            validate_put(out, cp);
            n_escapes++;
        } else {
            strbuf_append(out, text + i, n ? n : 1);
        }
        i += n ? n : 1;
    }
    if (n_escapes < ESCAPE_MIN) {
        strbuf_reset(out);
        return 0;
    }
    return n_escapes;
}

/* --- tags: an invisible copy of ASCII */

static size_t decode_tags(const char *text, size_t len, struct strbuf *out)
{
    size_t n = 0;
    for (size_t pos = 0; pos < len;) {
        int32_t cp = validate_next(text, len, &pos);
        if (cp < 0xe0020 || cp > 0xe007e)
            continue;
        validate_put(out, cp - 0xe0000);
        n++;
    }
    return n;
}

/* --- letters written apart: i g n o r e, i.g.n.o.r.e */

/* A letter that stands alone, as text[at] of len. */
static bool stands_alone(const char *text, size_t len, size_t at)
{
    return at < len && isalnum((unsigned char)text[at]) &&
           (at + 1 >= len || !isalnum((unsigned char)text[at + 1]));
}

/* The length of a run of letters that stand alone; *ret_letters: how many. */
static size_t spelled_run(const char *text, size_t len, size_t start, size_t *ret_letters)
{
    size_t at = start, n = 0;
    while (stands_alone(text, len, at)) {
        n++;
        at++;
        size_t gap = 0;
        while (at + gap < len && gap < 3 && text[at + gap] && strchr(" .-_*|/", text[at + gap]))
            gap++;
        if (gap == 0)
            break;
        at += gap;
    }
    *ret_letters = n;
    return at - start;
}

static size_t decode_spelled(const char *text, size_t len, struct strbuf *out)
{
    size_t total = 0, letters;
    for (size_t i = 0; i < len;) {
        size_t n = spelled_run(text, len, i, &letters);
        for (size_t k = i; letters >= SPELL_MIN && k < i + n; k++)
            if (isalnum((unsigned char)text[k]))
                strbuf_append(out, &text[k], 1);
        if (letters >= SPELL_MIN) {
            strbuf_append(out, "\n", 1);
            total += letters;
        }
        i += n ? n : 1;
        while (!n && i < len && isalnum((unsigned char)text[i]))
            i++; /* the rest of a word */
    }
    return total;
}

/* --- digits for letters, and rot13: of the whole text, one for one */

static size_t map_text(const char *text, size_t len, struct strbuf *out, const char *from,
                       const char *to)
{
    size_t changed = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = text[i] ? strchr(from, text[i]) : NULL;
        strbuf_append(out, at ? &to[at - from] : &text[i], 1);
        changed += at != NULL;
    }
    return changed;
}

/* Of digits that touch letters, as in 1gn0r3; a text without some of them is left alone. */
static size_t count_leet(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 1; i + 1 < len; i++)
        if (text[i] && strchr("0134579@$!", text[i]))
            n += isalpha((unsigned char)text[i - 1]) || isalpha((unsigned char)text[i + 1]);
    return n;
}

static size_t decode_leet(const char *text, size_t len, struct strbuf *out)
{
    if (count_leet(text, len) < LEET_MIN)
        return 0;
    return map_text(text, len, out, "0134579@$!", "oieastgasi");
}

static size_t decode_rot13(const char *text, size_t len, struct strbuf *out)
{
    return map_text(text, len, out, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM");
}

const struct decoder validate_decoders[] = {
    {"hidden_base64", "instructions hidden in base64", decode_base64, DECODER_RECURSIVE},
    {"hidden_hex", "instructions hidden in hexadecimal", decode_hex, DECODER_RECURSIVE},
    {"hidden_escapes", "instructions hidden in character escapes", decode_escapes,
     DECODER_RECURSIVE},
    {"hidden_tags", "instructions hidden in invisible tag characters", decode_tags, 0},
    {"hidden_spelling", "instructions spelled letter by letter", decode_spelled,
     DECODER_OF_VIEW | DECODER_SQUEEZED},
    {"hidden_leet", "instructions with digits for letters", decode_leet, DECODER_OF_VIEW},
    {"hidden_rot13", "instructions hidden by rot13", decode_rot13, DECODER_OF_VIEW},
};
const size_t validate_n_decoders = sizeof(validate_decoders) / sizeof(validate_decoders[0]);
