/* SPDX-License-Identifier: Apache-2.0 */
/* A schema is compiled once into a tree of what is checked; checking walks value and tree together
 * and stops at the first thing that is wrong.
 *
 * Written here because Debian has no maintained C library for it, and because the schemas are our
 * own and use few words. A word that is not in the table below is refused when the daemon starts,
 * so that no schema promises what nothing checks. */
#include "mcp/schema.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define PATH_MAX_BYTES 200 /* of a member's name in an error */

enum type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
};

static const struct {
    const char *name;
    unsigned type;
    const char *words;
} types[] = {
    {"null", TYPE_NULL, "null"},
    {"boolean", TYPE_BOOLEAN, "true or false"},
    {"integer", TYPE_INTEGER, "a whole number"},
    {"number", TYPE_NUMBER, "a number"},
    {"string", TYPE_STRING, "a string"},
    {"array", TYPE_ARRAY, "an array"},
    {"object", TYPE_OBJECT, "an object"},
};

struct property {
    char *name;
    struct schema *schema;
    bool required;
};

struct schema {
    unsigned types; /* 0 means any */
    struct property *properties;
    size_t n_properties;
    bool closed;               /* additionalProperties: false */
    struct schema *additional; /* or what they must be */
    json_t *choices;           /* of enum and const, or NULL */
    double min, max;
    size_t min_length, max_length, min_items, max_items;
    struct schema *items;
};

void schema_free(struct schema *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_properties; i++) {
        free(s->properties[i].name);
        schema_free(s->properties[i].schema);
    }
    free(s->properties);
    schema_free(s->additional);
    schema_free(s->items);
    json_decref(s->choices);
    free(s);
}

/* --- compiling */

static struct schema *compile_schema(const json_t *json, unsigned depth, struct error *err);

static unsigned type_find(const char *name)
{
    for (size_t i = 0; name && i < ELEMENTS(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return 0;
}

static int compile_type(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    (void)depth;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        unsigned type = type_find(json_string_value(one));
        if (!type)
            return error_set(err, ERROR_INVALID, 0, "schema: there is no such type");
        s->types |= type;
    }
    return n ? 0 : error_set(err, ERROR_INVALID, 0, "schema: 'type' is empty");
}

/* "required" may come before "properties": whichever names a property first makes it. */
static struct property *property_get(struct schema *s, const char *name)
{
    for (size_t i = 0; i < s->n_properties; i++)
        if (strcmp(s->properties[i].name, name) == 0)
            return &s->properties[i];
    s->properties = xrealloc(s->properties, (s->n_properties + 1) * sizeof(*s->properties));
    struct property *p = &s->properties[s->n_properties++];
    *p = (struct property){.name = xstrdup(name)};
    return p;
}

static int compile_properties(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    const char *name;
    json_t *one;
    if (!json_is_object(v))
        return error_set(err, ERROR_INVALID, 0, "schema: 'properties' is not an object");
    json_object_foreach((json_t *)v, name, one)
    {
        struct schema *sub = compile_schema(one, depth + 1, err);
        if (!sub)
            return -1;
        property_get(s, name)->schema = sub;
    }
    return 0;
}

static int compile_required(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    size_t i;
    json_t *one;
    (void)depth;
    if (!json_is_array(v))
        return error_set(err, ERROR_INVALID, 0, "schema: 'required' is not an array");
    json_array_foreach(v, i, one)
    {
        if (!json_is_string(one))
            return error_set(err, ERROR_INVALID, 0, "schema: 'required' has more than names");
        property_get(s, json_string_value(one))->required = true;
    }
    return 0;
}

static int compile_additional(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    s->closed = json_is_false(v);
    if (json_is_boolean(v))
        return 0;
    s->additional = compile_schema(v, depth + 1, err);
    return s->additional ? 0 : -1;
}

static int compile_enum(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    (void)depth;
    if (json_array_size(v) == 0)
        return error_set(err, ERROR_INVALID, 0, "schema: 'enum' is not an array of values");
    json_decref(s->choices);
    s->choices = json_copy((json_t *)v);
    return 0;
}

static int compile_const(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    (void)depth, (void)err;
    json_decref(s->choices);
    s->choices = json_pack("[O]", v);
    return 0;
}

static int compile_items(struct schema *s, const json_t *v, unsigned depth, struct error *err)
{
    s->items = compile_schema(v, depth + 1, err);
    return s->items ? 0 : -1;
}

static int number_of(const json_t *v, double *ret, struct error *err)
{
    if (!json_is_number(v))
        return error_set(err, ERROR_INVALID, 0, "schema: a limit is not a number");
    *ret = json_number_value(v);
    return 0;
}

static int count_of(const json_t *v, size_t *ret, struct error *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return error_set(err, ERROR_INVALID, 0, "schema: a count is not a whole number");
    *ret = (size_t)json_integer_value(v);
    return 0;
}

#define LIMIT(word, kind, member)                                                                  \
    static int compile_##word(struct schema *s, const json_t *v, unsigned depth,                   \
                              struct error *err)                                                   \
    {                                                                                              \
        (void)depth;                                                                               \
        return kind##_of(v, &s->member, err);                                                      \
    }
LIMIT(minimum, number, min)
LIMIT(maximum, number, max)
LIMIT(min_length, count, min_length)
LIMIT(max_length, count, max_length)
LIMIT(min_items, count, min_items)
LIMIT(max_items, count, max_items)

static const struct {
    const char *name;
    int (*compile)(struct schema *s, const json_t *v, unsigned depth, struct error *err);
} words[] = {
    {"type", compile_type},
    {"properties", compile_properties},
    {"required", compile_required},
    {"additionalProperties", compile_additional},
    {"enum", compile_enum},
    {"const", compile_const},
    {"minimum", compile_minimum},
    {"maximum", compile_maximum},
    {"minLength", compile_min_length},
    {"maxLength", compile_max_length},
    {"items", compile_items},
    {"minItems", compile_min_items},
    {"maxItems", compile_max_items},
    /* notes for people and models */
    {"title", NULL},
    {"description", NULL},
    {"default", NULL},
    {"examples", NULL},
    {"$schema", NULL},
    {"format", NULL},
};

static int compile_word(struct schema *s, const char *name, const json_t *v, unsigned depth,
                        struct error *err)
{
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return words[i].compile ? words[i].compile(s, v, depth, err) : 0;
    return error_set(err, ERROR_INVALID, 0, "schema: '%.40s' is not a word that is checked", name);
}

static struct schema *compile_schema(const json_t *json, unsigned depth, struct error *err)
{
    const char *name;
    json_t *v;
    if (!json_is_object(json) || depth > SCHEMA_DEPTH_MAX) {
        error_set(err, ERROR_INVALID, 0, "schema: %s",
                  depth > SCHEMA_DEPTH_MAX ? "nested too deep" : "not an object");
        return NULL;
    }
    struct schema *s = new0(struct schema);
    s->min = -HUGE_VAL;
    s->max = HUGE_VAL;
    s->max_length = s->max_items = SIZE_MAX;
    json_object_foreach((json_t *)json, name, v)
    {
        if (compile_word(s, name, v, depth, err) < 0) {
            schema_free(s);
            return NULL;
        }
    }
    return s;
}

struct schema *schema_compile(const json_t *json, struct error *err)
{
    return compile_schema(json, 0, err);
}

/* --- checking */

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
        return TYPE_INTEGER | TYPE_NUMBER;
    case JSON_REAL:
        return json_real_value(v) == floor(json_real_value(v)) ? TYPE_INTEGER | TYPE_NUMBER
                                                               : TYPE_NUMBER;
    case JSON_NULL:
        return TYPE_NULL;
    default:
        return TYPE_BOOLEAN;
    }
}

static int fail_type(unsigned wanted, const char *name, struct error *err)
{
    char text[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < ELEMENTS(types) && n < sizeof(text); i++)
        if (wanted & types[i].type)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? " or " : "",
                                  types[i].words);
    return error_field(err, name, "'%s' must be %s", name, text);
}

static int check_choice(const struct schema *s, const json_t *v, const char *name,
                        struct error *err)
{
    char text[200] = "";
    size_t i, n = 0;
    json_t *one;
    json_array_foreach(s->choices, i, one)
    {
        if (json_equal(one, v))
            return 0;
        char *shown = json_dumps(one, JSON_ENCODE_ANY | JSON_COMPACT);
        if (shown && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "", shown);
        free(shown);
    }
    return error_field(err, name, "'%s' must be one of %s", name, text);
}

static int check_number(const struct schema *s, const json_t *v, const char *name,
                        struct error *err)
{
    double n = json_number_value(v);
    if (n < s->min)
        return error_field(err, name, "'%s' must be at least %.15g", name, s->min);
    if (n > s->max)
        return error_field(err, name, "'%s' must be at most %.15g", name, s->max);
    return 0;
}

static int check_string(const struct schema *s, const json_t *v, const char *name,
                        struct error *err)
{
    /* Handlers see C strings: what they check must be all there is. */
    if (strlen(json_string_value(v)) != json_string_length(v))
        return error_field(err, name, "'%s' must not contain a NUL", name);
    if (s->min_length == 0 && s->max_length == SIZE_MAX)
        return 0;
    /* JSON Schema counts characters, not bytes: all but the continuation bytes of UTF-8. */
    const char *text = json_string_value(v);
    size_t n = 0, len = json_string_length(v);
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (n < s->min_length)
        return error_field(err, name,
                           n ? "'%s' must have at least %zu characters"
                             : "'%s' must not be empty (at least %zu)",
                           name, s->min_length);
    if (n > s->max_length)
        return error_field(err, name, "'%s' has %zu characters, at most %zu are taken", name, n,
                           s->max_length);
    return 0;
}

static int check_array(const struct schema *s, const json_t *v, const char *name, struct error *err)
{
    char path[PATH_MAX_BYTES];
    size_t i, n = json_array_size(v);
    json_t *one;
    if (n < s->min_items || n > s->max_items)
        return error_field(err, name, "'%s' has %zu items, from %zu to %zu are taken", name, n,
                           s->min_items, s->max_items);
    json_array_foreach(v, i, one)
    {
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        if (s->items && schema_check(s->items, one, path, err) < 0)
            return -1;
    }
    return 0;
}

static const struct property *property_find(const struct schema *s, const char *name)
{
    for (size_t i = 0; i < s->n_properties; i++)
        if (strcmp(s->properties[i].name, name) == 0)
            return &s->properties[i];
    return NULL;
}

/* What else there is: models misspell, and the message is all they get. */
static int fail_unknown(const struct schema *s, const char *name, const char *member,
                        struct error *err)
{
    char text[300] = "";
    size_t n = 0;
    for (size_t i = 0; i < s->n_properties && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "",
                              s->properties[i].name);
    return error_field(err, member, "'%s' has no member '%.60s'; it takes: %s", name, member,
                       n ? text : "none");
}

static int check_object(const struct schema *s, const json_t *v, const char *name,
                        struct error *err)
{
    char path[PATH_MAX_BYTES];
    const char *member;
    json_t *one;
    for (size_t i = 0; i < s->n_properties; i++)
        if (s->properties[i].required && !json_object_get(v, s->properties[i].name))
            return error_field(err, s->properties[i].name, "'%s' lacks '%s', which is required",
                               name, s->properties[i].name);
    json_object_foreach((json_t *)v, member, one)
    {
        const struct property *p = property_find(s, member);
        const struct schema *sub = p ? p->schema : s->additional;
        if (!p && s->closed)
            return fail_unknown(s, name, member, err);
        snprintf(path, sizeof(path), "%s.%.80s", name, member);
        if (sub && schema_check(sub, one, path, err) < 0)
            return -1;
    }
    return 0;
}

int schema_check(const struct schema *s, const json_t *value, const char *name, struct error *err)
{
    unsigned type = type_of(value);
    if (s->types && !(s->types & type))
        return fail_type(s->types, name, err);
    if (s->choices && check_choice(s, value, name, err) < 0)
        return -1;
    if (type & TYPE_NUMBER)
        return check_number(s, value, name, err);
    if (type & TYPE_STRING)
        return check_string(s, value, name, err);
    if (type & TYPE_ARRAY)
        return check_array(s, value, name, err);
    if (type & TYPE_OBJECT)
        return check_object(s, value, name, err);
    return 0;
}
