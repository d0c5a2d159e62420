/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the options of the shell tables, one per line, for test-shell-programs.py: the program,
 * the flags of its row, the option's name, what values it has and what it means. */
#include <stdio.h>

#include "shell/options.h"

static void print_row(const struct shell_program *row, const char *name, int len)
{
    struct shell_option o;
    printf("%.*s\t%u\t\t\t\n", len, name, row->flags);
    for (const char *s = row->options; (s = shell_option_parse(s, &o));)
        printf("%.*s\t%u\t%.*s\t%c\t%c\n", len, name, row->flags, (int)o.len, o.name,
               o.values ? o.values : '-', o.meaning ? o.meaning : '-');
}

int main(void)
{
    for (const struct shell_table *const *t = shell_tables; *t; t++) {
        for (size_t i = 0; i < (*t)->n; i++) {
            const char *p = (*t)->rows[i].names;
            while (*p) {
                size_t n = 0;
                while (p[n] && p[n] != ' ')
                    n++;
                print_row(&(*t)->rows[i], p, (int)n);
                p += n + (p[n] == ' ');
            }
        }
    }
    return 0;
}
