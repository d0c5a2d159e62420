/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: ustar headers, with a pax header before an entry whose name or size does not fit. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/tar-extract.h"
#include "toolrunner/tar.h"
#include "toolrunner/tree.h"

#define COPY_SIZE      65536
#define USTAR_SIZE_MAX 077777777777ull
#define PAX_NAME       "././@PaxHeader"

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
        magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is a block");

struct writer {
    int fd;
    size_t skip; /* bytes of the root's path, which names do not show */
    char *why;
    size_t why_size;
};

static int write_header(struct writer *w, const char *name, char type, unsigned mode, uint64_t size,
                        int64_t mtime, const char *link)
{
    struct header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    strncpy(h.name, name, sizeof(h.name) - 1);
    strncpy(h.link, link, sizeof(h.link) - 1);
    snprintf(h.mode, sizeof(h.mode), "%07o", mode & 07777);
    snprintf(h.uid, sizeof(h.uid), "%07o", 0);
    snprintf(h.gid, sizeof(h.gid), "%07o", 0);
    snprintf(h.size, sizeof(h.size), "%011llo",
             (unsigned long long)(size > USTAR_SIZE_MAX ? USTAR_SIZE_MAX : size));
    snprintf(h.mtime, sizeof(h.mtime), "%011llo",
             (unsigned long long)(mtime < 0 ? 0 : mtime) & USTAR_SIZE_MAX);
    unsigned sum = 0;
    memset(h.checksum, ' ', sizeof(h.checksum));
    for (size_t i = 0; i < sizeof(h); i++)
        sum += ((const uint8_t *)&h)[i];
    snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
    return fd_write_all(w->fd, &h, sizeof(h));
}

static int write_padding(struct writer *w, uint64_t size)
{
    static const char zero[TAR_BLOCK];
    return fd_write_all(w->fd, zero, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

/* The length counts its own digits. */
static void pax_record(struct strbuf *b, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
    for (size_t before = 0; before != len;) {
        before = len;
        len = rest + (size_t)snprintf(NULL, 0, "%zu", len);
    }
    strbuf_printf(b, "%zu %s=%s\n", len, key, value);
}

static int write_pax(struct writer *w, const char *name, uint64_t size, const char *link)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(TAR_PAX_MAX * 4);
    if (strlen(name) >= 100)
        pax_record(&b, "path", name);
    if (strlen(link) >= 100)
        pax_record(&b, "linkpath", link);
    if (size > USTAR_SIZE_MAX) {
        char text[32];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
        pax_record(&b, "size", text);
    }
    if (!b.len)
        return 0;
    int r = write_header(w, PAX_NAME, 'x', 0644, b.len, 0, "");
    if (r < 0)
        return r;
    r = fd_write_all(w->fd, b.data, b.len);
    if (r < 0)
        return r;
    return write_padding(w, b.len);
}

static int write_entry(struct writer *w, const char *name, char type, const struct stat *st,
                       uint64_t size, const char *link)
{
    int r = write_pax(w, name, size, link);
    if (r < 0)
        return r;
    return write_header(w, name, type, st->st_mode, size, st->st_mtim.tv_sec, link);
}

/* Exactly size bytes, also when the file shrinks or grows meanwhile: the header is written. */
static int write_content(struct writer *w, int fd, uint64_t size)
{
    static char chunk[COPY_SIZE];
    for (uint64_t left = size; left;) {
        size_t want = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);
        ssize_t n = read(fd, chunk, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) {
            memset(chunk, 0, want);
            n = (ssize_t)want;
        }
        int r = fd_write_all(w->fd, chunk, (size_t)n);
        if (r < 0)
            return r;
        left -= (uint64_t)n;
    }
    return write_padding(w, size);
}

static int pack_file(struct writer *w, int dir_fd, const char *file, const char *name)
{
    struct stat st;
    _cleanup_close_ int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    int r = write_entry(w, name, '0', &st, (uint64_t)st.st_size, "");
    if (r < 0)
        return r;
    return write_content(w, fd, (uint64_t)st.st_size);
}

static int pack_symlink(struct writer *w, const struct tree_entry *e, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dirfd, e->name, target, sizeof(target) - 1);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : -errno;
    target[n] = 0;
    return write_entry(w, name, '2', &e->st, 0, target);
}

/* Sockets, fifos and devices are passed over. */
static int pack_one(const struct tree_entry *e, void *arg)
{
    struct writer *w = arg;
    const char *name = e->path + w->skip;
    int r = 0;
    if (S_ISDIR(e->st.st_mode)) {
        _cleanup_free_ char *with_slash = xasprintf("%s/", name);
        r = write_entry(w, with_slash, '5', &e->st, 0, "");
    } else if (S_ISREG(e->st.st_mode)) {
        r = pack_file(w, e->dirfd, e->name, name);
    } else if (S_ISLNK(e->st.st_mode)) {
        r = pack_symlink(w, e, name);
    }
    if (r < 0)
        snprintf(w->why, w->why_size, "%s", e->path);
    return r;
}

/* Everything must be readable before the first byte leaves: a download that has begun can only be
 * cut off, and one that leaves something out looks whole. */
static int check_one(const struct tree_entry *e, void *arg)
{
    struct writer *w = arg;
    bool dir = S_ISDIR(e->st.st_mode);
    if (!dir && !S_ISREG(e->st.st_mode))
        return 0;
    _cleanup_close_ int fd =
        openat(e->dirfd, e->name,
               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (dir ? O_DIRECTORY : 0));
    if (fd < 0 && errno != ENOENT) {
        snprintf(w->why, w->why_size, "%s", e->path);
        return -errno;
    }
    return 0;
}

static int pack_directory(struct writer *w, const char *path)
{
    int r = tree_walk(path, true, TAR_ENTRIES_MAX, check_one, w);
    if (r == 0)
        r = tree_walk(path, true, TAR_ENTRIES_MAX, pack_one, w);
    return r > 0 ? -EFBIG : r;
}

int tar_create(const char *path, int fd, char *why, size_t why_size)
{
    static const char end[2 * TAR_BLOCK];
    struct writer w = {.fd = fd, .why = why, .why_size = why_size};
    struct stat st;
    snprintf(why, why_size, "%s", path);
    if (stat(path, &st) < 0)
        return -errno;
    int r;
    if (S_ISDIR(st.st_mode)) {
        w.skip = strlen(path) + (path[strlen(path) - 1] != '/');
        r = pack_directory(&w, path);
    } else {
        const char *slash = strrchr(path, '/');
        r = S_ISREG(st.st_mode) ? pack_file(&w, AT_FDCWD, path, slash ? slash + 1 : path) : -EINVAL;
    }
    if (r < 0)
        return r;
    return fd_write_all(fd, end, sizeof(end));
}
