/* SPDX-License-Identifier: Apache-2.0 */
/* The MCP server: catalogs of tools, resources and prompts, offered over Streamable HTTP (routes of
 * the api) or over stdin and stdout.
 *
 * Both transports speak the revisions with sessions, 2024-11-05 to 2025-11-25. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "api/request.h"
#include "mcp/config.h"
#include "mcp/tool.h"

struct services;
struct error;
struct mcp;
struct mcp_stdio;

struct mcp_options {
    uv_loop_t *loop;
    const struct services *services;
    const struct mcp_catalog *const *catalogs;
    size_t n_catalogs;
    struct mcp_config config;
    uint64_t shutdown_grace_ms; /* of stdio: for what runs when the input ends */
};

/* NULL with err set when a catalog is wrong: two tools of one name, or a schema that cannot be
 * read. */
struct mcp *mcp_new(const struct mcp_options *o, struct error *err);
/* Ends streams that would wait forever, for a server that drains. New sessions are refused. */
void mcp_drain(struct mcp *m);
/* Cancels the calls of a key that does not live any more, and ends its sessions. */
void mcp_key_ended(struct mcp *m, const char *key);
/* Cancels every call and ends every session. */
void mcp_close(struct mcp *m);
void mcp_free(struct mcp *m); /* after mcp_close() and the end of the loop */

/* POST, GET and DELETE of /mcp, and what happens there in numbers. */
struct api_extension mcp_extension(struct mcp *m);

/* One session on stdin and stdout, a message a line. on_end comes once, when the input has ended
 * and everything is written. */
struct mcp_stdio *mcp_stdio_start(struct mcp *m, void (*on_end)(void *data), void *data);
void mcp_stdio_free(struct mcp_stdio *s); /* after the end of the loop */

/* What protocol test suites ask for. It is in the program that they are run against
 * (tests/mcp/fixtures.c) and not in the daemon, where its address is NULL. */
extern const struct mcp_catalog mcp_fixtures __attribute__((weak));
