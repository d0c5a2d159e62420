/* SPDX-License-Identifier: Apache-2.0 */
#include "api/idempotency.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "store/store.h"

#define KEY_MAX     255
#define NAME_BYTES  12 /* of a hash: long enough that two keys never meet by chance */
#define ANSWERS_MAX (256 * 1024 * 1024) /* bytes of remembered answers: no new keys beyond */
#define SHARE_MAX   (ANSWERS_MAX / 8)   /* of these, the answers of one API key */

/* What one API key has of the table. Callers without a key are one, whom only the whole bounds:
 * where there are keys, these are the holders of the operator's token. */
struct share {
    size_t entries, bytes;
    char owner[];
};

struct waiting {
    struct list node;
    struct api_request *req;
};

struct idempotency {
    struct list node; /* in table->running, then in table->order */
    struct idempotency_table *table;
    struct share *share;
    struct api_request *req; /* the one that does the work, until its answer is known */
    char *key;
    unsigned char digest[32];
    char name[NAME_BYTES * 2 + 1];
    bool done;
    int64_t expires_ms; /* monotonic; its row has the real time, because that outlives us */
    int status;
    char *body;
    size_t len;
    struct list waiting;
};

struct idempotency_table {
    struct store *store;
    struct map *entries;
    struct map *shares;  /* by owner, of those that have entries */
    struct list running; /* not answered yet */
    struct list order;   /* answered, first to expire first */
    size_t max, max_per_key, bytes;
    uint64_t keep_ms;
};

static void share_leave(struct idempotency *e)
{
    struct share *s = e->share;
    s->bytes -= e->len;
    if (--s->entries)
        return;
    map_remove(e->table->shares, s->owner);
    free(s);
}

static void entry_free(struct idempotency *e)
{
    map_remove(e->table->entries, e->key);
    list_remove(&e->node);
    e->table->bytes -= e->len;
    share_leave(e);
    free(e->key);
    free(e->body);
    free(e);
}

void idempotency_table_free(struct idempotency_table *t)
{
    if (!t)
        return;
    while (!list_empty(&t->order))
        entry_free(container_of(t->order.next, struct idempotency, node));
    while (!list_empty(&t->running))
        entry_free(container_of(t->running.next, struct idempotency, node));
    map_free(t->entries);
    map_free(t->shares);
    free(t);
}

/* Comes with each request that has a key, so that no timer is needed: an entry that is over time
 * takes room only until the next one wants some. */
static void expire_entries(struct idempotency_table *t)
{
    int64_t now = clock_mono_ms();
    while (!list_empty(&t->order)) {
        struct idempotency *e = container_of(t->order.next, struct idempotency, node);
        if (e->expires_ms > now)
            break;
        if (t->store)
            store_delete(t->store, STORE_IDEMPOTENCY, e->key, NULL, NULL);
        entry_free(e);
    }
}

static void replay_answer(struct api_request *req, const struct idempotency *e)
{
    if (req->http)
        http_response_header(req->http, "Idempotency-Replayed", "true");
    api_reply_text(req, e->status, "application/json", e->body, e->len);
}

static void on_waiting_abort(struct api_request *req)
{
    struct waiting *w = req->state;
    list_remove(&w->node);
    free(w);
}

/* A name that the same request gets again after a restart, made from the key (with owner and route
 * in it) and the body: by it, work that an earlier control plane began can be found. */
static void name_fill(struct idempotency *e)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(SIZE_MAX);
    strbuf_puts(&b, e->key);
    strbuf_append(&b, e->digest, sizeof(e->digest));
    EVP_Digest(b.data, b.len, hash, NULL, EVP_sha256(), NULL);
    for (size_t i = 0; i < NAME_BYTES; i++)
        snprintf(e->name + 2 * i, 3, "%02x", hash[i]);
}

const char *idempotency_name(const struct idempotency *e)
{
    return e->name;
}

static struct share *share_enter(struct idempotency_table *t, const char *owner)
{
    struct share *s = map_find(t->shares, owner);
    if (!s) {
        s = xcalloc(1, sizeof(*s) + strlen(owner) + 1);
        strcpy(s->owner, owner);
        map_put(t->shares, owner, s);
    }
    s->entries++;
    return s;
}

/* The key begins with its owner's line. */
static struct idempotency *entry_new(struct idempotency_table *t, const char *key,
                                     const unsigned char digest[32])
{
    struct idempotency *e = new0(struct idempotency);
    _cleanup_free_ char *owner = xstrndup(key, strcspn(key, "\n"));
    e->table = t;
    e->share = share_enter(t, owner);
    e->key = xstrdup(key);
    memcpy(e->digest, digest, 32);
    name_fill(e);
    list_init(&e->waiting);
    list_append(&t->running, &e->node);
    map_put(t->entries, key, e);
    return e;
}

static int check_share(const struct idempotency_table *t, const char *owner, struct error *err)
{
    const struct share *s = *owner ? map_find(t->shares, owner) : NULL;
    if (s && s->entries >= t->max_per_key)
        return error_set(err, ERROR_LIMIT, 0,
                         "this API key has %zu idempotency keys that are still remembered "
                         "(max_idempotency_keys_per_key)",
                         s->entries);
    if (s && s->bytes >= SHARE_MAX)
        return error_set(err, ERROR_LIMIT, 0,
                         "the remembered answers to this API key are over %d bytes together",
                         SHARE_MAX);
    return 0;
}

static int check_key(struct idempotency_table *t, const struct idempotency *e, const char *owner,
                     const char *key, const unsigned char digest[32], struct error *err)
{
    /* An empty one is a client's variable that was not set: all of its calls would be one. */
    if (!*key || strlen(key) > KEY_MAX)
        return error_set(err, ERROR_INVALID, 0, "Idempotency-Key has 1 to %d bytes", KEY_MAX);
    if (e && memcmp(e->digest, digest, 32) != 0)
        return error_set(err, ERROR_CONFLICT, 0,
                         "this Idempotency-Key was used with another request");
    if (!e && (map_count(t->entries) >= t->max || t->bytes >= ANSWERS_MAX))
        return error_set(err, ERROR_LIMIT, 0,
                         "too many idempotency keys are remembered "
                         "(max_idempotency_keys)");
    return e ? 0 : check_share(t, owner, err);
}

/* Owner and route are part of the key: the keys of two API keys never meet, and one that was used
 * for a create says nothing about an exec. The body's digest tells a repetition from another
 * request that has the key by mistake. */
bool idempotency_begin(struct idempotency_table *t, struct api_request *req, const char *body,
                       size_t len)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct error err = {0};
    if (!(req->route->flags & ROUTE_IDEMPOTENT))
        return true;
    const char *given = http_request_header(req->http, "Idempotency-Key");
    if (!given)
        return true;
    expire_entries(t);
    _cleanup_free_ char *key = xasprintf("%s\n%s\n%s", req->owner, req->route->path, given);
    EVP_Digest(body, len, digest, NULL, EVP_sha256(), NULL);
    struct idempotency *e = map_find(t->entries, key);
    if (check_key(t, e, req->owner, given, digest, &err) < 0) {
        api_fail(req, &err);
        return false;
    }
    if (!e) {
        req->idempotency = entry_new(t, key, digest);
        req->idempotency->req = req;
        return true;
    }
    if (e->done) {
        replay_answer(req, e);
    } else {
        /* The same request again, while the first one is still at work: it gets the same answer,
         * and the work is done once. */
        struct waiting *w = new0(struct waiting);
        w->req = req;
        req->state = w;
        list_append(&e->waiting, &w->node);
        req->on_abort = on_waiting_abort;
    }
    return false;
}

/* --- answers on record */

/* A row: when it expires, the request's digest, the status, then the body. */
struct row {
    int64_t expires_ns;
    unsigned char digest[32];
    int32_t status;
    uint32_t reserved;
};

static void set_body(struct idempotency *e, const char *body, size_t len)
{
    e->body = xcalloc(1, len + 1);
    memcpy(e->body, body, len);
    e->len = len;
    e->table->bytes += len;
    e->share->bytes += len;
}

static void set_done(struct idempotency *e)
{
    e->done = true;
    list_remove(&e->node);
    list_append(&e->table->order, &e->node);
}

struct loading {
    struct idempotency_table *table;
    char **expired; /* keys of rows; the store cannot be called while it is read */
    size_t n_expired;
};

/* Rows that have expired take no place: one that has not must be found again. */
static void load_row(void *data, const char *key, const char *body, size_t len)
{
    struct loading *l = data;
    struct idempotency_table *t = l->table;
    struct row row;
    if (len < sizeof(row))
        return;
    memcpy(&row, body, sizeof(row));
    int64_t left_ms = (row.expires_ns - clock_real_ns()) / 1000000;
    if (left_ms <= 0) {
        l->expired = xrealloc(l->expired, (l->n_expired + 1) * sizeof(*l->expired));
        l->expired[l->n_expired++] = xstrdup(key);
        return;
    }
    if (map_count(t->entries) >= t->max || t->bytes >= ANSWERS_MAX)
        return;
    struct idempotency *e = entry_new(t, key, row.digest);
    left_ms = left_ms > (int64_t)t->keep_ms ? (int64_t)t->keep_ms : left_ms;
    e->expires_ms = clock_mono_ms() + left_ms;
    e->status = row.status;
    set_body(e, body + sizeof(row), len - sizeof(row));
    set_done(e);
}

static int by_expiry(const void *a, const void *b)
{
    const struct idempotency *x = *(struct idempotency *const *)a;
    const struct idempotency *y = *(struct idempotency *const *)b;
    return (x->expires_ms > y->expires_ms) - (x->expires_ms < y->expires_ms);
}

/* Rows come in the order of their keys. */
static void sort_loaded(struct idempotency_table *t)
{
    size_t n = 0;
    _cleanup_free_ struct idempotency **all = xcalloc(map_count(t->entries) + 1, sizeof(*all));
    list_for_each(e, &t->order, struct idempotency, node)
        all[n++] = e;
    qsort(all, n, sizeof(*all), by_expiry);
    for (size_t i = 0; i < n; i++) {
        list_remove(&all[i]->node);
        list_append(&t->order, &all[i]->node);
    }
}

struct idempotency_table *idempotency_table_new(size_t max, size_t max_per_key, uint64_t keep_ms,
                                                struct store *store)
{
    struct idempotency_table *t = new0(struct idempotency_table);
    t->store = store;
    t->entries = map_new();
    t->shares = map_new();
    t->max = max;
    t->max_per_key = max_per_key < (max + 1) / 2 ? max_per_key : (max + 1) / 2;
    t->keep_ms = keep_ms;
    list_init(&t->running);
    list_init(&t->order);
    if (store) {
        struct loading l = {.table = t};
        struct error err = {0};
        if (store_load(t->store, STORE_IDEMPOTENCY, load_row, &l, &err) < 0)
            log_error("idempotency keys cannot be read: %s", err.message);
        sort_loaded(t);
        for (size_t i = 0; i < l.n_expired; i++) {
            store_delete(t->store, STORE_IDEMPOTENCY, l.expired[i], NULL, NULL);
            free(l.expired[i]);
        }
        free(l.expired);
    }
    return t;
}

/* A failure that may pass, or a person's answer that is still to come. */
static bool is_passing(int status)
{
    return status >= 500 || status == 429 || status == 202;
}

struct finishing {
    struct idempotency *entry;
    void (*answer)(struct api_request *req, int status, const char *body, size_t len);
    struct api_request *req;
};

/* The answer is on record before any client has it: a client that got it and asks again after a
 * kill -9 gets the same. Where the disk is full it is kept in memory alone, which is better than to
 * fail what has been done already. */
static void on_recorded(void *data, const struct error *err)
{
    struct finishing f = *(struct finishing *)data;
    struct idempotency *e = f.entry;
    free(data);
    if (err)
        log_warn("an idempotency key is kept in memory only: %s", err->message);
    set_done(e);
    while (!list_empty(&e->waiting)) {
        struct waiting *w = container_of(e->waiting.next, struct waiting, node);
        struct api_request *req = w->req;
        list_remove(&w->node);
        free(w);
        req->on_abort = NULL;
        replay_answer(req, e);
    }
    f.answer(f.req, e->status, e->body, e->len);
    /* Not remembered: the next try is a new one. */
    if (is_passing(e->status))
        entry_free(e);
}

void idempotency_finish(struct idempotency *e, int status, const char *body, size_t len,
                        void (*answer)(struct api_request *req, int status, const char *body,
                                       size_t len),
                        struct api_request *req)
{
    struct idempotency_table *t = e->table;
    struct finishing *f = new0(struct finishing);
    *f = (struct finishing){e, answer, req};
    e->req = NULL;
    e->status = status;
    e->expires_ms = clock_mono_ms() + (int64_t)t->keep_ms;
    set_body(e, body, len);
    if (!t->store || is_passing(status)) {
        on_recorded(f, NULL);
        return;
    }
    struct row row = {.expires_ns = clock_real_ns() + (int64_t)t->keep_ms * 1000000,
                      .status = status};
    memcpy(row.digest, e->digest, sizeof(row.digest));
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(sizeof(row) + len);
    strbuf_append(&b, &row, sizeof(row));
    strbuf_append(&b, body, len);
    store_put(t->store, STORE_IDEMPOTENCY, e->key, b.data, b.len, on_recorded, f);
}

/* --- the end of an API key */

/* The client's connection is gone already, so that nothing is left but the work itself. The entry
 * goes before the work is stopped: stopping it must not record an answer. */
static void entry_stop(struct idempotency *e)
{
    struct api_request *req = e->req;
    while (!list_empty(&e->waiting)) {
        struct waiting *w = container_of(e->waiting.next, struct waiting, node);
        api_stop(w->req);
    }
    entry_free(e);
    req->idempotency = NULL;
    api_stop(req);
}

void idempotency_key_ended(struct idempotency_table *t, const char *owner)
{
    list_for_each_safe(e, &t->running, struct idempotency, node) {
        if (e->req && strcmp(e->share->owner, owner) == 0)
            entry_stop(e);
    }
}
