/* SPDX-License-Identifier: Apache-2.0 */
/* Keys over the API: list, add, revoke, rotate, and who am I. A secret is in exactly one answer,
 * the one that made it; these routes take no Idempotency-Key, because remembered answers are kept.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "api/durable-reply.h"
#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "audit/audit.h"
#include "identity/keys.h"

#define ROLES_MAX    16
#define LIFETIME_MAX INT32_MAX

static struct durable_reply *reply_new(struct api_request *req, int status)
{
    struct durable_reply *p = durable_reply_new(req, status);
    p->secret = true;
    return p;
}

static json_t *view_with_secret(const struct key *key, char secret[KEY_SECRET_SIZE])
{
    json_t *o = key_to_json(key);
    json_object_set_new(o, "secret", json_string(secret));
    OPENSSL_cleanse(secret, KEY_SECRET_SIZE);
    return o;
}

/* --- reading a request */

static int parse_roles(const json_t *body, unsigned *ret, struct error *err)
{
    _cleanup_strv_ char **names = NULL;
    unsigned roles = 0;
    int r = json_member_strv(body, "roles", ROLES_MAX, &names, err);
    if (r <= 0)
        return r < 0 ? r : error_field(err, "roles", "'roles' is missing");
    for (char **n = names; *n; n++) {
        unsigned role = 0;
        r = roles_parse(*n, &role, err);
        if (r < 0) {
            strcpy(err->field, "roles");
            return r;
        }
        roles |= role;
    }
    *ret = roles;
    return 0;
}

static int parse_quotas(const json_t *body, struct key_quotas *ret, struct error *err)
{
    const struct {
        const char *name;
        int64_t *value;
    } quotas[] = {{"max_sandboxes", &ret->max_sandboxes},
                  {"max_execs", &ret->max_execs},
                  {"requests_per_minute", &ret->requests_per_minute}};
    json_t *o = NULL;
    int r = json_member_object(body, "quotas", &o, err);
    if (r <= 0)
        return r;
    for (size_t i = 0; i < ELEMENTS(quotas); i++) {
        r = json_member_int(o, quotas[i].name, 0, KEY_QUOTA_MAX, quotas[i].value, err);
        if (r < 0)
            return error_within(err, r, "quotas");
    }
    return 0;
}

static int parse_request(const json_t *body, struct key_request *ret, struct error *err)
{
    int r = json_member_string(body, "name", &ret->name, err);
    if (r < 0)
        return r;
    if (!ret->name)
        return error_field(err, "name", "'name' is missing");
    r = parse_roles(body, &ret->roles, err);
    if (r < 0)
        return r;
    r = parse_quotas(body, &ret->quotas, err);
    if (r < 0)
        return r;
    return json_member_int(body, "expires_in_s", 1, LIFETIME_MAX, &ret->lifetime_s, err);
}

/* Whether every caller that reaches the daemon may do anything. */
static bool is_open(const struct api_request *req)
{
    return !keys_any(req->services->keys) && !req->services->config.token;
}

/* The caller that makes the first key decides who else may do anything. Over TCP that could be any
 * user of this machine; the unix socket is open to the daemon's own user only. */
static int check_first(const struct api_request *req, unsigned roles, struct error *err)
{
    if (!is_open(req))
        return 0;
    if (!http_request_is_unix(req->http))
        return error_set(err, ERROR_FORBIDDEN, 0,
                         "the first key is made over a unix socket, with the token, or while the "
                         "daemon is stopped: sbx keys add -state-dir DIR");
    if (!(roles & ROLE_ADMIN))
        return error_field(err, "roles",
                           "the first key must have the role admin: without an admin no other key "
                           "could be made");
    return 0;
}

static bool has_keys(struct api_request *req)
{
    struct error err = {0};
    if (req->services->keys)
        return true;
    error_set(&err, ERROR_UNSUPPORTED, 0, "this daemon keeps no state, so it has no keys");
    api_fail(req, &err);
    return false;
}

/* --- the audit */

static struct audit_record record_of(const struct api_request *req, const char *id,
                                     const char *outcome, json_t *details)
{
    return (struct audit_record){.kind = "key_change",
                                 .who = req->who,
                                 .action_id = id,
                                 .outcome = outcome,
                                 .details = details};
}

/* A key whose creation cannot be recorded is not made. */
static int record_added(struct api_request *req, const struct key *key, struct error *err)
{
    _cleanup_json_ json_t *details = key_to_json(key);
    struct audit_record r = record_of(req, key->id, "added", details);
    if (audit_write(req->services->audit, &r, NULL, err) >= 0)
        return 0;
    keys_revoke(req->services->keys, key->id, false, NULL, NULL, NULL);
    return -1;
}

/* The end of a key waits for nothing. */
static void note_ended(struct api_request *req, const char *id, const char *outcome)
{
    struct audit_record r = record_of(req, id, outcome, NULL);
    audit_note(req->services->audit, &r);
    log_info("key %s id=%s by=%s", outcome, id, req->owner);
}

/* --- handlers */

int handle_key_list(struct api_request *req)
{
    api_reply(req, 200, json_pack("{s:o}", "keys", keys_to_json(req->services->keys)));
    return 0;
}

int handle_key_add(struct api_request *req)
{
    char secret[KEY_SECRET_SIZE];
    struct key_request kr = {.quotas = KEY_QUOTAS_INIT};
    if (!has_keys(req))
        return 0;
    if (parse_request(req->body, &kr, req->err) < 0 || check_first(req, kr.roles, req->err) < 0)
        return -1;
    bool was_open = is_open(req);
    struct durable_reply *p = reply_new(req, 201);
    const struct key *key =
        keys_add(req->services->keys, &kr, secret, durable_reply_send, p, req->err);
    if (!key) {
        durable_reply_free(p);
        return -1;
    }
    if (was_open) /* streams that were opened without a key show everything */
        http_request_drop_others(req->http, "a key is needed from now on");
    if (record_added(req, key, req->err) < 0)
        return -1;
    log_info("key added id=%s by=%s", key->id, req->owner);
    p->answer = view_with_secret(key, secret);
    return 0;
}

int handle_key_revoke(struct api_request *req)
{
    if (!has_keys(req))
        return 0;
    http_request_admit(req->http, ""); /* a caller that revokes its own key still gets the answer */
    struct durable_reply *p = reply_new(req, 200);
    p->answer = json_pack("{s:s, s:b}", "id", req->params[0], "revoked", 1);
    if (keys_revoke(req->services->keys, req->params[0], !req->services->config.token,
                    durable_reply_send, p, req->err) < 0) {
        durable_reply_free(p);
        return -1;
    }
    note_ended(req, req->params[0], "revoked");
    return 0;
}

int handle_key_rotate(struct api_request *req)
{
    char secret[KEY_SECRET_SIZE];
    if (!has_keys(req))
        return 0;
    http_request_admit(req->http, "");
    struct durable_reply *p = reply_new(req, 200);
    if (keys_rotate(req->services->keys, req->params[0], secret, durable_reply_send, p, req->err) <
        0) {
        durable_reply_free(p);
        return -1;
    }
    note_ended(req, req->params[0], "rotated");
    p->answer = view_with_secret(keys_find(req->services->keys, req->params[0]), secret);
    return 0;
}

int handle_identity(struct api_request *req)
{
    const struct identity *who = req->who;
    struct key_quotas q = keys_quotas(req->services->keys, who->key);
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:o, s:b, s:{s:I, s:I, s:I}}", "key", who->key, "name",
                        who->name, "roles", roles_to_json(who->roles), "authenticated",
                        who->authenticated, "quotas", "max_sandboxes", (json_int_t)q.max_sandboxes,
                        "max_execs", (json_int_t)q.max_execs, "requests_per_minute",
                        (json_int_t)q.requests_per_minute));
    return 0;
}
