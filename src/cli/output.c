/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "validate/validate.h"
#include "libsbx/sbx.h"

#define ESCAPE_MAX    10  /* bytes that one byte becomes at most */
#define LINE_WIDTH    100 /* where there is no terminal that says */
#define WORD_PATIENCE 20  /* columns at a line's end that may stay free for a word */

static const char *const colours[] = {
    [COLOUR_OFF] = "\033[0m",    [COLOUR_BOLD] = "\033[1m",    [COLOUR_RED] = "\033[31m",
    [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
};
static_assert(ELEMENTS(colours) == _COLOUR_MAX, "a sequence per colour");

static bool may_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fd);
}

const char *colour(enum colour c)
{
    return may_colour(STDOUT_FILENO) ? colours[c] : "";
}

/* for stderr */
static const char *colour_err(enum colour c)
{
    return may_colour(STDERR_FILENO) ? colours[c] : "";
}

/* Bytes that are not UTF-8 and controls as \\xNN, other characters that do not show as \\uNNNN. */
char *printable(const char *text)
{
    size_t len = strlen(text), start;
    struct strbuf out = STRBUF_INIT(len * ESCAPE_MAX + 1);
    for (size_t pos = 0; pos < len;) {
        start = pos;
        int32_t cp = validate_next(text, len, &pos);
        if (validate_shows(cp))
            strbuf_append(&out, text + start, pos - start);
        else if (cp < 0x100)
            strbuf_printf(&out, "\\x%02x", cp < 0 ? (unsigned char)text[start] : (unsigned)cp);
        else
            strbuf_printf(&out, cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
    }
    return out.data ? strbuf_steal(&out) : xstrdup("");
}

bool has_hidden(const char *text)
{
    size_t len = strlen(text);
    for (size_t pos = 0; pos < len;) {
        int32_t cp = validate_next(text, len, &pos);
        if (!validate_shows(cp) && cp != '\n' && cp != '\t')
            return true;
    }
    return false;
}

/* On a terminal nothing but ASCII without DEL: JSON has its own way to write the rest. */
void print_json(const json_t *value, size_t flags)
{
    bool terminal = isatty(STDOUT_FILENO);
    _cleanup_free_ char *text = json_dumps(value, flags | (terminal ? JSON_ENSURE_ASCII : 0));
    for (const char *p = text; p && *p;) {
        size_t n = terminal ? strcspn(p, "\x7f") : strlen(p);
        fwrite(p, 1, n, stdout);
        p += n;
        if (*p == '\x7f' && p++)
            fputs("\\u007f", stdout);
    }
    putchar('\n');
}

static void print_message(const char *text, enum colour c)
{
    _cleanup_free_ char *clean = printable(text);
    fflush(stdout);
    fprintf(stderr, "%ssbx:%s %s\n", colour_err(c), colour_err(COLOUR_OFF), clean);
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[2048];
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    print_message(text, COLOUR_YELLOW);
}

int cli_fail_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[2048];
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    print_message(text, COLOUR_RED);
    return EXIT_USAGE;
}

int cli_fail(const struct sbx_error *err)
{
    print_message(err->message, COLOUR_RED);
    if (strcmp(err->code, "pending_approval") == 0)
        cli_warn("once approved ('sbx approvals approve %s'), repeat this with -approval %s; or "
                 "use -approval wait",
                 err->approval_id, err->approval_id);
    for (int c = ERROR_NONE + 1; c < _ERROR_CODE_MAX; c++)
        if (strcmp(error_code_name((enum error_code)c), err->code) == 0)
            return error_code_exit((enum error_code)c);
    return EXIT_SBX_FAILED;
}

int cli_set_error(struct sbx_error *err, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err->http_status = 0;
    snprintf(err->code, sizeof(err->code), "%s", code ? code : "internal");
    vsnprintf(err->message, sizeof(err->message), fmt, ap);
    va_end(ap);
    return -1;
}

int exit_code_of(const char *status, const char *error, bool has_exit_code, int exit_code)
{
    if (strcmp(status, "timed_out") == 0) {
        cli_warn("the command ran out of time");
        return EXIT_TIMED_OUT;
    }
    if (strcmp(status, "oom_killed") == 0) {
        cli_warn("the command ran out of memory");
        return EXIT_OOM_KILLED;
    }
    if (strcmp(status, "canceled") == 0)
        cli_warn("the command was canceled");
    else if (*error)
        cli_warn("%s", error);
    if (!has_exit_code)
        return strcmp(status, "completed") == 0 ? 0 : EXIT_SBX_FAILED;
    return exit_code & 0xff;
}

char *cell(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    if (json_is_string(v) && json_string_length(v))
        return printable(json_string_value(v));
    if (json_is_boolean(v))
        return xstrdup(json_is_true(v) ? "true" : "false");
    if (json_is_integer(v))
        return xasprintf("%lld", (long long)json_integer_value(v));
    if (json_is_real(v))
        return xasprintf("%g", json_real_value(v));
    return xstrdup("-");
}

void table_init(struct table *t, size_t columns, const char *const titles[])
{
    assert(columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns};
    char *cells[TABLE_COLUMNS_MAX];
    for (size_t i = 0; i < columns; i++)
        cells[i] = xstrdup(titles[i]);
    table_add(t, cells);
}

void table_add(struct table *t, char *const cells[])
{
    char **row = xcalloc(t->columns, sizeof(char *));
    memcpy(row, cells, t->columns * sizeof(char *));
    t->rows = xrealloc(t->rows, (t->n_rows + 1) * sizeof(char **));
    t->rows[t->n_rows++] = row;
}

/* Columns on a screen, near enough: bytes that do not continue a UTF-8 sequence. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static size_t line_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return LINE_WIDTH;
    return size.ws_col;
}

/* How many bytes of text fit into so many columns. */
static size_t fit_columns(const char *text, size_t columns)
{
    size_t n = 0, space = 0, left = columns;
    for (; text[n] && left; left--) {
        if (text[n] == ' ' && left <= WORD_PATIENCE)
            space = n;
        do
            n++;
        while (((unsigned char)text[n] & 0xc0) == 0x80);
    }
    return text[n] && text[n] != ' ' && space ? space : n;
}

void print_wrapped(size_t used, size_t indent, const char *text)
{
    size_t width = line_width();
    do {
        size_t room = width > used + WORD_PATIENCE ? width - used : WORD_PATIENCE;
        size_t n = fit_columns(text, room);
        printf("%.*s\n", (int)n, text);
        text += n;
        if (*text)
            printf("%*s", (int)indent, "");
        used = indent;
    } while (*text);
}

void table_print(struct table *t)
{
    size_t width[TABLE_COLUMNS_MAX] = {0};
    for (size_t r = 0; r < t->n_rows; r++)
        for (size_t i = 0; i < t->columns; i++)
            if (width_of(t->rows[r][i]) > width[i])
                width[i] = width_of(t->rows[r][i]);
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t i = 0; i < t->columns; i++) {
            bool last = i + 1 == t->columns;
            int pad = last ? 0 : (int)(width[i] - width_of(t->rows[r][i]) + 2);
            printf("%s%*s", t->rows[r][i], pad, "");
            free(t->rows[r][i]);
        }
        putchar('\n');
        free(t->rows[r]);
    }
    free(t->rows);
    *t = (struct table){0};
}
