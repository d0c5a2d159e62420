/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile pages: charset detection and both converters. What comes out is valid UTF-8 within its
 * limit. The first byte chooses the charset. */
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "toolnet/body.h"
#include "toolnet/html.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUT_MAX 65536

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check(const struct strbuf *out)
{
    expect(out->len <= out->max);
    expect(utf8_valid_prefix(out->data ? out->data : "", out->len) == out->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const charsets[] = {"",           "utf-8",     "utf-16le",
                                           "iso-8859-1", "shift_jis", "gb18030"};
    if (size < 1)
        return 0;
    char found[BODY_CHARSET_SIZE];
    const char *html = (const char *)data + 1;
    const char *charset = charsets[data[0] % ELEMENTS(charsets)];
    body_html_charset(html, size - 1, found);
    _cleanup_strbuf_ struct strbuf utf8 = STRBUF_INIT(OUTPUT_MAX * 4);
    body_to_utf8(html, size - 1, *charset ? charset : found, &utf8);
    utf8.len = utf8_valid_prefix(utf8.data ? utf8.data : "", utf8.len);
    body_strip_controls(&utf8);
    check(&utf8);
    for (int format = 0; format < _HTML_FORMAT_MAX; format++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(OUTPUT_MAX);
        html_convert(utf8.data ? utf8.data : "", utf8.len, "http://site.example/d/",
                     (enum html_format)format, &out);
        check(&out);
    }
    return 0;
}
