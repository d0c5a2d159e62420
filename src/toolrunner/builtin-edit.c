/* SPDX-License-Identifier: Apache-2.0 */
/* fs-edit: replaces one text by another in a file, which must have it exactly once unless all are
 * meant. {"old_text","new_text","replace_all"} on stdin, {"replacements","line","size"} out. It is
 * one step for the caller, so that no other write gets lost between its read and its write. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/replace-file.h"

#define EDIT_MAX (16 * 1024 * 1024) /* of the file, before and after */

struct edit {
    const char *old_text, *new_text;
    bool all;
};

static int parse_edit(const json_t *input, struct edit *e, struct error *err)
{
    int r = json_member_string(input, "old_text", &e->old_text, err);
    if (r < 0)
        return r;
    r = json_member_string(input, "new_text", &e->new_text, err);
    if (r < 0)
        return r;
    r = json_member_bool(input, "replace_all", &e->all, err);
    if (r < 0)
        return r;
    if (!e->old_text || !e->new_text || !*e->old_text)
        return error_field(err, "old_text", "'old_text' and 'new_text' are needed");
    if (strcmp(e->old_text, e->new_text) == 0)
        return error_field(err, "new_text", "'new_text' is the same as 'old_text'");
    return r;
}

static int read_file(const char *path, struct strbuf *b, struct stat *st)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st) < 0)
        return -errno;
    if (!S_ISREG(st->st_mode))
        return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
    return fd_read_all(fd, b);
}

/* How often; *ret_line is the line of the first. */
static size_t count_matches(const struct strbuf *b, const char *text, size_t *ret_line)
{
    size_t n = 0, len = strlen(text);
    const char *at = b->data ? b->data : "", *end = at + b->len;
    *ret_line = 0;
    for (const char *hit; (hit = memmem(at, (size_t)(end - at), text, len)); at = hit + len) {
        if (n++ == 0) {
            *ret_line = 1;
            for (const char *p = b->data; p < hit; p++)
                *ret_line += *p == '\n';
        }
    }
    return n;
}

static int replace_all(const struct strbuf *b, const struct edit *e, struct strbuf *out)
{
    size_t len = strlen(e->old_text);
    const char *at = b->data, *end = at + b->len;
    for (const char *hit; (hit = memmem(at, (size_t)(end - at), e->old_text, len));
         at = hit + len) {
        int r = strbuf_append(out, at, (size_t)(hit - at));
        if (r < 0)
            return r;
        r = strbuf_puts(out, e->new_text);
        if (r < 0)
            return r;
    }
    return strbuf_append(out, at, (size_t)(end - at));
}

static int fill_from_buffer(int fd, void *arg)
{
    const struct strbuf *b = arg;
    return fd_write_all(fd, b->data ? b->data : "", b->len);
}

static int check_count(const char *path, size_t n, bool all)
{
    if (n == 0)
        return builtin_failure_code("not_found", "%s: 'old_text' is not in the file", path);
    if (n > 1 && !all)
        return builtin_failure_code("conflict", "%s: 'old_text' is there %zu times", path, n);
    return 0;
}

int builtin_fs_edit(int argc, char **argv)
{
    struct error err = {0};
    struct edit e = {0};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BUILTIN_INPUT_MAX);
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: fs-edit PATH");
    if (builtin_read_input(&text) < 0)
        return builtin_failure_code("too_large", "the texts are too large");
    _cleanup_json_ json_t *input = json_parse_object(text.data ? text.data : "", text.len, &err);
    if (!input || parse_edit(input, &e, &err) < 0)
        return builtin_failure_code("invalid_request", "%s", err.message);
    const char *path = argv[1];
    struct stat st;
    size_t line;
    _cleanup_strbuf_ struct strbuf before = STRBUF_INIT(EDIT_MAX), after = STRBUF_INIT(EDIT_MAX);
    int r = read_file(path, &before, &st);
    if (r < 0)
        return builtin_failure(-r, "%s", path);
    size_t n = count_matches(&before, e.old_text, &line);
    if (check_count(path, n, e.all))
        return 1;
    r = replace_all(&before, &e, &after);
    if (r < 0)
        return builtin_failure(-r, "%s", path);
    r = replace_file(path, st.st_mode & 07777, fill_from_buffer, &after);
    if (r < 0)
        return builtin_failure(-r, "%s", path);
    _cleanup_json_ json_t *o = json_pack("{s:I, s:I, s:I}", "replacements", (json_int_t)n, "line",
                                         (json_int_t)line, "size", (json_int_t)after.len);
    return builtin_print(o);
}
