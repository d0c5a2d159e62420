/* SPDX-License-Identifier: Apache-2.0 */
/* Trees go as tar streams through a pipe: libarchive wants to drive one end and libcurl the other,
 * so libarchive has a thread of its own. */
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/temp-file.h"
#include "cli/tree.h"
#include "libsbx/sbx.h"

#define REMOTE_HOME "/workspace"

char *transfer_remote_path(const char *path)
{
    if (path[0] == '/')
        return xstrdup(path);
    return *path ? xasprintf(REMOTE_HOME "/%s", path) : xstrdup(REMOTE_HOME);
}

static int make_remote_parents(struct session *s, const char *id, const char *remote,
                               struct sbx_error *err)
{
    const char *slash = strrchr(remote, '/');
    _cleanup_free_ char *parent = xstrndup(remote, (size_t)(slash - remote));
    if (!*parent || strcmp(parent, REMOTE_HOME) == 0 || strcmp(parent, "/tmp") == 0)
        return 0;
    return sbx_file_mkdir(s->client, id, parent, 1, err);
}

/* --- files */

struct file_reader {
    int fd;
    int failed_errno;
};

static long read_file(void *opaque, char *buf, size_t size)
{
    struct file_reader *f = opaque;
    ssize_t n = read(f->fd, buf, size);
    if (n < 0)
        f->failed_errno = errno;
    return n;
}

int transfer_file_in(struct session *s, const char *local, const char *id, const char *remote,
                     struct sbx_error *err)
{
    _cleanup_close_ int fd = open(local, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_set_error(err, "invalid_request", "open '%s': %s", local, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cli_set_error(err, "invalid_request", "'%s' is a directory", local);
    if (make_remote_parents(s, id, remote, err) < 0)
        return -1;
    _cleanup_free_ char *path =
        sbx_path_format("/v1/sandboxes/%s/files/content?path=%s", id, remote);
    _cleanup_free_ char *with_mode = xasprintf("%s&mode=%04o", path, st.st_mode & 0777);
    struct file_reader f = {.fd = fd};
    long long size = S_ISREG(st.st_mode) ? st.st_size : -1;
    if (sbx_upload(s->client, "PUT", with_mode, read_file, &f, size, NULL, err) == 0)
        return 0;
    if (f.failed_errno)
        cli_set_error(err, NULL, "read '%s': %s", local, strerror(f.failed_errno));
    return -1;
}

/* Where a download goes: a special file, such as /dev/stdout or a pipe, is written to; anything
 * else is replaced, so that a link that an earlier copy left there is not followed. */
struct file_writer {
    const char *path;
    int dir; /* that path is in; -1 for a special file */
    char temp[TEMP_NAME_SIZE];
    const char *base; /* points into path */
    int fd;
    int failed_errno;
};

static int open_special(struct file_writer *f)
{
    struct stat st;
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (f->fd >= 0 && fstat(f->fd, &st) == 0 && !S_ISREG(st.st_mode))
        return 0;
    fd_close(&f->fd);
    return -1;
}

static bool is_special(const char *path)
{
    struct stat st;
    return strncmp(path, "/dev/", 5) == 0 ||
           (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode));
}

static int open_writer(struct file_writer *f)
{
    if (f->fd >= 0 || (is_special(f->path) && open_special(f) == 0))
        return 0;
    const char *slash = strrchr(f->path, '/');
    _cleanup_free_ char *dir =
        slash ? xstrndup(f->path, (size_t)(slash - f->path) + 1) : xstrdup(".");
    f->base = slash ? slash + 1 : f->path;
    f->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    f->fd = f->dir < 0 ? -errno : temp_create(f->dir, f->temp);
    if (f->fd >= 0)
        return 0;
    f->failed_errno = f->dir < 0 ? errno : -f->fd;
    f->fd = -1;
    return -1;
}

static int write_file(void *opaque, const char *piece, size_t len)
{
    struct file_writer *f = opaque;
    if (open_writer(f) < 0)
        return -1;
    int r = fd_write_all(f->fd, piece, len);
    if (r < 0)
        f->failed_errno = -r;
    return r;
}

/* A new file has the mode that any other new one would; one that was there keeps its own. */
static mode_t mode_for(const struct file_writer *f)
{
    struct stat st;
    if (fstatat(f->dir, f->base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        return st.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* The content is whole: it takes its place. */
static int finish_writer(struct file_writer *f, bool whole)
{
    if (f->fd < 0)
        return 0;
    bool temp = f->dir >= 0;
    if (whole && temp && fchmod(f->fd, mode_for(f)) < 0)
        f->failed_errno = errno;
    if (close(f->fd) < 0 && !f->failed_errno)
        f->failed_errno = errno;
    whole = whole && !f->failed_errno;
    if (whole && temp && renameat(f->dir, f->temp, f->dir, f->base) < 0) {
        f->failed_errno = errno;
        whole = false;
    }
    if (!whole && temp)
        unlinkat(f->dir, f->temp, 0);
    fd_close(&f->dir);
    return whole ? 0 : -1;
}

int transfer_file_out(struct session *s, const char *id, const char *remote, const char *local,
                      struct sbx_error *err)
{
    _cleanup_free_ char *path =
        sbx_path_format("/v1/sandboxes/%s/files/content?path=%s", id, remote);
    struct file_writer f = {.path = local, .dir = -1, .fd = -1};
    int r = sbx_download(s->client, path, write_file, &f, err);
    if (r == 0)
        r = open_writer(&f); /* an empty file has no first byte */
    if (finish_writer(&f, r == 0) < 0)
        r = -1;
    if (f.failed_errno)
        return cli_set_error(err, NULL, "write '%s': %s", local, strerror(f.failed_errno));
    return r;
}

/* --- trees */

struct tree_job {
    pthread_t thread;
    bool joined;
    int archive_fd; /* the thread's end; it closes it */
    int stream_fd;  /* ours */
    const char *dir;
    bool unpack;
    int result;
    int skipped;
    struct sbx_error err;
};

static void *tree_thread(void *opaque)
{
    struct tree_job *j = opaque;
    j->result = j->unpack ? tree_unpack(j->archive_fd, j->dir, &j->skipped, &j->err)
                          : tree_pack(j->dir, j->archive_fd, &j->skipped, &j->err);
    if (j->unpack && j->result == 0) {
        /* What follows an archive's end mark is padding; reading it lets the sender finish. */
        int fd = j->archive_fd;
        char buf[4096];
        while (read(fd, buf, sizeof(buf)) > 0)
            ;
    }
    fd_close(&j->archive_fd);
    return NULL;
}

static int job_start(struct tree_job *j, struct sbx_error *err)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return cli_set_error(err, NULL, "pipe: %s", strerror(errno));
    j->archive_fd = j->unpack ? p[0] : p[1];
    j->stream_fd = j->unpack ? p[1] : p[0];
    int r = pthread_create(&j->thread, NULL, tree_thread, j);
    if (r == 0)
        return 0;
    close(p[0]);
    close(p[1]);
    return cli_set_error(err, NULL, "start a thread: %s", strerror(r));
}

static int job_join(struct tree_job *j)
{
    if (!j->joined)
        pthread_join(j->thread, NULL);
    j->joined = true;
    return j->result;
}

/* Ends the job; its own failure explains more than the broken transfer that follows from it, but a
 * pipe that we closed because the transfer broke is no failure of its own. */
static int job_finish(struct tree_job *j, int transferred, struct sbx_error *err)
{
    bool canceled = transferred < 0 && strcmp(err->code, "canceled") == 0;
    fd_close(&j->stream_fd);
    if (job_join(j) < 0 && (transferred == 0 || canceled)) {
        *err = j->err;
        return -1;
    }
    return transferred;
}

static long read_archive(void *opaque, char *buf, size_t size)
{
    struct tree_job *j = opaque;
    ssize_t n = read(j->stream_fd, buf, size);
    /* At the end, a packer that failed must not look like a whole archive. */
    return n == 0 && job_join(j) < 0 ? -1 : n;
}

static int write_archive(void *opaque, const char *piece, size_t len)
{
    struct tree_job *j = opaque;
    return fd_write_all(j->stream_fd, piece, len);
}

int transfer_tree_in(struct session *s, const char *local, const char *id, const char *remote,
                     int *ret_skipped, struct sbx_error *err)
{
    if (sbx_file_mkdir(s->client, id, remote, 1, err) < 0)
        return -1;
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/files/tar?path=%s", id, remote);
    struct tree_job j = {.dir = local};
    if (job_start(&j, err) < 0)
        return -1;
    int r = sbx_upload(s->client, "PUT", path, read_archive, &j, -1, NULL, err);
    r = job_finish(&j, r, err);
    if (r == 0)
        *ret_skipped = j.skipped;
    return r;
}

int transfer_tree_out(struct session *s, const char *id, const char *remote, const char *local,
                      int *ret_skipped, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/files/tar?path=%s", id, remote);
    struct tree_job j = {.dir = local, .unpack = true};
    if (job_start(&j, err) < 0)
        return -1;
    int r = sbx_download(s->client, path, write_archive, &j, err);
    r = job_finish(&j, r, err);
    if (r == 0)
        *ret_skipped = j.skipped;
    return r;
}
