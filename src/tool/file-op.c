/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/file-op.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "policy/policy.h"
#include "tool/builtin.h"
#include "tool/tool.h"

#define ANSWER_MAX (64 * 1024 * 1024)

struct file_op file_op_list(const char *path, bool recursive)
{
    return (struct file_op){"file.list", {"fs-list", path, recursive ? "recursive" : NULL}};
}

struct file_op file_op_stat(const char *path)
{
    return (struct file_op){"file.stat", {"fs-stat", path}};
}

struct file_op file_op_processes(void)
{
    return (struct file_op){"processes", {"ps"}};
}

struct file_op file_op_lines(const char *path, const char *first, const char *count,
                             const char *max_bytes)
{
    return (struct file_op){"file.read", {"fs-lines", path, first, count, max_bytes}};
}

struct file_op file_op_edit(const char *path)
{
    return (struct file_op){"file.write", {"fs-edit", path}};
}

struct file_op file_op_search(const char *path)
{
    return (struct file_op){"file.search", {"fs-search", path}};
}

struct file_op file_op_mkdir(const char *path, bool parents)
{
    return (struct file_op){"file.mkdir", {"fs-mkdir", path, parents ? "parents" : NULL}};
}

struct file_op file_op_move(const char *from, const char *to)
{
    return (struct file_op){"file.move", {"fs-move", from, to}};
}

struct file_op file_op_remove(const char *path, bool recursive)
{
    return (struct file_op){"file.remove", {"fs-remove", path, recursive ? "recursive" : NULL}};
}

struct file_op file_op_read(const char *path, const char *offset, const char *length)
{
    if (length && !offset)
        offset = "0";
    return (struct file_op){"file.read", {"fs-read", path, offset, length}};
}

struct file_op file_op_read_headed(const char *path, const char *offset, const char *length,
                                   const char *range, const char *if_range)
{
    return (struct file_op){"file.read",
                            {"fs-read", path, offset ? offset : "0", length ? length : "", "head",
                             range ? range : "", if_range ? if_range : ""}};
}

struct file_op file_op_tar_read(const char *path)
{
    return (struct file_op){"file.tar.read", {"tar-create", path}};
}

struct file_op file_op_write(const char *path, const char *mode, bool append)
{
    return (struct file_op){
        "file.write", {"fs-write", path, mode ? mode : "644", append ? "append" : "truncate"}};
}

struct file_op file_op_tar_write(const char *path)
{
    return (struct file_op){"file.tar.write", {"tar-extract", path}};
}

int file_op_check_mode(const char *mode, struct error *err)
{
    if (mode && (!*mode || strlen(mode) > 4 || strspn(mode, "01234567") != strlen(mode)))
        return error_field(err, "mode", "'mode' must be octal, such as 644");
    return 0;
}

struct run_request file_op_request(const struct file_op *op, const struct tool_options *o,
                                   const struct identity *who, struct sandbox *sb)
{
    return (struct run_request){
        .manager = o->manager,
        .gate = o->gate,
        .who = who,
        .sandbox = sb,
        .call = {.tool = op->tool, .capabilities = CAPABILITY_FILE},
        .exec = {.argv = (char *const *)op->argv, .builtin = true, .hidden = true}};
}

int file_op_bytes(struct exec *e, struct strbuf *out, struct error *err)
{
    uint64_t omitted;
    size_t gap;
    if (builtin_check(e, err) < 0)
        return -1;
    if (journal_collect(exec_journal(e), OUTPUT_STDOUT, out->max, out, &omitted, &gap) < 0 ||
        omitted)
        return error_set(err, ERROR_TOO_LARGE, 0, "the answer is too large");
    return 0;
}

json_t *file_op_answer(struct exec *e, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ANSWER_MAX);
    if (file_op_bytes(e, &b, err) < 0)
        return NULL;
    return json_parse_object(b.data ? b.data : "", b.len, err);
}
