/* SPDX-License-Identifier: Apache-2.0 */
/* A text as a reader sees it: what does not show is gone, letters in other shapes are letters, a
 * Cyrillic or Greek letter among Latin ones is the Latin one it looks like. Every byte remembers
 * where it came from. */
#include <string.h>

#include "base/alloc.h"
#include "validate/internal.h"

#define WORD_MAX 64

struct word {
    int32_t letters[WORD_MAX];
    char look[WORD_MAX]; /* the Latin letter it looks like, or 0 */
    uint32_t origin[WORD_MAX];
    size_t n;
    bool latin, look_alike;
};

static void put_char(struct view *v, int32_t cp, uint32_t origin)
{
    size_t before = v->text.len;
    validate_put(&v->text, cp);
    for (size_t i = before; i < v->text.len; i++)
        v->origin[i] = origin;
}

static void flush_word(struct view *v, struct word *w)
{
    bool mixed = w->latin && w->look_alike;
    if (mixed && v->n_mixed++ == 0)
        v->mixed_at = w->origin[0];
    for (size_t i = 0; i < w->n; i++) {
        put_char(v, mixed && w->look[i] ? w->look[i] : w->letters[i], w->origin[i]);
    }
    *w = (struct word){0};
}

static bool is_letter(int32_t cp)
{
    return (cp >= 'a' && cp <= 'z') || (cp >= '0' && cp <= '9') || cp >= 0x80;
}

/* One space or one newline for any run of them. */
static void put_space(struct view *v, int32_t cp, uint32_t origin)
{
    char last = v->text.len ? v->text.data[v->text.len - 1] : '\n';
    if (cp == '\r')
        cp = '\n';
    if (last == '\n')
        return;
    if (last != ' ')
        put_char(v, cp == '\n' ? '\n' : ' ', origin);
    else if (cp == '\n')
        v->text.data[v->text.len - 1] = '\n';
}

static void add_letter(struct view *v, struct word *w, int32_t cp, char look, uint32_t origin)
{
    if (w->n == WORD_MAX)
        flush_word(v, w);
    w->letters[w->n] = cp;
    w->look[w->n] = look;
    w->origin[w->n++] = origin;
    w->latin = w->latin || (cp >= 'a' && cp <= 'z');
    w->look_alike = w->look_alike || look;
}

void view_make(struct view *v, const char *text, size_t len)
{
    struct word w = {0};
    *v = (struct view){0};
    strbuf_init(&v->text, 4 * len + 4); /* U+FFFD for a bad byte is three */
    v->origin = xcalloc(4 * len + 4, sizeof(*v->origin));
    for (size_t pos = 0; pos < len;) {
        uint32_t at = (uint32_t)pos;
        int32_t cp = validate_next(text, len, &pos);
        if (cp == 0x2028 || cp == 0x2029)
            cp = '\n';
        if (cp == '\t' || cp == '\n' || cp == '\r') {
            flush_word(v, &w);
            put_space(v, cp == '\t' ? ' ' : cp, at);
            continue;
        }
        enum char_class class = validate_class(cp);
        if (class != CHAR_PLAIN && class != CHAR_INVALID)
            continue;
        char look = validate_look_alike(cp);
        cp = class == CHAR_INVALID ? 0xfffd : validate_fold(cp);
        if (cp < 0)
            continue;
        if (is_letter(cp)) {
            add_letter(v, &w, cp, look, at);
            continue;
        }
        flush_word(v, &w);
        if (cp == ' ')
            put_space(v, cp, at);
        else
            put_char(v, cp, at);
    }
    flush_word(v, &w);
    if (!v->text.data)
        strbuf_puts(&v->text, "");
}

void view_done(struct view *v)
{
    strbuf_done(&v->text);
    free(v->origin);
    *v = (struct view){0};
}
