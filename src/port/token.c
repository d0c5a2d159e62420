/* SPDX-License-Identifier: Apache-2.0 */
#include "port/token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "port/token-maker.h"
#include "store/store.h"

#define SECRET_BYTES 32
#define DIGEST_SIZE  65
#define ROW_MAX      65536
#define SECOND_NS    INT64_C(1000000000)
/* The wall clock can be set: look again at least so often whether a token has expired by it. */
#define LOOK_AGAIN_MS  60000
#define WRITE_AGAIN_MS 1000

enum secret_kind { SECRET_TOKEN, SECRET_LINK, SECRET_COOKIE, _SECRET_KIND_MAX };

/* One secret of a token; the map of all finds it by its digest. */
struct secret {
    struct entry *entry;
    char digest[DIGEST_SIZE];
    enum secret_kind kind;
    uint16_t port;
    int64_t expires_ns; /* 0: with its token */
};

struct entry {
    struct traffic_token token;
    struct list node;                                /* tokens->all, oldest first */
    struct secret *secrets[1 + TRAFFIC_SECRETS_MAX]; /* its own first, then oldest first */
    size_t n_secrets;
    struct maker_mark mark; /* of its maker's secret; "" where the maker is a key */
    bool unwritten;         /* the row says less than is so */
};

/* A row that is to go and could not be deleted yet. */
struct leftover {
    struct list node; /* tokens->leftovers */
    char id[TRAFFIC_ID_SIZE];
};

struct traffic_tokens {
    struct store *store;
    struct list all, leftovers;
    struct map *by_digest;
    char *maker;             /* whose tokens have a mark, which is of its secret */
    struct maker_mark mark;  /* "": the maker has no secret */
    struct loop_timer timer; /* for the next end, and for what is to be written again */
    bool stopped;
    void (*on_ended)(void *data, const char *id);
    void *ended_data;
    struct error load_error;
};

/* --- secrets */

static void to_hex(const unsigned char *bytes, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

static void hash_secret(const char *secret, char ret[DIGEST_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (!EVP_Digest(secret, strlen(secret), digest, NULL, EVP_sha256(), NULL))
        abort();
    to_hex(digest, ret);
}

static void make_secret(char ret[TRAFFIC_SECRET_SIZE])
{
    unsigned char bytes[SECRET_BYTES];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    to_hex(bytes, stpcpy(ret, TRAFFIC_SECRET_PREFIX));
    OPENSSL_cleanse(bytes, sizeof(bytes));
}

static void secret_drop(struct traffic_tokens *t, struct entry *e, size_t at)
{
    struct secret *s = e->secrets[at];
    map_remove(t->by_digest, s->digest);
    free(s);
    e->n_secrets--;
    memmove(e->secrets + at, e->secrets + at + 1, (e->n_secrets - at) * sizeof(*e->secrets));
}

static struct secret *secret_add(struct traffic_tokens *t, struct entry *e, const char *digest,
                                 enum secret_kind kind, uint16_t port, int64_t expires_ns)
{
    if (e->n_secrets == ELEMENTS(e->secrets))
        secret_drop(t, e, 1);
    struct secret *s = new0(struct secret);
    *s = (struct secret){.entry = e, .kind = kind, .port = port, .expires_ns = expires_ns};
    snprintf(s->digest, sizeof(s->digest), "%s", digest);
    e->secrets[e->n_secrets++] = s;
    map_put(t->by_digest, s->digest, s);
    return s;
}

static bool is_over(int64_t expires_ns)
{
    return expires_ns && clock_seen_ns() >= expires_ns;
}

static struct secret *find_secret(struct traffic_tokens *t, const char *secret,
                                  enum secret_kind kind)
{
    char digest[DIGEST_SIZE];
    if (!secret || strncmp(secret, TRAFFIC_SECRET_PREFIX, strlen(TRAFFIC_SECRET_PREFIX)) != 0)
        return NULL;
    hash_secret(secret, digest);
    struct secret *s = map_find(t->by_digest, digest);
    if (!s || s->kind != kind || is_over(s->expires_ns) || is_over(s->entry->token.expires_ns))
        return NULL;
    return s;
}

/* --- rows */

static json_t *entry_to_row(const struct entry *e)
{
    const struct traffic_token *k = &e->token;
    json_t *secrets = json_array();
    for (size_t i = 0; i < e->n_secrets; i++)
        json_array_append_new(
            secrets, json_pack("{s:s, s:i, s:i, s:I}", "digest", e->secrets[i]->digest, "kind",
                               (int)e->secrets[i]->kind, "port", (int)e->secrets[i]->port,
                               "expires_ns", (json_int_t)e->secrets[i]->expires_ns));
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:i, s:I, s:I, s:o}", "sandbox", k->sandbox,
                     "generation", k->generation, "owner", k->owner, "maker", e->mark.text,
                     "rotations", (json_int_t)k->rotations, "name", k->name, "port", (int)k->port,
                     "created_ns", (json_int_t)k->created_ns, "expires_ns",
                     (json_int_t)k->expires_ns, "secrets", secrets);
}

static void entry_free(struct traffic_tokens *t, struct entry *e)
{
    while (e->n_secrets)
        secret_drop(t, e, e->n_secrets - 1);
    list_remove(&e->node);
    free(e);
}

static void schedule(struct traffic_tokens *t)
{
    int64_t now = clock_seen_ns(), next = INT64_MAX;
    bool again = !list_empty(&t->leftovers);
    if (t->stopped)
        return;
    list_for_each(e, &t->all, struct entry, node) {
        again = again || e->unwritten;
        if (e->token.expires_ns && e->token.expires_ns < next)
            next = e->token.expires_ns;
    }
    if (again && next > now + WRITE_AGAIN_MS * INT64_C(1000000))
        next = now + WRITE_AGAIN_MS * INT64_C(1000000);
    if (next == INT64_MAX) {
        loop_timer_stop(&t->timer);
        return;
    }
    int64_t ms = next <= now ? 1 : (next - now) / 1000000 + 1;
    loop_timer_start(&t->timer, (uint64_t)(ms < LOOK_AGAIN_MS ? ms : LOOK_AGAIN_MS));
}

struct change {
    struct traffic_tokens *tokens;
    char id[TRAFFIC_ID_SIZE];
    bool added;
    traffic_done_fn on_done;
    void *data;
};

static struct change *change_new(struct traffic_tokens *t, const char *id, bool added,
                                 traffic_done_fn on_done, void *data)
{
    struct change *c = new0(struct change);
    *c = (struct change){.tokens = t, .added = added, .on_done = on_done, .data = data};
    snprintf(c->id, sizeof(c->id), "%s", id);
    return c;
}

static void change_end(struct change *c, const struct error *err)
{
    schedule(c->tokens);
    if (c->on_done)
        c->on_done(c->data, err);
    free(c);
}

/* The token is looked for by its id: it may have been revoked while its row was written. */
static void on_saved(void *data, const struct error *err)
{
    struct change *c = data;
    list_for_each_safe(e, &c->tokens->all, struct entry, node) {
        if (!err || strcmp(e->token.id, c->id) != 0)
            continue;
        if (c->added)
            entry_free(c->tokens, e);
        else
            e->unwritten = true;
    }
    change_end(c, err);
}

static void save_entry(struct traffic_tokens *t, struct entry *e, bool added,
                       traffic_done_fn on_done, void *data)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *row = entry_to_row(e);
    json_format(row, &b);
    e->unwritten = false;
    schedule(t);
    if (t->store)
        store_put(t->store, STORE_TRAFFIC, e->token.id, b.data, b.len, on_saved,
                  change_new(t, e->token.id, added, on_done, data));
    else if (on_done)
        on_done(data, NULL);
}

static void on_deleted(void *data, const struct error *err)
{
    struct change *c = data;
    if (err) {
        struct leftover *l = new0(struct leftover);
        memcpy(l->id, c->id, sizeof(l->id));
        list_append(&c->tokens->leftovers, &l->node);
    }
    change_end(c, err);
}

static void delete_row(struct traffic_tokens *t, const char *id, traffic_done_fn on_done,
                       void *data)
{
    if (t->store)
        store_delete(t->store, STORE_TRAFFIC, id, on_deleted,
                     change_new(t, id, false, on_done, data));
    else if (on_done)
        on_done(data, NULL);
}

/* Its secrets are worth nothing before the connections by them are ended, and both before the row
 * goes: a client that comes back at once is refused. */
static void entry_drop(struct traffic_tokens *t, struct entry *e, traffic_done_fn on_done,
                       void *data)
{
    char id[TRAFFIC_ID_SIZE];
    memcpy(id, e->token.id, sizeof(id));
    entry_free(t, e);
    if (t->on_ended)
        t->on_ended(t->ended_data, id);
    delete_row(t, id, on_done, data);
}

static void on_timer(void *data)
{
    struct traffic_tokens *t = data;
    struct list again;
    list_init(&again);
    while (!list_empty(&t->leftovers)) {
        struct list *first = t->leftovers.next;
        list_remove(first);
        list_append(&again, first);
    }
    list_for_each_safe(l, &again, struct leftover, node) {
        delete_row(t, l->id, NULL, NULL);
        list_remove(&l->node);
        free(l);
    }
    list_for_each_safe(e, &t->all, struct entry, node) {
        if (is_over(e->token.expires_ns))
            entry_drop(t, e, NULL, NULL);
        else if (e->unwritten)
            save_entry(t, e, false, NULL, NULL);
    }
    schedule(t);
}

static bool copy_text(const json_t *row, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text && (size_t)snprintf(out, size, "%s", text) < size;
}

static bool load_secrets(struct traffic_tokens *t, struct entry *e, const json_t *list)
{
    const json_t *o;
    size_t i;
    json_array_foreach(list, i, o)
    {
        const char *digest = json_string_value(json_object_get(o, "digest"));
        json_int_t kind = json_integer_value(json_object_get(o, "kind"));
        if (!digest || strlen(digest) != DIGEST_SIZE - 1 || kind < 0 || kind >= _SECRET_KIND_MAX ||
            (i == 0) != (kind == SECRET_TOKEN))
            return false;
        secret_add(t, e, digest, (enum secret_kind)kind,
                   (uint16_t)json_integer_value(json_object_get(o, "port")),
                   json_integer_value(json_object_get(o, "expires_ns")));
    }
    return e->n_secrets > 0;
}

static void load_row(void *data, const char *key, const char *body, size_t len)
{
    struct traffic_tokens *t = data;
    struct error err = {0};
    _cleanup_json_ json_t *row = json_parse_request(body, len, &err);
    struct entry *e = new0(struct entry);
    struct traffic_token *k = &e->token;
    list_append(&t->all, &e->node);
    bool good = row && (size_t)snprintf(k->id, sizeof(k->id), "%s", key) < sizeof(k->id) &&
                copy_text(row, "sandbox", k->sandbox, sizeof(k->sandbox)) &&
                copy_text(row, "generation", k->generation, sizeof(k->generation)) &&
                copy_text(row, "owner", k->owner, sizeof(k->owner)) &&
                copy_text(row, "name", k->name, sizeof(k->name)) &&
                load_secrets(t, e, json_object_get(row, "secrets"));
    if (!good) {
        error_set(&t->load_error, ERROR_INVALID, 0, "the row of traffic token '%.40s' is damaged",
                  key);
        return;
    }
    k->port = (uint16_t)json_integer_value(json_object_get(row, "port"));
    k->rotations = json_integer_value(json_object_get(row, "rotations"));
    if (!copy_text(row, "maker", e->mark.text, sizeof(e->mark.text)))
        e->mark = (struct maker_mark){0};
    k->created_ns = json_integer_value(json_object_get(row, "created_ns"));
    k->expires_ns = json_integer_value(json_object_get(row, "expires_ns"));
}

/* Drops what was made with another secret, and what is over. All marks that fit become one, so that
 * the next start asks about no more than one, whatever its secret is. */
static void check_marks(struct traffic_tokens *t, const char *secret)
{
    struct maker_mark stale = {0}; /* the last that did not fit; an empty one never does */
    list_for_each_safe(e, &t->all, struct entry, node) {
        if (strcmp(e->token.owner, t->maker) != 0 ||
            (*t->mark.text && strcmp(e->mark.text, t->mark.text) == 0))
            continue;
        if (!secret || is_over(e->token.expires_ns) || strcmp(e->mark.text, stale.text) == 0) {
            entry_drop(t, e, NULL, NULL);
        } else if (!maker_mark_fits(&e->mark, secret)) {
            stale = e->mark;
            entry_drop(t, e, NULL, NULL);
        } else if (!*t->mark.text) {
            t->mark = e->mark;
        } else {
            e->mark = t->mark;
            save_entry(t, e, false, NULL, NULL);
        }
    }
    if (secret && !*t->mark.text)
        maker_mark_make(secret, &t->mark);
}

struct traffic_tokens *traffic_tokens_open(struct store *s, uv_loop_t *loop,
                                           const struct traffic_maker *maker, struct error *err)
{
    struct traffic_tokens *t = new0(struct traffic_tokens);
    t->store = s;
    t->maker = xstrdup(maker->owner);
    t->by_digest = map_new();
    list_init(&t->all);
    list_init(&t->leftovers);
    t->stopped = true;
    int r = s ? store_load(s, STORE_TRAFFIC, load_row, t, err) : 0;
    if (r >= 0 && error_is_set(&t->load_error)) {
        *err = t->load_error;
        r = -1;
    }
    if (r < 0) {
        traffic_tokens_free(t);
        return NULL;
    }
    loop_timer_init(&t->timer, loop, on_timer, t);
    t->stopped = false;
    check_marks(t, maker->secret);
    schedule(t);
    return t;
}

void traffic_tokens_stop(struct traffic_tokens *t)
{
    if (!t || t->stopped)
        return;
    t->stopped = true;
    loop_timer_close(&t->timer, NULL, NULL);
}

void traffic_tokens_on_ended(struct traffic_tokens *t, void (*on_ended)(void *data, const char *id),
                             void *data)
{
    t->on_ended = on_ended;
    t->ended_data = data;
}

void traffic_tokens_free(struct traffic_tokens *t)
{
    if (!t)
        return;
    while (!list_empty(&t->all))
        entry_free(t, container_of(t->all.next, struct entry, node));
    list_for_each_safe(l, &t->leftovers, struct leftover, node)
        free(l);
    map_free(t->by_digest);
    free(t->maker);
    free(t);
}

/* --- tokens */

static size_t count_of(const struct traffic_tokens *t, const char *generation)
{
    size_t n = 0;
    list_for_each(e, &t->all, struct entry, node)
        n += !strcmp(e->token.generation, generation) && !is_over(e->token.expires_ns);
    return n;
}

const struct traffic_token *traffic_token_add(struct traffic_tokens *t,
                                              const struct traffic_token *what, int64_t lifetime_s,
                                              char ret_secret[TRAFFIC_SECRET_SIZE],
                                              traffic_done_fn on_done, void *data,
                                              struct error *err)
{
    char digest[DIGEST_SIZE];
    if (count_of(t, what->generation) >= TRAFFIC_TOKENS_MAX) {
        error_set(err, ERROR_LIMIT, 0, "a sandbox has at most %d traffic tokens: revoke one",
                  TRAFFIC_TOKENS_MAX);
        return NULL;
    }
    struct entry *e = new0(struct entry);
    e->token = *what;
    if (strcmp(what->owner, t->maker) == 0)
        e->mark = t->mark;
    memcpy(e->token.id, "tt-", 3);
    random_id(e->token.id + 3, TRAFFIC_ID_SIZE - 4);
    e->token.created_ns = clock_seen_ns();
    e->token.expires_ns = lifetime_s ? e->token.created_ns + lifetime_s * SECOND_NS : 0;
    list_append(&t->all, &e->node);
    make_secret(ret_secret);
    hash_secret(ret_secret, digest);
    secret_add(t, e, digest, SECRET_TOKEN, what->port, 0);
    save_entry(t, e, true, on_done, data);
    return &e->token;
}

static struct entry *find_entry(struct traffic_tokens *t, const char *generation, const char *id)
{
    list_for_each(e, &t->all, struct entry, node) {
        if (!strcmp(e->token.id, id) && !strcmp(e->token.generation, generation) &&
            !is_over(e->token.expires_ns))
            return e;
    }
    return NULL;
}

const struct traffic_token *traffic_token_find(struct traffic_tokens *t, const char *generation,
                                               const char *id)
{
    struct entry *e = find_entry(t, generation, id);
    return e ? &e->token : NULL;
}

int traffic_token_revoke(struct traffic_tokens *t, const char *generation, const char *id,
                         traffic_done_fn on_done, void *data)
{
    struct entry *e = find_entry(t, generation, id);
    if (!e)
        return -ENOENT;
    entry_drop(t, e, on_done, data);
    return 0;
}

json_t *traffic_token_to_json(const struct traffic_token *k)
{
    char created[CLOCK_RFC3339_SIZE], expires[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(k->created_ns, created);
    clock_format_rfc3339(k->expires_ns, expires);
    return json_pack("{s:s, s:s, s:o, s:s, s:s?}", "id", k->id, "name", k->name, "port",
                     k->port ? json_integer(k->port) : json_null(), "created_at", created,
                     "expires_at", k->expires_ns ? expires : NULL);
}

json_t *traffic_tokens_list(struct traffic_tokens *t, const char *generation)
{
    json_t *list = json_array();
    list_for_each(e, &t->all, struct entry, node) {
        if (!strcmp(e->token.generation, generation) && !is_over(e->token.expires_ns))
            json_array_append_new(list, traffic_token_to_json(&e->token));
    }
    return list;
}

const struct traffic_token *traffic_token_identify(struct traffic_tokens *t, const char *secret)
{
    struct secret *s = find_secret(t, secret, SECRET_TOKEN);
    return s ? &s->entry->token : NULL;
}

const struct traffic_token *traffic_token_identify_cookie(struct traffic_tokens *t,
                                                          const char *secret, uint16_t port)
{
    struct secret *s = find_secret(t, secret, SECRET_COOKIE);
    return s && s->port == port ? &s->entry->token : NULL;
}

/* --- links */

/* A token's time may end between the look that found it and this call, in one turn of the loop. */
int traffic_link_make(struct traffic_tokens *t, const struct traffic_token *token, uint16_t port,
                      char ret_secret[TRAFFIC_SECRET_SIZE], traffic_done_fn on_done, void *data)
{
    char digest[DIGEST_SIZE];
    struct entry *e = find_entry(t, token->generation, token->id);
    if (!e)
        return -ENOENT;
    make_secret(ret_secret);
    hash_secret(ret_secret, digest);
    secret_add(t, e, digest, SECRET_LINK, port, clock_seen_ns() + TRAFFIC_LINK_S * SECOND_NS);
    save_entry(t, e, false, on_done, data);
    return 0;
}

const struct traffic_token *traffic_link_use(struct traffic_tokens *t, const char *secret,
                                             const char *sandbox, uint16_t port,
                                             char ret_secret[TRAFFIC_SECRET_SIZE],
                                             traffic_done_fn on_done, void *data)
{
    char digest[DIGEST_SIZE];
    struct secret *s = find_secret(t, secret, SECRET_LINK);
    if (!s || s->port != port || strcmp(s->entry->token.sandbox, sandbox) != 0)
        return NULL;
    /* The link goes in the same row in which the cookie comes, so that no kill leaves both. */
    struct entry *e = s->entry;
    for (size_t i = 0; i < e->n_secrets; i++)
        if (e->secrets[i] == s) {
            secret_drop(t, e, i);
            break;
        }
    make_secret(ret_secret);
    hash_secret(ret_secret, digest);
    secret_add(t, e, digest, SECRET_COOKIE, port, 0);
    save_entry(t, e, false, on_done, data);
    return &e->token;
}

/* --- the end of a sandbox, and of a maker */

void traffic_tokens_drop_owner(struct traffic_tokens *t, const char *owner)
{
    list_for_each_safe(e, &t->all, struct entry, node) {
        if (!strcmp(e->token.owner, owner))
            entry_drop(t, e, NULL, NULL);
    }
}

void traffic_tokens_drop(struct traffic_tokens *t, const char *generation)
{
    list_for_each_safe(e, &t->all, struct entry, node) {
        if (!strcmp(e->token.generation, generation))
            entry_drop(t, e, NULL, NULL);
    }
}

void traffic_tokens_sweep(struct traffic_tokens *t,
                          bool (*is_there)(void *data, const char *sandbox, const char *generation),
                          void *data)
{
    list_for_each_safe(e, &t->all, struct entry, node) {
        if (!is_there(data, e->token.sandbox, e->token.generation))
            entry_drop(t, e, NULL, NULL);
    }
}
