/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS and the first message of a TLS client, as tables. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/target.h"
#include "gateway/client-hello.h"
#include "gateway/socks.h"
#include "tests/unit/tap.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static void test_greeting(void)
{
    ok(socks_parse_greeting(BYTES("\5\1\0")) == 3, "no authentication is offered and taken");
    ok(socks_parse_greeting(BYTES("\5\2\2\0\5\1")) == 4,
       "also beside others, and what follows is left");
    ok(socks_parse_greeting(BYTES("\5")) == 0 && socks_parse_greeting(BYTES("\5\2\0")) == 0,
       "a part is waited for");
    ok(socks_parse_greeting(BYTES("\5\1\2")) == -EPROTONOSUPPORT, "a password alone is refused");
    ok(socks_parse_greeting(BYTES("\5\0")) == -EPROTONOSUPPORT, "and so is nothing at all");
    ok(socks_parse_greeting(BYTES("\4\1\0P")) == -EPROTO, "SOCKS 4 is none");
}

/* size 0: not whole; host NULL: refused with that reply. */
static const struct {
    const char *data;
    size_t len;
    ssize_t size;
    const char *host;
    uint16_t port;
    enum socks_reply reply;
} requests[] = {
#define R(text) text, sizeof(text) - 1
    {R("\5\1\0\3\6a.test\0\120"), 13, "a.test", 80, SOCKS_OK},
    {R("\5\1\0\3\7A.Test.\1\273rest"), 14, "a.test", 443, SOCKS_OK},
    {R("\5\1\0\1\10\10\10\10\0\65"), 10, "8.8.8.8", 53, SOCKS_OK},
    {R("\5\1\0\3\7"
       "8.8.8.8\0\65"),
     14, "8.8.8.8", 53, SOCKS_OK},
    {R("\5\1\0\4\46\6\107\0\107\0\0\0\0\0\0\0\0\0\21\21\0\120"), 22, "2606:4700:4700::1111", 80,
     SOCKS_OK},
    {R("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\377\377\177\0\0\1\0\120"), 22, "127.0.0.1", 80, SOCKS_OK},
    {R("\5\1\0"), 0, NULL, 0, SOCKS_OK},
    {R("\5\1\0\3"), 0, NULL, 0, SOCKS_OK},
    {R("\5\1\0\3\6a.test\0"), 0, NULL, 0, SOCKS_OK},
    {R("\5\1\0\1\10\10\10\10\0"), 0, NULL, 0, SOCKS_OK},
    {R("\5\2\0\1\10\10\10\10\0\65"), -1, NULL, 0, SOCKS_BAD_COMMAND},
    {R("\5\3\0\1\0\0\0\0\0\0"), -1, NULL, 0, SOCKS_BAD_COMMAND},
    {R("\5\1\0\2\10\10\10\10\0\65"), -1, NULL, 0, SOCKS_BAD_ADDRESS},
    {R("\4\1\0\1\10\10\10\10\0\65"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\1\1\10\10\10\10\0\65"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\0\1\10\10\10\10\0\0"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\0\3\0\0\120"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\0\3\6a\0test\0\120"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\0\3\6a test\0\120"), -1, NULL, 0, SOCKS_FAILED},
    {R("\5\1\0\3\5"
       "127.1\0\120"),
     -1, NULL, 0, SOCKS_NOT_ALLOWED},
    {R("\5\1\0\3\12"
       "2130706433\0\120"),
     -1, NULL, 0, SOCKS_NOT_ALLOWED},
#undef R
};

static void test_requests(void)
{
    for (size_t i = 0; i < ELEMENTS(requests); i++) {
        struct target t;
        enum socks_reply reply = SOCKS_OK;
        const char *why = "";
        ssize_t n = socks_parse_request((const uint8_t *)requests[i].data, requests[i].len, &t,
                                        &reply, &why);
        ok((requests[i].size < 0 ? n < 0 : n == requests[i].size) && reply == requests[i].reply,
           "request %zu: %zd, reply %d %s", i, n, reply, why);
        if (requests[i].host)
            ok(strcmp(t.host, requests[i].host) == 0 && t.port == requests[i].port,
               "request %zu is for %s port %u", i, t.host, t.port);
    }
    uint8_t reply[SOCKS_REPLY_SIZE];
    socks_format_reply(SOCKS_NOT_ALLOWED, reply);
    ok(memcmp(reply, "\5\2\0\1\0\0\0\0\0\0", sizeof(reply)) == 0, "a reply has a number and zeros");
}

/* --- ClientHello */

struct bytes {
    uint8_t data[2 * CLIENT_HELLO_MAX];
    size_t len;
};

static void put(struct bytes *b, const void *data, size_t len)
{
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void put_number(struct bytes *b, size_t value, size_t n)
{
    for (size_t i = n; i-- > 0;)
        b->data[b->len++] = (uint8_t)(value >> (8 * i));
}

static void put_name(struct bytes *b, const char *name, size_t len)
{
    put_number(b, 0, 2);
    put_number(b, len + 5, 2);
    put_number(b, len + 3, 2);
    put_number(b, 0, 1);
    put_number(b, len, 2);
    put(b, name, len);
}

/* A handshake message with these extensions, cut into records of that size. */
static struct bytes make_hello(const struct bytes *extensions, size_t record)
{
    struct bytes body = {0}, message = {0}, out = {0};
    put(&body, "\3\3", 2);
    body.len += 32;
    put(&body, "\0\0\2\23\1\1\0", 7);
    if (extensions) {
        put_number(&body, extensions->len, 2);
        put(&body, extensions->data, extensions->len);
    }
    put_number(&message, 1, 1);
    put_number(&message, body.len, 3);
    put(&message, body.data, body.len);
    for (size_t at = 0; at < message.len; at += record) {
        size_t n = message.len - at < record ? message.len - at : record;
        put(&out, "\26\3\1", 3);
        put_number(&out, n, 2);
        put(&out, message.data + at, n);
    }
    return out;
}

static struct bytes with_name(const char *name, size_t len)
{
    struct bytes e = {0};
    put(&e, "\0\53\0\3\2\3\4", 7); /* another extension before it */
    put_name(&e, name, len);
    return e;
}

static void test_hello(void)
{
    char name[SERVER_NAME_SIZE];
    struct bytes e = with_name("a.test", 6), twice = e, hello = make_hello(&e, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_NAME && strcmp(name, "a.test") == 0,
       "a name is found");
    size_t waits = 0;
    for (size_t n = 1; n < hello.len; n++)
        waits += client_hello_parse(hello.data, n, name) == HELLO_MORE;
    ok(waits == hello.len - 1, "every part of a hello is waited for");
    hello = make_hello(&e, 7);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_NAME && strcmp(name, "a.test") == 0,
       "also in many records");
    put(&hello, "\24\3\3\0\1\1\27\3\3\0\2ab", 13);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_NAME && strcmp(name, "a.test") == 0,
       "whatever is sent along with it");
    hello = make_hello(NULL, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_NO_NAME, "no extensions, no name");
    struct bytes none = {0};
    hello = make_hello(&none, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_NO_NAME, "nor without one in them");
    put_name(&twice, "b.test", 6);
    hello = make_hello(&twice, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_BAD, "two names are refused");
    e = with_name("a\0b", 3);
    hello = make_hello(&e, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_BAD, "a NUL is refused");
    e = with_name("", 0);
    hello = make_hello(&e, 16000);
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_BAD, "an empty name is refused");
    hello = make_hello(&e, 16000);
    hello.data[5] = 2;
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_BAD, "a ServerHello is refused");
    e = with_name("a.test", 6);
    hello = make_hello(&e, 16000);
    hello.data[hello.len - 9]++;
    ok(client_hello_parse(hello.data, hello.len, name) == HELLO_BAD, "lengths that do not fit are");
    struct bytes large = {0};
    put(&large, "\26\3\1\77\377\1\0\77\373", 9);
    large.len = CLIENT_HELLO_MAX;
    ok(client_hello_parse(large.data, large.len, name) == HELLO_BAD,
       "and so is one without an end");
}

int main(void)
{
    test_greeting();
    test_requests();
    test_hello();
    return tap_done();
}
