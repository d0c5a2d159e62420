/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to get out of a sandbox, or to do harm from inside: attack NAME [ARGUMENT...].
 *
 * Exit 0: the attempt worked, which inside a sandbox is a hole. Exit 1: something refused it, with
 * "refused ERRNO" on stdout. Exit 2: wrong usage. The same program runs outside as the control, to
 * show that the attempt works where the wall is not. Static, so that it runs anywhere. The attempts
 * are in the tables of attack-*.c. */
#include "attack.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct attack *const tables[] = {
    attacks_on_calls, attacks_on_files, attacks_on_processes, attacks_on_network, attacks_by_taking,
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct attack *find(const char *name)
{
    for (size_t i = 0; i < N_TABLES; i++)
        for (const struct attack *a = tables[i]; a->name; a++)
            if (strcmp(a->name, name) == 0)
                return a;
    return NULL;
}

static int usage(void)
{
    for (size_t i = 0; i < N_TABLES; i++)
        for (const struct attack *a = tables[i]; a->name; a++)
            fprintf(stderr, "attack %s %s\n", a->name, a->usage);
    return 2;
}

/* Every word of the usage but those in brackets and "..." is needed. */
static bool enough_arguments(const struct attack *a, int given)
{
    int needed = 0;
    bool inside = false;
    for (const char *p = a->usage; *p && *p != '['; p++) {
        if (*p != ' ' && !inside)
            needed++;
        inside = *p != ' ';
    }
    return given >= (strstr(a->usage, "...") ? 1 : needed);
}

int main(int argc, char **argv)
{
    const struct attack *a = argc > 1 ? find(argv[1]) : NULL;
    if (!a || !enough_arguments(a, argc - 2))
        return usage();
    int r = a->run(argv + 2);
    if (r == 0)
        return 0;
    const char *name = strerrorname_np(-r);
    printf("refused %s\n", name ? name : "?");
    return 1;
}
