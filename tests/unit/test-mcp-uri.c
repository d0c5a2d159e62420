/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of MCP resources: what they name, and what is none. */
#include <string.h>

#include "base/alloc.h"
#include "mcp/tools/uri.h"
#include "tests/unit/tap.h"

static void test_good(void)
{
    struct uri u;
    ok(uri_parse("sandbox://current/file/workspace/a%20b/%C3%A4.txt", &u) == 0, "a file");
    ok(!strcmp(u.sandbox, "current") && !strcmp(u.path, "/workspace/a b/ä.txt") && !u.exec_id,
       "decoded");
    uri_done(&u);
    ok(uri_parse("sandbox://sbx-1/exec/ex-2/stderr", &u) == 0, "a log");
    ok(!strcmp(u.exec_id, "ex-2") && u.stream == 2 && !u.path, "of its stream");
    uri_done(&u);
    ok(uri_parse("sandbox://sbx-1/file/a%20b%25c/%C3%BC%3F%23", &u) == 0 &&
           !strcmp(u.path, "/a b%c/ü?#"),
       "what would end a path in an address");
    uri_done(&u);
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "",
        "file:///etc/passwd",
        "sandbox://",
        "sandbox:///file/a",
        "sandbox://x",
        "sandbox://x/",
        "sandbox://x/file",
        "sandbox://x/file/../etc",
        "sandbox://x/file/a/%2e%2e/b",
        "sandbox://x/file//a",
        "sandbox://x/file/a%00b",
        "sandbox://x/file/a%4",
        "sandbox://x/file/a%zz",
        "sandbox://x/exec/e",
        "sandbox://x/exec//stdout",
        "sandbox://x/exec/e/stdin",
        "sandbox://x/exec/e/stdout/",
        "sandbox://x/other/e",
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct uri u;
        ok(uri_parse(bad[i], &u) < 0, "not '%s'", bad[i]);
    }
}

int main(void)
{
    test_good();
    test_bad();
    return tap_done();
}
