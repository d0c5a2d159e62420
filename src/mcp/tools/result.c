/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools/result.h"

#include <assert.h>
#include <string.h>

#include "api/view.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/tools/workspace.h"

/* What a model can do about an error, whatever tool met it. */
static const char *const advice_by_code[] = {
    [ERROR_INVALID] = "Correct the argument and call again.",
    [ERROR_UNAUTHORIZED] = "The key of this connection is not accepted: tell the user.",
    [ERROR_FORBIDDEN] = "Only /workspace, /tmp, /cache and /home/sandbox can be written; "
                        "everything else of the sandbox is read-only.",
    [ERROR_PENDING] = "A person has to approve this first.",
    [ERROR_DENIED] = "The operator's policy refused this and will do so again. Do not try to get "
                     "around it: reach the goal another way, or tell the user what was refused.",
    [ERROR_NOT_FOUND] = "Check the name: list_files shows files, list_sandboxes sandboxes.",
    [ERROR_CONFLICT] = "Look at the current state first (list_files, read_output, "
                       "list_sandboxes).",
    [ERROR_TOO_LARGE] = "Do it in parts.",
    [ERROR_UNSUPPORTED] = "This cannot be done here: leave it out or do it another way.",
    [ERROR_UNENFORCEABLE] = "Leave that limit out, or choose another runtime (list_runtimes).",
    [ERROR_LIMIT] = "Wait until something ends, or end it (stop_command, destroy_sandbox), then "
                    "call again.",
    [ERROR_CRASH] = "The sandbox died, mostly because its memory was used up; its files are gone. "
                    "Call again for a new, empty one, and use less memory.",
    [ERROR_TIMEOUT] = "Call again with a longer timeout_s, or use start_command for what takes "
                      "long.",
    [ERROR_NO_SPACE] = "The sandbox's disk is full: delete files that are not needed.",
    [ERROR_UNAVAILABLE] = "Call again in a moment.",
    [ERROR_INTERNAL] = "Call again once; if it fails again, tell the user.",
};
static_assert(ELEMENTS(advice_by_code) == _ERROR_CODE_MAX, "advice per code");

static const char *advice_for(const struct error *err)
{
    return err->code >= 0 && err->code < _ERROR_CODE_MAX ? advice_by_code[err->code] : NULL;
}

/* The text of what was lost goes first: it changes how a model reads the rest. */
static void call_finish(struct mcp_call *call, json_t *structured, const char *text, bool failed)
{
    bool lossy;
    _cleanup_free_ char *note = workspace_take_note(mcp_call_session(call));
    json_t *content = json_array();
    if (note)
        json_array_append_new(content,
                              json_pack("{s:s, s:o}", "type", "text", "text", json_message(note)));
    char *dumped = text ? NULL : json_dumps(structured, JSON_COMPACT);
    const char *shown = text ? text : dumped;
    json_array_append_new(content, json_pack("{s:s, s:o}", "type", "text", "text",
                                             json_string_from_bytes(shown, strlen(shown), &lossy)));
    free(dumped);
    json_t *result = json_pack("{s:o, s:o}", "content", content, "structuredContent", structured);
    if (failed)
        json_object_set_new(result, "isError", json_true());
    mcp_call_finish(call, result);
}

void result_finish(struct mcp_call *call, json_t *structured, const char *text)
{
    call_finish(call, structured, text, false);
}

void result_fail(struct mcp_call *call, const struct error *err, const char *advice)
{
    mcp_call_finish_error(call, err, advice ? advice : advice_for(err));
}

/* --- commands */

json_t *result_pick(const json_t *all, const char *const *keys)
{
    json_t *o = json_object();
    for (; *keys; keys++) {
        json_t *v = json_object_get(all, *keys);
        if (v && !json_is_null(v))
            json_object_set(o, *keys, v);
    }
    return o;
}

json_t *result_of_exec(const struct exec *e)
{
    static const char *const shown[] = {"exec_id",    "sandbox_id",  "status",
                                        "exit_code",  "signal",      "error",
                                        "started_at", "finished_at", NULL};
    _cleanup_json_ json_t *all = view_exec(e);
    return result_pick(all, shown);
}

/* A result shows the first and the last half of what it may show, so the omitted bytes begin after
 * the first half, which has the odd byte. */
static void format_rest(struct strbuf *out, const json_t *result, const char *stream, size_t max)
{
    char key[40];
    snprintf(key, sizeof(key), "%s_omitted_bytes", stream);
    json_int_t omitted = json_integer_value(json_object_get(result, key));
    if (!omitted)
        return;
    strbuf_printf(out,
                  "[%lld bytes of %s are not shown: read_output with exec_id \"%s\", stream \"%s\" "
                  "and offset %zu reads them]\n",
                  (long long)omitted, stream, json_string_value(json_object_get(result, "exec_id")),
                  stream, max - max / 2);
}

static void format_stream(struct strbuf *out, const char *head, const char *text)
{
    size_t n = strlen(text);
    if (!n)
        return;
    strbuf_puts(out, head);
    strbuf_append(out, text, n);
    if (text[n - 1] != '\n')
        strbuf_puts(out, "\n");
}

static void result_format_exec(const json_t *result, size_t max, struct strbuf *out)
{
    const char *text = json_string_value(json_object_get(result, "stdout"));
    const char *errors = json_string_value(json_object_get(result, "stderr"));
    format_stream(out, "", text ? text : "");
    format_stream(out, "[stderr]\n", errors ? errors : "");
    format_rest(out, result, "stdout", max);
    format_rest(out, result, "stderr", max);
    const char *status = json_string_value(json_object_get(result, "status"));
    const char *error = json_string_value(json_object_get(result, "error"));
    const json_t *code = json_object_get(result, "exit_code");
    if (strcmp(status, "completed") == 0)
        strbuf_printf(out, "[exit code %lld]\n", (long long)json_integer_value(code));
    else
        strbuf_printf(out, "[%s%s%s]\n", status, error ? ": " : "", error ? error : "");
    if (strcmp(status, "timed_out") == 0)
        strbuf_puts(out, "[give a longer timeout_s, or use start_command for what takes long]\n");
    if (strcmp(status, "oom_killed") == 0)
        strbuf_puts(out, "[it used more memory than the sandbox has: use less at a time]\n");
    if (json_is_true(json_object_get(result, "background_output_dropped")))
        strbuf_puts(out, "[a process it left in the background still had the output open; what "
                         "that prints is not kept: use start_command instead of '&']\n");
}

void result_finish_exec(struct mcp_call *call, struct exec *e, size_t max)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    static const char *const shown[] = {"exec_id",
                                        "status",
                                        "exit_code",
                                        "signal",
                                        "error",
                                        "stdout",
                                        "stderr",
                                        "truncated",
                                        "duration_ms",
                                        "usage",
                                        "stdout_omitted_bytes",
                                        "stderr_omitted_bytes",
                                        "background_output_dropped",
                                        NULL};
    _cleanup_json_ json_t *all = view_result(e, max);
    json_t *result = result_pick(all, shown);
    json_object_set_new(result, "sandbox_id", json_string(sandbox_id(exec_sandbox(e))));
    result_format_exec(result, max, &text);
    call_finish(call, result, text.data, exec_status(e) != EXEC_COMPLETED);
}
