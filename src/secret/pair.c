/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define PLACE "{}"

/* Freed memory is handed out again, and may be written to disk by a core dump. */
static void wipe_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void pair_done(struct pair *p)
{
    free(p->header);
    free(p->before);
    free(p->after);
    wipe_free(p->value);
    *p = (struct pair){0};
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

int pair_check_name(const char *name, struct error *err)
{
    size_t n = strlen(name);
    bool good = n >= 1 && n <= PAIR_NAME_MAX && is_name_char(name[0]);
    for (size_t i = 0; good && i < n; i++)
        good = is_name_char(name[i]) || strchr("._-", name[i]);
    return good ? 0
                : error_field(
                      err, "name",
                      "the name of a secret is 1 to %d of a-z, 0-9, '.', '_' and '-', with a "
                      "letter or digit first",
                      PAIR_NAME_MAX);
}

/* --- header */

static bool is_token(const char *text, size_t len)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!is_name_char(c) && !(c >= 'A' && c <= 'Z') && !(c && strchr(marks, c)))
            return false;
    }
    return len > 0;
}

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* Headers that say how a message is framed or where it goes; a secret in one of them would change
 * what the request is. */
static bool is_framing(const char *name)
{
    static const char *const names[] = {"connection", "content-length",    "expect",
                                        "host",       "keep-alive",        "te",
                                        "trailer",    "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "proxy-", 6) == 0;
}

int pair_set_header(struct pair *p, const char *text, struct error *err)
{
    size_t len = strlen(text);
    const char *colon = strchr(text, ':');
    const char *place = colon ? strstr(colon, PLACE) : NULL;
    if (len > PAIR_HEADER_MAX || !is_printable(text, len) || !place || colon[1] != ' ' ||
        !is_token(text, (size_t)(colon - text)) || strstr(place + 2, PLACE))
        return error_field(err, "header",
                           "'header' must be \"Name: text\" with the secret's place as {}, of at "
                           "most %d characters",
                           PAIR_HEADER_MAX);
    _cleanup_free_ char *name = xstrndup(text, (size_t)(colon - text));
    if (is_framing(name))
        return error_field(err, "header", "the header '%s' cannot carry a secret", name);
    const char *value = colon + 2;
    free(p->header);
    free(p->before);
    free(p->after);
    p->header = steal_ptr(name);
    p->before = xstrndup(value, (size_t)(place - value));
    p->after = xstrdup(place + 2);
    return 0;
}

void pair_format_header(const struct pair *p, struct strbuf *out)
{
    strbuf_printf(out, "%s: %s" PLACE "%s", p->header, p->before, p->after);
}

/* --- hosts */

int pair_parse_host(const char *text, struct pair_host *ret)
{
    struct target t = {0};
    _cleanup_free_ char *name = xstrdup(text);
    *ret = (struct pair_host){.port = PAIR_PORT};
    if (strlen(text) >= PAIR_HOST_SIZE)
        return -EINVAL;
    int r = target_cut_port(name, &t.port);
    if (r < 0)
        return r;
    ret->below = strncmp(name, "*.", 2) == 0;
    const char *host = ret->below ? name + 2 : name;
    r = target_parse_host(host, strlen(host), &t);
    if (r < 0 || t.is_address)
        return -EINVAL;
    /* "*.com" would be every host of a registry's. */
    if (ret->below && !strchr(t.host, '.'))
        return -EINVAL;
    memcpy(ret->name, t.host, sizeof(ret->name));
    ret->port = t.port ? t.port : PAIR_PORT;
    return 0;
}

int pair_add_host(struct pair *p, const char *text, struct error *err)
{
    struct pair_host h;
    if (p->n_hosts == PAIR_HOSTS_MAX)
        return error_field(err, "hosts", "a secret has at most %d hosts", PAIR_HOSTS_MAX);
    if (pair_parse_host(text, &h) < 0)
        return error_field(err, "hosts",
                           "'%.64s' is not a host name or *.domain, with an optional port", text);
    p->hosts[p->n_hosts++] = h;
    return 0;
}

void pair_format_host(const struct pair_host *h, char out[PAIR_HOST_SIZE])
{
    const char *star = h->below ? "*." : "";
    if (h->port == PAIR_PORT)
        snprintf(out, PAIR_HOST_SIZE, "%s%s", star, h->name);
    else
        snprintf(out, PAIR_HOST_SIZE, "%s%s:%u", star, h->name, h->port);
}

/* "*.example.com" is every name below it, and not example.com itself. */
static bool is_below(const char *host, const char *domain)
{
    size_t len = strlen(host), own = strlen(domain);
    return len > own + 1 && host[len - own - 1] == '.' && strcmp(host + len - own, domain) == 0;
}

/* The port counts as well: another server on the same host may belong to another user of it. */
static bool host_matches(const struct pair_host *h, const char *host, uint16_t port)
{
    return port == h->port && (h->below ? is_below(host, h->name) : strcmp(h->name, host) == 0);
}

bool pair_host_covers(const struct pair_host *a, const struct pair_host *b)
{
    if (!b->below)
        return host_matches(a, b->name, b->port);
    return a->below && a->port == b->port &&
           (strcmp(a->name, b->name) == 0 || is_below(b->name, a->name));
}

bool pair_has_host(const struct pair *p, const char *host, uint16_t port)
{
    for (size_t i = 0; i < p->n_hosts; i++)
        if (host_matches(&p->hosts[i], host, port))
            return true;
    return false;
}

/* --- secret */

/* A line end in a value would end the header and begin another, or the body. */
int pair_set_value(struct pair *p, const char *data, size_t len, struct error *err)
{
    if (len == 0 || len > PAIR_VALUE_MAX || !is_printable(data, len) || data[0] == ' ' ||
        data[len - 1] == ' ')
        return error_field(err, "value",
                           "a secret is 1 to %d printable ASCII characters without spaces at its "
                           "ends, as a header can carry them",
                           PAIR_VALUE_MAX);
    wipe_free(p->value);
    p->value = xstrndup(data, len);
    return 0;
}

/* --- text */

int pair_format(const struct pair *p, struct strbuf *out)
{
    char host[PAIR_HOST_SIZE];
    pair_format_header(p, out);
    strbuf_puts(out, "\n");
    for (size_t i = 0; i < p->n_hosts; i++) {
        pair_format_host(&p->hosts[i], host);
        strbuf_printf(out, "%s%s", i ? "," : "", host);
    }
    strbuf_puts(out, "\n");
    return strbuf_puts(out, p->value);
}

/* The next line of rest, terminated, or NULL. */
static char *cut_line(char **rest)
{
    char *line = *rest, *end = line ? strchr(line, '\n') : NULL;
    if (!end)
        return NULL;
    *end = 0;
    *rest = end + 1;
    return line;
}

/* A line for the header and one for the hosts; the rest is the value, which is printable and so
 * holds no line end. */
static int parse_lines(struct pair *p, char *rest, struct error *err)
{
    char *header = cut_line(&rest), *hosts = cut_line(&rest);
    if (!header || !hosts)
        return error_set(err, ERROR_INVALID, 0, "a sealed secret is malformed");
    int r = pair_set_header(p, header, err);
    for (char *host; r >= 0 && (host = strsep(&hosts, ","));)
        r = pair_add_host(p, host, err);
    if (r < 0)
        return r;
    return pair_set_value(p, rest, strlen(rest), err);
}

int pair_parse(struct pair *ret, const char *data, size_t len, struct error *err)
{
    struct pair p = {0};
    if (len > PAIR_TEXT_MAX || memchr(data, 0, len))
        return error_set(err, ERROR_INVALID, 0, "a sealed secret is malformed");
    char *copy = xstrndup(data, len);
    int r = parse_lines(&p, copy, err);
    explicit_bzero(copy, len);
    free(copy);
    if (r < 0)
        pair_done(&p);
    else
        *ret = p;
    return r;
}
