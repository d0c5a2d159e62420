/* SPDX-License-Identifier: Apache-2.0 */
/* Keys without a daemon: secrets, rates, rows, rooms and the last admin. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "identity/keys-internal.h"
#include "store/store.h"
#include "tests/unit/tap.h"

#define SECOND 1000000000LL

static void test_roles(void)
{
    struct error err = {0};
    unsigned roles = 0;
    char text[ROLES_TEXT_SIZE];
    ok(roles_parse("agent,admin", &roles, &err) == 0 && roles == (ROLE_AGENT | ROLE_ADMIN),
       "two roles");
    ok(strcmp(roles_format(ROLES_ALL, text), "agent, operator, approver, auditor, admin") == 0,
       "all roles: %s", text);
    ok(roles_parse("agent,root", &roles, &err) < 0 && strstr(err.message, "'root'"), "%s",
       err.message);
    ok(roles_parse("", &roles, NULL) < 0 && roles_parse("agent,,admin", &roles, NULL) < 0,
       "no role is none");
    struct identity approver = {.key = "k", .roles = ROLE_APPROVER};
    ok(!identity_has(&approver, ROLE_AGENT) && !identity_sees(&approver, "other") &&
           identity_sees(&approver, "k"),
       "each role stands for itself");
    struct identity nobody = {0};
    ok(!identity_sees(&nobody, "") && !identity_sees(&nobody, "k") && *identity_scope(&nobody) &&
           !*identity_scope(&identity_local) && strcmp(identity_scope(&approver), "k") == 0,
       "who has neither key nor role sees nothing");
    ok(!identity_has(&identity_token, ROLE_APPROVER) && !identity_local.authenticated,
       "the token does not approve, nobody is not authenticated");
}

static void test_rate(void)
{
    struct key_rate r = {0};
    int64_t now = 5 * SECOND;
    bool all = true;
    for (int i = 0; i < 60; i++)
        all = all && key_rate_take(&r, 60, now) == 0;
    ok(all, "a minute's requests at once");
    ok(key_rate_take(&r, 60, now) == 1, "then one a second");
    ok(key_rate_take(&r, 60, now + SECOND) == 0 && key_rate_take(&r, 60, now + SECOND) == 1,
       "and no more");
    ok(key_rate_take(&r, 2, now + SECOND) <= 30, "never longer than it takes");
    ok(key_rate_take(&r, 0, now) == 0, "0 is no limit");
    now += 3600 * SECOND;
    all = true;
    for (int i = 0; i < 60; i++)
        all = all && key_rate_take(&r, 60, now) == 0;
    ok(all && key_rate_take(&r, 60, now) == 1, "an hour saves up a minute's");
}

static void test_secret(void)
{
    char a[KEY_SECRET_SIZE], b[KEY_SECRET_SIZE], digest[KEY_DIGEST_SIZE];
    key_secret_make(a);
    key_secret_make(b);
    ok(strlen(a) == KEY_SECRET_SIZE - 1 && strcmp(a, b) != 0, "secrets differ");
    key_secret_hash("abc", digest);
    ok(strcmp(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0,
       "the hash is SHA-256");
}

static void test_rows(void)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"name\":\"x\",\"digest\":\"short\"}",
        ("{\"name\":\"x\",\"digest\":"
         "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"roles\":[\"king\"]"
         "}"),
        ("{\"name\":\"x\",\"digest\":"
         "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"roles\":[]}")};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct key_entry e = {0};
        struct error err = {0};
        ok(key_entry_from_row(&e, "key-x", bad[i], strlen(bad[i]), &err) < 0, "refused: %s",
           err.message);
    }
}

static int ended;
static char ended_id[IDENTITY_KEY_SIZE];

static void on_ended(void *data, const char *id)
{
    (void)data;
    ended++;
    snprintf(ended_id, sizeof(ended_id), "%s", id);
}

static struct keys *open_in(struct store *store, uv_loop_t *loop)
{
    struct error err = {0};
    struct keys_options o = {.loop = loop, .store = store, .config = {{1, 2, 3}, 3}};
    struct keys *k = keys_open(&o, &err);
    ok(k != NULL, "keys open: %s", err.message);
    keys_on_ended(k, on_ended, NULL);
    return k;
}

static void test_table(struct store *store, uv_loop_t *loop)
{
    struct error err = {0};
    struct identity who;
    char a[KEY_SECRET_SIZE], b[KEY_SECRET_SIZE], c[KEY_SECRET_SIZE];
    struct keys *k = open_in(store, loop);
    ok(!keys_any(k) && keys_identify(k, "mas_x", &who) == -ENOENT, "there is none");
    struct key_request admin = {.name = "a", .roles = ROLE_ADMIN, .quotas = {7, -1, 0}};
    struct key_request agent = {.name = "b", .roles = ROLE_AGENT, .quotas = KEY_QUOTAS_INIT};
    const struct key *ka = keys_add(k, &admin, a, NULL, NULL, &err);
    const struct key *kb = keys_add(k, &agent, b, NULL, NULL, &err);
    ok(ka && kb && keys_any(k), "two keys: %s", err.message);
    ok(keys_identify(k, a, &who) == 0 && strcmp(who.key, ka->id) == 0 && who.authenticated,
       "found");
    struct key_quotas q = keys_quotas(k, ka->id);
    ok(q.max_sandboxes == 7 && q.max_execs == 2 && q.requests_per_minute == 0,
       "quotas, own or not");
    q = keys_quotas(k, "token");
    ok(!q.max_sandboxes && !q.max_execs && !q.requests_per_minute, "no key, no quota");
    ok(keys_revoke(k, ka->id, true, NULL, NULL, &err) < 0, "%s", err.message);
    error_clear(&err);
    ok(keys_rotate(k, kb->id, c, NULL, NULL, &err) == 0 && ended == 1, "rotated, and told");
    ok(keys_identify(k, b, &who) < 0 && keys_identify(k, c, &who) == 0, "only the new secret");
    ok(keys_revoke(k, kb->id, true, NULL, NULL, &err) == 0 && ended == 2 &&
           strcmp(ended_id, kb->id) == 0 && keys_identify(k, c, &who) < 0,
       "revoked at once");
    admin.name = "third";
    ok(keys_add(k, &admin, b, NULL, NULL, &err) != NULL, "as many as fit");
    admin.name = "fourth";
    ok(keys_add(k, &admin, b, NULL, NULL, &err) != NULL, "the ended one makes room");
    admin.name = "fifth";
    ok(!keys_add(k, &admin, b, NULL, NULL, &err) && err.code == ERROR_LIMIT, "%s", err.message);
    keys_stop(k);
    uv_run(loop, UV_RUN_DEFAULT);
    keys_free(k);
    k = open_in(store, loop);
    ok(keys_identify(k, a, &who) == 0 && who.roles == ROLE_ADMIN, "it is there after a restart");
    keys_stop(k);
    uv_run(loop, UV_RUN_DEFAULT);
    keys_free(k);
}

int main(void)
{
    char dir[] = "/tmp/test-keys-XXXXXX";
    struct error err = {0};
    uv_loop_t loop;
    test_roles();
    test_rate();
    test_secret();
    test_rows();
    uv_loop_init(&loop);
    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    struct store *store = store_open(dir, &loop, &err);
    if (ok(store != NULL, "the store opens: %s", err.message))
        test_table(store, &loop);
    store_close(store);
    uv_loop_close(&loop);
    _cleanup_free_ char *db = xasprintf("%s/state.db", dir);
    unlink(db);
    rmdir(dir);
    return tap_done();
}
