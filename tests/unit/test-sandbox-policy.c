/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's own policy comes back from its row as it was, from rows of the versions before, too,
 * and what cannot be read allows nothing. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "sandbox/sandbox-policy.h"
#include "tests/unit/tap.h"

#define TEXT_MAX 65536

static json_t *parse(const char *text)
{
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

/* As words, which tell "not set" from "nothing". */
static char *words_of(const struct sandbox_policy *p)
{
    struct strbuf b = STRBUF_INIT(TEXT_MAX);
    if (!p)
        return xstrdup("none");
    _cleanup_json_ json_t *o = json_pack("{s:o, s:I}", "policy", policy_format(&p->policy),
                                         "timeout", (json_int_t)p->timeout_ms);
    json_format(o, &b);
    return strbuf_steal(&b);
}

static char *read_back(json_t *row, const char *alias)
{
    struct error err = {0};
    struct sandbox_policy *p = NULL;
    if (sandbox_policy_get(row, alias, "sbx-x", &p, &err) < 0)
        return xstrdup("refused");
    char *words = words_of(p);
    sandbox_policy_free(p);
    return words;
}

static const char *const policies[] = {
    "{}",
    "null",
    "{\"AllowedTools\":[],\"AllowedCaps\":[],\"AllowedPaths\":[],\"EnvWhitelist\":[]}",
    "{\"allowed_tools\":[\"calculator\",\"shell\"],\"ALLOWEDCAPS\":[\"file\"]}",
    "{\"Workdir\":\"/workspace/\xc3\xa4\",\"AllowedPaths\":[\"/tmp\",\"/workspace\"]}",
    "{\"EnvWhitelist\":[\"PATH\"],\"Timeout\":\"1h30m\",\"MemoryLimit\":9223372036854775807}",
    "{\"Timeout\":1,\"MaxConcurrent\":3,\"Network\":{}}",
    "{\"Network\":{\"Enabled\":true,\"AllowedHosts\":[]}}",
    "{\"Network\":{\"Enabled\":false,\"AllowedHosts\":[\"a.example\",\"*.b.example:443\"]}}",
};

static void test_policy(const char *text)
{
    struct error err = {0};
    _cleanup_json_ json_t *given = parse(text), *row = json_object(), *old = json_object();
    struct sandbox_policy *p = sandbox_policy_new();
    ok(policy_parse(given, &p->policy, &err) >= 0, "a policy: %s", text);
    p->timeout_ms = 1234;
    _cleanup_free_ char *want = words_of(p);
    sandbox_policy_put(p, row);
    _cleanup_free_ char *got = read_back(row, NULL);
    ok(strcmp(got, want) == 0, "comes back from a row: %s", got);
    /* as the version before wrote it, with the caller's own words */
    _cleanup_strbuf_ struct strbuf note = STRBUF_INIT(TEXT_MAX);
    _cleanup_json_ json_t *inner = json_pack("{s:O, s:i}", "policy", given, "timeout_ms", 1234);
    json_format(inner, &note);
    json_object_set_new(old, "note", json_string(note.data));
    json_object_set_new(old, "noted", json_true());
    _cleanup_free_ char *of_note = read_back(old, NULL);
    ok(strcmp(of_note, want) == 0, "and from a row of the version before: %s", of_note);
    sandbox_policy_free(p);
}

#define CLOSED "AllowedTools\":[\"(none)\"]"

static const struct {
    const char *row, *alias, *want;
} rows[] = {
    {"{\"noted\":false}", NULL, "none"},
    {"{\"noted\":false}", "mine", "none"},
    {"{\"note\":null,\"noted\":false}", NULL, "none"},
    {"{\"noted\":true}", NULL, CLOSED},
    {"{\"noted\":true}", SANDBOX_SKILL_ALIAS, CLOSED},
    {"{\"noted\":true,\"policy\":null}", NULL, CLOSED},
    {"{\"noted\":true,\"policy\":{\"policy\":{\"AllowedTools\":3}}}", NULL, CLOSED},
    {"{\"noted\":true,\"policy\":{\"policy\":{\"Later\":3}}}", NULL, CLOSED},
    {"{\"noted\":true,\"policy\":{\"policy\":{},\"timeout_ms\":\"1\"}}", NULL, CLOSED},
    {"{\"noted\":true,\"note\":\"\"}", NULL, CLOSED},
    {"{\"noted\":true,\"note\":\"{\\\"policy\\\":\"}", NULL, CLOSED},
    {"{\"noted\":false,\"note\":\"no policy\"}", NULL, CLOSED},
    {"{\"noted\":true,\"policy\":\"none\"}", NULL, "refused"},
    {"{\"noted\":true,\"note\":{}}", NULL, "refused"},
    {"{\"noted\":1}", NULL, "refused"},
    /* before "noted" */
    {"{}", NULL, "none"},
    {"{}", "mine", CLOSED},
    {"{}", SANDBOX_SKILL_ALIAS, "none"},
};

static void test_row(size_t i)
{
    _cleanup_json_ json_t *row = parse(rows[i].row);
    _cleanup_free_ char *got = read_back(row, rows[i].alias);
    ok(strstr(got, rows[i].want) != NULL, "%s, alias %s: %s", rows[i].row,
       rows[i].alias ? rows[i].alias : "-", got);
}

/* The version before lets nothing run in a sandbox with "noted" and without "note". */
static void test_downgrade(void)
{
    _cleanup_json_ json_t *with = json_object(), *without = json_object();
    struct sandbox_policy *p = sandbox_policy_new();
    sandbox_policy_put(p, with);
    sandbox_policy_put(NULL, without);
    sandbox_policy_free(p);
    ok(json_is_true(json_object_get(with, "noted")) && !json_object_get(with, "note"),
       "the version before fails closed on a row with a policy");
    ok(json_is_false(json_object_get(without, "noted")) && !json_object_get(without, "policy"),
       "and opens one without");
}

int main(void)
{
    for (size_t i = 0; i < ELEMENTS(policies); i++)
        test_policy(policies[i]);
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        test_row(i);
    test_downgrade();
    return tap_done();
}
