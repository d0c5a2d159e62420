/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of callers over the API: list, put, delete. A value goes in and never comes out; it is
 * sealed in the turn that reads it. These routes take no Idempotency-Key, because a put can be
 * repeated as it is. */
#include <string.h>

#include "api/durable-reply.h"
#include "api/handlers.h"
#include "audit/audit.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "secret/secrets.h"

#define HEADER_DEFAULT "Authorization: Bearer {}"

static int parse_secret(json_t *body, struct pair *p, struct error *err)
{
    _cleanup_strv_ char **hosts = NULL;
    const char *value = NULL, *header = HEADER_DEFAULT;
    int r = json_member_strv(body, "hosts", PAIR_HOSTS_MAX, &hosts, err);
    if (r == 0 || (r > 0 && !*hosts))
        return error_field(err, "hosts", "'hosts' must name the hosts that the secret is for");
    if (r < 0)
        return r;
    r = json_member_string(body, "header", &header, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "value", &value, err);
    if (r < 0)
        return r;
    if (r == 0)
        return error_field(err, "value", "'value' is missing");
    r = pair_set_header(p, header, err);
    if (r < 0)
        return r;
    for (char **h = hosts; *h; h++) {
        r = pair_add_host(p, *h, err);
        if (r < 0)
            return r;
    }
    return pair_set_value(p, value, strlen(value), err);
}

/* err NULL: it has happened already, and must not get lost. */
static int record_change(struct api_request *req, const char *outcome, const struct pair *p,
                         struct error *err)
{
    json_t *hosts = json_array();
    char host[PAIR_HOST_SIZE];
    for (size_t i = 0; p && i < p->n_hosts; i++) {
        pair_format_host(&p->hosts[i], host);
        json_array_append_new(hosts, json_string(host));
    }
    _cleanup_json_ json_t *details =
        json_pack("{s:s, s:o}", "name", req->params[0], "hosts", hosts);
    struct audit_record r = {
        .kind = "secret_change", .who = req->who, .outcome = outcome, .details = details};
    if (err)
        return audit_write(req->services->audit, &r, NULL, err);
    audit_note(req->services->audit, &r);
    return 0;
}

int handle_secret_list(struct api_request *req)
{
    api_reply(req, 200,
              json_pack("{s:o}", "secrets", secrets_to_json(req->services->secrets, req->owner)));
    return 0;
}

/* The audit has the change before the store has it: a secret that cannot be recorded is not kept.
 */
static int put_secret(struct api_request *req, const struct pair *pair, struct error *err)
{
    struct secrets *s = req->services->secrets;
    int r = secrets_check_put(s, req->owner, req->params[0], pair, err);
    if (r < 0)
        return r;
    r = record_change(req, "put", pair, err);
    if (r < 0)
        return r;
    struct durable_reply *p = durable_reply_new(req, 200);
    _cleanup_free_ char *owner = xstrdup(req->owner), *name = xstrdup(req->params[0]);
    if (secrets_put(s, owner, name, pair, durable_reply_send, p, err) < 0) {
        durable_reply_free(p);
        return -1;
    }
    log_info("secret put name=%s by=%s", name, owner);
    p->answer = secret_to_json(secrets_find(s, owner, name));
    return 0;
}

int handle_secret_put(struct api_request *req)
{
    struct pair pair = {0};
    int r = parse_secret(req->body, &pair, req->err);
    /* What the parser keeps of the value goes as soon as the pair has it. */
    json_t *value = json_object_get(req->body, "value");
    char *text = (char *)(uintptr_t)json_string_value(value);
    if (text)
        explicit_bzero(text, json_string_length(value));
    json_object_del(req->body, "value");
    if (r >= 0)
        r = put_secret(req, &pair, req->err);
    pair_done(&pair);
    return r;
}

int handle_secret_remove(struct api_request *req)
{
    struct durable_reply *p = durable_reply_new(req, 200);
    p->answer = json_pack("{s:s, s:b}", "name", req->params[0], "deleted", 1);
    if (secrets_remove(req->services->secrets, req->owner, req->params[0], durable_reply_send, p,
                       req->err) < 0) {
        durable_reply_free(p);
        return -1;
    }
    record_change(req, "deleted", NULL, NULL); /* what narrows waits for nothing */
    log_info("secret deleted name=%s by=%s", req->params[0], req->owner);
    return 0;
}
