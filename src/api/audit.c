/* SPDX-License-Identifier: Apache-2.0 */
/* The audit over HTTP: records as lines (NDJSON, or Server-Sent Events), filtered and followed, and
 * the newest checkpoint. Pages are read on a worker and written at the client's pace. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/stream.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/weak.h"
#include "audit/record.h"
#include "loop/loop.h"

#define LIMIT_DEFAULT    1000
#define LIMIT_MAX        1000000000
#define SSE_KEEPALIVE_MS 15000

/* Members of a record that a query may name. */
static const char *const filter_names[] = {"kind",    "key",  "call", "action",
                                           "sandbox", "exec", "tool", "outcome"};

struct reader {
    struct audit *audit;
    struct audit_filter filter; /* its texts are in values */
    char *values[ELEMENTS(filter_names)];
    struct api_request *req;   /* until the first page */
    struct http_request *http; /* then this; NULL: the client left */
    uint64_t left;
    bool follow, sse;
    bool reading, full, ended;
    bool woken; /* there are records that the page being read may not have */
    bool has_timer;
    struct loop_timer keepalive;
    struct audit_watch watch;
};

bool audit_is_on(struct api_request *req)
{
    struct error err = {0};
    if (req->services->audit)
        return true;
    error_set(&err, ERROR_UNSUPPORTED, 0, "this daemon keeps no audit (audit: false)");
    api_fail(req, &err);
    return false;
}

/* --- its end */

static void reader_free(void *data)
{
    struct reader *r = data;
    for (size_t i = 0; i < ELEMENTS(filter_names); i++)
        free(r->values[i]);
    free(r);
}

static void reader_release(struct reader *r)
{
    audit_watch_remove(&r->watch);
    if (r->has_timer)
        loop_timer_close(&r->keepalive, reader_free, r);
    else
        reader_free(r);
}

/* A page that is being read comes back to it; then it goes. */
static void reader_end(struct reader *r)
{
    r->http = NULL;
    r->req = NULL;
    r->ended = true;
    audit_watch_remove(&r->watch);
    if (!r->reading)
        reader_release(r);
}

static void on_http_abort(struct http_request *http, void *data)
{
    (void)http;
    reader_end(data);
}

static void on_request_abort(struct api_request *req)
{
    reader_end(req->state);
}

/* --- lines */

static bool write_sse(struct reader *r, const char *text, size_t len)
{
    bool room = true;
    for (size_t at = 0; at < len;) {
        char id[48];
        const char *line = text + at;
        size_t n = (size_t)((const char *)memchr(line, '\n', len - at) - line);
        int head = snprintf(id, sizeof(id),
                            "id: %llu\ndata: ", (unsigned long long)audit_record_seq(line, n));
        http_write(r->http, id, (size_t)head);
        http_write(r->http, line, n);
        room = http_write(r->http, "\n\n", 2);
        at += n + 1;
    }
    return room;
}

static void on_drain(struct http_request *http, void *data);

static void on_keepalive(void *data)
{
    struct reader *r = data;
    if (r->http && !r->full)
        r->full = !http_write(r->http, ":\n\n", 3);
}

static void reader_begin(struct reader *r)
{
    uv_loop_t *loop = r->req->services->loop;
    r->http = api_take(r->req);
    r->req = NULL;
    http_request_on_abort(r->http, on_http_abort, r);
    http_request_on_drain(r->http, on_drain, r);
    http_response_header(r->http, "Cache-Control", "no-store");
    http_respond_begin(r->http, 200, r->sse ? "text/event-stream" : "application/x-ndjson");
    if (!r->sse || !r->follow)
        return;
    loop_timer_init(&r->keepalive, loop, on_keepalive, r);
    loop_timer_start_every(&r->keepalive, SSE_KEEPALIVE_MS);
    r->has_timer = true;
}

/* --- pages */

static void on_page(void *data, const struct audit_page *page, const struct error *err);

static void read_page(struct reader *r)
{
    if (r->reading || r->full || r->ended)
        return;
    r->woken = false;
    r->filter.limit = r->left < AUDIT_PAGE_RECORDS ? (size_t)r->left : AUDIT_PAGE_RECORDS;
    r->reading = true;
    audit_query(r->audit, &r->filter, on_page, r);
}

static void reader_finish(struct reader *r)
{
    struct http_request *http = r->http;
    http_request_on_abort(http, NULL, NULL);
    http_request_on_drain(http, NULL, NULL);
    reader_end(r);
    http_respond_end(http);
}

static void on_page(void *data, const struct audit_page *page, const struct error *err)
{
    struct reader *r = data;
    r->reading = false;
    if (r->ended) {
        reader_release(r);
        return;
    }
    if (err) {
        struct api_request *req = r->req;
        struct http_request *http = r->http;
        reader_end(r);
        if (req)
            api_fail(req, err);
        else
            http_respond_abort(http); /* the client must not take it for all there is */
        return;
    }
    if (r->req)
        reader_begin(r);
    if (page->n)
        r->full = !(r->sse ? write_sse(r, page->text.data, page->text.len)
                           : http_write(r->http, page->text.data, page->text.len));
    r->left -= page->n;
    if (r->filter.newest_first)
        r->filter.until = page->next;
    else
        r->filter.since = page->next;
    bool more = page->more && !(r->filter.newest_first && page->next == 0);
    if (r->left == 0 || (!more && !r->follow))
        reader_finish(r);
    else if (more || r->woken)
        read_page(r);
}

static void on_drain(struct http_request *http, void *data)
{
    struct reader *r = data;
    (void)http;
    r->full = false;
    read_page(r);
}

static void on_records(struct audit_watch *w)
{
    struct reader *r = container_of(w, struct reader, watch);
    r->woken = r->reading;
    read_page(r);
}

/* --- the query */

static int query_time(const struct api_request *req, const char *name, int64_t *ret,
                      struct error *err)
{
    const char *text = http_request_query(req->http, name);
    if (text && audit_time_parse(text, ret) < 0)
        return error_field(err, name, "'%s' is not a time such as 2026-01-02T03:04:05Z", name);
    return 0;
}

static int parse_order(const struct api_request *req, struct reader *r, struct error *err)
{
    const char *order = http_request_query(req->http, "order");
    r->follow = api_query_switch(req, "follow");
    r->filter.newest_first = order && strcmp(order, "newest") == 0;
    if (r->filter.newest_first && r->follow)
        return error_field(err, "order",
                           "'order' cannot be newest with 'follow', which reads the oldest first");
    return 0;
}

static int parse_filter(const struct api_request *req, struct reader *r, struct error *err)
{
    struct audit_filter *f = &r->filter;
    const char **members[] = {&f->kind,    &f->key,  &f->call_id, &f->action_id,
                              &f->sandbox, &f->exec, &f->tool,    &f->outcome};
    static_assert(ELEMENTS(members) == ELEMENTS(filter_names), "a name per filter");
    for (size_t i = 0; i < ELEMENTS(members); i++) {
        const char *value = http_request_query(req->http, filter_names[i]);
        r->values[i] = value ? xstrdup(value) : NULL;
        *members[i] = r->values[i];
    }
    int e = parse_order(req, r, err);
    if (e < 0)
        return e;
    r->left = r->follow ? LIMIT_MAX : LIMIT_DEFAULT;
    e = api_query_number(req, "since", 0, INT64_MAX, &f->since, err);
    if (e < 0)
        return e;
    e = api_query_number(req, "until", 1, INT64_MAX, &f->until, err);
    if (e < 0)
        return e;
    e = api_query_number(req, "limit", 1, LIMIT_MAX, &r->left, err);
    if (e < 0)
        return e;
    e = query_time(req, "from", &f->from_ns, err);
    if (e < 0)
        return e;
    return query_time(req, "to", &f->to_ns, err);
}

int handle_audit(struct api_request *req)
{
    if (!audit_is_on(req))
        return 0;
    struct reader *r = new0(struct reader);
    r->audit = req->services->audit;
    r->sse = stream_kind_wanted(req->http) == STREAM_SSE;
    list_init(&r->watch.node);
    int e = parse_filter(req, r, req->err);
    if (e >= 0 && r->sse && !r->filter.newest_first)
        e = stream_parse_last_id(req, &r->filter.since, req->err);
    if (e < 0) {
        reader_free(r);
        return -1;
    }
    r->req = req;
    req->state = r;
    req->on_abort = on_request_abort;
    r->watch.on_records = on_records;
    if (r->follow)
        audit_watch_add(r->audit, &r->watch);
    read_page(r);
    return 0;
}

/* --- the newest checkpoint */

static void on_checkpoint(void *data, const struct checkpoint *c, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    char text[CHECKPOINT_TEXT_SIZE], key[CHECKPOINT_HEX_SIZE];
    if (!req)
        return;
    if (err) {
        api_fail(req, err);
        return;
    }
    size_t len = checkpoint_format(c, text);
    hex_format(audit_public_key(req->services->audit), CHECKPOINT_KEY_SIZE, key);
    api_reply(req, 200,
              json_pack("{s:s, s:o}", "key", key, "checkpoint", json_loadb(text, len, 0, NULL)));
}

int handle_audit_checkpoint(struct api_request *req)
{
    if (!audit_is_on(req))
        return 0;
    audit_checkpoint_now(req->services->audit, CHECKPOINT_PERIODIC, on_checkpoint, api_later(req));
    return 0;
}

/* --- another signing key */

static void on_rotated(void *data, const struct checkpoint *c, const struct error *err)
{
    struct api_request *req = weak_unref(data);
    char text[CHECKPOINT_TEXT_SIZE], old_key[CHECKPOINT_HEX_SIZE], new_key[CHECKPOINT_HEX_SIZE];
    if (!req)
        return;
    if (err) { /* a warden that died may have decided on it: the next start tells */
        struct audit_record unknown = {.kind = "key_change",
                                       .who = req->who,
                                       .outcome = "unknown",
                                       .details_text = "{\"what\":\"rotation\"}"};
        audit_note(req->services->audit, &unknown);
        api_fail(req, err);
        return;
    }
    size_t len = checkpoint_format(c, text);
    hex_format(c->old_key, sizeof(c->old_key), old_key);
    hex_format(c->new_key, sizeof(c->new_key), new_key);
    api_reply(req, 200,
              json_pack("{s:s, s:s, s:o}", "old_key", old_key, "key", new_key, "checkpoint",
                        json_loadb(text, len, 0, NULL)));
}

int handle_audit_rotate(struct api_request *req)
{
    struct audit_record asked = {.kind = "key_change",
                                 .who = req->who,
                                 .outcome = "asked",
                                 .details_text = "{\"what\":\"rotation\"}"};
    if (!audit_is_on(req))
        return 0;
    if (audit_write(req->services->audit, &asked, NULL, req->err) < 0)
        return -1;
    audit_checkpoint_now(req->services->audit, CHECKPOINT_ROTATE, on_rotated, api_later(req));
    return 0;
}
