/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a struct config, its problems, and its ways out: YAML for people, NUL-separated pairs for
 * the control plane, help from the table. */
#include "config/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define MASK "(set)"

#define HELP_WIDTH    96
#define HELP_INDENT   "        "
#define HELP_TEXT_MAX 4096

void config_problems_init(struct config_problems *p)
{
    strbuf_init(&p->errors, CONFIG_PROBLEMS_MAX);
    strbuf_init(&p->warnings, CONFIG_PROBLEMS_MAX);
    p->n_errors = 0;
}

void config_problems_done(struct config_problems *p)
{
    strbuf_done(&p->errors);
    strbuf_done(&p->warnings);
}

/* A line each, whatever the input holds. Past the buffer's end the count still tells. */
static void note_problem(struct strbuf *b, const char *fmt, va_list ap)
{
    char line[768];
    vsnprintf(line, sizeof(line), fmt, ap);
    for (char *s = line; *s; s++)
        *s = iscntrl((unsigned char)*s) ? '?' : *s;
    (void)strbuf_printf(b, "%s\n", line);
}

void config_error(struct config_problems *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note_problem(&p->errors, fmt, ap);
    va_end(ap);
    p->n_errors++;
}

void config_warn(struct config_problems *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note_problem(&p->warnings, fmt, ap);
    va_end(ap);
}

void config_init(struct config *c)
{
    *c = (struct config){0};
    config_for_each_key(k) {
        char why[128];
        if (!k->fallback)
            continue;
        int r = config_value_set(c, k, ORIGIN_DEFAULT, k->fallback, why, sizeof(why));
        assert(r == 0);
        (void)r;
    }
}

void config_done(struct config *c)
{
    config_for_each_key(k)
        config_value_done(c, k);
}

/* --- for people */

/* Line breaks that YAML knows beside the newline, as UTF-8: in a quoted text they would be read as
 * a space. */
static const struct {
    const char *bytes, *escape;
} odd_breaks[] = {{"\xc2\x85", "\\N"}, {"\xe2\x80\xa8", "\\L"}, {"\xe2\x80\xa9", "\\P"}};

/* Prints what one character, or the break that begins here, is in a quoted text; *s moves behind
 * it. */
static int print_char(struct strbuf *out, const char **s)
{
    for (size_t i = 0; i < ELEMENTS(odd_breaks); i++) {
        size_t len = strlen(odd_breaks[i].bytes);
        if (strncmp(*s, odd_breaks[i].bytes, len) != 0)
            continue;
        *s += len;
        return strbuf_puts(out, odd_breaks[i].escape);
    }
    char c = *(*s)++;
    return c == '"' || c == '\\' ? strbuf_printf(out, "\\%c", c) : strbuf_append(out, &c, 1);
}

static int print_quoted(struct strbuf *out, const char *text)
{
    int r = strbuf_puts(out, "\"");
    while (*text && r == 0)
        r = print_char(out, &text);
    if (r < 0)
        return r;
    return strbuf_puts(out, "\"");
}

static int print_items(const struct config_key *k, char **items, struct strbuf *out)
{
    int r = strbuf_printf(out, "%s:\n", k->name);
    for (; r == 0 && *items; items++) {
        const char *value = *items;
        r = strbuf_puts(out, k->type == CONFIG_MAP ? "  " : "  - ");
        if (r == 0 && k->type == CONFIG_MAP) {
            value = strchr(*items, '=') + 1;
            r = strbuf_printf(out, "%.*s: ", (int)(value - 1 - *items), *items);
        }
        if (r == 0)
            r = print_quoted(out, value);
        if (r == 0)
            r = strbuf_puts(out, "\n");
    }
    return r;
}

static int print_scalar(const struct config *c, const struct config_key *k, struct strbuf *out)
{
    _cleanup_strbuf_ struct strbuf value = STRBUF_INIT(CONFIG_VALUE_MAX);
    int r = config_value_format(c, k, &value);
    if (r < 0)
        return r;
    bool text = k->type == CONFIG_STRING || k->type == CONFIG_PATH || config_key_choices(k);
    if (text && !value.len)
        return strbuf_printf(out, "%s:\n", k->name);
    if (!text)
        return strbuf_printf(out, "%s: %s\n", k->name, value.data);
    r = strbuf_printf(out, "%s: ", k->name);
    if (r == 0)
        r = print_quoted(out, k->flags & KEY_SECRET ? MASK : value.data);
    if (r < 0)
        return r;
    return strbuf_puts(out, "\n");
}

int config_print(const struct config *c, struct strbuf *out)
{
    config_for_each_key(k) {
        if (k->flags & KEY_INTERNAL)
            continue;
        int r;
        if (!config_value_is_list(k))
            r = print_scalar(c, k, out);
        else if (config_value_items(c, k))
            r = print_items(k, config_value_items(c, k), out);
        else
            r = strbuf_printf(out, "%s:\n", k->name);
        if (r < 0)
            return r;
    }
    return 0;
}

static const char *value_name(const struct config_key *k)
{
    static const char *const names[] = {
        [CONFIG_STRING] = "TEXT", [CONFIG_PATH] = "PATH",
        [CONFIG_CHOICE] = "NAME", [CONFIG_ENUM] = "NAME",
        [CONFIG_INT] = "N",       [CONFIG_CORES] = "N",
        [CONFIG_BOOL] = "",       [CONFIG_DURATION] = "DURATION",
        [CONFIG_SIZE] = "SIZE",   [CONFIG_LIST] = "LIST",
        [CONFIG_PATHS] = "LIST",  [CONFIG_MAP] = "NAME=VALUE",
    };
    static_assert(ELEMENTS(names) == _CONFIG_TYPE_MAX, "a name per type");
    return names[k->type];
}

/* Lines of at most HELP_WIDTH columns; a word that is longer has a line of its own. */
static int put_wrapped(const char *text, struct strbuf *out)
{
    size_t used = 0;
    for (size_t n; *text; text += n + strspn(text + n, " ")) {
        n = strcspn(text, " ");
        bool fits = used && used + 1 + n <= HELP_WIDTH;
        int r = strbuf_printf(out, "%s%.*s",
                              fits   ? " "
                              : used ? "\n" HELP_INDENT
                                     : HELP_INDENT,
                              (int)n, text);
        if (r < 0)
            return r;
        used = (fits ? used + 1 : strlen(HELP_INDENT)) + n;
    }
    return strbuf_puts(out, "\n");
}

static int print_key_help(const struct config_key *k, struct strbuf *out)
{
    char flag[64];
    snprintf(flag, sizeof(flag), "%s", k->name);
    for (char *s = flag; *s; s++)
        *s = *s == '_' ? '-' : *s;
    const char *value = value_name(k);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(HELP_TEXT_MAX);
    int r = strbuf_puts(&text, k->help);
    if (r == 0 && config_key_choices(k))
        r = strbuf_printf(&text, " [%s]", config_key_choices(k));
    if (r == 0 && k->fallback && strcmp(k->fallback, "false") != 0)
        r = strbuf_printf(&text, " (default %s)", k->fallback);
    if (r == 0)
        r = strbuf_printf(out, "  --%s%s%s\n", flag, *value ? " " : "", value);
    return r < 0 ? r : put_wrapped(text.data, out);
}

int config_print_help(struct strbuf *out)
{
    int r = strbuf_puts(
        out,
        "Usage: mas-sandboxd [--config FILE] [--KEY VALUE]...\n"
        "Runs tool calls in sandboxes. With --listen they come over HTTP, with --mcp over MCP on\n"
        "standard input, and without either as JSON lines on standard input.\n\n"
        "  --config FILE   YAML file of the keys below (also SANDBOX_CONFIG)\n"
        "  --check-config  say what is wrong with the configuration, or \"ok\", and exit\n"
        "  --print-config  print the configuration in effect and exit\n"
        "  --clean         remove what killed daemons left behind and exit\n"
        "  --version, --help\n\n"
        "Every key is a flag (--idle-ttl 5m), a variable (SANDBOX_IDLE_TTL=5m) and a line of the\n"
        "file (idle_ttl: 5m); a flag wins over a variable, a variable over the file.\n");
    for (size_t i = 0; r == 0 && i < config_n_keys; i++) {
        const struct config_key *k = &config_keys[i];
        if (!k->name)
            r = strbuf_printf(out, "\n%s:\n", k->group);
        else if (!(k->flags & KEY_INTERNAL))
            r = print_key_help(k, out);
    }
    return r;
}

/* --- for processes of the daemon's own: a pair for each item of a list */

typedef int (*put_pair_fn)(void *data, const char *name, const char *value);

static int put_key(const struct config *c, const struct config_key *k, put_pair_fn put, void *data)
{
    int r = 0;
    if (config_value_is_list(k)) {
        for (char **v = config_value_items(c, k); r == 0 && v && *v; v++)
            r = put(data, k->name, *v);
        return r;
    }
    _cleanup_strbuf_ struct strbuf value = STRBUF_INIT(CONFIG_VALUE_MAX);
    r = config_value_format(c, k, &value);
    return r == 0 && value.len ? put(data, k->name, value.data) : r;
}

static int take_pair(struct config *c, const char *name, const char *value, struct error *err)
{
    const struct config_key *k = config_key_find(name);
    char why[256] = "unknown";
    if (!k || config_value_add(c, k, ORIGIN_PARENT, value, why, sizeof(why)) < 0)
        return error_set(err, ERROR_INTERNAL, EPROTO, "configuration key '%s': %s", name, why);
    return 0;
}

static int put_text(void *data, const char *name, const char *value)
{
    int r = strbuf_append(data, name, strlen(name) + 1);
    if (r < 0)
        return r;
    return strbuf_append(data, value, strlen(value) + 1);
}

int config_serialize(const struct config *c, struct strbuf *out)
{
    config_for_each_key(k) {
        int r = put_key(c, k, put_text, out);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_deserialize(struct config *c, const char *data, size_t len, struct error *err)
{
    const char *end = data + len;
    while (data < end) {
        const char *value = memchr(data, 0, (size_t)(end - data));
        const char *stop =
            value && value + 1 < end ? memchr(value + 1, 0, (size_t)(end - value - 1)) : NULL;
        if (!stop)
            return error_set(err, ERROR_INTERNAL, EPROTO, "configuration cut short");
        int r = take_pair(c, data, value + 1, err);
        if (r < 0)
            return r;
        data = stop + 1;
    }
    machine_cidrs_take(&c->machine, c->machine_cidrs);
    return 0;
}

static int put_item(void *data, const char *name, const char *value)
{
    char ***list = data;
    size_t n = strv_length(*list);
    *list = xrealloc(*list, (n + 2) * sizeof(char *));
    (*list)[n] = xasprintf("%s=%s", name, value);
    (*list)[n + 1] = NULL;
    return 0;
}

void config_list_part(const struct config *c, size_t offset, size_t size, char ***list)
{
    config_for_each_key(k) {
        if (k->offset >= offset && k->offset < offset + size)
            put_key(c, k, put_item, list);
    }
}

int config_load_part(struct config *c, char *const *list, struct error *err)
{
    for (; *list; list++) {
        const char *value = strchr(*list, '=');
        _cleanup_free_ char *name = value ? xstrndup(*list, (size_t)(value - *list)) : NULL;
        if (!name)
            return error_set(err, ERROR_INTERNAL, EPROTO, "'%s' is not a setting", *list);
        int r = take_pair(c, name, value + 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

const struct runtime_ops *config_runtime(const struct config *c)
{
    return runtime_find(c->runtime);
}

bool config_process_enabled(const struct config *c)
{
    return c->enable_process || config_runtime(c)->isolation == ISOLATION_NONE;
}

bool config_has_engine(const struct config *c, const char *name)
{
    for (char **v = c->engines; v && *v; v++)
        if (strcmp(*v, name) == 0)
            return true;
    const char *own = config_runtime(c)->engine; /* "docker-gvisor" is docker's, too */
    return own && strcmp(own, name) == 0;
}
