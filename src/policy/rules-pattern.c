/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as rules write them: words with spaces between, '*' for any words that follow.
 *
 * An allow rule means exactly what it says: the words in their order, nothing before, between or
 * behind them unless there is a '*'. A caller that wants past an ask or deny rule will shuffle, so
 * those mean any command that has the same name, at least the same flags (in any order, bundled,
 * long or abbreviated) and the same operands: plain ones (subcommands) in order behind the name,
 * where only values of flags may come between; ones that look like a path anywhere. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "policy/rules-internal.h"

#define PATTERN_WORDS_MAX 64

/* --- from text */

/* One word at *s; quotes hold words together and keep '*' from its meaning. NULL: a quote is open.
 */
static char *split_word(const char **s)
{
    _cleanup_strbuf_ struct strbuf word = STRBUF_INIT(2 * RULES_PATTERN_MAX);
    char quote = 0;
    for (; **s && (quote || **s != ' '); (*s)++) {
        char c = **s;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            continue;
        }
        if (quote && strchr("*?\\", c))
            strbuf_puts(&word, "\\");
        strbuf_append(&word, &c, 1);
        if (!quote && c == '\\' && (*s)[1])
            strbuf_append(&word, ++*s, 1);
    }
    return quote || word.len > RULES_PATTERN_MAX ? NULL : strbuf_steal(&word);
}

static bool is_star(const char *word)
{
    return strcmp(word, "*") == 0;
}

/* "push:*" is "push *". */
static void split_colon(struct command_pattern *p)
{
    char *last = p->words[p->n_words - 1];
    size_t len = strlen(last);
    if (len <= 2 || strcmp(last + len - 2, ":*") != 0)
        return;
    last[len - 2] = 0;
    p->words[p->n_words++] = xstrdup("*");
}

int command_pattern_parse(const char *text, struct command_pattern *ret)
{
    struct command_pattern p = {.words = xcalloc(PATTERN_WORDS_MAX + 2, sizeof(char *))};
    for (const char *s = text; *s;) {
        s += strspn(s, " ");
        if (!*s)
            break;
        char *word = p.n_words < PATTERN_WORDS_MAX ? split_word(&s) : NULL;
        if (!word) {
            command_pattern_done(&p);
            return -EINVAL;
        }
        p.words[p.n_words++] = word;
    }
    if (p.n_words)
        split_colon(&p);
    p.any = p.n_words == 1 && is_star(p.words[0]);
    if (!p.n_words || !*p.words[0] || (!p.any && is_star(p.words[0]))) {
        command_pattern_done(&p);
        return -EINVAL;
    }
    p.text = xstrdup(text);
    *ret = p;
    return 0;
}

void command_pattern_done(struct command_pattern *p)
{
    strv_free(p->words);
    free(p->text);
    *p = (struct command_pattern){0};
}

/* --- surely */

static bool word_is(const char *pattern, const struct shell_word *w, size_t *budget)
{
    return !w->doubt && !w->splits && glob_match_name(pattern, w->text, budget) == MATCH_YES &&
           (!w->unknown || is_star(pattern));
}

static bool name_is(const char *pattern, const struct shell_command *c, size_t *budget)
{
    if (c->kind == SHELL_NAME_UNKNOWN || c->words[0].doubt)
        return false;
    if (strchr(pattern, '/'))
        return !strstr(c->words[0].text, "..") && word_is(pattern, &c->words[0], budget);
    return c->kind == SHELL_NAME_KNOWN && glob_match_name(pattern, c->name, budget) == MATCH_YES;
}

/* The words in order; the last '*' seen is where to go on from after a mismatch. */
static bool words_are(const struct command_pattern *p, const struct shell_command *c,
                      size_t *budget)
{
    size_t i = 1, k = 1, star = 0, from = 0;
    while (k < c->n_words) {
        if (i < p->n_words && is_star(p->words[i])) {
            star = i++;
            from = k;
        } else if (i < p->n_words && word_is(p->words[i], &c->words[k], budget)) {
            i++;
            k++;
        } else if (star) {
            i = star + 1;
            k = ++from;
        } else {
            return false;
        }
    }
    while (i < p->n_words && is_star(p->words[i]))
        i++;
    return i == p->n_words && (!c->more || is_star(p->words[p->n_words - 1]));
}

/* How many words the pattern gives by themselves before anything goes. */
static size_t named_words(const struct command_pattern *p)
{
    size_t n = 0;
    while (n < p->n_words && glob_is_literal(p->words[n]))
        n++;
    return n;
}

bool command_pattern_covers(const struct command_pattern *p, const struct shell_command *c,
                            size_t *budget)
{
    if (p->any)
        return true;
    if (!c->n_words || !name_is(p->words[0], c, budget) || !words_are(p, c, budget))
        return false;
    return !c->opaque || (c->opaque_word != SHELL_NOT_NAMED && c->opaque_word < named_words(p));
}

/* --- possibly */

static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] && strcmp(word, "--") != 0;
}

/* Flags that many programs have in two forms. */
static const struct {
    char letter;
    const char *name;
} long_forms[] = {
    {'r', "recursive"}, {'R', "recursive"}, {'f', "force"}, {'a', "all"},     {'d', "delete"},
    {'D', "delete"},    {'i', "in-place"},  {'e', "exec"},  {'c', "command"}, {'o', "output"},
};

/* "--rec" is --recursive, as GNU and git have it. */
static bool is_abbreviation(const char *word, const char *name)
{
    size_t n = strcspn(word, "=");
    return n >= 3 && word[0] == '-' && word[1] == '-' && strncmp(word + 2, name, n - 2) == 0;
}

static bool has_letter(const char *word, char letter)
{
    if (word[0] == '-' && word[1] != '-' && strchr(word + 1, letter))
        return true;
    for (size_t i = 0; i < ELEMENTS(long_forms); i++)
        if (long_forms[i].letter == letter && is_abbreviation(word, long_forms[i].name))
            return true;
    if (letter == 'r' || letter == 'R') /* programs that have both mean the same by them */
        return word[0] == '-' && word[1] != '-' && strpbrk(word + 1, "rR");
    return false;
}

static bool has_long(const char *word, const char *flag)
{
    if (is_abbreviation(word, flag + 2))
        return true;
    for (size_t i = 0; i < ELEMENTS(long_forms); i++)
        if (strcmp(long_forms[i].name, flag + 2) == 0 && word[0] == '-' && word[1] != '-' &&
            strchr(word + 1, long_forms[i].letter))
            return true;
    return false;
}

/* Index of the word "--", or behind the last word. */
static size_t find_dashes(const struct shell_command *c)
{
    for (size_t i = 1; i < c->n_words; i++)
        if (!c->words[i].unknown && strcmp(c->words[i].text, "--") == 0)
            return i;
    return c->n_words;
}

/* Index behind the last word that can be a flag. */
static size_t flags_end(const struct shell_command *c)
{
    return c->endless ? c->n_words : find_dashes(c);
}

static bool any_unknown(const struct shell_command *c)
{
    bool unknown = c->more;
    for (size_t i = 1; i < c->n_words; i++)
        unknown |= c->words[i].unknown && (c->words[i].splits || c->words[i].text[0] == SHELL_ANY ||
                                           c->words[i].text[0] == '-');
    return unknown;
}

static enum match meets_letter(const struct shell_command *c, char letter)
{
    size_t end = flags_end(c);
    for (size_t i = 1; i < end; i++)
        if (has_letter(c->words[i].text, letter))
            return MATCH_YES;
    return any_unknown(c) ? MATCH_MAYBE : MATCH_NO;
}

static enum match meets_flag(const struct shell_command *c, const char *flag, size_t *budget)
{
    size_t end = flags_end(c);
    for (size_t i = 1; i < end; i++) {
        const char *t = c->words[i].text;
        if (glob_match_name(flag, t, budget) == MATCH_YES ||
            (flag[1] == '-' && has_long(t, flag)) ||
            (flag[1] != '-' && t[0] == '-' && t[1] == '-' && strcmp(t + 1, flag) == 0))
            return MATCH_YES;
    }
    if (flag[1] == '-' || !glob_is_literal(flag))
        return any_unknown(c) ? MATCH_MAYBE : MATCH_NO;
    enum match m = MATCH_YES;
    for (const char *p = flag + 1; *p; p++)
        m = match_and(m, meets_letter(c, *p));
    return m;
}

static bool is_path_like(const char *word)
{
    return strchr("/~.", word[0]) || strchr(word, '/') || !glob_is_literal(word);
}

/* The directory of names that the shell finds in it; NULL where the last part is more than that. */
static char *directory_of_glob(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char holes[] = {SHELL_GLOB, SHELL_ONE, '.', 0};
    if (!slash || !slash[1] || strspn(slash + 1, holes) != strlen(slash + 1))
        return NULL;
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static enum match meets_either(const char *pattern, const char *path, size_t *budget)
{
    enum match m = glob_match_name(pattern, path, budget);
    _cleanup_free_ char *directory = directory_of_glob(path);
    return directory ? match_or(m, glob_match_name(pattern, directory, budget)) : m;
}

/* An absolute pattern means the path, any other what is left of it below the place. */
static enum match meets_from(const char *pattern, const char *text, const char *cwd, size_t *budget)
{
    _cleanup_free_ char *path = rules_word_path(NULL, text, cwd);
    if (pattern[0] == '/')
        return meets_either(pattern, path, budget);
    const char *below = cwd ? path_below(cwd, path) : NULL;
    return below && *below ? meets_either(pattern, below, budget) : MATCH_NO;
}

/* As it is written, and as the path it means from any place where the command may be. */
static enum match meets_path(const char *pattern, const char *text, char *const *cwds,
                             size_t *budget)
{
    size_t len = strlen(text);
    _cleanup_free_ char *bare = xstrndup(text, len > 1 && text[len - 1] == '/' ? len - 1 : len);
    enum match m =
        match_or(meets_either(pattern, text, budget), meets_either(pattern, bare, budget));
    if (strncmp(pattern, "./", 2) == 0)
        pattern += 2;
    if (m == MATCH_YES || pattern[0] == '~' || text[0] == '~')
        return m;
    if (!cwds)
        return match_or(m, meets_from(pattern, text, NULL, budget));
    for (; *cwds && m < MATCH_YES; cwds++)
        m = match_or(m, meets_from(pattern, text, *cwds, budget));
    return m;
}

static enum match meets_anywhere(const char *pattern, const struct shell_command *c,
                                 char *const *cwds, size_t *budget)
{
    enum match m = c->more ? MATCH_MAYBE : MATCH_NO;
    for (size_t i = 1; i < c->n_words && m < MATCH_YES; i++) {
        m = match_or(m, meets_path(pattern, c->words[i].text, cwds, budget));
        const char *equals = strchr(c->words[i].text, '=');
        if (equals) /* of=/dev/sda, --file=x */
            m = match_or(m, meets_path(pattern, equals + 1, cwds, budget));
    }
    return m;
}

/* Steps to the next word that is operand `pattern`, from *k on. */
static enum match meets_next(const char *pattern, const struct shell_command *c, size_t *k,
                             size_t *budget)
{
    bool value = false; /* the word may be the value of the flag before it */
    bool flags = true;
    for (; *k < c->n_words; (*k)++) {
        const struct shell_word *w = &c->words[*k];
        if (flags && !w->unknown && strcmp(w->text, "--") == 0) {
            flags = c->endless;
            value = false;
            continue;
        }
        if (flags && is_flag(w->text)) {
            value = !strchr(w->text, '=');
            continue;
        }
        enum match m = glob_match_name(pattern, w->text, budget);
        if (w->unknown && w->splits)
            m = match_or(m, MATCH_MAYBE);
        if (m != MATCH_NO) {
            (*k)++;
            return m;
        }
        if (!value)
            return MATCH_NO;
        value = false;
    }
    return c->more ? MATCH_MAYBE : MATCH_NO;
}

static enum match meets_dashes(const struct shell_command *c)
{
    if (find_dashes(c) < c->n_words)
        return MATCH_YES;
    return any_unknown(c) ? MATCH_MAYBE : MATCH_NO;
}

/* How many words are still open; as many as one likes when one of them can become several. */
static size_t unknown_words(const struct shell_command *c)
{
    size_t n = 0;
    for (size_t i = 1; i < c->n_words; i++) {
        if (c->words[i].unknown && c->words[i].splits)
            return SIZE_MAX;
        n += c->words[i].unknown;
    }
    return c->more ? SIZE_MAX : n;
}

/* In *ret_sure: how many of the pattern's words are there whatever the unknown words are. */
static enum match meets_arguments(const struct command_pattern *p, const struct shell_command *c,
                                  char *const *cwds, size_t *ret_sure, size_t *budget)
{
    enum match m = MATCH_YES;
    *ret_sure = 0;
    size_t k = 1, operands = 0, flags = 0; /* that only unknown words can be */
    for (size_t i = 1; i < p->n_words && m != MATCH_NO; i++) {
        const char *word = p->words[i];
        enum match one = MATCH_YES;
        if (is_star(word))
            continue;
        if (strcmp(word, "--") == 0)
            one = meets_dashes(c);
        else if (is_flag(word))
            one = meets_flag(c, word, budget);
        else if (is_path_like(word))
            one = meets_anywhere(word, c, cwds, budget);
        else
            one = meets_next(word, c, &k, budget);
        *ret_sure += one == MATCH_YES;
        flags |= one == MATCH_MAYBE && is_flag(word);
        operands += one == MATCH_MAYBE && !is_flag(word);
        m = match_and(m, one);
    }
    /* A word that stays one word is either a flag or one operand. */
    return m == MATCH_MAYBE && flags + operands > unknown_words(c) ? MATCH_NO : m;
}

static bool has_arguments(const struct command_pattern *p)
{
    for (size_t i = 1; i < p->n_words; i++)
        if (!is_star(p->words[i]))
            return true;
    return false;
}

static enum match meets_name(const struct command_pattern *p, const struct shell_command *c,
                             bool named, size_t *budget)
{
    const char *pattern = p->words[0];
    enum match m = glob_match_name(pattern, c->name, budget);
    if (strchr(pattern, '/'))
        m = match_or(m, glob_match_name(pattern, c->words[0].text, budget));
    if (c->kind == SHELL_NAME_UNKNOWN)
        m = match_or(m, MATCH_MAYBE);
    /* A path elsewhere may be a link to it; that is worth a question where the rest fits. */
    if (c->kind == SHELL_NAME_PATH && !named && has_arguments(p))
        m = match_or(m, MATCH_MAYBE);
    return m;
}

/* False: the budget does not last for a look at the arguments. */
static bool pay_for_arguments(const struct command_pattern *p, const struct shell_command *c,
                              size_t *budget)
{
    size_t cost = 16 * c->n_words * p->n_words;
    *budget -= cost < *budget ? cost : *budget;
    return *budget > 0;
}

/* What a word names as a program. An unknown part may have a slash in it, so that what is before
 * such a part says nothing. */
static const char *name_in_word(const struct shell_word *w)
{
    const char *slash = strrchr(w->text, '/'), *hole = strrchr(w->text, SHELL_ANY);
    if (w->unknown && hole && (!slash || hole > slash))
        return hole;
    return slash ? slash + 1 : w->text;
}

/* A name that is not known may be any. That is worth a question where at least one of the pattern's
 * arguments is there for sure; otherwise every variable behind every program would be. */
static bool may_be_named(const struct command_pattern *p, const struct shell_command *c,
                         char *const *cwds, size_t *budget)
{
    size_t sure;
    if (!has_arguments(p) || meets_name(p, c, true, budget) == MATCH_NO)
        return false;
    if (!pay_for_arguments(p, c, budget))
        return true;
    return meets_arguments(p, c, c->moved ? NULL : cwds, &sure, budget) != MATCH_NO && sure > 0;
}

/* A program that is in no table may run its arguments: is one of them what the pattern names, and
 * do the words behind it fit? */
static enum match meets_behind(const struct command_pattern *p, const struct shell_command *c,
                               char *const *cwds, size_t *budget)
{
    for (size_t k = 1; k < c->n_words && *budget; k++) {
        const struct shell_word *w = &c->words[k];
        struct shell_command inner = {.words = c->words + k,
                                      .n_words = c->n_words - k,
                                      .name = name_in_word(w),
                                      .kind = SHELL_NAME_KNOWN,
                                      .more = c->more || (w->unknown && w->splits),
                                      .moved = c->moved};
        if (w->unknown ? may_be_named(p, &inner, cwds, budget)
                       : command_pattern_meets(p, &inner, cwds, true, budget) != MATCH_NO)
            return MATCH_MAYBE;
    }
    return *budget ? MATCH_NO : MATCH_MAYBE;
}

enum match command_pattern_meets(const struct command_pattern *p, const struct shell_command *c,
                                 char *const *cwds, bool named, size_t *budget)
{
    if (p->any)
        return MATCH_YES;
    if (!c->n_words)
        return c->opaque ? MATCH_MAYBE : MATCH_NO;
    enum match m = meets_name(p, c, named, budget);
    if (m == MATCH_NO && c->foreign && !named)
        return meets_behind(p, c, cwds, budget);
    if (m == MATCH_NO)
        return m;
    if (!pay_for_arguments(p, c, budget))
        return MATCH_MAYBE;
    if (c->words[0].unknown && c->words[0].splits)
        return MATCH_MAYBE; /* the name may turn out to be a whole command */
    size_t sure;
    return match_and(m, meets_arguments(p, c, c->moved ? NULL : cwds, &sure, budget));
}
