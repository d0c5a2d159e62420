/* SPDX-License-Identifier: Apache-2.0 */
/* The builtins on texts: lines of a file, exact replacement, search. Each runs as the runner would
 * run it: in a child, with files for input and output. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "tests/unit/tap.h"
#include "toolrunner/builtin.h"

static char dir[] = "/tmp/mas-text-XXXXXX";

static void put(const char *name, const char *data, size_t len)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f))
        abort();
}

static char *get(const char *name, size_t *ret_len)
{
    static char data[1 << 20];
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(data, 1, sizeof(data) - 1, f) : 0;
    if (f)
        fclose(f);
    data[n] = 0;
    *ret_len = n;
    return data;
}

static void redirect(int fd, const char *name, int flags)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    int from = open(path, flags, 0600);
    if (from < 0 || dup2(from, fd) < 0)
        _exit(99);
}

/* What it printed, stdout or stderr; a new reference. */
static json_t *run(const char *input, int *ret_code, char **argv)
{
    struct error err = {0};
    int status, argc = (int)strv_length(argv);
    size_t len;
    put(".in", input, strlen(input));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        redirect(0, ".in", O_RDONLY);
        redirect(1, ".out", O_WRONLY | O_CREAT | O_TRUNC);
        redirect(2, ".err", O_WRONLY | O_CREAT | O_TRUNC);
        if (chdir(dir) < 0)
            _exit(99);
        _exit(builtin_find(argv[0])->run(argc, argv));
    }
    waitpid(pid, &status, 0);
    *ret_code = WEXITSTATUS(status);
    char *text = get(*ret_code ? ".err" : ".out", &len);
    return json_parse_object(text, len, &err);
}

#define RUN(input, code, ...) run(input, code, (char *[]){__VA_ARGS__, NULL})

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

static long long number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void test_lines(void)
{
    int code;
    put("a.txt", "one\ntwo\nthree\nfour", 18);
    _cleanup_json_ json_t *all = RUN("", &code, "fs-lines", "a.txt", "1", "100", "1000");
    ok(!code && !strcmp(text_of(all, "text"), "one\ntwo\nthree\nfour"), "a whole file");
    ok(number_of(all, "total_lines") == 4 && number_of(all, "end_line") == 4 &&
           json_is_false(json_object_get(all, "truncated")),
       "and that it is whole");
    _cleanup_json_ json_t *some = RUN("", &code, "fs-lines", "a.txt", "2", "2", "1000");
    ok(!strcmp(text_of(some, "text"), "two\nthree\n") && number_of(some, "end_line") == 3 &&
           json_is_true(json_object_get(some, "truncated")),
       "two lines in the middle");
    _cleanup_json_ json_t *tight = RUN("", &code, "fs-lines", "a.txt", "1", "100", "9");
    ok(!strcmp(text_of(tight, "text"), "one\ntwo\n") && number_of(tight, "end_line") == 2,
       "whole lines within the limit");
    _cleanup_json_ json_t *behind = RUN("", &code, "fs-lines", "a.txt", "9", "1", "1000");
    ok(!code && !*text_of(behind, "text") && number_of(behind, "end_line") == 8, "behind the end");
    put("b", "x\0y", 3);
    _cleanup_json_ json_t *binary = RUN("", &code, "fs-lines", "b", "1", "1", "1000");
    ok(code == 1 && !strcmp(text_of(binary, "code"), "unsupported"), "a binary file");
    _cleanup_json_ json_t *none = RUN("", &code, "fs-lines", "no", "1", "1", "1000");
    ok(code == 1 && !strcmp(text_of(none, "code"), "not_found"), "no file");
}

static void test_long_line(void)
{
    int code;
    static char big[200000];
    memset(big, 'x', sizeof(big));
    memcpy(big + sizeof(big) - 6, "\nlast\n", 6);
    put("long", big, sizeof(big));
    _cleanup_json_ json_t *o = RUN("", &code, "fs-lines", "long", "1", "5", "1000");
    ok(strlen(text_of(o, "text")) == 1000 && json_is_true(json_object_get(o, "truncated")) &&
           number_of(o, "total_lines") == 2,
       "a line over the limit is cut");
    _cleanup_json_ json_t *last = RUN("", &code, "fs-lines", "long", "2", "5", "1000");
    ok(!strcmp(text_of(last, "text"), "last\n"), "the line behind it");
}

static void test_edit(void)
{
    int code;
    size_t len;
    struct stat st;
    put("e", "int a;\nint b;\n", 14);
    _cleanup_free_ char *path = xasprintf("%s/e", dir);
    ok(chmod(path, 0750) == 0, "mode");
    _cleanup_json_ json_t *twice =
        RUN("{\"old_text\":\"int\",\"new_text\":\"long\"}", &code, "fs-edit", "e");
    ok(code == 1 && !strcmp(text_of(twice, "code"), "conflict"), "twice is a conflict");
    ok(!strcmp(get("e", &len), "int a;\nint b;\n"), "and changes nothing");
    _cleanup_json_ json_t *once =
        RUN("{\"old_text\":\"int b\",\"new_text\":\"long b\"}", &code, "fs-edit", "e");
    ok(!code && number_of(once, "line") == 2 && !strcmp(get("e", &len), "int a;\nlong b;\n"),
       "once");
    ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0750, "the mode stays");
    _cleanup_json_ json_t *all = RUN(
        "{\"old_text\":\";\\n\",\"new_text\":\"\",\"replace_all\":true}", &code, "fs-edit", "e");
    ok(!code && number_of(all, "replacements") == 2 && !strcmp(get("e", &len), "int along b"),
       "all");
    _cleanup_json_ json_t *none =
        RUN("{\"old_text\":\"zzz\",\"new_text\":\"\"}", &code, "fs-edit", "e");
    ok(code == 1 && !strcmp(text_of(none, "code"), "not_found"), "not there");
    _cleanup_json_ json_t *empty =
        RUN("{\"old_text\":\"\",\"new_text\":\"x\"}", &code, "fs-edit", "e");
    ok(code == 1 && !strcmp(text_of(empty, "code"), "invalid_request"), "nothing to look for");
    _cleanup_json_ json_t *directory =
        RUN("{\"old_text\":\"a\",\"new_text\":\"b\"}", &code, "fs-edit", ".");
    ok(code == 1 && !strcmp(text_of(directory, "code"), "conflict"), "a directory");
}

static void test_search(void)
{
    int code;
    _cleanup_free_ char *sub = xasprintf("%s/sub", dir);
    ok(mkdir(sub, 0755) == 0, "a directory below");
    put("sub/x.c", "main()\nMain\n", 12);
    put("sub/y.h", "main\n", 5);
    put("sub/bin", "main\0\n", 6);
    _cleanup_json_ json_t *o = RUN("{\"pattern\":\"^main\"}", &code, "fs-search", "sub");
    json_t *m = json_object_get(o, "matches");
    ok(!code && json_array_size(m) == 2, "all files but the binary one");
    ok(!strcmp(text_of(json_array_get(m, 0), "path"), "sub/x.c") &&
           number_of(json_array_get(m, 0), "line") == 1 &&
           !strcmp(text_of(json_array_get(m, 0), "text"), "main()"),
       "where and what");
    _cleanup_json_ json_t *glob = RUN(
        "{\"pattern\":\"MAIN\",\"ignore_case\":true,\"glob\":\"*.c\"}", &code, "fs-search", "sub");
    ok(json_array_size(json_object_get(glob, "matches")) == 2, "any case, some names");
    _cleanup_json_ json_t *literal =
        RUN("{\"pattern\":\"n()\",\"literal\":true}", &code, "fs-search", "sub/x.c");
    ok(json_array_size(json_object_get(literal, "matches")) == 1, "a literal in one file");
    _cleanup_json_ json_t *one =
        RUN("{\"pattern\":\"a\",\"max_matches\":1}", &code, "fs-search", "sub");
    ok(json_array_size(json_object_get(one, "matches")) == 1 &&
           json_is_true(json_object_get(one, "truncated")),
       "no more than asked for");
    _cleanup_json_ json_t *bad = RUN("{\"pattern\":\"(\"}", &code, "fs-search", "sub");
    ok(code == 1 && !strcmp(text_of(bad, "code"), "invalid_request"), "a bad pattern");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_lines();
    test_long_line();
    test_edit();
    test_search();
    _cleanup_free_ char *remove = xasprintf("rm -rf '%s'", dir);
    return system(remove) == 0 ? tap_done() : 1;
}
