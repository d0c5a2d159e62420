/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of validation, shared by the validate-*.c files only. */
#pragma once

#include "validate/validate.h"

/* --- table.c: what is looked for */

enum pattern_flags {
    PATTERN_STRIP = 1,    /* its text has no place in the sanitized form */
    PATTERN_SQUEEZED = 2, /* for text whose letters were written apart: no spaces are left */
};

struct pattern {
    enum validate_category category;
    const char *id;
    enum threat threat;
    unsigned flags;
    const char *words; /* "ignore;forget": without one of them near by there is no match */
    const char *regex; /* over a view: lower case, one space or newline between words */
    const char *message;
};
extern const struct pattern validate_patterns[];
extern const size_t validate_n_patterns;

/* --- char.c: code points */

void validate_put(struct strbuf *b, int32_t cp);

enum char_class {
    CHAR_PLAIN,
    CHAR_CONTROL,    /* C0, C1 and DEL but for tab, newline and return */
    CHAR_BIDI,       /* changes the order in which text shows */
    CHAR_BIDI_MARK,  /* a mark that right-to-left text may have */
    CHAR_ZERO_WIDTH, /* takes no room */
    CHAR_JOINER,     /* takes no room, and some scripts and emoji need it */
    CHAR_VARIATION,  /* chooses a form of the character before it */
    CHAR_TAG,        /* an invisible copy of ASCII */
    CHAR_INVALID,    /* not UTF-8 */
};
enum char_class validate_class(int32_t cp);
/* The ASCII letter, digit or sign it shows as, -1 for one that shows as nothing, else itself. */
int32_t validate_fold(int32_t cp);
/* The Latin letter that a letter of another script looks like; 0 if there is none. */
char validate_look_alike(int32_t cp);

/* --- view.c: a text as a reader sees it */

struct view {
    struct strbuf text; /* lower case; runs of space are one */
    uint32_t *origin;   /* of each byte of text: where it is in the input */
    size_t n_mixed;     /* words that mix letters of Latin and look-alikes of others */
    size_t mixed_at;    /* the first of them, in the input */
};
void view_make(struct view *v, const char *text, size_t len);
void view_done(struct view *v);

/* --- decode.c: what a text hides. Appends to out, one line for each; how much was decoded. */
enum decoder_flags {
    DECODER_OF_VIEW = 1,   /* reads the view, not the bytes */
    DECODER_SQUEEZED = 2,  /* patterns with PATTERN_SQUEEZED apply, and only they */
    DECODER_RECURSIVE = 4, /* what comes out may be encoded again */
};

struct decoder {
    const char *id;
    const char *message;
    size_t (*decode)(const char *text, size_t len, struct strbuf *out);
    unsigned flags;
};
extern const struct decoder validate_decoders[];
extern const size_t validate_n_decoders;

/* --- scan.c */

struct scan_state {
    struct validation *result;
    const char *text; /* the input */
    size_t len;
    int64_t deadline_ns;
    bool *found; /* by pattern: the input itself has it */
    struct range {
        size_t offset, length;
    } strip[VALIDATE_MATCHES_MAX];
    size_t n_strip;
};

bool scan_in_time(struct scan_state *s);
void scan_add(struct scan_state *s, enum validate_category category, const char *id,
              enum threat threat, const char *message, size_t offset, size_t length,
              const char *excerpt, size_t excerpt_len);
/* All patterns over a view of the input itself. */
void scan_view(struct scan_state *s, const struct view *v);
/* Those that apply, over something that was hidden in it. */
void scan_hidden(struct scan_state *s, const struct view *v, const struct decoder *d);
/* Characters that do not show; also writes the sanitized and the visible form. */
void scan_characters(struct scan_state *s);
