/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hook-call.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/url.h"
#include "policy/policy.h"

/* Tools of the agent, and what ours is called that does the same. member: what names the path. */
static const struct {
    const char *name, *tool, *member;
    unsigned capabilities;
    bool write;
} known[] = {
    {"Read", "file.read", "file_path", CAPABILITY_FILE, false},
    {"NotebookRead", "file.read", "notebook_path", CAPABILITY_FILE, false},
    {"Write", "file.write", "file_path", CAPABILITY_FILE, true},
    {"Edit", "file.write", "file_path", CAPABILITY_FILE, true},
    {"MultiEdit", "file.write", "file_path", CAPABILITY_FILE, true},
    {"NotebookEdit", "file.write", "notebook_path", CAPABILITY_FILE, true},
    {"Glob", "file.list", "path", CAPABILITY_FILE, false},
    {"LS", "file.list", "path", CAPABILITY_FILE, false},
    {"Grep", "file.search", "path", CAPABILITY_FILE, false},
};

static char *own_text(struct hook_call *h, char *text)
{
    return h->owned[h->n_owned++] = text;
}

static int set_shell(struct hook_call *h, const json_t *input, struct error *err)
{
    const char *command = json_string_value(json_object_get(input, "command"));
    if (!command)
        return error_field(err, "tool_input", "Bash without 'command'");
    h->argv[0] = (char *)"/bin/sh";
    h->argv[1] = (char *)"-c";
    h->argv[2] = (char *)command;
    h->call.tool = "exec";
    h->call.capabilities = CAPABILITY_UNSAFE;
    h->call.argv = h->argv;
    return 0;
}

/* A URL that is not plainly one is refused, not guessed at. */
static int set_url(struct hook_call *h, const json_t *input, struct error *err)
{
    const char *url = json_string_value(json_object_get(input, "url"));
    struct url u;
    if (!url || url_parse(url, &u) < 0 || strpbrk(url, "\\@"))
        return error_field(err, "tool_input", "WebFetch without a plain 'url'");
    h->call.port = u.target.port;
    h->call.tool = "fetch";
    h->call.capabilities = CAPABILITY_NETWORK;
    h->call.host = own_text(h, xcalloc(1, TARGET_TEXT_SIZE));
    target_format_host(&u.target, (char *)h->call.host);
    return 0;
}

/* Where a path leads through links; of one that is not there yet, its directory. NULL: nowhere. */
static char *resolve_path(const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real))
        return xstrdup(real);
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = xstrndup(path, slash > path ? (size_t)(slash - path) : 1);
    return realpath(dir, real) ? xasprintf("%s/%s", strcmp(real, "/") ? real : "", slash + 1)
                               : NULL;
}

static int set_file(struct hook_call *h, size_t row, const json_t *input, struct error *err)
{
    const char *path = json_string_value(json_object_get(input, known[row].member));
    h->call.tool = known[row].tool;
    h->call.capabilities = known[row].capabilities;
    h->call.builtin = true;
    if (!path && known[row].write)
        return error_field(err, "tool_input", "%s without '%s'", known[row].name,
                           known[row].member);
    if (!path)
        path = h->call.cwd;
    if (!path || (*path != '/' && !h->call.cwd))
        return error_field(err, "cwd", "a relative path, and 'cwd' is missing");
    char *whole = own_text(h, *path == '/' ? xstrdup(path) : xasprintf("%s/%s", h->call.cwd, path));
    h->paths[h->call.n_paths++] = (struct rules_path){whole, known[row].write};
    char *real = resolve_path(whole);
    if (real && strcmp(own_text(h, real), whole) != 0)
        h->paths[h->call.n_paths++] = (struct rules_path){real, known[row].write};
    return 0;
}

int hook_call_parse(const json_t *input, struct hook_call *ret, struct error *err)
{
    const char *event = NULL, *name = NULL;
    json_t *arguments = NULL;
    *ret = (struct hook_call){0};
    ret->call.paths = ret->paths;
    int r = json_member_string(input, "hook_event_name", &event, err);
    if (r < 0)
        return r;
    r = json_member_string(input, "tool_name", &name, err);
    if (r < 0)
        return r;
    r = json_member_string(input, "cwd", &ret->call.cwd, err);
    if (r < 0)
        return r;
    r = json_member_object(input, "tool_input", &arguments, err);
    if (r < 0)
        return r;
    if (event && strcmp(event, "PreToolUse") != 0)
        return error_field(err, "hook_event_name", "this is for PreToolUse, not %.40s", event);
    if (!name || !*name || !arguments)
        return error_field(err, "tool_name", "'tool_name' and 'tool_input' are needed");
    if (strcmp(name, "Bash") == 0)
        return set_shell(ret, arguments, err);
    if (strcmp(name, "WebFetch") == 0)
        return set_url(ret, arguments, err);
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return set_file(ret, i, arguments, err);
    /* Any other: rules may name it. */
    ret->call.tool = strcmp(name, "WebSearch") == 0 ? "web_search" : name;
    ret->call.capabilities =
        strcmp(name, "WebSearch") == 0 ? CAPABILITY_NETWORK : CAPABILITY_UNSAFE;
    ret->call.args = arguments;
    return 0;
}

void hook_call_done(struct hook_call *h)
{
    for (size_t i = 0; i < h->n_owned; i++)
        free(h->owned[i]);
    *h = (struct hook_call){0};
}
