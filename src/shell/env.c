/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are set in a line. Many change what a command means (PATH, LD_PRELOAD, GIT_*,
 * NODE_OPTIONS, ...): such a command is opaque. What is set for a program is harmless only if it is
 * known to be; what stays in the shell, unless it is known not to be. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "shell/internal.h"
#include "shell/table-env.h"

bool shell_in_list(const char *list, const char *name, size_t len)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* Of a list of names, of which those with a '*' at the end stand for all that start so. */
static bool list_covers(const char *list, const char *name, size_t len)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        bool open = p[n - 1] == '*';
        if ((open ? len >= n - 1 : len == n) && memcmp(p, name, open ? n - 1 : n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

bool shell_env_changes_meaning(const char *name, size_t len, bool for_others)
{
    if (for_others)
        return !shell_in_list(shell_env_harmless, name, len) &&
               !(len > 3 && memcmp(name, "LC_", 3) == 0);
    return shell_env_is_harmful(name, len);
}

bool shell_env_is_known(const char *name, size_t len)
{
    if (shell_in_list(shell_env_harmless, name, len))
        return false;
    for (size_t i = 0; i < shell_env_harmful_count; i++)
        if (list_covers(shell_env_harmful[i], name, len))
            return true;
    return false;
}

bool shell_env_is_harmful(const char *name, size_t len)
{
    if (shell_in_list(shell_env_harmless, name, len))
        return false;
    return shell_env_is_known(name, len) || shell_env_may_load(name, len);
}

void shell_look_at_name(struct shell_command *c, const char *text, bool for_others)
{
    size_t len = strcspn(text, "+[=");
    const char holes[] = {SHELL_ANY, SHELL_GLOB, SHELL_ONE, 0};
    if (strcspn(text, holes) < len)
        shell_mark(c, "sets variables of names that are not known", SHELL_NOT_NAMED);
    else if (shell_env_changes_meaning(text, len, for_others))
        shell_mark(c, "sets a variable that may change what a command means", SHELL_NOT_NAMED);
}

static bool is_name_char(char c)
{
    return c == '_' || (c > 0 && isalnum((unsigned char)c));
}

/* A number is all that arithmetic sets a variable to, and it exports none: that matters for those
 * which every shell has and exports. "PATH=1" runs programs of the directory "1". */
bool shell_text_sets_place(const char *text, size_t len)
{
    static const char places[] = "PATH HOME CDPATH PWD OLDPWD IFS";
    for (size_t i = 0; i < len; i++) {
        size_t n = 0;
        while (i + n < len && is_name_char(text[i + n]))
            n++;
        if (!n)
            continue;
        size_t end = i + n;
        bool before =
            i >= 2 && (memcmp(text + i - 2, "++", 2) == 0 || memcmp(text + i - 2, "--", 2) == 0);
        while (end < len && strchr(" \t\n", text[end]) && text[end])
            end++;
        size_t operator= 0;
        while (end + operator < len && text[end + operator] &&
               strchr("+-*/%<>&^|", text[end + operator]))
            operator++;
        bool assigns = end + operator<len && text[end + operator] == '=';
        if ((before || assigns || operator>= 2) && shell_in_list(places, text + i, n))
            return true;
        i += n - 1;
    }
    return false;
}

bool shell_is_plain_mode(const char *name)
{
    /* Not keyword, which takes NAME=VALUE behind a program's name into its environment, and not
     * allexport, which gives programs every variable. */
    static const char plain[] =
        "braceexpand emacs errexit errtrace functrace hashall histexpand history ignoreeof "
        "interactive-comments monitor noclobber noexec noglob nolog notify nounset onecmd physical "
        "pipefail posix privileged verbose vi xtrace";
    return shell_in_list(plain, name, strlen(name));
}

void shell_look_at_env(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    for (size_t i = 0; i < c->n_assigns; i++) {
        shell_look_at_name(c, c->assigns[i].text, c->n_words > 0);
        b->evaluates |= strchr(c->assigns[i].text, '[') != NULL;
    }
    /* "test -v 'a[$(id)]'" */
    if (c->n_words > 2 && shell_in_list("test [", c->words[0].text, strlen(c->words[0].text)))
        b->arithmetic = true;
}
