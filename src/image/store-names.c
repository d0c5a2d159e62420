/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images: one file per name, encoded so that any text is a plain file name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/digits.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "image/store-internal.h"

/* What stays as it is; a leading dot does not, so that "." and ".." are no names. */
static bool is_plain(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || (c == '.' && !first);
}

static int encode_name(const char *name, char out[IMAGE_NAME_MAX + 1], struct error *err)
{
    size_t len = 0;
    for (const char *p = name; *p; p++) {
        bool plain = is_plain(*p, p == name);
        if (len + (plain ? 1 : 3) > IMAGE_NAME_MAX)
            return error_set(err, ERROR_INVALID, 0, "the image name '%.60s...' is too long", name);
        if (plain)
            out[len++] = *p;
        else
            len += (size_t)sprintf(out + len, "%%%02X", (unsigned char)*p);
    }
    out[len] = 0;
    return len ? 0 : error_set(err, ERROR_INVALID, 0, "an image name is empty");
}

/* NULL for what encode_name() never made. */
static char *decode_name(const char *file)
{
    char *out = xcalloc(strlen(file) + 1, 1);
    size_t len = 0;
    for (const char *p = file; *p; p++) {
        int high = *p == '%' ? hex_value_upper(p[1]) : 0;
        int low = *p == '%' && high >= 0 ? hex_value_upper(p[2]) : 0;
        if (high < 0 || low < 0 || (*p != '%' && !is_plain(*p, p == file))) {
            free(out);
            return NULL;
        }
        out[len++] = *p == '%' ? (char)(high << 4 | low) : *p;
        p += *p == '%' ? 2 : 0;
    }
    return out;
}

/* The digest in a name's file. -EBADMSG for anything else in it. */
static int read_name(struct image_store *s, const char *file, char ret[IMAGE_DIGEST_SIZE])
{
    char text[IMAGE_DIGEST_SIZE + 2];
    _cleanup_close_ int fd = openat(s->names, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -errno;
    if (n != IMAGE_DIGEST_SIZE || text[n - 1] != '\n')
        return -EBADMSG;
    text[n - 1] = 0;
    if (!image_digest_is_valid(text))
        return -EBADMSG;
    memcpy(ret, text, IMAGE_DIGEST_SIZE);
    return 0;
}

int image_store_name(struct image_store *s, const char *name, const char *digest, struct error *err)
{
    char file[IMAGE_NAME_MAX + 1], text[IMAGE_DIGEST_SIZE + 2];
    int r = encode_name(name, file, err);
    if (r == 0)
        r = image_store_find(s, digest, NULL, err);
    if (r < 0)
        return r;
    int n = snprintf(text, sizeof(text), "%s\n", digest);
    r = store_write_file(s, s->names, file, text, (size_t)n);
    if (r < 0)
        return error_set(err, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
                         "name image %s '%s'", digest, name);
    return 0;
}

int image_store_unname(struct image_store *s, const char *name, struct error *err)
{
    char file[IMAGE_NAME_MAX + 1];
    int r = encode_name(name, file, err);
    if (r < 0)
        return r;
    if (unlinkat(s->names, file, 0) < 0)
        return error_set(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, errno,
                         "take away the image name '%s'", name);
    return 0;
}

struct name_search {
    struct image_store *s;
    const char *digest;
    char **found;
    size_t count;
};

static int drop_if_leads(void *arg, const char *file)
{
    struct name_search *q = arg;
    char digest[IMAGE_DIGEST_SIZE];
    if (read_name(q->s, file, digest) == 0 && !strcmp(digest, q->digest) &&
        unlinkat(q->s->names, file, 0) < 0 && errno != ENOENT)
        return -errno;
    return 0;
}

int store_drop_names(struct image_store *s, const char *digest)
{
    struct name_search q = {.s = s, .digest = digest};
    int r = store_each(s->names, drop_if_leads, &q);
    if (r < 0)
        return r;
    return fsync(s->names) < 0 ? -errno : 0;
}

static int collect_if_leads(void *arg, const char *file)
{
    struct name_search *q = arg;
    char digest[IMAGE_DIGEST_SIZE];
    char *name = NULL;
    if (read_name(q->s, file, digest) == 0 && !strcmp(digest, q->digest))
        name = decode_name(file);
    if (name) {
        q->found = xrealloc(q->found, (q->count + 2) * sizeof(*q->found));
        q->found[q->count++] = name;
        q->found[q->count] = NULL;
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int image_store_names(struct image_store *s, const char *digest, char ***ret, struct error *err)
{
    struct name_search q = {.s = s, .digest = digest, .found = xcalloc(1, sizeof(char *))};
    int r = store_each(s->names, collect_if_leads, &q);
    if (r < 0) {
        strv_free(q.found);
        return error_set(err, ERROR_INTERNAL, -r, "read the names of images");
    }
    qsort(q.found, q.count, sizeof(*q.found), compare_names);
    *ret = q.found;
    return 0;
}

/* A text that looks like a digest is one: no name can stand in for another image's digest. */
int image_store_resolve(struct image_store *s, const char *text, char ret[IMAGE_DIGEST_SIZE],
                        struct error *err)
{
    char file[IMAGE_NAME_MAX + 1], digest[IMAGE_DIGEST_SIZE];
    const char *hex = strncmp(text, "sha256:", 7) ? text : text + 7;
    int r;
    if (image_digest_is_valid(hex)) {
        memcpy(digest, hex, sizeof(digest));
    } else if ((r = encode_name(text, file, err)) < 0) {
        return r;
    } else if ((r = read_name(s, file, digest)) < 0) {
        return error_set(err, r == -ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, -r, "no image '%s'",
                         text);
    }
    r = image_store_find(s, digest, NULL, err);
    if (r == 0)
        memcpy(ret, digest, sizeof(digest));
    return r;
}
