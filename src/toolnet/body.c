/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/body.h"

#include <ctype.h>
#include <errno.h>
#include <iconv.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/utf8.h"

#define REPLACEMENT    "\xef\xbf\xbd"
#define META_SCAN_SIZE 2048 /* where browsers stop looking for <meta charset> */

static void copy_token(const char *p, const char *end, char out[BODY_CHARSET_SIZE])
{
    size_t n = 0;
    while (p < end && (isspace((unsigned char)*p) || *p == '"' || *p == '\''))
        p++;
    for (; p < end && (isalnum((unsigned char)*p) || strchr("-_:.+", *p)) && *p; p++)
        if (n < BODY_CHARSET_SIZE - 1)
            out[n++] = (char)tolower((unsigned char)*p);
    out[n] = 0;
}

/* The same search serves a header and the start of a page: charset="x", charset=x, and either with
 * spaces. */
static const char *find_charset(const char *p, const char *end)
{
    static const char key[] = "charset";
    for (; end - p > (ptrdiff_t)sizeof(key); p++) {
        if (strncasecmp(p, key, sizeof(key) - 1) != 0)
            continue;
        const char *q = p + sizeof(key) - 1;
        while (q < end && isspace((unsigned char)*q))
            q++;
        if (q < end && *q == '=')
            return q + 1;
    }
    return NULL;
}

void body_charset(const char *content_type, char out[BODY_CHARSET_SIZE])
{
    out[0] = 0;
    if (!content_type)
        return;
    const char *end = content_type + strlen(content_type);
    const char *value = find_charset(content_type, end);
    if (value)
        copy_token(value, end, out);
}

/* A byte order mark counts more than what the page says of itself, as in browsers. */
void body_html_charset(const char *data, size_t len, char out[BODY_CHARSET_SIZE])
{
    out[0] = 0;
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        strcpy(out, "utf-8");
    else if (len >= 2 && memcmp(data, "\xff\xfe", 2) == 0)
        strcpy(out, "utf-16le");
    else if (len >= 2 && memcmp(data, "\xfe\xff", 2) == 0)
        strcpy(out, "utf-16be");
    if (out[0])
        return;
    const char *end = data + (len < META_SCAN_SIZE ? len : META_SCAN_SIZE);
    const char *value = find_charset(data, end);
    if (value)
        copy_token(value, end, out);
    /* A document whose <meta> could be read as ASCII is not in UTF-16, whatever it says. */
    if (strncmp(out, "utf-16", 6) == 0)
        strcpy(out, "utf-8");
}

/* One replacement character per byte that is not UTF-8. */
static int append_utf8(const char *data, size_t len, struct strbuf *out)
{
    while (len) {
        size_t good = utf8_valid_prefix(data, len);
        int r = strbuf_append(out, data, good);
        if (r == 0 && good < len)
            r = strbuf_puts(out, REPLACEMENT);
        if (r < 0)
            return r;
        size_t used = good < len ? good + 1 : good;
        data += used;
        len -= used;
    }
    return 0;
}

static int append_converted(iconv_t cd, const char *data, size_t len, struct strbuf *out)
{
    char *in = (char *)data;
    while (len) {
        char chunk[4096], *p = chunk;
        size_t room = sizeof(chunk);
        size_t n = iconv(cd, &in, &len, &p, &room);
        int error = n == (size_t)-1 ? errno : 0;
        /* Checked again: what a converter puts out is not ours to trust. */
        int r = append_utf8(chunk, sizeof(chunk) - room, out);
        if (r == 0 && (error == EILSEQ || error == EINVAL)) {
            r = strbuf_puts(out, REPLACEMENT);
            in++;
            len--;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_utf8_name(const char *charset)
{
    return strcmp(charset, "utf-8") == 0 || strcmp(charset, "utf8") == 0;
}

/* The web's Latin-1 is windows-1252. */
static const char *iconv_name(const char *charset)
{
    static const char *const latin[] = {"iso-8859-1", "latin1", "us-ascii", "ascii", "iso8859-1"};
    for (size_t i = 0; i < ELEMENTS(latin); i++)
        if (strcmp(charset, latin[i]) == 0)
            return "windows-1252";
    return charset;
}

/* A page that says nothing, or something unknown, is UTF-8 where it can be that, and else
 * windows-1252. */
int body_to_utf8(const char *data, size_t len, const char *charset, struct strbuf *out)
{
    bool valid = utf8_valid_prefix(data, len) == len;
    if (is_utf8_name(charset) || (valid && strncmp(charset, "utf-", 4) != 0 && !*charset))
        return append_utf8(data, len, out);
    iconv_t cd = *charset ? iconv_open("UTF-8", iconv_name(charset)) : (iconv_t)-1;
    if (cd == (iconv_t)-1 && valid)
        return append_utf8(data, len, out);
    if (cd == (iconv_t)-1)
        cd = iconv_open("UTF-8", "windows-1252");
    if (cd == (iconv_t)-1)
        return append_utf8(data, len, out);
    int r = append_converted(cd, data, len, out);
    iconv_close(cd);
    return r;
}

/* Whether it can go into a JSON string and come out as it was; what cannot is sent as base64. */
bool body_is_text(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == 0x7f || (c < ' ' && !(c && strchr("\t\n\r\f\b", c))))
            return false;
    }
    return utf8_valid_prefix(data, len) == len;
}

void body_strip_controls(struct strbuf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        if ((unsigned char)b->data[i] >= ' ' ? b->data[i] != 0x7f
                                             : b->data[i] && strchr("\t\n\r", b->data[i]))
            b->data[n++] = b->data[i];
    if (b->data)
        b->data[n] = 0;
    b->len = n;
}

bool body_type_is_text(const char *type)
{
    return type && (strncasecmp(type, "text/", 5) == 0 || strcasestr(type, "json") ||
                    strcasestr(type, "xml") || strcasestr(type, "javascript"));
}

/* A body that was cut in the middle of a character is still text, without that character. */
json_t *body_json(const char *data, size_t len, bool truncated, const char *content_type,
                  bool *ret_base64)
{
    char charset[BODY_CHARSET_SIZE];
    size_t whole = len - (truncated ? utf8_incomplete_suffix(data, len) : 0);
    *ret_base64 = false;
    if (body_is_text(data, whole))
        return json_stringn_nocheck(data, whole);
    body_charset(content_type, charset);
    if (body_type_is_text(content_type) && *charset && !is_utf8_name(charset)) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(len * 3 + 3);
        if (body_to_utf8(data, len, charset, &text) == 0 && body_is_text(text.data, text.len))
            return json_stringn_nocheck(text.data, text.len);
    }
    *ret_base64 = true;
    size_t out_len;
    _cleanup_free_ char *out = base64_encode(data, len, &out_len);
    return json_stringn_nocheck(out, out_len);
}
