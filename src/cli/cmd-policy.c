/* SPDX-License-Identifier: Apache-2.0 */
/* sbx policy: check, test, explain and import policy files, without a daemon. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/cmd-policy.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "base/target.h"
#include "identity/identity.h"
#include "policy/rules.h"
#include "libsbx/sbx.h"

static void print_text(const char *format, const char *text)
{
    _cleanup_free_ char *clean = printable(text);
    printf(format, clean);
}

static int fail_with(const struct error *err)
{
    _cleanup_free_ char *clean = printable(err->message);
    cli_warn("%s", clean);
    return error_code_exit(err->code);
}

static const char *verdict_colour(const char *verdict)
{
    return colour(strcmp(verdict, "allow") == 0  ? COLOUR_GREEN
                  : strcmp(verdict, "deny") == 0 ? COLOUR_RED
                                                 : COLOUR_YELLOW);
}

/* --- check, test */

static int check_rules(const struct args *a, struct ruleset *rs)
{
    if (a->json) {
        _cleanup_json_ json_t *json = json_pack("{s:s,s:I}", "revision", ruleset_revision(rs),
                                                "rules", (json_int_t)ruleset_count(rs));
        print_json(json, JSON_INDENT(2));
        return 0;
    }
    printf("%s: ok, %zu rules, revision %s\n", a->rest[0], ruleset_count(rs), ruleset_revision(rs));
    return 0;
}

static void print_failure(const char *file, const json_t *result)
{
    printf("%s:%lld: %s", file, (long long)json_integer_value(json_object_get(result, "line")),
           colour(COLOUR_RED));
    print_text("'%s'", json_member_text(result, "what"));
    printf("%s is %s, not %s", colour(COLOUR_OFF), json_member_text(result, "verdict"),
           json_member_text(result, "expected"));
    if (*json_member_text(result, "expected_rule"))
        printf(" by rule %s", json_member_text(result, "expected_rule"));
    printf(" (rule %s)\n", json_member_text(result, "rule"));
    print_text("    %s\n", json_member_text(result, "reason"));
}

static int test_rules(const struct args *a, struct ruleset *rs)
{
    size_t failed = 0, i;
    json_t *result;
    _cleanup_json_ json_t *results = ruleset_test(rs, &failed);
    if (a->json) {
        print_json(results, JSON_INDENT(2));
        return failed ? 1 : 0;
    }
    json_array_foreach(results, i, result)
    {
        if (!json_is_true(json_object_get(result, "passed")))
            print_failure(a->rest[0], result);
    }
    printf("%s: %zu passed, %zu failed\n", a->rest[0], json_array_size(results) - failed, failed);
    return failed ? 1 : 0;
}

/* --- explain */

static void print_part(const json_t *part)
{
    const char *verdict = json_member_text(part, "verdict");
    printf("  %s%-5s%s ", verdict_colour(verdict), strcmp(verdict, "none") == 0 ? "-" : verdict,
           colour(COLOUR_OFF));
    print_text("%s\n", json_member_text(part, "what"));
    if (*json_member_text(part, "rule"))
        printf("        by %s%s", json_member_text(part, "rule"),
               strcmp(json_member_text(part, "match"), "maybe") == 0 ? ", which may match" : "");
    else
        printf("        only runs the others");
    if (*json_member_text(part, "would"))
        printf("; otherwise %s", json_member_text(part, "would"));
    printf("\n");
    if (*json_member_text(part, "unknown"))
        print_text("        not known: %s\n", json_member_text(part, "unknown"));
}

static void print_explanation(const json_t *json)
{
    size_t i;
    json_t *part;
    const json_t *obligations = json_object_get(json, "obligations");
    printf("%s%s%s by %s, risk %s\n", verdict_colour(json_member_text(json, "verdict")),
           json_member_text(json, "verdict"), colour(COLOUR_OFF), json_member_text(json, "rule"),
           json_member_text(json, "risk"));
    print_text("%s\n", json_member_text(json, "reason"));
    json_array_foreach(json_object_get(json, "parts"), i, part) print_part(part);
    if (json_object_size(obligations)) {
        printf("requires ");
        json_dumpf(obligations, stdout, JSON_COMPACT);
        printf("\n");
    }
}

struct question {
    struct rules_call call;
    struct identity who;
    struct rules_path paths[2];
    char *line[4];
    char *images[2];
    char *host;
};

static int ask_host(const struct args *a, struct question *q)
{
    if (!a->host)
        return 0;
    q->host = xstrdup(a->host);
    q->call.port = 443;
    if (target_cut_port(q->host, &q->call.port) < 0)
        return cli_fail_usage("-host wants HOST or HOST:PORT, not '%s'", a->host);
    q->call.host = q->host;
    return 0;
}

static void ask_path(struct question *q, const char *path, bool write)
{
    if (path)
        q->paths[q->call.n_paths++] = (struct rules_path){.path = path, .write = write};
    q->call.paths = q->paths;
}

/* 0, or an exit code after saying why. */
static int make_question(const struct args *a, struct question *q)
{
    struct error err = {0};
    q->who = (struct identity){.roles = ROLE_AGENT, .authenticated = a->key};
    snprintf(q->who.name, sizeof(q->who.name), "%s", a->key ? a->key : "");
    if (a->roles && roles_parse(a->roles, &q->who.roles, &err) < 0)
        return cli_fail_usage("-roles: %s", err.message);
    ask_path(q, a->path, false);
    ask_path(q, a->write, true);
    int code = ask_host(a, q);
    if (code)
        return code;
    if (a->line && a->n_rest > 1)
        return cli_fail_usage("either -line or a command behind --");
    q->line[0] = (char *)"sh";
    q->line[1] = (char *)"-c";
    q->line[2] = (char *)a->line;
    q->call.argv = a->line ? q->line : a->n_rest > 1 ? a->rest + 1 : NULL;
    q->call.who = &q->who;
    q->call.cwd = a->cwd ? a->cwd : "/workspace";
    q->call.runtime = a->runtime;
    q->images[0] = (char *)(a->image ? a->image : RULES_NO_IMAGE);
    q->call.image_names = q->images;
    q->call.now_s = (int64_t)time(NULL);
    q->call.tool = a->tool           ? a->tool
                   : q->call.argv    ? "exec"
                   : q->host         ? "fetch"
                   : a->write        ? "file.write"
                   : q->call.n_paths ? "file.read"
                                     : NULL;
    return q->call.tool ? 0 : cli_fail_usage("explain what? A command, -line, -path, -host, -tool");
}

static int explain_rules(const struct args *a, struct ruleset *rs)
{
    struct question q = {0};
    int code = make_question(a, &q);
    if (!code) {
        _cleanup_json_ json_t *json = ruleset_explain(rs, &q.call);
        if (a->json)
            print_json(json, JSON_INDENT(2));
        else
            print_explanation(json);
    }
    free(q.host);
    return code;
}

/* The policy that a running daemon has, and why it does not have the file's newest content. */
static int policy_status(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *status = NULL;
    if (session_call(s, "GET", "/v1/status", NULL, &status, err) < 0)
        return -1;
    const json_t *policy = json_object_get(status, "policy");
    if (a->json) {
        json_dumpf(policy ? policy : json_null(), stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
        printf("\n");
        return 0;
    }
    if (!json_is_object(policy)) {
        printf("no policy_file is configured\n");
        return 0;
    }
    print_text("%s\n", json_member_text(policy, "file"));
    printf("revision %.12s, %lld rules, loaded at %s\n", json_member_text(policy, "revision"),
           (long long)json_integer_value(json_object_get(policy, "rules")),
           json_member_text(policy, "loaded_at"));
    if (!json_object_get(policy, "error"))
        return 0;
    print_text("the file as it is now was not taken: %s\n", json_member_text(policy, "error"));
    return EXIT_SBX_FAILED;
}

static int with_rules(const struct args *a, int (*run)(const struct args *a, struct ruleset *rs))
{
    struct error err = {0};
    struct ruleset *rs = ruleset_load(a->rest[0], &err);
    if (!rs)
        return fail_with(&err);
    int code = run(a, rs);
    ruleset_unref(rs);
    return code;
}

static int policy_check(const struct args *a)
{
    return with_rules(a, check_rules);
}

static int policy_test(const struct args *a)
{
    return with_rules(a, test_rules);
}

static int policy_explain(const struct args *a)
{
    return with_rules(a, explain_rules);
}

static const struct command policy_commands[] = {
    {.name = "policy check",
     .usage = "FILE",
     .summary = "Read a policy file and say where it is wrong",
     .options = OPTIONS(OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run = policy_check},
    {.name = "policy test",
     .usage = "FILE",
     .summary = "Run the test cases in a policy file",
     .options = OPTIONS(OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run = policy_test},
    {.name = "policy explain",
     .usage = "FILE [-- COMMAND [ARGUMENT...]]",
     .summary = "Say what a policy would decide about a call, by which rule, and why",
     .details =
         "The call is a COMMAND, or what -line, -path, -write, -host or -tool names. Nothing "
         "is run.",
     .options = OPTIONS(
         OPTION("line", line, "LINE", "The call runs this line in a shell."),
         OPTION("path", path, "PATH", "The call reads this file."),
         OPTION("write", write, "PATH", "The call writes this file."),
         OPTION("host", host, "HOST[:PORT]", "The call connects to this host."),
         OPTION("tool", tool, "TOOL", "The call uses this tool."),
         OPTION("key", key, "NAME", "The caller's key has this name."),
         OPTION("roles", roles, "A,B",
                "The caller has these of the roles agent, operator, approver, auditor and admin. "
                "The default is agent."),
         OPTION("cwd", cwd, "DIR", "The call starts in this directory. The default is /workspace."),
         OPTION("runtime", runtime, "NAME", "The sandbox has this runtime."),
         OPTION("image", image, "IMAGE", "The sandbox is made from this image."), OPTION_JSON),
     .min_rest = 1,
     .max_rest = -1,
     .run = policy_explain},
    {.name = "policy import",
     .usage = "FILE",
     .summary = "Print a policy made from the permissions in a settings.json of Claude Code",
     .details = "What could not be translated is said on standard error; the exit code is then 1.",
     .min_rest = 1,
     .max_rest = 1,
     .run = policy_import},
    {.name = "policy status",
     .summary = "Show the policy of a running daemon",
     .details = "If the daemon did not accept the file as it is now, says why and exits with 125.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = policy_status},
    {0}};

const struct command command_policy = {
    .name = "policy",
    .group = GROUP_HOST,
    .summary = "Check, test and explain policy files",
    .details = "Only 'policy status' needs a daemon.",
    .commands = policy_commands,
};
