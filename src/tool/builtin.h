/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner's built-in tools answer: data on stdout, and on failure exit 1 with one line of
 * JSON
 * {"code","message"} on stderr. */
#pragma once

#include <stddef.h>

struct error;
struct exec;

/* 0 when the finished exec succeeded, else its error. */
int builtin_check(struct exec *e, struct error *err);
/* The same where the caller took its stderr from a sink. */
int builtin_check_text(struct exec *e, const char *text, size_t len, struct error *err);
