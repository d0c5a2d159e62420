/* SPDX-License-Identifier: Apache-2.0 */
/* The line protocol on stdin and stdout: requests are served one after another, answers come in
 * order, and only answers go to stdout. */
#pragma once

#include <stddef.h>
#include <uv.h>

struct api;
struct line_mode;

/* on_end: the input has ended and every request in it was answered. */
struct line_mode *line_mode_start(uv_loop_t *loop, struct api *api, size_t max_line,
                                  void (*on_end)(void *data), void *data);
void line_mode_free(struct line_mode *l);
