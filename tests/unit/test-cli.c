/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of sbx that need no daemon: flags, request bodies, and above all what a hostile archive can
 * do to local files. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <locale.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/spec.h"
#include "cli/tree.h"
#include "libsbx/sbx.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/test-cli-XXXXXX";
static struct sbx_error err;

/* --- flags and bodies */

static int parse(const char *name, char **argv, struct args *a)
{
    return args_parse(command_find(name), argv, a);
}
#define ARGV(...) ((char *[]){__VA_ARGS__, NULL})

static void test_flags(void)
{
    struct args a;
    char *dashes[] = {"-id", "x", "--exec-id=e", "--addr", "unix:/s", NULL};
    ok(parse("exec-status", dashes, &a) == 0 && strcmp(a.id, "x") == 0 &&
           strcmp(a.exec_id, "e") == 0 && strcmp(a.addr, "unix:/s") == 0,
       "one dash or two, with a space or an =");
    args_done(&a);
    ok(parse("exec", ARGV("-id", "x", "-sync", "--", "ls", "-l", "--"), &a) == 0 && a.sync &&
           a.n_rest == 3 && strcmp(a.rest[1], "-l") == 0 && strcmp(a.rest[2], "--") == 0,
       "-- ends the flags");
    args_done(&a);
    ok(parse("run", ARGV("-timeout", "5", "ls", "-timeout", "6"), &a) == 0 && a.timeout == 5 &&
           a.n_rest == 3,
       "the command's own flags are its own");
    args_done(&a);
    ok(parse("exec", ARGV("-id", "x", "-sync=false", "-stream=true", "a"), &a) == 0 && !a.sync &&
           a.stream,
       "booleans with a value");
    args_done(&a);
    ok(parse("cp", ARGV("a", "-token", "t", "b:c"), &a) == 0 && a.n_rest == 2 &&
           strcmp(a.token, "t") == 0,
       "flags among arguments that are no command");
    args_done(&a);
    ok(parse("run", ARGV("-env", "A=1", "-env", "B=2", "x"), &a) == 0 &&
           strcmp(a.env[1], "B=2") == 0 && !a.env[2],
       "lists");
    args_done(&a);
    static char *const bad[][4] = {{"status", "-i", "x"},      {"status", "-exec-id", "x"},
                                   {"status", "-id"},          {"status", "extra"},
                                   {"exec", "-timeout", "5s"}, {"exec", "-timeout", "-1"},
                                   {"exec", "-sync=perhaps"},  {"cp", "one"},
                                   {"run", "-limit"}};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        char *argv[] = {bad[i][1], bad[i][2], NULL};
        ok(parse(bad[i][0], argv, &a) < 0, "refused: %s %s %s", bad[i][0], bad[i][1],
           bad[i][2] ? bad[i][2] : "");
    }
}

/* --- the rows of commands */

static void check_row(const struct command *cmd)
{
    struct args a;
    char *unknown[] = {"--nonsense", NULL};
    bool one_function = !cmd->commands + !cmd->run + !cmd->run_connected == 2;
    ok(one_function && cmd->summary[strlen(cmd->summary) - 1] != '.', "%s: a whole row", cmd->name);
    if (cmd->commands)
        return;
    ok(args_parse(cmd, unknown, &a) < 0, "%s refuses an option that it does not have", cmd->name);
    for (const struct command_option *o = cmd->options; o && o->name; o++)
        if (!o->help || o->help[strlen(o->help) - 1] != '.' ||
            (o->kind == OPTION_BOOL) != !o->value || (o->required && o->kind != OPTION_TEXT))
            ok(false, "%s -%s: a whole row", cmd->name, o->name);
}

/* Completions, and options before a sub-command, rely on it. */
static void check_same_kind(const struct command *cmd, const struct command *other)
{
    for (const struct command_option *o = cmd->options; o && o->name; o++) {
        const struct command_option *p = option_find(other->options, o->name, strlen(o->name));
        if (p && p->kind != o->kind)
            ok(false, "-%s is of one kind in %s and %s", o->name, cmd->name, other->name);
    }
}

static void test_rows(void)
{
    const struct command *all[100];
    size_t n = 0;
    for (size_t i = 0; commands[i]; i++) {
        all[n++] = commands[i];
        for (const struct command *c = commands[i]->commands; c && c->name; c++) {
            all[n++] = c;
            ok(command_find_sub(commands[i], command_last_word(c)) == c, "%s is found", c->name);
        }
    }
    for (size_t i = 0; i < n; i++) {
        check_row(all[i]);
        for (size_t j = 0; j < i; j++)
            check_same_kind(all[i], all[j]);
    }
}

static const char *near(const char *word)
{
    struct nearest n = {.word = word};
    nearest_add(&n, "json");
    nearest_add(&n, "format");
    nearest_add(&n, "f");
    return n.name ? n.name : "none";
}

static void test_nearest(void)
{
    static const char *const pairs[][2] = {
        {"jsn", "json"},      {"josn", "json"}, {"form", "format"}, {"formats", "format"},
        {"nonsense", "none"}, {"x", "none"},    {"", "none"}};
    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        ok(strcmp(near(pairs[i][0]), pairs[i][1]) == 0, "near '%s' is %s, not %s", pairs[i][0],
           pairs[i][1], near(pairs[i][0]));
}

static char *body_of(json_t *(*make)(const struct args *, struct sbx_error *), const char *name,
                     char **argv)
{
    struct args a;
    if (parse(name, argv, &a) < 0)
        return xstrdup("unparsed");
    _cleanup_json_ json_t *j = make(&a, &err);
    args_done(&a);
    return j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : xstrdup(err.message);
}

static void body_is(json_t *(*make)(const struct args *, struct sbx_error *), const char *name,
                    char **argv, const char *want)
{
    _cleanup_free_ char *got = body_of(make, name, argv);
    if (!ok(strcmp(got, want) == 0, "%s: %s", name, want))
        printf("# got %s\n", got);
}

static void test_bodies(void)
{
    body_is(spec_sbx_create, "create",
            ARGV("-id", "a", "-image", "i", "-volume", "pvc", "-cache-mode", "pvc",
                 "-cache-pvc-size", "5Gi", "-cache-pvc-storage-class", "c",
                 "-cache-pvc-access-mode", "m", "-env", "K=V=W", "-allow-host", "h1,h2",
                 "-allow-host", "h3", "-deny-host", "h4", "-limit", "memory_mb=64", "-limit",
                 "cpu_cores=0.5", "-cmd", " a  b c "),
            "{\"allowed_hosts\":[\"h1\",\"h2\",\"h3\"],\"cache_mode\":\"pvc\","
            "\"cache_pvc_access_mode\":\"m\",\"cache_pvc_size\":\"5Gi\","
            "\"cache_pvc_storage_class\":\"c\",\"command\":[\"a\",\"b\",\"c\"],"
            "\"disallowed_hosts\":[\"h4\"],\"env\":{\"K\":\"V=W\"},\"id\":\"a\",\"image\":\"i\","
            "\"limits\":{\"cpu_cores\":0.5,\"memory_mb\":64},\"volume_mode\":\"pvc\"}");
    body_is(spec_sbx_create, "create", (char *[]){NULL}, "{}");
    body_is(spec_sbx_create, "create", ARGV("-env", "=x"), "-env needs NAME=VALUE, not '=x'");
    body_is(spec_sbx_create, "create", ARGV("-limit", "memory_mb=x"),
            "-limit memory_mb=x: the value is not a number that this limit can have");
    body_is(spec_sbx_create, "create", ARGV("-cmd", "a", "--", "b"),
            "give the command once: by -cmd or after '--'");
    body_is(spec_sandbox, "run",
            ARGV("-runtime", "local", "-limit", "cpu_cores=0.5", "-limit", "memory_mb=64",
                 "-accept-weaker", "io_mb_per_s", "x"),
            "{\"accept_weaker\":[\"io_mb_per_s\"],\"limits\":{\"cpu_cores\":0.5,\"memory_mb\":64},"
            "\"runtime\":\"local\"}");
    static char *const bad[] = {"memory_mb=1.5", "memory_mb=-1",    "memory_mb=", "memory_mb",
                                "cpu_cores=nan", "memory_mb=1e300", "memory=1",   "cpu_cores=1x"};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        char *argv[] = {"-limit", bad[i], "x", NULL};
        _cleanup_free_ char *got = body_of(spec_sandbox, "run", argv);
        ok(strstr(got, "-limit") == got, "refused: %s", got);
    }
}

static void test_names(void)
{
    struct remote r = {0};
    ok(remote_parse("sbx-1:a/b", &r) && strcmp(r.id, "sbx-1") == 0 &&
           strcmp(r.path, "/workspace/a/b") == 0,
       "a relative path is below /workspace");
    remote_done(&r);
    ok(remote_parse("sbx-1:/etc/x:y", &r) && strcmp(r.path, "/etc/x:y") == 0, "an absolute one");
    remote_done(&r);
    ok(!remote_parse("./a:b", &r) && !remote_parse("a", &r) && !remote_parse(":a", &r), "local");
    char *p = printable("a\033[31m\n\x7f\xc2\x9b"
                        "é");
    ok(strcmp(p, "a\\x1b[31m\\x0a\\x7f\\x9bé") == 0, "control bytes are not printed: %s", p);
    free(p);
    static const struct {
        const char *text, *shown;
    } hidden[] = {
        {"a\u202egpj.exe", "a\\u202egpj.exe"},
        {"a\u200bb", "a\\u200bb"},
        {"\u2066x\u2069", "\\u2066x\\u2069"},
        {"\ufeff", "\\ufeff"},
        {"a\u2028b", "a\\u2028b"},
        {"\U000e0041", "\\U000e0041"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\u061c\u00ad", "\\u061c\\xad"},
        {"héé 日本 ж", "héé 日本 ж"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        p = printable(hidden[i].text);
        ok(strcmp(p, hidden[i].shown) == 0, "what does not show as itself is written: %s", p);
        ok(has_hidden(hidden[i].text) == (strcmp(hidden[i].text, hidden[i].shown) != 0),
           "and told apart");
        free(p);
    }
}

static void test_exit_codes(void)
{
    ok(exit_code_of("completed", "", true, 7) == 7, "a command's own code");
    ok(exit_code_of("timed_out", "", true, 137) == EXIT_TIMED_OUT, "out of time");
    ok(exit_code_of("oom_killed", "", true, 137) == EXIT_OOM_KILLED, "out of memory");
    ok(exit_code_of("failed", "", false, 0) == EXIT_SBX_FAILED, "no code and no success");
    snprintf(err.code, sizeof(err.code), "not_found");
    ok(cli_fail(&err) == 123, "not_found is 123");
    snprintf(err.code, sizeof(err.code), "no_such_code");
    ok(cli_fail(&err) == EXIT_SBX_FAILED, "a code we do not know is 125");
}

/* --- archives */

struct member {
    const char *name;
    mode_t type;
    const char *content; /* or the link's target */
    bool hardlink;
};

static int write_archive(const struct member *m, size_t n)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    archive_write_open_fd(a, fd);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, m[i].name);
        archive_entry_set_filetype(e, m[i].type);
        archive_entry_set_perm(e, 06755);
        bool file = m[i].type == AE_IFREG && !m[i].hardlink;
        if (m[i].type == AE_IFLNK)
            archive_entry_set_symlink(e, m[i].content);
        if (m[i].hardlink)
            archive_entry_set_hardlink(e, m[i].content);
        archive_entry_set_size(e, file ? (la_int64_t)strlen(m[i].content) : 0);
        archive_write_header(a, e);
        if (file)
            archive_write_data(a, m[i].content, strlen(m[i].content));
        archive_entry_free(e);
    }
    archive_write_close(a);
    archive_write_free(a);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static char *at(const char *name)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
    return path[next];
}

static bool holds(const char *name, const char *text)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    return fd_read_file_at(AT_FDCWD, at(name), &b) >= 0 && strcmp(b.data ? b.data : "", text) == 0;
}

static int unpack(const struct member *m, size_t n, const char *to, int *skipped)
{
    _cleanup_close_ int fd = write_archive(m, n);
    return tree_unpack(fd, at(to), skipped, &err);
}

static void test_hostile_archive(void)
{
    const struct member m[] = {
        {"../outside", AE_IFREG, "x", false},
        {"a/../../outside", AE_IFREG, "x", false},
        {"/tmp/test-cli-absolute", AE_IFREG, "x", false},
        {"abs", AE_IFLNK, "/etc", false},
        {"up", AE_IFLNK, "..", false},
        {"deep/er/up", AE_IFLNK, "../../..", false},
        {"back", AE_IFLNK, "deep/../..", false},
        {"hard", AE_IFREG, "../victim", true},
        {"fifo", AE_IFIFO, "", false},
        {"dev", AE_IFCHR, "", false},
    };
    int fd = open(at("victim"), O_WRONLY | O_CREAT, 0600), skipped = 0;
    fd_write_all(fd, "untouched", 9);
    close(fd);
    ok(unpack(m, ELEMENTS(m), "out", &skipped) == 0 && skipped == ELEMENTS(m),
       "%d of %zu entries left out", skipped, ELEMENTS(m));
    ok(access(at("outside"), F_OK) < 0 && access("/tmp/test-cli-absolute", F_OK) < 0,
       "nothing was written outside");
    ok(access(at("out/abs"), F_OK) < 0 && access(at("out/up"), F_OK) < 0 &&
           access(at("out/deep/er/up"), F_OK) < 0 && access(at("out/hard"), F_OK) < 0,
       "no link leads out");
}

static void test_planted_links(void)
{
    mkdir(at("planted"), 0755);
    mkdir(at("elsewhere"), 0755);
    ok(symlink("../elsewhere", at("planted/link")) == 0 &&
           symlink("../victim", at("planted/file")) == 0,
       "links that were there before");
    const struct member through[] = {{"link/x", AE_IFREG, "x", false}};
    int skipped = 0;
    ok(unpack(through, 1, "planted", &skipped) < 0 && access(at("elsewhere/x"), F_OK) < 0,
       "are not followed as directories: %s", err.message);
    const struct member dir_over[] = {{"link", AE_IFDIR, "", false}};
    ok(unpack(dir_over, 1, "planted", &skipped) < 0, "nor taken for one: %s", err.message);
    const struct member over[] = {{"file", AE_IFREG, "new", false}};
    ok(unpack(over, 1, "planted", &skipped) == 0 && holds("planted/file", "new") &&
           holds("victim", "untouched"),
       "and are replaced as files");
    const struct member chain[] = {{"d/e/top", AE_IFLNK, "../..", false},
                                   {"d/e/top/pwned", AE_IFREG, "x", false}};
    ok(unpack(chain, 2, "planted", &skipped) < 0 && access(at("planted/pwned"), F_OK) < 0,
       "a link made by the archive is not followed either");
}

static void test_good_archive(void)
{
    const struct member m[] = {
        {"./", AE_IFDIR, "", false},         {"./a/b/f\xc3\xa9", AE_IFREG, "hello", false},
        {"a/b/up", AE_IFLNK, "../c", false}, {"a/c", AE_IFREG, "sea", false},
        {"a/hard", AE_IFREG, "a/c", true},   {"empty", AE_IFREG, "", false},
    };
    int skipped = 0;
    struct stat st = {0}, st2 = {0};
    ok(unpack(m, ELEMENTS(m), "good", &skipped) == 0 && skipped == 0, "an honest archive: %s",
       err.message);
    ok(holds("good/a/b/f\xc3\xa9", "hello") && holds("good/a/b/up", "sea"), "is all there");
    ok(stat(at("good/a/c"), &st) == 0 && stat(at("good/a/hard"), &st2) == 0 &&
           st.st_ino == st2.st_ino,
       "with its hard links");
    ok((st.st_mode & 07777) == 0755, "without set-id bits");
}

static void test_broken_archives(void)
{
    const struct member m[] = {{"f", AE_IFREG, "hello", false}};
    int skipped = 0;
    _cleanup_close_ int fd = write_archive(m, 1);
    ok(ftruncate(fd, 514) == 0 && tree_unpack(fd, at("cut"), &skipped, &err) < 0,
       "a cut archive fails: %s", err.message);
    _cleanup_close_ int junk = memfd_create("junk", MFD_CLOEXEC);
    fd_write_all(junk, "this is not an archive at all, not even a little", 48);
    lseek(junk, 0, SEEK_SET);
    ok(tree_unpack(junk, at("junk"), &skipped, &err) < 0, "junk fails: %s", err.message);
}

static void test_round_trip(void)
{
    int skipped = 0;
    mkfifo(at("good/pipe"), 0600);
    _cleanup_close_ int fd = memfd_create("tar", MFD_CLOEXEC);
    ok(tree_pack(at("good"), fd, &skipped, &err) == 0 && skipped == 1,
       "a tree is packed, its fifo left out");
    lseek(fd, 0, SEEK_SET);
    ok(tree_unpack(fd, at("again"), &skipped, &err) == 0 && holds("again/a/b/f\xc3\xa9", "hello") &&
           holds("again/a/b/up", "sea") && holds("again/empty", ""),
       "and comes back");
    ok(tree_pack(at("nowhere"), fd, &skipped, &err) < 0, "no directory: %s", err.message);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    test_flags();
    test_rows();
    test_nearest();
    test_bodies();
    test_names();
    test_exit_codes();
    test_hostile_archive();
    test_planted_links();
    test_good_archive();
    test_broken_archives();
    test_round_trip();
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
