/* SPDX-License-Identifier: Apache-2.0 */
#include "image/spool.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "image/below.h"
#include "image/name.h"
#include "image/tar.h"
#include "image/unpack.h"

#define SPOOL_FILES_MAX 8192
#define SPOOL_LINKS_MAX 4 /* one after the other */
#define SPOOL_DIR       "spool"

/* A file has a number, which is its name on disk; a link has a target. */
struct spooled {
    char file[16];
    char *target;
    uint64_t size;
};

struct spool {
    struct meter *meter;
    int work_fd, dir;
    struct map *names;
    size_t count;
};

void spool_free(struct spool *s)
{
    if (!s)
        return;
    size_t cursor = 0;
    struct spooled *f;
    while (s->names && (f = map_next(s->names, &cursor))) {
        free(f->target);
        free(f);
    }
    map_free(s->names);
    fd_close(&s->dir);
    below_remove(s->work_fd, SPOOL_DIR);
    free(s);
}

/* "abc/layer.tar" is a link to "../def/layer.tar" where two layers are the same. */
static int read_link(struct spooled *f, const char *name, const char *target, bool relative,
                     struct error *err)
{
    char joined[NAME_PATH_MAX];
    const char *slash = relative ? strrchr(name, '/') : NULL;
    size_t len = slash ? (size_t)(slash - name) : 0;
    memcpy(joined, name, len);
    while (!strncmp(target, "../", 3) && len) {
        while (len && joined[--len] != '/')
            ;
        target += 3;
    }
    if (len + strlen(target) + 2 > sizeof(joined))
        return error_set(err, ERROR_INVALID, 0, "a link that is too long");
    if (len)
        joined[len++] = '/';
    strcpy(joined + len, target);
    f->target = xcalloc(1, NAME_PATH_MAX);
    return name_clean(joined, &IMAGE_LIMITS_DEFAULT, "link to", f->target, err);
}

static int spool_entry(struct spool *s, struct tar_source *tar, struct archive_entry *e,
                       const char *raw_name, struct error *err)
{
    char name[NAME_PATH_MAX];
    int r = name_clean(raw_name, &IMAGE_LIMITS_DEFAULT, "entry", name, err);
    if (r < 0 || (archive_entry_filetype(e) == AE_IFDIR && !archive_entry_hardlink(e)))
        return r;
    const char *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
    if (!hard && archive_entry_filetype(e) != AE_IFREG && archive_entry_filetype(e) != AE_IFLNK)
        return error_set(err, ERROR_INVALID, 0, "neither a file nor a link to one");
    if (map_find(s->names, name))
        return error_set(err, ERROR_INVALID, 0, "it is in the archive twice");
    if (s->count >= SPOOL_FILES_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "more than %d files", SPOOL_FILES_MAX);
    struct spooled *f = new0(struct spooled);
    snprintf(f->file, sizeof(f->file), "%zu", s->count++);
    map_put(s->names, name, f);
    if (hard || soft)
        return read_link(f, name, hard ? hard : soft, !hard, err);
    const void *data;
    size_t len;
    uint64_t offset;
    _cleanup_close_ int fd =
        openat(s->dir, f->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, errno, "spool");
    while ((r = tar_source_read(tar, &data, &len, &offset, err)) > 0) {
        /* No file of such an archive has a reason to be sparse, and a hole costs its writer
         * nothing. */
        if (offset != f->size)
            return error_set(err, ERROR_INVALID, 0, "a sparse file");
        if (meter_claim(s->meter, len, err) < 0)
            return -ENOSPC;
        r = fd_write_all(fd, data, len);
        if (r < 0)
            return error_set(err, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r, "spool");
        f->size += len;
    }
    return r;
}

static int read_archive(struct spool *s, struct layer_stream *in, struct error *err)
{
    _cleanup_tar_source_ struct tar_source *tar = NULL;
    struct archive_entry *e;
    const char *name;
    int r = tar_source_open(in, &tar, err);
    while (r == 0 && (r = tar_source_next(tar, &e, &name, err)) > 0) {
        _cleanup_free_ char *copy = xstrdup(name);
        r = spool_entry(s, tar, e, copy, err);
        if (r < 0)
            unpack_name_entry(copy, err);
    }
    return r;
}

int spool_open(int tar_fd, int work_fd, struct meter *m, struct spool **ret, struct error *err)
{
    const uint64_t max = unpack_largest_tar(&m->options->limits);
    _cleanup_spool_ struct spool *s = new0(struct spool);
    _cleanup_layer_stream_ struct layer_stream *in = NULL;
    s->work_fd = work_fd;
    s->meter = m;
    s->names = map_new();
    s->dir = fd_enter_dir_at(work_fd, SPOOL_DIR, 0700);
    if (s->dir < 0)
        return error_set(err, ERROR_INTERNAL, -s->dir, "make the spool");
    int r = layer_stream_open(tar_fd, max, max, m, &in, err);
    if (r == 0)
        r = read_archive(s, in, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(s);
    return 0;
}

int spool_file(struct spool *s, const char *name, uint64_t *ret_size, struct error *err)
{
    char clean[NAME_PATH_MAX], q[NAME_QUOTED_SIZE];
    int r = name_clean(name, &IMAGE_LIMITS_DEFAULT, "file", clean, err);
    if (r < 0)
        return r;
    const struct spooled *f = map_find(s->names, clean);
    for (int i = 0; f && f->target && i < SPOOL_LINKS_MAX; i++)
        f = map_find(s->names, f->target);
    if (!f || f->target)
        return error_set(err, ERROR_INVALID, ENOENT, "the archive's file '%s'",
                         name_quote(name, q));
    int fd = openat(s->dir, f->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERROR_INTERNAL, errno, "open '%s'", name_quote(name, q));
    *ret_size = f->size;
    return fd;
}

int spool_read(struct spool *s, const char *name, struct strbuf *out, struct error *err)
{
    char q[NAME_QUOTED_SIZE], chunk[16384];
    uint64_t size;
    _cleanup_close_ int fd = spool_file(s, name, &size, err);
    if (fd < 0)
        return fd;
    if (size > out->max)
        return error_set(err, ERROR_TOO_LARGE, 0, "'%s' is larger than %zu bytes",
                         name_quote(name, q), out->max);
    ssize_t n;
    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        strbuf_append(out, chunk, (size_t)n);
    return n < 0 ? error_set(err, ERROR_INTERNAL, errno, "read '%s'", name_quote(name, q)) : 0;
}
