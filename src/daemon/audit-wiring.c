/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit-wiring.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "audit/audit.h"
#include "identity/identity.h"
#include "runtime/warden-client.h"
#include "sandbox/sandbox.h"
#include "store/audit-table.h"
#include "store/store.h"
#include "tool/run.h"

#define CONFIG_TEXT_MAX (1024 * 1024)
#define CONFIG_NUMBER                                                                              \
    "config" /* in audit_number: what the last configuration's digest starts with */

struct request {
    audit_signed_fn done;
    void *data;
};

static void on_reply(void *data, const struct plan_reply *reply, int fd)
{
    struct request *r = data;
    (void)fd; /* a signature comes with none */
    if (!reply)
        r->done(r->data, NULL, "the warden is gone");
    else if (reply->error)
        r->done(r->data, NULL, reply->message);
    else
        r->done(r->data, &reply->checkpoint, NULL);
    free(r);
}

static void sign_checkpoint(void *data, enum checkpoint_purpose purpose, uint64_t seq,
                            const uint8_t head[CHECKPOINT_HASH_SIZE], audit_signed_fn done,
                            void *done_data)
{
    struct request *r = new0(struct request);
    struct plan plan = {.op = PLAN_SIGN, .sign = {.purpose = purpose, .seq = seq}};
    *r = (struct request){done, done_data};
    memcpy(plan.sign.head, head, sizeof(plan.sign.head));
    warden_client_send(data, &plan, on_reply, r);
}

static void note_start(struct audit *a, const struct control_context *ctx)
{
    char details[200];
    snprintf(details, sizeof(details),
             "{\"version\":\"" MAS_VERSION "\",\"generation\":%llu,\"pid\":%d,\"warden\":%d}",
             (unsigned long long)ctx->generation, (int)getpid(), (int)ctx->warden_pid);
    struct audit_record r = {.kind = "start", .details_text = details};
    audit_note(a, &r);
}

/* A configuration is read once a start; it is on record when it is not the one of the last. */
static int note_config(struct audit *a, struct store *store, const struct config *c,
                       struct error *err)
{
    char digest[AUDIT_DIGEST_SIZE], details[AUDIT_DIGEST_SIZE + 32];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONFIG_TEXT_MAX); /* without secrets */
    struct sqlite3 *db = store_database(store);
    int64_t before = 0, now = 0;
    config_print(c, &text);
    audit_digest(text.data, text.len, digest);
    memcpy(&now, digest + strlen("sha256:"), sizeof(now));
    int r = audit_table_get_number(db, CONFIG_NUMBER, &before, err);
    if (r < 0 || before == now)
        return r;
    snprintf(details, sizeof(details), "{\"digest\":\"%s\"}", digest);
    struct audit_record change = {
        .kind = "config_change", .outcome = "loaded", .details_text = details};
    r = audit_write(a, &change, NULL, err);
    if (r >= 0 && audit_table_put_number(db, CONFIG_NUMBER, now) < 0)
        r = error_set(err, ERROR_INTERNAL, 0, "audit: the configuration's digest cannot be stored");
    return r;
}

int audit_wire(const struct control_context *ctx, struct warden_client *warden, struct store *store,
               struct audit **ret, struct error *err)
{
    const struct config *c = ctx->config;
    struct plan_reply newest;
    struct audit_signer signer = {.sign = sign_checkpoint, .data = warden};
    *ret = NULL;
    if (!c->use_audit || !store)
        return 0;
    int r = warden_client_signed(warden, &newest, err);
    if (r < 0)
        return r;
    signer.last = newest.checkpoint;
    memcpy(signer.public_key, newest.audit_key, sizeof(signer.public_key));
    *ret = audit_open(ctx->state_path, store, &signer, ctx->loop, &c->audit, err);
    if (!*ret)
        return -1;
    note_start(*ret, ctx);
    return note_config(*ret, store, c, err);
}

/* --- what the sandboxes tell */

static const char *sandbox_outcome(const struct sandbox *sb)
{
    if (sandbox_state(sb) == SANDBOX_READY)
        return sandbox_is_restored(sb) ? "resumed" : "created";
    return sandbox_state(sb) == SANDBOX_CRASHED ? "crashed" : "deleted";
}

void audit_on_sandbox(void *data, struct sandbox *sb)
{
    const struct effective *e = sandbox_effective(sb);
    const struct error *failure = sandbox_failure(sb);
    struct identity who = {.authenticated = true};
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(AUDIT_RECORD_MAX / 2);
    struct json_text t = json_text_begin(&details, '{');
    if (!data)
        return;
    json_text_string(&t, "owner", sandbox_owner(sb));
    json_text_string(&t, "generation", sandbox_generation(sb));
    if (sandbox_state(sb) == SANDBOX_READY && e->runtime)
        json_text_string(&t, "runtime", e->runtime);
    if (sandbox_state(sb) == SANDBOX_READY && !sandbox_is_restored(sb))
        run_put_spec(&t, data, sandbox_spec(sb));
    if (sandbox_state(sb) == SANDBOX_CRASHED)
        json_text_bytes(&t, "reason", failure->message, strlen(failure->message));
    bool whole = json_text_end(&t, '}') >= 0;
    snprintf(who.key, sizeof(who.key), "%s", sandbox_actor(sb));
    struct audit_record r = {.kind = "sandbox",
                             .who = *who.key ? &who : NULL,
                             .sandbox = sandbox_id(sb),
                             .outcome = sandbox_outcome(sb),
                             .details_text = whole ? details.data : "{\"cut\":true}"};
    audit_note(data, &r);
}

/* "CONNECT host port" and "OK address" or "ERR code message", from either side as it wrote them. */
void audit_on_connection(void *data, struct sandbox *sb, const char *call, const char *asked,
                         const char *told, const char *rule)
{
    char code[64] = "";
    bool good = strncmp(told, "OK ", 3) == 0;
    sscanf(told, "ERR %63[a-z_]", code);
    _cleanup_json_ json_t *details =
        json_pack("{s:o, s:o}", "asked", json_message(asked), "told", json_message(told));
    if (*rule)
        json_object_set_new(details, "rule", json_message(rule));
    struct audit_record r = {.kind = "network",
                             .call_id = call,
                             .sandbox = sandbox_id(sb),
                             .outcome = good ? "connected" : code,
                             .details = details};
    audit_note(data, &r);
}

void audit_on_connections_cut(void *data, struct sandbox *sb, uint64_t connected, uint64_t refused)
{
    _cleanup_json_ json_t *details =
        json_pack("{s:I, s:I}", "connected", (json_int_t)connected, "refused", (json_int_t)refused);
    struct audit_record r = {
        .kind = "network", .sandbox = sandbox_id(sb), .outcome = "summary", .details = details};
    audit_note(data, &r);
}
