/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says about the stream of events it wants: its form, and where it goes on. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/stream.h"

/* Whether a comma-separated list has a token; case matters, as in subprotocols. */
static bool list_has(const char *list, const char *token)
{
    size_t n = strlen(token);
    while (list && *list) {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, " \t,");
        if (len == n && memcmp(list, token, n) == 0)
            return true;
        list += len;
    }
    return false;
}

enum stream_kind stream_kind_wanted(const struct http_request *http)
{
    const char *accept = http_request_header(http, "Accept");
    if (http_request_wants_ws(http))
        return list_has(http_request_header(http, "Sec-WebSocket-Protocol"), STREAM_BINARY_PROTOCOL)
                   ? STREAM_WS_BINARY
                   : STREAM_WS_TEXT;
    return accept && strstr(accept, "text/event-stream") ? STREAM_SSE : STREAM_NDJSON;
}

/* A client that reconnects by itself repeats its first query: its header is newer. */
int stream_parse_last_id(const struct api_request *req, uint64_t *since, struct error *err)
{
    const char *id = http_request_header(req->http, "Last-Event-ID");
    if (!id || !*id)
        return 0;
    if (strspn(id, "0123456789") != strlen(id) || strlen(id) > 18)
        return error_field(err, "Last-Event-ID", "'Last-Event-ID' is not an event's number");
    *since = strtoull(id, NULL, 10);
    return 1;
}

int stream_query_parse(const struct api_request *req, struct stream_query *ret, struct error *err)
{
    struct stream_query q = {.kind = stream_kind_wanted(req->http)};
    bool is_ws = q.kind == STREAM_WS_TEXT || q.kind == STREAM_WS_BINARY;
    if ((req->route->flags & ROUTE_WS) && !is_ws && q.kind != STREAM_SSE)
        return error_set(err, ERROR_INVALID, 0,
                         "a WebSocket handshake or 'Accept: text/event-stream' is expected here");
    int r = api_query_number(req, "since", 0, INT64_MAX, &q.since, err);
    if (r < 0)
        return r;
    r = api_query_number(req, "stdout_offset", 0, INT64_MAX, &q.from[0], err);
    if (r < 0)
        return r;
    r = api_query_number(req, "stderr_offset", 0, INT64_MAX, &q.from[1], err);
    if (r < 0)
        return r;
    if (q.since && (q.from[0] || q.from[1]))
        return error_field(err, "since", "'since' and byte offsets exclude each other");
    if (q.kind == STREAM_SSE)
        r = stream_parse_last_id(req, &q.since, err);
    if (r < 0)
        return r;
    *ret = q;
    return 0;
}
