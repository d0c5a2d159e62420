/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the shell's own builtins, as bash has them: which of their words are names of
 * variables that they set. A variable such as PATH changes what the commands behind it mean. */
#include "base/alloc.h"
#include "shell/options.h"

#define FIRST PROGRAM_FIRST
#define SETS  (PROGRAM_FIRST | PROGRAM_SETS)

static const struct shell_program rows[] = {
    {"printf", FIRST, 0, "-v:@"},
    {"read", SETS, 0, "-ers -a:@ -dinNptu:"},
    {"mapfile readarray", SETS, 0, "-t -dnOsuc: -C:!"},
    {"getopts let", SETS, 0, ""},
    {"unset", SETS, 0, "-fvn"},
    {"export", SETS | PROGRAM_EXPORTS, 0, "-fnp"},
    {"readonly", SETS, 0, "-aAfp"},
    {"declare typeset local", SETS, 0, "-aAfFgIilprtu -n@ -x^"},
    /* What -p stores is a number, so that a word which may become it is no more than a word. */
    {"wait", 0, 0, "-fn -p:@"},
    /* Options may be behind "+e", which is an operand here. -k and -a put more variables into the
     * environment of programs than the words before their names. */
    {"set", 0, 0, "-befhmnptuvxBCEHPT -ak! -o:"},
    {"hash", 0, 0, "-rlt -d: -p:!"},
    {"jobs", 0, 0, "-lnprs -x&"},
    {"enable", PROGRAM_OPAQUE, 0, "-f:! -n! -d!"},
    {"complete compgen compopt bind fc history shopt", PROGRAM_OPAQUE, 0, ""},
    /* A terminal's description, which may be a file of the caller's, names a program (iprog) that
     * they run before all else. */
    {"reset tput tset", PROGRAM_OPAQUE, 0, ""},
    {"echo : exit return break continue shift times type fg bg disown dirs help caller umask "
     "ulimit kill suspend logout test [ expr id whoami groups logname users who "
     "w uname arch hostname nproc uptime free vmstat lscpu lsblk lsusb lspci locale getconf tty "
     "stty clear sync factor yes cal ps pgrep pidof pkill killall",
     PROGRAM_INERT, 0, ""},
};
const struct shell_table shell_table_builtin = {rows, ELEMENTS(rows)};
