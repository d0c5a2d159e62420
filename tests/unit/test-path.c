/* SPDX-License-Identifier: Apache-2.0 */
/* base/path.h and the directories of base/fd.h. */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"

static void test_normalize(void)
{
    static const struct {
        const char *path, *normal; /* NULL: refused */
    } cases[] = {
        {"", ""},       {".", ""},           {"./", ""},       {"a", "a"},
        {"a/", "a"},    {"a//./b/.", "a/b"}, {"./a/b", "a/b"}, {"...", "..."},
        {"..a", "..a"}, {"a/.b", "a/.b"},    {"/", NULL},      {"/a", NULL},
        {"..", NULL},   {"a/..", NULL},      {"a/../b", NULL}, {"../a", NULL},
        {"./..", NULL}, {"a//..", NULL},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char out[64];
        int r = path_normalize(cases[i].path, out, sizeof(out));
        ok(cases[i].normal ? r == 0 && strcmp(out, cases[i].normal) == 0 : r == -EPERM,
           "'%s' is %s%s", cases[i].path, cases[i].normal ? "the path " : "refused",
           cases[i].normal ? cases[i].normal : "");
    }
    char out[4], wide[400], name[300];
    ok(path_normalize("a/b", out, sizeof(out)) == 0, "a path that just fits");
    ok(path_normalize("a/bc", out, sizeof(out)) == -ENAMETOOLONG, "one that does not");
    memset(name, 'n', sizeof(name));
    name[256] = 0;
    ok(path_normalize(name, wide, sizeof(wide)) == -ENAMETOOLONG, "a name that no file can have");
    name[255] = 0;
    ok(path_normalize(name, wide, sizeof(wide)) == 0, "the longest that one can");
}

static void test_directories(void)
{
    char dir[] = "/tmp/test-path-XXXXXX";
    ok(mkdtemp(dir) != NULL, "a directory of our own");
    _cleanup_close_ int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(fd_make_dir_at(top, "d", 0700) == 0, "a directory is made");
    ok(fd_make_dir_at(top, "d", 0700) == 0, "and is fine where it is there");
    ok(fd_make_dir_at(top, "no/d", 0700) == -ENOENT, "not below one that is missing");
    _cleanup_close_ int d = fd_enter_dir_at(top, "d", 0700);
    _cleanup_close_ int e = fd_enter_dir_at(top, "e", 0700);
    ok(d >= 0 && e >= 0, "one is opened, whether it was there or not");
    ok(symlinkat("d", top, "link") == 0 && fd_enter_dir_at(top, "link", 0700) == -ENOTDIR,
       "never through a link");
    _cleanup_close_ int file = openat(top, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct strbuf fits = STRBUF_INIT(5), small = STRBUF_INIT(4);
    ok(write(file, "12345", 5) == 5 && fd_read_file_at(top, "f", &fits) == 0 && fits.len == 5,
       "a file as large as its limit is read");
    ok(fd_read_file_at(top, "f", &small) == -EFBIG, "one that is larger is not");
    lseek(file, 3, SEEK_SET);
    strbuf_reset(&small);
    ok(fd_read_all(file, &small) == 0 && strcmp(small.data, "45") == 0, "or what is left of it");
    strbuf_done(&fits);
    strbuf_done(&small);
    unlinkat(top, "f", 0);
    unlinkat(top, "link", 0);
    unlinkat(top, "d", AT_REMOVEDIR);
    unlinkat(top, "e", AT_REMOVEDIR);
    rmdir(dir);
}

int main(void)
{
    test_normalize();
    test_directories();
    return tap_done();
}
