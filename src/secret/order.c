/* SPDX-License-Identifier: Apache-2.0 */
/* What an interceptor is started with: sealed pairs in one memory file (proto/intercept.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "proto/intercept.h"
#include "secret/secrets.h"

_Static_assert(SECRET_SEALED_MAX <= INTERCEPT_SEAL_MAX, "every secret fits");

static const struct secret *find_named(const struct secrets *s, const char *owner, const char *name,
                                       struct error *err)
{
    const struct secret *found = secrets_find(s, owner, name);
    if (!found)
        error_field(err, "inject", "there is no secret '%.64s' that you may name", name);
    return found;
}

static int check_count(char *const *names, struct error *err)
{
    for (size_t i = 0; names && names[i]; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return error_field(err, "inject", "'%.64s' is there twice", names[i]);
    if (strv_length(names) > INTERCEPT_PAIRS_MAX)
        return error_field(err, "inject", "more than %d secrets", INTERCEPT_PAIRS_MAX);
    return 0;
}

char **secrets_find_hosts(const struct secrets *s, const char *owner, char *const *names,
                          struct error *err)
{
    size_t n = 0;
    if (check_count(names, err) < 0)
        return NULL;
    char **hosts = xcalloc(INTERCEPT_PAIRS_MAX * PAIR_HOSTS_MAX + 1, sizeof(*hosts));
    for (; names && *names; names++) {
        const struct secret *found = find_named(s, owner, *names, err);
        if (!found) {
            strv_free(hosts);
            return NULL;
        }
        for (size_t i = 0; i < found->pair.n_hosts; i++) {
            const struct pair_host *h = &found->pair.hosts[i];
            hosts[n++] = xasprintf("%s%s:%u", h->below ? "*." : "", h->name, h->port);
        }
    }
    return hosts;
}

static int add_hosts(struct strbuf *file, char *const *hosts, uint32_t *ret_len, struct error *err)
{
    size_t before = file->len, n = 0;
    for (; hosts && hosts[n]; n++)
        strbuf_append(file, hosts[n], strlen(hosts[n]) + 1);
    if (n > INTERCEPT_HOSTS_MAX || file->len - before > INTERCEPT_TEXT_SIZE)
        return error_field(err, "intercept",
                           "more than %d hosts or %d bytes of them are to be read",
                           INTERCEPT_HOSTS_MAX, INTERCEPT_TEXT_SIZE);
    *ret_len = (uint32_t)(file->len - before);
    return 0;
}

int secrets_open_pairs(const struct secrets *s, const char *owner, char *const *names,
                       char *const *hosts, const char *generation, struct error *err)
{
    struct intercept_pairs head = {.version = INTERCEPT_VERSION};
    _cleanup_strbuf_ struct strbuf file = STRBUF_INIT(INTERCEPT_FILE_MAX);
    int r = check_count(names, err);
    if (r < 0)
        return r;
    snprintf(head.generation, sizeof(head.generation), "%s", generation);
    strbuf_append(&file, &head, sizeof(head));
    for (; names && *names; names++) {
        const struct secret *found = find_named(s, owner, *names, err);
        if (!found)
            return -ENOENT;
        head.sealed_len[head.n_pairs++] = (uint32_t)found->sealed_len;
        strbuf_append(&file, found->sealed, found->sealed_len);
    }
    r = add_hosts(&file, hosts, &head.hosts_len, err);
    if (r < 0)
        return r;
    memcpy(file.data, &head, sizeof(head));
    int fd = fd_sealed_memory("mas-pairs", file.data, file.len);
    return fd < 0 ? error_set(err, ERROR_INTERNAL, -fd, "hand secrets over") : fd;
}
