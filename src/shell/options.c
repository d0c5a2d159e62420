/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over a command's words by the row of its program: options alone, in bundles,
 * abbreviated, with values glued to them or behind them. It never guesses: where the row does not
 * say what a word is, the item says so. */
#include "shell/options.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"

const struct shell_table *const shell_tables[] = {
    &shell_table_basic,
    &shell_table_builtin,
    &shell_table_text,
    &shell_table_git,
    &shell_table_build,
    &shell_table_compile,
    &shell_table_package,
    &shell_table_code,
    &shell_table_wrap,
    &shell_table_other,
    NULL,
};

/* All names in order, because a line may ask for hundreds of them. Made once, by whichever thread
 * reads a line first. */
#define NAMES_MAX 4096
static struct name {
    const char *text;
    size_t len;
    const struct shell_program *row;
} names[NAMES_MAX];
static size_t n_names;

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void add_names(const struct shell_program *row)
{
    for (const char *p = row->names; *p;) {
        size_t n = strcspn(p, " ");
        assert(n_names < NAMES_MAX);
        names[n_names++] = (struct name){p, n, row};
        p += n + (p[n] == ' ');
    }
}

static void sort_names(void)
{
    for (const struct shell_table *const *t = shell_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++)
            add_names(&(*t)->rows[i]);
    qsort(names, n_names, sizeof(names[0]), compare_names);
}

const struct shell_program *shell_find_program(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, sort_names);
    struct name key = {name, strlen(name), NULL};
    const struct name *found = bsearch(&key, names, n_names, sizeof(names[0]), compare_names);
    return found ? found->row : NULL;
}

const char *shell_option_parse(const char *p, struct shell_option *ret)
{
    p += strspn(p, " ");
    if (!*p)
        return NULL;
    const char *end = p + strcspn(p, " ");
    *ret = (struct shell_option){.name = p, .len = (size_t)(end - p)};
    if (ret->len > 2 && strchr("!&$%~<>/.|@^=", end[-1])) {
        ret->meaning = end[-1];
        ret->len--;
    }
    if (ret->len > 2 && strchr(":?*", p[ret->len - 1]))
        ret->values = p[--ret->len];
    if (ret->values == ':' && p[ret->len - 1] == ':') {
        ret->values = '2';
        ret->len--;
    }
    return end;
}

/* Of two options that a word may be, the one that does more. */
static int meaning_severity(char meaning)
{
    const char *order = ". ^/<>=@|$%&~!", *found = meaning ? strchr(order, meaning) : order + 1;
    return found ? (int)(found - order) : 0;
}

static bool is_single(const struct shell_program *p)
{
    return p->flags & (PROGRAM_SINGLE | PROGRAM_PREFIX);
}

static bool is_endless(const struct shell_program *p)
{
    return is_single(p) || (p->flags & PROGRAM_ENDLESS);
}

bool shell_is_endless(const char *name)
{
    const struct shell_program *p = shell_find_program(name);
    return p && is_endless(p);
}

/* --- long options */

/* What programs answer to whatever else they can do. */
static bool find_common(const char *name, size_t len, struct shell_option *ret)
{
    static const char common[] = "--help --version";
    *ret = (struct shell_option){.name = "--help", .len = 6, .meaning = '.'};
    return shell_in_list(common, name, len);
}

/* Exact, or an abbreviation of options that all have the same kind of value. */
static bool find_long(const struct shell_program *p, const char *name, size_t len,
                      struct shell_option *ret)
{
    struct shell_option o;
    bool found = false, same = true;
    for (const char *s = p->options; (s = shell_option_parse(s, &o));) {
        if (o.len < len || o.name[1] != '-' || memcmp(o.name, name, len) != 0)
            continue;
        if (o.len == len) {
            *ret = o;
            return true;
        }
        same &= !found || ret->values == o.values;
        if (!found || meaning_severity(o.meaning) > meaning_severity(ret->meaning))
            *ret = o;
        found = true;
    }
    if (found && len > 2)
        return same;
    return find_common(name, len, ret);
}

static bool find_negated(const struct shell_program *p, const char *name, size_t len,
                         struct shell_option *ret)
{
    char word[64];
    if (!(p->flags & PROGRAM_NEGATES) || len <= 5 || len >= sizeof(word) ||
        memcmp(name, "--no-", 5) != 0)
        return false;
    word[0] = word[1] = '-';
    memcpy(word + 2, name + 5, len - 5);
    bool found = find_long(p, word, len - 3, ret);
    ret->values = ret->meaning = 0;
    return found;
}

/* --- words behind a single dash */

static bool find_single(const struct shell_program *p, const char *name, size_t len,
                        struct shell_option *ret)
{
    struct shell_option o;
    for (const char *s = p->options; (s = shell_option_parse(s, &o));)
        if (o.len == len && memcmp(o.name, name, len) == 0) {
            *ret = o;
            return true;
        }
    return find_common(name, len, ret);
}

/* The longest one that the word starts with, or is. A list behind it may hold another option. */
static bool find_prefix(const struct shell_program *p, const char *word, struct shell_option *ret)
{
    struct shell_option o;
    size_t best = 0;
    for (const char *s = p->options; (s = shell_option_parse(s, &o));) {
        bool starts = strncmp(word, o.name, o.len) == 0;
        if (starts && (o.values || !word[o.len]) && o.len > best) {
            *ret = o;
            best = o.len;
        }
    }
    if (best && ret->values == '*' && !ret->meaning && strstr(word + best, ",-"))
        return false;
    return best || find_common(word, strlen(word), ret);
}

/* --- letters */

static bool find_letter(const struct shell_program *p, char letter, struct shell_option *ret)
{
    struct shell_option o;
    for (const char *s = p->options; (s = shell_option_parse(s, &o));)
        if (o.name[1] != '-' && memchr(o.name + 1, letter, o.len - 1)) {
            *ret = o;
            return true;
        }
    return false;
}

/* --- the walk */

static bool is_hole(char c)
{
    return c == SHELL_ANY || c == SHELL_GLOB || c == SHELL_ONE;
}

struct shell_walk shell_walk_start(const struct shell_command *c, const struct shell_program *p,
                                   size_t first)
{
    struct shell_walk w = {.c = c, .p = p, .next = first};
    if ((p->flags & PROGRAM_BUNDLE) && first < c->n_words && !c->words[first].unknown &&
        c->words[first].text[0] && c->words[first].text[0] != '-') {
        w.bundle = c->words[first].text;
        w.old = true;
        w.bundle_word = w.next++;
    }
    return w;
}

static void take_value(struct shell_walk *w, struct shell_item *item, const struct shell_option *o,
                       const char *glued)
{
    item->kind = ITEM_OPTION;
    item->meaning = o->meaning;
    item->value = glued;
    item->value_word = item->word;
    if (!glued && (o->values == ':' || o->values == '2')) {
        /* Values that are words of their own. */
        size_t n = o->values == '2' ? 2 : 1;
        item->value_word = w->next + n - 1;
        item->value = item->value_word < w->c->n_words ? w->c->words[item->value_word].text : NULL;
        w->next += n;
        if (w->next > w->c->n_words)
            w->next = w->c->n_words;
    }
}

static void next_letter(struct shell_walk *w, struct shell_item *item)
{
    struct shell_option o;
    char letter = *w->bundle++;
    const char *rest = *w->bundle ? w->bundle : NULL;
    item->letter = letter;
    if (is_hole(letter) || !find_letter(w->p, letter, &o)) {
        item->kind = is_hole(letter) ? ITEM_HOLE : ITEM_NOT_KNOWN;
        w->bundle = NULL;
        return;
    }
    if (w->old && o.values) {
        take_value(w, item, &o, NULL);
    } else if (o.values) {
        take_value(w, item, &o, rest);
        rest = NULL;
    } else {
        take_value(w, item, &o, NULL);
    }
    w->bundle = rest;
}

static bool has_hole(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (is_hole(s[i]))
            return true;
    return false;
}

static void next_long(struct shell_walk *w, struct shell_item *item, const char *t)
{
    struct shell_option o;
    size_t len = strcspn(t, "=");
    const char *glued = t[len] ? t + len + 1 : NULL;
    const char *name = is_single(w->p) && t[1] == '-' ? t + 1 : t;
    bool known;
    if (has_hole(t, len)) {
        item->kind = ITEM_HOLE;
        return;
    }
    if (w->p->flags & PROGRAM_SINGLE)
        known =
            find_single(w->p, name, len - (size_t)(name - t), &o) || find_single(w->p, t, len, &o);
    else
        known = find_long(w->p, t, len, &o) || find_negated(w->p, t, len, &o);
    if (known)
        take_value(w, item, &o, glued);
    else
        item->kind = ITEM_NOT_KNOWN;
}

static void next_prefix(struct shell_walk *w, struct shell_item *item, const char *t)
{
    struct shell_option o;
    if (!find_prefix(w->p, t, &o)) {
        item->kind = has_hole(t, strlen(t)) ? ITEM_HOLE : ITEM_NOT_KNOWN;
        return;
    }
    const char *glued = strlen(t) > o.len ? t + o.len : NULL;
    take_value(w, item, &o, glued && *glued == '=' ? glued + 1 : glued);
}

/* May the word turn out to be an option, or more than one word? */
static bool is_open(const struct shell_word *word)
{
    return is_hole(word->text[0]) || (word->splits && strchr(word->text, SHELL_ANY));
}

static void next_operand(struct shell_walk *w, struct shell_item *item)
{
    item->kind = ITEM_OPERAND;
    item->nth = ++w->operands;
    item->value = w->c->words[item->word].text;
    item->value_word = item->word;
    if (w->p->flags & (PROGRAM_RUNS | PROGRAM_SUBS | PROGRAM_SCRIPT | PROGRAM_FIRST))
        w->ended = true;
}

bool shell_walk_next(struct shell_walk *w, struct shell_item *ret)
{
    *ret = (struct shell_item){.word = w->bundle ? w->bundle_word : w->next};
    if (w->bundle) {
        next_letter(w, ret);
        return true;
    }
    if (w->next >= w->c->n_words)
        return false;
    const struct shell_word *word = &w->c->words[w->next++];
    const char *t = word->text;
    if (w->ended || ((t[0] != '-' || !t[1]) && !is_open(word) &&
                     !((w->p->flags & PROGRAM_PREFIX) && t[0] == '@'))) {
        next_operand(w, ret);
    } else if (is_open(word)) {
        ret->kind = ITEM_HOLE;
        ret->nth = ++w->operands;
    } else if (!word->unknown && strcmp(t, "--") == 0) {
        /* find and compilers go on reading options behind it. */
        w->ended = !is_endless(w->p);
        w->dashes = ret->word;
        return shell_walk_next(w, ret);
    } else if (w->p->flags & PROGRAM_PREFIX) {
        next_prefix(w, ret, t);
    } else if (t[1] == '-' || is_single(w->p)) {
        next_long(w, ret, t);
    } else {
        w->bundle = t + 1;
        w->bundle_word = ret->word;
        next_letter(w, ret);
    }
    return true;
}
