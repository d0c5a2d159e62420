/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "image/below.h"
#include "image/hash.h"
#include "image/name.h"

#define CHUNK_BYTES (128u << 10)

int descriptor_parse(const json_t *obj, const char *what, struct descriptor *ret, struct error *err)
{
    const char *digest = "", *type = "";
    int64_t size = -1;
    if (!json_is_object(obj))
        return error_set(err, ERROR_INVALID, 0, "the image's %s is not a descriptor", what);
    if (json_member_string(obj, "digest", &digest, err) < 0 ||
        json_member_string(obj, "mediaType", &type, err) < 0 ||
        json_member_int(obj, "size", 0, INT64_MAX, &size, err) < 0) {
        error_prefix(err, "the image's %s", what);
        return -EINVAL;
    }
    if (strncmp(digest, "sha256:", 7) || !image_digest_is_valid(digest + 7))
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "the image's %s has the digest '%.80s', which is not a sha256", what,
                         digest);
    if (size < 0)
        return error_set(err, ERROR_INVALID, 0, "the image's %s has no size", what);
    memcpy(ret->digest, digest + 7, IMAGE_DIGEST_SIZE);
    ret->size = (uint64_t)size;
    ret->media_type = type;
    return 0;
}

/* A fifo or device in the way must neither block nor answer. */
static int open_file(int dir_fd, const char *path, struct stat *ret)
{
    _cleanup_close_ int fd = below_open_plain(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fd;
    if (fstat(fd, ret) < 0)
        return -errno;
    return S_ISREG(ret->st_mode) ? fd_steal(&fd) : -EINVAL;
}

int blob_open(const struct blobs *b, const struct descriptor *d, struct error *err)
{
    char path[IMAGE_DIGEST_SIZE + 32];
    struct stat st;
    snprintf(path, sizeof(path), "%s%s", b->prefix, d->digest);
    _cleanup_close_ int fd = open_file(b->dir_fd, path, &st);
    if (fd < 0)
        return error_set(err, fd == -ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, -fd,
                         "blob sha256:%s", d->digest);
    /* The size first: a blob of another size need not be read to the end to be refused. */
    if ((uint64_t)st.st_size != d->size)
        return error_set(err, ERROR_INVALID, 0, "blob sha256:%s has %llu bytes, not %llu",
                         d->digest, (unsigned long long)st.st_size, (unsigned long long)d->size);
    return fd_steal(&fd);
}

static int refuse_mismatch(const char *digest, const char *got, struct error *err)
{
    return error_set(err, ERROR_INVALID, EBADMSG,
                     "blob sha256:%s is tampered with: it is sha256:%s", digest, got);
}

int blob_hash(int fd, const char *what, uint64_t size, struct meter *m, char ret[IMAGE_DIGEST_SIZE],
              struct error *err)
{
    static _Thread_local char chunk[CHUNK_BYTES];
    _cleanup_hash_ struct hash h;
    hash_init(&h);
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, chunk, sizeof(chunk), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERROR_INTERNAL, errno, "read %s", what);
        if (n == 0)
            break;
        hash_update(&h, chunk, (size_t)n);
        at += n;
        if ((uint64_t)at > size) /* it grows, maybe for ever */
            return error_set(err, ERROR_INVALID, 0, "%s changes while it is read", what);
        int r = meter_add(m, (uint64_t)n, err);
        if (r < 0)
            return r;
    }
    hash_final(&h, ret);
    return lseek(fd, 0, SEEK_SET) < 0 ? error_set(err, ERROR_INTERNAL, errno, "seek") : 0;
}

int blob_verify(int fd, const char *digest, uint64_t size, struct meter *m, struct error *err)
{
    char got[IMAGE_DIGEST_SIZE], what[IMAGE_DIGEST_SIZE + 16];
    snprintf(what, sizeof(what), "blob sha256:%s", digest);
    int r = blob_hash(fd, what, size, m, got, err);
    return r < 0 || !strcmp(got, digest) ? r : refuse_mismatch(digest, got, err);
}

static int blob_read_text(int fd, const char *what, struct strbuf *out, struct error *err)
{
    int r = fd_read_all(fd, out);
    if (r == -EFBIG)
        return error_set(err, ERROR_TOO_LARGE, 0, "%s is larger than %zu bytes", what, out->max);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "read %s", what) : 0;
}

int blob_read_file(int dir_fd, const char *path, struct strbuf *out, struct error *err)
{
    char q[NAME_QUOTED_SIZE], what[NAME_QUOTED_SIZE + 2];
    struct stat st;
    snprintf(what, sizeof(what), "'%s'", name_quote(path, q));
    _cleanup_close_ int fd = open_file(dir_fd, path, &st);
    if (fd < 0)
        return error_set(err, fd == -ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, -fd, "open %s",
                         what);
    return blob_read_text(fd, what, out, err);
}

json_t *blob_read_json(const struct blobs *b, const struct descriptor *d, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BLOB_JSON_MAX);
    char what[IMAGE_DIGEST_SIZE + 16], got[IMAGE_DIGEST_SIZE];
    snprintf(what, sizeof(what), "blob sha256:%s", d->digest);
    _cleanup_close_ int fd = blob_open(b, d, err);
    if (fd < 0 || blob_read_text(fd, what, &text, err) < 0)
        return NULL;
    /* The bytes that are parsed are the ones that were hashed: the file is not read a second time,
     * when it could be another. */
    hash_bytes(text.data, text.len, got);
    if (strcmp(got, d->digest)) {
        refuse_mismatch(d->digest, got, err);
        return NULL;
    }
    json_t *value = json_parse_object(text.data, text.len, err);
    if (!value)
        error_prefix(err, "%s", what);
    return value;
}
