/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a rule, above all the method and path of an HTTP request.
 *
 * A path is compared in one form: percent-encoded characters are decoded, the query is cut off. A
 * path that servers may read differently ("..", "//", a backslash, a parameter behind ";", an
 * encoded slash, dot or percent sign) has no such form: a rule that allows does not fit it, one
 * that denies does. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"

#define METHODS_MAX  16
#define METHOD_MAX   32
#define PATHS_MAX    32
#define PATH_MAX_    512
#define ID_MAX       64
#define UNTIL_DIGITS 12

/* --- paths */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a path as it is compared; 0 for one that could be read in two ways. *at is moved
 * to its last byte. */
static char path_char(const char **at)
{
    const char *p = *at;
    if (*p != '%')
        return *p > ' ' && *p < 0x7f && !strchr("\\;#", *p) ? *p : 0;
    int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);
    char c = (char)(high * 16 + low);
    if (low < 0 || !c || strchr("/\\%;.", c) || (unsigned char)c < ' ')
        return 0;
    *at = p + 2;
    return c;
}

static bool has_odd_segment(const char *path)
{
    for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
        size_t len = strcspn(s + 1, "/");
        if ((len == 0 && s[1]) || (len == 1 && s[1] == '.') ||
            (len == 2 && s[1] == '.' && s[2] == '.'))
            return true;
    }
    return false;
}

/* -EINVAL for what has no one form. */
static int normalize_path(const char *target, char **ret)
{
    size_t len = strcspn(target, "?"), n = 0;
    _cleanup_free_ char *in = xstrndup(target, len);
    _cleanup_free_ char *out = xcalloc(1, len + 2);
    for (const char *p = in; *p; p++) {
        char c = path_char(&p);
        if (!c)
            return -EINVAL;
        out[n++] = c;
    }
    if (n == 0)
        out[n++] = '/';
    if (out[0] != '/' || has_odd_segment(out))
        return -EINVAL;
    *ret = steal_ptr(out);
    return 0;
}

static bool path_covers(const char *a, const char *b)
{
    size_t n = strlen(a);
    return a[n - 1] == '*' ? strncmp(a, b, n - 1) == 0 : strcmp(a, b) == 0;
}

bool rule_path_ok(const char *path)
{
    size_t len = strlen(path);
    char *normal = NULL;
    bool good = len > 0 && len <= PATH_MAX_ && path[0] == '/' && !strpbrk(path, " ?") &&
                strcspn(path, "*") >= len - 1 && normalize_path(path, &normal) >= 0 &&
                strcmp(path, normal) == 0;
    free(normal);
    return good;
}

bool rule_method_ok(const char *method)
{
    size_t len = strlen(method);
    return len > 0 && len <= METHOD_MAX && strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == len;
}

/* --- matching */

static enum rule_fit fits_method(const struct rule *rule, const char *method)
{
    enum rule_fit fit = rule->methods ? RULE_FITS_NOT : RULE_FITS;
    for (char **m = rule->methods; m && *m && fit != RULE_FITS; m++) {
        if (strcmp(*m, method) == 0)
            fit = RULE_FITS;
        else if (strcasecmp(*m, method) == 0) /* to some servers that is the same */
            fit = RULE_FITS_PERHAPS;
    }
    return fit;
}

static enum rule_fit fits_path(const struct rule *rule, const char *target)
{
    _cleanup_free_ char *path = NULL;
    if (!rule->paths)
        return RULE_FITS;
    if (normalize_path(target, &path) < 0)
        return RULE_FITS_PERHAPS;
    for (char **p = rule->paths; *p; p++)
        if (path_covers(*p, path))
            return RULE_FITS;
    return RULE_FITS_NOT;
}

enum rule_fit rule_fits_http(const struct rule *rule, const struct rule_request *q)
{
    if (!rule->http)
        return RULE_FITS;
    if (!q->method)
        return RULE_FITS_PERHAPS;
    if (q->overrides && (rule->methods || rule->paths))
        return RULE_FITS_PERHAPS;
    enum rule_fit method = fits_method(rule, q->method), path = fits_path(rule, q->path);
    return method < path ? method : path;
}

/* --- sets */

static bool has_word(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static bool has_path(char *const *list, const char *path)
{
    for (; list && *list; list++)
        if (path_covers(*list, path))
            return true;
    return false;
}

bool rule_attributes_cover(const struct rule *a, const struct rule *b)
{
    if ((a->http && !b->http) || (a->methods && !b->methods) || (a->paths && !b->paths) ||
        (a->ask && !b->ask) || (a->until_s && (!b->until_s || b->until_s > a->until_s)))
        return false;
    for (char **m = b->methods; a->methods && *m; m++)
        if (!has_word(a->methods, *m))
            return false;
    for (char **p = b->paths; a->paths && *p; p++)
        if (!has_path(a->paths, *p))
            return false;
    return true;
}

/* Those of a that b has, then, with both ways, those of b that a has. NULL is all. */
static char **intersect_words(char *const *a, char *const *b,
                              bool (*has)(char *const *, const char *), bool both_ways)
{
    if (!a && !b)
        return NULL;
    if (!a || !b)
        return strv_copy(a ? a : b);
    char **out = xcalloc(strv_length(a) + strv_length(b) + 1, sizeof(*out));
    size_t n = 0;
    for (char *const *i = a; *i; i++)
        if (has(b, *i))
            out[n++] = xstrdup(*i);
    for (char *const *i = b; both_ways && *i; i++)
        if (has(a, *i) && !has_word(out, *i))
            out[n++] = xstrdup(*i);
    return out;
}

bool rule_attributes_intersect(const struct rule *a, const struct rule *b, struct rule *ret)
{
    ret->http = a->http || b->http;
    ret->methods = intersect_words(a->methods, b->methods, has_word, false);
    ret->paths = intersect_words(a->paths, b->paths, has_path, true);
    ret->ask = a->ask || b->ask;
    ret->until_s = !a->until_s || (b->until_s && b->until_s < a->until_s) ? b->until_s : a->until_s;
    return !(ret->methods && !ret->methods[0]) && !(ret->paths && !ret->paths[0]);
}

/* --- text */

static int add_word(char ***list, const char *word, size_t max)
{
    size_t n = strv_length(*list);
    if (n == max)
        return -EINVAL;
    *list = xrealloc(*list, (n + 2) * sizeof(**list));
    (*list)[n] = xstrdup(word);
    (*list)[n + 1] = NULL;
    return 0;
}

static int parse_methods(struct rule *rule, char *value)
{
    char *rest = value;
    int r = rule->methods ? -EINVAL : 0;
    for (char *word; r >= 0 && (word = strsep(&rest, ","));)
        r = rule_method_ok(word) ? add_word(&rule->methods, word, METHODS_MAX) : -EINVAL;
    rule->http = true;
    return r;
}

static int parse_path(struct rule *rule, char *value)
{
    rule->http = true;
    return rule_path_ok(value) ? add_word(&rule->paths, value, PATHS_MAX) : -EINVAL;
}

static int parse_until(struct rule *rule, char *value)
{
    size_t len = strlen(value);
    if (rule->until_s || len == 0 || len > UNTIL_DIGITS || *value == '0' ||
        strspn(value, "0123456789") != len)
        return -EINVAL;
    rule->until_s = strtoll(value, NULL, 10);
    return 0;
}

static int parse_id(struct rule *rule, char *value)
{
    static const char id_chars[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    size_t len = strlen(value);
    if (rule->id || len == 0 || len > ID_MAX || strspn(value, id_chars) != len)
        return -EINVAL;
    rule->id = xstrdup(value);
    return 0;
}

static int parse_attribute(struct rule *rule, char *word)
{
    static const struct {
        const char *name;
        int (*parse)(struct rule *rule, char *value);
    } attributes[] = {{"methods", parse_methods},
                      {"path", parse_path},
                      {"until", parse_until},
                      {"name", parse_id}};
    char *value = strchr(word, '=');
    if (!value) {
        bool *flag = strcmp(word, "http") == 0  ? &rule->http
                     : strcmp(word, "ask") == 0 ? &rule->ask
                                                : NULL;
        if (!flag)
            return -EINVAL;
        *flag = true;
        return 0;
    }
    *value++ = 0;
    for (size_t i = 0; i < ELEMENTS(attributes); i++)
        if (strcmp(attributes[i].name, word) == 0)
            return attributes[i].parse(rule, value);
    return -EINVAL;
}

int rule_parse_attributes(char *text, struct rule *rule)
{
    int r = 0;
    for (char *word; r >= 0 && (word = strsep(&text, " "));)
        r = parse_attribute(rule, word);
    return r;
}

/* Takes text. */
static char *append_text(char *text, const char *before, const char *more)
{
    char *both = xasprintf("%s%s%s", text, before, more);
    free(text);
    return both;
}

char *rule_format_attributes(const struct rule *rule, char *host)
{
    char number[24];
    if (rule->http && !rule->methods && !rule->paths)
        host = append_text(host, " ", "http");
    for (char **m = rule->methods; m && *m; m++)
        host = append_text(host, m == rule->methods ? " methods=" : ",", *m);
    for (char **p = rule->paths; p && *p; p++)
        host = append_text(host, " path=", *p);
    if (rule->ask)
        host = append_text(host, " ", "ask");
    snprintf(number, sizeof(number), "%lld", (long long)rule->until_s);
    if (rule->until_s)
        host = append_text(host, " until=", number);
    return rule->id ? append_text(host, " name=", rule->id) : host;
}
