/* SPDX-License-Identifier: Apache-2.0 */
/* sbx policy import: a policy from the `permissions` of a settings.json of Claude Code. Both know
 * allow, ask and deny with the strictest winning. What has no counterpart here is said, on stderr
 * and in the policy, and makes the exit code 1: nothing is dropped in silence. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/cmd-policy.h"
#include "cli/output.h"
#include "policy/rules.h"

#define IMPORT_FILE_MAX (1024 * 1024)

struct import {
    struct strbuf out;
    const char *verdict;
    size_t n_rules, n_left;
};

static void leave_out(struct import *im, const char *entry, const char *why)
{
    _cleanup_free_ char *clean = printable(entry);
    cli_warn("not translated: %s %s: %s", im->verdict, clean, why);
    strbuf_printf(&im->out, "  # not translated: %s %s: %s\n", im->verdict, clean, why);
    im->n_left++;
}

/* A YAML text in single quotes. */
static void put_quoted(struct strbuf *out, const char *text)
{
    strbuf_puts(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            strbuf_puts(out, "'");
        strbuf_append(out, text, 1);
    }
    strbuf_puts(out, "'");
}

/* more: further lines of the rule, or "". */
static void put_rule_with(struct import *im, const char *entry, const char *more, const char *key,
                          const char *value)
{
    static const char head[] = "version: 1\ndefault: ask\nrules:\n";
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(16 * 1024);
    _cleanup_free_ char *clean = printable(entry);
    struct error err = {0};
    strbuf_printf(&text, "%s  - id: %s-%zu   # %s\n    verdict: %s\n%s    %s: ", head, im->verdict,
                  im->n_rules + 1, clean, im->verdict, more, key);
    put_quoted(&text, value);
    strbuf_puts(&text, "\n");
    struct ruleset *rs = ruleset_parse(text.data, text.len, "rule", &err);
    if (!rs) {
        leave_out(im, entry, err.message);
        return;
    }
    ruleset_unref(rs);
    im->n_rules++;
    strbuf_puts(&im->out, text.data + strlen(head));
}

static void put_rule(struct import *im, const char *entry, const char *key, const char *value)
{
    put_rule_with(im, entry, "", key, value);
}

/* --- one function per kind of entry; argument is what is in its parentheses, or NULL */

static void import_bash(struct import *im, const char *entry, const char *argument)
{
    if (!argument || !*argument || strcmp(argument, "*") == 0 || strcmp(argument, ":*") == 0)
        put_rule(im, entry, "command", "*");
    else if (strpbrk(argument, "|&;<>$`()\\"))
        leave_out(im, entry,
                  "a pattern with shell operators; here every command of a line is "
                  "decided by itself");
    else
        put_rule(im, entry, "command", argument);
}

/* Patterns as .gitignore has them: without a slash at any depth, "//" is the root, "/" the project.
 */
static char *translate_path(const char *p)
{
    const char *last = strrchr(p, '/');
    bool open = strpbrk(last ? last : p, "*?[") != NULL;
    size_t len = strlen(p);
    while (len > 1 && p[len - 1] == '/')
        len--;
    const char *tail = open ? "" : "/**"; /* a directory means all that is in it */
    if (strncmp(p, "//", 2) == 0)
        return xasprintf("%.*s%s", (int)len - 1, p + 1, tail);
    if (p[0] == '/')
        return xasprintf(".%.*s%s", (int)len, p, tail);
    if (strncmp(p, "~/", 2) == 0 || strncmp(p, "./", 2) == 0 || strncmp(p, "**", 2) == 0)
        return xasprintf("%.*s%s", (int)len, p, tail);
    return xasprintf("%s%.*s%s", memchr(p, '/', len) ? "./" : "**/", (int)len, p, tail);
}

static void import_path(struct import *im, const char *entry, const char *argument, const char *key)
{
    if (argument && (strchr(argument, '[') || strchr(argument, '!') || strstr(argument, ".."))) {
        leave_out(im, entry, "'[', '!' and '..' have no counterpart in a path pattern");
        return;
    }
    if (!argument || !*argument) { /* the tool as a whole: not what commands do */
        put_rule_with(im, entry, "    tool: 'file*'\n", key, "**");
        return;
    }
    _cleanup_free_ char *glob = translate_path(argument);
    put_rule(im, entry, key, glob);
}

static void import_read(struct import *im, const char *entry, const char *argument)
{
    import_path(im, entry, argument, "read");
}

static void import_write(struct import *im, const char *entry, const char *argument)
{
    import_path(im, entry, argument, "write");
}

static void import_fetch(struct import *im, const char *entry, const char *argument)
{
    if (!argument || !*argument)
        put_rule(im, entry, "capability", "network");
    else if (strncmp(argument, "domain:", 7) == 0 && argument[7])
        put_rule(im, entry, "host", argument + 7);
    else
        leave_out(im, entry, "only domain:NAME is known");
}

static void import_search(struct import *im, const char *entry, const char *argument)
{
    if (argument)
        leave_out(im, entry, "a search has no pattern here");
    else
        put_rule(im, entry, "tool", "web_search");
}

static const struct {
    const char *name;
    void (*import)(struct import *im, const char *entry, const char *argument);
} kinds[] = {
    {"Bash", import_bash},          {"Read", import_read},      {"Grep", import_read},
    {"Glob", import_read},          {"LS", import_read},        {"NotebookRead", import_read},
    {"Edit", import_write},         {"Write", import_write},    {"MultiEdit", import_write},
    {"NotebookEdit", import_write}, {"WebFetch", import_fetch}, {"WebSearch", import_search},
};

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

static void import_entry(struct import *im, const char *entry)
{
    size_t len = strcspn(entry, "("), whole = strlen(entry);
    if (has_control(entry) || whole > RULES_PATTERN_MAX ||
        (entry[len] && entry[whole - 1] != ')')) {
        leave_out(im, entry, "not of the form Name or Name(pattern)");
        return;
    }
    _cleanup_free_ char *argument = entry[len] ? xstrndup(entry + len + 1, whole - len - 2) : NULL;
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (strlen(kinds[i].name) == len && strncmp(kinds[i].name, entry, len) == 0) {
            kinds[i].import(im, entry, argument);
            return;
        }
    leave_out(im, entry,
              strncmp(entry, "mcp__", 5) == 0 ? "a tool of another MCP server never comes here"
                                              : "there is no such tool here");
}

static int import_list(struct import *im, const json_t *permissions, const char *verdict,
                       struct error *err)
{
    _cleanup_strv_ char **list = NULL;
    im->verdict = verdict;
    int r = json_member_strv(permissions, verdict, RULES_MAX, &list, err);
    for (size_t i = 0; r > 0 && list[i]; i++)
        import_entry(im, list[i]);
    return r;
}

static const struct {
    const char *mode, *verdict, *note;
} modes[] = {
    {"default", "ask", NULL},
    {"acceptEdits", "ask", "edits are asked about unless a rule allows them"},
    {"plan", "deny", NULL},
    {"dontAsk", "deny", NULL},
    {"bypassPermissions", "ask", "no policy allows everything by default; the default is ask"},
};

static void import_mode(struct import *im, const char *mode)
{
    size_t i = 0;
    while (i < ELEMENTS(modes) && strcmp(modes[i].mode, mode) != 0)
        i++;
    strbuf_printf(&im->out, "version: 1\ndefault: %s\n",
                  i < ELEMENTS(modes) ? modes[i].verdict : "ask");
    im->verdict = "defaultMode";
    strbuf_puts(&im->out, "rules:\n");
    if (i == ELEMENTS(modes) || modes[i].note)
        leave_out(im, mode, i == ELEMENTS(modes) ? "an unknown mode" : modes[i].note);
}

static int import_permissions(struct import *im, const json_t *permissions, struct error *err)
{
    static const char known[] = " allow ask deny defaultMode ";
    const char *mode = "default", *key;
    json_t *value;
    int r = json_member_string(permissions, "defaultMode", &mode, err);
    if (r < 0)
        return r;
    import_mode(im, mode);
    json_object_foreach((json_t *)permissions, key, value)
    {
        _cleanup_free_ char *padded = xasprintf(" %s ", key);
        im->verdict = "permissions";
        if (!strstr(known, padded))
            leave_out(im, key, "this key has no counterpart");
    }
    r = import_list(im, permissions, "deny", err);
    if (r < 0)
        return r;
    r = import_list(im, permissions, "ask", err);
    if (r < 0)
        return r;
    r = import_list(im, permissions, "allow", err);
    if (r < 0)
        return r;
    if (!im->n_rules)
        strbuf_puts(&im->out, "  []\n");
    return r;
}

static int import_file(struct import *im, const char *path, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(IMPORT_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &text);
    if (r < 0)
        return error_set(err, r == -ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, -r, "%s", path);
    _cleanup_json_ json_t *settings = json_parse_object(text.data ? text.data : "", text.len, err);
    json_t *permissions = NULL;
    if (!settings || json_member_object(settings, "permissions", &permissions, err) < 0) {
        error_prefix(err, "%s", path);
        return -EINVAL;
    }
    if (!permissions)
        return error_set(err, ERROR_INVALID, 0, "%s: has no 'permissions'", path);
    return import_permissions(im, permissions, err);
}

int policy_import(const struct args *a)
{
    const char *path = a->rest[0];
    struct error err = {0};
    struct import im = {.out = STRBUF_INIT(RULES_FILE_MAX)};
    _cleanup_free_ char *clean = printable(path);
    strbuf_printf(&im.out, "# Imported from %s. Patterns are words here, not prefixes of text.\n",
                  clean);
    int r = import_file(&im, path, &err);
    struct ruleset *rs =
        r >= 0 ? ruleset_parse(im.out.data, im.out.len, "imported policy", &err) : NULL;
    if (rs)
        fwrite(im.out.data, 1, im.out.len, stdout);
    else
        cli_warn("%s", err.message);
    ruleset_unref(rs);
    strbuf_done(&im.out);
    return rs ? im.n_left ? 1 : 0 : error_code_exit(err.code);
}
