/* SPDX-License-Identifier: Apache-2.0 */
/* One request of a client on its way through a handler: a tool's call, the reading of a resource, a
 * prompt.
 *
 * A handler finishes its call exactly once, from inside or later, with one of the
 * mcp_call_finish*() or mcp_call_fail*() functions; the call is gone then. Should the client cancel
 * it, its session end or the server close, on_cancel is called once: the handler stops what it
 * started and still finishes the call, with any result, because the client does not read it any
 * more. A client that only loses its connection has not cancelled. Everything is on the loop's
 * thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mcp/config.h"

struct services;
struct error;
struct identity;
struct mcp_call;
struct mcp_session;

/* RFC 5424's, as the protocol names them: "debug" to "emergency". */
enum mcp_level {
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    _MCP_LEVEL_MAX,
};

/* -EINVAL: not a level. */
int mcp_level_parse(const char *name, enum mcp_level *ret);

/* JSON-RPC's codes and the protocol's own. */
#define RPC_PARSE_ERROR        (-32700)
#define RPC_INVALID_REQUEST    (-32600)
#define RPC_METHOD_NOT_FOUND   (-32601)
#define RPC_INVALID_PARAMS     (-32602)
#define RPC_INTERNAL_ERROR     (-32603)
#define RPC_RESOURCE_NOT_FOUND (-32002)
#define RPC_SESSION_NOT_FOUND  (-32001)
#define RPC_OVER_LIMIT         (-32000)

/* --- what is asked, by whom. Borrowed; valid until the call is finished. */

/* An object, never NULL; of a tool it is valid by the tool's input schema, of a prompt its members
 * are strings and the required ones are there. */
const json_t *mcp_call_arguments(const struct mcp_call *call);
struct mcp_session *mcp_call_session(const struct mcp_call *call);
/* Whose sandboxes it may touch: the owner for sandbox_find() and all operations. */
const char *mcp_call_owner(const struct mcp_call *call);
const struct identity *mcp_call_identity(const struct mcp_call *call);
/* The operations below both front ends: manager, tools, default spec, limits. */
const struct services *mcp_call_services(const struct mcp_call *call);
const struct mcp_config *mcp_call_config(const struct mcp_call *call);
/* The handler's own. */
void mcp_call_set_state(struct mcp_call *call, void *state);
void *mcp_call_state(const struct mcp_call *call);
void mcp_call_on_cancel(struct mcp_call *call, void (*on_cancel)(struct mcp_call *call));

/* --- while it runs */

/* Whether the client asked for progress: where it did not, telling it costs nothing. */
bool mcp_call_wants_progress(const struct mcp_call *call);
/* done must grow from call to call; total 0 if it is not known; message may be NULL. Left out when
 * the reader is slow. */
void mcp_call_progress(struct mcp_call *call, double done, double total, const char *message);
/* A log message to the client, where its level asks for it. logger may be NULL. */
void mcp_call_log(struct mcp_call *call, enum mcp_level level, const char *logger,
                  const char *message);
/* Lets the client come back for the rest, where the transport can: for what takes long. */
void mcp_call_interrupt(struct mcp_call *call);
/* Asks the client: "sampling/createMessage", "elicitation/create" or "roots/list". Takes params
 * (NULL if there is none), even on failure. on_answer comes once, later: result (borrowed), or NULL
 * with err set when the client refused, answered nonsense, took longer than mcp_client_timeout, or
 * the call was cancelled. -ENOTSUP when the client did not offer the capability, -EBUSY when too
 * many are under way: on_answer is not called then. The call must not be finished while one is
 * under way, unless it is cancelled. */
int mcp_call_ask(struct mcp_call *call, const char *method, json_t *params,
                 void (*on_answer)(struct mcp_call *call, const json_t *result,
                                   const struct error *err, void *data),
                 void *data);

/* Takes back what was asked and not answered; each on_answer comes from inside, with err. */
void mcp_call_unask(struct mcp_call *call);

/* --- its end: exactly one of these. */

/* The method's result as the protocol has it; takes result. A tool with an output schema has
 * "structuredContent" in it unless it is an error. */
void mcp_call_finish(struct mcp_call *call, json_t *result);
/* A tool's result of one text. is_error: the model should read it and do something else. */
void mcp_call_finish_text(struct mcp_call *call, bool is_error, const char *text);
/* A tool's result: structured (taken, an object by the output schema), and text for models and
 * clients that read only that (NULL: the JSON text of structured). */
void mcp_call_finish_structured(struct mcp_call *call, json_t *structured, const char *text);
/* A tool's result that says what went wrong and, with advice (may be NULL), what to do next. */
void mcp_call_finish_error(struct mcp_call *call, const struct error *err, const char *advice);
/* A JSON-RPC error: the request itself was wrong. Not for a tool that failed. */
void mcp_call_fail_rpc(struct mcp_call *call, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
