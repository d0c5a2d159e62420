/* SPDX-License-Identifier: Apache-2.0 */
/* A policy file, a NUL byte and a shell line: a policy that parses decides about anything, and what
 * is not known is allowed by nothing but a rule for every command. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "identity/identity.h"
#include "policy/rules-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool allows_anything(const struct ruleset *rs)
{
    for (size_t i = 0; i < rs->n_rules; i++)
        for (size_t k = 0; k < rs->rules[i].n_commands; k++)
            if (rs->rules[i].commands[k].any)
                return true;
    return false;
}

static bool has_unknown(char *const *argv)
{
    struct shell s;
    bool unknown = false;
    shell_parse_argv(argv, &s);
    for (size_t i = 0; i < s.n_commands; i++)
        unknown |= s.commands[i].opaque && s.commands[i].opaque_word == SHELL_NOT_NAMED;
    shell_done(&s);
    return unknown;
}

static void decide(const struct ruleset *rs, const char *line)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)line, NULL};
    struct identity who = {.name = "ci-main", .roles = ROLE_AGENT};
    struct rules_path path = {.path = line, .write = true};
    struct rules_call call = {.who = &who,
                              .tool = "shell",
                              .argv = argv,
                              .cwd = "/workspace",
                              .paths = &path,
                              .n_paths = *line == '/',
                              .host = "example.com",
                              .port = 443,
                              .runtime = "local"};
    struct rules_decision d;
    ruleset_decide(rs, &call, &d);
    if (d.verdict == VERDICT_ALLOW && has_unknown(argv) && !allows_anything(rs))
        abort();
    json_t *json = ruleset_explain(rs, &call);
    if (!json || strcmp(json_string_value(json_object_get(json, "rule")), d.rule) != 0)
        abort();
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    const uint8_t *end = memchr(data, 0, size);
    size_t len = end ? (size_t)(end - data) : size;
    struct ruleset *rs = ruleset_parse((const char *)data, len, "policy.yaml", &err);
    if (!rs && !strstr(err.message, "policy.yaml:"))
        abort();
    if (rs) {
        size_t failed;
        char *line = end ? xstrndup((const char *)end + 1, size - len - 1) : xstrdup("ls -la");
        decide(rs, line);
        json_decref(ruleset_test(rs, &failed));
        free(line);
    }
    ruleset_unref(rs);
    return 0;
}
