/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of a connection: bytes from one socket to another through a bounded buffer.
 *
 * Invariants: len <= RELAY_BUFFER; `eof` is set once the source has ended, `shut` once that end was
 * passed on (or the sink went away, which drops what is buffered). The end of a source that broke
 * is never passed on as an ordinary one: its user resets the sink. Reading stops while the buffer
 * is full, so a slow sink slows its source and nothing else. A relay that waits for bytes has no
 * buffer, so that idle connections cost next to nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_BUFFER 65536

struct relay {
    char *data; /* RELAY_BUFFER bytes; NULL after a pump that left nothing in it */
    size_t start, len;
    bool eof, shut;
    bool cut;        /* with eof: the source did not end as it should, but broke */
    bool sink_gone;  /* with shut: the sink takes no more, which is why it ended */
    bool sink_broke; /* with sink_gone: it did not end, but broke */
    bool keeps_end;  /* the pump does not pass the end on: its user calls relay_pass_end() */
    bool bounded; /* no more than limit bytes are taken from the source; what follows is dropped */
    uint64_t limit;
    uint64_t bytes; /* delivered */
};

void relay_init(struct relay *r);
void relay_done(struct relay *r);
/* Moves what can be moved without waiting, whatever the sockets' own mode. */
void relay_pump(struct relay *r, int from, int to);
/* Writes what is buffered, as far as the sink takes it. */
void relay_drain(struct relay *r, int to);
/* The source has ended and nothing is buffered: the sink is shut, unless that end is a cut. */
void relay_pass_end(struct relay *r, int to);
/* The sink is known to be gone, although nothing was to be written to it. */
void relay_lose_sink(struct relay *r);
/* Appends bytes that did not come from the source: false when they do not fit. */
bool relay_put(struct relay *r, const void *data, size_t len);
/* One read from the source. Bytes read, 0 when there are none now or no room, -errno on failure;
 * sets eof. */
int relay_fill(struct relay *r, int from);
bool relay_wants_read(const struct relay *r);
bool relay_wants_write(const struct relay *r);
bool relay_finished(const struct relay *r);
