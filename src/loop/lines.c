/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"

#define READ_BYTES (64 * 1024)

struct lines {
    uv_poll_t poll;
    uv_idle_t idle; /* instead of poll where it is a regular file, which epoll refuses */
    bool polls;
    int fd;
    struct strbuf in;
    size_t max_line;
    bool paused;
    bool serving;  /* inside serve_lines(): what a handler starts does not nest */
    bool skipping; /* inside a line that was too long */
    bool eof, ended;
    const struct lines_handlers *handlers;
    void *data;
};

static void on_readable(uv_poll_t *poll, int status, int events);
static void on_idle(uv_idle_t *idle);

static void watch_input(struct lines *l, bool on)
{
    if (l->polls && on)
        uv_poll_start(&l->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    else if (l->polls)
        uv_poll_stop(&l->poll);
    else if (on)
        uv_idle_start(&l->idle, on_idle);
    else
        uv_idle_stop(&l->idle);
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!line[i] || !strchr(" \t\r", line[i]))
            return false;
    return true;
}

/* Takes one line out of the buffer and serves it. False when there is none. */
static bool take_line(struct lines *l)
{
    char *end = l->in.len ? memchr(l->in.data, '\n', l->in.len) : NULL;
    if (!end && l->in.len > l->max_line) {
        if (!l->skipping)
            l->handlers->on_too_long(l->data);
        l->skipping = true;
        strbuf_reset(&l->in);
        return false;
    }
    if (!end && !(l->eof && l->in.len))
        return false;
    size_t len = end ? (size_t)(end - l->in.data) : l->in.len;
    _cleanup_free_ char *line = xcalloc(1, len + 1);
    memcpy(line, l->in.data, len);
    strbuf_consume(&l->in, end ? len + 1 : len);
    bool skip = l->skipping || is_blank(line, len);
    l->skipping = false;
    if (len > l->max_line)
        l->handlers->on_too_long(l->data);
    else if (!skip)
        l->handlers->on_line(l->data, line, len);
    return true;
}

static void serve_lines(struct lines *l)
{
    if (l->serving)
        return;
    l->serving = true;
    while (!l->paused && take_line(l))
        ;
    l->serving = false;
    if (l->ended)
        return;
    if (l->eof && !l->paused && l->in.len == 0) {
        l->ended = true;
        l->handlers->on_end(l->data);
        return;
    }
    watch_input(l, !l->paused && !l->eof);
}

static void read_input(struct lines *l)
{
    strbuf_reserve(&l->in, READ_BYTES);
    ssize_t n = read(l->fd, l->in.data + l->in.len, READ_BYTES);
    if (n > 0)
        strbuf_commit(&l->in, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        l->eof = true;
    if (l->eof)
        watch_input(l, false);
    serve_lines(l);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    read_input(poll->data);
}

static void on_idle(uv_idle_t *idle)
{
    read_input(idle->data);
}

struct lines *lines_start(uv_loop_t *loop, int fd, size_t max_line,
                          const struct lines_handlers *handlers, void *data)
{
    struct lines *l = new0(struct lines);
    l->fd = fd;
    l->max_line = max_line;
    l->handlers = handlers;
    l->data = data;
    strbuf_init(&l->in, max_line + 2 * READ_BYTES);
    uv_idle_init(loop, &l->idle);
    l->idle.data = l;
    l->polls = uv_poll_init(loop, &l->poll, fd) == 0;
    l->poll.data = l;
    watch_input(l, true);
    return l;
}

void lines_pause(struct lines *l)
{
    l->paused = true;
    watch_input(l, false);
}

void lines_resume(struct lines *l)
{
    l->paused = false;
    serve_lines(l);
}

void lines_free(struct lines *l)
{
    if (!l)
        return;
    strbuf_done(&l->in);
    free(l);
}
