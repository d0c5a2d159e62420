/* SPDX-License-Identifier: Apache-2.0 */
/* Characters that do not show: found, shown and stripped. */
#include <stdio.h>
#include <string.h>

#include "validate/internal.h"

#define ZERO_WIDTH_MANY   8
#define VISIBLE_ROOM      (64 * 1024)
#define ESCAPE_LENGTH_MAX 256
#define FLAG_BASE         0x1f3f4 /* of flags that are spelled in tags */
#define TAG_END           0xe007f

/* Counts of one kind, and its first place. */
struct seen {
    size_t n, first;
};

struct walk {
    struct scan_state *s;
    struct seen control, escape, bidi, mark, zero_width, inside_word, variation, tag, invalid;
    int32_t before;      /* the code point before, 0 at the start */
    size_t n_variations; /* in a row */
    bool in_flag;
};

static void seen_add(struct seen *seen, size_t at)
{
    if (seen->n++ == 0)
        seen->first = at;
}

static bool is_ascii_letter(int32_t cp)
{
    return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
}

static int32_t peek_char(const struct scan_state *s, size_t pos)
{
    return pos < s->len ? validate_next(s->text, s->len, &pos) : 0;
}

/* The length of a terminal's escape sequence at text[at], ESC included. */
static size_t escape_length(const struct scan_state *s, size_t at)
{
    size_t i = at + 1, end = s->len - at > ESCAPE_LENGTH_MAX ? at + ESCAPE_LENGTH_MAX : s->len;
    if (i >= end)
        return 1;
    char kind = s->text[i++];
    if (kind == '[') {
        while (i < end && (unsigned char)s->text[i] >= 0x20 && (unsigned char)s->text[i] < 0x40)
            i++;
        return (i < end ? i + 1 : i) - at;
    }
    if (kind != ']' && kind != 'P' && kind != '_' && kind != '^')
        return 1;
    for (; i < end; i++)
        if (s->text[i] == '\a')
            return i + 1 - at;
        else if (s->text[i] == '\033')
            return (i + 1 < end ? i + 2 : i + 1) - at;
    return 1;
}

/* Whether the character stays, and what is noted of it. */
static bool judge_char(struct walk *w, int32_t cp, enum char_class class, size_t at, size_t next)
{
    int32_t after = peek_char(w->s, next);
    bool in_word = is_ascii_letter(w->before) && is_ascii_letter(after);
    switch (class) {
    case CHAR_PLAIN:
        return true;
    case CHAR_CONTROL:
        seen_add(cp == '\033' || cp == 0x9b ? &w->escape : &w->control, at);
        return false;
    case CHAR_BIDI:
        seen_add(&w->bidi, at);
        return false;
    case CHAR_BIDI_MARK:
        seen_add(&w->mark, at);
        return false;
    case CHAR_JOINER:
        if (!in_word && w->before >= 0x80)
            return true;
        seen_add(in_word ? &w->inside_word : &w->zero_width, at);
        return false;
    case CHAR_ZERO_WIDTH:
        if (at == 0 && cp == 0xfeff)
            return false;
        seen_add(in_word ? &w->inside_word : &w->zero_width, at);
        return false;
    case CHAR_VARIATION:
        if (w->n_variations == 1)
            return true;
        seen_add(&w->variation, at);
        return false;
    case CHAR_TAG:
        if (w->in_flag)
            return true;
        seen_add(&w->tag, at);
        return false;
    case CHAR_INVALID:
        seen_add(&w->invalid, at);
        return false;
    }
    return false;
}

static bool is_stripped(const struct scan_state *s, size_t at)
{
    for (size_t i = 0; i < s->n_strip; i++)
        if (at >= s->strip[i].offset && at - s->strip[i].offset < s->strip[i].length)
            return true;
    return false;
}

static void show_char(struct strbuf *b, int32_t cp, unsigned char byte)
{
    if (cp < 0)
        strbuf_printf(b, "<0x%02X>", byte);
    else
        strbuf_printf(b, "<U+%04X>", (unsigned)cp);
}

/* A sequence that a terminal acts on: its ESC, then what follows as far as that shows. */
static void show_escape(struct strbuf *b, const char *text, size_t len)
{
    show_char(b, '\033', 0);
    for (size_t i = 1; i < len; i++)
        if (text[i] >= ' ' && text[i] < 0x7f)
            strbuf_append(b, &text[i], 1);
        else
            show_char(b, -1, (unsigned char)text[i]);
}

static void step_char(struct walk *w, size_t *pos)
{
    struct scan_state *s = w->s;
    size_t at = *pos;
    int32_t cp = validate_next(s->text, s->len, pos);
    bool space = cp == '\n' || cp == '\t' || cp == '\r';
    enum char_class class = space ? CHAR_PLAIN : validate_class(cp);
    w->n_variations = class == CHAR_VARIATION ? w->n_variations + 1 : 0;
    w->in_flag = cp == FLAG_BASE || (w->in_flag && class == CHAR_TAG && w->before != TAG_END);
    bool keep = judge_char(w, cp, class, at, *pos);
    if (cp == '\033')
        *pos = at + escape_length(s, at);
    size_t n = *pos - at;
    struct validation *v = s->result;
    if (keep && !is_stripped(s, at))
        strbuf_append(&v->sanitized, s->text + at, n);
    else if (cp < 0)
        validate_put(&v->sanitized, 0xfffd);
    if (keep)
        strbuf_append(&v->visible, s->text + at, n);
    else if (cp == '\033')
        show_escape(&v->visible, s->text + at, n);
    else
        show_char(&v->visible, cp, (unsigned char)s->text[at]);
    w->before = cp < 0 ? 0 : cp;
}

static void report_seen(struct walk *w, const struct seen *seen, enum validate_category category,
                        const char *id, enum threat threat, const char *message)
{
    if (!seen->n)
        return;
    char text[64];
    size_t pos = seen->first;
    int32_t cp = validate_next(w->s->text, w->s->len, &pos);
    int n = cp < 0 ? snprintf(text, sizeof(text), "byte 0x%02X, %zu of its kind",
                              (unsigned char)w->s->text[seen->first], seen->n)
                   : snprintf(text, sizeof(text), "U+%04X, %zu of its kind", (unsigned)cp, seen->n);
    scan_add(w->s, category, id, threat, message, seen->first, pos - seen->first, text, (size_t)n);
}

void scan_characters(struct scan_state *s)
{
    struct walk w = {.s = s};
    strbuf_init(&s->result->sanitized, 3 * s->len + 16);
    strbuf_init(&s->result->visible, s->len + VISIBLE_ROOM);
    for (size_t pos = 0; pos < s->len;)
        step_char(&w, &pos);
    report_seen(&w, &w.escape, VALIDATE_CONTROL_CHARACTERS, "terminal_escape", THREAT_HIGH,
                "sequences that a terminal acts on");
    report_seen(&w, &w.control, VALIDATE_CONTROL_CHARACTERS, "control", THREAT_MEDIUM,
                "control characters");
    report_seen(&w, &w.invalid, VALIDATE_CONTROL_CHARACTERS, "invalid_utf8", THREAT_MEDIUM,
                "bytes that are not UTF-8");
    report_seen(&w, &w.inside_word, VALIDATE_CONTROL_CHARACTERS, "zero_width_in_word",
                THREAT_MEDIUM, "characters without width inside words");
    report_seen(&w, &w.zero_width, VALIDATE_CONTROL_CHARACTERS, "zero_width",
                w.zero_width.n >= ZERO_WIDTH_MANY ? THREAT_MEDIUM : THREAT_LOW,
                "characters without width");
    report_seen(&w, &w.variation, VALIDATE_CONTROL_CHARACTERS, "variation_data", THREAT_HIGH,
                "variation selectors in a row, which can carry hidden data");
    report_seen(&w, &w.tag, VALIDATE_CONTROL_CHARACTERS, "tag_characters", THREAT_HIGH,
                "invisible tag characters, which can carry hidden text");
    report_seen(&w, &w.bidi, VALIDATE_BIDI_CHARACTERS, "bidi_control", THREAT_HIGH,
                "characters that change the order in which text shows");
    report_seen(&w, &w.mark, VALIDATE_BIDI_CHARACTERS, "bidi_mark", THREAT_LOW,
                "marks of right-to-left text");
}
