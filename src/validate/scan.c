/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns over views. One walk over the text looks for the words of all patterns, found by their
 * first two bytes; a pattern is tried in a window around its word. A window is larger than any
 * match, and a word well inside a pattern's last window starts no other, so the work is linear in
 * the text whatever it says. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "validate/internal.h"

#define SCAN_MATCH_MAX     384 /* bytes of the longest match */
#define SCAN_WINDOW        (2 * SCAN_MATCH_MAX)
#define SCAN_STEPS_MAX     20000 /* of PCRE2, from one place in the text */
#define SCAN_LOOK_AT_CLOCK 4096  /* bytes between two looks */
#define SCAN_HEAP_KIB      1024
#define SCAN_PER_PATTERN   2 /* matches that are reported of each */
#define WORDS_MAX          1024

struct word {
    const char *text;
    size_t len;
    uint16_t pattern;
};

/* Made once, for all threads, and never changed. */
static struct table {
    pcre2_code **codes;           /* by pattern */
    struct word words[WORDS_MAX]; /* by their first two bytes */
    size_t n_words;
    uint16_t first[0x10000 + 1]; /* of the words that begin with these two bytes */
} table;

static unsigned start_of(const char *text)
{
    return (unsigned)(unsigned char)text[0] << 8 | (unsigned char)text[1];
}

static int compare_words(const void *a, const void *b)
{
    return (int)start_of(((const struct word *)a)->text) -
           (int)start_of(((const struct word *)b)->text);
}

static pcre2_code *compile_pattern(const struct pattern *p)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)p->regex, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &at, NULL);
    if (!code) {
        log_error("validation pattern %s is wrong at %zu", p->id, at);
        abort();
    }
    return code;
}

static void make_table(void)
{
    table.codes = xcalloc(validate_n_patterns, sizeof(pcre2_code *));
    for (size_t i = 0; i < validate_n_patterns; i++) {
        table.codes[i] = compile_pattern(&validate_patterns[i]);
        const char *words = validate_patterns[i].words;
        while (*words) {
            size_t n = strcspn(words, ";");
            assert(n >= 2 && table.n_words < WORDS_MAX);
            table.words[table.n_words++] = (struct word){words, n, (uint16_t)i};
            words += n;
            words += *words == ';';
        }
    }
    size_t w = 0;
    qsort(table.words, table.n_words, sizeof(table.words[0]), compare_words);
    for (unsigned start = 0; start <= 0x10000; start++) {
        table.first[start] = (uint16_t)w;
        while (w < table.n_words && start_of(table.words[w].text) == start)
            w++;
    }
}

/* --- findings */

bool scan_in_time(struct scan_state *s)
{
    if (s->result->complete && clock_mono_ns() > s->deadline_ns)
        s->result->complete = false;
    return s->result->complete;
}

/* One line of at most VALIDATE_EXCERPT_MAX bytes that shows all there is. */
static void fill_excerpt(char out[VALIDATE_EXCERPT_MAX + 1], const char *text, size_t len)
{
    struct strbuf b = STRBUF_INIT(VALIDATE_EXCERPT_MAX);
    for (size_t pos = 0; pos < len;) {
        int32_t cp = validate_next(text, len, &pos);
        size_t before = b.len;
        if (cp == '\n' || cp == '\r' || cp == '\t')
            cp = ' ';
        if (validate_class(cp) == CHAR_PLAIN)
            validate_put(&b, cp);
        if (b.len == before && validate_class(cp) == CHAR_PLAIN)
            break; /* full */
    }
    memcpy(out, b.data ? b.data : "", b.len + 1);
    strbuf_done(&b);
}

void scan_add(struct scan_state *s, enum validate_category category, const char *id,
              enum threat threat, const char *message, size_t offset, size_t length,
              const char *excerpt, size_t excerpt_len)
{
    struct validation *v = s->result;
    if (v->threat < threat)
        v->threat = threat;
    if (v->n_matches == VALIDATE_MATCHES_MAX)
        return;
    struct validate_match *m = &v->matches[v->n_matches++];
    *m = (struct validate_match){.category = category,
                                 .id = id,
                                 .message = message,
                                 .threat = threat,
                                 .offset = offset,
                                 .length = length};
    fill_excerpt(m->excerpt, excerpt, excerpt_len);
}

/* --- one walk */

typedef void (*found_fn)(struct scan_state *s, const struct view *v, size_t pattern, size_t start,
                         size_t end, const struct decoder *d);

/* Of each pattern, how far it has come. */
struct progress {
    size_t floor; /* no match begins before this */
    size_t next;  /* words before this need no window */
    unsigned found;
};

struct walk {
    struct scan_state *s;
    const struct view *v;
    const struct decoder *d;
    found_fn on_found;
    struct progress *progress;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

/* Not inside of a character. */
static size_t align_to_character(const struct strbuf *text, size_t at)
{
    while (at < text->len && ((unsigned char)text->data[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* A word of the pattern is at hit. */
static void try_pattern(struct walk *w, size_t pattern, size_t hit)
{
    const struct strbuf *text = &w->v->text;
    struct progress *p = &w->progress[pattern];
    size_t from = hit > p->floor + SCAN_MATCH_MAX ? hit - SCAN_MATCH_MAX : p->floor;
    size_t to = text->len - hit < SCAN_WINDOW ? text->len : hit + SCAN_WINDOW;
    int r = pcre2_match(table.codes[pattern], (PCRE2_SPTR)text->data, align_to_character(text, to),
                        align_to_character(text, from), PCRE2_NO_UTF_CHECK, w->data, w->context);
    if (r < 0) {
        w->s->result->complete = w->s->result->complete && r == PCRE2_ERROR_NOMATCH;
        p->next = hit + SCAN_WINDOW - SCAN_MATCH_MAX;
        return;
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(w->data);
    w->on_found(w->s, w->v, pattern, place[0], place[1], w->d);
    p->found++;
    p->floor = p->next = place[1] > place[0] ? place[1] : place[1] + 1;
}

static void look_at(struct walk *w, size_t at)
{
    const struct strbuf *text = &w->v->text;
    unsigned start = start_of(text->data + at);
    for (unsigned i = table.first[start]; i < table.first[start + 1]; i++) {
        const struct word *word = &table.words[i];
        const struct progress *p = &w->progress[word->pattern];
        if (at < p->next || p->found >= SCAN_PER_PATTERN || word->len > text->len - at ||
            memcmp(text->data + at, word->text, word->len) != 0)
            continue;
        if (!scan_in_time(w->s))
            return;
        try_pattern(w, word->pattern, at);
    }
}

static void walk_all(struct scan_state *s, const struct view *v, bool squeezed,
                     const struct decoder *d, found_fn on_found)
{
    static uv_once_t once = UV_ONCE_INIT;
    uv_once(&once, make_table);
    struct walk w = {.s = s,
                     .v = v,
                     .d = d,
                     .on_found = on_found,
                     .progress = xcalloc(validate_n_patterns, sizeof(struct progress)),
                     .context = pcre2_match_context_create(NULL),
                     .data = pcre2_match_data_create(1, NULL)};
    assert(w.context && w.data);
    pcre2_set_match_limit(w.context, SCAN_STEPS_MAX);
    pcre2_set_heap_limit(w.context, SCAN_HEAP_KIB);
    /* Patterns that do not apply count as done. */
    for (size_t i = 0; i < validate_n_patterns; i++)
        if (!!(validate_patterns[i].flags & PATTERN_SQUEEZED) != squeezed)
            w.progress[i].found = SCAN_PER_PATTERN;
    for (size_t at = 0; at + 1 < v->text.len; at++) {
        if (at % SCAN_LOOK_AT_CLOCK == 0 && !scan_in_time(s))
            break;
        look_at(&w, at);
    }
    pcre2_match_data_free(w.data);
    pcre2_match_context_free(w.context);
    free(w.progress);
}

/* --- views */

static void on_found_plain(struct scan_state *s, const struct view *v, size_t pattern, size_t start,
                           size_t end, const struct decoder *d)
{
    const struct pattern *p = &validate_patterns[pattern];
    size_t from = v->origin[start], to = end < v->text.len ? v->origin[end] : s->len;
    (void)d;
    s->found[pattern] = true;
    if ((p->flags & PATTERN_STRIP) && s->n_strip < VALIDATE_MATCHES_MAX)
        s->strip[s->n_strip++] = (struct range){from, to - from};
    scan_add(s, p->category, p->id, p->threat, p->message, from, to - from, s->text + from,
             to - from);
}

/* An instruction that was hidden was meant. */
static void on_found_hidden(struct scan_state *s, const struct view *v, size_t pattern,
                            size_t start, size_t end, const struct decoder *d)
{
    const struct pattern *p = &validate_patterns[pattern];
    if (s->found[pattern] || p->threat < THREAT_MEDIUM)
        return;
    scan_add(s, VALIDATE_ENCODING_OBFUSCATION, d->id, THREAT_HIGH, d->message, 0, 0,
             v->text.data + start, end - start);
}

void scan_view(struct scan_state *s, const struct view *v)
{
    walk_all(s, v, false, NULL, on_found_plain);
    if (v->n_mixed)
        scan_add(s, VALIDATE_ENCODING_OBFUSCATION, "mixed_scripts", THREAT_MEDIUM,
                 "words that mix Latin letters with look-alikes of another script", v->mixed_at, 0,
                 s->text + v->mixed_at, s->len - v->mixed_at < 40 ? s->len - v->mixed_at : 40);
}

void scan_hidden(struct scan_state *s, const struct view *v, const struct decoder *d)
{
    walk_all(s, v, d->flags & DECODER_SQUEEZED, d, on_found_hidden);
}
