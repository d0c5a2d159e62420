/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the MCP server, for the files of this folder.
 *
 * A message comes in over a transport (http.c, stdio.c), is taken apart by rpc.c and served by a
 * dispatcher (dispatch.c for the revisions with sessions): a row of a table of methods. A request
 * becomes a struct mcp_call, which answers on the outlet it came with. An outlet is where messages
 * about one request go: an HTTP exchange that turns into a stream when there is more to say than an
 * answer (stream.c), or stdout. */
#pragma once

#include "base/list.h"
#include "base/strbuf.h"
#include "identity/identity.h"
#include "loop/loop.h"
#include "mcp/mcp.h"
#include "mcp/rpc.h"
#include "mcp/session.h"

struct map;
struct outlet;
struct schema;

/* --- outlets. Counted: a call holds the one it answers on. */

struct outlet_ops {
    /* A notification or a request. */
    void (*send)(struct outlet *o, const char *text, size_t len);
    /* The answer to one request; text NULL: there will be none (it was cancelled). */
    void (*answer)(struct outlet *o, const char *text, size_t len);
    /* Its reader is slow: what can be left out should be. */
    bool (*is_full)(const struct outlet *o);
    /* Closes the connection below, so that the client comes back for the rest; may be NULL. */
    void (*interrupt)(struct outlet *o);
    void (*free)(struct outlet *o);
};

struct outlet {
    const struct outlet_ops *ops;
    unsigned refs;
};

struct outlet *outlet_ref(struct outlet *o);
void outlet_unref(struct outlet *o); /* NULL is fine */

/* --- the server */

struct tool_entry {
    const struct mcp_tool *tool;
    struct schema *input, *output; /* NULL: not checked, none */
};

struct mcp {
    struct mcp_options o;
    struct tool_entry *tools;
    size_t n_tools;
    /* As they are listed. */
    json_t *tool_list, *template_list, *prompt_list;
    struct strbuf instructions;

    struct map *sessions; /* by id; those of HTTP */
    struct list all;      /* every session that has not ended */
    size_t n_sessions;
    size_t n_calls;
    uint64_t sessions_total, calls_total;
    size_t buffered;     /* bytes of all streams' events */
    struct list waiting; /* exchanges that have not become streams, oldest first */
    struct loop_timer tick, turn;
    bool draining, closed;
};

/* Every second: idle sessions, late answers of clients, quiet streams. */
#define MCP_TICK_MS 1000

/* --- a session */

struct mcp_session {
    struct mcp *mcp;
    struct list node; /* mcp->all */
    unsigned refs;    /* its transport's, and one of each call */
    char id[40];      /* "" over stdio */
    struct identity who;
    enum mcp_revision revision;
    bool initialized, ended;
    bool deaf; /* its client answers no questions any more */
    enum mcp_level level;
    unsigned client_has; /* enum mcp_client_capability: all that is kept of what a client says of
                            itself */
    struct map *subscriptions;
    struct list calls;
    size_t n_calls;
    uint64_t next_ask;
    int64_t used_ms;      /* when it was last used */
    struct outlet *loose; /* for what belongs to no call; NULL: nowhere yet */

    /* of HTTP: stream.c */
    struct list streams;
    uint64_t next_stream;
    size_t buffered;

    void *data;
    void (*free_data)(void *data);
};

/* session.c. NULL with err set over a limit; the caller has the reference. */
struct mcp_session *session_new(struct mcp *m, const struct identity *who, bool with_id,
                                struct error *err);
struct mcp_session *session_find(struct mcp *m, const char *owner, const char *id);
struct mcp_session *session_ref(struct mcp_session *s);
void session_unref(struct mcp_session *s);
/* Cancels its calls, closes its streams; the tables' reference goes. Legal twice. */
void session_end(struct mcp_session *s);
void session_touch(struct mcp_session *s);
bool session_is_idle(const struct mcp_session *s, int64_t now_ms);

/* --- a call (call.c) */

struct mcp_call {
    struct list node; /* session->calls */
    struct mcp_session *session;
    struct outlet *outlet;
    char *id;
    json_t *params, *arguments;
    const json_t *progress_token; /* of params, or NULL */
    double progress;
    const struct tool_entry *tool; /* of tools/call */
    void *state;
    void (*on_cancel)(struct mcp_call *call);
    bool cancelled;
    struct list asks;
};

/* Takes id; params may be NULL. */
struct mcp_call *call_new(struct mcp_session *s, struct outlet *o, char *id, const json_t *params);
struct mcp_call *call_find(struct mcp_session *s, const char *id);
void call_cancel(struct mcp_call *call);
/* Answers with a JSON-RPC error on an outlet where there is no call; id may be NULL. */
void outlet_fail(struct outlet *o, const char *id, int code, const char *message);
void outlet_notify(struct outlet *o, const char *method, const json_t *params);

/* ask.c: what the server asked the client on behalf of a call. */
void asks_answer(struct mcp_session *s, const struct rpc_message *m);
void asks_cancel(struct mcp_call *call);
/* Those that have waited for too long. */
void asks_expire(struct mcp_session *s, int64_t now_ms);
/* The client answers nothing any more: what was asked fails, and nothing is asked from now on. */
void asks_fail(struct mcp_session *s);

/* --- the dispatcher of the revisions with sessions (dispatch.c) */

/* The messages of a session, until it ends; the outlet gets the answer of each request, from inside
 * or later. */
void dispatch_text(struct mcp_session *s, struct outlet *o, const struct rpc_text *t);

/* Returns why the batch is refused; NULL if it is accepted, or if the text is not a batch. */
const char *dispatch_refuse_batch(const struct mcp_session *s, const struct rpc_text *t);

/* methods; each finishes its call */
void method_tools_list(struct mcp_call *call);
void method_tools_call(struct mcp_call *call);
void method_resources_list(struct mcp_call *call);
void method_resources_templates(struct mcp_call *call);
void method_resources_read(struct mcp_call *call);
void method_resources_subscribe(struct mcp_call *call);
void method_resources_unsubscribe(struct mcp_call *call);
void method_prompts_list(struct mcp_call *call);
void method_prompts_get(struct mcp_call *call);
void method_complete(struct mcp_call *call);
/* {name: a page of items, "nextCursor"}, by the call's cursor; finishes it. */
void call_finish_page(struct mcp_call *call, const char *name, const json_t *items);
/* A string of the call's params, or NULL after failing the call. */
const char *call_param_string(struct mcp_call *call, const char *name);

/* catalog.c */
int catalog_load(struct mcp *m, struct error *err);
void catalog_unload(struct mcp *m);
const struct tool_entry *catalog_find_tool(const struct mcp *m, const char *name);
const struct mcp_prompt *catalog_find_prompt(const struct mcp *m, const char *name);
const struct mcp_resource_provider *catalog_find_provider(const struct mcp *m, const char *uri);
