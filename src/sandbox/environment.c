#include "sandbox/environment.h"

#include <string.h>

#include "base/alloc.h"

static const char *const defaults[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "HOME=/home/sandbox",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "SHELL=/bin/sh",
    "LANG=C.UTF-8",
    "TMPDIR=/tmp",
    "TERM=xterm-256color",
};

struct builder {
    const char **items;
    size_t count;
};

static void put(struct builder *b, const char *entry)
{
    size_t key = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < b->count; i++)
        if (strncmp(b->items[i], entry, key) == 0) {
            b->items[i] = entry;
            return;
        }
    b->items[b->count++] = entry;
}

static bool is_listed(char *const *whitelist, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (char *const *name = whitelist; name && *name; name++)
        if (strlen(*name) == n && strncmp(*name, entry, n) == 0)
            return true;
    return !whitelist;
}

char **environment_build(const char *box, char *const *sandbox_env, char *const *whitelist,
                         char *const *exec_env, bool terminal)
{
    _cleanup_free_ char *home = xasprintf("HOME=%s/home", box);
    _cleanup_free_ char *tmpdir = xasprintf("TMPDIR=%s/tmp", box);
    size_t max = ELEMENTS(defaults) + strv_length(sandbox_env) + strv_length(exec_env) + 2;
    struct builder b = {.items = xcalloc(max, sizeof(*b.items))};
    size_t n_defaults = ELEMENTS(defaults) - (terminal ? 0 : 1);
    for (size_t i = 0; i < n_defaults; i++)
        put(&b, defaults[i]);
    if (*box) {
        put(&b, home);
        put(&b, tmpdir);
        put(&b, "GIT_CONFIG_NOSYSTEM=1"); /* what is in /etc, and may not be read, stops it */
    }
    for (char *const *e = sandbox_env; e && *e; e++)
        if (is_listed(whitelist, *e))
            put(&b, *e);
    for (char *const *e = exec_env; e && *e; e++)
        put(&b, *e);
    char **env = strv_copy((char *const *)b.items);
    free(b.items);
    return env;
}
