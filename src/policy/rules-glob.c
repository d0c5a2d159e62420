/* SPDX-License-Identifier: Apache-2.0 */
/* All places of the pattern that the text so far can have led to are carried along, so that a
 * pattern costs at most its length for each byte of text, whatever is in either. Most patterns
 * begin with a directory's name and most texts are elsewhere, which the first bytes tell. */
#include "policy/rules-glob.h"

#include <string.h>

#include "policy/rules.h"
#include "shell/shell.h"

struct glob {
    const char *p;
    size_t len;
    bool path;
    bool now[RULES_PATTERN_MAX + 1], then[RULES_PATTERN_MAX + 1];
};

bool glob_is_literal(const char *pattern)
{
    return !strpbrk(pattern, "*?\\");
}

/* Length of the star at i (1 or 2), or 0. */
static size_t star_at(const struct glob *g, size_t i)
{
    if (i >= g->len || g->p[i] != '*')
        return 0;
    return i + 1 < g->len && g->p[i + 1] == '*' ? 2 : 1;
}

static bool star_takes(const struct glob *g, size_t i, bool slash)
{
    return !slash || !g->path || star_at(g, i) == 2;
}

/* A star may match nothing: then the place behind it is one as well. */
static void glob_add_place(const struct glob *g, bool *set, size_t i)
{
    for (;;) {
        set[i] = true;
        size_t star = star_at(g, i);
        if (!star)
            return;
        i += star;
    }
}

/* Where one element at i leads to for a literal; 0 when it does not match. */
static size_t step_literal(const struct glob *g, size_t i, char c)
{
    if (i >= g->len)
        return 0;
    if (g->p[i] == '?')
        return g->path && c == '/' ? 0 : i + 1;
    size_t escape = g->p[i] == '\\' && i + 1 < g->len;
    return g->p[i + escape] == c ? i + escape + 1 : 0;
}

static void step_byte(struct glob *g, char c)
{
    for (size_t i = 0; i <= g->len; i++) {
        if (!g->now[i])
            continue;
        if (star_at(g, i)) {
            if (star_takes(g, i, c == '/'))
                glob_add_place(g, g->then, i);
        } else if (step_literal(g, i, c)) {
            glob_add_place(g, g->then, step_literal(g, i, c));
        }
    }
}

/* One character that is not known; at the start of a name the shell does not make it a dot. */
static void step_one(struct glob *g, bool dot)
{
    for (size_t i = 0; i < g->len; i++) {
        if (!g->now[i])
            continue;
        size_t escape = g->p[i] == '\\' && i + 1 < g->len;
        if (star_at(g, i))
            glob_add_place(g, g->then, i);
        else if (g->p[i + escape] != '/' && (dot || g->p[i + escape] != '.'))
            glob_add_place(g, g->then, i + escape + 1);
    }
}

/* Any text, or any without a slash: everything behind can be reached, up to a slash. */
static void step_any(struct glob *g, bool slash)
{
    bool on = false;
    for (size_t i = 0; i <= g->len; i++) {
        on |= g->now[i];
        g->then[i] = on;
        size_t star = star_at(g, i);
        if (!slash && !star && i < g->len && g->p[i] == '/')
            on = false;
    }
}

/* What the shell finds for '*' at the start of a name: nothing, or something without a dot first.
 */
static void step_names(struct glob *g, char next)
{
    bool nothing[RULES_PATTERN_MAX + 1];
    memcpy(nothing, g->now, g->len + 1);
    step_one(g, false);
    memcpy(g->now, g->then, g->len + 1);
    memset(g->then, 0, g->len + 1);
    step_any(g, false);
    for (size_t i = 0; next != '.' && i <= g->len; i++)
        g->then[i] |= nothing[i];
}

static bool any_left(const struct glob *g)
{
    return memchr(g->now, true, g->len + 1) != NULL;
}

static bool is_hole(char c)
{
    return c >= SHELL_ANY && c <= SHELL_ONE;
}

/* How many bytes both begin with that mean nothing but themselves. *ret_differ: the next ones mean
 * themselves as well, and differ. */
static size_t common_start(const char *pattern, size_t len, const char *text, bool *ret_differ)
{
    size_t i = 0;
    *ret_differ = false;
    for (; i < len && !strchr("*?\\", pattern[i]) && !is_hole(text[i]); i++)
        if (pattern[i] != text[i]) {
            *ret_differ = true;
            break;
        }
    return i;
}

static enum match glob_run(const char *pattern, size_t len, const char *text, bool path,
                           size_t *budget)
{
    bool differ;
    size_t same = common_start(pattern, len, text, &differ);
    if (differ)
        return MATCH_NO;
    bool holes = false, start = !same || text[same - 1] == '/';
    struct glob g;
    g.p = pattern + same;
    g.len = len -= same;
    g.path = path;
    memset(g.now, 0, len + 1);
    glob_add_place(&g, g.now, 0);
    for (text += same; *text; text++) {
        if (*budget < len + 1) {
            *budget = 0;
            return MATCH_MAYBE;
        }
        *budget -= len + 1;
        memset(g.then, 0, len + 1);
        if (*text == SHELL_GLOB && start)
            step_names(&g, text[1]);
        else if (*text == SHELL_ANY || *text == SHELL_GLOB)
            step_any(&g, *text == SHELL_ANY);
        else if (*text == SHELL_ONE)
            step_one(&g, !start);
        else
            step_byte(&g, *text);
        start = *text == '/';
        holes |= is_hole(*text);
        memcpy(g.now, g.then, len + 1);
        if (!any_left(&g))
            return MATCH_NO;
    }
    if (!g.now[len])
        return MATCH_NO;
    return holes ? MATCH_MAYBE : MATCH_YES;
}

enum match glob_match_name(const char *pattern, const char *text, size_t *budget)
{
    if (strcmp(pattern, "*") == 0)
        return MATCH_YES;
    return glob_run(pattern, strlen(pattern), text, false, budget);
}

/* Names made by the shell from what is in a directory are below that directory. */
static enum match match_below(const char *pattern, size_t len, const char *text, size_t *budget)
{
    const char hole[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    size_t known = strcspn(text, hole);
    if (!text[known] || strchr(text, SHELL_ANY) || len < 3 || strcmp(pattern + len - 3, "/**") != 0)
        return MATCH_NO;
    while (known > 0 && text[known - 1] != '/')
        known--;
    /* ".*" and ".?" can be "..". */
    if (known < 2 || text[known] == '.' || strstr(text + known, "/."))
        return MATCH_NO;
    char directory[RULES_PATTERN_MAX];
    if (known - 1 >= sizeof(directory))
        return MATCH_NO;
    memcpy(directory, text, known - 1);
    directory[known - 1] = 0;
    enum match m = glob_run(pattern, len - 3, directory, true, budget);
    return m == MATCH_YES ? m : glob_run(pattern, len, directory, true, budget);
}

enum match glob_match_path(const char *pattern, const char *text, size_t *budget)
{
    size_t len = strlen(pattern);
    if (strcmp(pattern, "**") == 0)
        return MATCH_YES;
    enum match m = glob_run(pattern, len, text, true, budget);
    if (m != MATCH_YES && len > 3 && strcmp(pattern + len - 3, "/**") == 0)
        m = match_or(m, glob_run(pattern, len - 3, text, true, budget));
    if (m == MATCH_MAYBE && match_below(pattern, len, text, budget) == MATCH_YES)
        m = MATCH_YES;
    return m;
}

/* What '**' ends with goes on below whatever it has matched; '\**' is a star and a name. */
bool glob_covers_tree(const char *pattern, const char *text, size_t *budget)
{
    size_t len = strlen(pattern);
    bool open =
        len >= 2 && strcmp(pattern + len - 2, "**") == 0 && (len == 2 || pattern[len - 3] != '\\');
    return open && glob_match_path(pattern, text, budget) == MATCH_YES;
}
