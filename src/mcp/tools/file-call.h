/* SPDX-License-Identifier: Apache-2.0 */
/* A tool that is one file operation: runs it, cancels it, and hands what it answered to finish. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "mcp/call.h"
#include "tool/file-op.h"

struct strbuf;

struct file_call {
    struct mcp_call *call;
    struct sandbox *sandbox; /* NULL means the one that the arguments name */
    const char *path;        /* as the caller gave it; borrowed from the arguments */
    const char *(*advise)(
        enum error_code code); /* if it is NULL or returns NULL: the usual advice */
    /* NULL means result_fail() */
    void (*fail)(struct mcp_call *call, const struct error *err, const char *advice);
    void (*finish)(struct file_call *c, json_t *answer);               /* answers of JSON */
    void (*finish_bytes)(struct file_call *c, const struct strbuf *b); /* bytes out */
    uint64_t number;                                                   /* the finisher's own */
    size_t max_bytes;
};

/* Starts op in the sandbox of the call, with input on its stdin (NULL if there is none). Copies c;
 * answer is borrowed and NULL where neither finisher is for JSON. The call fails by itself when the
 * operation does. */
void file_call_start(const struct file_call *c, struct file_op op, const char *input,
                     size_t input_len);
/* A finisher of what wrote c->number bytes to c->path. */
void file_call_finish_written(struct file_call *c, const struct strbuf *b);
