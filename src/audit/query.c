/* SPDX-License-Identifier: Apache-2.0 */
/* Reading pages of records, on a worker and a connection of its own. A page ends at its limit of
 * records, of bytes, or of records looked at, so that a filter which matches nothing ends too; it
 * says where the next one begins. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "audit/internal.h"
#include "store/audit-table.h"
#include "store/store.h"

#define PAGE_BYTES  (4 * 1024 * 1024)
#define PAGE_LOOKS  200000 /* records looked at for one page */
#define FILTERS_MAX 8

struct match {
    const char *name;
    char *text; /* as a record spells it */
    size_t len;
};

struct query {
    struct audit *audit;
    struct audit_waiter waiter;
    char *path;
    uint64_t since, until;
    int64_t from_ns, to_ns;
    struct match matches[FILTERS_MAX];
    size_t n_matches;
    size_t limit;
    bool newest_first;
    audit_page_fn fn;
    void *data;
    struct audit_page page;
    struct error err;
};

/* --- matching */

static void add_match(struct query *q, const char *name, const char *value)
{
    if (!value)
        return;
    struct strbuf text = STRBUF_INIT(AUDIT_RECORD_MAX);
    audit_record_escape(&text, value);
    struct match *m = &q->matches[q->n_matches++];
    m->name = name;
    m->len = text.len;
    m->text = strbuf_steal(&text);
}

static bool query_matches(const struct query *q, const char *line, size_t len)
{
    for (size_t i = 0; i < q->n_matches; i++) {
        struct audit_member got;
        const struct match *m = &q->matches[i];
        if (!audit_record_find(line, len, m->name, &got) || got.text_len != m->len ||
            memcmp(got.text, m->text, m->len) != 0)
            return false;
    }
    return true;
}

static int64_t record_time(const char *line, size_t len)
{
    struct audit_member m;
    char text[40] = "";
    if (!audit_record_find(line, len, "time", &m) || m.text_len >= sizeof(text))
        return 0;
    memcpy(text, m.text, m.text_len);
    int64_t ns = 0;
    return audit_time_parse(text, &ns) < 0 ? 0 : ns;
}

static bool in_time(const struct query *q, const char *line, size_t len)
{
    if (!q->from_ns && !q->to_ns)
        return true;
    int64_t t = record_time(line, len);
    return t >= q->from_ns && (!q->to_ns || t <= q->to_ns);
}

int audit_time_parse(const char *text, int64_t *ret_ns)
{
    struct tm tm = {0};
    const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t fraction = 0, unit = 100000000;
    if (!p)
        return -EINVAL;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
            fraction += (*p - '0') * unit;
    if (strcmp(p, "Z") != 0)
        return -EINVAL;
    *ret_ns = (int64_t)timegm(&tm) * 1000000000 + fraction;
    return 0;
}

/* --- on the worker */

static int scan_rows(struct query *q, struct audit_cursor *c)
{
    struct audit_page *page = &q->page;
    struct audit_row row;
    int r;
    for (size_t looks = 0; (r = audit_cursor_next(c, &row, &q->err)) > 0; looks++) {
        if (page->n == q->limit || looks == PAGE_LOOKS || page->text.len >= PAGE_BYTES) {
            page->more = true;
            return 0;
        }
        page->next = q->newest_first ? row.seq - 1 : row.seq;
        if (!row.hash || !in_time(q, row.body, row.len) || !query_matches(q, row.body, row.len))
            continue;
        audit_line_format(&page->text, row.body, row.len, row.hash);
        page->n++;
    }
    return r;
}

static void query_work(void *data)
{
    struct query *q = data;
    struct audit_cursor c;
    struct sqlite3 *db = audit_table_open(q->path, &q->err);
    if (!db)
        return;
    enum audit_order order = q->newest_first ? AUDIT_NEWEST_FIRST : AUDIT_OLDEST_FIRST;
    if (audit_cursor_open(&c, db, q->since, q->until, order, &q->err) >= 0)
        scan_rows(q, &c);
    audit_cursor_close(&c);
    audit_table_close(db);
}

/* --- on the loop */

static void query_done(void *data)
{
    struct query *q = data;
    bool failed = error_is_set(&q->err);
    if (failed)
        log_error("%s", q->err.message);
    q->audit->jobs--;
    q->fn(q->data, failed ? NULL : &q->page, failed ? &q->err : NULL);
    for (size_t i = 0; i < q->n_matches; i++)
        free(q->matches[i].text);
    strbuf_done(&q->page.text);
    free(q->path);
    free(q);
}

static void on_chained(struct audit_waiter *w)
{
    struct query *q = container_of(w, struct query, waiter);
    if (w->seq > q->audit->head.seq)
        error_set(&q->err, ERROR_UNAVAILABLE, 0, "the audit's database does not take records");
    q->page.head = q->audit->head.seq;
    if (error_is_set(&q->err))
        loop_defer(q->audit->loop, query_done, q);
    else
        loop_work(q->audit->loop, query_work, query_done, q);
}

void audit_query(struct audit *a, const struct audit_filter *f, audit_page_fn fn, void *data)
{
    struct query *q = new0(struct query);
    *q = (struct query){.audit = a,
                        .path = xstrdup(store_path(a->store)),
                        .since = f->since,
                        .until = f->until ? f->until : INT64_MAX,
                        .from_ns = f->from_ns,
                        .to_ns = f->to_ns,
                        .limit = f->limit && f->limit < AUDIT_PAGE_RECORDS ? f->limit
                                                                           : AUDIT_PAGE_RECORDS,
                        .newest_first = f->newest_first,
                        .fn = fn,
                        .data = data};
    const struct {
        const char *name, *value;
    } filters[] = {{"kind", f->kind},        {"key", f->key},         {"call", f->call_id},
                   {"action", f->action_id}, {"sandbox", f->sandbox}, {"exec", f->exec},
                   {"tool", f->tool},        {"outcome", f->outcome}};
    static_assert(ELEMENTS(filters) <= FILTERS_MAX, "room for every filter");
    for (size_t i = 0; i < ELEMENTS(filters); i++)
        add_match(q, filters[i].name, filters[i].value);
    strbuf_init(&q->page.text, 2 * PAGE_BYTES);
    q->page.next = f->newest_first ? q->until : f->since;
    q->waiter = (struct audit_waiter){.seq = a->seq, .on_chained = on_chained};
    a->jobs++;
    audit_wait(a, &q->waiter);
}
