/* SPDX-License-Identifier: Apache-2.0 */
/* Every simple command that a shell line or an argv could run, found without running anything.
 *
 * POSIX sh and the common parts of bash are read: lists, pipes, groups, subshells, substitutions of
 * all kinds, here-documents, control structures, functions; and programs that run other programs
 * are looked through ("sh -c", eval, env, xargs, find -exec, ...). The result is never less than
 * what can run: what a word becomes only at run time is a hole in it, and a command that may run
 * something which the text does not show is marked `opaque`. A text that cannot be read leaves a
 * command without words that is opaque. What shells read differently (sh may be dash or bash) is
 * opaque too, unless bash is called by its name. Time and memory are bounded by the limits below;
 * beyond them, the same. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SHELL_TEXT_MAX        (128 * 1024) /* bytes of one line */
#define SHELL_WORK_MAX        (512 * 1024) /* bytes read in all, with what is nested in strings */
#define SHELL_DEPTH_MAX       24           /* nesting of substitutions, groups, strings, wrappers */
#define SHELL_COMMANDS_MAX    512
#define SHELL_DIRECTORIES_MAX 4    /* that a line changes to; more are not known */
#define SHELL_WORDS_MAX       4096 /* of all commands together */

/* Bytes in a word's text that stand for what is not known. */
#define SHELL_ANY  '\001' /* any text, also none */
#define SHELL_GLOB '\002' /* any text without a slash */
#define SHELL_ONE  '\003' /* one character that is no slash */

struct shell_word {
    char *text;
    bool unknown;  /* has a hole */
    bool splits;   /* may become no word at all, or several */
    bool doubt;    /* shells differ in what it becomes: the text is bash's */
    bool quoted;   /* some of it was */
    size_t assign; /* where the '=' of an assignment is; 0: the word is not one */
};

enum shell_name {
    SHELL_NAME_KNOWN,   /* a bare name, or one in a directory of the system */
    SHELL_NAME_PATH,    /* a path elsewhere: could be a link to anything */
    SHELL_NAME_UNKNOWN, /* a hole, not ASCII, or given another meaning in the same line */
};

struct shell_redirect { /* by the shell, or by an option that names a file */
    struct shell_word target;
    bool write;
    bool inside; /* an option of a command that has leave for it when it may run at all */
};

struct shell_command {
    struct shell_word *words; /* the first is the command's name; none when only redirected */
    size_t n_words;
    enum shell_name kind;
    const char *name;   /* the last component of the first word; NULL without words */
    const char *opaque; /* why it is not known what this runs; NULL when it is */
    size_t opaque_word; /* naming the words up to this one means to know; SHELL_NOT_NAMED if there
                           is none */
    size_t chosen;    /* the word that chooses what it does, as a subcommand; 0 if there is none */
    bool more;        /* more arguments come at run time */
    bool transparent; /* only runs others of this list */
    bool foreign;     /* in no table: it may run its arguments */
    bool endless;     /* "--" does not end its options */
    bool moved;       /* relative names are relative to a directory that is not known */
    struct shell_redirect *redirects;
    size_t n_redirects;
    struct shell_word *assigns; /* NAME=VALUE before the name */
    size_t n_assigns;
    char *here;      /* text of its here-document or here-string; NULL if there is none */
    bool here_live;  /* ... in which the shell expands things */
    bool here_holes; /* ... and not all of it is known */
    bool piped;      /* its input is another one's output */
    size_t source;   /* 1 + index of that one where it is a simple command */
    int depth;
    bool bash; /* read as bash reads it; otherwise by any sh */
};
#define SHELL_NOT_NAMED ((size_t)-1)

struct shell {
    struct shell_command *commands;
    size_t n_commands;
    char **directories; /* what it changes to, in order, where that is known; NULL: nothing */
    size_t n_directories;
};

/* One line, as `sh -c` gets it. */
void shell_parse_line(const char *line, size_t len, struct shell *ret);
/* A command as execve() gets it: its words are what they are. */
void shell_parse_argv(char *const *argv, struct shell *ret);
void shell_done(struct shell *s);

/* Why the words behind the first n of the argv may decide what runs, so that leave for those n says
 * nothing of the rest; NULL: they are only arguments of what the first n name. */
const char *shell_hides_behind(char *const *argv, size_t n);

/* Is this a variable that may change what a command means, as PATH and LD_PRELOAD do: because it is
 * known to, or because it looks like one that programs load code by? */
bool shell_env_is_harmful(const char *name, size_t len);
/* ... because it is known to. */
bool shell_env_is_known(const char *name, size_t len);
/* Is the name among the words of list ("a b c")? */
bool shell_in_list(const char *list, const char *name, size_t len);

/* The words with spaces between them, holes as "<?>", for people. The caller frees it. */
char *shell_command_format(const struct shell_command *c);
