/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures that take time or ask the client (fixtures-ask.c), for the table of fixtures.c. */
#pragma once

#include "mcp/call.h"

void fixture_logging(struct mcp_call *call);
void fixture_progress(struct mcp_call *call);
void fixture_reconnection(struct mcp_call *call);
void fixture_sleep(struct mcp_call *call);
void fixture_touch(struct mcp_call *call);
void fixture_sampling(struct mcp_call *call);
void fixture_elicitation(struct mcp_call *call);
void fixture_elicitation_defaults(struct mcp_call *call);
void fixture_elicitation_enums(struct mcp_call *call);
