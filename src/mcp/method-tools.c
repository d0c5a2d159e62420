/* SPDX-License-Identifier: Apache-2.0 */
/* tools/list and tools/call. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "mcp/internal.h"
#include "mcp/schema.h"

void method_tools_list(struct mcp_call *call)
{
    call_finish_page(call, "tools", call->session->mcp->tool_list);
}

/* From 2025-11-25 on a model gets to read what is wrong with its arguments; before, its client. */
static void refuse_arguments(struct mcp_call *call, const struct error *err)
{
    if (call->session->revision < MCP_2025_11_25) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "%s", err->message);
        return;
    }
    mcp_call_finish_error(call, err, "Correct the arguments and call the tool again.");
}

void method_tools_call(struct mcp_call *call)
{
    struct error err = {0};
    json_t *arguments = json_object_get(call->params, "arguments");
    const char *name = call_param_string(call, "name");
    if (!name)
        return;
    const struct tool_entry *e = catalog_find_tool(call->session->mcp, name);
    if (!e) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "Unknown tool: %.100s", name);
        return;
    }
    if (arguments && !json_is_object(arguments)) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'arguments' must be an object");
        return;
    }
    call->tool = e;
    if (arguments) {
        json_decref(call->arguments);
        call->arguments = json_incref(arguments);
    }
    if (e->input && schema_check(e->input, call->arguments, "arguments", &err) < 0)
        refuse_arguments(call, &err);
    else
        e->tool->handle(call);
}
