/* SPDX-License-Identifier: Apache-2.0 */
/* sbx hook pre-tool-use: the operator's policy over an agent that runs its tools itself.
 *
 * Reads what Claude Code gives a PreToolUse hook and answers in its form. Whatever goes wrong ends
 * with exit code 2, which blocks the call: no policy, a policy that cannot be read, an input that
 * is not understood. Rules that require a sandbox cannot be kept by such an agent: what they would
 * allow becomes a question. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/hook-call.h"
#include "cli/output.h"
#include "config/config.h"
#include "guard/check.h"
#include "policy/rules.h"

#define INPUT_MAX  (16 * 1024 * 1024)
#define EXIT_BLOCK 2 /* the one code that stops the agent */

static int block_call(const char *why)
{
    _cleanup_free_ char *text = printable(why);
    fprintf(stderr, "sbx hook: blocked: %s\n", text);
    return EXIT_BLOCK;
}

/* -policy, else the daemon's own settings: $SANDBOX_POLICY_FILE, or policy_file of $SANDBOX_CONFIG.
 */
static char *find_policy(const struct args *a, struct error *err)
{
    _cleanup_config_ struct config c;
    struct config_problems p;
    const char *file = getenv("SANDBOX_CONFIG");
    config_init(&c);
    if (a->policy)
        return xstrdup(a->policy);
    config_problems_init(&p);
    if (file && *file)
        config_load_file(&c, file, &p);
    config_load_env(&c, environ, &p);
    if (p.n_errors)
        error_set(err, ERROR_INVALID, 0, "the daemon's configuration: %.300s", p.errors.data);
    else if (!c.policy_file || !*c.policy_file)
        error_set(err, ERROR_NOT_FOUND, 0,
                  "no policy: name it with -policy, $SANDBOX_POLICY_FILE or policy_file in "
                  "$SANDBOX_CONFIG");
    char *path = error_is_set(err) ? NULL : xstrdup(c.policy_file);
    config_problems_done(&p);
    return path;
}

static json_t *read_input(struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(INPUT_MAX);
    ssize_t n;
    do {
        if (strbuf_reserve(&b, 65536) < 0) {
            error_set(err, ERROR_TOO_LARGE, 0, "the input is too large");
            return NULL;
        }
        n = read(STDIN_FILENO, b.data + b.len, 65536);
        if (n > 0)
            strbuf_commit(&b, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0) {
        error_set(err, ERROR_INTERNAL, errno, "read the input");
        return NULL;
    }
    return json_parse_object(b.data ? b.data : "", b.len, err);
}

static bool needs_sandbox(const struct rules_obligations *o)
{
    static const struct rules_limits none;
    return rules_runtime_rank(o->min_runtime) > 0 || o->strip_network ||
           memcmp(&o->caps, &none, sizeof(none)) != 0;
}

static void decide_call(const struct ruleset *rs, const struct hook_call *h,
                        struct rules_decision *ret)
{
    static const struct identity who = {.key = "hook", .name = "hook", .roles = ROLE_AGENT};
    struct findings found;
    checks_run(&h->call, &found);
    struct rules_call call = {.who = &who,
                              .tool = h->call.tool,
                              .capabilities = h->call.capabilities,
                              .argv = h->call.argv,
                              .cwd = h->call.cwd,
                              .paths = h->call.paths,
                              .n_paths = h->call.n_paths,
                              .host = h->call.host,
                              .port = h->call.port,
                              .runtime = "process",
                              .findings = found.list,
                              .n_findings = found.n,
                              .now_s = time(NULL)};
    ruleset_decide(rs, &call, ret);
    if (ret->verdict == VERDICT_ALLOW && needs_sandbox(&ret->obligations)) {
        ret->verdict = VERDICT_ASK;
        snprintf(ret->reason, sizeof(ret->reason),
                 "the policy wants this in a sandbox, and this tool runs outside of one; the tools "
                 "of the MCP server mas-sandbox run inside");
    }
}

static int answer_agent(const struct rules_decision *d)
{
    char reason[512];
    snprintf(reason, sizeof(reason), "policy rule '%s'%s%s", d->rule, *d->reason ? ": " : "",
             d->reason);
    _cleanup_json_ json_t *o =
        json_pack("{s:{s:s, s:s, s:o}}", "hookSpecificOutput", "hookEventName", "PreToolUse",
                  "permissionDecision", verdict_name(d->verdict), "permissionDecisionReason",
                  json_message(reason));
    print_json(o, JSON_COMPACT);
    if (fflush(stdout) != 0)
        return block_call("the answer cannot be written");
    return d->verdict == VERDICT_DENY ? block_call(reason) : 0;
}

static int hook_pre_tool_use(const struct args *a)
{
    struct error err = {0};
    struct hook_call h = {0};
    struct rules_decision d;
    _cleanup_free_ char *path = find_policy(a, &err);
    struct ruleset *rs = path ? ruleset_load(path, &err) : NULL;
    _cleanup_json_ json_t *input = rs ? read_input(&err) : NULL;
    if (!input || hook_call_parse(input, &h, &err) < 0) {
        hook_call_done(&h);
        ruleset_unref(rs);
        return block_call(*err.message ? err.message : "the policy cannot be read");
    }
    decide_call(rs, &h, &d);
    hook_call_done(&h);
    ruleset_unref(rs);
    return answer_agent(&d);
}

static const struct command hook_commands[] = {
    {.name = "hook pre-tool-use",
     .summary = "Answer a PreToolUse hook of Claude Code by the policy",
     .details =
         "Reads the hook's JSON on standard input and answers allow, ask or deny. Exits with "
         "2, which blocks the call, if the call is denied or anything is wrong.",
     .options =
         OPTIONS(OPTION("policy", policy, "FILE",
                        "The policy. The default is the one in the daemon's configuration.")),
     .run = hook_pre_tool_use},
    {0}};

const struct command command_hook = {
    .name = "hook",
    .group = GROUP_HOST,
    .summary = "Apply the policy to an agent that runs its tools itself",
    .commands = hook_commands,
};
