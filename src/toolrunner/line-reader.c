/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/line-reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

struct line_reader *line_reader_new(int fd)
{
    struct line_reader *r = new0(struct line_reader);
    r->fd = fd;
    return r;
}

/* More bytes in the chunk: 1, 0 at the end, or -errno. */
static int refill_buffer(struct line_reader *r)
{
    ssize_t n;
    do
        n = read(r->fd, r->chunk, sizeof(r->chunk));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    r->pos = 0;
    r->len = (size_t)n;
    return n > 0;
}

static void keep_rest(struct line_reader *r, const char *data, size_t n)
{
    size_t room = LINE_READER_MAX - r->line_len;
    if (n > room) {
        r->cut = true;
        n = room;
    }
    memcpy(r->line + r->line_len, data, n);
    r->line_len += n;
}

int line_reader_next(struct line_reader *r)
{
    bool any = false;
    r->line_len = 0;
    r->cut = r->no_break = false;
    for (;;) {
        if (r->pos == r->len) {
            int more = refill_buffer(r);
            if (more < 0)
                return more;
            if (!more) {
                r->no_break = true;
                break;
            }
        }
        any = true;
        const char *from = r->chunk + r->pos, *end = memchr(from, '\n', r->len - r->pos);
        size_t n = end ? (size_t)(end - from) : r->len - r->pos;
        keep_rest(r, from, n);
        r->pos += n + (end ? 1 : 0);
        if (end)
            break;
    }
    r->line[r->line_len] = 0;
    return any;
}
