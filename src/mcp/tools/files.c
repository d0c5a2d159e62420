/* SPDX-License-Identifier: Apache-2.0 */
/* Tools on texts: read_file, write_file, edit_file, list_files, search_files. Each is one of the
 * operations of tool/file-op.h; here are only arguments and answers. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/tools/file-call.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"

#define LINES_DEFAULT   2000
#define ENTRIES_DEFAULT 500

static const char *string_of(const json_t *o, const char *key, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : otherwise;
}

static json_int_t int_of(const json_t *o, const char *key, json_int_t otherwise)
{
    const json_t *v = json_object_get(o, key);
    return v ? (json_int_t)json_number_value(v) : otherwise;
}

static const char *advise_on_error(enum error_code code)
{
    switch (code) {
    case ERROR_NOT_FOUND:
        return "Check the path with list_files. Relative paths start at /workspace.";
    case ERROR_UNSUPPORTED:
        return "Use download_file for its bytes, or run_command with a program that reads it.";
    default:
        return NULL;
    }
}

static const char *advise_edit(enum error_code code)
{
    switch (code) {
    case ERROR_NOT_FOUND:
        return "Read the file again and copy old_text exactly, with its spaces and line breaks.";
    case ERROR_CONFLICT:
        return "Take more lines around it so that old_text is unique, or set replace_all.";
    default:
        return NULL;
    }
}

static struct file_call make_call(struct mcp_call *call, const char *path_default)
{
    return (struct file_call){
        .call = call,
        .path = string_of(mcp_call_arguments(call), "path", path_default),
        .advise = advise_on_error,
    };
}

/* --- reading */

static void finish_read(struct file_call *c, json_t *answer)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    json_int_t last = int_of(answer, "end_line", 0);
    const char *shown = string_of(answer, "text", "");
    json_object_set_new(answer, "path", json_string(c->path));
    strbuf_puts(&text, shown);
    if (text.len && text.data[text.len - 1] != '\n')
        strbuf_puts(&text, "\n");
    if (json_is_true(json_object_get(answer, "truncated"))) {
        const json_t *total = json_object_get(answer, "total_lines");
        json_object_set_new(answer, "next_line", json_integer(last + 1));
        strbuf_printf(&text, "[lines %lld to %lld", (long long)int_of(answer, "start_line", 1),
                      (long long)last);
        if (json_is_integer(total))
            strbuf_printf(&text, " of %lld", (long long)json_integer_value(total));
        strbuf_printf(&text, "; read on with start_line %lld]\n", (long long)last + 1);
    } else if (!*shown) {
        strbuf_puts(&text, "[nothing there: the file is empty or has fewer lines]\n");
    }
    result_finish(c->call, json_incref(answer), text.data);
}

void tool_read_file(struct mcp_call *call)
{
    const json_t *args = mcp_call_arguments(call);
    struct file_call c = make_call(call, NULL);
    char first[24], count[24], max[24];
    c.finish = finish_read;
    snprintf(first, sizeof(first), "%lld", (long long)int_of(args, "start_line", 1));
    snprintf(count, sizeof(count), "%lld", (long long)int_of(args, "max_lines", LINES_DEFAULT));
    snprintf(max, sizeof(max), "%zu", 4 * mcp_call_config(call)->output_bytes);
    file_call_start(&c, file_op_lines(c.path, first, count, max), NULL, 0);
}

/* --- writing */

void file_call_finish_written(struct file_call *c, const struct strbuf *b)
{
    (void)b;
    _cleanup_free_ char *text =
        xasprintf("wrote %llu bytes to %s", (unsigned long long)c->number, c->path);
    result_finish(c->call, json_pack("{s:s, s:I}", "path", c->path, "bytes", (json_int_t)c->number),
                  text);
}

void tool_write_file(struct mcp_call *call)
{
    const json_t *args = mcp_call_arguments(call), *content = json_object_get(args, "content");
    struct file_call c = make_call(call, NULL);
    c.finish_bytes = file_call_finish_written;
    c.number = json_string_length(content);
    const char *mode = json_is_true(json_object_get(args, "executable")) ? "755" : NULL;
    bool append = json_is_true(json_object_get(args, "append"));
    file_call_start(&c, file_op_write(c.path, mode, append), json_string_value(content), c.number);
}

/* The members of args that the runner's builtin takes on its stdin. */
static void start_with_input(const struct file_call *c, struct file_op op, const json_t *args)
{
    _cleanup_strbuf_ struct strbuf input = STRBUF_INIT(RESULT_TEXT_MAX);
    if (json_format(args, &input) < 0)
        mcp_call_finish_text(c->call, true, "The texts are too large: do it in parts.");
    else
        file_call_start(c, op, input.data, input.len);
}

static void finish_edit(struct file_call *c, json_t *answer)
{
    json_object_set_new(answer, "path", json_string(c->path));
    json_int_t n = int_of(answer, "replacements", 0);
    _cleanup_free_ char *text =
        xasprintf("replaced %lld time%s in %s, first in line %lld", (long long)n, n == 1 ? "" : "s",
                  c->path, (long long)int_of(answer, "line", 0));
    result_finish(c->call, json_incref(answer), text);
}

void tool_edit_file(struct mcp_call *call)
{
    struct file_call c = make_call(call, NULL);
    c.finish = finish_edit;
    c.advise = advise_edit;
    start_with_input(&c, file_op_edit(c.path), mcp_call_arguments(call));
}

/* --- listing and searching */

static void finish_list(struct file_call *c, json_t *answer)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    json_t *entries = json_object_get(answer, "entries"), *e, *shown = json_array();
    size_t total = json_array_size(entries), i;
    bool more = json_is_true(json_object_get(answer, "truncated")) || total > c->number;
    json_array_foreach(entries, i, e)
    {
        if (i >= c->number)
            break;
        const char *target = string_of(e, "target", NULL);
        json_object_del(e, "name");
        json_array_append(shown, e);
        strbuf_printf(&text, "%-9s %10lld  %s%s%s\n", string_of(e, "type", ""),
                      (long long)int_of(e, "size", 0), string_of(e, "path", ""),
                      target ? " -> " : "", target ? target : "");
    }
    if (more)
        strbuf_puts(&text, "[there are more: list a directory below, or raise max_entries]\n");
    if (!total)
        strbuf_puts(&text, "[empty]\n");
    result_finish(
        c->call, json_pack("{s:s, s:o, s:b}", "path", c->path, "entries", shown, "truncated", more),
        text.data);
}

void tool_list_files(struct mcp_call *call)
{
    const json_t *args = mcp_call_arguments(call);
    struct file_call c = make_call(call, ".");
    c.finish = finish_list;
    c.number = (uint64_t)int_of(args, "max_entries", ENTRIES_DEFAULT);
    file_call_start(&c, file_op_list(c.path, json_is_true(json_object_get(args, "recursive"))),
                    NULL, 0);
}

static void finish_search(struct file_call *c, json_t *answer)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    json_t *matches = json_object_get(answer, "matches"), *m;
    size_t i;
    json_array_foreach(matches, i, m)
        strbuf_printf(&text, "%s:%lld:%s\n", string_of(m, "path", ""),
                      (long long)int_of(m, "line", 0), string_of(m, "text", ""));
    if (!json_array_size(matches))
        strbuf_printf(&text, "[no match in %lld files]\n",
                      (long long)int_of(answer, "files_searched", 0));
    if (json_is_true(json_object_get(answer, "truncated")))
        strbuf_puts(&text, "[there are more: narrow path, glob or pattern]\n");
    result_finish(c->call, json_incref(answer), text.data);
}

void tool_search_files(struct mcp_call *call)
{
    struct file_call c = make_call(call, ".");
    c.finish = finish_search;
    start_with_input(&c, file_op_search(c.path), mcp_call_arguments(call));
}
