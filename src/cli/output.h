/* SPDX-License-Identifier: Apache-2.0 */
/* What sbx prints: colours only on a terminal and only without NO_COLOR, names and messages that
 * come from a sandbox or a daemon never with anything that does not show as itself, tables, errors
 * and exit codes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct sbx_error;
struct strbuf;

/* Exit codes that are not a command's own; the others come from base/error.c's table. */
#define EXIT_USAGE       2
#define EXIT_TIMED_OUT   124
#define EXIT_SBX_FAILED  125
#define EXIT_BROKEN_PIPE 141
#define EXIT_OOM_KILLED  137

enum colour { COLOUR_OFF, COLOUR_BOLD, COLOUR_RED, COLOUR_GREEN, COLOUR_YELLOW, _COLOUR_MAX };
const char *colour(enum colour c); /* for stdout; "" where there are none */

/* Prints "sbx: message" on stderr and returns the exit code for it. */
int cli_fail(const struct sbx_error *err);
int cli_fail_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints "sbx: ..." on stderr. */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* sbx's own exit code for a command that ended; explains on stderr when it was not by itself. */
int exit_code_of(const char *status, const char *error, bool has_exit_code, int exit_code);
/* Fills err with code "internal" unless another is given; returns -1. */
int cli_set_error(struct sbx_error *err, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A copy in which what a terminal would obey, or would not show, is written as \xNN, \uNNNN or
 * \UNNNNNNNN: controls, marks of direction, characters without a width, bytes that are not UTF-8.
 * The caller frees it. */
char *printable(const char *text);
/* Whether it has any of that but newlines and tabs. */
bool has_hidden(const char *text);
/* To stdout, with a newline, from column `used` on. What the terminal has no room for (100 columns
 * where there is none) goes on in the next line, at column `indent`: so that no text can put a line
 * of its own at the left edge. Before a space where there is one near the end. */
void print_wrapped(size_t used, size_t indent, const char *text);
/* To stdout, with a newline; flags are jansson's. */
void print_json(const json_t *value, size_t flags);
/* A member as a cell: text, number or true/false; "-" when absent, null or empty. */
char *cell(const json_t *obj, const char *key);

#define TABLE_COLUMNS_MAX 8
struct table {
    size_t columns;
    char ***rows; /* each with `columns` strings */
    size_t n_rows;
};
void table_init(struct table *t, size_t columns, const char *const titles[]);
/* Takes the strings. */
void table_add(struct table *t, char *const cells[]);
/* Prints to stdout and frees. */
void table_print(struct table *t);
