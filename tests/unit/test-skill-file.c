/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's side of the filesystem skill: below the root, no links, no other extensions. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"
#include "toolrunner/builtin.h"

static char root[] = "/tmp/test-skill-XXXXXX";
static char outside[] = "/tmp/test-skill-out-XXXXXX";
static char output[65536];

static void read_back(const char *path)
{
    struct strbuf b = STRBUF_INIT(sizeof(output) - 1);
    fd_read_file_at(AT_FDCWD, path, &b);
    memcpy(output, b.data ? b.data : "", b.len + 1);
    strbuf_done(&b);
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0)
        fd_write_all(fd, text, strlen(text));
    close(fd);
}

/* Runs it as the runner would: in a child, input and output on descriptors 0 to 2. */
static int run(const char *operation, const char *path, const char *max, const char *input)
{
    char in[] = "/tmp/test-skill-in-XXXXXX", out[] = "/tmp/test-skill-io-XXXXXX";
    int in_fd = mkstemp(in), out_fd = mkstemp(out), status = 0;
    fd_write_all(in_fd, input, strlen(input));
    lseek(in_fd, 0, SEEK_SET);
    pid_t pid = fork();
    if (pid == 0) {
        const char *argv[] = {"skill-file", operation, root, path, max, ".txt", ".md", NULL};
        dup2(in_fd, 0);
        dup2(out_fd, 1);
        dup2(out_fd, 2);
        _exit(builtin_skill_file(ELEMENTS(argv) - 1, (char **)argv));
    }
    waitpid(pid, &status, 0);
    read_back(out);
    unlink(in);
    unlink(out);
    close(in_fd);
    close(out_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *in_root(const char *name)
{
    return xasprintf("%s/%s", root, name);
}

static void test_ordinary(void)
{
    ok(run("create_dir", "a/b", "10", "") == 0 && strstr(output, "\"created\":true"), "%s", output);
    ok(run("create_dir", "a/b", "10", "") == 0 && strstr(output, "\"created\":false"), "again");
    ok(run("write", "a/b/f.txt", "10", "0123456789") == 0, "as much as fits: %s", output);
    ok(run("write", "a/b/f.txt", "9", "0123456789") == 1 && strstr(output, "too_large"),
       "a byte more: %s", output);
    ok(run("read", "a/b/f.txt", "10", "") == 0 && strcmp(output, "0123456789") == 0, "read");
    ok(run("read", "a/b/f.txt", "9", "") == 1 && strstr(output, "too_large"), "%s", output);
    ok(run("write", "new/dir/README", "10", "x") == 0, "parents are made, no extension is fine");
    ok(run("list", "", "0", "") == 0 && strstr(output, "\"a\"") && strstr(output, "\"new\""),
       "the root: %s", output);
    ok(run("delete", "a", "0", "") == 1 && strstr(output, "conflict"), "not empty: %s", output);
    ok(run("delete", "a/b/f.txt", "0", "") == 0 && run("delete", "a/b", "0", "") == 0, "deleted");
    ok(run("read", "a/b/f.txt", "10", "") == 1 && strstr(output, "not_found"), "%s", output);
}

static void test_refused(void)
{
    static const struct {
        const char *operation, *path, *code;
    } cases[] = {
        {"read", "../x.txt", "invalid_request"},
        {"read", "a/../../x.txt", "invalid_request"},
        {"write", "..", "invalid_request"},
        {"list", "..", "invalid_request"},
        {"read", "program.sh", "forbidden"},
        {"write", "x.exe", "forbidden"},
        {"write", "x.txt.sh", "forbidden"},
        {"write", ".bashrc", "forbidden"},
        {"delete", "", "forbidden"},
        {"write", "", "invalid_request"},
        {"read", "link.txt", "forbidden"},
        {"write", "link.txt", "forbidden"},
        {"read", "out/secret.txt", "not_found"},
        {"write", "out/new.txt", "not_found"},
        {"list", "out", "not_found"},
        {"create_dir", "out/dir", "not_found"},
        {"delete", "out/secret.txt", "not_found"},
        {"read", "inside.txt", "forbidden"},
        {"read", "pipe.txt", "invalid_request"},
        {"read", "dir.txt", "conflict"},
        {"write", "dir.txt", "conflict"},
        {"chmod", "x.txt", "invalid_request"},
    };
    _cleanup_free_ char *secret = xasprintf("%s/secret.txt", outside);
    _cleanup_free_ char *link = in_root("link.txt"), *out = in_root("out"),
                        *sh = in_root("program.sh"), *pipe = in_root("pipe.txt"),
                        *dir = in_root("dir.txt"), *inside = in_root("inside.txt");
    put(secret, "secret");
    put(sh, "#!/bin/sh\n");
    if (symlink(secret, link) < 0 || symlink(outside, out) < 0 || mkfifo(pipe, 0600) < 0 ||
        mkdir(dir, 0755) < 0 || symlink("program.sh", inside) < 0)
        ok(false, "preparing: %s", strerror(errno));
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        int code = run(cases[i].operation, cases[i].path, "1000", "new");
        ok(code == 1 && strstr(output, cases[i].code) && !strstr(output, "\"secret\""), "%s %s: %s",
           cases[i].operation, cases[i].path, output);
    }
    read_back(secret);
    ok(strcmp(output, "secret") == 0, "what is outside is as it was");
    ok(run("delete", "link.txt", "0", "") == 0 && access(secret, F_OK) == 0,
       "a link itself can go, not what it leads to");
}

static void clean(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", path, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

int main(void)
{
    if (!mkdtemp(root) || !mkdtemp(outside))
        return EXIT_FAILURE;
    test_ordinary();
    test_refused();
    clean(root);
    clean(outside);
    return tap_done();
}
