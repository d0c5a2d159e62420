/* SPDX-License-Identifier: Apache-2.0 */
/* The tar reader. Every number and name of a header is checked here, so that tar-extract.c deals
 * with sane paths only. */
#include "toolrunner/tar.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/strbuf.h"

/* Where things are in a header block. */
struct field {
    size_t at, size;
};
static const struct field f_name = {0, 100}, f_mode = {100, 8}, f_size = {124, 12},
                          f_mtime = {136, 12}, f_checksum = {148, 8}, f_link = {157, 100},
                          f_magic = {257, 5}, f_prefix = {345, 155};
#define TYPE_AT 156

/* What extended headers said about the next entry. */
struct extended {
    bool has_path, has_link, has_size, has_mtime, sparse;
    uint64_t size;
    int64_t mtime;
    char path[TAR_PATH_MAX + 1];
    char link[TAR_PATH_MAX + 1];
};

void tar_init(struct tar *t, ssize_t (*read)(void *arg, void *data, size_t size), void *arg)
{
    memset(t, 0, sizeof(*t));
    t->read = read;
    t->arg = arg;
}

static int __attribute__((format(printf, 3, 4)))
tar_fail(struct tar *t, int error, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->why, sizeof(t->why), fmt, ap);
    va_end(ap);
    return error;
}

/* Reads all of it; 0 when the archive ends right here, 1 when it is whole. */
static int read_full(struct tar *t, void *data, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = t->read(t->arg, (char *)data + got, size - got);
        if (n < 0)
            return tar_fail(t, (int)n, "cannot read the archive: %s", strerror((int)-n));
        if (n == 0 && got == 0)
            return 0;
        if (n == 0)
            return tar_fail(t, -EINVAL, "the archive ends in the middle");
        got += (size_t)n;
    }
    return 1;
}

ssize_t tar_read(struct tar *t, void *data, size_t size)
{
    if (size > t->left)
        size = (size_t)t->left;
    if (!size)
        return 0;
    ssize_t n = t->read(t->arg, data, size);
    if (n < 0)
        return tar_fail(t, (int)n, "cannot read the archive: %s", strerror((int)-n));
    if (n == 0)
        return tar_fail(t, -EINVAL, "the archive ends in the middle");
    t->left -= (uint64_t)n;
    return n;
}

static int tar_skip(struct tar *t)
{
    char scrap[8192];
    while (t->left) {
        ssize_t n = tar_read(t, scrap, sizeof(scrap));
        if (n < 0)
            return (int)n;
    }
    int r = t->padding ? read_full(t, scrap, t->padding) : 1;
    t->padding = 0;
    return r == 0 ? tar_fail(t, -EINVAL, "the archive ends in the middle") : r < 0 ? r : 0;
}

/* Octal text, or GNU's base-256 for values that do not fit it. */
static int parse_number(const uint8_t *block, struct field f, uint64_t *ret)
{
    const uint8_t *p = block + f.at, *end = p + f.size;
    uint64_t v = 0;
    if (*p == 0x80) {
        for (p++; p < end; p++) {
            if (v >> 55)
                return -ERANGE;
            v = v << 8 | *p;
        }
        *ret = v;
        return 0;
    }
    while (p < end && *p == ' ')
        p++;
    for (; p < end && *p >= '0' && *p <= '7'; p++) {
        if (v >> 60)
            return -ERANGE;
        v = v << 3 | (uint64_t)(*p - '0');
    }
    if (p < end && *p && *p != ' ')
        return -EINVAL;
    *ret = v;
    return 0;
}

static bool checksum_good(const uint8_t *block)
{
    uint64_t want;
    unsigned sum = 0;
    int signed_sum = 0; /* some old programs summed signed bytes */
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool inside = i >= f_checksum.at && i < f_checksum.at + f_checksum.size;
        sum += inside ? ' ' : block[i];
        signed_sum += inside ? ' ' : (int8_t)block[i];
    }
    return parse_number(block, f_checksum, &want) == 0 &&
           (want == sum || (int64_t)want == signed_sum);
}

static bool all_zero(const uint8_t *block)
{
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        if (block[i])
            return false;
    }
    return true;
}

static void copy_field(const uint8_t *block, struct field f, char *out)
{
    size_t len = strnlen((const char *)block + f.at, f.size);
    memcpy(out, block + f.at, len);
    out[len] = 0;
}

/* The name as the header alone has it, without regard to extended headers. */
static void header_path(const uint8_t *block, char out[TAR_PATH_MAX + 1])
{
    char name[101], prefix[156] = "";
    copy_field(block, f_name, name);
    /* GNU's magic is followed by a space; its prefix field means other things. */
    if (!memcmp(block + f_magic.at, "ustar\0", 6))
        copy_field(block, f_prefix, prefix);
    snprintf(out, TAR_PATH_MAX + 1, "%s%s%s", prefix, *prefix ? "/" : "", name);
}

static int read_extended(struct tar *t, struct strbuf *b)
{
    int r = strbuf_reserve(b, (size_t)t->left);
    while (r >= 0 && t->left) {
        ssize_t n = tar_read(t, b->data + b->len, (size_t)t->left);
        if (n < 0)
            return (int)n;
        strbuf_commit(b, (size_t)n);
    }
    /* The size is the archive's claim: one over TAR_PAX_MAX was refused before memory was taken
     * for it. */
    return r < 0 ? tar_fail(t, -EFBIG, "an extended header is too large") : tar_skip(t);
}

static int set_name(struct tar *t, const char *value, size_t len, char out[TAR_PATH_MAX + 1])
{
    if (len > TAR_PATH_MAX)
        return tar_fail(t, -ENAMETOOLONG, "a name in an extended header is too long");
    if (memchr(value, 0, len))
        return tar_fail(t, -EINVAL, "a name in an extended header has a NUL byte");
    memcpy(out, value, len);
    out[len] = 0;
    return 0;
}

static int pax_set(struct tar *t, struct extended *x, const char *key, size_t key_len,
                   const char *value, size_t len)
{
#define KEY_IS(text) (key_len == sizeof(text) - 1 && !memcmp(key, text, key_len))
    if (KEY_IS("path")) {
        x->has_path = true;
        return set_name(t, value, len, x->path);
    }
    if (KEY_IS("linkpath")) {
        x->has_link = true;
        return set_name(t, value, len, x->link);
    }
    char text[32] = "";
    memcpy(text, value, len < sizeof(text) ? len : sizeof(text) - 1);
    if (KEY_IS("size")) {
        char *end;
        errno = 0;
        x->size = strtoull(text, &end, 10);
        x->has_size = true;
        if (errno || !isdigit((unsigned char)*text) || *end || len >= sizeof(text))
            return tar_fail(t, -EINVAL, "a size in an extended header is not a number");
    } else if (KEY_IS("mtime")) {
        x->mtime = strtoll(text, NULL, 10);
        x->has_mtime = true;
    } else if (key_len >= 11 && !memcmp(key, "GNU.sparse.", 11)) {
        x->sparse = true;
    }
    return 0;
#undef KEY_IS
}

/* Records "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
static int pax_parse(struct tar *t, struct extended *x, const char *p, size_t left)
{
    while (left) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return tar_fail(t, -EINVAL, "malformed extended header");
        errno = 0;
        unsigned long len = strtoul(p, &end, 10);
        size_t digits = (size_t)(end - p);
        if (errno || len > left || len < digits + 4 || *end != ' ' || p[len - 1] != '\n')
            return tar_fail(t, -EINVAL, "malformed extended header");
        const char *key = end + 1, *last = p + len - 1;
        const char *equals = memchr(key, '=', (size_t)(last - key));
        if (!equals)
            return tar_fail(t, -EINVAL, "malformed extended header");
        int r = pax_set(t, x, key, (size_t)(equals - key), equals + 1, (size_t)(last - equals - 1));
        if (r < 0)
            return r;
        p += len;
        left -= len;
    }
    return 0;
}

/* Takes an extended header. 1 when it was one, 0 when the block is an entry. */
static int take_extended(struct tar *t, char type, struct extended *x)
{
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K')
        return 0;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(TAR_PAX_MAX);
    int r = read_extended(t, &b);
    if (r < 0)
        return r;
    const char *text = b.data ? b.data : "";
    if (type == 'x') {
        r = pax_parse(t, x, text, b.len);
    } else if (type == 'L') {
        x->has_path = true;
        r = set_name(t, text, strnlen(text, b.len), x->path);
    } else if (type == 'K') {
        x->has_link = true;
        r = set_name(t, text, strnlen(text, b.len), x->link);
    }
    return r < 0 ? r : 1;
}

static int entry_type(char flag, enum tar_type *ret)
{
    static const struct {
        char flag;
        enum tar_type type;
    } types[] = {{'0', TAR_FILE},      {0, TAR_FILE},      {'7', TAR_FILE},
                 {'5', TAR_DIRECTORY}, {'2', TAR_SYMLINK}, {'1', TAR_HARDLINK}};
    for (size_t i = 0; i < ELEMENTS(types); i++) {
        if (types[i].flag == flag) {
            *ret = types[i].type;
            return 0;
        }
    }
    return -EPERM;
}

static int entry_set_names(struct tar *t, const char *raw, const char *raw_link,
                           struct tar_entry *ret)
{
    int r = path_normalize(raw, ret->path, sizeof(ret->path));
    if (r < 0)
        return tar_fail(t, r, "entry '%s': the path leads out of the archive's root", raw);
    if (ret->type == TAR_FILE && *raw && raw[strlen(raw) - 1] == '/')
        ret->type = TAR_DIRECTORY; /* as programs before ustar said it */
    if (!*ret->path && ret->type != TAR_DIRECTORY)
        return tar_fail(t, -EINVAL, "entry '%s': an empty name", raw);
    if (ret->type == TAR_HARDLINK &&
        (path_normalize(raw_link, ret->link, sizeof(ret->link)) < 0 || !*ret->link))
        return tar_fail(t, -EPERM, "entry '%s': a hard link out of the archive's root", raw);
    if (ret->type == TAR_SYMLINK && !*raw_link)
        return tar_fail(t, -EINVAL, "entry '%s': a symbolic link to nothing", raw);
    if (ret->type == TAR_SYMLINK)
        snprintf(ret->link, sizeof(ret->link), "%s", raw_link);
    return 0;
}

/* Makes the entry of a header block and what extended headers said. */
static int entry_make(struct tar *t, const uint8_t *block, const struct extended *x,
                      struct tar_entry *ret)
{
    char raw[TAR_PATH_MAX + 1], raw_link[TAR_PATH_MAX + 1];
    uint64_t mode = 0644, mtime = 0;
    header_path(block, raw);
    copy_field(block, f_link, raw_link);
    const char *path = x->has_path ? x->path : raw, *link = x->has_link ? x->link : raw_link;
    if (entry_type((char)block[TYPE_AT], &ret->type) < 0)
        return tar_fail(t, -EPERM, "entry '%s': a device, fifo or unknown type is not unpacked",
                        path);
    if (x->sparse)
        return tar_fail(t, -EINVAL, "entry '%s': sparse files are not supported", path);
    if (parse_number(block, f_mode, &mode) < 0)
        return tar_fail(t, -EINVAL, "entry '%s': malformed mode", path);
    if (parse_number(block, f_mtime, &mtime) < 0)
        mtime = 0; /* before 1970, or past 64 bits: not worth refusing */
    /* Set-user-id and sticky bits are the archive's wish, not the sandbox's. */
    ret->mode = (mode_t)mode & 0777;
    ret->mtime = x->has_mtime ? x->mtime : (int64_t)mtime;
    return entry_set_names(t, path, link, ret);
}

static int header_read(struct tar *t, uint8_t block[TAR_BLOCK])
{
    int r = tar_skip(t);
    if (r < 0)
        return r;
    r = read_full(t, block, TAR_BLOCK);
    if (r <= 0)
        return r;
    if (all_zero(block))
        return 0;
    if (!checksum_good(block))
        return tar_fail(t, -EINVAL,
                        "not a tar archive: wrong checksum in the header after entry %zu",
                        t->n_entries);
    return 1;
}

static int header_set_data(struct tar *t, const uint8_t *block, const struct extended *x, bool data)
{
    uint64_t size;
    if (parse_number(block, f_size, &size) < 0)
        return tar_fail(t, -EINVAL, "malformed size in the header after entry %zu", t->n_entries);
    /* Only entries with data take their size from an extended header. A size on a directory or a
     * link would be skipped by some readers and not by others, and hide entries between the two. */
    if (x->has_size && data)
        size = x->size;
    if (size > TAR_ENTRY_SIZE_MAX || (t->total += size) > TAR_TOTAL_SIZE_MAX)
        return tar_fail(t, -EFBIG, "the entry after entry %zu is too large", t->n_entries);
    t->left = size;
    t->padding = (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
    return 0;
}

static bool is_entry_with_data(char type)
{
    return type == '0' || type == 0 || type == '7';
}

int tar_next(struct tar *t, struct tar_entry *ret)
{
    uint8_t block[TAR_BLOCK];
    _cleanup_free_ struct extended *x = new0(struct extended);
    for (int headers = 0; headers < TAR_HEADERS_MAX; headers++) {
        int r = header_read(t, block);
        if (r <= 0)
            return r;
        char type = (char)block[TYPE_AT];
        r = header_set_data(t, block, x, is_entry_with_data(type));
        if (r < 0)
            return r;
        r = take_extended(t, type, x);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        if (++t->n_entries > TAR_ENTRIES_MAX)
            return tar_fail(t, -EFBIG, "more than %d entries", TAR_ENTRIES_MAX);
        r = entry_make(t, block, x, ret);
        ret->size = ret->type == TAR_FILE ? t->left : 0;
        return r < 0 ? r : 1;
    }
    return tar_fail(t, -EINVAL, "too many extended headers before one entry");
}
