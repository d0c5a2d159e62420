/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that hold for a sandbox's connections at this moment. */
#include "base/alloc.h"
#include "sandbox/internal.h"

char **sandbox_denied_hosts(const struct sandbox *sb)
{
    const struct manager_options *o = &sb->manager->options;
    _cleanup_strv_ char **more =
        o->find_denied_hosts ? o->find_denied_hosts(o->on_exec_data, sb) : NULL;
    size_t own = strv_length(sb->spec.denied_hosts), n = strv_length(more);
    char **all = xcalloc(own + n + 1, sizeof(*all));
    for (size_t i = 0; i < own; i++)
        all[i] = xstrdup(sb->spec.denied_hosts[i]);
    for (size_t i = 0; i < n; i++)
        all[own + i] = xstrdup(more[i]);
    return all;
}
