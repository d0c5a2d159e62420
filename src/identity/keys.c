/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/keys.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "identity/keys-internal.h"
#include "store/store.h"

#define ID_PREFIX    "key-"
#define ID_RANDOM    12
#define ROW_MAX      4096
#define NS_PER_S     1000000000LL
#define LIFETIME_MAX (100LL * 366 * 24 * 3600)
/* The wall clock can be set: look again at least so often whether a key has expired by it. */
#define LOOK_AGAIN_MS  60000
#define WRITE_AGAIN_MS 1000

struct keys {
    struct keys_options options;
    struct list all; /* oldest first */
    struct map *by_id, *by_digest;
    struct loop_timer expiry;
    void (*on_ended)(void *data, const char *id);
    void *ended_data;
};

/* --- the table */

bool key_is_live(const struct key *key)
{
    return !key->revoked_ns && (!key->expires_ns || key->expires_ns > clock_seen_ns());
}

static void insert_by_age(struct keys *k, struct key_entry *e)
{
    struct list *before = &k->all;
    list_for_each(other, &k->all, struct key_entry, node) {
        if (other->key.created_ns <= e->key.created_ns)
            continue;
        before = &other->node;
        break;
    }
    list_append(before, &e->node);
    map_put(k->by_id, e->key.id, e);
    map_put(k->by_digest, e->digest, e);
}

static void entry_free(struct keys *k, struct key_entry *e)
{
    list_remove(&e->node);
    map_remove(k->by_id, e->key.id);
    map_remove(k->by_digest, e->digest);
    free(e);
}

static struct key_entry *find_entry(const struct keys *k, const char *id)
{
    return k ? map_find(k->by_id, id) : NULL;
}

const struct key *keys_find(const struct keys *k, const char *id)
{
    const struct key_entry *e = find_entry(k, id);
    return e ? &e->key : NULL;
}

bool keys_any(const struct keys *k)
{
    return k && !list_empty(&k->all);
}

json_t *keys_to_json(const struct keys *k)
{
    json_t *list = json_array();
    if (k)
        list_for_each(e, &k->all, struct key_entry, node)
            json_array_append_new(list, key_to_json(&e->key));
    return list;
}

/* --- the end of a key */

static void tell_ended(struct keys *k, const struct key_entry *e)
{
    if (k->on_ended)
        k->on_ended(k->ended_data, e->key.id);
}

static void write_again(struct keys *k, struct key_entry *e);

/* One timer serves expiries and rows that could not be written. It never sleeps longer than
 * LOOK_AGAIN_MS, because the wall clock may be set while it does. */
static void schedule_expiry(struct keys *k)
{
    int64_t now = clock_seen_ns(), next = INT64_MAX;
    list_for_each(e, &k->all, struct key_entry, node) {
        if (e->unwritten)
            next = now + WRITE_AGAIN_MS * 1000000LL;
    }
    list_for_each(e, &k->all, struct key_entry, node)
        if (e->key.expires_ns && !e->told && !e->key.revoked_ns && e->key.expires_ns < next)
            next = e->key.expires_ns;
    if (next == INT64_MAX) {
        loop_timer_stop(&k->expiry);
        return;
    }
    int64_t ms = next <= now ? 1 : (next - now) / 1000000 + 1;
    loop_timer_start(&k->expiry, (uint64_t)(ms < LOOK_AGAIN_MS ? ms : LOOK_AGAIN_MS));
}

/* Keys leave the list only when another one is added (make_room), never from inside tell_ended():
 * the loop may go on from the same entry. */
static void on_expiry(void *data)
{
    struct keys *k = data;
    list_for_each(e, &k->all, struct key_entry, node) {
        if (e->unwritten)
            write_again(k, e);
        if (e->told || key_is_live(&e->key))
            continue;
        e->told = true;
        if (!e->key.revoked_ns) {
            /* On record like a revocation: no clock that is set back brings it to life again. */
            log_info("key expired id=%s", e->key.id);
            e->key.revoked_ns = e->key.expires_ns;
            e->unwritten = true;
            write_again(k, e);
        }
        tell_ended(k, e);
    }
    schedule_expiry(k);
}

void keys_on_ended(struct keys *k, void (*on_ended)(void *data, const char *id), void *data)
{
    if (!k)
        return;
    k->on_ended = on_ended;
    k->ended_data = data;
}

/* --- opening */

struct loading {
    struct keys *keys;
    struct error *err;
    bool failed;
};

static void load_row(void *data, const char *id, const char *body, size_t len)
{
    struct loading *l = data;
    struct key_entry *e = new0(struct key_entry);
    if (l->failed || key_entry_from_row(e, id, body, len, l->err) < 0) {
        if (!l->failed)
            error_prefix(l->err, "key '%.60s' in the state database", id);
        l->failed = true;
        free(e);
        return;
    }
    insert_by_age(l->keys, e);
}

struct keys *keys_open(const struct keys_options *o, struct error *err)
{
    struct keys *k = new0(struct keys);
    k->options = *o;
    list_init(&k->all);
    k->by_id = map_new();
    k->by_digest = map_new();
    struct loading l = {.keys = k, .err = err};
    if (store_load(o->store, STORE_KEY, load_row, &l, err) < 0 || l.failed) {
        keys_free(k);
        return NULL;
    }
    loop_timer_init(&k->expiry, o->loop, on_expiry, k);
    on_expiry(k);
    return k;
}

void keys_stop(struct keys *k)
{
    if (k)
        loop_timer_close(&k->expiry, NULL, NULL);
}

void keys_free(struct keys *k)
{
    if (!k)
        return;
    while (!list_empty(&k->all))
        entry_free(k, container_of(k->all.next, struct key_entry, node));
    map_free(k->by_id);
    map_free(k->by_digest);
    free(k);
}

/* --- who it is */

/* The lookup by digest decides already; the comparison in constant time keeps that true if the
 * map should ever compare less than the whole digest. */
int keys_identify(struct keys *k, const char *secret, struct identity *ret)
{
    char digest[KEY_DIGEST_SIZE];
    if (!keys_any(k))
        return -ENOENT;
    key_secret_hash(secret, digest);
    struct key_entry *e = map_find(k->by_digest, digest);
    if (!e || CRYPTO_memcmp(e->digest, digest, sizeof(digest)) != 0 || !key_is_live(&e->key))
        return -ENOENT;
    e->key.used_ns = clock_real_ns();
    *ret = (struct identity){.roles = e->key.roles, .authenticated = true};
    strcpy(ret->key, e->key.id);
    strcpy(ret->name, e->key.name);
    return 0;
}

int keys_check_live(const struct keys *k, const struct identity *who, struct error *err)
{
    const struct key_entry *e = identity_has_key(who) ? find_entry(k, who->key) : NULL;
    if (!identity_has_key(who) || (e && key_is_live(&e->key)))
        return 0;
    return error_set(err, ERROR_FORBIDDEN, 0, "the key '%s' that asked for this has ended",
                     who->name);
}

/* An owner whose key has lost its row still owns what it made. It gets the least role, and
 * keys_check_live() refuses it where a live key is needed. */
struct identity keys_identity_of(const struct keys *k, const char *owner)
{
    if (!*owner)
        return identity_local;
    if (strcmp(owner, IDENTITY_TOKEN) == 0)
        return identity_token;
    if (strcmp(owner, IDENTITY_WEBHOOK) == 0)
        return identity_webhook;
    const struct key *key = keys_find(k, owner);
    struct identity who = {.roles = key ? key->roles : ROLE_AGENT, .authenticated = true};
    snprintf(who.key, sizeof(who.key), "%s", owner);
    snprintf(who.name, sizeof(who.name), "%s", key ? key->name : "");
    return who;
}

static int64_t quota_or(int64_t own, int64_t fallback)
{
    return own == KEY_QUOTA_DEFAULT ? fallback : own;
}

struct key_quotas keys_quotas(const struct keys *k, const char *id)
{
    const struct key_entry *e = find_entry(k, id);
    if (!e)
        return (struct key_quotas){0};
    const struct key_quotas *own = &e->key.quotas, *fallback = &k->options.config.defaults;
    return (struct key_quotas){
        .max_sandboxes = quota_or(own->max_sandboxes, fallback->max_sandboxes),
        .max_execs = quota_or(own->max_execs, fallback->max_execs),
        .requests_per_minute = quota_or(own->requests_per_minute, fallback->requests_per_minute)};
}

int keys_admit(struct keys *k, const char *id, unsigned *ret_retry_s, struct error *err)
{
    struct key_entry *e = find_entry(k, id);
    if (!e)
        return 0;
    int64_t limit = keys_quotas(k, id).requests_per_minute;
    *ret_retry_s = key_rate_take(&e->rate, limit, clock_mono_ns());
    if (!*ret_retry_s)
        return 0;
    return error_set(err, ERROR_LIMIT, 0,
                     "key '%s' is over its %lld requests a minute (key_requests_per_minute)",
                     e->key.name, (long long)limit);
}

/* --- changing */

struct change {
    struct keys *keys;
    char id[IDENTITY_KEY_SIZE];
    bool added;
    keys_done_fn on_done;
    void *data;
};

/* What was added and cannot be recorded never was. A revocation or a rotation holds all the same,
 * and is written again until it would hold after a restart too. */
static void on_recorded(void *data, const struct error *err)
{
    struct change c = *(struct change *)data;
    free(data);
    struct key_entry *e = find_entry(c.keys, c.id);
    if (err && c.added && e) {
        entry_free(c.keys, e);
    } else if (err && e) {
        e->unwritten = true;
        schedule_expiry(c.keys);
    }
    if (c.on_done)
        c.on_done(c.data, err);
}

static void record_change(struct keys *k, const struct key_entry *e, bool added,
                          keys_done_fn on_done, void *data)
{
    struct change *c = new0(struct change);
    *c = (struct change){.keys = k, .added = added, .on_done = on_done, .data = data};
    strcpy(c->id, e->key.id);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *row = key_entry_to_row(e);
    json_format(row, &b);
    store_put(k->options.store, STORE_KEY, e->key.id, b.data, b.len, on_recorded, c);
    schedule_expiry(k);
}

static void write_again(struct keys *k, struct key_entry *e)
{
    e->unwritten = false;
    record_change(k, e, false, NULL, NULL);
}

/* Makes room by dropping the oldest row of a key that has ended. What such a key made keeps its
 * owner: an id is never given to a second key. */
static int make_room(struct keys *k, struct error *err)
{
    if (map_count(k->by_id) < k->options.config.max)
        return 0;
    list_for_each(e, &k->all, struct key_entry, node) {
        if (key_is_live(&e->key))
            continue;
        store_delete(k->options.store, STORE_KEY, e->key.id, NULL, NULL);
        entry_free(k, e);
        return 0;
    }
    return error_set(err, ERROR_LIMIT, 0, "there are %zu keys already (max_keys)",
                     k->options.config.max);
}

static int check_request(const struct keys *k, const struct key_request *req, struct error *err)
{
    int r = key_name_check(req->name, err);
    if (r < 0)
        return r;
    /* Rows are not refused for it: one of an earlier version may have the name. */
    if (strcmp(req->name, IDENTITY_STREAM) == 0)
        return error_field(err, "name", "the name '%s' is reserved: choose another one", req->name);
    list_for_each(e, &k->all, struct key_entry, node)
        if (key_is_live(&e->key) && strcmp(e->key.name, req->name) == 0)
            return error_set(err, ERROR_CONFLICT, 0, "key %s has the name '%s' already", e->key.id,
                             req->name);
    if (!req->roles || (req->roles & ~(unsigned)ROLES_ALL))
        return error_field(err, "roles", "a key needs at least one role");
    if (req->lifetime_s < 0 || req->lifetime_s > LIFETIME_MAX)
        return error_field(err, "expires_in_s", "a key may live from 1 to %lld seconds",
                           LIFETIME_MAX);
    return 0;
}

const struct key *keys_add(struct keys *k, const struct key_request *req,
                           char ret_secret[KEY_SECRET_SIZE], keys_done_fn on_done, void *data,
                           struct error *err)
{
    if (check_request(k, req, err) < 0 || make_room(k, err) < 0)
        return NULL;
    struct key_entry *e = new0(struct key_entry);
    random_id(stpcpy(e->key.id, ID_PREFIX), ID_RANDOM);
    strcpy(e->key.name, req->name);
    e->key.roles = req->roles;
    e->key.quotas = req->quotas;
    e->key.created_ns = clock_real_ns();
    if (req->lifetime_s)
        e->key.expires_ns = clock_seen_ns() + req->lifetime_s * NS_PER_S;
    key_secret_make(ret_secret);
    key_secret_hash(ret_secret, e->digest);
    insert_by_age(k, e);
    record_change(k, e, true, on_done, data);
    return &e->key;
}

static struct key_entry *find_live(struct keys *k, const char *id, struct error *err)
{
    struct key_entry *e = find_entry(k, id);
    if (!e)
        error_set(err, ERROR_NOT_FOUND, 0, "there is no key '%.60s'", id);
    else if (!key_is_live(&e->key))
        error_set(err, ERROR_CONFLICT, 0, "key %s has ended already", e->key.id);
    else
        return e;
    return NULL;
}

/* Without a live key that has the role admin, keys could only be changed in the state directory
 * of a stopped daemon. */
static bool is_last_admin(const struct keys *k, const struct key_entry *e)
{
    if (!(e->key.roles & ROLE_ADMIN))
        return false;
    list_for_each(other, &k->all, struct key_entry, node)
        if (other != e && (other->key.roles & ROLE_ADMIN) && key_is_live(&other->key))
            return false;
    return true;
}

int keys_revoke(struct keys *k, const char *id, bool keep_admin, keys_done_fn on_done, void *data,
                struct error *err)
{
    struct key_entry *e = find_live(k, id, err);
    if (!e)
        return -ENOENT;
    if (keep_admin && is_last_admin(k, e))
        return error_set(err, ERROR_CONFLICT, 0,
                         "%s is the last key with the role admin: add another one first", id);
    /* It holds from here on, before it is on record: a store that fails must not keep a revoked
     * key alive. */
    e->key.revoked_ns = clock_real_ns();
    e->told = true;
    record_change(k, e, false, on_done, data);
    tell_ended(k, e);
    return 0;
}

int keys_rotate(struct keys *k, const char *id, char ret_secret[KEY_SECRET_SIZE],
                keys_done_fn on_done, void *data, struct error *err)
{
    struct key_entry *e = find_live(k, id, err);
    if (!e)
        return -ENOENT;
    /* The old secret stops working at once. What still hangs on it is ended through on_ended, as
     * after a revocation. */
    map_remove(k->by_digest, e->digest);
    key_secret_make(ret_secret);
    key_secret_hash(ret_secret, e->digest);
    map_put(k->by_digest, e->digest, e);
    e->key.rotations++;
    record_change(k, e, false, on_done, data);
    tell_ended(k, e);
    return 0;
}
