/* Reads only while nothing waits to be served, so that a fast writer is held back by its own pipe.
 */
#include "daemon/line-mode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"

#define READ_BYTES (64 * 1024)

struct line_mode {
    uv_poll_t poll;
    uv_idle_t idle; /* instead of poll where stdin is a regular file, which epoll refuses */
    bool polls;
    struct api *api;
    struct strbuf in;
    size_t max_line;
    bool busy;     /* a request is being served */
    bool serving;  /* inside serve(): an answer that comes at once does not nest */
    bool skipping; /* inside a line that was too long */
    bool eof, ended;
    void (*on_end)(void *data);
    void *data;
};

static void serve(struct line_mode *l);
static void on_readable(uv_poll_t *poll, int status, int events);
static void on_idle(uv_idle_t *idle);

static void watch_input(struct line_mode *l, bool on)
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

static void write_line(const char *line, size_t len)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(len + 1);
    strbuf_append(&out, line, len);
    strbuf_append(&out, "\n", 1);
    fd_set_nonblock(STDOUT_FILENO, false);
    if (fd_write_all(STDOUT_FILENO, out.data, out.len) < 0)
        log_error("stdout cannot be written: %s", strerror(errno));
}

static void on_answer(void *data, const char *line, size_t len)
{
    struct line_mode *l = data;
    write_line(line, len);
    l->busy = false;
    serve(l);
}

static void reject_long_line(struct line_mode *l)
{
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "{\"id\":\"\",\"error\":\"invalid request: a line is over %zu bytes\","
                     "\"exit_code\":1,\"duration\":\"0s\"}",
                     l->max_line);
    write_line(text, (size_t)n);
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!line[i] || !strchr(" \t\r", line[i]))
            return false;
    return true;
}

/* Takes one line out of the buffer and serves it. False when there is none. */
static bool take_line(struct line_mode *l)
{
    char *end = l->in.len ? memchr(l->in.data, '\n', l->in.len) : NULL;
    if (!end && l->in.len > l->max_line) {
        if (!l->skipping)
            reject_long_line(l);
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
    if (len > l->max_line) {
        reject_long_line(l);
    } else if (!skip) {
        l->busy = true;
        api_line(l->api, line, len, on_answer, l);
    }
    return true;
}

static void serve(struct line_mode *l)
{
    if (l->serving)
        return;
    l->serving = true;
    while (!l->busy && take_line(l))
        ;
    l->serving = false;
    if (l->ended)
        return;
    if (l->eof && !l->busy && l->in.len == 0) {
        l->ended = true;
        l->on_end(l->data);
        return;
    }
    watch_input(l, !l->busy && !l->eof);
}

static void read_input(struct line_mode *l)
{
    strbuf_reserve(&l->in, READ_BYTES);
    ssize_t n = read(STDIN_FILENO, l->in.data + l->in.len, READ_BYTES);
    if (n > 0)
        strbuf_commit(&l->in, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        l->eof = true;
    if (l->eof)
        watch_input(l, false);
    serve(l);
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

struct line_mode *line_mode_start(uv_loop_t *loop, struct api *api, size_t max_line,
                                  void (*on_end)(void *data), void *data)
{
    struct line_mode *l = new0(struct line_mode);
    l->api = api;
    l->max_line = max_line;
    l->on_end = on_end;
    l->data = data;
    strbuf_init(&l->in, max_line + 2 * READ_BYTES);
    uv_idle_init(loop, &l->idle);
    l->idle.data = l;
    l->polls = uv_poll_init(loop, &l->poll, STDIN_FILENO) == 0;
    l->poll.data = l;
    watch_input(l, true);
    return l;
}

void line_mode_free(struct line_mode *l)
{
    if (!l)
        return;
    strbuf_done(&l->in);
    free(l);
}
