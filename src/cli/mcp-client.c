/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp-client.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/output.h"

/* --- clients with JSON: an object of servers under one key */

static json_t *stdio_entry(const struct mcp_target *t)
{
    return json_pack("{s:s, s:[s]}", "command", t->command, "args", "-mcp");
}

/* before and after: what the client puts around an environment variable's name to mean its value.
 */
static json_t *http_entry(const struct mcp_target *t, const char *before, const char *after)
{
    json_t *entry = json_pack("{s:s}", "url", t->url);
    if (t->token_variable) {
        _cleanup_free_ char *value = xasprintf("Bearer %s%s%s", before, t->token_variable, after);
        json_object_set_new(entry, "headers", json_pack("{s:s}", "Authorization", value));
    }
    return entry;
}

static json_t *parse_file(const char *text, size_t len, struct sbx_error *err)
{
    struct error why = {0};
    if (strspn(text, " \t\r\n") == len)
        return json_object();
    json_t *root = json_parse_object(text, len, &why);
    if (!root)
        cli_set_error(
            err, "invalid_request",
            "the file is not plain JSON (%s); comments are not kept by sbx: add the entry "
            "by hand, -print shows it",
            why.message);
    return root;
}

/* Takes entry. */
static int merge_json(const char *text, size_t len, const char *key, json_t *entry,
                      struct strbuf *out, struct sbx_error *err)
{
    _cleanup_json_ json_t *taken = entry, *root = parse_file(text, len, err);
    if (!root)
        return -1;
    json_t *servers = json_object_get(root, key);
    if (!servers)
        json_object_set_new(root, key, servers = json_object());
    if (!json_is_object(servers))
        return cli_set_error(err, "conflict", "'%s' of the file is not an object", key);
    json_object_set(servers, MCP_SERVER_NAME, taken);
    char *dumped = json_dumps(root, JSON_INDENT(2));
    int r = strbuf_printf(out, "%s\n", dumped);
    free(dumped);
    return r < 0 ? cli_set_error(err, "too_large", "the file is too large") : 0;
}

static int merge_claude(const char *text, size_t len, const struct mcp_target *t,
                        struct strbuf *out, struct sbx_error *err)
{
    json_t *entry = t->url ? http_entry(t, "${", "}") : stdio_entry(t);
    json_object_set_new(entry, "type", json_string(t->url ? "http" : "stdio"));
    return merge_json(text, len, "mcpServers", entry, out, err);
}

static int merge_cursor(const char *text, size_t len, const struct mcp_target *t,
                        struct strbuf *out, struct sbx_error *err)
{
    return merge_json(text, len, "mcpServers",
                      t->url ? http_entry(t, "${env:", "}") : stdio_entry(t), out, err);
}

static int merge_vscode(const char *text, size_t len, const struct mcp_target *t,
                        struct strbuf *out, struct sbx_error *err)
{
    json_t *entry = t->url ? http_entry(t, "${env:", "}") : stdio_entry(t);
    json_object_set_new(entry, "type", json_string(t->url ? "http" : "stdio"));
    return merge_json(text, len, "servers", entry, out, err);
}

/* --- Codex: TOML, kept as text; only our own table is replaced */

#define CODEX_TABLE "[mcp_servers." MCP_SERVER_NAME "]"

/* A TOML basic string. */
static void put_toml(struct strbuf *b, const char *text)
{
    strbuf_puts(b, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            strbuf_printf(b, "\\%c", *p);
        else if ((unsigned char)*p < ' ' || *p == 0x7f)
            strbuf_printf(b, "\\u%04x", (unsigned char)*p);
        else
            strbuf_append(b, p, 1);
    }
    strbuf_puts(b, "\"");
}

static void put_codex(struct strbuf *b, const struct mcp_target *t)
{
    strbuf_puts(b, CODEX_TABLE "\n");
    if (t->url) {
        strbuf_puts(b, "url = ");
        put_toml(b, t->url);
        if (t->token_variable) {
            strbuf_puts(b, "\nbearer_token_env_var = ");
            put_toml(b, t->token_variable);
        }
        strbuf_puts(b, "\n");
        return;
    }
    strbuf_puts(b, "command = ");
    put_toml(b, t->command);
    strbuf_puts(b, "\nargs = [\"-mcp\"]\n");
}

static bool is_header(const char *line, size_t len)
{
    size_t i = strspn(line, " \t");
    return i < len && line[i] == '[';
}

/* The table itself, and tables below it. */
static bool is_ours(const char *line, size_t len)
{
    static const char prefix[] = "[mcp_servers." MCP_SERVER_NAME;
    size_t i = strspn(line, " \t"), n = sizeof(prefix) - 1;
    return len >= i + n + 1 && strncmp(line + i, prefix, n) == 0 &&
           (line[i + n] == ']' || line[i + n] == '.');
}

/* Lines inside of multi-line strings could pass for headers: such files are left to their owner. */
static int check_toml(const char *text, size_t len, struct sbx_error *err)
{
    if (memmem(text, len, "\"\"\"", 3) || memmem(text, len, "'''", 3))
        return cli_set_error(err, "unsupported",
                             "the file has multi-line strings: add the table by hand, -print shows "
                             "it");
    if (memchr(text, 0, len))
        return cli_set_error(err, "invalid_request", "the file is not text");
    return 0;
}

static int merge_codex(const char *text, size_t len, const struct mcp_target *t, struct strbuf *out,
                       struct sbx_error *err)
{
    bool skipping = false, written = false, apart = false;
    if (check_toml(text, len, err) < 0)
        return -1;
    for (const char *line = text, *end = text + len; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        size_t n = eol ? (size_t)(eol - line) + 1 : (size_t)(end - line);
        if (is_header(line, n))
            skipping = is_ours(line, n);
        if (skipping && !written) {
            put_codex(out, t);
            written = apart = true;
        }
        if (!skipping && apart) {
            strbuf_puts(out, "\n");
            apart = false;
        }
        if (!skipping && strbuf_append(out, line, n) < 0)
            return cli_set_error(err, "too_large", "the file is too large");
        line += n;
    }
    if (written)
        return 0;
    if (out->len && out->data[out->len - 1] != '\n')
        strbuf_puts(out, "\n");
    if (out->len)
        strbuf_puts(out, "\n");
    put_codex(out, t);
    return 0;
}

const struct mcp_client mcp_clients[] = {
    {"claude", "Claude Code", ".mcp.json", merge_claude},
    {"cursor", "Cursor", "~/.cursor/mcp.json", merge_cursor},
    {"vscode", "VS Code", ".vscode/mcp.json", merge_vscode},
    {"codex", "Codex", "~/.codex/config.toml", merge_codex},
};
const size_t n_mcp_clients = ELEMENTS(mcp_clients);

const struct mcp_client *mcp_client_find(const char *name)
{
    for (size_t i = 0; i < n_mcp_clients; i++)
        if (strcmp(mcp_clients[i].name, name) == 0)
            return &mcp_clients[i];
    return NULL;
}
