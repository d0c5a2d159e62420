/* SPDX-License-Identifier: Apache-2.0 */
/* Seals and pairs: what opens, what does not, and what is refused before it is sealed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "secret/pair.h"
#include "secret/seal-key.h"
#include "secret/seal.h"
#include "tests/unit/tap.h"

static void test_seal(void)
{
    static const char text[] = "the secret";
    uint8_t private_key[SEAL_KEY_SIZE] = {1, 2, 3}, other[SEAL_KEY_SIZE] = {9};
    uint8_t public_key[SEAL_KEY_SIZE], content[SEAL_KEY_SIZE], second_content[SEAL_KEY_SIZE];
    uint8_t sealed[sizeof(text) + SEAL_OVERHEAD], second[sizeof(text) + SEAL_OVERHEAD];
    uint8_t opened[sizeof(text)] = {0};
    ok(seal_public_key(private_key, public_key) == 0, "a public key");
    ok(seal_close(public_key, text, sizeof(text), sealed) == 0, "closes");
    ok(seal_close(public_key, text, sizeof(text), second) == 0 &&
           memcmp(sealed, second, sizeof(sealed)) != 0,
       "no two seals of the same bytes are alike");
    ok(!memmem(sealed, sizeof(sealed), "secret", 6), "the text is not in the seal");
    ok(seal_content_key(private_key, sealed, sizeof(sealed), content) == 0 &&
           seal_open(content, sealed, sizeof(sealed), opened) == 0 &&
           memcmp(opened, text, sizeof(text)) == 0,
       "opens with its content key");
    ok(seal_content_key(private_key, second, sizeof(second), second_content) == 0 &&
           seal_open(second_content, sealed, sizeof(sealed), opened) == -EINVAL,
       "the content key of one seal opens no other");
    ok(seal_content_key(other, sealed, sizeof(sealed), content) == 0 &&
           seal_open(content, sealed, sizeof(sealed), opened) == -EINVAL,
       "another warden's key does not open it");
    size_t opened_anyway = 0;
    seal_content_key(private_key, sealed, sizeof(sealed), content);
    for (size_t i = SEAL_KEY_SIZE; i < sizeof(sealed); i++) {
        sealed[i] ^= 1;
        opened_anyway += seal_open(content, sealed, sizeof(sealed), opened) == 0;
        sealed[i] ^= 1;
    }
    ok(opened_anyway == 0, "every changed byte is noticed");
    memset(sealed, 0, SEAL_KEY_SIZE);
    ok(seal_content_key(private_key, sealed, sizeof(sealed), content) == -EINVAL,
       "a public key of small order is refused");
    ok(seal_open(content, sealed, SEAL_OVERHEAD - 1, opened) == -EINVAL, "too short to be a seal");
}

static void test_key_file(void)
{
    char dir[] = "/tmp/mas-secret-XXXXXX";
    uint8_t first[SEAL_KEY_SIZE], again[SEAL_KEY_SIZE];
    struct error err = {0};
    struct stat st;
    if (!mkdtemp(dir))
        abort();
    _cleanup_free_ char *path = xasprintf("%s/secret.key", dir);
    ok(seal_key_open(dir, first, &err) == 0 && stat(path, &st) == 0 && (st.st_mode & 07777) == 0600,
       "a key is made, for nobody else to read");
    ok(seal_key_open(dir, again, &err) == 0 && memcmp(first, again, sizeof(first)) == 0,
       "and is the same after a restart");
    chmod(path, 0640);
    ok(seal_key_open(dir, again, &err) < 0 && strstr(err.message, "read by others"),
       "one that others may read is refused");
    chmod(path, 0600);
    ok(truncate(path, 31) == 0 && seal_key_open(dir, again, &err) < 0,
       "one that was cut is refused, not made anew");
    unlink(path);
    rmdir(dir);
}

static void test_headers(void)
{
    static const char *const good[] = {"Authorization: Bearer {}", "x-api-key: {}",
                                       "Cookie: a={}; b=c"};
    static const char *const bad[] = {"",
                                      "Authorization",
                                      "Authorization: Bearer",
                                      "Authorization:Bearer {}",
                                      "A b: {}",
                                      ": {}",
                                      "X: {} {}",
                                      "X{}: y",
                                      "X: {}\r\nY: z",
                                      "Host: {}",
                                      "content-length: {}",
                                      "Transfer-Encoding: {}",
                                      "Proxy-Authorization: {}"};
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        struct pair p = {0};
        _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PAIR_HEADER_MAX);
        ok(pair_set_header(&p, good[i], NULL) == 0, "header %s", good[i]);
        pair_format_header(&p, &b);
        ok(strcmp(b.data, good[i]) == 0, "and back");
        pair_done(&p);
    }
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct pair p = {0};
        ok(pair_set_header(&p, bad[i], NULL) < 0, "no header: '%s'", bad[i]);
        pair_done(&p);
    }
}

static void test_hosts(void)
{
    static const char *const bad[] = {"",
                                      "*",
                                      "*.com",
                                      "1.2.3.4",
                                      "[::1]",
                                      "2130706433",
                                      "a b.example",
                                      "x.example:0",
                                      "x.example:65536",
                                      "x.*.example",
                                      "x.example/24",
                                      "bücher.example"};
    struct pair p = {0};
    ok(pair_add_host(&p, "API.Example.COM.", NULL) == 0 &&
           pair_add_host(&p, "*.b.example", NULL) == 0 &&
           pair_add_host(&p, "c.example:8443", NULL) == 0,
       "hosts");
    ok(pair_has_host(&p, "api.example.com", 443), "a name, in one form");
    ok(!pair_has_host(&p, "api.example.com", 80) && !pair_has_host(&p, "api.example.com", 8443),
       "no other port than 443 unless it is named");
    ok(!pair_has_host(&p, "x.api.example.com", 443) && !pair_has_host(&p, "example.com", 443) &&
           !pair_has_host(&p, "xapi.example.com", 443),
       "no other name");
    ok(pair_has_host(&p, "a.b.example", 443) && pair_has_host(&p, "x.a.b.example", 443) &&
           !pair_has_host(&p, "b.example", 443) && !pair_has_host(&p, "ab.example", 443),
       "names below, not itself");
    ok(pair_has_host(&p, "c.example", 8443) && !pair_has_host(&p, "c.example", 443),
       "a named port");
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        ok(pair_add_host(&p, bad[i], NULL) < 0, "no host: '%s'", bad[i]);
    pair_done(&p);
}

static bool covers(const char *a, const char *b)
{
    struct pair_host x, y;
    return pair_parse_host(a, &x) == 0 && pair_parse_host(b, &y) == 0 && pair_host_covers(&x, &y);
}

static void test_covers(void)
{
    ok(covers("a.example", "a.example") && covers("*.example.com", "a.example.com") &&
           covers("*.example.com", "*.example.com") && covers("*.example.com", "*.a.example.com"),
       "what a ceiling allows");
    ok(!covers("a.example", "b.example") && !covers("*.example.com", "example.com") &&
           !covers("a.example.com", "*.a.example.com") &&
           !covers("*.a.example.com", "*.example.com") && !covers("a.example", "a.example:8443") &&
           !covers("*.example.com", "*.xexample.com"),
       "and what it does not");
}

static void test_text(void)
{
    struct pair p = {0}, back = {0};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PAIR_TEXT_MAX);
    pair_set_header(&p, "X-Key: {}", NULL);
    pair_add_host(&p, "a.example", NULL);
    pair_add_host(&p, "*.b.example:99", NULL);
    ok(pair_set_value(&p, "line\nline", 9, NULL) < 0 && pair_set_value(&p, "", 0, NULL) < 0 &&
           pair_set_value(&p, " x", 2, NULL) < 0 && pair_set_value(&p, "\xc3\xa9", 2, NULL) < 0,
       "what a header cannot carry is refused");
    ok(pair_set_value(&p, "s e,c", 5, NULL) == 0 && pair_format(&p, &b) == 0, "as text");
    ok(pair_parse(&back, b.data, b.len, NULL) == 0 && strcmp(back.value, "s e,c") == 0 &&
           back.n_hosts == 2 && pair_has_host(&back, "x.b.example", 99),
       "and back");
    pair_done(&back);
    size_t parsed = 0;
    for (size_t n = 0; n < b.len - 4; n++)
        parsed += pair_parse(&back, b.data, n, NULL) == 0;
    ok(parsed == 0, "nothing that is cut short is a pair");
    pair_done(&p);
}

int main(void)
{
    test_seal();
    test_key_file();
    test_headers();
    test_hosts();
    test_covers();
    test_text();
    return tap_done();
}
