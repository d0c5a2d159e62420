/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: who may call, with which roles, how much at once.
 *
 * A key is a random secret of 256 bits that its holder sees once, and a row that has only its
 * SHA-256: with that much randomness there is nothing to guess, so a salt or a slow hash would add
 * no safety, and every request would pay for it. A secret is found by its hash in a seeded hash
 * table, so the time that takes says nothing about the secret.
 *
 * Rows outlive keys: a revoked or expired one stays, so that the audit's ids have names, and so
 * that a daemon which once had keys never becomes open to every caller again. All calls are on the
 * loop's thread. A change holds in memory at once; on_done comes when it is on record. A NULL
 * struct keys is one without keys (line mode). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "identity/identity.h"

struct error;
struct keys;
struct store;

#define KEY_SECRET_PREFIX "mas_"
#define KEY_SECRET_SIZE   (4 + 64 + 1)

/* 0 means no limit of its own. In a key, KEY_QUOTA_DEFAULT is what the configuration says. */
#define KEY_QUOTA_DEFAULT (-1)
struct key_quotas {
    int64_t max_sandboxes; /* that are its own, one-shot ones included */
    int64_t max_execs;     /* at once, in all of them */
    int64_t requests_per_minute;
};
#define KEY_QUOTAS_INIT                                                                            \
    {                                                                                              \
        KEY_QUOTA_DEFAULT, KEY_QUOTA_DEFAULT, KEY_QUOTA_DEFAULT                                    \
    }
#define KEY_QUOTA_MAX 1000000000

struct key {
    char id[IDENTITY_KEY_SIZE];
    char name[IDENTITY_NAME_SIZE];
    unsigned roles;
    struct key_quotas quotas;
    int64_t created_ns; /* real time, all of them; 0: not, or never */
    int64_t expires_ns;
    int64_t revoked_ns; /* the same as expires_ns: it was seen to have expired */
    int64_t rotations;  /* how often it got a new secret */
    int64_t used_ns;    /* the last request, since the start */
};

struct keys_config {
    struct key_quotas defaults; /* of keys that have none of their own */
    size_t max;                 /* rows; the oldest ended ones make room */
};

struct keys_options {
    uv_loop_t *loop;
    struct store *store;
    struct keys_config config;
};

/* Refuses to open with a row that it does not understand. */
struct keys *keys_open(const struct keys_options *o, struct error *err);
/* keys_stop() before the loop ends, keys_free() after that and after the end of the store. NULL is
 * fine. */
void keys_stop(struct keys *k);
void keys_free(struct keys *k);
/* on_ended comes when a key was revoked, rotated or has expired: what is open in its name ends. */
void keys_on_ended(struct keys *k, void (*on_ended)(void *data, const char *id), void *data);

/* Whether there ever was one: from then on every call needs a key (or the token). */
bool keys_any(const struct keys *k);
/* The key of that secret; -ENOENT for an unknown one, and for a key that has ended. */
int keys_identify(struct keys *k, const char *secret, struct identity *ret);
/* Takes one request from the key's minute. ERROR_LIMIT, with how long to wait. Ids that are no
 * key's have no limit. */
int keys_admit(struct keys *k, const char *id, unsigned *ret_retry_s, struct error *err);
/* What holds for an id, defaults filled in; zeros for one that is no key's. */
struct key_quotas keys_quotas(const struct keys *k, const char *id);

typedef void (*keys_done_fn)(void *data, const struct error *err);

struct key_request {
    const char *name; /* 1 to 64 bytes of printable ASCII, of no other live key */
    unsigned roles;
    struct key_quotas quotas;
    int64_t lifetime_s; /* 0 means for ever */
};
/* The new key, and its secret, which is nowhere else. NULL with err set when refused; when it
 * cannot be recorded, on_done says so and the key is gone. */
const struct key *keys_add(struct keys *k, const struct key_request *req,
                           char ret_secret[KEY_SECRET_SIZE], keys_done_fn on_done, void *data,
                           struct error *err);
/* ERROR_NOT_FOUND, ERROR_CONFLICT for one that has ended. keep_admin refuses to end the last key
 * with the role admin. */
int keys_revoke(struct keys *k, const char *id, bool keep_admin, keys_done_fn on_done, void *data,
                struct error *err);
/* The same key with another secret; the old one ends. */
int keys_rotate(struct keys *k, const char *id, char ret_secret[KEY_SECRET_SIZE],
                keys_done_fn on_done, void *data, struct error *err);

/* ERROR_FORBIDDEN if the caller's key has ended since. A caller without a key passes. */
int keys_check_live(const struct keys *k, const struct identity *who, struct error *err);
const struct key *keys_find(const struct keys *k, const char *id); /* or NULL */
/* Whom an owner's name stands for, when something is done in that name without a request of its
 * own. An owner that is a key's is authenticated by that key even when its row is gone, so that
 * keys_check_live() finds that it has ended. */
struct identity keys_identity_of(const struct keys *k, const char *owner);
bool key_is_live(const struct key *key);
/* As the API shows it: everything but the secret. */
json_t *key_to_json(const struct key *key);
/* All of them, oldest first: an array of key_to_json(). */
json_t *keys_to_json(const struct keys *k);
