/* SPDX-License-Identifier: Apache-2.0 */
/* One request at a time: no line is read while another is served. */
#include "daemon/line-mode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "loop/lines.h"

struct line_mode {
    struct lines *lines;
    struct api *api;
    size_t max_line;
    void (*on_end)(void *data);
    void *data;
};

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
    lines_resume(l->lines);
}

static void on_line(void *data, const char *line, size_t len)
{
    struct line_mode *l = data;
    lines_pause(l->lines);
    api_line(l->api, line, len, on_answer, l);
}

static void on_too_long(void *data)
{
    struct line_mode *l = data;
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "{\"id\":\"\",\"error\":\"invalid request: a line is over %zu bytes\","
                     "\"exit_code\":1,\"duration\":\"0s\"}",
                     l->max_line);
    write_line(text, (size_t)n);
}

static void on_end(void *data)
{
    struct line_mode *l = data;
    l->on_end(l->data);
}

struct line_mode *line_mode_start(uv_loop_t *loop, struct api *api, size_t max_line,
                                  void (*end)(void *data), void *data)
{
    static const struct lines_handlers handlers = {on_line, on_too_long, on_end};
    struct line_mode *l = new0(struct line_mode);
    l->api = api;
    l->max_line = max_line;
    l->on_end = end;
    l->data = data;
    l->lines = lines_start(loop, STDIN_FILENO, max_line, &handlers, l);
    return l;
}

void line_mode_free(struct line_mode *l)
{
    if (!l)
        return;
    lines_free(l->lines);
    free(l);
}
