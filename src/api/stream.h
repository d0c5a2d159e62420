/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of a journal on the wire: NDJSON and SSE answers and WebSockets. A slow one holds its
 * place in the journal, not bytes in memory.
 *
 * The binary WebSocket (subprotocol mas.binary.v1): each message is a header of little-endian
 * numbers and the bytes of one event, or of several events of one stream that follow each other:
 *
 *   u8 type (1 start, 2 output, 3 cut, 4 exit, 5 blocked), u8 stream (1 stdout, 2 stderr, else 0),
 *   u16 0, u32 bytes that follow, u64 seq of the last event in it, u64 offset in the stream,
 *   u64 time in ns since 1970
 *
 * Output is followed by its bytes, any other type by its event as JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_request;
struct error;
struct exec;
struct http_request;

#define STREAM_BINARY_PROTOCOL "mas.binary.v1"
#define STREAM_BINARY_HEADER   32

enum stream_kind { STREAM_NDJSON, STREAM_SSE, STREAM_WS_TEXT, STREAM_WS_BINARY };

struct stream_query {
    enum stream_kind kind;
    uint64_t since;   /* the last event the client has */
    uint64_t from[2]; /* or where its streams go on; 0: from the start */
    bool follow;      /* false means to stop at the newest event */
};

/* What the request's headers ask for. */
enum stream_kind stream_kind_wanted(const struct http_request *http);
/* Reads since=, Last-Event-ID, stdout_offset= and stderr_offset=; follow is the caller's. */
int stream_query_parse(const struct api_request *req, struct stream_query *ret, struct error *err);
/* Last-Event-ID alone. 1: it is there. */
int stream_parse_last_id(const struct api_request *req, uint64_t *since, struct error *err);
/* Takes the request over and answers it with events, exit last; then ends. on_end (may be NULL)
 * comes once, maybe from inside; client_left says that the answer was cut. */
void stream_open(struct api_request *req, struct exec *e, const struct stream_query *q,
                 void (*on_end)(void *data, bool client_left), void *data);
