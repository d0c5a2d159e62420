/* SPDX-License-Identifier: Apache-2.0 */
/* One value of the configuration: text to member and back, by the key's type. All sources and the
 * defaults go through here, so a value means the same wherever it was written. */
#include "config/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define NS_PER_MS 1000000LL

struct why {
    char *text;
    size_t size;
};

static int refuse_value(const struct why *why, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse_value(const struct why *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->text, why->size, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

static void *member_of(const struct config *c, const struct config_key *key)
{
    return (char *)(uintptr_t)c + key->offset;
}

bool config_value_is_list(const struct config_key *key)
{
    return key->type == CONFIG_LIST || key->type == CONFIG_PATHS || key->type == CONFIG_MAP;
}

char **config_value_items(const struct config *c, const struct config_key *key)
{
    assert(config_value_is_list(key));
    return *(char ***)member_of(c, key);
}

void config_value_done(struct config *c, const struct config_key *key)
{
    if (config_value_is_list(key)) {
        char ***v = member_of(c, key);
        strv_free(*v);
        *v = NULL;
    } else if (key->type == CONFIG_STRING || key->type == CONFIG_PATH ||
               key->type == CONFIG_CHOICE) {
        char **s = member_of(c, key);
        free(*s);
        *s = NULL;
    }
}

static int parse_bool(const char *text, bool *ret, const struct why *why)
{
    static const char *const yes[] = {"true", "yes", "on", "1", "t"};
    static const char *const no[] = {"false", "no", "off", "0", "f"};
    for (size_t i = 0; i < ELEMENTS(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *ret = strcasecmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return refuse_value(why, "'%s' is not true or false", text);
}

static int parse_digits(const char *text, const char **ret_end, int64_t *ret, const struct why *why)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || isspace((unsigned char)*text) || *text == '+')
        return refuse_value(why, "'%s' is not a number", text);
    if (errno == ERANGE)
        return refuse_value(why, "'%s' is too large", text);
    *ret_end = end;
    *ret = v;
    return 0;
}

static int parse_int(const char *text, int64_t *ret, const struct why *why)
{
    const char *end;
    int r = parse_digits(text, &end, ret, why);
    if (r == 0 && *end)
        return refuse_value(why, "'%s' is not a whole number", text);
    return r;
}

/* "1048576", "64Ki", "64KiB", "64K". */
static int parse_size(const char *text, int64_t *ret, const struct why *why)
{
    const char *end;
    int64_t v;
    int r = parse_digits(text, &end, &v, why);
    if (r < 0)
        return r;
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (unit && strcmp(end + 1, "") != 0 && strcmp(end + 1, "i") != 0 && strcmp(end + 1, "iB") != 0)
        unit = NULL;
    if (*end && !unit)
        return refuse_value(why, "'%s' is not a size such as 65536, 64Ki or 1Gi", text);
    if (v < 0 || v > INT64_MAX >> shift)
        return refuse_value(why, "'%s' is out of range", text);
    *ret = v << shift;
    return 0;
}

static int parse_duration(const char *text, int64_t *ret_ms, const struct why *why)
{
    int64_t ns;
    int r = clock_parse_duration(text, &ns);
    if (r == -ERANGE)
        return refuse_value(why, "'%s' is too long", text);
    if (r < 0)
        return refuse_value(why, "'%s' is not a duration such as 30s, 15m or 1h30m", text);
    if (ns > 0 && ns < NS_PER_MS)
        return refuse_value(why, "'%s' is below a millisecond", text);
    *ret_ms = ns / NS_PER_MS;
    return 0;
}

static int parse_cores(const char *text, int64_t *ret_millicores, const struct why *why)
{
    char *end;
    double v = strtod(text, &end);
    bool milli = end != text && strcmp(end, "m") == 0;
    if (end == text || (*end && !milli) || !isfinite(v) || !isdigit((unsigned char)*text))
        return refuse_value(why, "'%s' is not a number of cores such as 2, 0.5 or 500m", text);
    v = milli ? v : v * 1000;
    if (v > 0 && v < 1)
        return refuse_value(why, "'%s' is below a thousandth of a core", text);
    *ret_millicores = v < (double)INT64_MAX ? llround(v) : INT64_MAX;
    return 0;
}

/* Its place in "a|b|c", or -1. */
static int find_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int at = 0;
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL, at++)
        if (len && strncmp(p, text, len) == 0 && (p[len] == '|' || !p[len]))
            return at;
    return -1;
}

static int format_choice(const char *choices, int64_t at, struct strbuf *out)
{
    while (at-- > 0)
        choices = strchr(choices, '|') + 1;
    return strbuf_append(out, choices, strcspn(choices, "|"));
}

/* The range in the key's own unit, as a user would write it. */
static void format_limit(const struct config_key *key, int64_t v, char out[CLOCK_DURATION_SIZE])
{
    if (key->type == CONFIG_DURATION)
        clock_format_duration(v * NS_PER_MS, out);
    else if (key->type == CONFIG_CORES)
        snprintf(out, CLOCK_DURATION_SIZE, "%g", (double)v / 1000);
    else
        snprintf(out, CLOCK_DURATION_SIZE, "%" PRId64, v);
}

static int check_range(const struct config_key *key, const char *text, double v,
                       const struct why *why)
{
    if (v >= (double)key->min && v <= (double)key->max)
        return 0;
    char lo[CLOCK_DURATION_SIZE], hi[CLOCK_DURATION_SIZE];
    format_limit(key, key->min, lo);
    format_limit(key, key->max, hi);
    return refuse_value(why, "%s is not within %s and %s", text, lo, hi);
}

/* The table holds the range within what the member's type can hold. */
static int64_t read_number(const struct config *c, const struct config_key *key)
{
    const void *m = member_of(c, key);
    return (key->size == sizeof(uint32_t) ? (int64_t) * (const uint32_t *)m : *(const int64_t *)m) /
           key->unit;
}

static void write_number(struct config *c, const struct config_key *key, int64_t v)
{
    if (key->size == sizeof(uint32_t))
        *(uint32_t *)member_of(c, key) = (uint32_t)(v * key->unit);
    else
        *(int64_t *)member_of(c, key) = v * key->unit;
}

static int set_number(struct config *c, const struct config_key *key, const char *text,
                      const struct why *why)
{
    int64_t v = 0;
    int r;
    if (key->type == CONFIG_SIZE)
        r = parse_size(text, &v, why);
    else if (key->type == CONFIG_DURATION)
        r = parse_duration(text, &v, why);
    else if (key->type == CONFIG_CORES)
        r = parse_cores(text, &v, why);
    else
        r = parse_int(text, &v, why);
    if (r == 0)
        r = check_range(key, text, (double)v, why);
    if (r == 0)
        write_number(c, key, v);
    return r;
}

static int set_enum(struct config *c, const struct config_key *key, const char *text,
                    const struct why *why)
{
    int at = find_choice(config_key_choices(key), text);
    if (at < 0)
        return refuse_value(why, "'%s' is not one of %s", text, config_key_choices(key));
    write_number(c, key, at);
    return 0;
}

static int set_string(struct config *c, const struct config_key *key, const char *text,
                      const struct why *why)
{
    if (key->type == CONFIG_CHOICE && find_choice(config_key_choices(key), text) < 0)
        return refuse_value(why, "'%s' is not one of %s", text, config_key_choices(key));
    if (!*text && (key->type == CONFIG_PATH || key->fallback))
        return refuse_value(why, "the value is empty");
    config_value_done(c, key);
    char **s = member_of(c, key);
    *s = *text ? xstrdup(text) : NULL;
    return 0;
}

/* A name for the environment: what a shell can spell. */
static bool is_env_name(const char *item, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)item[i];
        if (!(isalpha(ch) || ch == '_' || (i > 0 && isdigit(ch))))
            return false;
    }
    return len > 0;
}

static int check_item(const struct config_key *key, const char *item, const struct why *why)
{
    if (!*item)
        return refuse_value(why, "an item is empty");
    if (key->type != CONFIG_MAP)
        return 0;
    const char *equals = strchr(item, '=');
    if (!equals)
        return refuse_value(why, "'%s' is not NAME=value", item);
    if (!(key->flags & KEY_ANY_NAME) && !is_env_name(item, (size_t)(equals - item)))
        return refuse_value(why, "'%.*s' is not a variable's name", (int)(equals - item), item);
    return 0;
}

/* A map's item replaces the one of the same name; a list does not keep an item twice. */
static void put_item(char ***v, const struct config_key *key, const char *item)
{
    size_t n = strv_length(*v);
    size_t same =
        key->type == CONFIG_MAP ? (size_t)(strchr(item, '=') - item) + 1 : strlen(item) + 1;
    for (size_t i = 0; i < n; i++) {
        if (strncmp((*v)[i], item, same) == 0) {
            free((*v)[i]);
            (*v)[i] = xstrdup(item);
            return;
        }
    }
    *v = xrealloc(*v, (n + 2) * sizeof(char *));
    (*v)[n] = xstrdup(item);
    (*v)[n + 1] = NULL;
}

static int add_item(struct config *c, const struct config_key *key, enum config_origin origin,
                    const char *item, const struct why *why)
{
    int r = check_item(key, item, why);
    if (r < 0)
        return r;
    size_t index = (size_t)(key - config_keys);
    if (key->type != CONFIG_MAP && c->origin[index] != origin)
        config_value_done(c, key);
    char ***v = member_of(c, key);
    if (strv_length(*v) >= CONFIG_LIST_MAX)
        return refuse_value(why, "more than %d items", CONFIG_LIST_MAX);
    put_item(v, key, item);
    c->origin[index] = (uint8_t)origin;
    return 0;
}

static int set_list(struct config *c, const struct config_key *key, enum config_origin origin,
                    const char *text, const struct why *why)
{
    _cleanup_free_ char *copy = xstrdup(text);
    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        while (isspace((unsigned char)*item))
            item++;
        for (size_t n = strlen(item); n && isspace((unsigned char)item[n - 1]); n--)
            item[n - 1] = 0;
        int r = add_item(c, key, origin, item, why);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_scalar(struct config *c, const struct config_key *key, const char *text,
                      const struct why *why)
{
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_SIZE:
    case CONFIG_DURATION:
    case CONFIG_CORES:
        return set_number(c, key, text, why);
    case CONFIG_ENUM:
        return set_enum(c, key, text, why);
    case CONFIG_BOOL:
        return parse_bool(text, member_of(c, key), why);
    default:
        return set_string(c, key, text, why);
    }
}

static int check_text(const struct config_key *key, const char *text, const struct why *why)
{
    if (strlen(text) > CONFIG_VALUE_MAX)
        return refuse_value(why, "longer than %d bytes", CONFIG_VALUE_MAX);
    if (key->flags & KEY_INTERNAL)
        return 0;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return refuse_value(why, "holds a control character");
    return 0;
}

static int set_value(struct config *c, const struct config_key *key, enum config_origin origin,
                     const char *text, bool one_item, const struct why *why)
{
    int r = check_text(key, text, why);
    if (r < 0)
        return r;
    if (config_value_is_list(key))
        /* A map's flag or variable is one pair: a value may hold commas. */
        return one_item || key->type == CONFIG_MAP ? add_item(c, key, origin, text, why)
                                                   : set_list(c, key, origin, text, why);
    r = set_scalar(c, key, text, why);
    if (r == 0)
        c->origin[key - config_keys] = (uint8_t)origin;
    return r;
}

int config_value_set(struct config *c, const struct config_key *key, enum config_origin origin,
                     const char *text, char *why, size_t why_size)
{
    return set_value(c, key, origin, text, false, &(struct why){why, why_size});
}

int config_value_add(struct config *c, const struct config_key *key, enum config_origin origin,
                     const char *text, char *why, size_t why_size)
{
    return set_value(c, key, origin, text, true, &(struct why){why, why_size});
}

int config_value_format(const struct config *c, const struct config_key *key, struct strbuf *out)
{
    const void *m = member_of(c, key);
    char duration[CLOCK_DURATION_SIZE];
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_SIZE:
        return strbuf_printf(out, "%" PRId64, read_number(c, key));
    case CONFIG_DURATION:
        clock_format_duration(read_number(c, key) * NS_PER_MS, duration);
        return strbuf_puts(out, duration);
    case CONFIG_CORES:
        return strbuf_printf(out, "%.15g", (double)read_number(c, key) / 1000);
    case CONFIG_ENUM:
        return format_choice(config_key_choices(key), read_number(c, key), out);
    case CONFIG_BOOL:
        return strbuf_puts(out, *(const bool *)m ? "true" : "false");
    default:
        assert(!config_value_is_list(key));
        return strbuf_puts(out, *(char *const *)m ? *(char *const *)m : "");
    }
}
