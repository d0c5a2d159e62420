/* SPDX-License-Identifier: Apache-2.0 */
/* Shell lines with the verdict that the example policies give them: ["coding-agent", "evasion",
 * "deny", "rm -fr /"] a line. An evasion may expect "never-allow": that it is asked about or denied
 * is what counts. Runs the cases in the policies too. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "identity/identity.h"
#include "policy/rules.h"
#include "tests/unit/tap.h"

#define LINES_MIN    150
#define EVASIONS_MIN 60

/* The last one is a policy of the tests. */
static const char *const policies[] = {"coding-agent", "read-only", "ci", "deny-evil"};
static struct ruleset *rulesets[ELEMENTS(policies)];

static void load(const char *examples, const char *own)
{
    for (size_t i = 0; i < ELEMENTS(policies); i++) {
        struct error err = {0};
        size_t failed = 1;
        const char *directory = i + 1 < ELEMENTS(policies) ? examples : own;
        _cleanup_free_ char *path = xasprintf("%s/%s.yaml", directory, policies[i]);
        rulesets[i] = ruleset_load(path, &err);
        if (!ok(rulesets[i], "%s is a policy%s%s", policies[i], *err.message ? ": " : "",
                err.message))
            exit(tap_done());
        _cleanup_json_ json_t *results = ruleset_test(rulesets[i], &failed);
        ok(failed == 0 && json_array_size(results) > 10, "%s passes its own tests", policies[i]);
    }
}

static struct ruleset *find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(policies); i++)
        if (strcmp(policies[i], name) == 0)
            return rulesets[i];
    return NULL;
}

static void decide(const struct ruleset *rs, const char *line, struct rules_decision *ret)
{
    struct identity who = {.name = "ci-main", .roles = ROLE_AGENT};
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)line, NULL};
    struct rules_call call = {.who = &who,
                              .tool = "shell",
                              .argv = argv,
                              .cwd = "/workspace",
                              .runtime = "local",
                              .limits = {.box.memory_bytes = 512 << 20},
                              .now_s = 1767607200};
    ruleset_decide(rs, &call, ret);
}

static void check_line(const char *policy, const char *expected, const char *line)
{
    struct rules_decision d;
    decide(find(policy), line, &d);
    bool never = strcmp(expected, "never-allow") == 0;
    bool good = never ? d.verdict != VERDICT_ALLOW : strcmp(expected, verdict_name(d.verdict)) == 0;
    _cleanup_json_ json_t *text = json_string(line);
    _cleanup_free_ char *shown = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    for (char *p = shown; *p; p++) /* TAP has a meaning for it */
        *p = *p == '#' ? '_' : *p;
    if (!ok(good, "%s: %s is %s", policy, shown, expected))
        printf("# %s by %s: %s\n", verdict_name(d.verdict), d.rule, d.reason);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t size = 0, lines = 0, evasions = 0;
    _cleanup_free_ char *corpus = argc > 2 ? xasprintf("%s/lines.jsonl", argv[2]) : NULL;
    FILE *f = corpus ? fopen(corpus, "re") : NULL;
    if (!f)
        return EXIT_FAILURE;
    load(argv[1], argv[2]);
    while (getline(&line, &size, f) > 0) {
        const char *policy, *kind, *expected, *text;
        _cleanup_json_ json_t *entry = json_loads(line, 0, NULL);
        if (!ok(entry && json_unpack(entry, "[ssss]", &policy, &kind, &expected, &text) == 0 &&
                    find(policy),
                "line %zu of the corpus can be read", lines + 1))
            continue;
        lines++;
        evasions += strcmp(kind, "evasion") == 0;
        check_line(policy, expected, text);
    }
    ok(lines >= LINES_MIN && evasions >= EVASIONS_MIN, "%zu lines, %zu of them evasions", lines,
       evasions);
    free(line);
    fclose(f);
    for (size_t i = 0; i < ELEMENTS(policies); i++)
        ruleset_unref(rulesets[i]);
    return tap_done();
}
