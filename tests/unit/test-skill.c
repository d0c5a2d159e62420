/* SPDX-License-Identifier: Apache-2.0 */
/* Skills: what parameters of the filesystem skill mean, and what enabling keeps. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "store/store.h"
#include "tests/unit/tap.h"
#include "tool/skill.h"

static void test_parse(void)
{
    static const struct {
        const char *json, *root, *path; /* path NULL: refused */
        enum skill_operation operation;
    } cases[] = {
        {"{\"operation\":\"read\",\"path\":\"a.txt\"}", NULL, "a.txt", SKILL_READ},
        {"{\"operation\":\"read\",\"path\":\"./a//b/./c.txt\"}", NULL, "a/b/c.txt", SKILL_READ},
        {"{\"operation\":\"read\",\"path\":\"/workspace/a.txt\"}", NULL, "a.txt", SKILL_READ},
        {"{\"operation\":\"read\",\"path\":\"/srv/x/a.txt\"}", "/srv/x", "a.txt", SKILL_READ},
        {"{\"operation\":\"list\"}", NULL, "", SKILL_LIST},
        {"{\"operation\":\"list\",\"path\":\".\"}", NULL, "", SKILL_LIST},
        {"{\"operation\":\"write\",\"path\":\"A.TXT\",\"content\":\"\"}", NULL, "A.TXT",
         SKILL_WRITE},
        {"{\"operation\":\"modify\",\"path\":\"a\",\"content\":\"x\"}", NULL, "a", SKILL_WRITE},
        {"{\"operation\":\"create_dir\",\"path\":\"v1.2\"}", NULL, "v1.2", SKILL_CREATE_DIR},
        {"{\"operation\":\"delete\",\"path\":\"a.txt\"}", NULL, "a.txt", SKILL_DELETE},
        {"{}", NULL, NULL, 0},
        {"{\"operation\":\"chmod\",\"path\":\"a\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":5}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"../a.txt\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"a/../b.txt\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"/etc/passwd\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"/workspace2/a.txt\"}", NULL, NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"/srv/xy/a.txt\"}", "/srv/x", NULL, 0},
        {"{\"operation\":\"read\",\"path\":\"a.sh\"}", NULL, NULL, 0},
        {"{\"operation\":\"write\",\"path\":\"a.txt\"}", NULL, NULL, 0},
        {"{\"operation\":\"write\",\"path\":\"a.txt\",\"content\":5}", NULL, NULL, 0},
        {"{\"operation\":\"write\",\"path\":\"a.so\",\"content\":\"\"}", NULL, NULL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        struct skill_file f = {0};
        _cleanup_json_ json_t *o = json_parse_object(cases[i].json, strlen(cases[i].json), &err);
        int r = skill_file_parse(o, cases[i].root, &f, &err);
        if (cases[i].path)
            ok(r >= 0 && f.operation == cases[i].operation && strcmp(f.path, cases[i].path) == 0,
               "%s: %s%s", cases[i].json, r < 0 ? err.message : "", r < 0 ? "" : f.path);
        else
            ok(r < 0 && err.code == ERROR_INVALID, "%s: %s", cases[i].json, err.message);
        skill_file_done(&f);
    }
}

static void test_enabling(const char *dir)
{
    struct error err = {0};
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct store *store = store_open(dir, &loop, &err);
    struct skills *s = skills_new(store, &err);
    ok(skill_check(s, "filesystem", &err) == 0 && skill_check(s, "calculator", &err) == 0,
       "enabled at first");
    ok(skill_check(s, "nope", &err) < 0 && err.code == ERROR_NOT_FOUND, "%s", err.message);
    error_clear(&err);
    ok(skill_set_enabled(s, "filesystem", false, NULL, NULL, &err) == 0, "disabled");
    ok(skill_check(s, "filesystem", &err) < 0 && err.code == ERROR_FORBIDDEN, "%s", err.message);
    error_clear(&err);
    skills_free(s);
    store_close(store);
    store = store_open(dir, &loop, &err);
    s = skills_new(store, &err);
    ok(skill_check(s, "filesystem", NULL) < 0, "and still so after a restart");
    ok(skill_set_enabled(s, "filesystem", true, NULL, NULL, &err) == 0 &&
           skill_check(s, "filesystem", NULL) == 0,
       "enabled again");
    skills_free(s);
    store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    ok(strcmp(skill_tool("system"), "shell") == 0 && !skill_tool("filesystem") &&
           strcmp(skill_tool("calculator"), "calculator") == 0,
       "what a skill is");
}

int main(void)
{
    char dir[] = "/tmp/test-skill-XXXXXX";
    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    test_parse();
    test_enabling(dir);
    _cleanup_free_ char *db = xasprintf("%s/state.db", dir);
    unlink(db);
    rmdir(dir);
    return tap_done();
}
