/* SPDX-License-Identifier: Apache-2.0 */
/* The unpacking half of tree.h; its head says what must hold here. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/output.h"
#include "cli/temp-file.h"
#include "cli/tree.h"
#include "libsbx/sbx.h"

#define BLOCK_SIZE (64u << 10)

struct unpacker {
    struct archive *a;
    int root;
    struct sbx_error *err;
    int skipped;
};

static int skip_entry(struct unpacker *u, const char *name, const char *why)
{
    cli_warn("'%s' %s: left out", name, why);
    u->skipped++;
    return 0;
}

/* Relative, with no empty, "." or ".." component; NULL when the name cannot be made so. "" is the
 * root itself. */
static char *clean_name(const char *name)
{
    if (name[0] == '/')
        return NULL;
    char *out = xcalloc(strlen(name) + 2, 1);
    size_t len = 0;
    while (*name) {
        size_t n = strcspn(name, "/");
        if (n == 2 && strncmp(name, "..", 2) == 0) {
            free(out);
            return NULL;
        }
        if (n && !(n == 1 && name[0] == '.')) {
            if (len)
                out[len++] = '/';
            memcpy(out + len, name, n);
            len += n;
        }
        name += n + (name[n] == '/');
    }
    out[len] = 0;
    return out;
}

/* The directory that a clean name's last component is in. *ret_base points into name. */
static int open_parent(struct unpacker *u, char *name, char **ret_base)
{
    int at = fcntl(u->root, F_DUPFD_CLOEXEC, 3);
    char *slash;
    while (at >= 0 && (slash = strchr(name, '/'))) {
        *slash = 0;
        int next = fd_enter_dir_at(at, name, 0755);
        *slash = '/';
        close(at);
        at = next;
        name = slash + 1;
    }
    *ret_base = name;
    return at;
}

static int copy_content(struct unpacker *u, int fd, const char *name)
{
    const void *data;
    size_t len;
    la_int64_t offset;
    int r;
    while ((r = archive_read_data_block(u->a, &data, &len, &offset)) == ARCHIVE_OK)
        if (len && pwrite(fd, data, len, offset) != (ssize_t)len)
            return cli_set_error(u->err, NULL, "write '%s': %s", name, strerror(errno));
    if (r == ARCHIVE_EOF)
        return 0;
    const char *why = archive_error_string(u->a);
    return cli_set_error(u->err, NULL, "unpack '%s': %s", name, why ? why : "broken archive");
}

static int fill_file(struct unpacker *u, struct archive_entry *e, int fd, const char *name)
{
    if (copy_content(u, fd, name) < 0)
        return -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {archive_entry_mtime(e), archive_entry_mtime_nsec(e)}};
    if (ftruncate(fd, archive_entry_size(e)) < 0 || fchmod(fd, archive_entry_perm(e) & 0777) < 0)
        return cli_set_error(u->err, NULL, "finish '%s': %s", name, strerror(errno));
    futimens(fd, times); /* a time the file system cannot hold is no reason to fail */
    return 0;
}

static int make_file(struct unpacker *u, struct archive_entry *e, int at, const char *base,
                     const char *name)
{
    char temp[TEMP_NAME_SIZE];
    _cleanup_close_ int fd = temp_create(at, temp);
    if (fd < 0)
        return cli_set_error(u->err, NULL, "make '%s': %s", name, strerror(-fd));
    int r = fill_file(u, e, fd, name);
    if (r == 0 && renameat(at, temp, at, base) < 0)
        r = cli_set_error(u->err, NULL, "replace '%s': %s", name, strerror(errno));
    if (r < 0)
        unlinkat(at, temp, 0);
    return r;
}

static int unpack_dir(struct unpacker *u, struct archive_entry *e, int at, const char *base,
                      const char *name)
{
    int fd = fd_enter_dir_at(at, base, 0755);
    if (fd < 0)
        return cli_set_error(u->err, NULL, "make directory '%s': %s", name, strerror(-fd));
    /* We still have to get in, to put what follows. */
    fchmod(fd, (archive_entry_perm(e) & 0777) | 0700);
    close(fd);
    return 0;
}

/* Whether a link in `name`'s directory stays below the root: relative, ".." only in front and no
 * more of them than the (real) directories above it. A ".." behind another component could go up
 * from wherever a second link leads. */
static bool link_stays_inside(const char *name, const char *target)
{
    size_t depth = 0;
    for (const char *p = name; *p; p++)
        depth += *p == '/';
    if (target[0] == '/' || !*target)
        return false;
    bool in_front = true;
    while (*target) {
        size_t n = strcspn(target, "/");
        if (n == 2 && strncmp(target, "..", 2) == 0) {
            if (!in_front || depth == 0)
                return false;
            depth--;
        } else if (n && !(n == 1 && target[0] == '.')) {
            in_front = false;
        }
        target += n + (target[n] == '/');
    }
    return true;
}

static int make_symlink(struct unpacker *u, struct archive_entry *e, int at, const char *base,
                        const char *name)
{
    const char *target = archive_entry_symlink(e);
    if (!target || !link_stays_inside(name, target))
        return skip_entry(u, name, "is a link that leads out");
    if ((unlinkat(at, base, 0) < 0 && errno != ENOENT) || symlinkat(target, at, base) < 0)
        return cli_set_error(u->err, NULL, "make link '%s': %s", name, strerror(errno));
    return 0;
}

static int make_hardlink(struct unpacker *u, const char *target, int at, const char *base,
                         const char *name)
{
    _cleanup_free_ char *clean = clean_name(target);
    if (!clean || !*clean)
        return skip_entry(u, name, "is a link that leads out");
    char *target_base;
    struct stat st;
    _cleanup_close_ int from = open_parent(u, clean, &target_base);
    if (from < 0 || fstatat(from, target_base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return skip_entry(u, name, "is a link to nothing");
    /* A second name of a symbolic link is that link in another directory, from where it may lead
     * out. */
    if (!S_ISREG(st.st_mode))
        return skip_entry(u, name, "is a second name of something that is not a file");
    unlinkat(at, base, 0);
    if (linkat(from, target_base, at, base, 0) < 0)
        return cli_set_error(u->err, NULL, "make link '%s': %s", name, strerror(errno));
    return 0;
}

static int unpack_entry(struct unpacker *u, struct archive_entry *e)
{
    const char *raw = archive_entry_pathname(e);
    _cleanup_free_ char *name = raw ? clean_name(raw) : NULL;
    if (!name)
        return skip_entry(u, raw ? raw : "?", "is a name outside of the directory");
    if (!*name)
        return 0;
    char *base;
    _cleanup_close_ int at = open_parent(u, name, &base);
    if (at < 0)
        return cli_set_error(u->err, NULL, "make '%s': %s", name, strerror(-at));
    if (archive_entry_hardlink(e))
        return make_hardlink(u, archive_entry_hardlink(e), at, base, name);
    switch (archive_entry_filetype(e)) {
    case AE_IFREG:
        return make_file(u, e, at, base, name);
    case AE_IFDIR:
        return unpack_dir(u, e, at, base, name);
    case AE_IFLNK:
        return make_symlink(u, e, at, base, name);
    default:
        return skip_entry(u, name, "is neither a file, a directory nor a link");
    }
}

static int unpack_all(struct unpacker *u)
{
    for (;;) {
        struct archive_entry *e;
        int r = archive_read_next_header(u->a, &e);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r < ARCHIVE_WARN) {
            const char *why = archive_error_string(u->a);
            return cli_set_error(u->err, NULL, "the archive is broken: %s", why ? why : "unknown");
        }
        if (unpack_entry(u, e) < 0)
            return -1;
    }
}

int tree_unpack(int in_fd, const char *dir, int *ret_skipped, struct sbx_error *err)
{
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return cli_set_error(err, NULL, "make '%s': %s", dir, strerror(errno));
    _cleanup_close_ int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return cli_set_error(err, NULL, "open '%s': %s", dir, strerror(errno));
    struct unpacker u = {.a = archive_read_new(), .root = root, .err = err};
    archive_read_support_format_tar(u.a);
    int r = archive_read_open_fd(u.a, in_fd, BLOCK_SIZE) == ARCHIVE_OK
                ? unpack_all(&u)
                : cli_set_error(err, NULL, "the archive is broken: %s", archive_error_string(u.a));
    archive_read_free(u.a);
    if (r == 0)
        *ret_skipped = u.skipped;
    return r;
}
