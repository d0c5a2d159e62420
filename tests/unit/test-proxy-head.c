/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests to the proxy, as gateway/proxy-head.h reads them. */
#include <string.h>

#include "base/strbuf.h"
#include "gateway/proxy-head.h"
#include "tests/unit/tap.h"

static const struct {
    const char *head, *host;
    unsigned port;
    const char *forwarded; /* NULL: a CONNECT */
    int status;
} cases[] = {
    {"CONNECT A.Test.:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "a.test", 443, NULL, 0},
    {"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test", 443, NULL, 0},
    {"CONNECT a.test:443 HTTP/1.0\r\n\r\n", "a.test", 443, NULL, 0},
    {"CONNECT [::ffff:1.2.3.4]:1 HTTP/1.0\r\n\r\n", "1.2.3.4", 1, NULL, 0},
    {"GET http://a.test HTTP/1.0\r\n\r\n", "a.test", 80,
     "GET / HTTP/1.0\r\nHost: a.test\r\nConnection: close\r\n\r\n", 0},
    {"GET http://a.test?q=1 HTTP/1.1\r\nHost:a.test:80\r\n\r\n", "a.test", 80,
     "GET /?q=1 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", 0},
    {"PUT http://a.test:81/p HTTP/1.1\r\nHost: a.test:81\r\nContent-Length: 007\r\nTE: x\r\n"
     "connection: Host , x-one,Content-Length\r\nX-One: 1\r\nX-Two:2\r\n\r\n",
     "a.test", 81,
     "PUT /p HTTP/1.1\r\nHost: a.test:81\r\nX-Two: 2\r\nContent-Length: 7\r\n"
     "Connection: close\r\n\r\n",
     0},
    {"connect http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test", 80,
     "connect / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", 0},
    {"connect http://a.test:81/ HTTP/1.1\r\nHost: a.test\r\n\r\n", NULL, 0, NULL, 400},
    {"CONNECT a.test:443 HTTP/1.1\r\n\r\n", NULL, 0, NULL, 400},
    {"CONNECT 127.1:443 HTTP/1.0\r\n\r\n", NULL, 0, NULL, 403},
    {"CONNECT a.test:443 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, 0, NULL, 400},
    {"GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", NULL, 0, NULL, 400},
    {"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: identity\r\n\r\n", NULL, 0,
     NULL, 411},
    {"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1, 1\r\n\r\n", NULL, 0, NULL,
     400},
    {"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n: x\r\n\r\n", NULL, 0, NULL, 400},
    {"GET http://a.test/ HTTP/1.1\nHost: a.test\r\n\r\n", NULL, 0, NULL, 400},
    {"\r\nGET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", NULL, 0, NULL, 400},
    {"GET http://a.test/ HTTP/1.1 \r\nHost: a.test\r\n\r\n", NULL, 0, NULL, 505},
    {"GET http://a.test/ HTTP/1.1\r\nHost : a.test\r\n\r\n", NULL, 0, NULL, 400},
    {"GET http://a.test/\x7f HTTP/1.1\r\nHost: a.test\r\n\r\n", NULL, 0, NULL, 400},
    {"\r\n\r\n", NULL, 0, NULL, 400},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct strbuf out = STRBUF_INIT(4 * PROXY_HEAD_MAX);
        struct proxy_head h;
        const char *why = "";
        size_t len = strlen(cases[i].head);
        int status = proxy_head_parse(cases[i].head, len, &h, &out, &why);
        ok(status == cases[i].status, "case %zu has status %d: %d %s", i, cases[i].status, status,
           why ? why : "");
        if (!cases[i].status)
            ok(strcmp(h.target.host, cases[i].host) == 0 && h.target.port == cases[i].port &&
                   h.connect == !cases[i].forwarded &&
                   strcmp(out.data ? out.data : "", cases[i].forwarded ? cases[i].forwarded : "") ==
                       0,
               "case %zu goes to %s: '%s'", i, h.target.host, out.data ? out.data : "");
        strbuf_done(&out);
    }
    ok(http_head_length("a\r\n\r\nb", 6) == 5, "a head ends with its empty line");
    ok(http_head_length("a\r\n\r", 4) == 0, "and not before");
    tap_done();
}
