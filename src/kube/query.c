/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/query.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

int kube_query_add(struct strbuf *target, const char *name, const char *value)
{
    bool first = !target->data || !strchr(target->data, '?');
    int r = strbuf_printf(target, "%c%s=", first ? '?' : '&', name);
    for (const char *p = value; r == 0 && *p; p++)
        r = isalnum((unsigned char)*p) || strchr("-_.~", *p)
                ? strbuf_append(target, p, 1)
                : strbuf_printf(target, "%%%02X", (unsigned char)*p);
    return r;
}
