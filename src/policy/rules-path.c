/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that words of a command name, as text: nothing here looks at a file system, so a link is
 * resolved only where the caller of the policy has done it. */
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "policy/rules-internal.h"

/* Drops empty and "." parts and takes ".." back. What is before a hole that may be anything stays
 * open: ".." behind it could go anywhere, so then all of it is a hole. */
char *rules_normalize(const char *path)
{
    size_t len = strlen(path), out = 0;
    char *text = xcalloc(len + 2, 1);
    for (const char *p = path; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 2 && memcmp(p, "..", 2) == 0) {
            while (out > 0 && text[--out] != '/')
                if (text[out] >= SHELL_ANY && text[out] <= SHELL_ONE) {
                    free(text);
                    return xstrdup((const char[]){SHELL_ANY, 0});
                }
        } else if (n && !(n == 1 && *p == '.')) {
            text[out++] = '/';
            memcpy(text + out, p, n);
            out += n;
        }
        p += n;
    }
    if (!out)
        text[out++] = '/';
    text[out] = 0;
    return text;
}

static char *join_path(const char *base, const char *rest)
{
    _cleanup_free_ char *whole = xasprintf("%s/%s", base, rest);
    return rules_normalize(whole);
}

char *rules_word_path(const struct ruleset *rs, const char *text, const char *cwd)
{
    const char any[] = {SHELL_ANY, 0};
    if (text[0] == '/')
        return rules_normalize(text);
    if (text[0] == '~' && (!text[1] || text[1] == '/'))
        return join_path(rs ? rs->home : "~", text + 1);
    if (text[0] == '~' || text[0] == SHELL_ANY)
        return xstrdup(any);
    /* From an unknown place, a name without ".." is at least known to end so. */
    if (!cwd && (strncmp(text, "..", 2) == 0 || strstr(text, "/..")))
        return xstrdup(any);
    return join_path(cwd ? cwd : (const char[]){'/', SHELL_ANY, 0}, text);
}
