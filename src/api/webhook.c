/* SPDX-License-Identifier: Apache-2.0 */
#include "api/webhook.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "event/event-journal.h"
#include "guard/approval.h"
#include "loop/loop.h"
#include "tool/tool.h"

#define BODY_MAX   (256 * 1024)
#define RETRY_MS   1000 /* doubled with each try */
#define ID_LENGTH  16
#define HEX_LENGTH 64

struct delivery {
    struct list node;
    char id[ID_LENGTH + 1];
    const char *type;
    char *body;
    int tries;
};

struct webhook {
    struct webhook_options options;
    struct event_reader reader;
    struct list queue;
    size_t n_queued;
    bool busy;
    struct loop_timer retry;
    struct policy policy; /* network, and only to that host */
};

static void deliver_webhook(struct webhook *w);

static void delivery_free(struct webhook *w, struct delivery *d)
{
    list_remove(&d->node);
    w->n_queued--;
    free(d->body);
    free(d);
}

/* --- one delivery */

/* Over the time, a dot and the body, so that an old one cannot be sent again as a new one. */
static void sign_body(const char *secret, const char *time, const char *body,
                      char out[HEX_LENGTH + 8])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    _cleanup_free_ char *text = xasprintf("%s.%s", time, body);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)text, strlen(text), mac, &len);
    memcpy(out, "sha256=", 8);
    for (unsigned i = 0; i < len && i < HEX_LENGTH / 2; i++)
        snprintf(out + 7 + 2 * i, 3, "%02x", mac[i]);
}

static json_t *make_args(const struct webhook *w, const struct delivery *d)
{
    char time[24], signature[HEX_LENGTH + 8], event[40], timeout[24];
    snprintf(time, sizeof(time), "%lld", (long long)(clock_real_ns() / 1000000000));
    snprintf(event, sizeof(event), "approval.%s", d->type);
    snprintf(timeout, sizeof(timeout), "%llums", (unsigned long long)w->options.config.timeout_ms);
    sign_body(w->options.config.secret ? w->options.config.secret : "", time, d->body, signature);
    json_t *headers =
        json_pack("{s:s, s:s, s:s, s:s}", "Content-Type", "application/json", "X-Mas-Event", event,
                  "X-Mas-Delivery", d->id, "X-Mas-Timestamp", time);
    if (w->options.config.secret)
        json_object_set_new(headers, "X-Mas-Signature", json_string(signature));
    return json_pack("{s:s, s:s, s:o, s:s, s:s}", "method", "POST", "url", w->options.config.url,
                     "headers", headers, "body", d->body, "timeout", timeout);
}

static void on_done(void *data, const struct tool_result *r)
{
    struct webhook *w = data;
    struct delivery *d = container_of(w->queue.next, struct delivery, node);
    json_int_t status = json_integer_value(json_object_get(r->result, "status_code"));
    w->busy = false;
    if (r->ok && status >= 200 && status < 300) {
        delivery_free(w, d);
        deliver_webhook(w);
        return;
    }
    if (++d->tries < w->options.config.tries_max && !r->approval_id) {
        loop_timer_start(&w->retry, (uint64_t)RETRY_MS << (d->tries - 1));
        return;
    }
    log_warn("webhook: %s was not delivered: status=%lld %s", d->id, (long long)status,
             r->message ? r->message : "");
    delivery_free(w, d);
    deliver_webhook(w);
}

static void deliver_webhook(struct webhook *w)
{
    if (w->busy || list_empty(&w->queue) || loop_timer_active(&w->retry))
        return;
    struct delivery *d = container_of(w->queue.next, struct delivery, node);
    _cleanup_json_ json_t *args = make_args(w, d);
    struct tool_request req = {
        .who = &identity_webhook, .name = "http_client", .args = args, .policy = &w->policy};
    w->busy = true;
    tool_call_start(w->options.tool, &req, on_done, w);
}

static void on_retry(void *data)
{
    deliver_webhook(data);
}

/* --- what there is to tell */

static void on_start(void *data)
{
    deliver_webhook(data);
}

static void queue_delivery(struct webhook *w, const struct approval *a, const char *state)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(BODY_MAX);
    json_t *view = approval_view(a, false);
    json_object_set_new(view, "status", json_string(state)); /* of the event; it may be past that */
    _cleanup_json_ json_t *body = json_pack("{s:s, s:o}", "type", state, "approval", view);
    if (w->n_queued == w->options.config.queue_max || json_format(body, &b) < 0) {
        log_warn("webhook: an event is dropped, because it is too large or too many wait "
                 "(webhook_queue) approval=%s",
                 approval_id(a));
        return;
    }
    struct delivery *d = new0(struct delivery);
    random_id(d->id, ID_LENGTH);
    d->type = state;
    d->body = strbuf_steal(&b);
    list_append(&w->queue, &d->node);
    w->n_queued++;
    loop_defer(w->options.loop, on_start, w);
}

static void on_events(struct event_reader *r)
{
    struct webhook *w = container_of(r, struct webhook, reader);
    const struct event *e;
    enum event_got got;
    while ((got = event_read(r, &e)) != EVENT_GOT_NONE) {
        const struct approval *a = got == EVENT_GOT_ONE
                                       ? approvals_find(w->options.approvals, &r->who, event_id(e))
                                       : NULL;
        /* What a delivery itself would have to be asked about is not worth telling. */
        if (a && strcmp(approval_requester(a), IDENTITY_WEBHOOK) != 0)
            queue_delivery(w, a, strchr(event_type_name(e->type), '.') + 1);
    }
}

struct webhook *webhook_new(const struct webhook_options *o)
{
    struct error ignored = {0};
    struct webhook *w = new0(struct webhook);
    struct tool_command command = {0};
    w->options = *o;
    list_init(&w->queue);
    policy_init(&w->policy);
    w->policy.has_network = w->policy.network_enabled = true;
    _cleanup_json_ json_t *args = json_pack("{s:s}", "url", o->config.url);
    tool_build(tool_find("http_client"), args, &command, &ignored);
    char *hosts[] = {command.host ? command.host : (char *)"none.invalid", NULL};
    w->policy.allowed_hosts = strv_copy(hosts);
    tool_command_done(&command);
    loop_timer_init(&w->retry, o->loop, on_retry, w);
    list_init(&w->reader.node);
    if (!o->events)
        return w;
    w->reader.who = identity_webhook;
    w->reader.who.roles = ROLE_APPROVER; /* gets the same changes as approvers */
    w->reader.types = event_types_of("approval");
    w->reader.next = event_journal_last(o->events) + 1;
    w->reader.on_events = on_events;
    event_subscribe(o->events, &w->reader);
    return w;
}

static void on_timer_closed(void *data)
{
    free(data);
}

void webhook_free(struct webhook *w)
{
    if (!w)
        return;
    event_unsubscribe(&w->reader);
    while (!list_empty(&w->queue))
        delivery_free(w, container_of(w->queue.next, struct delivery, node));
    policy_done(&w->policy);
    loop_timer_close(&w->retry, on_timer_closed, w);
}
