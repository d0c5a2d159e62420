/* SPDX-License-Identifier: Apache-2.0 */
/* How tools of the sandbox answer: structured content and a text for models, and errors that say
 * what to do next. Each finishes its call. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "mcp/call.h"

struct error;
struct exec;
struct strbuf;

#define RESULT_TEXT_MAX (32 * 1024 * 1024)

/* Takes structured; text may be NULL. */
void result_finish(struct mcp_call *call, json_t *structured, const char *text);
/* advice NULL: what is right for the error's code. */
void result_fail(struct mcp_call *call, const struct error *err, const char *advice);

/* Those members of an object that are there and not null; keys end with NULL. The views of the API
 * may get new members: what a schema promises stays what it is. */
json_t *result_pick(const json_t *all, const char *const *keys);
/* A command's state without its output: exec_id, sandbox_id, status, exit_code, ... */
json_t *result_of_exec(const struct exec *e);
/* A finished command with its output, at most max bytes of each stream: head and tail, and how to
 * read the rest. */
void result_finish_exec(struct mcp_call *call, struct exec *e, size_t max);
