/* SPDX-License-Identifier: Apache-2.0 */
/* Heads that pass an interceptor, sealed texts that it opens, and the gateway's records with rules;
 * the first byte says which. A
 * request that passes has one Host, one way to say how long its body is, and the secret once and in
 * its own header alone; an answer that passes is one head. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "intercept/decide.h"
#include "intercept/head.h"
#include "proto/intercept.h"
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

/* The bytes are the rules, a line each, of which the first half allow. */
static void try_rules(const char *text, size_t size)
{
    struct intercept_connection record = {.version = INTERCEPT_VERSION,
                                          .port = 443,
                                          .decides = 1,
                                          .host = "api.example",
                                          .address = "192.0.2.1"};
    static const struct text method = {"GET", 3}, paths[] = {{"/a/b", 4}, {"/a/../b", 7}};
    struct decider d;
    uint32_t n = 0;
    if (size > sizeof(record.rules))
        return;
    memcpy(record.rules, text, size);
    for (size_t i = 0; i < size; i++)
        if (record.rules[i] == '\n') {
            record.rules[i] = 0;
            n++;
        }
    record.rules_len = (uint32_t)size;
    record.n_allowed = n / 2;
    record.n_denied = n - n / 2;
    int r = decider_init(&d, &record, offsetof(struct intercept_connection, rules) + size, -1, -1);
    for (size_t i = 0; i < 2; i++) {
        struct head_request q = {.method = method, .target = paths[i], .overrides = size % 2};
        const char *why = decider_check(&d, &q);
        expect(why || (r >= 0 && d.allowed.n > 0)); /* what is malformed allows nothing */
    }
    decider_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const char *, size_t) = {try_request, try_answer, try_pair,
                                                          try_rules};
    if (size)
        tries[data[0] % 4]((const char *)data + 1, size - 1);
    return 0;
}
