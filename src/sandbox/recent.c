/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/recent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"

#define RECENT_MAGIC        0x31434552
#define RECENT_SWITCH_BYTES (256 * 1024)       /* a file that is larger is left for the other */
#define RECENT_EMPTY_BYTES  (64 * 1024)        /* a smaller one is emptied without hurry */
#define RECENT_MAX_BYTES    (64 * 1024 * 1024) /* of a file that cannot be emptied */

static const char *const part_names[] = {"recent-0.log", "recent-1.log"};

struct header {
    uint32_t magic;
    uint32_t len; /* of the body behind it */
    uint64_t seq;
    uint64_t sum; /* of the rest of the header, and the body */
    char key[RECENT_KEY_SIZE];
};
static_assert(sizeof(struct header) == 48, "headers are written as they are");

struct part {
    int fd;
    uint64_t size;
    uint64_t first_seq; /* 0: empty */
    size_t pending;     /* entries that the database does not have */
    bool torn;          /* behind size there is half an entry */
};

struct recent {
    struct part parts[2];
    unsigned current;
    uint64_t last_seq;
    bool said_full;
};

/* After power loss a file may have its length and not its bytes. */
static uint64_t add_sum(uint64_t sum, const void *data, size_t len)
{
    const char *p = data;
    for (uint64_t word; len; p += sizeof(word)) {
        size_t n = len < sizeof(word) ? len : sizeof(word);
        word = 0;
        memcpy(&word, p, n);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 32;
        len -= n;
    }
    return sum;
}

static uint64_t entry_sum(const struct header *h, const void *body)
{
    uint64_t sum = h->seq ^ (uint64_t)h->len << 32;
    return add_sum(add_sum(sum, h->key, sizeof(h->key)), body, h->len);
}

/* --- what was left */

/* The entry at the start of data, or false where there is none. */
static bool read_entry(const char *data, size_t len, struct header *ret)
{
    if (len < sizeof(*ret))
        return false;
    memcpy(ret, data, sizeof(*ret));
    return ret->magic == RECENT_MAGIC && ret->len <= len - sizeof(*ret) &&
           ret->key[sizeof(ret->key) - 1] == '\0' &&
           ret->sum == entry_sum(ret, data + sizeof(*ret));
}

static int map_part(const struct part *p, char **ret, struct error *err)
{
    if (!p->size)
        return 0;
    void *data = mmap(NULL, p->size, PROT_READ, MAP_PRIVATE, p->fd, 0);
    if (data == MAP_FAILED)
        return error_set(err, ERROR_UNAVAILABLE, errno, "read the log of recent commands");
    *ret = data;
    return 0;
}

static int take_back(struct part *p)
{
    p->torn = ftruncate(p->fd, (off_t)p->size) < 0;
    return p->torn ? -errno : 0;
}

static void load_part(struct recent *r, unsigned i, const char *data, recent_entry_fn fn, void *arg)
{
    struct part *p = &r->parts[i];
    struct header h;
    uint64_t at = 0;
    while (at < p->size && read_entry(data + at, p->size - at, &h)) {
        p->pending++;
        r->last_seq = h.seq > r->last_seq ? h.seq : r->last_seq;
        fn(arg, h.key, data + at + sizeof(h), h.len, i + 1);
        at += sizeof(h) + h.len;
    }
    if (at == p->size)
        return;
    log_info("%s: %llu bytes of an unfinished entry are left out", part_names[i],
             (unsigned long long)(p->size - at));
    p->size = at;
    take_back(p);
}

static int load_entries(struct recent *r, recent_entry_fn fn, void *arg, struct error *err)
{
    char *data[2] = {NULL, NULL};
    size_t len[2] = {r->parts[0].size, r->parts[1].size};
    struct header h;
    int e = map_part(&r->parts[0], &data[0], err);
    if (e >= 0)
        e = map_part(&r->parts[1], &data[1], err);
    for (unsigned i = 0; e >= 0 && i < 2; i++)
        r->parts[i].first_seq = len[i] && read_entry(data[i], len[i], &h) ? h.seq : 0;
    /* The older file first: a command that was kept twice, at its start and at its end, must be
     * seen in that order. */
    r->current = r->parts[1].first_seq > r->parts[0].first_seq;
    if (e >= 0) {
        load_part(r, !r->current, data[!r->current], fn, arg);
        load_part(r, r->current, data[r->current], fn, arg);
    }
    for (unsigned i = 0; i < 2; i++)
        if (data[i])
            munmap(data[i], len[i]);
    return e;
}

static int open_part(struct recent *r, int dir_fd, unsigned i, struct error *err)
{
    struct stat st;
    struct part *p = &r->parts[i];
    int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    p->fd = openat(dir_fd, part_names[i], flags, 0600);
    if (p->fd < 0 || fstat(p->fd, &st) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open '%s'", part_names[i]);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_UNAVAILABLE, 0, "'%s' is not a file", part_names[i]);
    p->size = (uint64_t)st.st_size;
    return 0;
}

/* --- writing */

static void empty_part(struct part *p)
{
    if (ftruncate(p->fd, 0) < 0)
        return;
    p->size = p->first_seq = 0;
    p->torn = false;
}

static struct part *part_to_write(struct recent *r)
{
    struct part *p = &r->parts[r->current], *other = &r->parts[!r->current];
    /* A file can be emptied only when the database has all of its entries. So new ones go to the
     * other file as soon as that one is empty, and this one gets the time to become so. */
    if (p->size >= RECENT_SWITCH_BYTES && other->size == 0 && !other->torn) {
        r->current = !r->current;
        p = other;
    }
    return p->torn && take_back(p) < 0 ? NULL : p;
}

static unsigned recent_refuse(struct recent *r, const char *why)
{
    if (!r->said_full)
        log_error("an answer may come before its record, because that cannot be kept: %s", why);
    r->said_full = true;
    return 0;
}

unsigned recent_append(struct recent *r, const char *key, const void *body, size_t len)
{
    struct part *p = r ? part_to_write(r) : NULL;
    struct header h = {.magic = RECENT_MAGIC, .len = (uint32_t)len};
    if (!r)
        return 0;
    if (!p || p->size + sizeof(h) + len > RECENT_MAX_BYTES)
        return recent_refuse(r, p ? "the database does not keep up" : strerror(errno));
    h.seq = r->last_seq + 1;
    strncpy(h.key, key, sizeof(h.key) - 1);
    h.sum = entry_sum(&h, body);
    struct iovec v[2] = {{&h, sizeof(h)}, {(void *)body, len}};
    ssize_t n;
    do
        n = writev(p->fd, v, 2);
    while (n < 0 && errno == EINTR);
    /* Half an entry would hide all that come after it from load_part(), so it is cut off at once,
     * or before the next one is written (torn). */
    if (n != (ssize_t)(sizeof(h) + len)) {
        int error = n < 0 ? errno : ENOSPC;
        take_back(p);
        return recent_refuse(r, strerror(error));
    }
    r->last_seq = h.seq;
    p->first_seq = p->first_seq ? p->first_seq : h.seq;
    p->size += (uint64_t)n;
    p->pending++;
    r->said_full = false;
    return (unsigned)(p - r->parts) + 1;
}

void recent_settle(struct recent *r, unsigned ticket)
{
    if (!r || !ticket)
        return;
    struct part *p = &r->parts[ticket - 1];
    assert(p->pending);
    if (--p->pending == 0 && p->size >= RECENT_EMPTY_BYTES)
        empty_part(p);
}

void recent_tidy(struct recent *r)
{
    for (unsigned i = 0; r && i < 2; i++)
        if (r->parts[i].size && !r->parts[i].pending)
            empty_part(&r->parts[i]);
}

/* --- its life */

void recent_free(struct recent *r)
{
    if (!r)
        return;
    recent_tidy(r);
    fd_close(&r->parts[0].fd);
    fd_close(&r->parts[1].fd);
    free(r);
}

struct recent *recent_open(int dir_fd, recent_entry_fn fn, void *data, struct error *err)
{
    struct recent *r = new0(struct recent);
    r->parts[0].fd = r->parts[1].fd = -1;
    int e = open_part(r, dir_fd, 0, err);
    if (e >= 0)
        e = open_part(r, dir_fd, 1, err);
    if (e >= 0)
        e = load_entries(r, fn, data, err);
    if (e >= 0)
        return r;
    recent_free(r);
    return NULL;
}
