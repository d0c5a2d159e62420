/* SPDX-License-Identifier: Apache-2.0 */
/* A tool, a resource, a prompt: rows of const tables. What the server lists, validates and calls
 * comes from them alone; a catalog is a set of such tables. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "mcp/call.h"

struct error;

enum mcp_tool_flags {
    MCP_READ_ONLY = 1,    /* readOnlyHint: changes nothing */
    MCP_DESTRUCTIVE = 2,  /* destructiveHint: may overwrite or delete */
    MCP_IDEMPOTENT = 4,   /* idempotentHint: twice is once */
    MCP_OPEN_WORLD = 8,   /* openWorldHint: reaches beyond the sandbox */
    MCP_RAW_SCHEMA = 128, /* the schema uses words beyond schema.h's: arguments are not checked */
};

struct mcp_tool {
    const char *name; /* ^[A-Za-z0-9_./-]{1,64}$ */
    const char *title;
    const char *description;
    const char *input_schema;  /* JSON text of an object schema, in the words of schema.h */
    const char *output_schema; /* the same for structuredContent, or NULL */
    unsigned flags;
    void (*handle)(struct mcp_call *call);
};

/* A URI template with one variable at most per path part, as clients see it. */
struct mcp_resource_template {
    const char *uri_template;                           /* "sandbox:///files/{path}" */
    const char *name, *title, *description, *mime_type; /* mime_type may be NULL */
};

/* All resources whose URI starts with prefix. */
struct mcp_resource_provider {
    const char *prefix;
    const struct mcp_resource_template *templates;
    size_t n_templates;
    /* Appends resource objects ({"uri", "name", ...}) that exist now to the array; NULL if there is
     * none. */
    void (*list)(struct mcp_session *session, json_t *resources);
    /* Finishes with {"contents": [{"uri", "mimeType", "text" or "blob"}]}, or with
     * RPC_RESOURCE_NOT_FOUND. */
    void (*read)(struct mcp_call *call, const char *uri);
    /* Whether a client can subscribe to changes of uri (mcp_session_resource_updated()); NULL:
     * never. */
    int (*check_subscribe)(struct mcp_session *session, const char *uri, struct error *err);
    /* Values for a template's variable that begin with prefix, into an array of strings (100 are
     * sent); known: the other variables so far, or NULL. The member is NULL if there is none. */
    void (*complete)(struct mcp_session *session, const char *uri_template, const char *variable,
                     const char *prefix, const json_t *known, json_t *values);
};

struct mcp_prompt_argument {
    const char *name, *description;
    bool required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_prompt_argument *arguments;
    size_t n_arguments;
    /* Finishes with {"messages": [{"role", "content"}]}; mcp_call_finish_prompt() for one text. */
    void (*handle)(struct mcp_call *call);
    /* As of a provider, for an argument; NULL if there is none. */
    void (*complete)(struct mcp_session *session, const char *argument, const char *prefix,
                     const json_t *known, json_t *values);
};

struct mcp_catalog {
    const struct mcp_tool *tools;
    size_t n_tools;
    const struct mcp_resource_provider *resources;
    size_t n_resources;
    const struct mcp_prompt *prompts;
    size_t n_prompts;
    const char *instructions; /* what a model should know before its first call, or NULL */
};

/* A prompt of one message of the user's. */
void mcp_call_finish_prompt(struct mcp_call *call, const char *description, const char *text);
