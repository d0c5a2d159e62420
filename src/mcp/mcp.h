/* The MCP server: catalogs of tools, resources and prompts, offered over Streamable HTTP (routes of
 * the api) or over stdin and stdout.
 *
 * Both transports speak the revisions with sessions, 2024-11-05 to 2025-11-25. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "api/request.h"
#include "mcp/tool.h"

struct api_options;
struct error;
struct mcp;
struct mcp_stdio;

struct mcp_options {
    uv_loop_t *loop;
    const struct api_options *services;
    const struct mcp_catalog *const *catalogs;
    size_t n_catalogs;
    size_t max_sessions, max_sessions_per_key;
    size_t max_calls; /* of a session, at once */
    size_t max_message_bytes, max_answer_bytes;
    size_t max_batch;
    size_t max_subscriptions;  /* of a session */
    size_t page_size;          /* items of a list */
    size_t queue_bytes;        /* unsent on a stream before notifications are left out */
    size_t replay_bytes;       /* sent events kept by a session, to be sent again */
    size_t buffer_total_bytes; /* events of all sessions */
    uint64_t session_ttl_ms, client_timeout_ms;
    uint64_t stream_after_ms; /* an answer that takes longer becomes a stream */
    uint64_t replay_ms;       /* how long a finished stream can be asked for again */
    uint64_t keepalive_ms, retry_ms;
    uint64_t shutdown_grace_ms; /* of stdio: for what runs when the input ends */
};

/* NULL with err set when a catalog is wrong: two tools of one name, a schema that is none. */
struct mcp *mcp_new(const struct mcp_options *o, struct error *err);
/* Ends streams that would wait forever, for a server that drains. New sessions are refused. */
void mcp_drain(struct mcp *m);
/* Cancels every call and ends every session. */
void mcp_close(struct mcp *m);
void mcp_free(struct mcp *m); /* after mcp_close() and the end of the loop */

/* POST, GET and DELETE of /mcp, and what happens there in numbers. */
struct api_extension mcp_extension(struct mcp *m);

/* One session on stdin and stdout, a message a line. on_end comes once, when the input has ended
 * and everything is written. */
struct mcp_stdio *mcp_stdio_start(struct mcp *m, void (*on_end)(void *data), void *data);
void mcp_stdio_free(struct mcp_stdio *s); /* after the end of the loop */

/* For protocol test suites: the tools, resources and prompts they ask for. */
extern const struct mcp_catalog mcp_fixtures;
