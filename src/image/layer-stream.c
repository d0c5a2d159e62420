/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer-stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "image/hash.h"

#define BLOCK_BYTES      (128u << 10)
#define RATIO_FREE_BYTES (64ull << 20) /* small layers may be anything: zeros in a test, say */
#define MAGIC_BYTES      6

struct layer_stream {
    int fd;
    struct meter *meter;
    enum stream_format format;
    struct archive *filter; /* NULL for plain */
    struct hash in_hash, out_hash;
    uint64_t in_bytes, out_bytes, max_in, max_out;
    uint64_t allowed;   /* what may still come out while a parser is on its own; 0: anything */
    struct error *err;  /* of the call that is under way */
    struct error spare; /* where no callback listens */
    bool limited, ended;
    char *block;
    size_t held; /* bytes of block that were read to learn the format and are still to be given */
};

static const struct {
    const char *magic;
    size_t len;
    int filter;
} formats[] = {
    [STREAM_PLAIN] = {"", 0, ARCHIVE_FILTER_NONE},
    [STREAM_GZIP] = {"\x1f\x8b", 2, ARCHIVE_FILTER_GZIP},
    [STREAM_ZSTD] = {"\x28\xb5\x2f\xfd", 4, ARCHIVE_FILTER_ZSTD},
    [STREAM_XZ] = {"\xfd"
                   "7zXZ\0",
                   6, ARCHIVE_FILTER_XZ},
};
_Static_assert(ELEMENTS(formats) == _STREAM_FORMAT_MAX, "a row per format");

/* The next bytes of the file itself into block. */
static ssize_t read_in(struct layer_stream *s)
{
    ssize_t n;
    if (s->held) {
        n = (ssize_t)s->held;
        s->held = 0;
        return n;
    }
    do
        n = read(s->fd, s->block, BLOCK_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set(s->err, ERROR_INTERNAL, errno, "read the layer");
    s->in_bytes += (uint64_t)n;
    if (s->in_bytes > s->max_in)
        return error_set(s->err, ERROR_TOO_LARGE, 0, "it is larger than images_max_layer_bytes");
    if (n)
        hash_update(&s->in_hash, s->block, (size_t)n);
    int r = meter_add(s->meter, (uint64_t)n, s->err);
    return r < 0 ? r : n;
}

static la_ssize_t filter_read(struct archive *a, void *arg, const void **ret)
{
    struct layer_stream *s = arg;
    ssize_t n = read_in(s);
    if (n < 0)
        archive_set_error(a, EIO, "%s", "cannot be read");
    *ret = s->block;
    return n < 0 ? ARCHIVE_FATAL : n;
}

static int filter_failed(struct layer_stream *s)
{
    if (error_is_set(s->err))
        return -EBADMSG;
    const char *why = archive_error_string(s->filter);
    return error_set(s->err, ERROR_INVALID, 0, "broken compressed data: %s",
                     why ? why : "no reason given");
}

/* libarchive would take off filter after filter, whatever is there; this one and no other is named,
 * and "raw" gives what comes out as it is. */
static int filter_open(struct layer_stream *s)
{
    struct archive_entry *e;
    s->filter = archive_read_new();
    if (!s->filter)
        abort();
    if (archive_read_support_format_raw(s->filter) != ARCHIVE_OK ||
        archive_read_support_format_empty(s->filter) != ARCHIVE_OK ||
        archive_read_append_filter(s->filter, formats[s->format].filter) != ARCHIVE_OK ||
        archive_read_open(s->filter, s, NULL, filter_read, NULL) != ARCHIVE_OK)
        return filter_failed(s);
    int r = archive_read_next_header(s->filter, &e);
    if (r == ARCHIVE_EOF)
        s->ended = true;
    return r == ARCHIVE_OK || r == ARCHIVE_EOF ? 0 : filter_failed(s);
}

/* Reads until the first bytes are there, or the end: a pipe gives them in any pieces. */
static int learn_format(struct layer_stream *s)
{
    size_t have = 0;
    while (have < MAGIC_BYTES) {
        ssize_t n = read(s->fd, s->block + have, BLOCK_BYTES - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(s->err, ERROR_INTERNAL, errno, "read the layer");
        if (n == 0)
            break;
        have += (size_t)n;
    }
    for (size_t i = _STREAM_FORMAT_MAX; i-- > 0;)
        if (have >= formats[i].len && !memcmp(s->block, formats[i].magic, formats[i].len)) {
            s->format = (enum stream_format)i;
            break;
        }
    s->held = have;
    s->in_bytes = have;
    hash_update(&s->in_hash, s->block, have);
    return meter_add(s->meter, have, s->err);
}

int layer_stream_open(int fd, uint64_t max_in, uint64_t max_out, struct meter *m,
                      struct layer_stream **ret, struct error *err)
{
    struct layer_stream *s = new0(struct layer_stream);
    s->fd = fd;
    s->meter = m;
    s->max_in = max_in;
    s->max_out = max_out;
    s->err = err ? err : &s->spare;
    s->block = xcalloc(1, BLOCK_BYTES);
    hash_init(&s->in_hash);
    hash_init(&s->out_hash);
    int r = learn_format(s);
    if (r == 0 && s->format != STREAM_PLAIN)
        r = filter_open(s);
    if (r < 0) {
        layer_stream_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void layer_stream_free(struct layer_stream *s)
{
    if (!s)
        return;
    s->err = &s->spare;
    archive_read_free(s->filter);
    hash_done(&s->in_hash);
    hash_done(&s->out_hash);
    free(s->block);
    free(s);
}

void layer_stream_allow(struct layer_stream *s, uint64_t bytes)
{
    s->limited = bytes > 0;
    s->allowed = bytes;
}

int layer_stream_check_content(struct layer_stream *s, uint64_t bytes, struct error *err)
{
    uint64_t ratio = s->meter->options->limits.ratio;
    if (!ratio || bytes <= RATIO_FREE_BYTES || bytes / ratio <= s->in_bytes)
        return 0;
    return error_set(err, ERROR_TOO_LARGE, 0,
                     "it unpacks to more than %llu times its size, images_max_ratio",
                     (unsigned long long)ratio);
}

static int check_amount(struct layer_stream *s, size_t len)
{
    s->out_bytes += len;
    if (s->out_bytes > s->max_out)
        return error_set(s->err, ERROR_TOO_LARGE, 0,
                         "it unpacks to more than "
                         "images_max_unpacked_bytes allow");
    int r = layer_stream_check_content(s, s->out_bytes, s->err);
    if (r < 0)
        return r;
    if (s->limited && len > s->allowed)
        return error_set(s->err, ERROR_TOO_LARGE, 0, "the headers of one entry are too large");
    s->allowed -= s->limited ? len : 0;
    return meter_add(s->meter, 0, s->err);
}

static ssize_t filter_next(struct layer_stream *s, const void **ret)
{
    size_t len = 0;
    la_int64_t offset;
    if (s->ended)
        return 0;
    do {
        int r = archive_read_data_block(s->filter, ret, &len, &offset);
        if (r == ARCHIVE_EOF) {
            s->ended = true;
            return 0;
        }
        if (r != ARCHIVE_OK)
            return filter_failed(s);
    } while (len == 0);
    return (ssize_t)len;
}

ssize_t layer_stream_next(struct layer_stream *s, const void **ret, struct error *err)
{
    s->err = err ? err : &s->spare;
    *ret = s->block;
    ssize_t n = s->filter ? filter_next(s, ret) : read_in(s);
    if (n > 0) {
        if (s->filter) /* otherwise what comes out is what goes in, hashed already */
            hash_update(&s->out_hash, *ret, (size_t)n);
        int r = check_amount(s, (size_t)n);
        if (r < 0)
            return r;
    }
    return n;
}

int layer_stream_finish(struct layer_stream *s, char ret_in[IMAGE_DIGEST_SIZE],
                        char ret_out[IMAGE_DIGEST_SIZE], struct error *err)
{
    const void *data;
    ssize_t n;
    layer_stream_allow(s, 0);
    while ((n = layer_stream_next(s, &data, err)) > 0)
        ;
    /* What a decompressor left behind its end is part of the file all the same. */
    while (n == 0 && (n = read_in(s)) > 0)
        n = 0;
    if (n < 0)
        return (int)n;
    char in[IMAGE_DIGEST_SIZE], out[IMAGE_DIGEST_SIZE];
    hash_final(&s->in_hash, in);
    hash_final(&s->out_hash, out);
    if (ret_in)
        memcpy(ret_in, in, sizeof(in));
    if (ret_out)
        memcpy(ret_out, s->filter ? out : in, sizeof(out));
    return 0;
}
