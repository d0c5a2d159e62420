#include "daemon/audit-wiring.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "daemon/config.h"
#include "guard/audit.h"
#include "runtime/warden-client.h"

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

static void sign(void *data, enum checkpoint_purpose purpose, uint64_t seq,
                 const uint8_t head[CHECKPOINT_HASH_SIZE], audit_signed_fn done, void *done_data)
{
    struct request *r = new0(struct request);
    struct plan plan = {.op = PLAN_SIGN, .sign = {.purpose = purpose, .seq = seq}};
    *r = (struct request){done, done_data};
    memcpy(plan.sign.head, head, sizeof(plan.sign.head));
    warden_client_send(data, &plan, on_reply, r);
}

static enum audit_fsync fsync_mode(const char *text)
{
    if (strcmp(text, "always") == 0)
        return AUDIT_FSYNC_ALWAYS;
    return strcmp(text, "batch") == 0 ? AUDIT_FSYNC_BATCH : AUDIT_FSYNC_NEVER;
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

int audit_wire(const struct control_context *ctx, struct warden_client *warden, struct store *store,
               struct audit **ret, struct error *err)
{
    const struct config *c = ctx->config;
    struct plan_reply newest;
    struct audit_signer signer = {.sign = sign, .data = warden};
    struct audit_options o = {.loop = ctx->loop,
                              .fsync = fsync_mode(c->audit_fsync),
                              .checkpoint_records = (uint64_t)c->audit_checkpoint_records,
                              .checkpoint_ms = (uint64_t)c->audit_checkpoint_interval_ms,
                              .retention_records = (uint64_t)c->audit_retention_records,
                              .retention_ms = (uint64_t)c->audit_retention_ms};
    *ret = NULL;
    if (!c->audit || !store)
        return 0;
    int r = warden_client_signed(warden, &newest, err);
    if (r < 0)
        return r;
    signer.last = newest.checkpoint;
    memcpy(signer.public_key, newest.audit_key, sizeof(signer.public_key));
    *ret = audit_open(ctx->state_path, store, &signer, &o, err);
    if (!*ret)
        return -1;
    note_start(*ret, ctx);
    return 0;
}
