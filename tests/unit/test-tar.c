/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking tar archives into a directory: what is good arrives, every trick is refused by name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"
#include "toolrunner/tar-extract.h"
#include "toolrunner/tar.h"
#include "toolrunner/tree.h"

static char base[] = "/tmp/test-tar-XXXXXX", root[64];
static struct strbuf archive = STRBUF_INIT(16 << 20);
static size_t archive_at;

static ssize_t read_archive(void *arg, void *data, size_t size)
{
    size_t left = archive.len - archive_at, max = *(size_t *)arg;
    size = size < left ? size : left;
    size = size < max ? size : max;
    memcpy(data, archive.data + archive_at, size);
    archive_at += size;
    return (ssize_t)size;
}

static void checksum(char *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
}

static void add_full(const char *name, char type, const char *link, const char *data, size_t len,
                     unsigned mode)
{
    char h[512] = {0};
    strncpy(h, name, 100);
    snprintf(h + 100, 8, "%07o", mode);
    snprintf(h + 124, 12, "%011zo", len);
    snprintf(h + 136, 12, "%011o", 1000000000);
    h[156] = type;
    strncpy(h + 157, link, 100);
    memcpy(h + 257, "ustar\00000", 8);
    checksum(h);
    strbuf_append(&archive, h, 512);
    strbuf_append(&archive, data, len);
    static const char zero[512];
    strbuf_append(&archive, zero, (512 - len % 512) % 512);
}

static void add(const char *name, char type, const char *link, const char *data)
{
    add_full(name, type, link, data, strlen(data), 0644);
}

static void fresh(void)
{
    tree_remove(root);
    mkdir(root, 0755);
    strbuf_reset(&archive);
    archive_at = 0;
}

static int unpack_in(size_t read_size, char *why, size_t why_size)
{
    static struct tar t;
    _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    archive_at = 0;
    tar_init(&t, read_archive, &read_size);
    int r = tar_extract(&t, fd);
    snprintf(why, why_size, "%s", r < 0 ? t.why : "");
    return r;
}

static int unpack(char *why, size_t why_size)
{
    char end[1024] = {0};
    strbuf_append(&archive, end, sizeof(end));
    return unpack_in(SIZE_MAX, why, why_size);
}

static bool content_is(const char *path, const char *want)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    return fd_read_file_at(AT_FDCWD, full, &b) == 0 && b.len == strlen(want) &&
           !memcmp(b.data ? b.data : "", want, b.len);
}

static mode_t mode_of(const char *path)
{
    char full[512];
    struct stat st;
    snprintf(full, sizeof(full), "%s/%s", root, path);
    return lstat(full, &st) == 0 ? st.st_mode : 0;
}

static void expect_refused(int error, const char *word, const char *what)
{
    char why[512];
    int r = unpack(why, sizeof(why));
    ok(r == error && strstr(why, word), "%s: %s (%d)", what, why, r);
}

static void test_good(void)
{
    char why[512];
    fresh();
    add_full("dir/", '5', "", "", 0, 0755);
    add("dir/file", '0', "", "content");
    add_full("dir/run", '0', "", "#!", 2, 04755);
    add("./a//b/./c", '0', "", "made parents");
    add("link", '2', "dir/file", "");
    add("hard", '1', "dir/file", "");
    add("empty", '0', "", "");
    ok(unpack(why, sizeof(why)) == 0, "unpacked: %s", why);
    ok(content_is("dir/file", "content") && content_is("hard", "content") &&
           content_is("link", "content") && content_is("empty", "") &&
           content_is("a/b/c", "made parents"),
       "files, parents and links");
    ok((mode_of("dir/run") & 07777) == 0755, "setuid is stripped");
    ok(S_ISLNK(mode_of("link")), "the link is a link");
    ok(unpack_in(7, why, sizeof(why)) == 0 && content_is("dir/file", "content"),
       "the same in reads of 7 bytes, over what is there: %s", why);
}

static void test_long_names(void)
{
    char why[512], name[300], full[700], pax[700];
    memset(name, 'n', sizeof(name));
    memcpy(name, "long/", 5);
    name[200] = 0;
    fresh();
    add_full("././@LongLink", 'L', "", name, 201, 0644);
    add("short", '0', "", "gnu");
    ok(unpack(why, sizeof(why)) == 0 && content_is(name, "gnu"), "GNU long name: %s", why);
    name[199] = 'p';
    int n = snprintf(full, sizeof(full), "path=%s\n", name);
    snprintf(pax, sizeof(pax), "%d %s", n + 4, full);
    fresh();
    add_full("x", 'x', "", pax, strlen(pax), 0644);
    add("short", '0', "", "pax");
    ok(unpack(why, sizeof(why)) == 0 && content_is(name, "pax"), "pax path: %s", why);
    fresh();
    add_full("x", 'x', "", "9 size=4\n", 9, 0644);
    add_full("sized", '0', "", "12345678", 8, 0644);
    ok(unpack(why, sizeof(why)) == 0 && content_is("sized", "1234"), "pax size wins: %s", why);
}

static void test_paths(void)
{
    fresh();
    add("/etc/evil", '0', "", "x");
    expect_refused(-EPERM, "/etc/evil", "absolute path");
    fresh();
    add("a/../../evil", '0', "", "x");
    expect_refused(-EPERM, "a/../../evil", "..");
    fresh();
    add("..", '5', "", "");
    expect_refused(-EPERM, "'..'", ".. alone");
    fresh();
    add("", '0', "", "x");
    expect_refused(-EINVAL, "empty name", "empty name");
    fresh();
    add_full("x", 'x', "", "14 path=/evil\n", 14, 0644);
    add("good", '0', "", "x");
    expect_refused(-EPERM, "/evil", "absolute path in a pax header");
}

static void test_links(void)
{
    char outside[128];
    snprintf(outside, sizeof(outside), "%s/outside", base);
    mkdir(outside, 0755);
    fresh();
    add("door", '2', outside, "");
    add("door/evil", '0', "", "x");
    expect_refused(-ELOOP, "door/evil", "a file through a symlink of the archive's");
    snprintf(outside, sizeof(outside), "%s/outside/evil", base);
    ok(access(outside, F_OK) < 0, "and nothing was written there");
    fresh();
    add("target", '2', outside, "");
    add("target", '0', "", "mine");
    char why[512];
    ok(unpack(why, sizeof(why)) == 0 && content_is("target", "mine") &&
           S_ISREG(mode_of("target")) && access(outside, F_OK) < 0,
       "a file over a symlink replaces it: %s", why);
    fresh();
    add("hard", '1', "../outside", "");
    expect_refused(-EPERM, "hard", "hard link out of the root");
    fresh();
    add("hard", '1', "/etc/passwd", "");
    expect_refused(-EPERM, "hard", "hard link to an absolute path");
    fresh();
    add("door", '2', "/etc", "");
    add("hard", '1', "door/passwd", "");
    expect_refused(-ELOOP, "hard", "hard link through a symlink");
    fresh();
    add("door", '2', "/etc/passwd", "");
    add("hard", '1', "door", "");
    expect_refused(-EPERM, "hard", "hard link to a symlink");
    fresh();
    add("door", '2', "/etc", "");
    add("door/sub", '5', "", "");
    expect_refused(-ELOOP, "door/sub", "a directory through a symlink");
}

static void test_types(void)
{
    static const char types[] = "346SDVM";
    for (const char *t = types; *t; t++) {
        char name[16];
        snprintf(name, sizeof(name), "type-%c", *t);
        fresh();
        add(name, *t, "", "");
        expect_refused(-EPERM, name, "an entry of another kind");
    }
    fresh();
    add("dir/file", '0', "", "x");
    add("dir", '0', "", "x");
    expect_refused(-EISDIR, "'dir'", "a file over a directory");
    fresh();
    add("file", '0', "", "x");
    add("file/below", '0', "", "x");
    expect_refused(-ENOTDIR, "file/below", "an entry below a file");
}

static void test_broken(void)
{
    char why[512];
    fresh();
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) == 0, "an empty archive");
    strbuf_puts(&archive, "this is not a tar archive at all, but text");
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) == -EINVAL && strstr(why, "ends in the middle"),
       "text: %s", why);
    for (int i = 0; i < 20; i++)
        strbuf_puts(&archive, "this is not a tar archive at all, but text");
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) == -EINVAL && strstr(why, "checksum"), "more text: %s",
       why);
    fresh();
    add("file", '0', "", "0123456789");
    archive.len -= 510;
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) == -EINVAL && strstr(why, "ends in the middle"),
       "cut in the data: %s", why);
    fresh();
    add("file", '0', "", "");
    memcpy(archive.data + 124, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12);
    checksum(archive.data);
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) < 0, "a size of exabytes: %s", why);
    static const char *const pax[] = {"99 path=x\n",   "x",         "5 a=b\n",
                                      "12 path=abcde", "0 a=b\n",   "18446744073709551615 a=b\n",
                                      "9 size=x\n",    "9 size=-\n"};
    for (size_t i = 0; i < sizeof(pax) / sizeof(pax[0]); i++) {
        fresh();
        add_full("x", 'x', "", pax[i], strlen(pax[i]), 0644);
        add("f", '0', "", "");
        expect_refused(-EINVAL, "extended header", "a malformed pax header");
    }
    fresh();
    for (int i = 0; i < 20; i++)
        add_full("x", 'x', "", "9 path=x\n", 0, 0644);
    expect_refused(-EINVAL, "too many", "extended headers without end");
}

static void make(const char *path, const char *content)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    _cleanup_made_ struct tree_made made = {0};
    tree_make_parents(full, 0755, &made);
    _cleanup_close_ int fd = open(full, O_CREAT | O_WRONLY | O_TRUNC, 0640);
    fd_write_all(fd, content, strlen(content));
}

static void test_round_trip(void)
{
    char why[512], file[128], deep[260];
    memset(deep, 'd', sizeof(deep));
    deep[240] = 0;
    deep[120] = '/';
    fresh();
    make("a", "first");
    make("sub/b", "second");
    make(deep, "deep");
    snprintf(file, sizeof(file), "%s/link", root);
    ok(!symlink("sub/b", file), "symlink");
    snprintf(file, sizeof(file), "%s/packed.tar", base);
    int fd = open(file, O_CREAT | O_RDWR | O_TRUNC, 0600);
    ok(tar_create(root, fd, why, sizeof(why)) == 0, "packed");
    close(fd);
    fresh();
    ok(fd_read_file_at(AT_FDCWD, file, &archive) == 0, "read back");
    ok(unpack_in(SIZE_MAX, why, sizeof(why)) == 0 && content_is("a", "first") &&
           content_is("link", "second") && content_is(deep, "deep") &&
           (mode_of("a") & 0777) == 0640,
       "what was packed is unpacked the same: %s", why);
}

int main(void)
{
    if (!mkdtemp(base))
        return 1;
    umask(022);
    snprintf(root, sizeof(root), "%s/root", base);
    test_good();
    test_long_names();
    test_paths();
    test_links();
    test_types();
    test_broken();
    test_round_trip();
    tree_remove(base);
    strbuf_done(&archive);
    return tap_done();
}
