/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a sandbox's network with attributes: what they allow and deny, which covers which, and
 * that every spelling of a host is decided on as the one host that it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"
#include "tests/unit/tap.h"

/* "METHOD path", or "" for a tunnel, to one.test:80. */
static const struct {
    const char *rule, *request;
    bool allows, denies;
} requests[] = {
    {"one.test:80", "", true, true},
    {"one.test:80", "GET /", true, true},
    {"one.test:80 http", "", false, true},
    {"one.test:80 http", "DELETE /x", true, true},
    {"one.test:80 methods=GET,HEAD", "GET /", true, true},
    {"one.test:80 methods=GET,HEAD", "HEAD /a?b=c", true, true},
    {"one.test:80 methods=GET,HEAD", "POST /", false, false},
    {"one.test:80 methods=GET", "get /", false, true},
    {"one.test:80 methods=GET", "GETX /", false, false},
    {"one.test:80 methods=GET", "", false, true},
    {"one.test:80 path=/a", "GET /a", true, true},
    {"one.test:80 path=/a", "GET /a?q=/b", true, true},
    {"one.test:80 path=/a", "GET /a/", false, false},
    {"one.test:80 path=/a", "GET /ab", false, false},
    {"one.test:80 path=/a", "GET /A", false, false},
    {"one.test:80 path=/a", "GET /%61", true, true},
    {"one.test:80 path=/a", "", false, true},
    {"one.test:80 path=/a/*", "GET /a/", true, true},
    {"one.test:80 path=/a/*", "GET /a/b/c", true, true},
    {"one.test:80 path=/a/*", "GET /a", false, false},
    {"one.test:80 path=/a/* path=/b", "GET /b", true, true},
    {"one.test:80 path=/a/*", "GET /a/../b", false, true},
    {"one.test:80 path=/a/*", "GET /a/%2e%2e/b", false, true},
    {"one.test:80 path=/a/*", "GET /a/%2E./b", false, true},
    {"one.test:80 path=/a/*", "GET /b/..%2fa/x", false, true},
    {"one.test:80 path=/a/*", "GET /b\\..\\a", false, true},
    {"one.test:80 path=/a/*", "GET //a/x", false, true},
    {"one.test:80 path=/a/*", "GET /a/./x", false, true},
    {"one.test:80 path=/a/*", "GET /a;x=1/b", false, true},
    {"one.test:80 path=/a/*", "GET /a/%00", false, true},
    {"one.test:80 path=/a/*", "GET /a/%zz", false, true},
    {"one.test:80 path=/a/*", "GET /a/%2561", false, true},
    {"one.test:80 path=/a/*", "GET /a/x%20y", true, true},
    {"one.test:80 path=/b", "GET /x%20y", false, false},
    {"one.test:80 path=/", "GET /", true, true},
    {"one.test:80 path=/", "GET ?a", true, true},
    {"one.test:80 path=/a methods=GET", "POST /a", false, false},
    {"one.test:80 path=/a methods=GET", "GET /b", false, false},
    {"one.test:80 path=/a methods=GET", "GET /a", true, true},
    {"one.test:81 path=/a", "GET /a", false, false},
    {"two.test:80 path=/a", "GET /a", false, false},
    {"one.test ask", "GET /a", true, true},
    {"one.test until=1800000000 name=x", "GET /a", true, true},
};

static void test_requests(void)
{
    for (size_t i = 0; i < ELEMENTS(requests); i++) {
        struct rule_list l = {0};
        struct target t = {.port = 80, .host = "one.test"};
        _cleanup_free_ char *text = xstrdup(requests[i].request);
        char *path = strchr(text, ' ');
        if (path)
            *path++ = 0;
        struct rule_request q = {.target = &t, .method = path ? text : NULL, .path = path};
        int r = rule_list_add_full(&l, requests[i].rule);
        ok(r == 0 && !!rule_list_find_allowance(&l, &q) == requests[i].allows, "'%s' %s '%s'",
           requests[i].rule, requests[i].allows ? "allows" : "does not allow", requests[i].request);
        ok(!!rule_list_find_denial(&l, &q, NULL) == requests[i].denies, "'%s' %s '%s'",
           requests[i].rule, requests[i].denies ? "denies" : "does not deny", requests[i].request);
        rule_list_done(&l);
    }
}

static const char *const bad_rules[] = {
    "one.test ",
    "one.test  ask",
    "one.test maybe",
    "one.test methods=",
    "one.test methods=get",
    "one.test methods=GET,",
    "one.test methods=A methods=B",
    "one.test path=",
    "one.test path=a",
    "one.test path=/a/../b",
    "one.test path=/*/a",
    "one.test path=/a?b",
    "one.test path=/%61",
    "one.test path=//a",
    "one.test until=0",
    "one.test until=-1",
    "one.test until=x",
    "one.test until=1 until=2",
    "one.test until=9999999999999",
    "one.test name=",
    "one.test name=a/b",
    "one.test name=a name=b",
    " ask",
    "ask=1",
};

static void test_texts(void)
{
    static const char *const good[] = {
        "one.test",
        "*.one.test:80 http",
        "[fd00::/8]:443 ask until=1800000000 name=a-b_c.D",
        "10.0.0.0/8:80 methods=GET,HEAD path=/a path=/b/* ask until=5 name=x",
    };
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        struct rule_list l = {0};
        rule_list_add_full(&l, good[i]);
        _cleanup_free_ char *again = l.n ? rule_format(&l.rules[0]) : xstrdup("");
        ok(strcmp(again, good[i]) == 0, "'%s' is written as it was read (got '%s')", good[i],
           again);
        rule_list_done(&l);
    }
    for (size_t i = 0; i < ELEMENTS(bad_rules); i++) {
        struct rule_list l = {0};
        ok(rule_list_add_full(&l, bad_rules[i]) == -EINVAL && l.n == 0, "'%s' is no rule",
           bad_rules[i]);
        rule_list_done(&l);
    }
    struct rule_list l = {0};
    ok(rule_list_add(&l, "one.test ask") == -EINVAL, "a plain rule has no attributes");
}

static const struct {
    const char *wide, *narrow;
    bool covers;
} pairs[] = {
    {"one.test", "one.test", true},
    {"one.test", "one.test:80", true},
    {"one.test:80", "one.test", false},
    {"one.test:80", "one.test:81", false},
    {"*.test", "one.test methods=GET", true},
    {"one.test methods=GET", "one.test", false},
    {"one.test http", "one.test path=/a", true},
    {"one.test path=/a", "one.test http", false},
    {"one.test methods=GET,HEAD", "one.test methods=HEAD", true},
    {"one.test methods=HEAD", "one.test methods=GET,HEAD", false},
    {"one.test path=/a/*", "one.test path=/a/b", true},
    {"one.test path=/a/*", "one.test path=/a/b/*", true},
    {"one.test path=/a/b", "one.test path=/a/*", false},
    {"one.test path=/a", "one.test path=/a path=/b", false},
    {"one.test ask", "one.test", false},
    {"one.test", "one.test ask", true},
    {"one.test until=10", "one.test", false},
    {"one.test", "one.test until=10", true},
    {"one.test until=10", "one.test until=11", false},
    {"one.test until=11", "one.test until=10", true},
    {"10.0.0.0/8", "10.1.0.0/16", true},
    {"10.1.0.0/16", "10.0.0.0/8", false},
    {"10.0.0.0/8", "one.test", false},
};

static void test_cover(void)
{
    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        struct rule_list l = {0};
        rule_list_add_full(&l, pairs[i].wide);
        rule_list_add_full(&l, pairs[i].narrow);
        bool covers = l.n == 2 && rule_covers(&l.rules[0], &l.rules[1]);
        ok(covers == pairs[i].covers, "'%s' %s '%s'", pairs[i].wide,
           pairs[i].covers ? "covers" : "does not cover", pairs[i].narrow);
        struct rule both;
        bool meet = l.n == 2 && rule_intersect(&l.rules[0], &l.rules[1], &both);
        if (meet) {
            ok(rule_covers(&l.rules[0], &both) && rule_covers(&l.rules[1], &both),
               "what '%s' and '%s' have in common is in both", pairs[i].wide, pairs[i].narrow);
            rule_done(&both);
        }
        rule_list_done(&l);
    }
}

/* Every spelling of a host is that host, or none at all: never another one. */
static const struct {
    const char *spelling, *host; /* NULL: refused */
} spellings[] = {
    {"one.test", "one.test"},
    {"ONE.Test", "one.test"},
    {"one.test.", "one.test"},
    {"One.TEST.", "one.test"},
    {"one.test..", NULL},
    {".one.test", NULL},
    {"xn--bcher-kva.test", "xn--bcher-kva.test"},
    {"XN--BCHER-KVA.test", "xn--bcher-kva.test"},
    {"b\xc3\xbc"
     "cher.test",
     NULL},
    {"one\xe3\x80\x82test", NULL},
    {"one%2etest", NULL},
    {"127.0.0.1", "127.0.0.1"},
    {"127.0.0.1.", "127.0.0.1"},
    {"127.0.0.01", NULL},
    {"0177.0.0.1", NULL},
    {"0x7f.0.0.1", NULL},
    {"127.1", NULL},
    {"2130706433", NULL},
    {"0x7f000001", NULL},
    {"017700000001", NULL},
    {"\xef\xbc\x91"
     "27.0.0.1",
     NULL},
    {"[::ffff:127.0.0.1]", "127.0.0.1"},
    {"[::ffff:7f00:1]", "127.0.0.1"},
    {"[0:0:0:0:0:ffff:7f00:0001]", "127.0.0.1"},
    {"[::FFFF:127.0.0.1]", "127.0.0.1"},
    {"[::1]", "::1"},
    {"[0:0::0:1]", "::1"},
    {"::1", NULL},
    {"[::1%lo]", NULL},
    {"[127.0.0.1]", NULL},
    {"one.test\\", NULL},
    {"user@one.test", NULL},
    {"one.test#", NULL},
};

static void test_spellings(void)
{
    for (size_t i = 0; i < ELEMENTS(spellings); i++) {
        struct target t = {.port = 80};
        const char *want = spellings[i].host;
        int r = target_parse_host(spellings[i].spelling, strlen(spellings[i].spelling), &t);
        ok(want ? r == 0 && strcmp(t.host, want) == 0 : r < 0, "'%s' is %s", spellings[i].spelling,
           want ? want : "no host");
        if (!want)
            continue;
        struct rule_list l = {0};
        struct rule_request q = {.target = &t};
        rule_list_add_full(&l, want);
        ok(rule_list_find_denial(&l, &q, NULL) && rule_list_find_allowance(&l, &q),
           "a rule about %s is about '%s'", want, spellings[i].spelling);
        rule_list_done(&l);
    }
}

static void test_order(void)
{
    struct rule_list l = {0};
    struct target t = {.port = 80, .host = "one.test"};
    struct rule_request q = {.target = &t};
    rule_list_add_full(&l, "*.test ask name=first");
    const struct rule *found = rule_list_find_allowance(&l, &q);
    ok(found && found->ask, "a rule that asks is found where no other allows");
    rule_list_add_full(&l, "one.test name=second");
    found = rule_list_find_allowance(&l, &q);
    ok(found && !found->ask && strcmp(found->id, "second") == 0,
       "nobody is asked about what another rule allows");
    rule_list_done(&l);
    struct address a;
    address_parse("10.1.2.3", &a);
    rule_list_add_full(&l, "10.0.0.0/8");
    ok(!rule_list_find_denial(&l, &q, NULL) && rule_list_find_denial(&l, &q, &a),
       "a network denies what a name leads to");
    ok(!rule_list_find_allowance(&l, &q), "and allows no name that leads there");
    rule_list_done(&l);
}

/* Some of few words, so that rules and targets meet often. */
static const char *pick(const char *const *words, size_t n, unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return words[(*seed >> 16) % n];
}

static char *make_rule(unsigned *seed)
{
    static const char *const hosts[] = {"a.test",     "b.test",      "c.a.test", "*.test",
                                        "*.a.test",   "*",           "test",     "10.0.0.0/8",
                                        "10.1.2.3",   "*.b.a.test",  "aa.test",  "*.aa.test",
                                        "[fd00::/8]", "10.1.0.0/17", "0.0.0.0/0"};
    static const char *const ports[] = {"", "", ":80", ":443"};
    static const char *const more[] = {"", "", " ask", " http", " methods=GET", " path=/x"};
    const char *host = pick(hosts, ELEMENTS(hosts), seed);
    return xasprintf("%s%s%s", host, pick(ports, ELEMENTS(ports), seed),
                     pick(more, ELEMENTS(more), seed));
}

static size_t number_of(const struct rule_list *l, const struct rule *rule)
{
    return rule ? (size_t)(rule - l->rules) + 1 : 0;
}

static bool decide_alike(const struct rule_list *x, const struct rule_list *y,
                         const struct rule_request *q, const struct address *a)
{
    return number_of(x, rule_list_find_allowance(x, q)) ==
               number_of(y, rule_list_find_allowance(y, q)) &&
           number_of(x, rule_list_find_denial(x, q, a)) ==
               number_of(y, rule_list_find_denial(y, q, a)) &&
           rule_list_has_host(x, q->target) == rule_list_has_host(y, q->target) &&
           rule_list_has_address(x, q->target, a) == rule_list_has_address(y, q->target, a) &&
           rule_check_address(x, q->target, a) == rule_check_address(y, q->target, a);
}

/* An index finds the very rules that a look at each of them finds. */
static void test_index(void)
{
    static const char *const names[] = {"a.test",  "b.test",     "c.a.test",     "d.c.a.test",
                                        "test",    "x.b.a.test", "10.1.2.3",     "fd00::1",
                                        "aa.test", "z.aa.test",  "other.example"};
    static const char *const addresses[] = {"10.1.2.3", "1.1.1.1", "fd00::1", "127.0.0.1"};
    unsigned seed = 1;
    size_t different = 0;
    for (int round = 0; round < 400; round++) {
        struct rule_list plain = {0}, indexed = {0};
        for (int i = 0; i < round % 40; i++) {
            _cleanup_free_ char *text = make_rule(&seed);
            rule_list_add_full(&plain, text);
            rule_list_add_full(&indexed, text);
        }
        rule_list_index(&indexed);
        for (int i = 0; i < 50; i++) {
            struct target t = {.port = seed & 0x10000 ? 80 : 443};
            struct address a;
            const char *name = pick(names, ELEMENTS(names), &seed);
            target_parse_host(name, strlen(name), &t);
            address_parse(pick(addresses, ELEMENTS(addresses), &seed), &a);
            struct rule_request q = {.target = &t,
                                     .method = i % 3 ? "GET" : NULL,
                                     .path = i % 3 ? "/x" : NULL,
                                     .later = i % 3 == 0 && i % 2};
            different += !decide_alike(&plain, &indexed, &q, &a);
        }
        rule_list_done(&plain);
        rule_list_done(&indexed);
    }
    ok(different == 0, "an index decides as the list does: %zu decisions differ", different);
}

/* What a decision takes does not grow with the rules that are about something else. */
static void test_index_reach(void)
{
    static const struct {
        const char *what, *format;
    } kinds[] = {{"names", "h%d.example"},
                 {"suffixes", "*.s%d.example"},
                 {"networks", "198.18.%d.0/24"},
                 {"networks of IPv6", "[2001:db8:%d::/48]"}};
    for (size_t k = 0; k < ELEMENTS(kinds); k++) {
        struct rule_list l = {0};
        for (int i = 0; i < 1000; i++) {
            _cleanup_free_ char *text =
                xasprintf(kinds[k].format, strncmp(kinds[k].format, "198", 3) == 0 ? i % 256 : i);
            rule_list_add_full(&l, text);
        }
        rule_list_add_full(&l, "here.test");
        rule_list_add_full(&l, "192.0.2.0/24");
        rule_list_index(&l);
        struct target t = {.port = 80};
        struct address a;
        struct rule_walk w;
        size_t seen = 0;
        target_parse_host("here.test", strlen("here.test"), &t);
        address_parse("192.0.2.7", &a);
        rule_walk_init(&w, &l, &t, &a);
        while (rule_walk_next(&w))
            seen++;
        ok(seen >= 2 && seen <= 20, "of 1,000 %s a decision looks at %zu", kinds[k].what, seen);
        rule_list_done(&l);
    }
}

int main(void)
{
    test_index_reach();
    test_index();
    test_requests();
    test_texts();
    test_cover();
    test_spellings();
    test_order();
    return tap_done();
}
