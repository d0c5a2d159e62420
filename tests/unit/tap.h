/* SPDX-License-Identifier: Apache-2.0 */
/* TAP for C tests: ok() a fact, tap_done() at the end of main. Exit 1 when a fact was wrong. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool good, const char *file,
                                                                 int line, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++) /* what is told is often hostile, and a line is a line */
        *c = (unsigned char)*c < ' ' ? '?' : *c;
    printf("%sok %d - %s\n", good ? "" : "not ", ++tap_count, text);
    if (!good) {
        tap_failed++;
        printf("# at %s:%d\n", file, line);
    }
    fflush(stdout);
    return good;
}

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The whole program is skipped; meson knows 77. */
#define tap_skip_all(why)                                                                          \
    do {                                                                                           \
        printf("1..0 # SKIP %s\n", (why));                                                         \
        exit(77);                                                                                  \
    } while (0)
