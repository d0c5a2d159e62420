/* SPDX-License-Identifier: Apache-2.0 */
/* Image references: what they mean, and what is refused before a program sees it. */
#include "keeper/reference.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tests/unit/tap.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_good(void)
{
    static const struct {
        const char *text, *fallback, *full;
    } cases[] = {
        {"localhost/x", NULL, "localhost/x:latest"},
        {"localhost:5000/a/b_c:1.0-x", NULL, "localhost:5000/a/b_c:1.0-x"},
        {"docker://registry.example/x", NULL, "registry.example/x:latest"},
        {"registry.example/x@sha256:" HEX, NULL, "registry.example/x@sha256:" HEX},
        {"registry.example/x:1@sha256:" HEX, NULL, "registry.example/x:1@sha256:" HEX},
        {"x", "registry.example:443", "registry.example:443/x:latest"},
        {"team/x:2", "registry.example", "registry.example/team/x:2"},
        {"[::1]:5000/x", NULL, "[::1]:5000/x:latest"},
        {"Registry.Example/x", NULL, "registry.example/x:latest"},
        {"docker.io/x", NULL, "docker.io/library/x:latest"},
        {"x", "docker.io", "docker.io/library/x:latest"},
        {"team/x", "docker.io", "docker.io/team/x:latest"},
        {"Index.docker.io/library/x:1", NULL, "docker.io/library/x:1"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        _cleanup_reference_ struct reference r = {0};
        int e = reference_parse(cases[i].text, cases[i].fallback, &r, &err);
        _cleanup_free_ char *full = e < 0 ? NULL : reference_format(&r);
        ok(full && strcmp(full, cases[i].full) == 0, "%s", cases[i].text);
    }
}

static void test_refused(void)
{
    static const char *const cases[] = {
        "",
        "localhost/",
        "/x",
        "localhost/../x",
        "localhost/a..b",
        "localhost/a//b",
        "localhost/UPPER",
        "localhost/-x",
        "localhost/x-",
        "localhost/a/.b",
        "localhost/x:",
        "localhost/x:-tag",
        "localhost/x:a b",
        "localhost/x@sha256:12",
        ("localhost/x@md5:" HEX),
        "localhost/x?y",
        "localhost/x#y",
        "user@localhost/x",
        "-host.example/x",
        "host.example:port/x",
        "host.example./x",
        "host.example.:5000/x",
        "docker://docker://localhost/x",
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        struct reference r = {0};
        ok(reference_parse(cases[i], "registry.example", &r, &err) < 0 && err.code == ERROR_INVALID,
           "refused: '%s'", cases[i]);
        reference_done(&r);
    }
    struct error err = {0};
    struct reference r = {0};
    ok(reference_parse("plain", NULL, &r, &err) < 0 && err.code == ERROR_NOT_FOUND,
       "a name without a registry, where there is no default");
}

static void test_listed(void)
{
    char *const list[] = {(char *)"registry.example", (char *)"localhost:5000", NULL};
    char *const any[] = {(char *)"*", NULL};
    static const struct {
        const char *text;
        bool listed;
    } cases[] = {
        {"registry.example/x", true},       {"REGISTRY.example/x", true},
        {"registry.example:443/x", false},  {"localhost:5000/x", true},
        {"localhost:5001/x", false},        {"localhost/x", false},
        {"evil.registry.example/x", false}, {"registry.example.evil/x", false},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        _cleanup_reference_ struct reference r = {0};
        int e = reference_parse(cases[i].text, NULL, &r, &err);
        ok(e == 0 && reference_is_listed(&r, list) == cases[i].listed, "%s", cases[i].text);
        ok(e == 0 && reference_is_listed(&r, any) && !reference_is_listed(&r, NULL),
           "%s: any, none", cases[i].text);
    }
}

static void test_shown(void)
{
    static const struct {
        const char *text, *fallback;
        bool is_name;
        const char *shown;
    } cases[] = {
        {HEX, NULL, true, "sha256:" HEX},
        {("sha256:" HEX), "registry.example", false, "sha256:" HEX},
        {"oci:/srv/x:tag", NULL, true, "oci:/srv/x:tag"},
        {"tools", "registry.example", true, "tools"},
        {"tools", "registry.example", false, "registry.example/tools:latest"},
        {"tools", NULL, false, NULL},
        {"docker://Host.example/x", NULL, false, "host.example/x:latest"},
        {"host.example/x", "registry.example", true, "host.example/x:latest"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_free_ char *shown =
            reference_show(cases[i].text, cases[i].fallback, cases[i].is_name);
        ok(cases[i].shown ? shown && strcmp(shown, cases[i].shown) == 0 : !shown, "as rules see %s",
           cases[i].text);
    }
}

static void test_local_names(void)
{
    static const char *const good[] = {"tools", "tools:1", "team/tools:1", "default", "x86_64"};
    static const char *const bad[] = {"none",        HEX,           ("sha256:" HEX),
                                      "oci:x",       "dir:/etc",    "rootfs-tar:x",
                                      "r.example/x", "localhost/x", "host:5000/x:1",
                                      "docker://x",  "R.Example/x", "r.example/UPPER"};
    for (size_t i = 0; i < ELEMENTS(good); i++)
        ok(reference_is_local_name(good[i]), "a name for what is made here: %s", good[i]);
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        ok(!reference_is_local_name(bad[i]), "not a name for what is made here: %s", bad[i]);
}

int main(void)
{
    test_good();
    test_refused();
    test_shown();
    test_local_names();
    test_listed();
    return tap_done();
}
