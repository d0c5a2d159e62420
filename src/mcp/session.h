/* SPDX-License-Identifier: Apache-2.0 */
/* What one client has agreed with the server: revision, capabilities, subscriptions, and whatever a
 * catalog keeps for it.
 *
 * A session lives until it is ended and its last call is finished. The revisions without sessions
 * get one of these for each owner. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "mcp/call.h"

struct identity;
struct mcp_session;

/* In the order of time: a comparison asks "at least". */
enum mcp_revision {
    MCP_2024_11_05,
    MCP_2025_03_26,
    MCP_2025_06_18,
    MCP_2025_11_25,
    _MCP_REVISION_MAX,
};

enum mcp_client_capability {
    MCP_CLIENT_SAMPLING = 1,
    MCP_CLIENT_ELICITATION = 2, /* of forms */
    MCP_CLIENT_ROOTS = 4,
};

enum mcp_list { MCP_LIST_TOOLS, MCP_LIST_RESOURCES, MCP_LIST_PROMPTS, _MCP_LIST_MAX };

const char *mcp_revision_name(enum mcp_revision revision);
int mcp_revision_parse(const char *name, enum mcp_revision *ret); /* -EINVAL for an unknown one */

const char *mcp_session_owner(const struct mcp_session *s); /* its key */
const struct identity *mcp_session_identity(const struct mcp_session *s);
bool mcp_session_client_has(const struct mcp_session *s, enum mcp_client_capability capability);
const struct services *mcp_session_services(const struct mcp_session *s);

/* A catalog's own, freed with the session (after its last call). One slot. */
void mcp_session_set_data(struct mcp_session *s, void *data, void (*free_data)(void *data));
void *mcp_session_data(const struct mcp_session *s); /* NULL while there is none */

/* Tells the client that a resource changed, where it subscribed to it. */
void mcp_session_resource_updated(struct mcp_session *s, const char *uri);
/* Tells the client that a list is not what it was. */
void mcp_session_list_changed(struct mcp_session *s, enum mcp_list list);
