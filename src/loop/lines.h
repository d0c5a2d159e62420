/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from a descriptor, one after another.
 *
 * Reading stops while paused, so that a fast writer is held back by its own pipe. Works on pipes,
 * sockets, terminals and regular files. */
#pragma once

#include <stddef.h>
#include <uv.h>

struct lines;

struct lines_handlers {
    /* Without its newline, NUL-terminated, valid during the call. Blank lines are passed over; the
     * last one may lack its newline. */
    void (*on_line)(void *data, const char *line, size_t len);
    void (*on_too_long)(void *data); /* once for a line over the maximum, which is skipped */
    void (*on_end)(void *data);      /* once; not while paused */
};

struct lines *lines_start(uv_loop_t *loop, int fd, size_t max_line,
                          const struct lines_handlers *handlers, void *data);
/* Both may be called from inside a handler. */
void lines_pause(struct lines *l);
void lines_resume(struct lines *l);
void lines_free(struct lines *l); /* after the end of the loop; NULL is fine */
