/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the shell reader: shell.c (results and what is left to do), word.c
 * (words), redirect.c (redirections, here-documents), parse.c (grammar), run.c
 * (builtins and programs that run texts), options.c, walk.c and table-*.c (what
 * options do), program.c (what only code can tell of a program), env.c (assignments).
 */
#pragma once

#include <string.h>

#include "base/strbuf.h"
#include "shell/shell.h"

struct shell_build {
    struct shell *out;
    size_t work;    /* bytes that may still be read */
    size_t n_words; /* of all commands */
    char **defined; /* functions and aliases of the line */
    size_t n_defined;
    bool moves;      /* something changes the directory, and it is not known to which */
    bool loops;      /* something may run more than once */
    bool arithmetic; /* something is evaluated as arithmetic, which runs what its text quotes */
    bool quoted_run; /* a quoted text has a substitution in it */
    bool evaluates;  /* arithmetic is certain, not only possible */
    bool sets_place; /* a text would set PATH or its like if it were arithmetic */
    bool overflow;
    size_t installs; /* 1 + index of the command whose places to install to were looked for last */
};

#define SHELL_PENDING_MAX 16

/* One text being read. */
struct shell_reader {
    struct shell_build *b;
    const char *s;
    size_t len, pos;
    int depth;
    bool bash; /* that reads it, and no other shell */
    bool bad;  /* cannot be read further */
    struct {
        char *delimiter;
        bool strip, live;
        size_t command; /* index of whose input it is; SIZE_MAX: not known yet */
    } pending[SHELL_PENDING_MAX];
    size_t n_pending;
};

static inline int shell_peek(const struct shell_reader *r, size_t ahead)
{
    return r->pos + ahead < r->len ? (unsigned char)r->s[r->pos + ahead] : -1;
}

static inline bool shell_at(const struct shell_reader *r, const char *text)
{
    size_t n = strlen(text);
    return r->len - r->pos >= n && memcmp(r->s + r->pos, text, n) == 0;
}

struct shell_draft { /* a simple command being read */
    struct shell_command c;
    size_t first_pending; /* here-documents from here on are its own */
    bool any;
};

enum shell_stop { STOP_END, STOP_PAREN, STOP_CASE };

/* shell.c */
struct shell_command *shell_add(struct shell_build *b, int depth); /* NULL if there are too many */
void shell_add_opaque(struct shell_build *b, const char *why, int depth);
void shell_add_word(struct shell_build *b, struct shell_command *c, struct shell_word *take);
void shell_define(struct shell_build *b, const char *name);
bool shell_is_made_up_path(const char *text);
bool shell_is_system_path(const char *path); /* of a program in a directory of the system */
void shell_mark(struct shell_command *c, const char *why,
                size_t word); /* opaque; the first stays */
void shell_nested(struct shell_build *b, const char *text, size_t len, int depth, bool bash);
void shell_word_done(struct shell_word *w);
struct shell_word shell_word_copy(const struct shell_word *w);
/* A command of c's words from `first` on, with c's input. NULL if there are too many, or there are
 * none. */
struct shell_command *shell_add_inner(struct shell_build *b, size_t outer, size_t first);
/* The words from `first` on with spaces between; NULL when one of them has a hole. */
char *shell_join(const struct shell_command *c, size_t first);

/* word.c: 1 a word, 0 none here; sets r->bad. */
int shell_read_word(struct shell_reader *r, struct shell_word *ret);
/* What a text that undergoes expansion (a here-document) runs; fills in holes. */
void shell_scan_live(struct shell_build *b, const char *text, size_t len, int depth, bool bash);
/* Reads up to the "))" that ends an arithmetic expression; false when it is not one. */
bool shell_skip_arithmetic(struct shell_reader *r);

/* redirect.c: reads a redirection or here-document, if there is one; blanks. */
bool shell_read_redirection(struct shell_reader *r, struct shell_draft *d);
void shell_skip_blanks(struct shell_reader *r, bool newlines);

/* parse.c: true when it ended at what it should stop at; for STOP_CASE, at esac. */
bool shell_parse_list(struct shell_reader *r, enum shell_stop stop);

/* run.c, program.c, env.c: by index, because the list may move. */
void shell_look_through(struct shell_build *b, size_t index);
/* Is it a long option of bash's, with one dash? */
bool shell_is_long_name(const char *option);
bool shell_knows_program(const char *name); /* by a row, or otherwise */
bool shell_is_endless(const char *name);    /* by its row: "--" does not end its options */
bool shell_is_foreign(const char *name);    /* ... not even without its version */
void shell_look_at_program(struct shell_build *b, size_t index);
void shell_look_at_env(struct shell_build *b, size_t index);
/* walk.c: the words from `first` on by the row of that name, if there is one; the file that
 * an option names. */
struct shell_item;
struct shell_program;
void shell_walk_row(struct shell_build *b, size_t index, const char *name, size_t first);
void shell_add_file(struct shell_build *b, size_t index, const struct shell_program *p,
                    const struct shell_item *item);
/* program.c: code in the program's own language; false: the module is not known; an operand
 * or the value of an option. */
void shell_look_at_code(struct shell_command *c, const struct shell_item *item);
bool shell_look_at_module(struct shell_build *b, size_t index, const struct shell_item *item);
void shell_look_at_value(struct shell_build *b, size_t index, const struct shell_program *p,
                         const struct shell_item *item);
/* Words that count wherever they are, as "@FILE" does. */
void shell_look_at_raw_words(struct shell_command *c, const struct shell_program *p, size_t first);
/* False: it is not known which directory that is. */
bool shell_enter(struct shell_build *b, const char *to);
bool shell_env_changes_meaning(const char *name, size_t len, bool for_others);
/* NAME, NAME=VALUE, NAME+=VALUE or NAME[i]=VALUE is set, for other programs or in the shell. */
void shell_look_at_name(struct shell_command *c, const char *text, bool for_others);
/* Would the text, as arithmetic, set a variable that says where programs and files are? */
bool shell_text_sets_place(const char *text, size_t len);
/* Is that a mode of the shell ("set -o errexit") in which commands mean what they mean without? */
bool shell_is_plain_mode(const char *name);
/* A name without its version: "python3.11" is "python". Into out, at most size. */
void shell_plain_name(const char *name, char *out, size_t size);
