/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's decisions, as tables: what is parsed, which address is what, who may go where; and
 * the relay that moves the bytes. */
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/address.h"
#include "base/clock.h"
#include "gateway/answer-head.h"
#include "gateway/gateway-client.h"
#include "gateway/relay.h"
#include "gateway/rule-set.h"
#include "gateway/rule.h"
#include "gateway/session.h"
#include "base/target.h"
#include "tests/unit/tap.h"

static const struct {
    const char *text;
    enum address_class class;
} addresses[] = {
    {"1.1.1.1", ADDRESS_PUBLIC},
    {"8.8.8.8", ADDRESS_PUBLIC},
    {"9.255.255.255", ADDRESS_PUBLIC},
    {"11.0.0.0", ADDRESS_PUBLIC},
    {"100.63.255.255", ADDRESS_PUBLIC},
    {"100.128.0.0", ADDRESS_PUBLIC},
    {"126.255.255.255", ADDRESS_PUBLIC},
    {"128.0.0.1", ADDRESS_PUBLIC},
    {"169.253.255.255", ADDRESS_PUBLIC},
    {"172.15.255.255", ADDRESS_PUBLIC},
    {"172.32.0.0", ADDRESS_PUBLIC},
    {"192.167.255.255", ADDRESS_PUBLIC},
    {"192.169.0.0", ADDRESS_PUBLIC},
    {"198.17.255.255", ADDRESS_PUBLIC},
    {"198.20.0.0", ADDRESS_PUBLIC},
    {"223.255.255.255", ADDRESS_PUBLIC},
    {"168.63.129.15", ADDRESS_PUBLIC},
    {"0.0.0.0", ADDRESS_FORBIDDEN},
    {"0.1.2.3", ADDRESS_FORBIDDEN},
    {"10.0.0.0", ADDRESS_PRIVATE},
    {"10.255.255.255", ADDRESS_PRIVATE},
    {"100.64.0.0", ADDRESS_PRIVATE},
    {"100.127.255.255", ADDRESS_PRIVATE},
    {"100.100.100.200", ADDRESS_METADATA},
    {"127.0.0.1", ADDRESS_LOOPBACK},
    {"127.255.255.254", ADDRESS_LOOPBACK},
    {"168.63.129.16", ADDRESS_METADATA},
    {"169.254.0.1", ADDRESS_LINK_LOCAL},
    {"169.254.169.254", ADDRESS_METADATA},
    {"169.254.170.2", ADDRESS_METADATA},
    {"172.16.0.0", ADDRESS_PRIVATE},
    {"172.31.255.255", ADDRESS_PRIVATE},
    {"192.0.0.1", ADDRESS_RESERVED},
    {"192.0.0.192", ADDRESS_METADATA},
    {"192.0.2.1", ADDRESS_RESERVED},
    {"192.88.99.1", ADDRESS_RESERVED},
    {"192.168.0.0", ADDRESS_PRIVATE},
    {"192.168.255.255", ADDRESS_PRIVATE},
    {"198.18.0.0", ADDRESS_RESERVED},
    {"198.19.255.255", ADDRESS_RESERVED},
    {"198.51.100.1", ADDRESS_RESERVED},
    {"203.0.113.1", ADDRESS_RESERVED},
    {"224.0.0.1", ADDRESS_FORBIDDEN},
    {"239.255.255.255", ADDRESS_FORBIDDEN},
    {"240.0.0.1", ADDRESS_RESERVED},
    {"255.255.255.255", ADDRESS_FORBIDDEN},
    {"2606:4700:4700::1111", ADDRESS_PUBLIC},
    {"2001:4860:4860::8888", ADDRESS_PUBLIC},
    {"2a00:1450:4001:81b::200e", ADDRESS_PUBLIC},
    {"2001:200::1", ADDRESS_PUBLIC},
    {"3ffe::1", ADDRESS_PUBLIC},
    {"::", ADDRESS_FORBIDDEN},
    {"::1", ADDRESS_LOOPBACK},
    {"::2", ADDRESS_RESERVED},
    {"::7f00:1", ADDRESS_RESERVED},
    {"::127.0.0.1", ADDRESS_RESERVED},
    {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
    {"::ffff:7f00:1", ADDRESS_LOOPBACK},
    {"::ffff:10.1.2.3", ADDRESS_PRIVATE},
    {"::ffff:169.254.169.254", ADDRESS_METADATA},
    {"::ffff:8.8.8.8", ADDRESS_PUBLIC},
    {"::ffff:0:127.0.0.1", ADDRESS_RESERVED},
    {"64:ff9b::7f00:1", ADDRESS_LOOPBACK},
    {"64:ff9b::169.254.169.254", ADDRESS_METADATA},
    {"64:ff9b::8.8.8.8", ADDRESS_PUBLIC},
    {"64:ff9b:1::8.8.8.8", ADDRESS_RESERVED},
    {"2002:7f00:1::", ADDRESS_LOOPBACK},
    {"2002:a00:1::1", ADDRESS_PRIVATE},
    {"2002:a9fe:a9fe::1", ADDRESS_METADATA},
    {"2002:808:808::1", ADDRESS_PUBLIC},
    {"2001:0:4136:e378:8000:63bf:3fff:fdd2", ADDRESS_RESERVED},
    {"2001:2::1", ADDRESS_RESERVED},
    {"2001:10::1", ADDRESS_RESERVED},
    {"2001:db8::1", ADDRESS_RESERVED},
    {"3fff:fff::1", ADDRESS_RESERVED},
    {"2606:4700::5efe:127.0.0.1", ADDRESS_LOOPBACK},
    {"2606:4700::200:5efe:10.0.0.1", ADDRESS_PRIVATE},
    {"100::1", ADDRESS_RESERVED},
    {"4000::1", ADDRESS_RESERVED},
    {"5f00::1", ADDRESS_RESERVED},
    {"fc00::1", ADDRESS_PRIVATE},
    {"fd12:3456::1", ADDRESS_PRIVATE},
    {"fd00:ec2::254", ADDRESS_METADATA},
    {"fd20:ce::254", ADDRESS_METADATA},
    {"fe80::1", ADDRESS_LINK_LOCAL},
    {"febf::1", ADDRESS_LINK_LOCAL},
    {"fec0::1", ADDRESS_PRIVATE},
    {"ff02::1", ADDRESS_FORBIDDEN},
};

static void test_addresses(void)
{
    for (size_t i = 0; i < ELEMENTS(addresses); i++) {
        struct address a;
        int r = address_parse(addresses[i].text, &a);
        enum address_class c = r < 0 ? _ADDRESS_CLASS_MAX : address_classify(&a);
        ok(c == addresses[i].class, "%s is %s (got %s)", addresses[i].text,
           address_class_name(addresses[i].class), address_class_name(c));
    }
}

/* host: what becomes of it, or NULL where the line must be refused. */
static const struct {
    const char *line;
    const char *host;
    uint16_t port;
} lines[] = {
    {"CONNECT example.com 80", "example.com", 80},
    {"CONNECT EXAMPLE.Com 443", "example.com", 443},
    {"CONNECT example.com. 443", "example.com", 443},
    {"CONNECT localhost 1", "localhost", 1},
    {"CONNECT xn--bcher-kva.example 65535", "xn--bcher-kva.example", 65535},
    {"CONNECT _dmarc.example.com 80", "_dmarc.example.com", 80},
    {"CONNECT 1e100.net 80", "1e100.net", 80},
    {"CONNECT 0x7f.example 80", "0x7f.example", 80},
    {"CONNECT 8.8.8.8 53", "8.8.8.8", 53},
    {"CONNECT 127.0.0.1. 80", "127.0.0.1", 80},
    {"CONNECT [::1] 80", "::1", 80},
    {"CONNECT [2606:4700:4700:0:0:0:0:1111] 80", "2606:4700:4700::1111", 80},
    {"CONNECT [::ffff:127.0.0.1] 80", "127.0.0.1", 80},
    {"CONNECT [::FFFF:7F00:1] 80", "127.0.0.1", 80},
    /* other spellings of 127.0.0.1 that a resolver would take */
    {"CONNECT 2130706433 80", NULL, 0},
    {"CONNECT 0x7f000001 80", NULL, 0},
    {"CONNECT 0X7F000001 80", NULL, 0},
    {"CONNECT 017700000001 80", NULL, 0},
    {"CONNECT 127.1 80", NULL, 0},
    {"CONNECT 127.0.1 80", NULL, 0},
    {"CONNECT 0177.0.0.1 80", NULL, 0},
    {"CONNECT 0x7f.0.0.1 80", NULL, 0},
    {"CONNECT 127.0.0.0x1 80", NULL, 0},
    {"CONNECT 127.0.0.01 80", NULL, 0},
    {"CONNECT 127.000.000.001 80", NULL, 0},
    {"CONNECT 256.256.256.256 80", NULL, 0},
    {"CONNECT 1.2.3.4.5 80", NULL, 0},
    {"CONNECT foo.0x 80", NULL, 0},
    {"CONNECT 0 80", NULL, 0},
    {"CONNECT ::1 80", NULL, 0},
    {"CONNECT [::1 80", NULL, 0},
    {"CONNECT ::1] 80", NULL, 0},
    {"CONNECT [127.0.0.1] 80", NULL, 0},
    {"CONNECT [fe80::1%eth0] 80", NULL, 0},
    {"CONNECT [fe80::1%25lo] 80", NULL, 0},
    {"CONNECT [] 80", NULL, 0},
    {"CONNECT . 80", NULL, 0},
    {"CONNECT .. 80", NULL, 0},
    {"CONNECT example.com.. 80", NULL, 0},
    {"CONNECT .example.com 80", NULL, 0},
    {"CONNECT a..b 80", NULL, 0},
    {"CONNECT -a.com 80", NULL, 0},
    {"CONNECT a-.com 80", NULL, 0},
    {"CONNECT *.example.com 80", NULL, 0},
    {"CONNECT exa mple.com 80", NULL, 0},
    {"CONNECT user@example.com 80", NULL, 0},
    {"CONNECT example.com:80 80", NULL, 0},
    {"CONNECT example.com/ 80", NULL, 0},
    {"CONNECT b\xc3\xbc"
     "cher.example 80",
     NULL, 0},
    {"CONNECT 127.0.0.1\xe3\x80\x82 80", NULL, 0},
    {"CONNECT exam\tple.com 80", NULL, 0},
    {"CONNECT example.com 0", NULL, 0},
    {"CONNECT example.com 65536", NULL, 0},
    {"CONNECT example.com 99999999999", NULL, 0},
    {"CONNECT example.com 080", NULL, 0},
    {"CONNECT example.com -1", NULL, 0},
    {"CONNECT example.com +80", NULL, 0},
    {"CONNECT example.com 80 ", NULL, 0},
    {"CONNECT example.com 80\r", NULL, 0},
    {"CONNECT example.com  80", NULL, 0},
    {"CONNECT  example.com 80", NULL, 0},
    {"CONNECT example.com", NULL, 0},
    {"CONNECT example.com ", NULL, 0},
    {"CONNECT ", NULL, 0},
    {"CONNECT", NULL, 0},
    {"connect example.com 80", NULL, 0},
    {"GET / HTTP/1.1", NULL, 0},
    {"", NULL, 0},
};

static void test_lines(void)
{
    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        struct target t;
        int r = gateway_parse_connect(lines[i].line, strlen(lines[i].line), &t);
        if (!lines[i].host)
            ok(r == -EINVAL, "'%s' is refused", lines[i].line);
        else
            ok(r == 0 && strcmp(t.host, lines[i].host) == 0 && t.port == lines[i].port,
               "'%s' goes to %s port %u", lines[i].line, lines[i].host, lines[i].port);
    }
    struct target t;
    char line[600] = "CONNECT ", label[65] = {0};
    memset(label, 'a', 63);
    for (int k = 0; k < 4; k++)
        strcat(strcat(line, label), k < 3 ? "." : "");
    strcat(line, " 80");
    ok(gateway_parse_connect(line, strlen(line), &t) == -EINVAL, "255 bytes of name are refused");
    ok(gateway_parse_connect("CONNECT a\0b 80", 14, &t) == -EINVAL, "a NUL in a name is refused");
}

static const struct {
    const char *rule;
    const char *host;
    uint16_t port;
    bool allowed;
} hosts[] = {
    {"example.com", "example.com", 443, true},
    {"Example.COM", "example.com", 443, true},
    {"example.com.", "example.com", 443, true},
    {"example.com", "EXAMPLE.com.", 443, true},
    {"example.com", "www.example.com", 443, false},
    {"example.com", "badexample.com", 443, false},
    {"example.com", "example.com.evil.net", 443, false},
    {"example.com", "example.co", 443, false},
    {"example.com:443", "example.com", 443, true},
    {"example.com:443", "example.com", 80, false},
    {"*.example.com", "www.example.com", 443, true},
    {"*.example.com", "a.b.example.com", 443, true},
    {"*.example.com", "WWW.EXAMPLE.COM.", 443, true},
    {"*.example.com", "example.com", 443, false},
    {"*.example.com", "badexample.com", 443, false},
    {"*.example.com", "www.example.com.evil.net", 443, false},
    {"*.example.com:8443", "www.example.com", 8443, true},
    {"*.example.com:8443", "www.example.com", 443, false},
    {"*", "anything.example", 80, true},
    {"*:443", "anything.example", 443, true},
    {"*:443", "anything.example", 80, false},
    {"xn--bcher-kva.example", "xn--bcher-kva.example", 80, true},
    {"8.8.8.8", "8.8.8.8", 53, true},
    {"8.8.8.8", "8.8.4.4", 53, false},
    {"8.8.8.8:53", "8.8.8.8", 80, false},
    {"8.8.8.0/24", "8.8.8.77", 80, true},
    {"8.8.8.0/24", "8.8.9.1", 80, false},
    {"8.8.8.0/24:443", "8.8.8.77", 80, false},
    {"8.8.8.8", "[::ffff:8.8.8.8]", 53, true},
    {"2606:4700::1111", "[2606:4700:0::1111]", 80, true},
    {"[2606:4700::1111]", "[2606:4700::1111]", 80, true},
    {"[2606:4700::1111]:443", "[2606:4700::1111]", 80, false},
    {"2606:4700::/32", "[2606:4700:1::5]", 80, true},
    {"[2606:4700::/32]:80", "[2606:4701::5]", 80, false},
    {"0.0.0.0/0", "example.com", 80, false},
};

static const char *const bad_rules[] = {
    "",          "*.",       "*example.com", "**.example.com",    "foo.*.com",    "example.com:",
    "a b",       "http://x", "example.com/", "example.com/8",     "10.0.0.0/33",  "10.0.0.0/",
    "10.0.0/8",  "::1/129",  "[::1",         "[example.com]",     "[10.0.0.1]",   "example.com:0",
    "*.1.2.3.4", "127.1",    "0x7f.1",       "example.com:99999", "10.0.0.0/8/8", "*:*",
    "*.8.8",
};

static void test_host_rules(void)
{
    for (size_t i = 0; i < ELEMENTS(hosts); i++) {
        struct rule_list l = {0};
        struct target t = {.port = hosts[i].port};
        int r = rule_list_add(&l, hosts[i].rule);
        int p = target_parse_host(hosts[i].host, strlen(hosts[i].host), &t);
        bool allowed = rule_check_host(&l, false, &t) == GATEWAY_OK;
        ok(r == 0 && p == 0 && allowed == hosts[i].allowed, "rule %s %s %s:%u", hosts[i].rule,
           hosts[i].allowed ? "allows" : "does not allow", hosts[i].host, hosts[i].port);
        rule_list_done(&l);
    }
    for (size_t i = 0; i < ELEMENTS(bad_rules); i++) {
        struct rule_list l = {0};
        ok(rule_list_add(&l, bad_rules[i]) == -EINVAL && l.n == 0, "'%s' is no rule", bad_rules[i]);
        rule_list_done(&l);
    }
    struct rule_list none = {0};
    struct target t = {.port = 80, .host = "example.com"};
    ok(rule_check_host(&none, false, &t) == GATEWAY_HOST_NOT_ALLOWED, "no rule allows nothing");
    ok(rule_check_host(&none, true, &t) == GATEWAY_OK, "any host is any host");
}

/* The operator's rule, what the client asked for, what it resolved to. */
static const struct {
    const char *rule, *host;
    uint16_t port;
    const char *address;
    bool allowed;
} opened[] = {
    {NULL, "example.com", 80, "93.184.216.34", true},
    {NULL, "localhost", 80, "127.0.0.1", false},
    {NULL, "rebind.example", 80, "127.0.0.1", false},
    {NULL, "rebind.example", 80, "::1", false},
    {NULL, "rebind.example", 80, "::ffff:10.0.0.1", false},
    {NULL, "metadata.google.internal", 80, "169.254.169.254", false},
    {"127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1", true},
    {"127.0.0.1:8080", "127.0.0.1", 8081, "127.0.0.1", false},
    {"127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.2", false},
    {"127.0.0.1", "[::ffff:127.0.0.1]", 9, "::ffff:127.0.0.1", true},
    {"10.0.0.0/8", "db.internal", 5432, "10.9.8.7", true},
    {"10.0.0.0/8", "db.internal", 5432, "192.168.0.1", false},
    {"10.0.0.0/8:443", "db.internal", 5432, "10.9.8.7", false},
    {"db.internal", "db.internal", 5432, "10.9.8.7", true},
    {"db.internal:5432", "db.internal", 22, "10.9.8.7", false},
    {"db.internal", "evil.example", 5432, "10.9.8.7", false},
    {"*.internal", "db.internal", 5432, "fd00::7", true},
    {"db.internal", "db.internal", 80, "169.254.169.254", false},
    {"db.internal", "db.internal", 80, "169.254.1.1", false},
    {"*", "x.example", 80, "127.0.0.1", true},
    {"*", "x.example", 80, "169.254.169.254", false},
    {"169.254.0.0/16", "169.254.1.1", 80, "169.254.1.1", true},
    {"169.254.0.0/16", "169.254.169.254", 80, "169.254.169.254", false},
    {"0.0.0.0/0", "169.254.169.254", 80, "169.254.169.254", false},
    {"169.254.169.254", "169.254.169.254", 80, "169.254.169.254", true},
    {"fd00::/8", "[fd00:ec2::254]", 80, "fd00:ec2::254", false},
    {"0.0.0.0", "0.0.0.0", 80, "0.0.0.0", false},
    {"0.0.0.0/0", "0.0.0.0", 80, "0.0.0.0", false},
    {"::/0", "[::]", 80, "::", false},
    {"::/0", "[::1]", 80, "::1", true},
    {"::/0", "x.example", 80, "127.0.0.1", false},
    {"224.0.0.0/4", "224.0.0.1", 80, "224.0.0.1", false},
};

static void test_address_rules(void)
{
    for (size_t i = 0; i < ELEMENTS(opened); i++) {
        struct rule_list l = {0};
        struct target t = {.port = opened[i].port};
        struct address a;
        int r = opened[i].rule ? rule_list_add(&l, opened[i].rule) : 0;
        r = r < 0 ? r : target_parse_host(opened[i].host, strlen(opened[i].host), &t);
        r = r < 0 ? r : address_parse(opened[i].address, &a);
        bool allowed = r == 0 && rule_check_address(&l, &t, &a) == GATEWAY_OK;
        ok(r == 0 && allowed == opened[i].allowed, "%s: %s:%u at %s is %s",
           opened[i].rule ? opened[i].rule : "no rule", opened[i].host, opened[i].port,
           opened[i].address, opened[i].allowed ? "allowed" : "not allowed");
        rule_list_done(&l);
    }
}

static void test_client_rules(void)
{
    struct error err = {0};
    char *good[] = {(char *)"example.com", (char *)"*.example.org:443", NULL};
    char *bad[] = {(char *)"example.com", (char *)"http://example.com", NULL};
    struct gateway_rules rules = {.hosts = good, .label = "sbx-1"};
    ok(gateway_rules_check(&rules, &err) == 0, "good rules pass");
    rules.hosts = bad;
    ok(gateway_rules_check(&rules, &err) < 0 && strstr(err.message, "http://example.com"),
       "a bad rule is named: %s", err.message);
    char *many[GATEWAY_HOSTS_MAX + 2] = {0};
    for (size_t i = 0; i <= GATEWAY_HOSTS_MAX; i++)
        many[i] = (char *)"a.example";
    rules.hosts = many;
    error_clear(&err);
    ok(gateway_rules_check(&rules, &err) < 0 && !err.field[0], "too many rules are refused: %s",
       err.message);
    error_clear(&err);
    rules.hosts_member = "allow";
    ok(gateway_rules_check(&rules, &err) < 0 && !strcmp(err.field, "allow"),
       "by the name that the request has for the list");
    error_clear(&err);
    rules.hosts = good;
    rules.denied = bad;
    rules.denied_member = "deny";
    ok(gateway_rules_check(&rules, &err) < 0 && !strcmp(err.field, "deny"),
       "and so is a rule that is none, in the other list");
    for (int c = 0; c < _GATEWAY_CODE_MAX; c++)
        ok(gateway_code_find(gateway_code_name((enum gateway_code)c)) == (enum gateway_code)c,
           "code %s is found by its name", gateway_code_name((enum gateway_code)c));
}

/* Lists with '|' between their rules; "" is no list, every host. */
static const struct {
    const char *a, *b, *both;
} intersections[] = {
    {"", "", ""},
    {"a.example", "", "a.example"},
    {"", "*.b.example:80", "*.b.example:80"},
    {"a.example", "a.example", "a.example"},
    {"a.example", "b.example", GATEWAY_HOST_NONE},
    {"a.example|b.example", "b.example|c.example", "b.example"},
    {"*.example", "a.example", "a.example"},
    {"a.example", "*.example", "a.example"},
    {"*.example", "example", GATEWAY_HOST_NONE},
    {"*.example", "*.b.example", "*.b.example"},
    {"*.example", "*.badexample", GATEWAY_HOST_NONE},
    {"*", "a.example:443", "a.example:443"},
    {"*:443", "*.example", "*.example:443"},
    {"a.example:443", "a.example:80", GATEWAY_HOST_NONE},
    {"a.example:443", "a.example", "a.example:443"},
    {"10.0.0.0/8", "10.1.0.0/16:80", "10.1.0.0/16:80"},
    {"10.0.0.0/8", "11.0.0.0/8", GATEWAY_HOST_NONE},
    {"10.0.0.0/8", "10.1.2.3", "10.1.2.3"},
    {"10.0.0.0/8", "a.example", GATEWAY_HOST_NONE},
    {"fd00::/8", "fd00::1", "[fd00::1]"},
    {"fd00::/8", "*:443", "[fd00::/8]:443"},
    {"not a rule", "a.example", GATEWAY_HOST_NONE},
    {"A.Example.", "a.example|*.example", "a.example"},
};

static char **split(const char *text)
{
    char **v = xcalloc(8, sizeof(*v));
    for (size_t n = 0; *text; n++) {
        size_t len = strcspn(text, "|");
        v[n] = xstrndup(text, len);
        text += len + (text[len] == '|');
    }
    return v;
}

static void test_intersections(void)
{
    for (size_t i = 0; i < ELEMENTS(intersections); i++) {
        _cleanup_strv_ char **a = split(intersections[i].a), **b = split(intersections[i].b);
        _cleanup_strv_ char **want = split(intersections[i].both);
        _cleanup_strv_ char **got = gateway_hosts_intersect(a, b);
        size_t n = strv_length(want);
        bool same = got ? strv_length(got) == n : n == 0;
        for (size_t k = 0; same && k < n; k++)
            same = strcmp(got[k], want[k]) == 0;
        ok(same, "'%s' and '%s' allow '%s' (got %s)", intersections[i].a, intersections[i].b,
           intersections[i].both, got && got[0] ? got[0] : "all");
    }
}

/* Every name of one list with every port of the other. */
static void test_long_intersection(void)
{
    enum { EACH = 256 };
    struct error err = {0};
    char **names = xcalloc(EACH + 1, sizeof(*names)), **ports = xcalloc(EACH + 1, sizeof(*ports));
    for (int i = 0; i < EACH; i++) {
        names[i] = xasprintf("h%d.example", i);
        ports[i] = xasprintf("*:%d", 1 + i);
    }
    _cleanup_strv_ char **both = gateway_hosts_intersect(names, ports);
    ok(strv_length(both) == GATEWAY_HOSTS_MAX + 1,
       "of %d hosts that two lists allow no more are made than a request has room for",
       EACH * EACH);
    ok(gateway_rules_check(&(struct gateway_rules){.hosts = both, .hosts_member = "allow"}, &err) <
               0 &&
           !strcmp(err.field, "allow"),
       "and the list is refused, not cut");
    strv_free(names);
    strv_free(ports);
}

static void test_denied_addresses(void)
{
    struct rule_list l = {0};
    struct target t = {.host = "x.example", .port = 443};
    struct address in, out;
    address_parse("8.8.8.8", &in);
    address_parse("8.8.9.8", &out);
    rule_list_add(&l, "8.8.8.0/24:443");
    rule_list_add(&l, "*");
    ok(rule_list_has_address(&l, &t, &in), "a network has an address, by whatever name");
    ok(!rule_list_has_address(&l, &t, &out), "and not its neighbour");
    t.port = 80;
    ok(!rule_list_has_address(&l, &t, &in), "nor at another port");
    ok(rule_list_has_host(&l, &t), "a name rule is about names");
    rule_list_done(&l);
}

static void pair_open(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        exit(1);
}

/* Pumps bytes from one end of a to one end of b while the far ends write and read at odd sizes. */
static void test_relay(void)
{
    enum { TOTAL = 3000000 };
    int a[2], b[2];
    struct relay r;
    pair_open(a);
    pair_open(b);
    relay_init(&r);
    size_t sent = 0, got = 0, wrong = 0;
    unsigned char out[7001], in[4999];
    bool ended = false;
    for (int round = 0; round < 100000 && !ended; round++) {
        size_t n = TOTAL - sent < sizeof(out) ? TOTAL - sent : sizeof(out);
        for (size_t i = 0; i < n; i++)
            out[i] = (unsigned char)((sent + i) * 31 >> 3);
        ssize_t w = n ? send(a[0], out, n, MSG_NOSIGNAL) : 0;
        sent += w > 0 ? (size_t)w : 0;
        if (sent == TOTAL && n)
            shutdown(a[0], SHUT_WR);
        relay_pump(&r, a[1], b[0]);
        ssize_t g = recv(b[1], in, sizeof(in), 0);
        for (ssize_t i = 0; i < g; i++)
            wrong += in[i] != (unsigned char)((got + (size_t)i) * 31 >> 3);
        got += g > 0 ? (size_t)g : 0;
        ended = g == 0;
    }
    ok(got == TOTAL && wrong == 0 && ended, "all bytes arrive in order, then the end (%zu)", got);
    ok(relay_finished(&r) && r.bytes == TOTAL, "the relay counted them");
    relay_done(&r);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

static void test_relay_backpressure(void)
{
    int a[2], b[2];
    struct relay r;
    char block[8192] = {0};
    pair_open(a);
    pair_open(b);
    relay_init(&r);
    for (int i = 0; i < 1000; i++) {
        send(a[0], block, sizeof(block), MSG_NOSIGNAL);
        relay_pump(&r, a[1], b[0]);
    }
    ok(!relay_wants_read(&r) && relay_wants_write(&r),
       "a sink that does not read stops the source");
    ok(r.len <= RELAY_BUFFER, "and no more than the buffer is kept");
    close(b[1]);
    relay_pump(&r, a[1], b[0]);
    ok(relay_finished(&r) && !relay_wants_read(&r), "a sink that is gone ends it");
    relay_done(&r);
    close(a[0]);
    close(a[1]);
    close(b[0]);
}

/* --- the resolver: names of "slow" are held until they are let go, all others do not exist */

#define GREEDY 40 /* sessions; more than the resolver has threads */

static sem_t release;
static atomic_int n_slow;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void)service;
    (void)hints;
    *ret = NULL;
    if (strncmp(name, "slow", 4) == 0) {
        n_slow++;
        sem_wait(&release);
        sem_post(&release);
    }
    return EAI_NONAME;
}

static uint64_t next_owner;

static int open_session(struct gateway *g, const char *label, const char *line)
{
    int fds[2];
    struct gateway_request req = {
        .version = GATEWAY_VERSION, .flags = GATEWAY_ANY_HOST, .owner = next_owner};
    struct rule_sets sets;
    rule_sets_init(&sets);
    struct session_rules none = {.set = rule_sets_get(&sets, &req), .intercept_fd = -1};
    rule_sets_done(&sets); /* the session has its own reference */
    snprintf(req.label, sizeof(req.label), "%s", label);
    pair_open(fds);
    session_start(g, &req, &none, fds[0], -1);
    ok(write(fds[1], line, strlen(line)) > 0, "%s asks", label);
    return fds[1];
}

#define PATIENCE_MS 20000

/* The first answer on a stream, however long others take; "" when there is none. */
static void read_answer(struct gateway *g, int fd, int64_t late_ms, char *out, size_t size)
{
    ssize_t n = -1;
    while (clock_mono_ms() < late_ms && (n = recv(fd, out, size - 1, MSG_DONTWAIT)) < 0)
        epoll_loop_once(&g->loop, 100);
    out[n > 0 ? n : 0] = 0;
}

static void gateway_start(struct gateway *g)
{
    list_init(&g->sessions);
    list_init(&g->lookups);
    ok(session_loop_open(g) == 0, "a loop");
}

static void gateway_stop(struct gateway *g)
{
    session_end_all(g);
    session_loop_close(g);
    ok(list_empty(&g->sessions) && list_empty(&g->lookups), "nothing is left");
}

/* Sessions of that owner, each of a sandbox of its own, that were let in of so many that tried. */
static int open_many(struct gateway *g, uint64_t owner, int n, int *fds)
{
    char label[32], answer[GATEWAY_LINE_MAX];
    int good = 0;
    next_owner = owner;
    for (int i = 0; i < n; i++) {
        snprintf(label, sizeof(label), "box-%llu-%d", (unsigned long long)owner, i);
        fds[i] = open_session(g, label, "CONNECT slow");
        epoll_loop_once(&g->loop, 0);
        ssize_t len = recv(fds[i], answer, sizeof(answer) - 1, MSG_DONTWAIT);
        answer[len > 0 ? len : 0] = 0;
        good += len < 0;
        if (len >= 0 &&
            !strstr(answer, "ERR connect_failed the sandboxes of this key have too many"))
            ok(false, "a refusal says why: '%s'", answer);
    }
    next_owner = 0;
    return good;
}

static void test_session_share(void)
{
    struct gateway g = {
        .request_timeout_ms = 60000, .max_sessions = 64, .max_sessions_per_label = 8};
    int one[80], two[80], three[80];
    gateway_start(&g);
    int a = open_many(&g, 1, 80, one), b = open_many(&g, 2, 80, two),
        c = open_many(&g, 3, 80, three);
    ok(a == 32 && b == 16 && c == 8, "each key leaves as much as it has: %d %d %d", a, b, c);
    ok(g.n_sessions == 56, "what was refused is not counted: %zu", g.n_sessions);
    for (int i = 0; i < 80; i++) {
        close(one[i]);
        close(two[i]);
    }
    for (int i = 0; i < 100 && g.n_sessions > 8; i++)
        epoll_loop_once(&g.loop, 0);
    ok(g.n_sessions == 8, "and what ends is free again: %zu", g.n_sessions);
    a = open_many(&g, 1, 80, one);
    ok(a == 28, "for whoever comes next: %d", a);
    for (int i = 0; i < 80; i++) {
        close(one[i]);
        close(three[i]);
    }
    gateway_stop(&g);
}

static void test_resolver_share(void)
{
    struct gateway g = {.request_timeout_ms = 60000,
                        .resolve_timeout_ms = 60000,
                        .max_sessions = 256,
                        .max_sessions_per_label = 256};
    char answer[GATEWAY_LINE_MAX];
    int64_t late = clock_mono_ms() + PATIENCE_MS;
    int fds[GREEDY];
    sem_init(&release, 0, 0);
    gateway_start(&g);
    next_owner = 1;
    for (int i = 0; i < GREEDY; i++) {
        char label[16];
        snprintf(label, sizeof(label), "greedy-%d", i % 10);
        fds[i] = open_session(&g, label, "CONNECT slow.example 80\n");
    }
    while (n_slow < 4)
        epoll_loop_once(&g.loop, 10);
    next_owner = 2;
    int other = open_session(&g, "other", "CONNECT quick.example 80\n");
    read_answer(&g, other, late, answer, sizeof(answer));
    ok(strstr(answer, "ERR resolve_failed quick.example"),
       "one key's slow names do not hold up another's, however many sandboxes it has: '%s'",
       answer);
    ok(n_slow == 4, "a key alone has half of the threads (%d)", n_slow);
    sem_post(&release);
    for (int i = 0; i < GREEDY; i++) {
        read_answer(&g, fds[i], late, answer, sizeof(answer));
        ok(strstr(answer, "ERR resolve_failed slow.example"), "and all of its own are answered");
        close(fds[i]);
    }
    close(other);
    gateway_stop(&g);
}

static void set_texts(struct gateway_request *req, const char *text, uint32_t n)
{
    *req = (struct gateway_request){.n_hosts = n};
    for (; *text; text++)
        req->hosts[req->hosts_len++] = *text == '\n' ? 0 : *text;
}

/* Rules that were read are used again for the same bytes, and for no others. */
static void test_rule_sets(void)
{
    struct gateway_request req;
    struct rule_sets sets;
    rule_sets_init(&sets);
    set_texts(&req, "one.test\n*.two.test:443 ask\n", 2);
    struct rule_set *one = rule_sets_get(&sets, &req), *again = rule_sets_get(&sets, &req);
    ok(one && one == again && sets.n == 1 && one->hosts.n == 2,
       "the same bytes are the same rules");
    req.n_hosts = 1;
    req.n_denied = 1;
    struct rule_set *other = rule_sets_get(&sets, &req);
    ok(other && other != one && other->denied.n == 1, "in another list they are others");
    set_texts(&req, "one.test\n*.two.test:444 ask\n", 2);
    struct rule_set *port = rule_sets_get(&sets, &req);
    ok(port && port != one && port->hosts.rules[1].port == 444, "so is one byte of them");
    static const struct {
        const char *text;
        uint32_t n;
    } bad[] = {{"one.test\n", 2}, {"one.test\ntwo.test\n", 1}, {"one.test", 1}, {"a b\n", 1}};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        set_texts(&req, bad[i].text, bad[i].n);
        ok(!rule_sets_get(&sets, &req), "text %zu is not that many rules", i);
    }
    for (int i = 0; i < 3 * RULE_SETS_MAX; i++) {
        char text[32];
        snprintf(text, sizeof(text), "h%d.test\n", i);
        set_texts(&req, text, 1);
        rule_set_unref(rule_sets_get(&sets, &req));
    }
    ok(sets.n == RULE_SETS_MAX, "the oldest make room");
    rule_sets_done(&sets);
    ok(one->hosts.n == 2 && strcmp(one->hosts.rules[0].name, "one.test") == 0,
       "rules outlive the cache while they are used");
    rule_set_unref(one);
    rule_set_unref(again);
    rule_set_unref(other);
    rule_set_unref(port);
}

static bool says_end(const char *method, const char *answer, size_t piece)
{
    struct answer_head a;
    answer_head_init(&a, method);
    for (size_t at = 0, len = strlen(answer); at < len; at += piece)
        answer_head_take(&a, answer + at, piece < len - at ? piece : len - at);
    bool says = answer_head_says_end(&a);
    answer_head_done(&a);
    return says;
}

/* Whether an answer that was cut could be taken for the whole of it. */
static void test_answer_heads(void)
{
    static const struct {
        const char *method, *answer;
        bool says;
    } rows[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
        {"GET", "HTTP/1.1 200 OK\r\nX: y\r\n\r\nabc", false},
        {"HEAD", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", true},
        {"GET", "HTTP/1.1 304 Not Modified\r\n\r\n", true},
        {"GET", "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false},
        {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", true},
        {"GET", "HTTP/1.1 101 Switching\r\nContent-Length: 3\r\n\r\n", false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", false},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\n", false},
        {"GET", "HTTP/1.1 200 OK\nContent-Length: 3\n\n", false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", false},
        {"GET", "220 ready\r\n\r\n", false},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        for (size_t piece = 1; piece < 200; piece += 66)
            ok(says_end(rows[i].method, rows[i].answer, piece) == rows[i].says,
               "answer %zu in pieces of %zu", i, piece);
    _cleanup_free_ char *large = xcalloc(1, 100001);
    memset(large, 'x', 100000);
    ok(!says_end("GET", large, 100000) && !says_end("GET", large, 4096), "a head without end");
}

int main(void)
{
    test_resolver_share();
    test_session_share();
    test_addresses();
    test_lines();
    test_host_rules();
    test_address_rules();
    test_client_rules();
    test_intersections();
    test_long_intersection();
    test_denied_addresses();
    test_relay();
    test_relay_backpressure();
    test_answer_heads();
    test_rule_sets();
    return tap_done();
}
