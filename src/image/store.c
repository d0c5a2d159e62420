/* SPDX-License-Identifier: Apache-2.0 */
/* Work, commit, find, remove. Names are in store-names.c, lists and garbage in store-list.c. */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "image/below.h"
#include "image/info.h"
#include "image/store-internal.h"

#define IMAGE_JSON_MAX (8u << 20)
#define WORK_NAME_LEN  16

struct image_work {
    int tmp; /* borrowed from the store */
    int dir, image;
    char name[WORK_NAME_LEN + 1];
};

static enum error_code code_of(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT ? ERROR_NO_SPACE : ERROR_INTERNAL;
}

int image_store_open(int dir_fd, struct image_store **ret, struct error *err)
{
    struct image_store *s = new0(struct image_store);
    s->names = s->tmp = -1;
    const char *part = "store";
    if ((s->store = fd_enter_dir_at(dir_fd, part, 0700)) < 0 ||
        (part = "names", s->names = fd_enter_dir_at(dir_fd, part, 0700)) < 0 ||
        (part = "tmp", s->tmp = fd_enter_dir_at(dir_fd, part, 0700)) < 0) {
        int r = s->store < 0 ? s->store : s->names < 0 ? s->names : s->tmp;
        image_store_close(s);
        return error_set(err, code_of(-r), -r, "open '%s' of the image store", part);
    }
    *ret = s;
    return 0;
}

void image_store_close(struct image_store *s)
{
    if (!s)
        return;
    fd_close(&s->store);
    fd_close(&s->names);
    fd_close(&s->tmp);
    free(s);
}

/* Nothing in tmp is ever used by name after a restart: it is work that a killed keeper left, and
 * images that were removed but not deleted yet. */
int image_store_sweep(struct image_store *s, struct error *err)
{
    int r = below_clear(s->tmp);
    return r < 0 ? error_set(err, code_of(-r), -r, "sweep the image store's tmp") : 0;
}

/* The name comes with a request: only what image_work_begin() could have made is removed, and never
 * a path. */
int image_store_discard(struct image_store *s, const char *work, struct error *err)
{
    bool good = *work && strspn(work, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(work);
    int r = good ? below_remove(s->tmp, work) : -EINVAL;
    return r < 0 ? error_set(err, code_of(-r), -r, "remove '%.40s' of the image store", work) : 0;
}

int store_each(int dir_fd, int (*each)(void *arg, const char *name), void *arg)
{
    int own = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    if (!d) {
        int r = -errno;
        fd_close(&own);
        return r;
    }
    int r = 0;
    struct dirent *e;
    /* readdir() returns NULL for its end and for a failure, which only errno tells apart. */
    while (r == 0 && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            r = each(arg, e->d_name);
    if (r == 0 && errno)
        r = -errno;
    closedir(d);
    return r;
}

int image_work_begin(struct image_store *s, struct image_work **ret, struct error *err)
{
    struct image_work *w = new0(struct image_work);
    w->tmp = s->tmp;
    w->dir = w->image = -1;
    random_id(w->name, WORK_NAME_LEN);
    if (mkdirat(s->tmp, w->name, 0700) < 0 ||
        (w->dir = fd_enter_dir_at(s->tmp, w->name, 0700)) < 0 ||
        (w->image = fd_enter_dir_at(w->dir, "image", 0700)) < 0) {
        int e = errno;
        image_work_end(w);
        return error_set(err, code_of(e), e, "make a work directory in the image store");
    }
    *ret = w;
    return 0;
}

int image_work_fd(const struct image_work *w)
{
    return w->image;
}

int image_work_dir_fd(const struct image_work *w)
{
    return w->dir;
}

const char *image_work_name(const struct image_work *w)
{
    return w->name;
}

void image_work_end(struct image_work *w)
{
    if (!w)
        return;
    fd_close(&w->image);
    fd_close(&w->dir);
    below_remove(w->tmp, w->name); /* what stays is swept at the next start */
    free(w);
}

/* A whole file with its content on disk; the caller renames it. */
static int write_synced(int dir_fd, const char *name, const char *data, size_t len)
{
    _cleanup_close_ int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, data, len);
    if (r < 0)
        return r;
    return fsync(fd) < 0 ? -errno : 0;
}

/* The file is synced before it is renamed and its directory after, so that power loss leaves the
 * old file or the new one and never an empty one. */
int store_write_file(struct image_store *s, int dir_fd, const char *name, const char *data,
                     size_t len)
{
    char tmp[WORK_NAME_LEN + 1];
    random_id(tmp, WORK_NAME_LEN);
    int r = write_synced(s->tmp, tmp, data, len);
    if (r == 0 && renameat(s->tmp, tmp, dir_fd, name) < 0)
        r = -errno;
    if (r < 0) {
        unlinkat(s->tmp, tmp, 0);
        return r;
    }
    return fsync(dir_fd) < 0 ? -errno : 0;
}

static int write_info(int image_fd, const struct image_info *info)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(IMAGE_JSON_MAX);
    _cleanup_json_ json_t *obj = image_info_format(info);
    int r = json_format(obj, &b);
    if (r == 0)
        r = strbuf_puts(&b, "\n");
    if (r < 0)
        return r;
    return write_synced(image_fd, "image.json", b.data, b.len);
}

/* One call for all files instead of one per file. It reports errors of earlier writeback, too,
 * because the descriptor is older than the writes. */
static int publish_image(struct image_store *s, struct image_work *w, const char *digest)
{
    fault_point("image.before-sync");
    if (syncfs(w->image) < 0)
        return -errno;
    fault_point("image.before-rename");
    if (renameat(w->dir, "image", s->store, digest) < 0)
        return -errno;
    fault_point("image.after-rename");
    return fsync(s->store) < 0 ? -errno : 0;
}

int image_store_commit(struct image_store *s, struct image_work *w, struct image_info *info,
                       struct error *err)
{
    if (!image_digest_is_valid(info->digest))
        return error_set(err, ERROR_INTERNAL, EINVAL, "commit an image without a digest");
    info->created_ns = info->last_use_ns = clock_real_ns();
    int r = write_info(w->image, info);
    if (r == 0)
        r = publish_image(s, w, info->digest);
    /* Another worker has committed the same content meanwhile. Both are equally good, so the one
     * that is there stays and counts as used now; the caller's directory goes with its work. */
    if (r == -ENOTEMPTY || r == -EEXIST) {
        char digest[IMAGE_DIGEST_SIZE];
        memcpy(digest, info->digest, sizeof(digest));
        image_info_done(info);
        r = image_store_touch(s, digest, err);
        if (r < 0)
            return r;
        return image_store_find(s, digest, info, err);
    }
    if (r < 0)
        return error_set(err, code_of(-r), -r, "commit image %s", info->digest);
    return 0;
}

static int not_found(const char *digest, struct error *err)
{
    error_set(err, ERROR_NOT_FOUND, 0, "no image sha256:%s", digest);
    return -ENOENT;
}

static int open_info(struct image_store *s, const char *digest, int *ret, struct error *err)
{
    char path[IMAGE_DIGEST_SIZE + 16];
    if (!image_digest_is_valid(digest))
        return error_set(err, ERROR_INVALID, 0, "'%.80s' is not a digest", digest);
    snprintf(path, sizeof(path), "%s/image.json", digest);
    int fd = below_open_plain(s->store, path, O_RDONLY);
    if (fd == -ENOENT)
        return not_found(digest, err);
    if (fd < 0)
        return error_set(err, ERROR_INTERNAL, -fd, "open image %s", digest);
    *ret = fd;
    return 0;
}

static int read_info(int fd, struct image_info *ret, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(IMAGE_JSON_MAX);
    struct stat st;
    int r = strbuf_reserve(&b, 1);
    char chunk[16384];
    ssize_t n = 0;
    while (r == 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
        r = strbuf_append(&b, chunk, (size_t)n);
    if (r < 0 || n < 0 || fstat(fd, &st) < 0)
        return error_set(err, ERROR_INTERNAL, r < 0 ? -r : errno, "read image.json");
    _cleanup_json_ json_t *obj = json_parse_object(b.data, b.len, err);
    if (!obj || image_info_parse(obj, ret, err) < 0)
        return -EBADMSG;
    /* The time of the last use is the file's own: image_store_touch() need not write the content
     * anew. */
    ret->last_use_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
    return 0;
}

int image_store_find(struct image_store *s, const char *digest, struct image_info *ret,
                     struct error *err)
{
    _cleanup_close_ int fd = -1;
    int r = open_info(s, digest, &fd, err);
    if (r < 0 || !ret)
        return r;
    r = read_info(fd, ret, err);
    if (r < 0)
        error_prefix(err, "image %s", digest);
    return r;
}

int image_store_touch(struct image_store *s, const char *digest, struct error *err)
{
    _cleanup_close_ int fd = -1;
    int r = open_info(s, digest, &fd, err);
    if (r == 0 && futimens(fd, NULL) < 0)
        r = error_set(err, code_of(errno), errno, "touch image %s", digest);
    return r;
}

/* Names go first: a name never leads to an image that is half gone. */
int image_store_remove(struct image_store *s, const char *digest, struct error *err)
{
    char tmp[WORK_NAME_LEN + 1];
    struct stat st;
    if (!image_digest_is_valid(digest))
        return error_set(err, ERROR_INVALID, 0, "'%.80s' is not a digest", digest);
    if (fstatat(s->store, digest, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return not_found(digest, err);
    /* After the rename the image is gone for all readers, even if deleting its files is
     * interrupted: what is left of it lies in tmp and is swept at the next start. */
    int r = store_drop_names(s, digest);
    random_id(tmp, WORK_NAME_LEN);
    if (r == 0 && renameat(s->store, digest, s->tmp, tmp) < 0)
        r = -errno;
    if (r == 0 && fsync(s->store) < 0)
        r = -errno;
    fault_point("image.removed");
    if (r == 0)
        r = below_remove(s->tmp, tmp);
    return r < 0 ? error_set(err, code_of(-r), -r, "remove image %s", digest) : 0;
}
