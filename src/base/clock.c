/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_SEC 1000000000LL

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

int64_t clock_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
    return clock_mono_ns() / 1000000;
}

/* MAS_CLOCK_JUMP, for tests: from a moment on, the wall clock is this much off. */
static int64_t jump_ns, jump_at_ns;

void clock_arm_jump(const char *text)
{
    long long seconds, after_ms;
    if (!text || sscanf(text, "%lld:%lld", &seconds, &after_ms) != 2)
        return;
    jump_ns = seconds * NS_PER_SEC;
    jump_at_ns = clock_mono_ns() + after_ms * 1000000;
}

int64_t clock_real_ns(void)
{
    int64_t now = clock_ns(CLOCK_REALTIME);
    return jump_ns && clock_mono_ns() >= jump_at_ns ? now + jump_ns : now;
}

/* The latest wall clock that was seen, and when that was by the clock that nothing sets. Expiries
 * go by it: a wall clock that is set back must not bring an ended key back to life. */
static int64_t seen_ns, seen_at_ns;

int64_t clock_seen_ns(void)
{
    int64_t now = clock_real_ns(), mono = clock_mono_ns();
    int64_t least = seen_ns + (seen_ns ? mono - seen_at_ns : 0);
    seen_ns = now > least ? now : least;
    seen_at_ns = mono;
    return seen_ns;
}

void clock_seen_raise(int64_t real_ns)
{
    if (real_ns <= clock_seen_ns())
        return;
    seen_ns = real_ns;
    seen_at_ns = clock_mono_ns();
}

/* Upwards, so that a timer never fires before the time that it is for. */
uint64_t clock_ms_up(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns / 1000000 + (ns % 1000000 > 0) : 0;
}

/* Zero-padded. */
static char *put_digits(char *p, unsigned long value, int width)
{
    for (int i = width - 1; i >= 0; i--, value /= 10)
        p[i] = (char)('0' + value % 10);
    return p + width;
}

void clock_format_rfc3339(int64_t real_ns, char out[CLOCK_RFC3339_SIZE])
{
    time_t sec = (time_t)(real_ns / NS_PER_SEC);
    unsigned long frac = (unsigned long)(real_ns % NS_PER_SEC);
    struct tm tm;
    gmtime_r(&sec, &tm);
    const struct {
        int value, width;
        char after;
    } parts[] = {{tm.tm_year + 1900, 4, '-'}, {tm.tm_mon + 1, 2, '-'}, {tm.tm_mday, 2, 'T'},
                 {tm.tm_hour, 2, ':'},        {tm.tm_min, 2, ':'},     {tm.tm_sec, 2, '.'}};
    char *p = out;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        p = put_digits(p, (unsigned long)parts[i].value, parts[i].width);
        *p++ = parts[i].after;
    }
    p = put_digits(p, frac, 9);
    while (p[-1] == '0')
        p--;
    if (p[-1] == '.')
        p--;
    *p++ = 'Z';
    *p = 0;
}

/* value/unit with up to the unit's own precision, trailing zeros dropped. */
static void format_fraction(char *out, size_t size, int64_t ns, int64_t unit, const char *suffix)
{
    char digits[16];
    int width = 0;
    for (int64_t u = unit; u > 1; u /= 10)
        width++;
    int n = snprintf(out, size, "%lld", (long long)(ns / unit));
    int64_t frac = ns % unit;
    if (frac) {
        int d = snprintf(digits, sizeof(digits), "%0*lld", width, (long long)frac);
        while (d > 0 && digits[d - 1] == '0')
            digits[--d] = 0;
        n += snprintf(out + n, size - (size_t)n, ".%s", digits);
    }
    snprintf(out + n, size - (size_t)n, "%s", suffix);
}

void clock_format_duration(int64_t ns, char out[CLOCK_DURATION_SIZE])
{
    int n = 0;
    if (ns < 0) {
        out[n++] = '-';
        ns = ns == INT64_MIN ? INT64_MAX : -ns;
    }
    size_t left = CLOCK_DURATION_SIZE - (size_t)n;
    if (ns == 0)
        snprintf(out + n, left, "0s");
    else if (ns < 1000)
        snprintf(out + n, left, "%lldns", (long long)ns);
    else if (ns < 1000000)
        format_fraction(out + n, left, ns, 1000, "µs");
    else if (ns < NS_PER_SEC)
        format_fraction(out + n, left, ns, 1000000, "ms");
    else {
        int64_t hours = ns / (3600 * NS_PER_SEC), minutes = ns / (60 * NS_PER_SEC) % 60;
        if (hours)
            n += snprintf(out + n, left, "%lldh", (long long)hours);
        if (hours || minutes)
            n += snprintf(out + n, CLOCK_DURATION_SIZE - (size_t)n, "%lldm", (long long)minutes);
        format_fraction(out + n, CLOCK_DURATION_SIZE - (size_t)n, ns % (60 * NS_PER_SEC),
                        NS_PER_SEC, "s");
    }
}

static int parse_unit(const char **text, int64_t *ret)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"ns", 1},
        {"us", 1000},
        {"µs", 1000},
        {"ms", 1000000},
        {"s", 1000000000LL},
        {"m", 60 * NS_PER_SEC},
        {"h", 3600 * NS_PER_SEC},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(*text, units[i].name, n) != 0)
            continue;
        char next = (*text)[n];
        if (next && next != '.' && (next < '0' || next > '9'))
            continue;
        *text += n;
        *ret = units[i].ns;
        return 0;
    }
    return -EINVAL;
}

int clock_parse_duration(const char *text, int64_t *ret_ns)
{
    int64_t total = 0;
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    if (!*text)
        return -EINVAL;
    while (*text) {
        int64_t whole = 0, frac = 0, scale = 1, unit, part;
        bool digits = false;
        for (; *text >= '0' && *text <= '9'; text++, digits = true)
            if (__builtin_mul_overflow(whole, 10, &whole) ||
                __builtin_add_overflow(whole, *text - '0', &whole))
                return -ERANGE;
        if (*text == '.')
            for (text++; *text >= '0' && *text <= '9'; text++, digits = true)
                if (scale < NS_PER_SEC) {
                    frac = frac * 10 + (*text - '0');
                    scale *= 10;
                }
        if (!digits || parse_unit(&text, &unit) < 0)
            return -EINVAL;
        if (__builtin_mul_overflow(whole, unit, &part) ||
            __builtin_add_overflow(total, part, &total) ||
            __builtin_add_overflow(total, (int64_t)((double)frac / (double)scale * (double)unit),
                                   &total))
            return -ERANGE;
    }
    *ret_ns = total;
    return 0;
}
