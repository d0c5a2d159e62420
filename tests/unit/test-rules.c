/* SPDX-License-Identifier: Apache-2.0 */
/* Policy files: what is refused and where, what each condition means, which rule wins. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "guard/check.h"
#include "identity/identity.h"
#include "policy/policy.h"
#include "policy/rules-glob.h"
#include "policy/rules-internal.h"
#include "policy/rules.h"
#include "shell/shell.h"
#include "runtime/runtime.h"
#include "tests/unit/tap.h"

#define HEAD  "version: 1\ndefault: ask\nrules:\n"
#define TESTS "version: 1\ndefault: ask\nrules: []\ntests:\n"

/* --- what is refused */

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "p:1:1: the file is empty"},
    {"x", "p:1:1: not a map"},
    {"version: 1\nrules: []\n", "p:1:1: 'default' is missing"},
    {"default: ask\nrules: []\n", "p:1:1: 'version' is missing"},
    {"version: 1\ndefault: ask\n", "p:1:1: 'rules' is missing"},
    {"version: 2\ndefault: ask\nrules: []\n", "p:1:10: this version reads"},
    {"version: 1\ndefault: maybe\nrules: []\n", "p:2:10: one of allow, ask and deny"},
    {"version: 1\ndefault: ask\nunknown: allow\nrules: []\n", "p:3:10: an unknown command"},
    {"version: 1\ndefault: ask\nruels: []\n", "p:3:1: unknown key 'ruels'"},
    {"version: 1\ndefault: ask\ndefault: deny\nrules: []\n", "p:3:1: 'default' is there twice"},
    {"version: 1\ndefault: &a ask\nrules: []\n", "p:2:10: aliases, anchors and tags"},
    {"version: 1\ndefault: *a\nrules: []\n", "p:2:10: aliases, anchors and tags"},
    {"version: 1\ndefault: !!str ask\nrules: []\n", "p:2:10: aliases, anchors and tags"},
    {"version: 1\ndefault: ask\nrules: []\n---\na: b\n", "p:4:1: a second document"},
    {"version: [1\n", "p:2:1: not YAML"},
    {"version: {a: {b: {c: {d: {e: {f: {g: {h: i}}}}}}}}\n", "nested too deeply"},
    {HEAD "- verdict: deny\n", "p:4:3: a rule without 'id'"},
    {HEAD "- id: a\n", "p:4:3: rule 'a' has neither"},
    {HEAD "- {id: a, verdict: deny}\n- {id: a, verdict: ask}\n", "p:5:3: rule 'a' is there twice"},
    {HEAD "- {id: default, verdict: deny}\n", "p:4:8: 'default' is what decides"},
    {HEAD "- {id: 'a b', verdict: deny}\n", "p:4:8: an id has"},
    {HEAD "- {id: a, verdict: deny, comand: x}\n", "p:4:26: unknown key 'comand'"},
    {HEAD "- {id: a, verdict: deny, command: \"'x\"}\n", "p:4:35: ''x' is not a command pattern"},
    {HEAD "- {id: a, verdict: deny, command: '* x'}\n", "is not a command pattern"},
    {HEAD "- {id: a, verdict: deny, command: []}\n", "p:4:35: the list is empty"},
    {HEAD "- {id: a, verdict: deny, path: /a/../b}\n", "is not a path pattern"},
    {HEAD "- {id: a, verdict: deny, path: [/a, /b//c]}\n", "p:4:37: '/b//c' is not a path pattern"},
    {HEAD "- {id: a, verdict: deny, host: 'a b'}\n", "is not a host"},
    {HEAD "- {id: a, verdict: deny, role: king}\n", "p:4:32: 'king' is not a role"},
    {HEAD "- {id: a, verdict: deny, capability: fly}\n", "is not a capability"},
    {HEAD "- {id: a, verdict: deny, days: mon-}\n", "is not a day"},
    {HEAD "- {id: a, verdict: deny, hours: '9-17'}\n", "is not a range of hours"},
    {HEAD "- {id: a, verdict: deny, hours: '09:00-24:30'}\n", "is not a range of hours"},
    {HEAD "- {id: a, verdict: deny, limits: {memory_mb: 5}}\n", "a comparison such as"},
    {HEAD "- {id: a, verdict: deny, limits: {gravity: '>5'}}\n", "is not a limit"},
    {HEAD "- {id: a, verdict: deny, severity: bad}\n", "one of low, medium"},
    {HEAD "- {id: a, verdict: deny, image: 'docker://x.y/z'}\n", "write it without"},
    {HEAD "- {id: a, verdict: deny, image: ['a/b', 'Reg.example/x']}\n", "p:4:41: 'Reg.example/x'"},
    {HEAD "- {id: a, verdict: deny, image: 'sha256:12'}\n", "a digest has 64"},
    {HEAD "- {id: a, verdict: allow, image: 'reg.example*'}\n", "other registries as well"},
    {HEAD "- {id: a, verdict: deny, image_except: 'a b'}\n", "is not an image pattern: a space"},
    {HEAD "- {id: a, verdict: deny, image: []}\n", "the list is empty"},
    {HEAD "- {id: a, require: {runtime: moon}}\n", "'moon' is not a runtime of this build"},
    {HEAD "- {id: a, require: {limits: {memory_mb: -1}}}\n", "a number above 0"},
    {HEAD "- {id: a, require: {limits: {max_processes: 0.5}}}\n", "cannot be enforced"},
    {HEAD "- {id: a, require: {limits: {max_processes: 1.5}}}\n", "no whole number"},
    {HEAD "- {id: a, require: {limits: {open_files: 0.5}}}\n", "cannot be enforced"},
    {HEAD "- {id: a, require: {limits: {memory_mb: 0.0000001}}}\n", "too little"},
    {HEAD "- {id: a, require: {limits: {disk_mb: 0.0000001}}}\n", "too little"},
    {HEAD "- {id: a, require: {limits: {io_mb_per_s: 0.0000001}}}\n", "too little"},
    {HEAD "- {id: a, require: {limits: {cpu_cores: 0.0001}}}\n", "too little"},
    {HEAD "- {id: a, require: {limits: {timeout_s: 0.0000000001}}}\n", "too little"},
    {HEAD "- {id: a, require: {redact: all}}\n", "cannot be redacted"},
    {HEAD "- {id: a, require: {redact: [args, output]}}\n", "'output' cannot be redacted"},
    {HEAD "- {id: a, verdict: deny, reason: \"a\\nb\"}\n", "a control character"},
    {HEAD "- [a]\n", "p:4:3: a rule is a map"},
    {TESTS "- {command: ls}\n", "p:5:3: a test without 'expect'"},
    {TESTS "- {command: ls, argv: [a], expect: ask}\n", "and no 'command' beside it"},
    {TESTS "- {comand: ls, expect: ask}\n", "p:5:4: unknown key 'comand' in a test"},
    {"version: 1\ndefault: ask\ntimezone: Mars\nrules: []\n", "p:3:11: utc or an offset"},
    {"version: 1\ndefault: ask\nworkspace: x\nrules: []\n", "p:3:12: an absolute path"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct error err = {0};
        struct ruleset *rs = ruleset_parse(bad[i].text, strlen(bad[i].text), "p", &err);
        if (!ok(!rs && strstr(err.message, bad[i].message) && strncmp(err.message, "p:", 2) == 0,
                "refused: %s", bad[i].message))
            printf("# got %s\n", err.message);
        ruleset_unref(rs);
    }
    struct error err = {0};
    _cleanup_free_ char *big = xcalloc(RULES_FILE_MAX + 2, 1);
    memset(big, ' ', RULES_FILE_MAX + 1);
    ok(!ruleset_parse(big, RULES_FILE_MAX + 1, "p", &err) && strstr(err.message, "larger"),
       "a file that is too large is refused");
    struct error missing = {0};
    ok(!ruleset_load("/nonexistent/p", &missing) && missing.code == ERROR_NOT_FOUND,
       "a file that is not there is not found");
}

static void test_many(void)
{
    struct error err = {0};
    struct strbuf b = STRBUF_INIT(RULES_FILE_MAX);
    strbuf_puts(&b, HEAD);
    for (int i = 0; i <= RULES_MAX; i++)
        strbuf_printf(&b, "- {id: r%d, verdict: ask}\n", i);
    ok(!ruleset_parse(b.data, b.len, "p", &err) && strstr(err.message, "rules"),
       "too many rules are refused");
    strbuf_done(&b);
}

/* --- decisions */

static struct identity who = {.name = "ann", .key = "key-1", .roles = ROLE_AGENT | ROLE_OPERATOR};
static struct rules_decision d;

static struct ruleset *parse(const char *text)
{
    struct error err = {0};
    struct ruleset *rs = ruleset_parse(text, strlen(text), "p", &err);
    if (!rs)
        printf("# %s\n", err.message);
    return rs;
}

static const char *decide(const char *policy, struct rules_call call)
{
    struct ruleset *rs = parse(policy);
    if (!call.who)
        call.who = &who;
    if (!call.tool)
        call.tool = "shell";
    if (!call.cwd)
        call.cwd = "/workspace";
    memset(&d, 0, sizeof(d));
    if (rs)
        ruleset_decide(rs, &call, &d);
    ruleset_unref(rs);
    return rs ? verdict_name(d.verdict) : "none";
}

static const char *decide_line(const char *policy, const char *line)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)line, NULL};
    return decide(policy, (struct rules_call){.argv = argv});
}

static void is(const char *policy, const char *line, const char *verdict, const char *rule)
{
    const char *got = decide_line(policy, line);
    if (!ok(strcmp(got, verdict) == 0 && strcmp(d.rule, rule) == 0, "%s: %s by %s", line, verdict,
            rule))
        printf("# got %s by %s: %s\n", got, d.rule, d.reason);
}

static void test_order(void)
{
    static const char p[] = HEAD "- {id: yes, verdict: allow, command: ['a *', 'b *']}\n"
                                 "- {id: hm, verdict: ask, command: 'b *'}\n"
                                 "- {id: no, verdict: deny, command: 'b c'}\n";
    is(p, "a x", "allow", "yes");
    is(p, "b x", "ask", "hm");
    is(p, "b c", "deny", "no");
    ok(strcmp(d.would, "hm") == 0, "what would have decided otherwise is the next strictest");
    is(p, "z", "ask", "default");
    is(p, "a x; b c", "deny", "no");
    is(p, "a x; z", "ask", "default");
    is(p, "", "ask", "default");
    ok(strcmp(decide_line("version: 1\ndefault: deny\nrules: []\n", "ls"), "deny") == 0,
       "the default decides where nothing else does");
}

static void test_unknown(void)
{
    static const char open[] = "version: 1\ndefault: allow\nrules: []\n";
    is(open, "ls", "allow", "default");
    is(open, "$x", "ask", "unknown");
    is(open, "./ls", "ask", "unknown");
    is(open, "python3 -c x", "ask", "unknown");
    is(open, "ls 'x", "ask", "unknown");
    is(open, "ls > $x", "ask", "unknown");
    is("version: 1\ndefault: allow\nunknown: deny\nrules: []\n", "$x", "deny", "unknown");
    is("version: 1\ndefault: deny\nunknown: ask\nrules: []\n", "$x", "deny", "unknown");
    static const char tool[] = HEAD "- {id: t, verdict: allow, tool: shell}\n";
    is(tool, "ls", "allow", "t");
    is(tool, "$x", "ask", "unknown");
    static const char any[] =
        HEAD "- {id: t, verdict: allow, command: '*'}\n"
             "- {id: no, verdict: deny, risk: critical, command: 'rm -rf /'}\n";
    is(any, "python3 -c x | sh", "allow", "t");
    is(any, "$x", "ask", "no");
    ok(d.risk == RISK_CRITICAL, "what may be critical is asked about as critical");
    is(any, "rm -rf $x", "ask", "no");
    is(any, "rm -rf build", "allow", "t");
    is(any, "/tmp/x -rf /", "ask", "no");
    is(any, "./build.sh", "allow", "t");
    static const char named[] =
        HEAD "- {id: t, verdict: allow, command: ['./x *', 'python3 -c *']}\n"
             "- {id: no, verdict: deny, command: 'rm -rf /'}\n";
    is(named, "./x -rf /", "allow", "t");
    is(named, "python3 -c x", "allow", "t");
    is(named, "python3 x", "ask", "default");
}

static void test_patterns(void)
{
    static const char p[] = HEAD "- {id: a, verdict: allow, command: ['git log *', 'git status', "
                                 "'x \"a b\" c', 'y *.c', 'npm run test:*', 'z * end']}\n";
    is(p, "git log", "allow", "a");
    is(p, "git log -p --stat", "allow", "a");
    is(p, "git status", "allow", "a");
    is(p, "git status -s", "ask", "default");
    is(p, "git -C x log", "ask", "default");
    is(p, "git --no-pager log", "ask", "default");
    is(p, "x 'a b' c", "allow", "a");
    is(p, "x a b c", "ask", "default");
    is(p, "y m.c", "allow", "a");
    is(p, "y $x.c", "ask", "default");
    is(p, "npm run test", "allow", "a");
    is(p, "npm run test --watch", "allow", "a");
    is(p, "npm run testing", "ask", "default");
    is(p, "z 1 2 end", "allow", "a");
    is(p, "z end x", "ask", "default");
    is(p, "$'git' status", "ask", "default");
    static const char n[] =
        HEAD "- {id: n, verdict: deny, command: ['git push --force *', 'kill -9 1', "
             "'chmod 777 *', 'npm publish', 'find -delete']}\n";
    is(n, "git push --force", "deny", "n");
    is(n, "git push origin -f", "deny", "n");
    is(n, "git -C /x push --forc origin", "deny", "n");
    is(n, "git push", "ask", "default");
    is(n, "git commit -m push --force", "ask", "unknown");
    is(n, "npm run publish", "ask", "default");
    is(n, "npm --silent publish x", "deny", "n");
    is(n, "kill -9 1", "deny", "n");
    is(n, "kill 1", "ask", "default");
    is(n, "chmod -R 777 x", "deny", "n");
    is(n, "find . -name x -delete", "deny", "n");
    is(n, "git push $x", "ask", "n");
}

static void test_paths(void)
{
    static const char p[] = HEAD "- {id: no, verdict: deny, path: ['**/.env', '~/.ssh/**']}\n"
                                 "- {id: nw, verdict: deny, write: /etc/**}\n"
                                 "- {id: ok, verdict: allow, command: 'cat *', path: ./**}\n"
                                 "- {id: out, verdict: allow, write: /workspace/out/**}\n";
    is(p, "cat a src/b.c", "allow", "ok");
    is(p, "cat src/*.c", "allow", "ok");
    is(p, "cat /etc/passwd", "ask", "default");
    is(p, "tool /etc/passwd", "ask", "nw");
    is(p, "sed -i s/a/b/ /etc/passwd", "ask", "nw");
    is(p, "cat a/../../x", "ask", "default");
    is(p, "cat a/../.env", "deny", "no");
    is(p, "cat ~/.ssh/id", "deny", "no");
    is(p, "cat --file=.env", "deny", "no");
    is(p, "cat a > out/b", "allow", "ok");
    is(p, "cat a > b", "ask", "default");
    is(p, "cat a > /etc/b", "deny", "nw");
    is(p, "cat < .env", "deny", "no");
    is(p, "cd src && cat a", "ask", "default");
    is(p, "echo .env", "ask", "default");
    struct rules_path read = {"/workspace/x/.env", false}, write = {"/etc/x", true};
    ok(strcmp(decide(p, (struct rules_call){.tool = "file.read", .paths = &read, .n_paths = 1}),
              "deny") == 0,
       "a file that is read is matched");
    ok(strcmp(decide(p, (struct rules_call){.tool = "file.write", .paths = &write, .n_paths = 1}),
              "deny") == 0,
       "and one that is written");
    write.write = false;
    ok(strcmp(decide(p, (struct rules_call){.tool = "file.read", .paths = &write, .n_paths = 1}),
              "ask") == 0,
       "a condition on writing does not hold for reading");
}

static const char *decide_who(const char *policy, const char *tool, unsigned capabilities)
{
    return decide(policy, (struct rules_call){.tool = tool, .capabilities = capabilities});
}

static void test_call(void)
{
    ok(strcmp(decide_who(HEAD "- {id: a, verdict: deny, key: an*}\n", "x", 0), "deny") == 0 &&
           strcmp(decide_who(HEAD "- {id: a, verdict: deny, key: key-1}\n", "x", 0), "deny") == 0 &&
           strcmp(decide_who(HEAD "- {id: a, verdict: deny, key: bob}\n", "x", 0), "ask") == 0,
       "keys by name and by id");
    ok(strcmp(decide_who(HEAD "- {id: a, verdict: deny, role: [admin, agent]}\n", "x", 0),
              "deny") == 0 &&
           strcmp(decide_who(HEAD "- {id: a, verdict: deny, role: admin}\n", "x", 0), "ask") == 0,
       "roles, one of them");
    ok(strcmp(decide_who(HEAD "- {id: a, verdict: deny, tool: 'file.*'}\n", "file.read", 0),
              "deny") == 0 &&
           strcmp(decide_who(HEAD "- {id: a, verdict: deny, tool: 'file.*'}\n", "shell", 0),
                  "ask") == 0,
       "tools");
    ok(strcmp(decide_who(HEAD "- {id: a, verdict: deny, capability: network}\n", "x",
                         CAPABILITY_NETWORK),
              "deny") == 0 &&
           strcmp(decide_who(HEAD "- {id: a, verdict: deny, capability: network}\n", "x",
                             CAPABILITY_FILE),
                  "ask") == 0,
       "capabilities");
    struct rules_call big = {
        .tool = "x", .runtime = "process", .limits = {.box.memory_bytes = 1 << 30}};
    ok(strcmp(decide(HEAD "- {id: a, verdict: deny, limits: {memory_mb: '>1023'}}\n", big),
              "deny") == 0 &&
           strcmp(decide(HEAD "- {id: a, verdict: deny, limits: {memory_mb: '>1024'}}\n", big),
                  "ask") == 0 &&
           strcmp(decide(HEAD "- {id: a, verdict: deny, limits: {disk_mb: '>=1'}}\n", big),
                  "deny") == 0,
       "limits, where none is more than any");
    ok(strcmp(decide(HEAD "- {id: a, verdict: deny, runtime: process}\n", big), "deny") == 0,
       "runtimes");
}

static void test_environment(void)
{
    static const char p[] = HEAD "- {id: a, verdict: allow, command: 'ls *'}\n";
    char *argv[] = {(char *)"ls", NULL}, *path[] = {(char *)"A=b", (char *)"PATH=/x", NULL};
    char *plain[] = {(char *)"A=b", (char *)"NODE_ENV=test", NULL};
    ok(strcmp(decide(p, (struct rules_call){.argv = argv, .env = plain}), "allow") == 0,
       "a variable of the call that changes nothing");
    ok(strcmp(decide(p, (struct rules_call){.argv = argv, .env = path}), "ask") == 0 &&
           strcmp(decide(p, (struct rules_call){.argv = argv, .sandbox_env = path}), "ask") == 0 &&
           strcmp(d.rule, "unknown") == 0,
       "PATH of the call or of its sandbox makes its commands unknown");
    ok(strcmp(decide(HEAD "- {id: a, verdict: allow, command: '*'}\n",
                     (struct rules_call){.argv = argv, .env = path}),
              "allow") == 0,
       "but for a rule that allows every command");
}

static void test_hosts(void)
{
    static const char p[] =
        HEAD "- {id: no, verdict: deny, host: ['*.evil.com', '10.0.0.0/8']}\n"
             "- {id: yes, verdict: allow, host: example.com}\n"
             "- {id: c, verdict: allow, command: 'curl *', host: example.com}\n";
    ok(strcmp(decide(p, (struct rules_call){.tool = "fetch", .host = "a.evil.com", .port = 443}),
              "deny") == 0 &&
           strcmp(decide(p, (struct rules_call){.tool = "fetch", .host = "10.1.2.3", .port = 80}),
                  "deny") == 0 &&
           strcmp(decide(p, (struct rules_call){.tool = "fetch", .host = "example.com", .port = 1}),
                  "allow") == 0 &&
           strcmp(decide(p, (struct rules_call){.tool = "fetch", .host = "other.com", .port = 1}),
                  "ask") == 0,
       "hosts of URL tools");
    is(p, "curl -s https://example.com/x", "allow", "c");
    is(p, "curl https://example.com@a.evil.com/", "deny", "no");
    is(p, "curl https://example.com https://other.com", "ask", "default");
    is(p, "wget a.evil.com", "deny", "no");
    is(p, "curl $u", "ask", "no");
}

static void test_findings(void)
{
    struct finding f = {.check = "validate", .id = "prompt_injection", .severity = RISK_HIGH};
    struct rules_call call = {.tool = "x", .findings = &f, .n_findings = 1};
    ok(strcmp(decide(HEAD "- {id: a, verdict: deny, finding: 'prompt_*'}\n", call), "deny") == 0 &&
           strcmp(decide(HEAD "- {id: a, verdict: deny, severity: high}\n", call), "deny") == 0 &&
           strcmp(decide(HEAD "- {id: a, verdict: deny, severity: critical}\n", call), "ask") ==
               0 &&
           strcmp(decide(HEAD "- {id: a, verdict: deny, finding: other}\n", call), "ask") == 0,
       "findings by name and severity");
    call.n_findings = 0;
    ok(strcmp(decide(HEAD "- {id: a, verdict: deny, severity: low}\n", call), "ask") == 0,
       "no finding, no match");
}

#define HEX   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1111111111111111111111111111111111111111111111111111111111111111"

/* The rule that decides about a command in an image of these names. */
static const char *in_image(const char *policy, const char *digest, const char *name,
                            const char *second)
{
    char *names[] = {(char *)name, (char *)second, NULL}, *argv[] = {(char *)"ls", NULL};
    decide(policy, (struct rules_call){.argv = argv, .image_names = names, .image_digest = digest});
    return d.rule;
}

static void test_images(void)
{
    static const char only[] =
        HEAD "- {id: no, verdict: deny, image_except: ['registry.internal/*', default, 'sha256:" HEX
             "']}\n- {id: yes, verdict: allow, command: 'ls *'}\n";
    static const struct {
        const char *name, *digest, *rule;
    } cases[] = {
        {"registry.internal/team/x:1", OTHER, "yes"},
        {"registry.internal/x@sha256:" OTHER, OTHER, "yes"},
        {"registry.internal.evil.example/x:1", OTHER, "no"},
        {"evil.example/registry.internal/x:1", OTHER, "no"},
        {"registry.internal:5000/x:1", OTHER, "no"},
        {"default", OTHER, "yes"},
        {"docker.io/library/default:latest", OTHER, "no"},
        {"evil.example/x:1", HEX, "yes"},
        {"evil.example/x@sha256:" HEX, OTHER, "yes"}, /* of an index */
        {"sha256:" OTHER, OTHER, "no"},
        {"dir:/srv/x", OTHER, "no"},
        {"none", NULL, "yes"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        ok(strcmp(in_image(only, cases[i].digest, cases[i].name, NULL), cases[i].rule) == 0,
           "every image but some: %s", cases[i].name);

    static const char pinned[] = HEAD "- {id: no, verdict: deny, image_except: ['*@sha256:*', "
                                      "'sha256:*']}\n";
    ok(strcmp(in_image(pinned, HEX, "r.example/x:1", NULL), "no") == 0 &&
           strcmp(in_image(pinned, HEX, "r.example/x:1@sha256:" HEX, NULL), "default") == 0 &&
           strcmp(in_image(pinned, HEX, "sha256:" HEX, "r.example/x:1"), "default") == 0,
       "only what is named by its digest");

    static const char some[] =
        HEAD "- {id: tool, verdict: deny, image: 'r.example/tool'}\n"
             "- {id: host, verdict: deny, image: none}\n"
             "- {id: that, verdict: deny, image: 'sha256:" HEX "'}\n"
             "- {id: ours, verdict: allow, image: ['r.example/ours', 'local']}\n";
    ok(strcmp(in_image(some, OTHER, "r.example/tool:9", NULL), "tool") == 0 &&
           strcmp(in_image(some, OTHER, "r.example/tool:9@sha256:" OTHER, NULL), "tool") == 0 &&
           strcmp(in_image(some, OTHER, "r.example/tools:9", NULL), "default") == 0 &&
           strcmp(in_image(some, OTHER, "r.example/tool/x:9", NULL), "default") == 0,
       "a pattern without a tag is every tag");
    ok(strcmp(in_image(some, OTHER, "sha256:" OTHER, "r.example/tool:1"), "tool") == 0 &&
           strcmp(in_image(some, HEX, "local", NULL), "that") == 0,
       "what is denied is denied by every name");
    ok(strcmp(in_image(some, OTHER, "local:2", NULL), "ours") == 0 &&
           strcmp(in_image(some, OTHER, "sha256:" OTHER, "local:2"), "default") == 0,
       "what is allowed is allowed as it was asked for");
    ok(strcmp(in_image(some, NULL, "none", NULL), "host") == 0, "the host's programs");
    ok(strcmp(decide(some, (struct rules_call){.tool = "x"}), "ask") == 0 &&
           strcmp(d.rule, "default") == 0,
       "what has no root matches no rule about images");

    char *names[] = {(char *)"evil.example/x:1", NULL};
    const char *why;
    struct ruleset *rs =
        parse(HEAD "- {id: a, verdict: deny, image: 'evil.example/*', command: x}\n"
                   "- {id: b, verdict: ask, image: '*'}\n"
                   "- {id: c, verdict: deny, image_except: 'sha256:" HEX "'}\n");
    struct rules_call call = {.who = &who, .tool = "image", .image_names = names};
    ok(!ruleset_denies_image(rs, &call, &why), "a name alone does not decide about its digest");
    call.image_digest = OTHER;
    const char *rule = ruleset_denies_image(rs, &call, &why);
    ok(rule && strcmp(rule, "c") == 0 && !why, "the digest does");
    ruleset_unref(rs);
    ok(!ruleset_denies_image(NULL, &call, &why), "no policy denies no image");
}

/* A condition of a rule with a value that holds where no call is known, if any does. */
static const struct {
    const char *key, *value;
    bool early; /* an image is denied by it before there is a call */
} conditions[] = {
    {"key", "'*'", true},
    {"role", "agent", true},
    {"tool", "image", true},
    {"capability", "[network, file, unsafe]"},
    {"command", "'*'"},
    {"path", "'**'"},
    {"read", "'**'"},
    {"write", "'**'"},
    {"host", "a.example"},
    {"runtime", "'*'"},
    {"image", "'*'", true},
    {"image_except", "other", true},
    {"limits", "{cpu_cores: '>1'}"},
    {"finding", "'*'"},
    {"severity", "low"},
    {"days", "mon-sun", true},
    {"hours", "'00:00-24:00'", true},
};

static bool denies_early(const char *key, const char *value)
{
    char *names[] = {(char *)"evil.example/x:1", NULL};
    const char *why, *image = strncmp(key, "image", 5) ? "image: '*', " : "";
    struct rules_call call = {.who = &who, .tool = "image", .image_names = names};
    _cleanup_free_ char *text =
        xasprintf(HEAD "- {id: a, verdict: deny, %s%s: %s}\n", image, key, value);
    struct ruleset *rs = parse(text);
    bool denies = ruleset_denies_image(rs, &call, &why);
    ruleset_unref(rs);
    return denies;
}

static void test_early(void)
{
    for (size_t i = 0; rules_rule_key(i); i++) {
        const char *key = rules_rule_key(i)->name;
        size_t k = 0;
        while (k < ELEMENTS(conditions) && strcmp(conditions[k].key, key) != 0)
            k++;
        if (k == ELEMENTS(conditions))
            ok(strstr("id verdict risk reason require", key),
               "%s is no condition, or has a row in conditions[]", key);
        else
            ok(denies_early(key, conditions[k].value) == conditions[k].early,
               "%s denies an image before there is a call: %s", key,
               conditions[k].early ? "yes" : "no");
    }
}

static void test_time(void)
{
    static const char p[] = "version: 1\ndefault: ask\ntimezone: '+02:00'\nrules:\n"
                            "- {id: a, verdict: deny, days: mon-fri, hours: '09:00-17:00'}\n"
                            "- {id: n, verdict: deny, hours: '23:00-01:00'}\n";
    const int64_t monday = 1767571200; /* 2026-01-05T00:00Z */
    const struct {
        int64_t at;
        const char *verdict;
    } cases[] = {{monday + 7 * 3600, "deny"},      {monday + 7 * 3600 - 1, "ask"},
                 {monday + 15 * 3600, "ask"},      {monday + 15 * 3600 - 1, "deny"},
                 {monday - 12 * 3600, "ask"},      {monday + 21 * 3600, "deny"},
                 {monday + 22 * 3600 + 5, "deny"}, {monday + 23 * 3600, "ask"}};
    bool good = true;
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        good &= strcmp(decide(p, (struct rules_call){.tool = "x", .now_s = cases[i].at}),
                       cases[i].verdict) == 0;
    ok(good, "days and hours, in the policy's zone, over midnight too");
}

static void test_obligations(void)
{
    static const char p[] =
        HEAD "- {id: a, require: {runtime: local, limits: {memory_mb: 512, timeout_s: 60}}}\n"
             "- {id: b, verdict: allow, command: 'ls *', require: {redact: args}}\n"
             "- {id: c, tool: shell, require: {runtime: gvisor, limits: {memory_mb: 1024}, "
             "no_network: true}}\n"
             "- {id: d, command: 'rm *', require: {limits: {disk_mb: 1}}}\n";
    is(p, "ls", "allow", "b");
    const struct rules_obligations *o = &d.obligations;
    ok(strcmp(o->min_runtime, "gvisor") == 0 && o->caps.box.memory_bytes == 512 << 20 &&
           o->caps.timeout_ns == 60000000000 && o->strip_network && o->redact_args &&
           !o->caps.box.disk_bytes,
       "the strictest of each, from every rule that matched");
    _cleanup_json_ json_t *json = rules_obligations_to_json(o);
    ok(json_object_size(json) == 4 &&
           json_integer_value(json_object_get(json_object_get(json, "limits"), "memory_mb")) == 512,
       "and as JSON what is set");
}

/* Each is at least as strong as those before it on its line, and stronger than all lines above. */
static const char *const ranks[][8] = {
    {"process"},
    {"landlock"},
    {"local", "oci", "crun", "runc", "podman", "docker"},
    {"gvisor", "runsc", "podman-gvisor", "docker-gvisor"},
    {"kata", "podman-kata", "docker-kata"},
};

static void test_runtime_ranks(void)
{
    int below = -1;
    for (size_t i = 0; i < ELEMENTS(ranks); i++) {
        int rank = rules_runtime_rank(ranks[i][0]);
        ok(rank > below, "%s is stronger than what is above it", ranks[i][0]);
        for (size_t k = 1; ranks[i][k]; k++)
            ok(rules_runtime_rank(ranks[i][k]) == rank, "%s is as strong", ranks[i][k]);
        below = rank;
    }
    for (size_t i = 0; runtimes[i]; i++)
        ok(rules_runtime_rank(runtimes[i]->name) >= 0, "%s can be required", runtimes[i]->name);
    ok(rules_runtime_rank("moon") < 0 && rules_runtime_rank("wasm") < 0,
       "what this build does not have cannot");
}

static void test_revision(void)
{
    struct ruleset *rs = parse("version: 1\ndefault: ask\nrules: []\n");
    ok(strcmp(ruleset_revision(rs),
              "8245dd3a77678ff4aeec1d2fbefd6d118e4ccb86669e989e0aa38a0c66d57b59") == 0 &&
           ruleset_count(rs) == 0,
       "a revision is the SHA-256 of the bytes");
    struct ruleset *other = parse("version: 1\ndefault: ask\nrules: [] \n");
    ok(strcmp(ruleset_revision(rs), ruleset_revision(other)) != 0, "one byte makes another");
    ok(ruleset_ref(rs) == rs, "a reference");
    ruleset_unref(rs);
    ruleset_unref(rs);
    ruleset_unref(other);
    ruleset_decide(NULL, &(struct rules_call){.tool = "x"}, &d);
    ok(d.verdict == VERDICT_ALLOW && strcmp(d.rule, "no policy") == 0 &&
           strcmp(ruleset_revision(NULL), "") == 0,
       "without a policy everything is allowed, and says why");
}

static void test_explain(void)
{
    struct ruleset *rs = parse(HEAD "- {id: no, verdict: deny, reason: bad, command: 'rm -rf /'}\n"
                                    "- {id: yes, verdict: allow, command: 'ls *'}\n");
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"ls; rm -fr /; ./\xff\xfe \xc3", NULL};
    struct rules_call call = {.tool = "shell", .argv = argv, .cwd = "/workspace"};
    _cleanup_json_ json_t *json = ruleset_explain(rs, &call);
    json_t *parts = json_object_get(json, "parts");
    ok(json && json_array_size(parts) == 4 &&
           strcmp(json_string_value(json_object_get(json, "rule")), "no") == 0 &&
           strstr(json_string_value(json_object_get(json, "reason")), "bad"),
       "all parts with their rules, whatever bytes they have");
    ok(strcmp(json_string_value(json_object_get(json_array_get(parts, 1), "rule")), "yes") == 0 &&
           strcmp(json_string_value(json_object_get(json_array_get(parts, 2), "would")),
                  "default") == 0,
       "and what would have decided");
    ruleset_unref(rs);
}

static enum match path(const char *pattern, const char *text)
{
    size_t budget = 1000000;
    return glob_match_path(pattern, text, &budget);
}

static void test_globs(void)
{
    const char any[] = {'/', 'a', '/', SHELL_ANY, 0}, star[] = {'/', 'a', '/', SHELL_GLOB, 'c', 0};
    ok(path("/a/*", "/a/b") == MATCH_YES && path("/a/*", "/a/b/c") == MATCH_NO &&
           path("/a/**", "/a/b/c") == MATCH_YES && path("/a/**", "/a") == MATCH_YES &&
           path("/a/**", "/ab") == MATCH_NO && path("**/x", "/x") == MATCH_YES &&
           path("**/x", "/a/b/x") == MATCH_YES && path("**/x", "/a/bx") == MATCH_NO &&
           path("/a?", "/ab") == MATCH_YES && path("/a?b", "/a/b") == MATCH_NO &&
           path("/a\\*", "/a*") == MATCH_YES && path("/a\\*", "/ab") == MATCH_NO,
       "paths");
    ok(path("/a/b", any) == MATCH_MAYBE && path("/b/c", any) == MATCH_NO &&
           path("/a/**", any) == MATCH_MAYBE && path("**", any) == MATCH_YES &&
           path("/a/**", star) == MATCH_YES && path("/a/.c", star) == MATCH_NO &&
           path("/a/xd", star) == MATCH_NO && path("/a/xc", star) == MATCH_MAYBE,
       "paths with holes");
    size_t budget = 10;
    ok(glob_match_path("/*aaaa", "/aaaaaaaaaaaaaaaaaaaaaaaa", &budget) == MATCH_MAYBE && !budget,
       "a match that takes too long is undecided");
    budget = 10;
    ok(glob_match_path("/aaab*", "/aaaaaaaaaaaaaaaaaaaaaaa", &budget) == MATCH_NO && budget == 10,
       "one that differs in bytes that mean themselves takes nothing");
}

/* Letters with a backslash mean the same and are compared the long way. */
static void test_glob_starts(void)
{
    static const char in_pattern[] = "/aab.*?",
                      in_text[] = {'/', 'a', 'a', 'b', '.', SHELL_ANY, SHELL_GLOB, SHELL_ONE};
    unsigned seed = 12, differ = 0, yes = 0, maybe = 0;
    for (int round = 0; round < 50000; round++) {
        char pattern[16] = "/", escaped[32] = "/", text[16] = "/";
        size_t n = 1, e = 1, t = 1;
        for (seed = seed * 1103515245 + 12345; n < 2 + (seed >> 16) % 9; n++) {
            seed = seed * 1103515245 + 12345;
            char c = in_pattern[(seed >> 16) % (sizeof(in_pattern) - 1)];
            if (strchr("ab.", c))
                escaped[e++] = '\\';
            pattern[n] = escaped[e++] = c;
        }
        for (seed = seed * 1103515245 + 12345; t < 2 + (seed >> 16) % 9; t++) {
            seed = seed * 1103515245 + 12345;
            text[t] = in_text[(seed >> 16) % sizeof(in_text)];
        }
        enum match m = path(pattern, text);
        differ += m != path(escaped, text);
        yes += m == MATCH_YES;
        maybe += m == MATCH_MAYBE;
    }
    ok(differ == 0 && yes > 500 && maybe > 500,
       "the short way says what the long one does (%u, %u, %u)", differ, yes, maybe);
}

/* The worst that fits the limits is still decided, and not allowed. */
static void test_cost(void)
{
    struct strbuf p = STRBUF_INIT(RULES_FILE_MAX), line = STRBUF_INIT(SHELL_TEXT_MAX);
    strbuf_puts(&p, HEAD "- {id: yes, verdict: allow, command: 'a *'}\n");
    for (int i = 0; i < RULES_MAX - 1; i++)
        strbuf_printf(&p, "- {id: r%d, verdict: deny, path: '**/*a*a*a*a*a*a*a*a*b%d'}\n", i, i);
    strbuf_puts(&line, "a");
    for (int i = 0; i < 4000; i++)
        strbuf_puts(&line, " aaaaaaaaaaaaaaaaaaaaaaaa");
    const char *verdict = decide_line(p.data, line.data);
    ok(strcmp(verdict, "ask") == 0, "what cannot be decided in bounded time is asked about");
    strbuf_done(&p);
    strbuf_done(&line);
}

int main(void)
{
    test_bad();
    test_many();
    test_order();
    test_unknown();
    test_patterns();
    test_paths();
    test_call();
    test_environment();
    test_hosts();
    test_findings();
    test_images();
    test_early();
    test_time();
    test_obligations();
    test_runtime_ranks();
    test_revision();
    test_explain();
    test_globs();
    test_glob_starts();
    test_cost();
    return tap_done();
}
