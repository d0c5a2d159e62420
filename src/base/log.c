/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const char *program = "mas";
static enum log_level min_level = LOG_INFO;
static bool as_json;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static_assert(sizeof(level_names) / sizeof(level_names[0]) == _LOG_LEVEL_MAX, "a name per level");

void log_setup(const char *name, enum log_level min, bool json)
{
    program = name;
    min_level = min;
    as_json = json;
}

int log_level_parse(const char *name, enum log_level *ret)
{
    for (int i = 0; i < _LOG_LEVEL_MAX; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    return -EINVAL;
}

bool log_enabled(enum log_level level)
{
    return level >= min_level;
}

/* Escapes for JSON, and keeps a hostile value from forging a second log line in the text form. */
static size_t escape_value(char *out, size_t size, const char *in, bool json)
{
    size_t n = 0;
    for (; *in && n + 8 < size; in++) {
        unsigned char c = (unsigned char)*in;
        if (c < 0x20 || c == 0x7f)
            n += (size_t)snprintf(out + n, size - n, json ? "\\u%04x" : "\\x%02x", c);
        else if (json && (c == '"' || c == '\\'))
            n += (size_t)snprintf(out + n, size - n, "\\%c", c);
        else
            out[n++] = (char)c;
    }
    out[n] = 0;
    return n;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (!log_enabled(level))
        return;
    int saved = errno;
    char message[2048], clean[4096], line[4608], when[40];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    escape_value(clean, sizeof(clean), message, as_json);
    clock_format_rfc3339(clock_real_ns(), when);
    int n;
    if (as_json)
        n = snprintf(line, sizeof(line),
                     "{\"time\":\"%s\",\"program\":\"%s\",\"level\":\"%s\",\"msg\":\"%s\"}\n", when,
                     program, level_names[level], clean);
    else
        n = snprintf(line, sizeof(line), "%s %s %s: %s\n", when, program, level_names[level],
                     clean);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* Nowhere left to say it. */
    }
    errno = saved;
}
