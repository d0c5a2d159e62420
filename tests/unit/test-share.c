/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of the host that a hostile guest is served: the messages of a whole life with files,
 * and what must never work, said by a guest that keeps to no rule of its kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"
#include "vmm/share.h"

#define ROOT 1

static int port_fd, dir_fd, outside_fd;
static char message[SHARE_MESSAGE_MAX + 64], answer[SHARE_MESSAGE_MAX];
static size_t message_len, answer_len;

static void begin(uint32_t opcode, uint64_t node)
{
    struct fuse_in_header h = {.opcode = opcode, .unique = 7, .nodeid = node};
    memcpy(message, &h, sizeof(h));
    message_len = sizeof(h);
}

static void put(const void *data, size_t size)
{
    memcpy(message + message_len, data, size);
    message_len += size;
}

static void put_name(const char *name)
{
    put(name, strlen(name) + 1);
}

/* The error of the answer, or 0; what it says is in answer. */
static int call(void)
{
    struct fuse_out_header o = {0};
    uint32_t len = (uint32_t)message_len;
    memcpy(message, &len, sizeof(len));
    if (fd_write_all(port_fd, message, message_len) < 0 ||
        recv(port_fd, &o, sizeof(o), MSG_WAITALL) != sizeof(o) || o.unique != 7)
        return -EPIPE;
    answer_len = o.len - sizeof(o);
    if (answer_len && recv(port_fd, answer, answer_len, MSG_WAITALL) != (ssize_t)answer_len)
        return -EPIPE;
    return o.error;
}

static int call_name(uint32_t opcode, uint64_t node, const char *name)
{
    begin(opcode, node);
    put_name(name);
    return call();
}

/* Its number, or 0. */
static uint64_t lookup(uint64_t dir, const char *name)
{
    struct fuse_entry_out o;
    if (call_name(FUSE_LOOKUP, dir, name) != 0)
        return 0;
    memcpy(&o, answer, sizeof(o));
    return o.nodeid;
}

static int open_node(uint32_t opcode, uint64_t node, int flags, uint64_t *ret_fh)
{
    struct fuse_open_in i = {.flags = (uint32_t)flags};
    struct fuse_open_out o = {0};
    begin(opcode, node);
    put(&i, sizeof(i));
    int r = call();
    if (r == 0)
        memcpy(&o, answer, sizeof(o));
    *ret_fh = o.fh;
    return r;
}

static int read_handle(uint32_t opcode, uint64_t fh, uint64_t offset)
{
    struct fuse_read_in i = {.fh = fh, .offset = offset, .size = 65536};
    begin(opcode, ROOT);
    put(&i, sizeof(i));
    return call();
}

static int write_handle(uint64_t fh, const char *text)
{
    struct fuse_write_in i = {.fh = fh, .size = (uint32_t)strlen(text)};
    begin(FUSE_WRITE, ROOT);
    put(&i, sizeof(i));
    put(text, strlen(text));
    return call();
}

static int write_at(uint64_t fh, uint64_t offset, const char *text, uint32_t write_flags)
{
    struct fuse_write_in i = {.fh = fh,
                              .offset = offset,
                              .size = (uint32_t)strlen(text),
                              .write_flags = write_flags,
                              .flags = write_flags & FUSE_WRITE_CACHE ? 0 : O_WRONLY | O_APPEND};
    begin(FUSE_WRITE, ROOT);
    put(&i, sizeof(i));
    put(text, strlen(text));
    return call();
}

static int make(uint32_t opcode, uint64_t dir, mode_t mode, const char *name)
{
    struct fuse_mknod_in node = {.mode = mode, .rdev = 0x103};
    struct fuse_mkdir_in d = {.mode = mode};
    struct fuse_create_in c = {.mode = mode, .flags = O_RDWR};
    begin(opcode, dir);
    if (opcode == FUSE_MKNOD)
        put(&node, sizeof(node));
    else if (opcode == FUSE_MKDIR)
        put(&d, sizeof(d));
    else
        put(&c, sizeof(c));
    put_name(name);
    return call();
}

static int make_link(uint64_t old, uint64_t dir, const char *name)
{
    struct fuse_link_in i = {.oldnodeid = old};
    begin(FUSE_LINK, dir);
    put(&i, sizeof(i));
    put_name(name);
    return call();
}

static int rename_to(uint64_t dir, const char *name, uint64_t to, const char *to_name,
                     uint32_t flags)
{
    struct fuse_rename2_in i = {.newdir = to, .flags = flags};
    begin(FUSE_RENAME2, dir);
    put(&i, sizeof(i));
    put_name(name);
    put_name(to_name);
    return call();
}

static int make_symlink(uint64_t dir, const char *name, const char *target)
{
    begin(FUSE_SYMLINK, dir);
    put_name(name);
    put_name(target);
    return call();
}

static int set_attributes(uint64_t node, uint32_t valid, uint32_t mode, uint64_t size)
{
    struct fuse_setattr_in i = {.valid = valid, .mode = mode, .size = size};
    begin(FUSE_SETATTR, node);
    put(&i, sizeof(i));
    return call();
}

static bool file_has(int dir, const char *name, const char *text)
{
    char have[256] = "";
    _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, have, sizeof(have) - 1) >= 0 && strcmp(have, text) == 0;
}

static void make_file(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ok(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0, "%s is there", name);
    close(fd);
}

static void test_files(void)
{
    struct stat st;
    uint64_t fh, node = lookup(ROOT, "hello"), sub = 0;
    ok(node > ROOT && lookup(ROOT, "hello") == node, "a file has one number");
    ok(open_node(FUSE_OPEN, node, O_RDONLY, &fh) == 0 && read_handle(FUSE_READ, fh, 0) == 0 &&
           answer_len == 5 && memcmp(answer, "hello", 5) == 0,
       "and is read");
    ok(make(FUSE_MKDIR, ROOT, 0750, "sub") == 0 && (sub = lookup(ROOT, "sub")), "a directory");
    ok(make(FUSE_CREATE, sub, 06755, "new") == 0, "a file in it");
    ok(fstatat(dir_fd, "sub/new", &st, 0) == 0 && (st.st_mode & 07777) == 0755,
       "which changes no user of the host's");
    struct fuse_open_out o;
    memcpy(&o, answer + sizeof(struct fuse_entry_out), sizeof(o));
    ok(write_handle(o.fh, "some text") == 0 && file_has(dir_fd, "sub/new", "some text"), "written");
    node = lookup(sub, "new");
    ok(set_attributes(node, FATTR_SIZE, 0, 4) == 0 && file_has(dir_fd, "sub/new", "some"), "cut");
    ok(set_attributes(node, FATTR_MODE, 06700, 0) == 0 && fstatat(dir_fd, "sub/new", &st, 0) == 0 &&
           (st.st_mode & 07777) == 0700,
       "a mode, and no more than that");
    ok(rename_to(sub, "new", ROOT, "moved", 0) == 0 && file_has(dir_fd, "moved", "some"), "moved");
    ok(open_node(FUSE_OPEN, node, O_RDONLY, &fh) == 0 && read_handle(FUSE_READ, fh, 2) == 0 &&
           answer_len == 2,
       "its number leads to its new place");
    ok(make_link(node, sub, "linked") == 0 && file_has(dir_fd, "sub/linked", "some"), "linked");
    ok(call_name(FUSE_UNLINK, ROOT, "moved") == 0 && faccessat(dir_fd, "moved", F_OK, 0) < 0,
       "removed");
    ok(open_node(FUSE_OPEN, node, O_RDONLY, &fh) == -ESTALE, "nothing is at its number any more");
    ok(open_node(FUSE_OPENDIR, ROOT, O_RDONLY, &fh) == 0 && read_handle(FUSE_READDIR, fh, 0) == 0 &&
           memmem(answer, answer_len, "hello", 5) && memmem(answer, answer_len, "sub", 3),
       "what is in a directory");
    ok(call_name(FUSE_RMDIR, ROOT, "sub") == -ENOTEMPTY &&
           call_name(FUSE_UNLINK, sub, "linked") == 0 && call_name(FUSE_RMDIR, ROOT, "sub") == 0,
       "a directory is removed when it is empty");
    ok(make(FUSE_MKDIR, sub, 0755, "x") == -ESTALE, "and nothing is made in it then");
}

/* What a program does with a file that it has removed and still has open. */
static void test_removed(void)
{
    struct fuse_open_out o = {0};
    struct fuse_attr_out attributes;
    make(FUSE_CREATE, ROOT, 0644, "removed");
    memcpy(&o, answer + sizeof(struct fuse_entry_out), sizeof(o));
    uint64_t node = lookup(ROOT, "removed");
    write_handle(o.fh, "some text");
    ok(call_name(FUSE_UNLINK, ROOT, "removed") == 0, "a file is removed that is open");
    struct fuse_setattr_in cut = {.valid = FATTR_SIZE | FATTR_FH, .fh = o.fh, .size = 4};
    begin(FUSE_SETATTR, node);
    put(&cut, sizeof(cut));
    int r = call();
    memcpy(&attributes, answer, sizeof(attributes));
    ok(r == 0 && attributes.attr.size == 4 && attributes.attr.nlink == 0, "cut (%d)", r);
    r = set_attributes(node, FATTR_MODE, 0600, 0);
    memcpy(&attributes, answer, sizeof(attributes));
    ok(r == 0 && (attributes.attr.mode & 0777) == 0600, "its mode changed by its number (%d)", r);
    ok(set_attributes(node, FATTR_MTIME_NOW | FATTR_MTIME, 0, 0) == 0, "its times");
    struct fuse_release_in release = {.fh = o.fh};
    begin(FUSE_RELEASE, node);
    put(&release, sizeof(release));
    ok(call() == 0 && set_attributes(node, FATTR_MODE, 0600, 0) == -ESTALE,
       "nothing is there once it is closed");
}

static void test_names(void)
{
    static const char *const bad[] = {"..",         ".",           "",    "/", "a/b",
                                      "../outside", "/etc/passwd", "x/.."};
    static const uint32_t by_name[] = {FUSE_LOOKUP, FUSE_UNLINK, FUSE_RMDIR};
    static const uint32_t making[] = {FUSE_MKDIR, FUSE_CREATE, FUSE_MKNOD};
    bool refused = true;
    uint64_t node = lookup(ROOT, "hello");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        for (size_t k = 0; k < 3; k++)
            refused = refused && call_name(by_name[k], ROOT, bad[i]) == -EINVAL &&
                      make(making[k], ROOT, S_IFREG | 0644, bad[i]) == -EINVAL;
        refused = refused && rename_to(ROOT, "hello", ROOT, bad[i], 0) == -EINVAL &&
                  rename_to(ROOT, bad[i], ROOT, "x", 0) == -EINVAL &&
                  make_symlink(ROOT, bad[i], "x") == -EINVAL &&
                  make_link(node, ROOT, bad[i]) == -EINVAL;
    }
    ok(refused, "no operation takes a name that is a path");
    begin(FUSE_LOOKUP, ROOT);
    put("hello", 5);
    ok(call() == -EINVAL, "nor one without an end");
    ok(make(FUSE_MKNOD, ROOT, S_IFCHR | 0666, "null") == -EPERM &&
           make(FUSE_MKNOD, ROOT, S_IFBLK | 0666, "disk") == -EPERM,
       "no devices are made");
}

static void test_links(void)
{
    uint64_t fh, link = 0;
    ok(make_symlink(ROOT, "out", "../outside") == 0 && (link = lookup(ROOT, "out")),
       "a link may lead anywhere");
    begin(FUSE_READLINK, link);
    ok(call() == 0 && answer_len == 10 && memcmp(answer, "../outside", 10) == 0, "is read,");
    ok(lookup(link, "secret") == 0 && open_node(FUSE_OPENDIR, link, O_RDONLY, &fh) < 0 &&
           make(FUSE_CREATE, link, 0644, "x") < 0 && make(FUSE_MKDIR, link, 0755, "x") < 0 &&
           call_name(FUSE_UNLINK, link, "secret") < 0 &&
           rename_to(ROOT, "hello", link, "hello", 0) < 0,
       "and followed by nothing");
    ok(make_symlink(ROOT, "secret", "../outside/secret") == 0 && (link = lookup(ROOT, "secret")),
       "one to a file");
    ok(open_node(FUSE_OPEN, link, O_RDONLY, &fh) < 0 &&
           open_node(FUSE_OPEN, link, O_RDWR, &fh) < 0 &&
           make(FUSE_CREATE, ROOT, 0644, "secret") < 0 &&
           set_attributes(link, FATTR_SIZE, 0, 0) < 0 && set_attributes(link, FATTR_MODE, 0, 0) < 0,
       "opens nothing and changes nothing");
    /* The host puts a link where a directory was whose number the guest has. */
    uint64_t sub = make(FUSE_MKDIR, ROOT, 0755, "dir") == 0 ? lookup(ROOT, "dir") : 0;
    ok(sub && unlinkat(dir_fd, "dir", AT_REMOVEDIR) == 0 &&
           symlinkat("../outside", dir_fd, "dir") == 0 && lookup(sub, "secret") == 0 &&
           make(FUSE_CREATE, sub, 0644, "x") < 0,
       "nor does a number lead through one that came later");
    ok(file_has(outside_fd, "secret", "secret") && faccessat(outside_fd, "x", F_OK, 0) < 0,
       "what is outside is as it was");
    struct stat st;
    ok(fstatat(outside_fd, "secret", &st, 0) == 0 && (st.st_mode & 0777) == 0644, "its mode, too");
}

/* A file that was opened to be appended to can be mapped as well. */
static void test_appending(void)
{
    uint64_t fh = 0;
    make_file(dir_fd, "log", "one two\n");
    ok(open_node(FUSE_OPEN, lookup(ROOT, "log"), O_RDWR | O_APPEND, &fh) == 0, "to be appended to");
    ok(write_at(fh, 4, "TWO", FUSE_WRITE_CACHE) == 0 && file_has(dir_fd, "log", "one TWO\n"),
       "a page of a mapping goes to its place");
    ok(write_at(fh, 0, "three\n", 0) == 0 && file_has(dir_fd, "log", "one TWO\nthree\n"),
       "and what is appended to the end that the host knows");
    struct fuse_create_in c = {.mode = 0644, .flags = O_WRONLY | O_APPEND};
    struct fuse_open_out o = {0};
    begin(FUSE_CREATE, ROOT);
    put(&c, sizeof(c));
    put_name("log");
    ok(call() == 0, "a file that is there already can be one to make");
    memcpy(&o, answer + sizeof(struct fuse_entry_out), sizeof(o));
    ok(write_at(o.fh, 0, "ONE", FUSE_WRITE_CACHE) == 0 &&
           file_has(dir_fd, "log", "ONE TWO\nthree\n"),
       "with the same places");
    c.flags |= O_EXCL;
    begin(FUSE_CREATE, ROOT);
    put(&c, sizeof(c));
    put_name("log");
    ok(call() == -EEXIST, "unless there may be none");
}

/* Who waits at a fifo sees it opened from the other side, even for a moment. */
static void test_fifo(void)
{
    uint64_t fh;
    ok(mkfifoat(dir_fd, "fifo", 0666) == 0, "a fifo of the host's");
    _cleanup_close_ int end = openat(dir_fd, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct pollfd p = {.fd = end, .events = POLLIN};
    ok(open_node(FUSE_OPEN, lookup(ROOT, "fifo"), O_RDONLY, &fh) == -EACCES &&
           open_node(FUSE_OPEN, lookup(ROOT, "fifo"), O_WRONLY, &fh) == -EACCES &&
           make(FUSE_CREATE, ROOT, 0644, "fifo") == -EACCES &&
           set_attributes(lookup(ROOT, "fifo"), FATTR_SIZE, 0, 0) == -EACCES,
       "is refused, and nothing waits for it");
    ok(end >= 0 && poll(&p, 1, 0) == 0, "what reads from it has not seen it opened");
}

static void test_others(void)
{
    uint64_t fh;
    ok(open_node(FUSE_OPEN, 0, O_RDONLY, &fh) == -ESTALE &&
           open_node(FUSE_OPEN, 99999, O_RDONLY, &fh) == -ESTALE &&
           open_node(FUSE_OPEN, UINT64_MAX, O_RDONLY, &fh) == -ESTALE,
       "numbers that were never given");
    ok(read_handle(FUSE_READ, 12345, 0) == -EBADF && read_handle(FUSE_READDIR, 0, 0) == -EBADF &&
           write_handle(UINT64_MAX, "x") == -EBADF,
       "files that were never opened");
    uint64_t file = lookup(ROOT, "hello");
    ok(open_node(FUSE_OPEN, file, O_RDONLY, &fh) == 0 &&
           read_handle(FUSE_READ, fh, UINT64_MAX) == -EINVAL && write_handle(fh, "x") == -EBADF,
       "offsets that are none, and writing to what was opened to be read");
    struct fuse_write_in w = {.fh = fh, .size = 1u << 31};
    begin(FUSE_WRITE, ROOT);
    put(&w, sizeof(w));
    ok(call() == -EINVAL, "a write with less data than it says");
    begin(FUSE_GETATTR, ROOT);
    ok(call() == -EINVAL, "half a request");
    begin(4711, ROOT);
    ok(call() == -ENOSYS, "an operation that there is not");
    ok(rename_to(ROOT, "hello", ROOT, "fifo", 2) == -EINVAL, "an exchange");
}

static void test_limits(void)
{
    char name[32];
    uint64_t fh, file = lookup(ROOT, "hello");
    int r = 0, n = 0;
    while (r == 0 && n <= SHARE_HANDLES_MAX) {
        r = open_node(FUSE_OPEN, file, O_RDONLY, &fh);
        n += r == 0;
    }
    ok(r == -ENFILE, "not more than so many open files: %d", n);
    struct fuse_forget_in forget = {.nlookup = UINT64_MAX};
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "hello");
        begin(FUSE_FORGET, file);
        put(&forget, sizeof(forget));
        uint32_t len = (uint32_t)message_len;
        memcpy(message, &len, sizeof(len));
        fd_write_all(port_fd, message, message_len);
        file = lookup(ROOT, name);
    }
    ok(file > ROOT && file < 100, "numbers that are given back are given again");
}

static void test_too_long(void)
{
    begin(FUSE_LOOKUP, ROOT);
    uint32_t len = SHARE_MESSAGE_MAX + 1;
    memcpy(message, &len, sizeof(len));
    char byte;
    ok(fd_write_all(port_fd, message, sizeof(struct fuse_in_header)) == 0 &&
           recv(port_fd, &byte, 1, 0) == 0,
       "a message that is too long is the end");
}

int main(void)
{
    char place[] = "/tmp/test-share.XXXXXX";
    int pair[2], status;
    ok(mkdtemp(place) && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "ready");
    int at = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    mkdirat(at, "shared", 0755);
    mkdirat(at, "outside", 0755);
    dir_fd = openat(at, "shared", O_PATH | O_DIRECTORY | O_CLOEXEC);
    outside_fd = openat(at, "outside", O_PATH | O_DIRECTORY | O_CLOEXEC);
    make_file(dir_fd, "hello", "hello");
    make_file(outside_fd, "secret", "secret");
    port_fd = pair[0];
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        umask(0);
        share_serve(dir_fd, pair[1]);
        _exit(0);
    }
    close(pair[1]);
    test_files();
    test_removed();
    test_names();
    test_links();
    test_appending();
    test_fifo();
    test_others();
    test_limits();
    test_too_long();
    ok(waitpid(pid, &status, 0) == pid && status == 0, "it ends by itself");
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", place);
    ok(system(command) == 0, "nothing is left");
    return tap_done();
}
