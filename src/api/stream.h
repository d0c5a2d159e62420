/* Readers of a journal on the wire: NDJSON answers and WebSockets. A slow one holds its place in
 * the journal, not bytes in memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct exec;
struct http_request;

/* Answers http with events from seq on, one JSON object a line, exit last; then ends. With follow
 * false it stops at the newest event. */
void stream_ndjson(struct http_request *http, struct exec *e, uint64_t since, bool follow,
                   void (*on_gone)(void *data), void *data);
/* Upgrades http and sends one text frame an event. */
void stream_ws(struct http_request *http, struct exec *e, uint64_t since);
