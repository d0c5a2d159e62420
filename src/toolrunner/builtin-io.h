/* SPDX-License-Identifier: Apache-2.0 */
/* What builtins share: one JSON object in, one out, and one shape of failure. */
#pragma once

#include <stddef.h>

#include "base/json.h"

struct stat;
struct strbuf;

#define BUILTIN_INPUT_MAX (64 * 1024 * 1024) /* a 10 MiB file as a JSON string, all escapes */

/* Reads stdin to its end. 0, or -errno (-EFBIG past b->max). */
int builtin_read_input(struct strbuf *b);
/* Prints value and a newline on stdout; returns the exit code 0, or 1 when stdout has no reader. */
int builtin_print(const json_t *value);
/* The failure of a tool (the MAS API) on stdout; result may be NULL. Returns the exit code 1. */
int builtin_tool_failure(const char *code, const char *message, const json_t *result);
/* The failure of a file operation on stderr, coded by errnum. Returns the exit code 1. */
int builtin_failure(int errnum, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Opens a file to read; ret may be NULL. Below 0: the failure is said already. */
int builtin_open_regular(const char *path, struct stat *ret);
/* The same with a code and a message of the caller's. */
int builtin_failure_code(const char *code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
