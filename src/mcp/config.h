/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator may set of MCP (configuration keys in config/table.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mcp_config {
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
    /* Of the tools. */
    size_t output_bytes;         /* of stdout and of stderr, by default */
    size_t transfer_bytes;       /* of a file */
    uint64_t command_timeout_ms; /* of a command that is waited for, by default */
    uint64_t approval_wait_ms;   /* for a person, before the call is answered as pending */
};
