/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON execute request a line, one response a line (the MAS API), on a connection of its own.
 */
#pragma once

#include "base/json.h"

struct tool_failure;

#define JSON_LINE_MAX        (10 * 1024 * 1024)
#define JSON_LINE_TIMEOUT_MS 60000         /* of a command whose policy names none */
#define JSON_LINE_OUTPUT_MAX (1024 * 1024) /* of each stream of a command; the rest is dropped */

/* Serves fd until its end; returns when there is nothing more to read. */
void json_line_serve(int fd, const char *workdir);

/* json-line-command.c: the tools shell and code. A new reference {"stdout","stderr","exit_code",…},
 * or NULL with f set. */
json_t *json_line_shell(const json_t *args, int64_t timeout_ms, struct tool_failure *f);
json_t *json_line_code(const json_t *args, int64_t timeout_ms, struct tool_failure *f);
