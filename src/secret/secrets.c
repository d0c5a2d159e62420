/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/secrets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/digits.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "secret/source.h"

#define ROW_MAX        (4 * SECRET_SEALED_MAX)
#define WRITE_AGAIN_MS 1000

struct entry {
    struct list node;
    struct secret secret;
    bool unwritten; /* its row has an older value */
};

struct secrets {
    struct store *store;
    struct list all; /* the operator's first, then in the order they came */
    struct list leftovers;
    struct loop_timer again;
    bool stopped;
    struct pair_host *allowed;
    size_t n_allowed;
    bool has_key;
    uint8_t public_key[SEAL_KEY_SIZE];
    void (*on_changed)(void *data, const char *owner, const char *name);
    void *changed_data;
};

/* --- one secret */

char *secret_seal(const struct pair *p, const uint8_t public_key[SEAL_KEY_SIZE])
{
    struct strbuf text = STRBUF_INIT(PAIR_TEXT_MAX);
    _cleanup_free_ uint8_t *sealed = NULL;
    int r = pair_format(p, &text);
    if (r >= 0) {
        sealed = xcalloc(1, text.len + SEAL_OVERHEAD);
        r = seal_close(public_key, text.data, text.len, sealed);
    }
    char *out = r < 0 ? NULL : base64_encode(sealed, text.len + SEAL_OVERHEAD, NULL);
    explicit_bzero(text.data, text.len);
    strbuf_done(&text);
    return out;
}

static void entry_free(struct entry *e)
{
    list_remove(&e->node);
    free(e->secret.name);
    free(e->secret.owner);
    pair_done(&e->secret.pair);
    free(e->secret.sealed);
    free(e);
}

static struct entry *entry_new(struct secrets *s, const char *owner, const char *name)
{
    struct entry *e = new0(struct entry);
    e->secret.name = xstrdup(name);
    e->secret.owner = owner ? xstrdup(owner) : NULL;
    list_append(&s->all, &e->node);
    return e;
}

static int entry_set_sealed(struct entry *e, const char *base64, struct error *err)
{
    char *data = NULL;
    size_t len = 0;
    int r = base64_decode(base64, strlen(base64), &data, &len);
    if (r < 0 || len <= SEAL_OVERHEAD || len > SECRET_SEALED_MAX) {
        free(data);
        return error_set(err, ERROR_INVALID, 0, "the secret '%s' is not sealed", e->secret.name);
    }
    free(e->secret.sealed);
    e->secret.sealed = (uint8_t *)data;
    e->secret.sealed_len = len;
    return 0;
}

/* owner NULL means the operator's. */
static bool is_owned_by(const struct secret *s, const char *owner)
{
    return owner && s->owner ? strcmp(s->owner, owner) == 0 : owner == s->owner;
}

static struct entry *find_entry(const struct secrets *s, const char *owner, const char *name)
{
    list_for_each(e, &s->all, struct entry, node) {
        if (strcmp(e->secret.name, name) == 0 && is_owned_by(&e->secret, owner))
            return e;
    }
    return NULL;
}

/* The operator's come first, so that a caller cannot put its own in place of one that others
 * rely on. */
const struct secret *secrets_find(const struct secrets *s, const char *owner, const char *name)
{
    const struct entry *e = find_entry(s, NULL, name);
    e = e ? e : find_entry(s, owner, name);
    return e ? &e->secret : NULL;
}

/* --- as JSON */

static json_t *hosts_to_json(const struct pair *p)
{
    json_t *list = json_array();
    char host[PAIR_HOST_SIZE];
    for (size_t i = 0; i < p->n_hosts; i++) {
        pair_format_host(&p->hosts[i], host);
        json_array_append_new(list, json_string(host));
    }
    return list;
}

json_t *secret_to_json(const struct secret *s)
{
    return json_pack("{s:s, s:o, s:b}", "name", s->name, "hosts", hosts_to_json(&s->pair), "own",
                     s->owner != NULL);
}

json_t *secrets_to_json(const struct secrets *s, const char *owner)
{
    json_t *list = json_array();
    list_for_each(e, &s->all, struct entry, node) {
        if (!e->secret.owner || is_owned_by(&e->secret, owner))
            json_array_append_new(list, secret_to_json(&e->secret));
    }
    return list;
}

/* --- rows */

/* Owners have no spaces in them, and names of secrets neither. */
static char *row_key(const struct secret *s)
{
    return xasprintf("%s %s", s->owner, s->name);
}

static char *row_format(const struct secret *s)
{
    struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_free_ char *sealed = base64_encode(s->sealed, s->sealed_len, NULL);
    _cleanup_json_ json_t *row =
        json_pack("{s:o, s:s}", "hosts", hosts_to_json(&s->pair), "sealed", sealed);
    json_format(row, &b);
    return strbuf_steal(&b);
}

static int row_parse(struct entry *e, const char *body, size_t len, struct error *err)
{
    _cleanup_json_ json_t *row = json_parse_object(body, len, err);
    _cleanup_strv_ char **hosts = NULL;
    const char *sealed = NULL;
    if (!row)
        return -EINVAL;
    int r = json_member_strv(row, "hosts", PAIR_HOSTS_MAX, &hosts, err);
    if (r < 0)
        return r;
    r = json_member_string(row, "sealed", &sealed, err);
    if (r < 0)
        return r;
    for (char **h = hosts; h && *h; h++) {
        r = pair_add_host(&e->secret.pair, *h, err);
        if (r < 0)
            return r;
    }
    return entry_set_sealed(e, sealed ? sealed : "", err);
}

static void tell_changed(struct secrets *s, const char *owner, const char *name)
{
    if (s->on_changed)
        s->on_changed(s->changed_data, owner, name);
}

/* --- rows that cannot be written
 *
 * What was added and cannot be recorded never was. A removal or a replacement holds all the same,
 * and is written again until it would hold after a restart too. */

struct leftover {
    struct list node; /* secrets->leftovers */
    char *key;        /* of a row that is to go */
};

static void leftover_free(struct leftover *l)
{
    list_remove(&l->node);
    free(l->key);
    free(l);
}

static struct entry *find_row(const struct secrets *s, const char *key)
{
    list_for_each(e, &s->all, struct entry, node) {
        _cleanup_free_ char *own = e->secret.owner ? row_key(&e->secret) : NULL;
        if (own && strcmp(own, key) == 0)
            return e;
    }
    return NULL;
}

static void write_later(struct secrets *s)
{
    if (!s->stopped)
        loop_timer_start(&s->again, WRITE_AGAIN_MS);
}

struct change {
    struct secrets *secrets;
    char *key;
    bool added;
    store_done_fn on_durable;
    void *data;
};

static struct change *change_new(struct secrets *s, const char *key, bool added,
                                 store_done_fn on_durable, void *data)
{
    struct change *c = new0(struct change);
    *c = (struct change){s, xstrdup(key), added, on_durable, data};
    return c;
}

static void change_end(struct change *c, const struct error *err)
{
    if (c->on_durable)
        c->on_durable(c->data, err);
    free(c->key);
    free(c);
}

/* The entry is looked for by its key, because it may have been replaced or removed while the row
 * was written. */
static void on_put(void *data, const struct error *err)
{
    struct change *c = data;
    struct secrets *s = c->secrets;
    struct entry *e = err ? find_row(s, c->key) : NULL;
    if (e && c->added) {
        _cleanup_free_ char *owner = xstrdup(e->secret.owner), *name = xstrdup(e->secret.name);
        entry_free(e);
        tell_changed(s, owner, name);
    } else if (e) {
        e->unwritten = true;
        write_later(s);
    }
    change_end(c, err);
}

/* The change carries the key of the row and not the entry, which may be gone when the row is
 * written. */
static void put_row(struct secrets *s, struct entry *e, bool added, store_done_fn on_durable,
                    void *data)
{
    _cleanup_free_ char *key = row_key(&e->secret), *row = row_format(&e->secret);
    e->unwritten = false;
    store_put(s->store, STORE_SECRET, key, row, strlen(row), on_put,
              change_new(s, key, added, on_durable, data));
}

/* A row that could not be deleted would come back at the next start as a secret that works. It
 * is kept in mind and deleted later, unless a new secret has taken the row over. */
static void on_deleted(void *data, const struct error *err)
{
    struct change *c = data;
    if (err && !find_row(c->secrets, c->key)) {
        struct leftover *l = new0(struct leftover);
        l->key = xstrdup(c->key);
        list_append(&c->secrets->leftovers, &l->node);
        write_later(c->secrets);
    }
    change_end(c, err);
}

static void delete_row(struct secrets *s, const char *key, store_done_fn on_durable, void *data)
{
    store_delete(s->store, STORE_SECRET, key, on_deleted,
                 change_new(s, key, false, on_durable, data));
}

static void on_again(void *data)
{
    struct secrets *s = data;
    list_for_each_safe(l, &s->leftovers, struct leftover, node) {
        if (!find_row(s, l->key)) /* else a newer one has that row */
            delete_row(s, l->key, NULL, NULL);
        leftover_free(l);
    }
    list_for_each(e, &s->all, struct entry, node)
        if (e->unwritten)
            put_row(s, e, false, NULL, NULL);
}

struct loading {
    struct secrets *secrets;
    struct error *err;
    bool failed;
};

static void load_row(void *data, const char *key, const char *body, size_t len)
{
    struct loading *l = data;
    const char *space = strchr(key, ' ');
    if (l->failed)
        return;
    _cleanup_free_ char *owner = xstrndup(key, space ? (size_t)(space - key) : 0);
    struct entry *e = entry_new(l->secrets, owner, space ? space + 1 : key);
    if (row_parse(e, body, len, l->err) >= 0)
        return;
    error_prefix(l->err, "secret '%.100s' in the state database", key);
    l->failed = true;
}

/* --- opening */

/* The secrets themselves were sealed before this process existed; here only hosts are read from
 * the configuration again. Both lists have the same order and names, or the hand-over is broken. */
static int add_operators(struct secrets *s, const struct secrets_config *c, struct error *err)
{
    char **sealed = c->sealed;
    for (char **item = c->pairs; item && *item; item++, sealed++) {
        size_t len = strcspn(*item, "=") + 1;
        if (!sealed || !*sealed || strncmp(*sealed, *item, len) != 0)
            return error_set(err, ERROR_INTERNAL, 0, "a secret was not handed over");
        _cleanup_free_ char *name = xstrndup(*item, len - 1);
        struct entry *e = entry_new(s, NULL, name);
        int r = source_read_hosts(*item, &e->secret.pair, err);
        if (r < 0)
            return r;
        r = entry_set_sealed(e, *sealed + len, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_allowed(struct secrets *s, char *const *hosts, struct error *err)
{
    s->allowed = xcalloc(strv_length(hosts) + 1, sizeof(*s->allowed));
    for (; hosts && *hosts; hosts++)
        if (pair_parse_host(*hosts, &s->allowed[s->n_allowed++]) < 0)
            return error_set(err, ERROR_INVALID, 0, "secret_hosts: '%s' is not a host", *hosts);
    return 0;
}

static int read_public_key(struct secrets *s, const char *hex, struct error *err)
{
    if (!hex)
        return 0;
    s->has_key = strlen(hex) == 2 * SEAL_KEY_SIZE;
    for (size_t i = 0; s->has_key && i < SEAL_KEY_SIZE; i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        s->has_key = high >= 0 && low >= 0;
        s->public_key[i] = (uint8_t)(high << 4 | low);
    }
    return s->has_key
               ? 0
               : error_set(err, ERROR_INTERNAL, 0, "the warden's key for secrets is malformed");
}

struct secrets *secrets_open(const struct secrets_options *o, struct error *err)
{
    struct secrets *s = new0(struct secrets);
    struct loading l = {.secrets = s, .err = err};
    s->store = o->store;
    list_init(&s->all);
    list_init(&s->leftovers);
    loop_timer_init(&s->again, o->loop, on_again, s);
    if (read_public_key(s, o->config.public_key, err) < 0 ||
        read_allowed(s, o->config.hosts, err) < 0 || add_operators(s, &o->config, err) < 0 ||
        (s->store && store_load(s->store, STORE_SECRET, load_row, &l, err) < 0) || l.failed) {
        secrets_free(s);
        return NULL;
    }
    return s;
}

void secrets_stop(struct secrets *s)
{
    s->stopped = true;
    loop_timer_close(&s->again, NULL, NULL);
}

void secrets_free(struct secrets *s)
{
    if (!s)
        return;
    list_for_each_safe(e, &s->all, struct entry, node)
        entry_free(e);
    list_for_each_safe(l, &s->leftovers, struct leftover, node)
        leftover_free(l);
    free(s->allowed);
    free(s);
}

/* --- changes */

void secrets_on_changed(struct secrets *s,
                        void (*on_changed)(void *data, const char *owner, const char *name),
                        void *data)
{
    s->on_changed = on_changed;
    s->changed_data = data;
}

static bool is_allowed(const struct secrets *s, const struct pair_host *h)
{
    for (size_t i = 0; i < s->n_allowed; i++)
        if (pair_host_covers(&s->allowed[i], h))
            return true;
    return false;
}

int secrets_check_put(const struct secrets *s, const char *owner, const char *name,
                      const struct pair *p, struct error *err)
{
    size_t n = 0;
    if (!s->store || !s->has_key)
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "this daemon keeps no state, so it has no "
                         "secrets of keys");
    if (pair_check_name(name, err) < 0)
        return -EINVAL;
    if (find_entry(s, NULL, name))
        return error_set(err, ERROR_CONFLICT, 0, "'%s' is a secret of the operator's", name);
    for (size_t i = 0; i < p->n_hosts; i++) {
        char host[PAIR_HOST_SIZE];
        pair_format_host(&p->hosts[i], host);
        if (!is_allowed(s, &p->hosts[i]))
            return error_set(err, ERROR_DENIED, 0,
                             "the operator allows no secret for '%s' (secret_hosts)", host);
    }
    list_for_each(e, &s->all, struct entry, node)
        n += is_owned_by(&e->secret, owner);
    if (n >= SECRETS_PER_OWNER_MAX && !find_entry(s, owner, name))
        return error_set(err, ERROR_LIMIT, 0, "a key has at most %d secrets",
                         SECRETS_PER_OWNER_MAX);
    return 0;
}

int secrets_put(struct secrets *s, const char *owner, const char *name, const struct pair *p,
                store_done_fn on_durable, void *data, struct error *err)
{
    int r = secrets_check_put(s, owner, name, p, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *sealed = secret_seal(p, s->public_key);
    if (!sealed)
        return error_set(err, ERROR_INTERNAL, 0, "seal the secret");
    struct entry *e = find_entry(s, owner, name);
    bool added = !e;
    if (added)
        e = entry_new(s, owner, name);
    memcpy(e->secret.pair.hosts, p->hosts, sizeof(p->hosts));
    e->secret.pair.n_hosts = p->n_hosts;
    r = entry_set_sealed(e, sealed, err);
    if (r < 0)
        return r;
    put_row(s, e, added, on_durable, data);
    tell_changed(s, owner, name); /* a sandbox may name one that was deleted, and is there again */
    return 0;
}

int secrets_remove(struct secrets *s, const char *owner, const char *name, store_done_fn on_durable,
                   void *data, struct error *err)
{
    struct entry *e = find_entry(s, owner, name);
    if (!e)
        return error_set(err, ERROR_NOT_FOUND, 0, "no secret '%s' of yours", name);
    _cleanup_free_ char *key = row_key(&e->secret), *copy = xstrdup(e->secret.name);
    entry_free(e);
    delete_row(s, key, on_durable, data);
    tell_changed(s, owner, copy);
    return 0;
}
