/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

/* What may precede one entry: long names, pax records, maps of sparse files. libarchive keeps all
 * of it in memory, several times its size. */
#define HEADER_BYTES_MAX (4u << 20)

struct tar_source {
    struct archive *a;
    struct layer_stream *stream;
    struct error *err; /* of the call that is under way */
    locale_t utf8, before;
    bool in_entry;
};

static la_ssize_t read_stream(struct archive *a, void *arg, const void **ret)
{
    struct tar_source *t = arg;
    ssize_t n = layer_stream_next(t->stream, ret, t->err);
    if (n < 0)
        archive_set_error(a, EIO, "%s", "cannot be read");
    return n < 0 ? ARCHIVE_FATAL : n;
}

static int tar_failed(struct tar_source *t, struct error *err)
{
    if (error_is_set(err))
        return -EBADMSG;
    const char *why = archive_error_string(t->a);
    return error_set(err, ERROR_INVALID, EBADMSG, "broken tar archive: %s",
                     why ? why : "no reason given");
}

int tar_source_open(struct layer_stream *s, struct tar_source **ret, struct error *err)
{
    struct tar_source *t = new0(struct tar_source);
    t->stream = s;
    t->err = err;
    /* pax names are UTF-8 and become the locale's, or fail to, in libarchive. */
    t->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (t->utf8)
        t->before = uselocale(t->utf8);
    t->a = archive_read_new();
    if (!t->a)
        abort();
    layer_stream_allow(s, HEADER_BYTES_MAX);
    if (archive_read_support_format_tar(t->a) != ARCHIVE_OK ||
        archive_read_support_format_empty(t->a) != ARCHIVE_OK ||
        archive_read_append_filter(t->a, ARCHIVE_FILTER_NONE) != ARCHIVE_OK ||
        archive_read_open(t->a, t, NULL, read_stream, NULL) != ARCHIVE_OK) {
        int r = tar_failed(t, err);
        tar_source_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

void tar_source_free(struct tar_source *t)
{
    if (!t)
        return;
    struct error unheard = {0};
    t->err = &unheard;
    archive_read_free(t->a);
    if (t->utf8) {
        uselocale(t->before);
        freelocale(t->utf8);
    }
    free(t);
}

int tar_source_next(struct tar_source *t, struct archive_entry **ret, const char **ret_name,
                    struct error *err)
{
    t->err = err;
    layer_stream_allow(t->stream, 0);
    if (t->in_entry && archive_read_data_skip(t->a) == ARCHIVE_FATAL)
        return tar_failed(t, err);
    t->in_entry = true;
    layer_stream_allow(t->stream, HEADER_BYTES_MAX);
    int r = archive_read_next_header(t->a, ret);
    layer_stream_allow(t->stream, 0);
    if (r == ARCHIVE_EOF)
        return 0;
    /* A warning is about a name in no character set; it is then what the bytes are. */
    if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
        return tar_failed(t, err);
    *ret_name = archive_entry_pathname(*ret);
    if (!*ret_name)
        return error_set(err, ERROR_INVALID, EBADMSG, "an entry has no readable name");
    return 1;
}

int tar_source_read(struct tar_source *t, const void **data, size_t *len, uint64_t *offset,
                    struct error *err)
{
    la_int64_t at = 0;
    t->err = err;
    int r = archive_read_data_block(t->a, data, len, &at);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK)
        return tar_failed(t, err);
    *offset = (uint64_t)at;
    return 1;
}
