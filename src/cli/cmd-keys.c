/* SPDX-License-Identifier: Apache-2.0 */
/* sbx keys: add, ls, rm, rotate; over the daemon's API, or in the state directory of one that is
 * not running. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/keys-offline.h"
#include "cli/output.h"
#include "cli/session.h"
#include "identity/keys.h"
#include "libsbx/sbx.h"

#define NS_PER_S 1000000000LL

/* --- what add asks for */

static int64_t *find_quota(struct key_quotas *q, const char *name, size_t len)
{
    const struct {
        const char *name;
        int64_t *at;
    } known[] = {{"max_sandboxes", &q->max_sandboxes},
                 {"max_execs", &q->max_execs},
                 {"requests_per_minute", &q->requests_per_minute}};
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (strlen(known[i].name) == len && strncmp(known[i].name, name, len) == 0)
            return known[i].at;
    return NULL;
}

/* 0, or an exit code after saying why. */
static int parse_request(const struct args *a, struct key_request *ret)
{
    struct error err = {0};
    int64_t ns = 0;
    const char *expires = a->expires;
    *ret = (struct key_request){.name = a->rest[0], .roles = ROLE_AGENT, .quotas = KEY_QUOTAS_INIT};
    if (a->roles && roles_parse(a->roles, &ret->roles, &err) < 0)
        return cli_fail_usage("-roles: %s", err.message);
    if (expires && (clock_parse_duration(expires, &ns) < 0 || ns < NS_PER_S))
        return cli_fail_usage("-expires wants a duration of at least 1s, as 720h, not '%s'",
                              expires);
    ret->lifetime_s = ns / NS_PER_S;
    for (char *const *q = a->quota; q && *q; q++) {
        size_t len = strcspn(*q, "=");
        int64_t *at = find_quota(&ret->quotas, *q, len);
        const char *digits = (*q)[len] ? *q + len + 1 : "";
        size_t n = strlen(digits);
        if (!at || n == 0 || n > 9 || strspn(digits, "0123456789") != n)
            return cli_fail_usage("-quota wants max_sandboxes=N, max_execs=N or "
                                  "requests_per_minute=N, not '%s'",
                                  *q);
        *at = strtoll(digits, NULL, 10);
    }
    return 0;
}

static json_t *request_to_json(const struct key_request *r)
{
    const struct {
        const char *name;
        int64_t value;
    } known[] = {{"max_sandboxes", r->quotas.max_sandboxes},
                 {"max_execs", r->quotas.max_execs},
                 {"requests_per_minute", r->quotas.requests_per_minute}};
    json_t *quotas = json_object();
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (known[i].value != KEY_QUOTA_DEFAULT)
            json_object_set_new(quotas, known[i].name, json_integer(known[i].value));
    json_t *o = json_pack("{s:s, s:o, s:o}", "name", r->name, "roles", roles_to_json(r->roles),
                          "quotas", quotas);
    if (o && r->lifetime_s)
        json_object_set_new(o, "expires_in_s", json_integer(r->lifetime_s));
    return o;
}

/* --- asking the daemon */

static int ask_daemon(const struct args *a, enum keys_verb verb, const struct key_request *request,
                      json_t **ret, struct sbx_error *err)
{
    _cleanup_session_ struct session s = {0};
    const char *id = a->n_rest ? a->rest[0] : "";
    if (session_open(a, false, &s, err) < 0)
        return -1;
    _cleanup_free_ char *path = verb == KEYS_REVOKE   ? sbx_path_format("/v1/keys/%s", id)
                                : verb == KEYS_ROTATE ? sbx_path_format("/v1/keys/%s/rotate", id)
                                                      : xstrdup("/v1/keys");
    const char *method = verb == KEYS_LIST ? "GET" : verb == KEYS_REVOKE ? "DELETE" : "POST";
    json_t *body = verb == KEYS_ADD ? request_to_json(request) : NULL;
    if (verb == KEYS_ADD && !body)
        return cli_set_error(err, "invalid_request", "the name is not UTF-8");
    return session_call(&s, method, path, body, ret, err);
}

/* --- showing */

static char *roles_cell(const json_t *key)
{
    unsigned roles = 0;
    size_t i;
    json_t *name;
    char text[ROLES_TEXT_SIZE];
    json_array_foreach(json_object_get(key, "roles"), i, name) roles |=
        role_find(json_string_value(name), json_string_length(name));
    return xstrdup(roles_format(roles, text));
}

static void print_table(const json_t *answer)
{
    static const char *const titles[] = {"ID",      "NAME",    "ROLES",    "ACTIVE",
                                         "CREATED", "EXPIRES", "LAST USED"};
    struct table t;
    size_t i;
    json_t *key;
    table_init(&t, ELEMENTS(titles), titles);
    json_array_foreach(json_object_get(answer, "keys"), i, key)
    {
        char *cells[] = {cell(key, "id"),          cell(key, "name"),       roles_cell(key),
                         cell(key, "active"),      cell(key, "created_at"), cell(key, "expires_at"),
                         cell(key, "last_used_at")};
        table_add(&t, cells);
    }
    table_print(&t);
}

static void print_answer(enum keys_verb verb, const json_t *answer)
{
    if (verb == KEYS_LIST) {
        print_table(answer);
        return;
    }
    _cleanup_free_ char *id = cell(answer, "id"), *secret = cell(answer, "secret");
    if (verb == KEYS_REVOKE)
        printf("revoked %s\n", id);
    else
        printf("id=%s secret=%s\n", id, secret);
}

static int change_keys(const struct args *a, enum keys_verb verb)
{
    struct sbx_error err;
    struct key_request request;
    int code = verb == KEYS_ADD ? parse_request(a, &request) : 0;
    if (code)
        return code;
    _cleanup_json_ json_t *answer = NULL;
    int r = a->state_dir ? keys_offline(a->state_dir, verb, a->n_rest ? a->rest[0] : NULL, &request,
                                        &answer, &err)
                         : ask_daemon(a, verb, &request, &answer, &err);
    if (r < 0)
        return cli_fail(&err);
    if (a->json)
        print_json(answer, JSON_INDENT(2));
    else
        print_answer(verb, answer);
    return 0;
}

static int run_add(const struct args *a)
{
    return change_keys(a, KEYS_ADD);
}

static int run_ls(const struct args *a)
{
    return change_keys(a, KEYS_LIST);
}

static int run_rm(const struct args *a)
{
    return change_keys(a, KEYS_REVOKE);
}

static int run_rotate(const struct args *a)
{
    return change_keys(a, KEYS_ROTATE);
}

static const struct command keys_commands[] = {
    {.name = "keys add",
     .usage = "NAME",
     .summary = "Make a key and print its id and its secret",
     .details =
         "The secret is printed once; the daemon keeps only a hash of it. The first key must "
         "have the role admin. Make it over the daemon's unix socket, with the daemon's "
         "token, or with -state-dir while the daemon is stopped.",
     .options = OPTIONS(
         OPTIONS_CONNECTION, OPTION_STATE_DIR,
         OPTION("roles", roles, "A,B",
                "Any of agent, operator, approver, auditor and admin. The default is agent."),
         OPTION("expires", expires, "DURATION", "End the key after this time, for example 720h."),
         OPTION("quota", quota, "NAME=N",
                "Limit max_sandboxes, max_execs or requests_per_minute; 0 means no limit. May be "
                "repeated."),
         OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run = run_add},
    {.name = "keys ls",
     .summary = "List all keys, also those that ended",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_STATE_DIR, OPTION_JSON),
     .run = run_ls},
    {.name = "keys rm",
     .usage = "ID",
     .summary = "Revoke a key",
     .details = "Its secret no longer works, and its open requests and streams end at once.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_STATE_DIR, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run = run_rm},
    {.name = "keys rotate",
     .usage = "ID",
     .summary = "Give a key a new secret and print it",
     .details = "The old secret no longer works, and its open requests and streams end at once.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_STATE_DIR, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run = run_rotate},
    {0}};

const struct command command_keys = {
    .name = "keys",
    .group = GROUP_HOST,
    .summary = "Make, list and revoke the keys of the daemon's users",
    .commands = keys_commands,
};
