/* SPDX-License-Identifier: Apache-2.0 */
/* base/url.h and base/target.h: one table of the ways to write where a connection goes. */
#include "base/url.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/tap.h"

#define NO_SCHEME (-EPROTONOSUPPORT)

static const struct {
    const char *text;
    int result;
    const char *host; /* as target_format_host() writes it; NULL with a negative result */
    uint16_t port;
} urls[] = {
    {"http://example.com", 0, "example.com", 80},
    {"https://example.com/", 0, "example.com", 443},
    {"HTTPS://Example.COM.:8443/a?b#c", 0, "example.com", 8443},
    {"http://example.com?q", 0, "example.com", 80},
    {"http://example.com#f", 0, "example.com", 80},
    {"http://a.example/@b.example/", 0, "a.example", 80},
    {"http://a.example?@b.example/", 0, "a.example", 80},
    {"http://a.example#@b.example/", 0, "a.example", 80},
    {"http://a.example/x?u=https://b.example", 0, "a.example", 80},
    {"http://user:pass@example.com:81/", 0, "example.com", 81},
    {"http://a.example@b.example/", 0, "b.example", 80},
    {"http://a.example:80@b.example/", 0, "b.example", 80},
    {"http://a@b@c.example/", 0, "c.example", 80},
    {"http://xn--bcher-kva.example/", 0, "xn--bcher-kva.example", 80},
    {"http://127.0.0.1:1/", 0, "127.0.0.1", 1},
    {"http://127.0.0.1./", 0, "127.0.0.1", 80},
    {"http://[::1]/", 0, "[::1]", 80},
    {"http://[::1]:65535/", 0, "[::1]", 65535},
    {"http://[0:0:0:0:0:0:0:1]/", 0, "[::1]", 80},
    {"http://[2001:DB8::A]/", 0, "[2001:db8::a]", 80},
    {"http://[::ffff:127.0.0.1]/", 0, "127.0.0.1", 80},
    {"http://[::ffff:7f00:1]/", 0, "127.0.0.1", 80},
    {"http://1.example/", 0, "1.example", 80},
    {"http://_dmarc.example/", 0, "_dmarc.example", 80},

    {"http://2130706433/", -EPERM, NULL, 0},
    {"http://0x7f000001/", -EPERM, NULL, 0},
    {"http://0X7F.1/", -EPERM, NULL, 0},
    {"http://0177.0.0.1/", -EPERM, NULL, 0},
    {"http://127.1/", -EPERM, NULL, 0},
    {"http://127.0.0.1.1/", -EPERM, NULL, 0},
    {"http://256.0.0.1/", -EPERM, NULL, 0},
    {"http://example.0x/", -EPERM, NULL, 0},
    {"http://017700000001/", -EPERM, NULL, 0},

    {"ftp://example.com/", NO_SCHEME, NULL, 0},
    {"file:///etc/passwd", NO_SCHEME, NULL, 0},
    {"httpx://example.com/", NO_SCHEME, NULL, 0},
    {"http:/example.com/", NO_SCHEME, NULL, 0},
    {"http:example.com", NO_SCHEME, NULL, 0},
    {"//example.com/", NO_SCHEME, NULL, 0},
    {"example.com", NO_SCHEME, NULL, 0},
    {" http://example.com", NO_SCHEME, NULL, 0},
    {"javascript:alert(1)", NO_SCHEME, NULL, 0},
    {"", NO_SCHEME, NULL, 0},

    {"http://", -EINVAL, NULL, 0},
    {"http:///a", -EINVAL, NULL, 0},
    {"http://@/", -EINVAL, NULL, 0},
    {"http://:80/", -EINVAL, NULL, 0},
    {"http://./", -EINVAL, NULL, 0},
    {"http://a..b/", -EINVAL, NULL, 0},
    {"http://a.example../", -EINVAL, NULL, 0},
    {"http://-a.example/", -EINVAL, NULL, 0},
    {"http://a.example:/", -EINVAL, NULL, 0},
    {"http://a.example:0/", -EINVAL, NULL, 0},
    {"http://a.example:080/", -EINVAL, NULL, 0},
    {"http://a.example:65536/", -EINVAL, NULL, 0},
    {"http://a.example:+80/", -EINVAL, NULL, 0},
    {"http://a.example:80:81/", -EINVAL, NULL, 0},
    {"http://a.example:80x/", -EINVAL, NULL, 0},
    {"http://a.example\\@b.example/", -EINVAL, NULL, 0},
    {"http://a.example\\b", -EINVAL, NULL, 0},
    {"http:\\\\a.example/", NO_SCHEME, NULL, 0},
    {"http://a.example /", -EINVAL, NULL, 0},
    {"http://a.example/ b", -EINVAL, NULL, 0},
    {"http://a.example/\tb", -EINVAL, NULL, 0},
    {"http://a.ex\tample/", -EINVAL, NULL, 0},
    {"http://a.example/\r\nHost: b", -EINVAL, NULL, 0},
    {"http://a%2eexample/", -EINVAL, NULL, 0},
    {"http://%31%32%37.1/", -EINVAL, NULL, 0},
    {"http://b\xc3\xbc"
     "cher.example/",
     -EINVAL, NULL, 0},
    {"http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/", -EINVAL, NULL, 0}, /* wide digits */
    {"http://a\xe3\x80\x82"
     "example/",
     -EINVAL, NULL, 0}, /* an ideographic full stop */
    {"http://::1/", -EINVAL, NULL, 0},
    {"http://[::1/", -EINVAL, NULL, 0},
    {"http://[::1]x/", -EINVAL, NULL, 0},
    {"http://[::1]x:80/", -EINVAL, NULL, 0},
    {"http://[fe80::1%25eth0]/", -EINVAL, NULL, 0},
    {"http://[127.0.0.1]/", -EINVAL, NULL, 0},
    {"http://[example.com]/", -EINVAL, NULL, 0},
    {"http://[]/", -EINVAL, NULL, 0},
    {"http://1.2.3.4/5", 0, "1.2.3.4", 80},
};

static void test_urls(void)
{
    for (size_t i = 0; i < ELEMENTS(urls); i++) {
        struct url u = {0};
        char host[TARGET_TEXT_SIZE] = "";
        int r = url_parse(urls[i].text, &u);
        if (r == 0)
            target_format_host(&u.target, host);
        ok(r == urls[i].result &&
               (r < 0 || (strcmp(host, urls[i].host) == 0 && u.target.port == urls[i].port)),
           "URL %zu leads to %s (%s:%u, %d)", i, urls[i].host ? urls[i].host : "nothing", host,
           u.target.port, r);
    }
    struct url u;
    const char *text = "https://u@h.example:1/p?q#f";
    ok(url_parse(text, &u) == 0 && u.tls && u.has_user && strcmp(u.rest, "/p?q#f") == 0,
       "scheme, user and rest");
}

/* What only has to be compared: words of command lines. */
static void test_split(void)
{
    static const struct {
        const char *text, *user, *host, *port;
    } cases[] = {
        {"ssh://git@h.example:22/x", "git", "h.example", "22"},
        {"git@h.example:org/repo", "git", "h.example", "org"},
        {"h.example", NULL, "h.example", NULL},
        {"h.example:80", NULL, "h.example", "80"},
        {"[::1]:80/x", NULL, "[::1]", "80"},
        {"[::1]", NULL, "[::1]", NULL},
        {"a\\b", NULL, "a", NULL},
        {"", NULL, "", NULL},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct url_parts p;
        url_split(cases[i].text, &p);
        ok(p.host_len == strlen(cases[i].host) && !strncmp(p.host, cases[i].host, p.host_len) &&
               !p.user == !cases[i].user && !p.port == !cases[i].port &&
               (!p.port || (p.port_len == strlen(cases[i].port) &&
                            !strncmp(p.port, cases[i].port, p.port_len))),
           "the parts of '%s'", cases[i].text);
    }
}

static void test_cut_port(void)
{
    static const struct {
        const char *text, *host;
        uint16_t port; /* 0: not set */
    } cases[] = {
        {"h", "h", 0},     {"h:443", "h", 443}, {"[::1]", "[::1]", 0}, {"[::1]:8", "[::1]", 8},
        {"::1", "::1", 0}, {"h:", NULL, 0},     {"h:x", NULL, 0},      {"h:70000", NULL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char text[32];
        uint16_t port = 0;
        strcpy(text, cases[i].text);
        int r = target_cut_port(text, &port);
        ok(cases[i].host ? r == 0 && strcmp(text, cases[i].host) == 0 && port == cases[i].port
                         : r == -EINVAL,
           "the port of '%s'", cases[i].text);
    }
}

static void test_origins(void)
{
    static const struct {
        const char *text, *host; /* NULL: it is no origin */
    } cases[] = {
        {"http://h.example", "h.example"},
        {"https://h.example:8443", "h.example:8443"},
        {"http://[::1]:8080", "[::1]:8080"},
        {"http://[::1]", "[::1]"},
        {"browser-extension://abcdef", "abcdef"},
        {"null", NULL},
        {"", NULL},
        {"h.example", NULL},
        {"://h.example", NULL},
        {"http://", NULL},
        {"http://:80", NULL},
        {"http://h.example/", NULL},
        {"http://h.example?", NULL},
        {"http://h.example#", NULL},
        {"http://h.example\\", NULL},
        {"http://user@h.example", NULL},
        {"http://@h.example", NULL},
        {"http://h.example:", NULL},
        {"http://h.example:x", NULL},
        {"http://h.example:0", NULL},
        {"http://h.example:65536", NULL},
        {"http://[::1]8080", NULL},
        {"http://[::1", NULL},
        {"http://*", NULL},
        {"http://*.example", NULL},
        {"http://a.example,http://b.example", NULL},
        {"http://a.example, b.example", NULL},
        {"http://a.example http://b.example", NULL},
        {"http://a.example\thttp://b.example", NULL},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const char *host = origin_host(cases[i].text);
        ok(cases[i].host ? host && strcmp(host, cases[i].host) == 0 : !host,
           "the host of the origin '%s'", cases[i].text);
    }
    ok(origin_is_of_host("http://H.example:80", "h.EXAMPLE:80"), "letter case makes no difference");
    ok(!origin_is_of_host("http://h.example", "h.example:8080") &&
           !origin_is_of_host("http://h.example:8080", "h.example"),
       "a port does");
    ok(!origin_is_of_host("http://h.example", NULL), "a request without a Host is of no page");
    ok(!origin_is_of_host("null", "null") && !origin_is_of_host("http://h/", "h/"),
       "what is no origin is of no host, whatever Host says");
}

int main(void)
{
    test_urls();
    test_split();
    test_origins();
    test_cut_port();
    return tap_done();
}
