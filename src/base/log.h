/* SPDX-License-Identifier: Apache-2.0 */
/* One line per fact, on stderr. Messages are "what happened key=value ...": the text form prints
 * them after a level, the JSON form as {"time","level","msg"}. Never logs bodies, tokens or env
 * values.
 */
#pragma once

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, _LOG_LEVEL_MAX };

void log_setup(const char *program, enum log_level min, bool json);
int log_level_parse(const char *name, enum log_level *ret);
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG))                                                                \
            log_line(LOG_DEBUG, __VA_ARGS__);                                                      \
    } while (0)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
