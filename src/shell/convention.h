/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a program reads because of their names and places: make its Makefile, git its
 * configuration and hooks. No word of the command names them, and yet they say
 * what runs.
 *
 * Each program has a row (table-convention.c). A row has the files that are known by name, which
 * can be looked up and hashed, and a text for what else the program loads, which is found only when
 * it runs. A program that has no row, and is not known to load nothing, is one of which that is not
 * known: it is never passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shell/shell.h"

#define SHELL_LOOKS_MAX   512          /* files to look for */
#define SHELL_LOOKS_BYTES (256 * 1024) /* of their starts and names */
#define SHELL_LOADS_MAX   64           /* commands that are listed */

struct shell_convention {
    const char *names; /* of programs, with spaces between them */
    /* Names of files, with spaces between them, relative to where the command starts or is sent:
     * ^ there and in all directories above, ~ in the home directory, : only in an operand that is a
     * directory, / from the root. */
    const char *files;
    /* Options whose value is another place: -C/ a directory, -f< a file. Operands too: * */
    const char *places;
    const char *loads; /* what else it loads, for people; NULL: nothing, or the runner says it */
};

struct shell_start { /* of shells: what they read before the text or script that they are given */
    const char *names;
    const char *always, *login, *interactive; /* files, as above */
};

struct shell_start_use {
    const struct shell_start *row;
    bool login, interactive;
    const char *rc_file; /* that an option names; borrowed from the command; NULL: none */
};

struct shell_look { /* for one file */
    char *program;
    char *start; /* a directory, relative to where the command starts, or a file in it; "": there */
    char *name;
    bool above;       /* also in all directories above */
    bool home;        /* start is the home directory */
    bool only_inside; /* not where start is a file */
    uint64_t sum;     /* of all of it but the program */
};

struct shell_loads { /* what one program loads that nothing can be said about before it runs */
    char *program;
    char *directory; /* relative to where the command starts, ""; NULL: it is not known */
    const char *what;
};

struct shell_conventions {
    struct shell_look *looks;
    size_t n_looks;
    struct shell_loads *loads;
    size_t n_loads;
    size_t n_bytes, n_tries; /* that the looks have taken so far */
    bool more;               /* there are more of either */
};

/* Of all commands of s. Free with shell_conventions_done(). */
void shell_conventions_find(const struct shell *s, struct shell_conventions *ret);
void shell_conventions_done(struct shell_conventions *c);

/* Is the command a shell, and which of its start files does it read, as a part of s? */
bool shell_start_find(const struct shell *s, const struct shell_command *c,
                      struct shell_start_use *ret);

/* The row of that program, by its name without a version; NULL if there is none. */
const struct shell_convention *shell_convention_find(const char *name);
/* Is it known to load nothing by itself? */
bool shell_convention_is_quiet(const char *name);

extern const struct shell_convention shell_convention_rows[];
extern const size_t shell_convention_count;
extern const struct shell_start shell_start_rows[];
extern const size_t shell_start_count;
extern const char shell_convention_quiet[]; /* names, with spaces between them */
