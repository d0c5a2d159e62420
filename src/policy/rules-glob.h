/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns against texts that may have holes (shell/shell.h): the answer is no, maybe or yes.
 *
 * In a name '*' is any text. In a path '*' and '?' do not match a slash, '**' matches anything, and
 * a pattern that ends in a slash and '**' also matches the directory itself. '\' takes the next
 * character as it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum match { MATCH_NO, MATCH_MAYBE, MATCH_YES };

static inline enum match match_and(enum match a, enum match b)
{
    return a < b ? a : b;
}
static inline enum match match_or(enum match a, enum match b)
{
    return a > b ? a : b;
}

/* *budget is how many steps may still be made; when they run out the answer is maybe. */
enum match glob_match_name(const char *pattern, const char *text, size_t *budget);
enum match glob_match_path(const char *pattern, const char *text, size_t *budget);
/* Surely all that can be below a directory of that name, and itself. */
bool glob_covers_tree(const char *pattern, const char *text, size_t *budget);
bool glob_is_literal(const char *pattern);
