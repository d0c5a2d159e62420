/* SPDX-License-Identifier: Apache-2.0 */
/* Heads on their way through an interceptor. */
#include <string.h>

#include "base/strbuf.h"
#include "intercept/head.h"
#include "secret/pair.h"
#include "tests/unit/tap.h"

static struct pair pairs[2];
static const struct head_place place = {
    .host = "api.example", .port = 443, .pairs = pairs, .n_pairs = 2};

static int rewrite(const char *text, struct head_request *ret, struct strbuf *out)
{
    const char *why = NULL;
    strbuf_reset(out);
    int status = head_rewrite_request(text, strlen(text), &place, ret, out, &why);
    return !status == !why ? status : -1; /* a refusal has a reason, and nothing else does */
}

#define HOST "Host: api.example\r\n"

static void test_requests(void)
{
    struct head_request r;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(65536);
    ok(rewrite("GET /a?b=c HTTP/1.1\r\n" HOST
               "Accept: */*\r\nauthorization: mine\r\nX-Other: kept\r\n"
               "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: x\r\n\r\n",
               &r, &out) == 0 &&
           strcmp(out.data, "GET /a?b=c HTTP/1.1\r\n" HOST "Accept: */*\r\nX-Other: kept\r\n"
                            "Authorization: Bearer s3cret\r\nConnection: close\r\n\r\n") == 0,
       "the secret takes the place of the client's own header");
    ok(r.body == BODY_NONE, "no body");
    ok(rewrite("POST / HTTP/1.1\r\n" HOST "Content-Length: 12\r\n\r\n", &r, &out) == 0 &&
           r.body == BODY_LENGTH && r.body_bytes == 12 &&
           strstr(out.data, "Content-Length: 12\r\n"),
       "a body with a length");
    ok(rewrite("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\nTrailer: X\r\n\r\n", &r,
               &out) == 0 &&
           r.body == BODY_CHUNKED && strstr(out.data, "Transfer-Encoding: chunked\r\n") &&
           !strstr(out.data, "Trailer"),
       "a body in chunks");
    ok(rewrite("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &r, &out) == 0, "a target that is none");
}

static void test_refusals(void)
{
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {"GET / HTTP/1.0\r\n" HOST "\r\n", 505},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", 421},
        {"GET / HTTP/1.1\r\nHost: api.example:8443\r\n\r\n", 421},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET http://api.example/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"CONNECT / HTTP/1.1\r\n" HOST "\r\n", 405},
        {"TRACE / HTTP/1.1\r\n" HOST "\r\n", 405},
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: h2c\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\n" HOST "Content-Type: application/grpc\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400},
        {"GET / HTTP/1.1\n" HOST "\r\n", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
    };
    struct head_request r;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(65536);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = rewrite(rows[i].head, &r, &out);
        ok(status == rows[i].status, "%d for refusal %zu, got %d", rows[i].status, i, status);
    }
}

static void test_answers(void)
{
    const char *why;
    int status = 0;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(65536);
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: X-Gone\r\n"
                                 "X-Gone: 1\r\nAlt-Svc: h3\r\nSet-Cookie: a\r\n\r\n";
    ok(head_rewrite_answer(answer, strlen(answer), &status, &out, &why) == 0 && status == 200 &&
           strcmp(out.data, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nSet-Cookie: a\r\n"
                            "Connection: close\r\n\r\n") == 0,
       "an answer goes on without what is of its connection");
    strbuf_reset(&out);
    static const char more[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ok(head_rewrite_answer(more, strlen(more), &status, &out, &why) == 0 && status == 100 &&
           strcmp(out.data, more) == 0,
       "one before it as it is");
    static const char *const bad[] = {"HTTP/1.1 101 Switching\r\n\r\n", "HTTP/2 200\r\n\r\n",
                                      "HTTP/1.1 20 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
                                      "HTTP/1.1 200 OK\r\nA b\r\n\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(head_rewrite_answer(bad[i], strlen(bad[i]), &status, &out, &why) == 502, "no answer %zu",
           i);
}

int main(void)
{
    pair_set_header(&pairs[0], "Authorization: Bearer {}", NULL);
    pair_add_host(&pairs[0], "api.example", NULL);
    pair_set_value(&pairs[0], "s3cret", 6, NULL);
    pair_set_header(&pairs[1], "X-Other: {}", NULL);
    pair_add_host(&pairs[1], "else.example", NULL);
    pair_set_value(&pairs[1], "other", 5, NULL);
    test_requests();
    test_refusals();
    test_answers();
    pair_done(&pairs[0]);
    pair_done(&pairs[1]);
    return tap_done();
}
