/* SPDX-License-Identifier: Apache-2.0 */
/* plan_check() and the names: every way a plan can be malformed is refused, with a reason. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/plan.h"
#include "tests/unit/tap.h"

static struct plan good(void)
{
    struct plan p = {.version = PLAN_VERSION, .op = PLAN_CREATE, .tag = 1, .id = "sbx-a1"};
    p.n_mounts = 1;
    strcpy(p.mounts[0].subpath, "a/b");
    strcpy(p.mounts[0].target, "/workspace/data");
    strcpy(p.hostname, "box-1.example");
    strcpy(p.workdir, "/workspace");
    return p;
}

static void refused(const struct plan *p, const char *what)
{
    char why[128] = "";
    int r = plan_check(p, why, sizeof(why));
    ok(r == -EINVAL && why[0], "%s is refused: %s", what, why);
}

static void test_strings(void)
{
    static const char *const ids[] = {"", "1a", "-a", "A", "a_b", "a/b", "..", "a b", "a\n"};
    static const char *const paths[] = {"", "a", "/", "//", "/a/", "/a//b", "/./a", "/a/..", "/.."};
    static const char *const subs[] = {"/a", "a/", "a//b", "..", "a/../b", ".", "./a"};
    static const char *const hosts[] = {"-a", ".a", "a b", "a/b", "a\x01"};
    struct plan p;
    for (size_t i = 0; i < ELEMENTS(ids); i++) {
        p = good();
        strcpy(p.id, ids[i]);
        refused(&p, "a malformed id");
    }
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        p = good();
        strcpy(p.mounts[0].target, paths[i]);
        refused(&p, "a malformed target");
        p = good();
        strcpy(p.workdir, paths[i]);
        if (paths[i][0] && strcmp(paths[i], "/") != 0) /* many an image starts there */
            refused(&p, "a malformed workdir");
    }
    for (size_t i = 0; i < ELEMENTS(subs); i++) {
        p = good();
        strcpy(p.mounts[0].subpath, subs[i]);
        refused(&p, "a malformed subpath");
    }
    for (size_t i = 0; i < ELEMENTS(hosts); i++) {
        p = good();
        strcpy(p.hostname, hosts[i]);
        refused(&p, "a malformed hostname");
    }
}

static void test_unterminated(void)
{
    struct plan p = good();
    memset(p.id, 'a', sizeof(p.id));
    refused(&p, "an unterminated id");
    p = good();
    memset(p.hostname, 'a', sizeof(p.hostname));
    refused(&p, "an unterminated hostname");
    p = good();
    memset(p.workdir, '/', sizeof(p.workdir));
    refused(&p, "an unterminated workdir");
    p = good();
    memset(p.mounts[0].subpath, 'a', sizeof(p.mounts[0].subpath));
    refused(&p, "an unterminated subpath");
    p = good();
    memset(p.mounts[0].target + 1, 'a', sizeof(p.mounts[0].target) - 1);
    refused(&p, "an unterminated target");
}

static void test_image(void)
{
    static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const wrong[] = {
        "a",
        "../../../../etc",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "sha256:789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef/123456789abcdef0123456789abcdef"};
    char why[128];
    struct plan p = good();
    strcpy(p.image, digest);
    ok(plan_check(&p, why, sizeof(why)) == 0, "a digest passes");
    p.n_mounts = 0;
    p.flags = PLAN_PROCESS;
    refused(&p, "an image without walls");
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        p = good();
        strcpy(p.image, wrong[i]);
        refused(&p, "an image that is no digest");
    }
    p = good();
    memset(p.image, 'a', sizeof(p.image));
    refused(&p, "an unterminated image");
}

static void test_numbers(void)
{
    struct plan p = good();
    p.version++;
    refused(&p, "another version");
    p = good();
    p.op = 0;
    refused(&p, "operation 0");
    p.op = _PLAN_OP_MAX;
    refused(&p, "an operation past the last");
    p = good();
    p.tag = 0;
    refused(&p, "tag 0");
    p = good();
    p.flags = 1u << 31;
    refused(&p, "an unknown flag");
    p = good();
    p.n_mounts = PLAN_MOUNTS_MAX + 1;
    refused(&p, "too many mounts");
    char why[128];
    p = good();
    p.flags = PLAN_VM;
    ok(plan_check(&p, why, sizeof(why)) == 0, "a virtual machine with a mount passes");
    strcpy(p.snapshot, "abcdefghijklmnopqrstuvwxyz012345");
    refused(&p, "one that is a copy");
    p.n_mounts = 0;
    ok(plan_check(&p, why, sizeof(why)) == 0, "a copy without mounts passes");
    p = good();
    p.flags = PLAN_VM | PLAN_PROXY | PLAN_AUTHORITY;
    ok(plan_check(&p, why, sizeof(why)) == 0, "one that is intercepted passes");
    memset(p.image, 'a', 64);
    ok(plan_check(&p, why, sizeof(why)) == 0, "the same with an image: %s", why);
    p = good();
    p.mounts[0].allow_index = -1;
    refused(&p, "a negative index");
    p = good();
    p.mounts[0].read_only = 2;
    refused(&p, "read_only 2");
    p = good();
    p.n_mounts = 2;
    p.mounts[1] = p.mounts[0];
    refused(&p, "one target twice");
}

/* What is written with a point, stored and written again stays what it was: 1.001 cores are 1001
 * thousandths, although no double is 1.001. */
static void test_limits(void)
{
    struct limits l = {0};
    limit_for_each(row) {
        uint64_t wrong = 0;
        for (uint64_t n = 0; n < 100000; n++) {
            uint64_t back = limit_from_unit(row, limit_in_unit(row, n));
            limit_set(row, &l, back);
            wrong += limit_get(row, &l) != n;
        }
        ok(wrong == 0, "%s in the unit of its name and back", row->member);
        limit_set(row, &l, UINT64_MAX);
        ok(limit_get(row, &l) >= UINT32_MAX, "%s does not wrap", row->member);
        if (row->wall >= 0)
            limits_drop_wall(&l, row->wall);
        ok(row->wall < 0 || !limits_of_wall(&l, row->wall), "%s and its wall", row->member);
    }
    ok(limit_from_unit(&limit_table[LIMIT_MEMORY], 1e30) == INT64_MAX, "more than there can be");
}

int main(void)
{
    char why[64];
    struct plan p = good();
    ok(plan_check(&p, why, sizeof(why)) == 0, "a good plan passes");
    p.hostname[0] = p.workdir[0] = p.mounts[0].subpath[0] = 0;
    ok(plan_check(&p, why, sizeof(why)) == 0, "empty hostname, workdir and subpath pass");
    p = (struct plan){.version = PLAN_VERSION, .op = PLAN_LIST, .tag = 1};
    ok(plan_check(&p, why, sizeof(why)) == 0, "a list needs no id");
    p.op = PLAN_KILL;
    refused(&p, "a kill without id");
    test_strings();
    test_unterminated();
    test_image();
    test_numbers();
    test_limits();
    for (int w = 0; w < _WALL_MAX; w++)
        ok(wall_name(w)[0] && strcmp(wall_name(w), "unknown") != 0, "wall %d has a name", w);
    for (int m = 1; m < _MECHANISM_MAX; m++)
        ok(mechanism_name(m) != NULL, "mechanism %d has a name", m);
    ok(!mechanism_name(MECHANISM_NONE) && !mechanism_name(_MECHANISM_MAX), "no name for none");
    return tap_done();
}
