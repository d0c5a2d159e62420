/* SPDX-License-Identifier: Apache-2.0 */
/* The audit as a file that proves itself: header, records, checkpoints and, as the last line, a
 * checkpoint signed for this export. That there was an export is a record, and in it. Pages are
 * made on a worker, each on a connection of its own, and written at the client's pace. */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "base/alloc.h"
#include "base/strbuf.h"
#include "audit/export.h"
#include "audit/audit.h"
#include "loop/loop.h"
#include "store/audit-table.h"
#include "store/store.h"

#define PAGE_BYTES (1024 * 1024)

struct export_job {
    struct audit *audit;
    uv_loop_t *loop;
    char *path;
    struct api_request *req;   /* until it is signed */
    struct http_request *http; /* then this; NULL: the client left */
    struct checkpoint footer;
    uint8_t key[CHECKPOINT_KEY_SIZE]; /* that signed it */
    uint64_t since;
    bool begun, more, working, full;
    struct strbuf page;
    struct error err;
};

static void job_free(struct export_job *j)
{
    strbuf_done(&j->page);
    free(j->path);
    free(j);
}

/* --- on the worker */

/* What goes wrong is left in j->err, which on_page() looks at. */
static void make_page(void *data)
{
    struct export_job *j = data;
    struct audit_cursor c;
    struct audit_row row;
    struct sqlite3 *db = audit_table_open(j->path, &j->err);
    if (!db)
        return;
    if (!j->begun &&
        audit_export_begin(db, j->since, j->footer.seq, j->key, &j->page, &j->since, &j->err) < 0) {
        audit_table_close(db);
        return;
    }
    /* A record that was dropped since the export began must not be missed silently. */
    if (audit_cursor_open(&c, db, j->since, INT64_MAX, AUDIT_OLDEST_FIRST, &j->err) >= 0 &&
        audit_cursor_next(&c, &row, &j->err) > 0 && row.seq != j->since + 1)
        error_set(&j->err, ERROR_CONFLICT, 0, "records were dropped while they were exported");
    audit_cursor_close(&c);
    if (!error_is_set(&j->err))
        j->more =
            audit_export_page(db, &j->since, j->footer.seq, PAGE_BYTES, &j->page, &j->err) > 0;
    audit_table_close(db);
}

/* --- on the loop */

static void on_page(void *data);

static void next_page(struct export_job *j)
{
    strbuf_reset(&j->page);
    j->working = true;
    loop_work(j->loop, make_page, on_page, j);
}

static void write_footer(struct export_job *j)
{
    char line[CHECKPOINT_TEXT_SIZE + 1];
    size_t n = checkpoint_format(&j->footer, line);
    struct http_request *http = j->http;
    line[n++] = '\n';
    http_request_on_abort(http, NULL, NULL);
    http_request_on_drain(http, NULL, NULL);
    http_write(http, line, n);
    http_respond_end(http);
    job_free(j);
}

static void on_page(void *data)
{
    struct export_job *j = data;
    j->working = false;
    j->begun = true;
    if (!j->http) {
        job_free(j);
    } else if (error_is_set(&j->err)) {
        struct http_request *http = j->http;
        http_request_on_abort(http, NULL, NULL);
        http_request_on_drain(http, NULL, NULL);
        job_free(j);
        http_respond_abort(http);
    } else {
        j->full = !http_write(j->http, j->page.data ? j->page.data : "", j->page.len);
        if (!j->more)
            write_footer(j);
        else if (!j->full)
            next_page(j);
    }
}

static void on_drain(struct http_request *http, void *data)
{
    struct export_job *j = data;
    (void)http;
    if (j->full && !j->working) {
        j->full = false;
        next_page(j);
    }
}

static void on_http_abort(struct http_request *http, void *data)
{
    struct export_job *j = data;
    (void)http;
    j->http = NULL;
    if (!j->working)
        job_free(j);
}

static void on_request_abort(struct api_request *req)
{
    struct export_job *j = req->state;
    j->req = NULL;
}

static void on_signed(void *data, const struct checkpoint *c, const struct error *err)
{
    struct export_job *j = data;
    struct api_request *req = j->req;
    if (!req || err) {
        job_free(j);
        if (req)
            api_fail(req, err);
        return;
    }
    j->footer = *c;
    memcpy(j->key, audit_public_key(j->audit), sizeof(j->key));
    j->req = NULL;
    j->http = api_take(req);
    http_request_on_abort(j->http, on_http_abort, j);
    http_request_on_drain(j->http, on_drain, j);
    http_response_header(j->http, "Cache-Control", "no-store");
    http_respond_begin(j->http, 200, "application/x-ndjson");
    next_page(j);
}

int handle_audit_export(struct api_request *req)
{
    uint64_t since = 0;
    if (!audit_is_on(req))
        return 0;
    struct audit *audit = req->services->audit;
    struct audit_record record = {.kind = "export", .who = req->who, .outcome = "begun"};
    if (api_query_number(req, "since", 0, INT64_MAX, &since, req->err) < 0 ||
        audit_write(audit, &record, NULL, req->err) < 0)
        return -1;
    struct export_job *j = new0(struct export_job);
    *j = (struct export_job){.audit = audit,
                             .loop = req->services->loop,
                             .path = xstrdup(store_path(req->services->store)),
                             .req = req,
                             .since = since,
                             .page = STRBUF_INIT(4 * PAGE_BYTES)};
    req->state = j;
    req->on_abort = on_request_abort;
    audit_checkpoint_now(audit, CHECKPOINT_EXPORT, on_signed, j);
    return 0;
}
