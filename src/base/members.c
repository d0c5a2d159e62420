/* SPDX-License-Identifier: Apache-2.0 */
#include "base/members.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/strbuf.h"

#define PATH_SIZE 256

const struct member members_none[] = {{0}};

/* Lower case without underscores; longer names are cut, and then fit nothing. */
static void fold_name(const char *name, char out[NEAREST_NAME_MAX + 2])
{
    size_t n = 0;
    for (; *name && n <= NEAREST_NAME_MAX; name++)
        if (*name != '_')
            out[n++] = (char)tolower((unsigned char)*name);
    out[n] = 0;
}

static bool is_same(const char *a, const char *b, bool any_case)
{
    char fold_a[NEAREST_NAME_MAX + 2], fold_b[NEAREST_NAME_MAX + 2];
    if (!any_case)
        return strcmp(a, b) == 0;
    fold_name(a, fold_a);
    fold_name(b, fold_b);
    return strcmp(fold_a, fold_b) == 0;
}

static const struct member *find_member(const struct member *table, const char *name, bool any_case)
{
    for (; table->name; table++)
        if (is_same(table->name, name, any_case))
            return table;
    return NULL;
}

const struct member *members_find(const struct member *table, const char *name)
{
    return find_member(table, name, false);
}

const char *members_suggest(const struct member *table, const char *written)
{
    char meant[NEAREST_NAME_MAX + 2], known[NEAREST_NAME_MAX + 2];
    const char *best = NULL;
    size_t best_distance = nearest_patience(written) + 1;
    fold_name(written, meant);
    for (; table->name; table++) {
        fold_name(table->name, known);
        size_t d = (table->flags & MEMBER_HIDDEN) ? SIZE_MAX : nearest_distance(meant, known);
        /* "timeout" for "timeout_ms" is no slip of the finger, and clear all the same. */
        if (d != SIZE_MAX && strlen(meant) >= 4 && strncmp(known, meant, strlen(meant)) == 0)
            d = 1;
        if (d < best_distance) {
            best = table->name;
            best_distance = d;
        }
    }
    return best;
}

static int refuse_member(const struct member *table, const char *path, const char *name,
                         struct error *err)
{
    char whole[PATH_SIZE];
    const char *near = members_suggest(table, name), *dot = *path ? "." : "";
    snprintf(whole, sizeof(whole), "%s%s%.80s", path, dot, name);
    if (near)
        return error_field(err, whole, "there is no member '%s'; did you mean '%s%s%s'?", whole,
                           path, dot, near);
    return error_field(err, whole, "there is no member '%s'", whole);
}

void members_tell(struct strbuf *ignored, const char *path, const char *name)
{
    char whole[PATH_SIZE];
    size_t before = ignored->len;
    snprintf(whole, sizeof(whole), "%s%s%.80s", path, *path ? "." : "", name);
    for (char *c = whole; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || *c == ',')
            *c = '?';
    if (strbuf_printf(ignored, "%s%s", before ? ", " : "", whole) < 0)
        ignored->len = before;
}

/* Words that mean a guard in one place or another. Where one is unknown, or nearly written, a call
 * would run without what its caller takes for a guard. */
static bool is_guard_word(const char *name)
{
    static const char *const words[] = {"policy", "resources", "limits"};
    char folded[NEAREST_NAME_MAX + 2];
    fold_name(name, folded);
    size_t n = strlen(folded);
    for (size_t i = 0; i < ELEMENTS(words); i++) {
        size_t len = strlen(words[i]);
        if (n + 1 >= len && n <= len + 1 && nearest_distance(folded, words[i]) <= 1)
            return true;
    }
    return false;
}

static int check_type(const struct member *m, const json_t *value, const char *path,
                      struct error *err)
{
    if (json_is_null(value) || (m->flags & MEMBER_OR_OTHER))
        return 0;
    if ((m->flags & MEMBER_TEXT) && !json_is_string(value))
        return error_field(err, path, "'%s' must be a string", path);
    if (m->inner && (m->flags & MEMBER_LIST) && !json_is_array(value))
        return error_field(err, path, "'%s' must be an array", path);
    if (m->inner && !(m->flags & MEMBER_LIST) && !json_is_object(value))
        return error_field(err, path, "'%s' must be an object", path);
    return 0;
}

static int check_value(const struct members_check *how, const json_t *value,
                       const struct member *table, const char *path, struct error *err)
{
    char item_path[PATH_SIZE];
    size_t i;
    json_t *item;
    if (json_is_object(value))
        return members_check(how, value, table, path, err);
    json_array_foreach((json_t *)value, i, item)
    {
        snprintf(item_path, sizeof(item_path), "%s[%zu]", path, i);
        int r = json_is_object(item) ? members_check(how, item, table, item_path, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int members_check(const struct members_check *how, const json_t *object, const struct member *table,
                  const char *path, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        const struct member *m = find_member(table, name, how->any_case);
        if (!m && (!how->ignored || how->guarded || (!*path && is_guard_word(name))))
            return refuse_member(table, path, name, err);
        if (!m) {
            members_tell(how->ignored, path, name);
            continue;
        }
        if (!m->inner && !m->find_inner && !(m->flags & MEMBER_TEXT))
            continue;
        char inner_path[PATH_SIZE];
        snprintf(inner_path, sizeof(inner_path), "%s%s%s", path, *path ? "." : "", name);
        int r = check_type(m, value, inner_path, err);
        if (r < 0)
            return r;
        const struct member *inner = m->find_inner ? m->find_inner(object) : m->inner;
        if (!inner)
            continue;
        struct members_check inside = {.ignored = how->ignored,
                                       .guarded = how->guarded || (m->flags & MEMBER_GUARD),
                                       .any_case = m->flags & MEMBER_ANY_CASE};
        r = check_value(&inside, value, inner, inner_path, err);
        if (r < 0)
            return r;
    }
    return 0;
}
