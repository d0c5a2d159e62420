/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox as tools, resources and prompts of MCP. */
#pragma once

#include "mcp/tool.h"

extern const struct mcp_catalog mcp_sandbox_catalog;

/* resources.c and prompts.c */
extern const struct mcp_resource_provider sandbox_resources[];
extern const struct mcp_prompt sandbox_prompts[];
