/* SPDX-License-Identifier: Apache-2.0 */
/* What a session works in: one sandbox that is made when it is first needed and goes with the
 * session, so that a model need not know of sandboxes; or another one that it chose.
 *
 * The session's own sandbox lives until the session ends (the client says so, or it is idle for
 * mcp_session_ttl); idle_ttl does not count while the session lives. A sandbox made by
 * create_sandbox is like one made over HTTP: it stays until it is destroyed or idle_ttl has passed.
 */
#pragma once

#include "mcp/call.h"
#include "mcp/session.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

struct workspace;

/* The sandbox that argument "sandbox" names; without it the session's, made where there is none
 * (it may be CREATING). NULL with err set. */
struct sandbox *workspace_sandbox(struct mcp_call *call, struct error *err);
/* The one of an id, alias or "current", among those the caller may see. */
struct sandbox *workspace_find(struct mcp_session *s, const char *id, struct error *err);
/* The session's sandbox, if it has one that lives. */
struct sandbox *workspace_current(struct mcp_session *s);
/* From now on the session works there. */
void workspace_choose(struct mcp_session *s, struct sandbox *sb);
/* It is about to be deleted on purpose: the client needs no message about that. */
void workspace_forget(struct mcp_session *s, const struct sandbox *sb);
/* The command that argument "exec_id" names, in the named sandbox or the session's. */
struct exec *workspace_exec(struct mcp_call *call, struct error *err);
/* What the model should hear with the next result: its sandbox was lost. NULL: nothing. The caller
 * frees it. */
char *workspace_take_note(struct mcp_session *s);
/* Tells the session about changes of an exec's logs until the exec ends. */
void workspace_watch(struct mcp_session *s, struct exec *e);
