/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "audit/record.h"

static const char *const part_names[] = {"audit-0.log", "audit-1.log"};

static int write_error(struct error *err, int errnum)
{
    bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
    return error_set(err, full ? ERROR_NO_SPACE : ERROR_UNAVAILABLE, errnum,
                     "the audit cannot be written, so nothing may run");
}

/* --- opening */

static int open_part(struct audit_file *f, unsigned i, struct error *err)
{
    struct stat st;
    int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    f->parts[i].fd = openat(f->dir_fd, part_names[i], flags, 0600);
    if (f->parts[i].fd < 0 || fstat(f->parts[i].fd, &st) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "audit: open '%s'", part_names[i]);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_UNAVAILABLE, 0, "audit: '%s' is not a file", part_names[i]);
    f->parts[i].size = (uint64_t)st.st_size;
    return 0;
}

int audit_file_open(struct audit_file *f, const char *dir, struct error *err)
{
    *f = (struct audit_file){.parts = {{.fd = -1}, {.fd = -1}}};
    f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "audit: open '%s'", dir);
    int r = open_part(f, 0, err);
    if (r < 0)
        return r;
    return open_part(f, 1, err);
}

void audit_file_close(struct audit_file *f)
{
    fd_close(&f->parts[0].fd);
    fd_close(&f->parts[1].fd);
    fd_close(&f->dir_fd);
}

/* --- reading what was left */

struct mapped {
    char *data;
    size_t len;
};

static void unmap_part(struct mapped *m)
{
    if (m->data)
        munmap(m->data, m->len);
}

static int map_part(const struct audit_part *p, struct mapped *ret, struct error *err)
{
    if (!p->size)
        return 0;
    void *data = mmap(NULL, p->size, PROT_READ, MAP_PRIVATE, p->fd, 0);
    if (data == MAP_FAILED)
        return error_set(err, ERROR_UNAVAILABLE, errno, "audit: read what was left");
    *ret = (struct mapped){data, p->size};
    return 0;
}

/* Where the whole lines end, or negative. */
static int64_t each_line(struct audit_part *p, const struct mapped *m, audit_line_fn fn, void *data,
                         struct error *err)
{
    size_t at = 0;
    int r = 0;
    while (at < m->len && r >= 0) {
        const char *line = m->data + at, *end = memchr(line, '\n', m->len - at);
        size_t len = end ? (size_t)(end - line) : m->len - at;
        uint64_t seq = audit_record_seq(line, len);
        r = fn(data, line, len, end != NULL, err);
        if (!end)
            break;
        if (seq > p->last_seq)
            p->last_seq = seq;
        at += len + 1;
    }
    if (r < 0)
        return r;
    return (int64_t)at;
}

static int load_part(struct audit_part *p, const struct mapped *m, audit_line_fn fn, void *data,
                     struct error *err)
{
    int64_t end = each_line(p, m, fn, data, err);
    if (end < 0)
        return (int)end;
    if ((size_t)end < m->len) {
        if (ftruncate(p->fd, (off_t)end) < 0)
            return write_error(err, errno);
        p->size = (uint64_t)end;
    }
    return 0;
}

/* The part with the lower first number is the older one, and is read first. A last line without its
 * newline was being written when the process was killed: its call never began, and it is cut off.
 */
int audit_file_load(struct audit_file *f, audit_line_fn fn, void *data, struct error *err)
{
    __attribute__((cleanup(unmap_part))) struct mapped zero = {0}, one = {0};
    int r = map_part(&f->parts[0], &zero, err);
    if (r < 0)
        return r;
    r = map_part(&f->parts[1], &one, err);
    if (r < 0)
        return r;
    uint64_t first0 = zero.len ? audit_record_seq(zero.data, zero.len) : 0,
             first1 = one.len ? audit_record_seq(one.data, one.len) : 0;
    bool swapped = zero.len && one.len && first1 < first0;
    f->current = one.len && !swapped ? 1 : 0;
    unsigned old = !f->current;
    r = load_part(&f->parts[old], old ? &one : &zero, fn, data, err);
    if (r < 0)
        return r;
    return load_part(&f->parts[!old], old ? &zero : &one, fn, data, err);
}

void audit_file_read(const char *dir, audit_line_fn fn, void *data)
{
    for (unsigned i = 0; i < 2; i++) {
        struct error ignored = {0};
        struct stat st;
        __attribute__((cleanup(unmap_part))) struct mapped m = {0};
        _cleanup_close_ int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int fd = openat(dir_fd, part_names[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &st) < 0)
            continue;
        struct audit_part p = {.fd = fd, .size = (uint64_t)st.st_size};
        if (map_part(&p, &m, &ignored) >= 0)
            each_line(&p, &m, fn, data, &ignored);
    }
}

/* --- writing */

/* What a failed write left of a line must not become the start of the next. */
static int take_back(struct audit_file *f, struct audit_part *p)
{
    f->torn = ftruncate(p->fd, (off_t)p->size) < 0;
    return f->torn ? -errno : 0;
}

/* One write() per line: a kill -9 leaves the whole line in the page cache, or the beginning of it
 * on a full disk, which is taken back. The parts change when this one is large and the other one
 * was emptied, so that a file is never emptied while lines are added to it. */
int audit_file_append(struct audit_file *f, const char *line, size_t len, uint64_t seq, bool sync,
                      struct error *err)
{
    if (f->torn && take_back(f, &f->parts[f->current]) < 0)
        return write_error(err, errno);
    if (f->parts[f->current].size >= AUDIT_FILE_SWITCH_BYTES && f->parts[!f->current].size == 0)
        f->current = !f->current;
    struct audit_part *p = &f->parts[f->current];
    ssize_t n;
    do
        n = write(p->fd, line, len);
    while (n < 0 && errno == EINTR);
    int errnum = n < 0 ? errno : ENOSPC;
    if (n == (ssize_t)len && sync && fdatasync(p->fd) < 0) {
        errnum = errno;
        n = -1;
    }
    if (n != (ssize_t)len) {
        take_back(f, p);
        return write_error(err, errnum);
    }
    p->size += len;
    p->last_seq = seq;
    return 0;
}

int audit_file_sync(const int fds[2])
{
    return fdatasync(fds[0]) < 0 || fdatasync(fds[1]) < 0 ? -errno : 0;
}

int audit_file_spent(const struct audit_file *f, uint64_t seq)
{
    int other = !f->current;
    return f->parts[other].size && f->parts[other].last_seq <= seq ? other : -1;
}

void audit_file_empty(struct audit_file *f, int part)
{
    struct audit_part *p = &f->parts[part];
    if (f->torn || ftruncate(p->fd, 0) < 0) {
        log_warn("audit: a chained file cannot be emptied: %s", strerror(errno));
        return;
    }
    p->size = 0;
}
