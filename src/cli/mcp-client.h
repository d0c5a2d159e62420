/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files of MCP clients: where each keeps its servers, and how an entry looks there.
 * Other entries are kept as they are, and a file is replaced in one step or not at all. */
#pragma once

#include <stddef.h>

struct sbx_error;
struct strbuf;

/* How a client reaches the daemon. */
struct mcp_target {
    const char *url;            /* of /mcp; NULL: it starts the command */
    const char *command;        /* absolute path of mas-sandboxd */
    const char *token_variable; /* the environment variable with the key; NULL if none is needed */
};

struct mcp_client {
    const char *name;    /* "claude" */
    const char *product; /* "Claude Code" */
    const char *path;    /* ~/ is the home directory; else below the current one */
    /* text (may be empty) with our entry in it, into out. */
    int (*merge)(const char *text, size_t len, const struct mcp_target *t, struct strbuf *out,
                 struct sbx_error *err);
};

extern const struct mcp_client mcp_clients[];
extern const size_t n_mcp_clients;
const struct mcp_client *mcp_client_find(const char *name); /* or NULL */

#define MCP_SERVER_NAME "mas-sandbox"
