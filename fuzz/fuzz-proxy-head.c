/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests to the proxy. What passes names one target, and the head that goes on to the
 * server has one Host, at most one Content-Length, no Transfer-Encoding, and ends where it ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "gateway/proxy-head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static size_t count_lines(const char *text, const char *start)
{
    size_t n = 0;
    for (const char *at = text; (at = strcasestr(at, start)); at++)
        n++;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(4 * PROXY_HEAD_MAX);
    struct proxy_head head;
    const char *why = NULL;
    size_t len = http_head_length(text, size);
    expect(len <= size);
    if (len == 0 || len > PROXY_HEAD_MAX)
        return 0;
    int status = proxy_head_parse(text, len, &head, &out, &why);
    expect(status == 0 || (status >= 400 && status < 600 && why));
    if (status)
        return 0;
    expect(head.target.port && *head.target.host);
    if (head.connect)
        expect(out.len == 0);
    else
        expect(http_head_length(out.data, out.len) == out.len && strlen(out.data) == out.len &&
               count_lines(out.data, "\r\nHost:") == 1 &&
               count_lines(out.data, "\r\nContent-Length:") <= 1 &&
               count_lines(out.data, "\r\nTransfer-Encoding:") == 0 &&
               count_lines(out.data, "\r\nConnection:") == 1);
    return 0;
}
