/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "secret/pair.h"
#include "secret/secrets.h"

/* One item, cut into its parts. */
struct source {
    char *copy; /* which the others point into */
    char *name, *from, *hosts, *header;
};

static void source_done(struct source *s)
{
    free(s->copy);
}

static int source_parse(struct source *s, const char *item, struct error *err)
{
    s->copy = xstrdup(item);
    char *rest = s->copy;
    s->name = strsep(&rest, "=");
    if (!rest || pair_check_name(s->name, err) < 0)
        return error_set(err, ERROR_INVALID, 0, "'%.64s' has no name", item);
    s->from = strsep(&rest, " ");
    s->hosts = rest ? strsep(&rest, " ") : NULL;
    s->header = rest;
    if (!s->header)
        return error_set(err, ERROR_INVALID, 0, "%s: expected FROM HOST[,HOST] HEADER: TEXT {}",
                         s->name);
    return 0;
}

/* The last line end of a file is the editor's. */
static int take_value(struct pair *p, const char *data, size_t len, struct error *err)
{
    if (len && data[len - 1] == '\n')
        len--;
    if (len && data[len - 1] == '\r')
        len--;
    return pair_set_value(p, data, len, err);
}

/* The buffer had the secret in clear, so it is wiped before it is freed. */
static int read_file(struct pair *p, const char *path, struct error *err)
{
    struct strbuf text = STRBUF_INIT(PAIR_VALUE_MAX + 2);
    int r = fd_read_file_at(AT_FDCWD, path, &text);
    if (r < 0)
        r = error_set(err, ERROR_INVALID, -r, "%s", path);
    else
        r = take_value(p, text.data ? text.data : "", text.len, err);
    if (text.data)
        explicit_bzero(text.data, text.len);
    strbuf_done(&text);
    return r;
}

static int read_variable(struct pair *p, const char *name, struct error *err)
{
    const char *value = getenv(name);
    if (!value)
        return error_set(err, ERROR_INVALID, 0, "there is no variable '%s'", name);
    return pair_set_value(p, value, strlen(value), err);
}

/* systemd hands credentials over in a directory. A name with a slash or a leading dot could lead
 * out of it. */
static int read_credential(struct pair *p, const char *name, struct error *err)
{
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir)
        return error_set(err, ERROR_INVALID, 0,
                         "credential:%s: the service manager gave no credentials", name);
    if (!*name || strchr(name, '/') || *name == '.')
        return error_set(err, ERROR_INVALID, 0, "'%s' is not the name of a credential", name);
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    return read_file(p, path, err);
}

static const struct {
    const char *prefix;
    int (*read)(struct pair *p, const char *what, struct error *err);
} readers[] = {{"file:", read_file}, {"env:", read_variable}, {"credential:", read_credential}};

static int read_value(const char *from, struct pair *p, struct error *err)
{
    for (size_t i = 0; i < ELEMENTS(readers); i++) {
        size_t len = strlen(readers[i].prefix);
        if (strncmp(from, readers[i].prefix, len) == 0)
            return readers[i].read(p, from + len, err);
    }
    return error_set(err, ERROR_INVALID, 0,
                     "'%.32s' is not file:PATH, env:VARIABLE or "
                     "credential:NAME",
                     from);
}

static int fill_pair(const struct source *s, struct pair *p, struct error *err)
{
    char *hosts = s->hosts;
    int r = pair_set_header(p, s->header, err);
    for (char *host; r >= 0 && (host = strsep(&hosts, ","));)
        r = pair_add_host(p, host, err);
    if (r >= 0)
        r = read_value(s->from, p, err);
    if (r < 0)
        error_prefix(err, "%s", s->name);
    return r;
}

/* Everything of one item; the caller calls pair_done(). */
static int source_read(const char *item, struct pair *ret, struct error *err)
{
    __attribute__((cleanup(source_done))) struct source s = {0};
    struct pair p = {0};
    int r = source_parse(&s, item, err);
    if (r < 0)
        return r;
    r = fill_pair(&s, &p, err);
    if (r < 0) {
        pair_done(&p);
        return r;
    }
    *ret = p;
    return r;
}

int source_read_hosts(const char *item, struct pair *ret, struct error *err)
{
    __attribute__((cleanup(source_done))) struct source s = {0};
    int r = source_parse(&s, item, err);
    if (r < 0)
        return r;
    char *hosts = s.hosts;
    for (char *host; r >= 0 && (host = strsep(&hosts, ","));)
        r = pair_add_host(ret, host, err);
    return r;
}

int source_check_all(char *const *items, struct error *err)
{
    int r = 0;
    for (; r >= 0 && items && *items; items++) {
        struct pair p = {0};
        r = source_read(*items, &p, err);
        pair_done(&p);
    }
    return r;
}

static int seal_item(const char *item, const uint8_t public_key[SEAL_KEY_SIZE], char **ret,
                     struct error *err)
{
    struct pair p = {0};
    int r = source_read(item, &p, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *sealed = secret_seal(&p, public_key);
    pair_done(&p);
    if (!sealed)
        return error_set(err, ERROR_INTERNAL, 0, "seal a secret");
    *ret = xasprintf("%.*s=%s", (int)(strchr(item, '=') - item), item, sealed);
    return 0;
}

int source_seal_all(char *const *items, const uint8_t public_key[SEAL_KEY_SIZE], char ***ret,
                    struct error *err)
{
    size_t n = strv_length(items);
    char **list = xcalloc(n + 1, sizeof(*list));
    int r = 0;
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = seal_item(items[i], public_key, &list[i], err);
    if (r < 0)
        strv_free(list);
    else
        *ret = list;
    return r;
}
