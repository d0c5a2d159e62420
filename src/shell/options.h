/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do with their options, as data, and the one walk over a command's words by it.
 *
 * A row says of a program which options it has: `-abc` are letters that may be bundled, `--word` a
 * long option that may be abbreviated. Behind the name stands what comes with it:
 *
 *     :   a value, glued to it or the next word       ::  two values, the next words
 *     ?   a value only if it is glued to it           *   any text glued to it (PROGRAM_PREFIX)
 *
 * and behind that what it means:
 *
 *     !   runs code or other programs       &   the words behind it are a command
 *     ~   the value is a line for a shell
 *     $   the value is code in the program's own language        %   ... is a module to run
 *     <   names a file to read    >   names a file to write      /   changes the directory
 *     |   writes outside of the working directory, and does not say where
 *     @   the value is the name of a variable that is set; without a value, another name for one
 *     ^   variables that operands set are set for other programs, too
 *     =   the value is a word for the programs that the row passes words on to
 *     .   only shows something: nothing else is done
 *
 * An option that is not in the row is not known, and neither is then what the command does. A
 * program without a row is judged by its name and words alone. */
#pragma once

#include "shell/shell.h"

enum {
    PROGRAM_RUNS = 1 << 0,    /* behind `operands` operands comes a command */
    PROGRAM_SELF = 1 << 1,    /* ... and the program needs leave of its own */
    PROGRAM_NAMED = 1 << 2,   /* ... which a rule has to name: it may come from elsewhere */
    PROGRAM_ASSIGNS = 1 << 3, /* ... with NAME=VALUE before it */
    PROGRAM_SUBS = 1 << 4,    /* the first operand is a subcommand, with a row "name.sub" */
    PROGRAM_SCRIPT = 1 << 5,  /* the first operand is a file to run; without one, its input is */
    PROGRAM_FIRST = 1 << 6,   /* options end at the first operand */
    PROGRAM_SINGLE = 1 << 7,  /* words behind a single dash, nothing bundled: -name */
    PROGRAM_PREFIX = 1 << 8,  /* the same, with values glued to them, as compilers have it */
    PROGRAM_OPAQUE = 1 << 9,  /* can run others whatever its options are */
    PROGRAM_WRITES = 1 << 10, /* a file that an option has it write is covered by leave to run it */
    PROGRAM_NEGATES = 1 << 11,  /* each --word has a --no-word */
    PROGRAM_CODE = 1 << 12,     /* the first operand is code, unless an option brought some */
    PROGRAM_BUNDLE = 1 << 13,   /* the first word is a bundle of letters without its dash */
    PROGRAM_TARGETS = 1 << 14,  /* operands choose what is run: targets, scripts */
    PROGRAM_SECOND = 1 << 15,   /* a second operand is a file to write */
    PROGRAM_SETS = 1 << 16,     /* operands are names of variables that are set, or NAME=VALUE */
    PROGRAM_EXPORTS = 1 << 17,  /* ... for other programs, too */
    PROGRAM_INSTALLS = 1 << 18, /* writes outside of the working directory */
    PROGRAM_FILES = 1 << 19,    /* a word "@FILE" stands for the words in that file */
    PROGRAM_ENDLESS = 1 << 21,  /* "--" does not end its options */
    PROGRAM_INERT = 1 << 20,    /* never runs any of its words, whatever its options are */
};

struct shell_program {
    const char *names; /* "git.log git.show": separated by spaces */
    unsigned flags;
    size_t operands;
    const char *options;
    const char *passes; /* names of rows: what it starts gets the words behind "--" */
};

struct shell_option {
    const char *name; /* with its dashes; a cluster of letters in the table is several of them */
    size_t len;
    char values; /* 0, or one of : 2 ? * */
    char meaning;
};

/* The tables, each with its length. */
struct shell_table {
    const struct shell_program *rows;
    size_t n;
};
extern const struct shell_table shell_table_basic, shell_table_builtin, shell_table_text,
    shell_table_git, shell_table_build, shell_table_compile, shell_table_package, shell_table_code,
    shell_table_wrap, shell_table_other;
extern const struct shell_table *const shell_tables[]; /* ends with NULL */

/* The row of that name; NULL if there is none. */
const struct shell_program *shell_find_program(const char *name);
/* Reads one option of a row, and returns where the next one starts; NULL at the end. */
const char *shell_option_parse(const char *p, struct shell_option *ret);

enum shell_item_kind {
    ITEM_OPTION,
    ITEM_OPERAND,
    ITEM_NOT_KNOWN, /* an option that is not in the row */
    ITEM_HOLE,      /* a word that may become an option, several of them or an operand */
};

struct shell_item {
    enum shell_item_kind kind;
    size_t word;       /* where it is */
    size_t nth;        /* of the operands, from 1, if it is or may be one */
    size_t value_word; /* where its value is */
    const char *value; /* of an option, or the operand; NULL if there is none */
    char letter;       /* of a short option */
    char meaning;
};

struct shell_walk {
    const struct shell_command *c;
    const struct shell_program *p;
    size_t next;        /* word */
    const char *bundle; /* what is left of a bundle of letters; NULL: not in one */
    size_t bundle_word;
    bool old;      /* ... which started without a dash */
    bool ended;    /* only operands follow */
    size_t dashes; /* the word "--"; 0 if there was none */
    size_t operands;
};

/* From the word `first` on. False: there is nothing more. */
struct shell_walk shell_walk_start(const struct shell_command *c, const struct shell_program *p,
                                   size_t first);
bool shell_walk_next(struct shell_walk *w, struct shell_item *ret);
