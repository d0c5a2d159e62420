/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate authorities that go above an image: which of its files are hidden, and by what.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "builder/image.h"
#include "proto/plan.h"
#include "tests/unit/tap.h"

#define DEBIAN "/etc/ssl/certs/ca-certificates.crt"
#define SUSE   "/etc/ssl/ca-bundle.pem"
#define ALPINE "/etc/ssl/cert.pem"
#define OURS   "ours\n"

static char base[] = "/tmp/test-image-upper-XXXXXX";

struct image {
    struct image_upper u;
    int lower, upper;
};

static void make_parents(int at, const char *path)
{
    char part[PLAN_PATH_SIZE];
    for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(p - path) - 1, path + 1);
        mkdirat(at, part, 0755);
    }
}

static void put_file(int at, const char *path, const char *text, size_t len)
{
    make_parents(at, path);
    _cleanup_close_ int fd = openat(at, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || fd_write_all(fd, text, len) < 0)
        exit(1);
}

static void put_link(int at, const char *path, const char *target)
{
    make_parents(at, path);
    if (symlinkat(target, at, path + 1) < 0)
        exit(1);
}

static struct image begin(const char *name)
{
    char path[128];
    struct image i = {.u = {.root_id = getuid(), .tool_id = getuid()}};
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof(path), "%s/%s-%s", base, name, k ? "upper" : "lower");
        int fd = mkdir(path, 0755) < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            exit(1);
        *(k ? &i.upper : &i.lower) = fd;
    }
    i.u.authority_fd = fd_sealed_memory("authority", OURS, strlen(OURS));
    return i;
}

static void end(struct image *i)
{
    fd_close(&i->lower);
    fd_close(&i->upper);
    fd_close(&i->u.authority_fd);
}

/* Whether a regular file above has that text; NULL: there is none. */
static bool has(const struct image *i, const char *path, const char *text)
{
    char got[64] = "";
    _cleanup_close_ int fd = openat(i->upper, path + 1, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return !text;
    ssize_t n = read(fd, got, sizeof(got) - 1);
    return text && n >= 0 && strcmp(got, text) == 0;
}

static void test_own_texts(void)
{
    struct image i = begin("own");
    put_file(i.lower, DEBIAN, "debian", 6);
    put_file(i.lower, SUSE, "suse", 4);
    ok(image_upper_fill(&i.u, i.lower, i.upper) == 0, "two stores: %s", i.u.step);
    ok(has(&i, DEBIAN, "debian\n" OURS) && has(&i, SUSE, "suse\n" OURS), "each keeps its own text");
    ok(has(&i, PLAN_IMAGE_AUTHORITIES, "debian\n" OURS), "variables name the first");
    end(&i);
}

static void test_links(void)
{
    struct image i = begin("link");
    put_file(i.lower, "/etc/ca-certificates/extracted/bundle.pem", "arch", 4);
    put_link(i.lower, DEBIAN, "../../ca-certificates/extracted/bundle.pem");
    ok(image_upper_fill(&i.u, i.lower, i.upper) == 0, "a store that is a link: %s", i.u.step);
    ok(has(&i, DEBIAN, "arch\n" OURS), "is hidden by a file");
    end(&i);

    i = begin("directory");
    put_file(i.lower, "/opt/certs/ca-certificates.crt", "other", 5);
    put_link(i.lower, "/etc/ssl/certs", "/opt/certs");
    ok(image_upper_fill(&i.u, i.lower, i.upper) < 0 && strstr(i.u.step, DEBIAN),
       "one behind a link to a directory is refused by name: %s", i.u.step);
    end(&i);

    i = begin("both");
    put_file(i.lower, "/opt/certs/ca-certificates.crt", "other", 5);
    put_link(i.lower, "/etc/ssl/certs", "/opt/certs");
    put_link(i.lower, ALPINE, "certs/ca-certificates.crt");
    ok(image_upper_fill(&i.u, i.lower, i.upper) == 0 && has(&i, ALPINE, "other\n" OURS) &&
           has(&i, DEBIAN, NULL),
       "unless there is another: %s", i.u.step);
    end(&i);

    i = begin("nowhere");
    put_link(i.lower, DEBIAN, "/nowhere");
    ok(image_upper_fill(&i.u, i.lower, i.upper) < 0 && strstr(i.u.step, "find the image's"),
       "a link to nothing is no store: %s", i.u.step);
    end(&i);
}

static void test_size(void)
{
    enum { MAX = 1024 * 1024 };
    _cleanup_free_ char *text = xcalloc(1, MAX + 1);
    struct stat st = {0};
    memset(text, 'x', MAX + 1);
    struct image i = begin("most");
    put_file(i.lower, SUSE, text, MAX);
    ok(image_upper_fill(&i.u, i.lower, i.upper) == 0 &&
           fstatat(i.upper, SUSE + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_size == MAX + 1 + (off_t)strlen(OURS),
       "a store of 1 MiB: %s", i.u.step);
    end(&i);
    i = begin("more");
    put_file(i.lower, DEBIAN, "debian", 6);
    put_file(i.lower, SUSE, text, MAX + 1);
    ok(image_upper_fill(&i.u, i.lower, i.upper) < 0 && strstr(i.u.step, SUSE ", which may have"),
       "a larger one is refused by name: %s", i.u.step);
    end(&i);
}

int main(void)
{
    char command[64];
    if (!mkdtemp(base))
        return 1;
    test_own_texts();
    test_links();
    test_size();
    snprintf(command, sizeof(command), "rm -rf %s", base);
    ok(system(command) == 0, "no files are left");
    return tap_done();
}
