/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tools and how each one's arguments become something to run. */
#include "tool/tool.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/members.h"
#include "base/url.h"
#include "audit/audit.h"

#define TOOL_NET_PATH    "/.mas/mas-tool-net"
#define TOOL_ARGV_MAX    1024
#define BUILT_ARGV_MAX   8           /* words of a command that a tool is */
#define CODE_IN_ARGV_MAX (96 * 1024) /* below the kernel's limit on one argument */

/* Of texts up to NULL, which are copied. */
__attribute__((sentinel)) static char **make_argv(const char *first, ...)
{
    char **argv = xcalloc(BUILT_ARGV_MAX + 1, sizeof(*argv));
    size_t n = 0;
    va_list rest;
    va_start(rest, first);
    for (const char *a = first; a && n < BUILT_ARGV_MAX; a = va_arg(rest, const char *))
        argv[n++] = xstrdup(a);
    va_end(rest);
    return argv;
}

static int build_runner_tool(const char *name, struct tool_command *ret)
{
    ret->argv = make_argv(name, NULL);
    return 0;
}

static int build_calculator(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *expression = NULL;
    int r = json_member_string(args, "expression", &expression, err);
    if (r < 0)
        return r;
    if (!expression)
        return error_field(err, "expression", "calculator needs 'expression'");
    return build_runner_tool("calculator", ret);
}

static int build_file_system(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *action = NULL, *path = NULL;
    int r = json_member_string(args, "action", &action, err);
    if (r < 0)
        return r;
    r = json_member_string(args, "path", &path, err);
    if (r < 0)
        return r;
    if (!action || !path)
        return error_field(err, action ? "path" : "action",
                           "file_system needs 'action' and 'path'");
    return build_runner_tool("file_system", ret);
}

static int build_url_tool(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *url = NULL;
    int r = json_member_string(args, "url", &url, err);
    if (r < 0)
        return r;
    if (!url)
        return error_field(err, "url", "'url' is missing");
    /* Host and port of a URL, as the gate compares them. What is no strict URL (url_parse()) is
     * refused by the tool; the gateway decides about the connection. */
    struct url_parts p;
    url_split(url, &p);
    ret->port = p.scheme_len == 5 && strncasecmp(url, "https", 5) == 0 ? 443 : 80;
    if (p.port)
        target_parse_port(p.port, p.port_len, &ret->port);
    ret->host = xstrndup(p.host, p.host_len);
    ret->argv = make_argv(TOOL_NET_PATH, NULL);
    return 0;
}

static int build_web_search(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *query = NULL;
    int r = json_member_string(args, "query", &query, err);
    if (r < 0)
        return r;
    if (!query)
        return error_field(err, "query", "'query' is missing");
    ret->argv = make_argv(TOOL_NET_PATH, NULL);
    return 0;
}

static int build_shell(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *command = NULL;
    int r = json_member_string(args, "command", &command, err);
    if (r < 0)
        return r;
    r = json_member_strv(args, "argv", TOOL_ARGV_MAX, &ret->argv, err);
    if (r < 0)
        return r;
    if (!command == !ret->argv)
        return error_field(err, "command", "shell needs either 'command' or 'argv'");
    if (ret->argv && !ret->argv[0])
        return error_field(err, "argv", "'argv' is empty");
    if (command)
        ret->argv = make_argv("/bin/sh", "-c", command, NULL);
    return 0;
}

static const struct {
    const char *language, *program, *inline_flag, *suffix;
} languages[] = {
    {"python", "python3", "-c", "py"},  {"python3", "python3", "-c", "py"},
    {"javascript", "node", "-e", "js"}, {"node", "node", "-e", "js"},
    {"js", "node", "-e", "js"},         {"bash", "bash", "-c", "sh"},
    {"sh", "sh", "-c", "sh"},           {"shell", "sh", "-c", "sh"},
};

int tool_build_code(const char *language, const char *code, struct tool_command *ret,
                    struct error *err)
{
    for (size_t i = 0; i < ELEMENTS(languages); i++) {
        if (strcmp(language, languages[i].language) != 0)
            continue;
        if (strlen(code) <= CODE_IN_ARGV_MAX) {
            ret->argv = make_argv(languages[i].program, languages[i].inline_flag, code, NULL);
        } else {
            /* The same for the same code: an approval of it must fit the next try. */
            char digest[AUDIT_DIGEST_SIZE];
            audit_digest(code, strlen(code), digest);
            ret->file =
                xasprintf("/tmp/code-%.16s.%s", strchr(digest, ':') + 1, languages[i].suffix);
            ret->file_data = xstrdup(code);
            ret->argv = make_argv(languages[i].program, ret->file, NULL);
        }
        return 0;
    }
    return error_field(err, "language", "language '%s' is none of python, javascript, bash, sh",
                       language);
}

static int build_code(const json_t *args, struct tool_command *ret, struct error *err)
{
    const char *language = NULL, *code = NULL;
    int r = json_member_string(args, "language", &language, err);
    if (r < 0)
        return r;
    r = json_member_string(args, "code", &code, err);
    if (r < 0)
        return r;
    if (!language || !code)
        return error_field(err, language ? "code" : "language", "code needs 'language' and 'code'");
    return tool_build_code(language, code, ret, err);
}

static const struct member args_calculator[] = {{"expression", MEMBER_TEXT}, {0}};
static const struct member args_file_system[] = {
    {"action", MEMBER_TEXT}, {"path", MEMBER_TEXT},      {"content", MEMBER_TEXT},
    {"append", MEMBER_BOOL}, {"recursive", MEMBER_BOOL}, {0}};
/* A body may be any JSON. */
static const struct member args_http_client[] = {{"method", MEMBER_TEXT},      {"url", MEMBER_TEXT},
                                                 {"headers", MEMBER_TEXT_MAP}, {"body"},
                                                 {"timeout", MEMBER_DURATION}, {0}};
static const struct member args_fetch[] = {
    {"url", MEMBER_TEXT}, {"format", MEMBER_TEXT}, {"timeout", MEMBER_DURATION}, {0}};
static const struct member args_web_search[] = {{"query", MEMBER_TEXT},
                                                {"max_results", MEMBER_WHOLE},
                                                {"language", MEMBER_TEXT},
                                                {"timeout", MEMBER_DURATION},
                                                {0}};
static const struct member args_shell[] = {{"command", MEMBER_TEXT}, {"argv", MEMBER_TEXTS}, {0}};
static const struct member args_code[] = {{"language", MEMBER_TEXT}, {"code", MEMBER_TEXT}, {0}};

const struct tool tools[] = {
    {"calculator", 0, TOOL_IN_RUNNER, "arithmetic", build_calculator, args_calculator},
    {"file_system", CAPABILITY_FILE, TOOL_IN_RUNNER, "read, write, list and delete files",
     build_file_system, args_file_system},
    {"http_client", CAPABILITY_NETWORK, TOOL_IN_HELPER, "one HTTP request", build_url_tool,
     args_http_client},
    {"fetch", CAPABILITY_NETWORK, TOOL_IN_HELPER, "a web page as text, markdown or HTML",
     build_url_tool, args_fetch},
    {"web_search", CAPABILITY_NETWORK, TOOL_IN_HELPER, "a web search", build_web_search,
     args_web_search},
    {"shell", CAPABILITY_UNSAFE, TOOL_AS_COMMAND, "a shell line or an argv", build_shell,
     args_shell},
    {"code", CAPABILITY_UNSAFE, TOOL_AS_COMMAND, "a program in python, javascript or bash",
     build_code, args_code},
};
const size_t n_tools = ELEMENTS(tools);

const struct tool *tool_find(const char *name)
{
    for (size_t i = 0; i < n_tools; i++)
        if (strcmp(tools[i].name, name) == 0)
            return &tools[i];
    return NULL;
}

int tool_build(const struct tool *tool, const json_t *args, struct tool_command *ret,
               struct error *err)
{
    int r = members_check_types(args, tool->args, err);
    return r < 0 ? r : tool->build(args, ret, err);
}

void tool_command_done(struct tool_command *c)
{
    strv_free(c->argv);
    free(c->stdin_data);
    free(c->host);
    free(c->file);
    free(c->file_data);
    *c = (struct tool_command){0};
}
