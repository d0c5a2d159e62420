/* SPDX-License-Identifier: Apache-2.0 */
/* Shell lines: whatever is read, what comes out keeps the header's word. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/convention.h"
#include "shell/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_word(const struct shell_word *w)
{
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (!w->text || (strpbrk(w->text, holes) && !w->unknown) || w->assign > strlen(w->text))
        abort();
}

static void check_command(const struct shell *s, const struct shell_command *c)
{
    for (size_t i = 0; i < c->n_words; i++)
        check_word(&c->words[i]);
    for (size_t i = 0; i < c->n_redirects; i++)
        check_word(&c->redirects[i].target);
    if (c->source > s->n_commands || (c->opaque && c->transparent) || !c->n_words != !c->name)
        abort();
    if (c->kind == SHELL_NAME_KNOWN && (!c->n_words || c->words[0].unknown))
        abort();
    free(shell_command_format(c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shell s;
    shell_parse_line((const char *)data, size, &s);
    if (s.n_commands > SHELL_COMMANDS_MAX)
        abort();
    for (size_t i = 0; i < s.n_commands; i++)
        check_command(&s, &s.commands[i]);
    struct shell_conventions c;
    shell_conventions_find(&s, &c);
    if (c.n_looks > SHELL_LOOKS_MAX || c.n_loads > SHELL_LOADS_MAX)
        abort();
    shell_conventions_done(&c);
    shell_done(&s);
    return 0;
}
