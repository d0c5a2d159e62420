/* SPDX-License-Identifier: Apache-2.0 */
/* The packing half of tree.h. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/output.h"
#include "cli/tree.h"
#include "libsbx/sbx.h"

#define DEPTH_MAX 256

struct packer {
    struct archive *a;
    struct sbx_error *err;
    int skipped;
};

static int pack_dir(struct packer *p, int dir_fd, const char *prefix, int depth);

static int archive_failed(struct packer *p, const char *name)
{
    const char *why = archive_error_string(p->a);
    return cli_set_error(p->err, NULL, "pack '%s': %s", name, why ? why : "unknown error");
}

/* The header says st->st_size; libarchive fills up a file that shrank, and we stop at that size
 * when it grew. */
static int write_content(struct packer *p, int fd, const char *name, off_t size)
{
    char buf[64 << 10];
    while (size > 0) {
        size_t want = size < (off_t)sizeof(buf) ? (size_t)size : sizeof(buf);
        ssize_t n = read(fd, buf, want);
        if (n < 0)
            return cli_set_error(p->err, NULL, "read '%s': %s", name, strerror(errno));
        if (n == 0) {
            cli_warn("'%s' shrank while it was read", name);
            p->skipped++;
            return 0;
        }
        if (archive_write_data(p->a, buf, (size_t)n) != n)
            return archive_failed(p, name);
        size -= n;
    }
    return 0;
}

static int write_header(struct packer *p, const char *name, const struct stat *st, const char *link)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, st->st_mode & S_IFMT);
    archive_entry_set_perm(e, st->st_mode & 0777);
    archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
    if (link)
        archive_entry_set_symlink(e, link);
    int r = archive_write_header(p->a, e);
    archive_entry_free(e);
    return r < ARCHIVE_WARN ? archive_failed(p, name) : 0;
}

static int pack_link(struct packer *p, int dir_fd, const char *base, const char *name,
                     const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir_fd, base, target, sizeof(target) - 1);
    if (n < 0)
        return cli_set_error(p->err, NULL, "read link '%s': %s", name, strerror(errno));
    target[n] = 0;
    return write_header(p, name, st, target);
}

static int pack_entry(struct packer *p, int dir_fd, const char *base, const char *name, int depth)
{
    struct stat st;
    if (fstatat(dir_fd, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cli_set_error(p->err, NULL, "stat '%s': %s", name, strerror(errno));
    if (S_ISLNK(st.st_mode))
        return pack_link(p, dir_fd, base, name, &st);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        cli_warn("'%s' is neither a file, a directory nor a link: left out", name);
        p->skipped++;
        return 0;
    }
    _cleanup_close_ int fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_set_error(p->err, NULL, "open '%s': %s", name, strerror(errno));
    if (write_header(p, name, &st, NULL) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return pack_dir(p, fd, name, depth + 1);
    return S_ISREG(st.st_mode) ? write_content(p, fd, name, st.st_size) : 0;
}

static int pack_dir(struct packer *p, int dir_fd, const char *prefix, int depth)
{
    if (depth > DEPTH_MAX)
        return cli_set_error(p->err, NULL, "'%s' is over %d directories deep", prefix, DEPTH_MAX);
    DIR *d = fdopendir(fcntl(dir_fd, F_DUPFD_CLOEXEC, 3));
    if (!d)
        return cli_set_error(p->err, NULL, "read '%s': %s", prefix, strerror(errno));
    int r = 0;
    struct dirent *e;
    while (r == 0 && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        _cleanup_free_ char *name = xasprintf("%s%s%s", prefix, *prefix ? "/" : "", e->d_name);
        r = pack_entry(p, dir_fd, e->d_name, name, depth);
    }
    closedir(d);
    return r;
}

int tree_pack(const char *dir, int out_fd, int *ret_skipped, struct sbx_error *err)
{
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cli_set_error(err, NULL, "open '%s': %s", dir, strerror(errno));
    struct packer p = {.a = archive_write_new(), .err = err};
    archive_write_set_format_pax_restricted(p.a);
    int r = archive_write_open_fd(p.a, out_fd) == ARCHIVE_OK ? pack_dir(&p, fd, "", 0)
                                                             : archive_failed(&p, dir);
    if (r == 0 && archive_write_close(p.a) != ARCHIVE_OK)
        r = archive_failed(&p, dir);
    archive_write_free(p.a);
    if (r == 0)
        *ret_skipped = p.skipped;
    return r;
}
