/* SPDX-License-Identifier: Apache-2.0 */
/* File operations of a sandbox: which of the runner's built-in tools each one is, with which
 * arguments, and under which name the gate knows it. Every front end runs them from here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "tool/run.h"

struct error;
struct identity;
struct strbuf;
struct tool_options;

#define FILE_OP_ARGV_MAX 8

/* Strings are borrowed from its maker. */
struct file_op {
    const char *tool;
    const char *argv[FILE_OP_ARGV_MAX];
};

/* Answers of JSON (file_op_answer()). */
struct file_op file_op_list(const char *path, bool recursive);
struct file_op file_op_stat(const char *path);
struct file_op file_op_processes(void);
/* Lines of a text: the first to read, how many, and how many bytes at most, in decimal. */
struct file_op file_op_lines(const char *path, const char *first, const char *count,
                             const char *max_bytes);
/* The same, with {"old_text","new_text","replace_all"} as input. */
struct file_op file_op_edit(const char *path);
/* The same, with {"pattern","literal","ignore_case","glob","max_matches"} as input. */
struct file_op file_op_search(const char *path);
/* No answer but success. */
struct file_op file_op_mkdir(const char *path, bool parents);
struct file_op file_op_move(const char *from, const char *to);
struct file_op file_op_remove(const char *path, bool recursive);
/* Bytes out. offset and length are decimal, or NULL. */
struct file_op file_op_read(const char *path, const char *offset, const char *length);
/* The same, and before the bytes a line of JSON about them (size, etag, offset, length, range,
 * unsatisfiable; {} where the size is not known). range is what follows "bytes=" in HTTP's Range;
 * it counts when if_range is NULL or the file's etag. */
struct file_op file_op_read_headed(const char *path, const char *offset, const char *length,
                                   const char *range, const char *if_range);
struct file_op file_op_tar_read(const char *path);
/* Bytes in. mode is octal, or NULL for 644. */
struct file_op file_op_write(const char *path, const char *mode, bool append);
struct file_op file_op_tar_write(const char *path);

/* Octal digits as file_op_write() takes them; NULL is fine. */
int file_op_check_mode(const char *mode, struct error *err);
/* What run_start() takes. op must live as long as the request is used. */
struct run_request file_op_request(const struct file_op *op, const struct tool_options *o,
                                   const struct identity *who, struct sandbox *sb);
/* What a finished operation printed, at most out->max; negative with err set when it failed. */
int file_op_bytes(struct exec *e, struct strbuf *out, struct error *err);
/* The object that a finished operation answered; NULL with err set when it failed. */
json_t *file_op_answer(struct exec *e, struct error *err);
