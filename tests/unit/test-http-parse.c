/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of src/net that only look at bytes: head scanner, chunk decoder, targets. Each input is
 * also fed in two pieces split at every place, which must make no difference. */
#include <errno.h>
#include <string.h>

#include "base/strbuf.h"
#include "net/chunk.h"
#include "net/scan.h"
#include "net/target.h"
#include "tests/unit/tap.h"

/* The start of text for a test's name: one line, printable. */
static const char *printable(const char *text, size_t len)
{
    static char out[64];
    size_t n = 0;
    for (size_t i = 0; i < len && n < 50; i++) {
        unsigned char c = (unsigned char)text[i];
        out[n++] = c == '\r'                          ? '<'
                   : c == '\n'                        ? '>'
                   : c < 0x20 || c > 0x7e || c == '#' ? '?'
                                                      : (char)c;
    }
    out[n] = 0;
    return out;
}

/* --- scan_head */

static ssize_t scan_split(const char *text, size_t len, size_t at)
{
    struct scan s = {0};
    ssize_t n = scan_head(&s, text, at);
    return n ? n : scan_head(&s, text, len);
}

static void check_scan(const char *text, size_t len, ssize_t want)
{
    size_t wrong = 0;
    for (size_t at = 0; at <= len; at++)
        wrong += scan_split(text, len, at) != want;
    ok(!wrong, "scan %s: %zd", printable(text, len), want);
}

#define SCAN(text, want) check_scan(text, sizeof(text) - 1, want)

static void test_scan(void)
{
    SCAN("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    SCAN("\r\n\r\nGET / HTTP/1.1\r\n\r\n", 22);
    SCAN("GET / HTTP/1.1\r\nA:\r\n\r\nrest", 22);
    SCAN("GET / HTTP/1.1\r\nA: \t\xff\r\n\r\n", 25);
    SCAN("GET / HTTP/1.1\r\nHost: x\r\n", 0);
    SCAN("", 0);
    SCAN("\nGET / HTTP/1.1\r\n\r\n", -400);
    SCAN("\r\rGET / HTTP/1.1\r\n\r\n", -400);
    SCAN(" GET / HTTP/1.1\r\n\r\n", -400);
    SCAN("GET / HTTP/1.1\n", -400);
    SCAN("GET / HTTP/1.1\rA", -400);
    SCAN("GET /\x80 HTTP/1.1\r\n", -400);
    SCAN("GET /\0 HTTP/1.1\r\n", -400);
    SCAN("GET / HTTP/1.1\r\n A: b\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA : b\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA: b\r\n\tc\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA: b\nB: c\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA: b\0\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA: \x7f\r\n", -400);
    SCAN("GET / HTTP/1.1\r\nA\r\n", -400);
    SCAN("GET / HTTP/1.1\r\n: b\r\n", -400);
    SCAN("GET / HTTP/1.1\r\n\rX", -400);
    SCAN("GET\r\n", -400);
    SCAN("GET \r\n", -400);
    SCAN("GET  / HTTP/1.1\r\n", -400);
    SCAN("GET / HTTP/1.1 \r\n", -400);
    SCAN("GET / x HTTP/1.1\r\n", -400);
    SCAN("GET / HTTP1.1\r\n", -400);
    SCAN("GET /\r\n", -505);
    SCAN("GET / HTTP/1.2\r\n", -505);
    SCAN("GET / HTTP/1.10\r\n", -505);
    SCAN("GET / HTTP/2.0\r\n", -505);
    SCAN("GET / RTSP/1.0\r\n", -505);
}

/* --- chunk_decode */

/* Decodes text split at `at`; the number of bytes used, or -EBADMSG. */
static ssize_t decode_split(const char *text, size_t len, size_t at, struct strbuf *out, bool *done)
{
    struct chunk_decoder d = {0};
    size_t pos = 0;
    while (pos < len && !d.done) {
        const char *piece;
        size_t n, end = pos < at ? at : len;
        ssize_t used = chunk_decode(&d, text + pos, end - pos, &piece, &n);
        if (used < 0)
            return used;
        strbuf_append(out, piece, n);
        pos += (size_t)used;
    }
    *done = d.done;
    return (ssize_t)pos;
}

static void check_chunks(const char *text, size_t len, const char *want, bool want_done,
                         size_t rest)
{
    size_t wrong = 0;
    for (size_t at = 0; at <= len; at++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1 << 20);
        bool done = false;
        ssize_t n = decode_split(text, len, at, &out, &done);
        if (!want)
            wrong += n != -EBADMSG;
        else
            wrong += n != (ssize_t)(len - rest) || done != want_done ||
                     strcmp(out.data ? out.data : "", want) != 0;
    }
    ok(!wrong, "chunks %s: %s", printable(text, len), want ? want : "refused");
}

#define CHUNKS(text, want, done, rest) check_chunks(text, sizeof(text) - 1, want, done, rest)
#define CHUNKS_BAD(text)               check_chunks(text, sizeof(text) - 1, NULL, false, 0)

static void test_chunks(void)
{
    CHUNKS("5\r\nhello\r\n0\r\n\r\n", "hello", true, 0);
    CHUNKS("5\r\nhello\r\n6\r\n world\r\n000\r\nA: b\r\n\r\nGET", "hello world", true, 3);
    CHUNKS("A;a;b=c;d=\"e\\\";\"\r\n0123456789\r\n0;x\r\n\r\n", "0123456789", true, 0);
    CHUNKS("5\r\nhel", "hel", false, 0);
    CHUNKS("0\r\n", "", false, 0);
    CHUNKS_BAD("\r\n");
    CHUNKS_BAD("5 \r\nhello\r\n");
    CHUNKS_BAD(" 5\r\nhello\r\n");
    CHUNKS_BAD("5\nhello\r\n");
    CHUNKS_BAD("5\r\nhelloX\r\n");
    CHUNKS_BAD("5\r\nhello\n0\r\n\r\n");
    CHUNKS_BAD("-5\r\n");
    CHUNKS_BAD("0x5\r\n");
    CHUNKS_BAD("5;\r\nhello\r\n");
    CHUNKS_BAD("5;=b\r\nhello\r\n");
    CHUNKS_BAD("5;a=\r\nhello\r\n");
    CHUNKS_BAD("5;a=\"b\r\nhello\r\n");
    CHUNKS_BAD("0\r\nA: b\n\r\n");
    CHUNKS_BAD("0\r\n A: b\r\n\r\n");
    CHUNKS_BAD("0\r\n\rX");
    CHUNKS_BAD("1000000000000000\r\n");

    struct chunk_decoder d = {0};
    const char *piece;
    size_t n;
    ssize_t used = 0;
    for (size_t i = 0; i < 100000 && used >= 0; i++)
        for (size_t at = 0; at < 6 && used >= 0; at += (size_t)used)
            used = chunk_decode(&d, &"1\r\nx\r\n"[at], 6 - at, &piece, &n);
    ok(used >= 0, "many small chunks are fine");
    used = chunk_decode(&d, "1;a", 3, &piece, &n);
    for (size_t i = 0; i < CHUNK_OVERHEAD_MAX && used >= 0; i++)
        used = chunk_decode(&d, "a", 1, &piece, &n);
    ok(used == -EBADMSG, "an endless extension is not");
}

/* --- target_parse */

static void check_target(const char *text, const char *path, const char *authority,
                         const char *name, const char *value)
{
    char buf[256] = "x"; /* a byte before the target, as there is in a head */
    struct request_target t;
    struct http_field q[4];
    snprintf(buf + 1, sizeof(buf) - 1, "%s", text);
    int r = request_target_parse(buf + 1, strlen(text), &t, q, 4);
    bool good = path ? r == 0 && !strcmp(t.path, path) : r == -EINVAL;
    if (path && authority)
        good = good && t.authority && !strcmp(t.authority, authority);
    if (path && name)
        good = good && t.n_query && !strcmp(q[0].name, name) && !strcmp(q[0].value, value);
    ok(good, "target %s", printable(text, strlen(text)));
}

static void test_targets(void)
{
    check_target("/", "/", NULL, NULL, NULL);
    check_target("*", "*", NULL, NULL, NULL);
    check_target("/a%2Fb%20c+d%252f", "/a%2Fb c+d%252f", NULL, NULL, NULL);
    check_target("/a?b=c%3D+d&e", "/a", NULL, "b", "c= d");
    check_target("/a?&&b", "/a", NULL, "b", "");
    check_target("/a?b=c#d", "/a", NULL, "b", "c");
    check_target("/a#?b", "/a", NULL, NULL, NULL);
    check_target("http://h/a?b=c", "/a", "h", "b", "c");
    check_target("HTTPS://u:p@h:1", "/", "h:1", NULL, NULL);
    check_target("http://h?b=c", "/", "h", "b", "c");
    check_target("", NULL, NULL, NULL, NULL);
    check_target("a", NULL, NULL, NULL, NULL);
    check_target("*x", NULL, NULL, NULL, NULL);
    check_target("http://", NULL, NULL, NULL, NULL);
    check_target("http://u@", NULL, NULL, NULL, NULL);
    check_target("/%", NULL, NULL, NULL, NULL);
    check_target("/%1", NULL, NULL, NULL, NULL);
    check_target("/%1g", NULL, NULL, NULL, NULL);
    check_target("/%00", NULL, NULL, NULL, NULL);
    check_target("/?a=%00", NULL, NULL, NULL, NULL);
    check_target("/?%=a", NULL, NULL, NULL, NULL);
    check_target("/?a&b&c&d&e", NULL, NULL, NULL, NULL);
}

int main(void)
{
    test_scan();
    test_chunks();
    test_targets();
    return tap_done();
}
