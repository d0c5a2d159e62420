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

static int fail(const struct error *err)
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

static int check(const struct args *a, struct ruleset *rs)
{
    if (a->on[FLAG_JSON]) {
        _cleanup_json_ json_t *json = json_pack("{s:s,s:I}", "revision", ruleset_revision(rs),
                                                "rules", (json_int_t)ruleset_count(rs));
        print_json(json, JSON_INDENT(2));
        return 0;
    }
    printf("%s: ok, %zu rules, revision %s\n", a->rest[1], ruleset_count(rs), ruleset_revision(rs));
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

static int test(const struct args *a, struct ruleset *rs)
{
    size_t failed = 0, i;
    json_t *result;
    _cleanup_json_ json_t *results = ruleset_test(rs, &failed);
    if (a->on[FLAG_JSON]) {
        print_json(results, JSON_INDENT(2));
        return failed ? 1 : 0;
    }
    json_array_foreach(results, i, result)
    {
        if (!json_is_true(json_object_get(result, "passed")))
            print_failure(a->rest[1], result);
    }
    printf("%s: %zu passed, %zu failed\n", a->rest[1], json_array_size(results) - failed, failed);
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
    if (!a->text[FLAG_HOST])
        return 0;
    q->host = xstrdup(a->text[FLAG_HOST]);
    q->call.port = 443;
    if (target_cut_port(q->host, &q->call.port) < 0)
        return cli_fail_usage("-host wants HOST or HOST:PORT, not '%s'", a->text[FLAG_HOST]);
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
    q->who = (struct identity){.roles = ROLE_AGENT, .authenticated = a->text[FLAG_KEY]};
    snprintf(q->who.name, sizeof(q->who.name), "%s", a->text[FLAG_KEY] ? a->text[FLAG_KEY] : "");
    if (a->text[FLAG_ROLES] && roles_parse(a->text[FLAG_ROLES], &q->who.roles, &err) < 0)
        return cli_fail_usage("-roles: %s", err.message);
    ask_path(q, a->text[FLAG_PATH], false);
    ask_path(q, a->text[FLAG_WRITE], true);
    int code = ask_host(a, q);
    if (code)
        return code;
    if (a->text[FLAG_LINE] && a->n_rest > 2)
        return cli_fail_usage("either -line or a command behind --");
    q->line[0] = (char *)"sh";
    q->line[1] = (char *)"-c";
    q->line[2] = (char *)a->text[FLAG_LINE];
    q->call.argv = a->text[FLAG_LINE] ? q->line : a->n_rest > 2 ? a->rest + 2 : NULL;
    q->call.who = &q->who;
    q->call.cwd = a->text[FLAG_CWD] ? a->text[FLAG_CWD] : "/workspace";
    q->call.runtime = a->text[FLAG_RUNTIME];
    q->images[0] = (char *)(a->text[FLAG_IMAGE] ? a->text[FLAG_IMAGE] : RULES_NO_IMAGE);
    q->call.image_names = q->images;
    q->call.now_s = (int64_t)time(NULL);
    q->call.tool = a->text[FLAG_TOOL]    ? a->text[FLAG_TOOL]
                   : q->call.argv        ? "exec"
                   : q->host             ? "fetch"
                   : a->text[FLAG_WRITE] ? "file.write"
                   : q->call.n_paths     ? "file.read"
                                         : NULL;
    return q->call.tool ? 0 : cli_fail_usage("explain what? A command, -line, -path, -host, -tool");
}

static int explain(const struct args *a, struct ruleset *rs)
{
    struct question q = {0};
    int code = make_question(a, &q);
    if (!code) {
        _cleanup_json_ json_t *json = ruleset_explain(rs, &q.call);
        if (a->on[FLAG_JSON])
            print_json(json, JSON_INDENT(2));
        else
            print_explanation(json);
    }
    free(q.host);
    return code;
}

static const struct {
    const char *name;
    bool has_more;
    int (*run)(const struct args *a, struct ruleset *rs);
} verbs[] = {{"check", false, check}, {"test", false, test}, {"explain", true, explain}};

/* The policy that a running daemon has, and why it does not have the file's newest content. */
static int show_status(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_json_ json_t *status = NULL;
    if (session_open(a, false, &s, &err) < 0 ||
        session_call(&s, "GET", "/v1/status", NULL, &status, &err) < 0)
        return cli_fail(&err);
    const json_t *policy = json_object_get(status, "policy");
    if (a->on[FLAG_JSON]) {
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

int cmd_policy(const struct args *a)
{
    struct error err = {0};
    if (strcmp(a->rest[0], "status") == 0 && a->n_rest == 1)
        return show_status(a);
    if (a->n_rest < 2)
        return cli_fail_usage("policy %s FILE", a->rest[0]);
    if (strcmp(a->rest[0], "import") == 0)
        return policy_import(a->rest[1]);
    for (size_t i = 0; i < ELEMENTS(verbs); i++) {
        if (strcmp(a->rest[0], verbs[i].name) != 0)
            continue;
        if (a->n_rest > 2 && !verbs[i].has_more)
            return cli_fail_usage("unexpected argument '%s'", a->rest[2]);
        struct ruleset *rs = ruleset_load(a->rest[1], &err);
        if (!rs)
            return fail(&err);
        int code = verbs[i].run(a, rs);
        ruleset_unref(rs);
        return code;
    }
    return cli_fail_usage("policy check, test, explain, import or status, not '%s'", a->rest[0]);
}
