/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a file, one at a time, in a fixed amount of memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LINE_READER_MAX (64 * 1024) /* of one line; what is over is skipped */

struct line_reader {
    int fd;
    size_t pos, len; /* in chunk */
    size_t line_len;
    bool cut;      /* the last line was longer than the buffer */
    bool no_break; /* the last line ended with the file */
    char line[LINE_READER_MAX + 1];
    char chunk[LINE_READER_MAX];
};

/* Heap; borrows fd. */
struct line_reader *line_reader_new(int fd);
/* 1: line and line_len are the next line without its newline, NUL-terminated; 0 if there is none;
 * -errno. */
int line_reader_next(struct line_reader *r);
