/* SPDX-License-Identifier: Apache-2.0 */
/* fs-lines PATH FIRST COUNT MAX_BYTES: some lines of a text file. {"text","start_line","end_line",
 * "total_lines","size","truncated","lossy"} out; total_lines is null where counting them all would
 * take too long. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/digits.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/line-reader.h"

#define SCAN_MAX_BYTES (64 * 1024 * 1024) /* read to count the lines behind the wanted ones */

struct window {
    uint64_t first, count;
    struct strbuf text;
    uint64_t line; /* read so far */
    uint64_t taken;
    bool full, binary;
};

/* Takes the line if it is wanted and fits; the first one is taken as far as it fits. */
static void take_line(struct window *w, const struct line_reader *r)
{
    if (w->line < w->first || w->taken >= w->count || w->full)
        return;
    w->binary = w->binary || memchr(r->line, 0, r->line_len);
    size_t n = r->line_len, room = w->text.max - w->text.len;
    if (n + 1 > room && w->taken) {
        w->full = true;
        return;
    }
    w->full = n + 1 > room || r->cut;
    strbuf_append(&w->text, r->line, n + 1 > room ? room - 1 : n);
    if (!r->no_break || w->full)
        strbuf_append(&w->text, "\n", 1);
    w->taken++;
}

/* 1: the end of the file was reached. */
static int read_window(struct window *w, int fd)
{
    _cleanup_free_ struct line_reader *r = line_reader_new(fd);
    uint64_t scanned = 0;
    int more;
    while ((more = line_reader_next(r)) > 0 && !w->binary) {
        w->line++;
        take_line(w, r);
        scanned += r->line_len + 1;
        if (scanned > SCAN_MAX_BYTES && (w->full || w->taken == w->count))
            return 0;
    }
    return more < 0 ? more : 1;
}

static int print_window(const struct window *w, uint64_t size, bool whole)
{
    bool lossy;
    json_t *text = json_string_from_bytes(w->text.data ? w->text.data : "", w->text.len, &lossy);
    uint64_t last = w->taken ? w->first + w->taken - 1 : w->first - 1;
    _cleanup_json_ json_t *o =
        json_pack("{s:o, s:I, s:I, s:o, s:I, s:b, s:b}", "text", text, "start_line",
                  (json_int_t)w->first, "end_line", (json_int_t)last, "total_lines",
                  whole ? json_integer((json_int_t)w->line) : json_null(), "size", (json_int_t)size,
                  "truncated", !whole || w->full || last < w->line, "lossy", lossy);
    return builtin_print(o);
}

int builtin_fs_lines(int argc, char **argv)
{
    struct window w = {0};
    struct stat st;
    uint64_t max;
    if (argc != 5 || decimal_parse(argv[2], &w.first) < 0 || decimal_parse(argv[3], &w.count) < 0 ||
        decimal_parse(argv[4], &max) < 0 || w.first < 1 || max < 1 || max > BUILTIN_INPUT_MAX)
        return builtin_failure_code("invalid_request", "usage: fs-lines PATH FIRST COUNT MAX");
    _cleanup_close_ int fd = builtin_open_regular(argv[1], &st);
    if (fd < 0)
        return 1;
    strbuf_init(&w.text, max);
    int r = read_window(&w, fd), code;
    if (r < 0)
        code = builtin_failure(-r, "%s", argv[1]);
    else if (w.binary)
        code = builtin_failure_code("unsupported", "%s: not a text file", argv[1]);
    else
        code = print_window(&w, (uint64_t)st.st_size, r > 0);
    strbuf_done(&w.text);
    return code;
}
