/* SPDX-License-Identifier: Apache-2.0 */
/* What a write changes, line by line, for the approver. */
#pragma once

#include <stddef.h>

struct strbuf;

/* Appends a unified diff without file names to out; where the texts are too large for a small diff,
 * one that is correct and longer than it need be. -EFBIG when out is full. */
int diff_lines(const char *before, size_t before_len, const char *after, size_t after_len,
               struct strbuf *out);
