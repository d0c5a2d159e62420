/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the sandbox's tools, by file; catalog.c is their table. */
#pragma once

struct mcp_call;

/* command.c */
void tool_run_command(struct mcp_call *call);
void tool_run_code(struct mcp_call *call);
void tool_start_command(struct mcp_call *call);
/* output.c */
void tool_read_output(struct mcp_call *call);
/* steer.c */
void tool_send_input(struct mcp_call *call);
void tool_stop_command(struct mcp_call *call);
/* files.c */
void tool_read_file(struct mcp_call *call);
void tool_write_file(struct mcp_call *call);
void tool_edit_file(struct mcp_call *call);
void tool_list_files(struct mcp_call *call);
void tool_search_files(struct mcp_call *call);
/* transfer.c */
void tool_upload_file(struct mcp_call *call);
void tool_download_file(struct mcp_call *call);
/* sandboxes.c */
void tool_create_sandbox(struct mcp_call *call);
void tool_list_sandboxes(struct mcp_call *call);
void tool_destroy_sandbox(struct mcp_call *call);
void tool_list_runtimes(struct mcp_call *call);
