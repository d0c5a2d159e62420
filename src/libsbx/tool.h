/* SPDX-License-Identifier: Apache-2.0 */
/* A tool call taken apart, for the two ways to send one. */
#pragma once

#include <jansson.h>

struct sbx_error;
struct sbx_tool_call;

struct tool_parts {
    const char *id;
    json_t *args;   /* an object, a reference of the caller's */
    json_t *policy; /* likewise, or NULL */
};

/* Checks the call and parses its JSON texts. */
int libsbx_tool_parts(const struct sbx_tool_call *call, struct tool_parts *ret,
                      struct sbx_error *err);
