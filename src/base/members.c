/* SPDX-License-Identifier: Apache-2.0 */
#include "base/members.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/strbuf.h"

#define PATH_SIZE 256
#define MEMBER_TYPES                                                                               \
    (MEMBER_TEXT | MEMBER_TEXTS | MEMBER_TEXT_MAP | MEMBER_BOOL | MEMBER_WHOLE | MEMBER_DURATION)

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

struct suggestion {
    const char *written, *best;
    char meant[NEAREST_NAME_MAX + 2];
    size_t distance;
};

static struct suggestion suggestion_begin(const char *written)
{
    struct suggestion s = {.written = written, .distance = nearest_patience(written) + 1};
    fold_name(written, s.meant);
    return s;
}

static void suggestion_consider(struct suggestion *s, const char *name)
{
    char known[NEAREST_NAME_MAX + 2];
    fold_name(name, known);
    size_t d = nearest_distance(s->meant, known);
    /* "timeout" for "timeout_ms" is no slip of the finger, and clear all the same. */
    if (strlen(s->meant) >= 4 && strncmp(known, s->meant, strlen(s->meant)) == 0)
        d = 1;
    if (d < s->distance) {
        s->best = name;
        s->distance = d;
    }
}

const char *members_suggest(const struct member *table, const char *written)
{
    struct suggestion s = suggestion_begin(written);
    for (; table->name; table++)
        if (!(table->flags & MEMBER_HIDDEN))
            suggestion_consider(&s, table->name);
    return s.best;
}

const char *members_suggest_choice(const struct member *m, const char *written)
{
    struct suggestion s = suggestion_begin(written);
    for (size_t i = 0; m->choice_at(i); i++)
        suggestion_consider(&s, m->choice_at(i));
    return s.best;
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

/* Whether every item of an array or member of an object is a string; else name is the first that is
 * not, with what goes before it in a path. */
static bool are_texts(const json_t *value, char *name, size_t size)
{
    const char *key;
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)value, i, item)
    {
        snprintf(name, size, "[%zu]", i);
        if (!json_is_string(item))
            return false;
    }
    json_object_foreach((json_t *)value, key, item)
    {
        snprintf(name, size, ".%.80s", key);
        if (!json_is_string(item))
            return false;
    }
    return true;
}

static int refuse_type(const char *path, const char *inside, const char *words, struct error *err)
{
    char whole[2 * PATH_SIZE];
    snprintf(whole, sizeof(whole), "%s%s", path, inside);
    return error_field(err, whole, "'%s' must be %s", whole, words);
}

static int check_type(const struct member *m, const json_t *value, const char *path,
                      struct error *err)
{
    int64_t n;
    char name[PATH_SIZE] = "";
    bool list = (m->flags & MEMBER_TEXTS) || (m->inner && (m->flags & MEMBER_LIST));
    bool object = (m->flags & MEMBER_TEXT_MAP) || (m->inner && !(m->flags & MEMBER_LIST));
    if (json_is_null(value) || (m->flags & MEMBER_OR_OTHER))
        return 0;
    if ((m->flags & MEMBER_TEXT) && !json_is_string(value))
        return refuse_type(path, "", "a string", err);
    if ((m->flags & MEMBER_BOOL) && !json_is_boolean(value))
        return refuse_type(path, "", "true or false", err);
    if ((m->flags & MEMBER_WHOLE) && json_whole_number(value, &n) == -EINVAL)
        return refuse_type(path, "", "a whole number", err);
    if ((m->flags & MEMBER_DURATION) && !json_is_number(value) && !json_is_string(value))
        return refuse_type(path, "", "a number or a duration such as \"30s\"", err);
    if (list && !json_is_array(value))
        return refuse_type(path, "", "an array", err);
    if (object && !json_is_object(value))
        return refuse_type(path, "", "an object", err);
    if ((m->flags & (MEMBER_TEXTS | MEMBER_TEXT_MAP)) && !are_texts(value, name, sizeof(name)))
        return refuse_type(path, name, "a string", err);
    return 0;
}

int members_check_types(const json_t *object, const struct member *table, struct error *err)
{
    for (; table->name; table++) {
        const json_t *value = json_object_get(object, table->name);
        int r = value ? check_type(table, value, table->name, err) : 0;
        if (r < 0)
            return r;
    }
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

/* Another key of the object that means the same member, or NULL. */
static const char *find_twin(const json_t *object, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (strcmp(key, name) != 0 && is_same(key, name, true))
            return key;
    }
    return NULL;
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
        const char *twin = how->any_case ? find_twin(object, name) : NULL;
        if (twin)
            return error_field(err, name, "'%s' has both '%.80s' and '%.80s'", path, name, twin);
        if (!m->inner && !m->find_inner && !(m->flags & MEMBER_TYPES))
            continue;
        char inner_path[PATH_SIZE];
        snprintf(inner_path, sizeof(inner_path), "%s%s%s", path, *path ? "." : "", name);
        int r = how->names_only ? 0 : check_type(m, value, inner_path, err);
        if (r < 0)
            return r;
        const struct member *inner = m->find_inner ? m->find_inner(object) : m->inner;
        if (!inner)
            continue;
        struct members_check inside = {.ignored = how->ignored,
                                       .guarded = how->guarded || (m->flags & MEMBER_GUARD),
                                       .any_case = m->flags & MEMBER_ANY_CASE,
                                       .names_only = m->find_inner != NULL};
        r = check_value(&inside, value, inner, inner_path, err);
        if (r < 0)
            return r;
    }
    return 0;
}
