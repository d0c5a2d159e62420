/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sandboxes and what commands printed, as resources. Files are read when they are asked
 * for; logs can be watched while the command runs. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "mcp/tools/catalog.h"
#include "mcp/tools/file-call.h"
#include "mcp/tools/output.h"
#include "mcp/tools/uri.h"
#include "mcp/tools/workspace.h"

#define LOGS_LISTED_MAX 50
#define EXECS_SEEN_MAX  1024

static const struct {
    const char *suffix, *type;
} mime_types[] = {
    {".c", "text/x-c"},           {".h", "text/x-c"},          {".py", "text/x-python"},
    {".js", "text/javascript"},   {".ts", "text/typescript"},  {".json", "application/json"},
    {".html", "text/html"},       {".css", "text/css"},        {".md", "text/markdown"},
    {".csv", "text/csv"},         {".xml", "application/xml"}, {".yaml", "application/yaml"},
    {".yml", "application/yaml"}, {".png", "image/png"},       {".jpg", "image/jpeg"},
    {".gif", "image/gif"},        {".svg", "image/svg+xml"},   {".pdf", "application/pdf"},
    {".zip", "application/zip"},  {".gz", "application/gzip"},
};

static const char *mime_of(const char *path, bool is_text)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < ELEMENTS(mime_types); i++)
        if (strcmp(mime_types[i].suffix, dot) == 0)
            return mime_types[i].type;
    return is_text ? "text/plain" : "application/octet-stream";
}

/* --- reading */

static void fail_read(struct mcp_call *call, const struct error *err, const char *advice)
{
    (void)advice;
    mcp_call_fail_rpc(call,
                      err->code == ERROR_NOT_FOUND ? RPC_RESOURCE_NOT_FOUND : RPC_INVALID_PARAMS,
                      "%s", err->message);
}

static void finish_contents(struct mcp_call *call, const char *uri, const char *path,
                            const char *data, size_t len)
{
    bool is_text = utf8_valid_prefix(data, len) == len && !memchr(data, 0, len);
    json_t *item = json_pack("{s:s, s:s}", "uri", uri, "mimeType", mime_of(path, is_text));
    if (is_text) {
        json_object_set_new(item, "text", json_stringn_nocheck(data, len));
    } else {
        size_t n;
        _cleanup_free_ char *encoded = base64_encode(data, len, &n);
        json_object_set_new(item, "blob", json_stringn_nocheck(encoded, n));
    }
    mcp_call_finish(call, json_pack("{s:[o]}", "contents", item));
}

static void finish_file(struct file_call *c, const struct strbuf *b)
{
    struct error err = {0};
    if (b->len == c->max_bytes) {
        error_set(&err, ERROR_TOO_LARGE, 0,
                  "the file is larger than %zu bytes: use download_file for parts of it",
                  c->max_bytes - 1);
        fail_read(c->call, &err, NULL);
        return;
    }
    finish_contents(c->call, c->path, c->path, b->data ? b->data : "", b->len);
}

static void read_file(struct mcp_call *call, const char *uri, struct sandbox *sb, const char *path)
{
    char length[24];
    struct file_call c = {.call = call,
                          .sandbox = sb,
                          .path = uri, /* of the request, so it outlives the operation */
                          .fail = fail_read,
                          .finish_bytes = finish_file,
                          .max_bytes = mcp_call_config(call)->transfer_bytes + 1};
    snprintf(length, sizeof(length), "%zu", c.max_bytes);
    file_call_start(&c, file_op_read(path, NULL, length), NULL, 0);
}

static void read_log(struct mcp_call *call, const char *uri, struct sandbox *sb,
                     const struct uri *u)
{
    struct error err = {0};
    struct output_range r;
    struct exec *e = exec_find(sb, u->exec_id);
    if (!e || !exec_journal(e)) {
        error_set(&err, ERROR_NOT_FOUND, 0, "there is no command '%.80s'", u->exec_id);
        fail_read(call, &err, NULL);
        return;
    }
    output_read(e, (uint8_t)u->stream, 0, mcp_call_config(call)->transfer_bytes, &r);
    finish_contents(call, uri, "log.txt", r.text.data ? r.text.data : "", r.text.len);
    output_range_done(&r);
}

static void read_resource(struct mcp_call *call, const char *uri)
{
    struct error err = {0};
    struct uri u = {0};
    struct sandbox *sb = NULL;
    if (uri_parse(uri, &u) < 0)
        error_set(&err, ERROR_NOT_FOUND, 0, "there is no resource '%.200s'", uri);
    else
        sb = workspace_find(mcp_call_session(call), u.sandbox, &err);
    if (!sb)
        fail_read(call, &err, NULL);
    else if (u.path)
        read_file(call, uri, sb, u.path);
    else
        read_log(call, uri, sb, &u);
    uri_done(&u);
}

/* --- listing: the newest commands of the session's sandbox */

static json_t *show_log(const struct exec *e, uint8_t stream)
{
    bool lossy;
    char *const *argv = exec_argv(e);
    const char *line = argv[0] && argv[1] && argv[2] && !argv[3] ? argv[2] : argv[0];
    _cleanup_free_ char *uri = uri_format_log(e, stream);
    _cleanup_free_ char *name = xasprintf("%s of %s", output_name(stream), exec_id(e));
    size_t n = strlen(line) < 200 ? strlen(line) : 200;
    return json_pack("{s:s, s:s, s:o, s:s, s:I}", "uri", uri, "name", name, "description",
                     json_string_from_bytes(line, n, &lossy), "mimeType", "text/plain", "size",
                     (json_int_t)journal_stream_end(exec_journal(e), stream));
}

static void list_resources(struct mcp_session *session, json_t *resources)
{
    struct sandbox *sb = workspace_current(session);
    if (!sb)
        return;
    struct exec **found = xcalloc(EXECS_SEEN_MAX, sizeof(struct exec *));
    size_t n = exec_list(sb, found, EXECS_SEEN_MAX);
    for (size_t i = n > LOGS_LISTED_MAX ? n - LOGS_LISTED_MAX : 0; i < n; i++)
        for (uint8_t stream = OUTPUT_STDOUT; exec_journal(found[i]) && stream <= OUTPUT_STDERR;
             stream++)
            if (!exec_is_done(found[i]) || journal_stream_end(exec_journal(found[i]), stream))
                json_array_append_new(resources, show_log(found[i], stream));
    free(found);
}

static int check_subscribe(struct mcp_session *session, const char *uri, struct error *err)
{
    struct uri u = {0};
    struct exec *e = NULL;
    if (uri_parse(uri, &u) >= 0 && u.exec_id) {
        struct sandbox *sb = workspace_find(session, u.sandbox, err);
        e = sb ? exec_find(sb, u.exec_id) : NULL;
    }
    uri_done(&u);
    if (!e)
        return error_set(err, ERROR_INVALID, 0, "only logs of commands can be subscribed to");
    workspace_watch(session, e);
    return 0;
}

/* --- completion */

static void add_matching(json_t *values, const char *text, const char *prefix)
{
    if (strncmp(text, prefix, strlen(prefix)) == 0)
        json_array_append_new(values, json_string(text));
}

static void complete_exec(struct mcp_session *s, const json_t *known, const char *prefix,
                          json_t *values)
{
    const char *id = json_string_value(json_object_get(known, "sandbox"));
    struct sandbox *sb = workspace_find(s, id ? id : "current", NULL);
    struct exec **found = xcalloc(EXECS_SEEN_MAX, sizeof(struct exec *));
    size_t n = sb ? exec_list(sb, found, EXECS_SEEN_MAX) : 0;
    for (size_t i = n; i > 0; i--)
        add_matching(values, exec_id(found[i - 1]), prefix);
    free(found);
}

static void complete_uri(struct mcp_session *session, const char *uri_template,
                         const char *variable, const char *prefix, const json_t *known,
                         json_t *values)
{
    (void)uri_template;
    if (strcmp(variable, "sandbox") == 0) {
        struct sandbox *found[100];
        size_t n = sandbox_list(mcp_session_services(session)->manager, mcp_session_owner(session),
                                NULL, found, ELEMENTS(found));
        add_matching(values, "current", prefix);
        for (size_t i = 0; i < n; i++)
            add_matching(values, sandbox_id(found[i]), prefix);
    } else if (strcmp(variable, "exec_id") == 0) {
        complete_exec(session, known, prefix, values);
    } else if (strcmp(variable, "stream") == 0) {
        add_matching(values, "stdout", prefix);
        add_matching(values, "stderr", prefix);
    }
}

static const struct mcp_resource_template templates[] = {
    {URI_PREFIX "{sandbox}/file/{+path}", "file", "File of a sandbox",
     "A file by its absolute path without the first slash; {sandbox} may be \"current\".", NULL},
    {URI_PREFIX "{sandbox}/exec/{exec_id}/{stream}", "log", "Output of a command",
     "What a command printed on stdout or stderr; can be subscribed to while it runs.",
     "text/plain"},
};

const struct mcp_resource_provider sandbox_resources[] = {{
    .prefix = URI_PREFIX,
    .templates = templates,
    .n_templates = ELEMENTS(templates),
    .list = list_resources,
    .read = read_resource,
    .check_subscribe = check_subscribe,
    .complete = complete_uri,
}};
