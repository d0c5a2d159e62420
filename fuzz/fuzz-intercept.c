/* SPDX-License-Identifier: Apache-2.0 */
/* Heads that pass an interceptor, and sealed texts that it opens; the first byte says which. A
 * request that passes has one Host, one way to say how long its body is, and the secret once and in
 * its own header alone; an answer that passes is one head. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "intercept/head.h"
#include "secret/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "0c5e-the-secret"

static void expect(bool good)
{
    if (!good)
        abort();
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = text; (at = strcasestr(at, word)); at++)
        n++;
    return n;
}

static struct pair *the_pair(void)
{
    static struct pair p;
    if (p.value)
        return &p;
    pair_set_header(&p, "X-Secret: {}", NULL);
    pair_add_host(&p, "api.example", NULL);
    pair_set_value(&p, SECRET, strlen(SECRET), NULL);
    return &p;
}

static void try_request(const char *text, size_t size)
{
    const struct head_place place = {
        .host = "api.example", .port = 443, .pairs = the_pair(), .n_pairs = 1};
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(4 * HTTP_HEAD_MAX);
    struct head_request request;
    const char *why = NULL;
    size_t len = http_head_length(text, size);
    if (len == 0 || len > HTTP_HEAD_MAX || memmem(text, len, SECRET, strlen(SECRET)))
        return;
    int status = head_rewrite_request(text, len, &place, &request, &out, &why);
    expect(status == 0 || (status >= 400 && status < 600 && why));
    if (status)
        return;
    expect(http_head_length(out.data, out.len) == out.len && strlen(out.data) == out.len);
    expect(count(out.data, "\r\nHost:") == 1 && count(out.data, "\r\nConnection: close\r\n") == 1 &&
           count(out.data, "\r\nConnection:") == 1 && count(out.data, "\r\nX-Secret:") == 1 &&
           count(out.data, SECRET) == 1);
    expect(count(out.data, "\r\nContent-Length:") == (request.body == BODY_LENGTH) &&
           count(out.data, "\r\nTransfer-Encoding:") == (request.body == BODY_CHUNKED));
}

static void try_answer(const char *text, size_t size)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(4 * ANSWER_HEAD_MAX);
    const char *why = NULL;
    int answered = 0;
    size_t len = http_head_length(text, size);
    if (len == 0 || len > ANSWER_HEAD_MAX)
        return;
    int status = head_rewrite_answer(text, len, &answered, &out, &why);
    expect(status == 0 || (status == 502 && why));
    if (status)
        return;
    expect(answered >= 100 && answered <= 999 && answered != 101);
    expect(http_head_length(out.data, out.len) == out.len && strlen(out.data) == out.len);
}

/* What is read as a pair is written as the same text. */
static void try_pair(const char *text, size_t size)
{
    struct pair p = {0}, again = {0};
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(2 * PAIR_TEXT_MAX);
    if (pair_parse(&p, text, size, NULL) < 0)
        return;
    expect(p.n_hosts > 0 && pair_format(&p, &out) == 0);
    expect(pair_parse(&again, out.data, out.len, NULL) == 0 && again.n_hosts == p.n_hosts &&
           strcmp(again.value, p.value) == 0 && strcmp(again.header, p.header) == 0);
    pair_done(&p);
    pair_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *, size_t) = {try_request, try_answer, try_pair};
    if (size)
        tries[data[0] % 3]((const char *)data + 1, size - 1);
    return 0;
}
