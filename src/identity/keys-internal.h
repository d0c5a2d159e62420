/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the keys, shared by keys.c, keys-row.c, keys-secret.c and keys-rate.c only. */
#pragma once

#include "base/list.h"
#include "identity/keys.h"
#include "loop/loop.h"

#define KEY_DIGEST_SIZE 65 /* SHA-256 in hex, and a NUL */

/* A bucket that holds a minute's requests and fills evenly. */
struct key_rate {
    double left;
    int64_t filled_ns; /* monotonic; 0: never used */
};

struct key_entry {
    struct key key;
    struct list node; /* keys->all, oldest first */
    char digest[KEY_DIGEST_SIZE];
    struct key_rate rate;
    bool told;      /* that it has ended */
    bool unwritten; /* its end could not be recorded yet */
};

/* keys-secret.c: a fresh secret, and the hash that its row keeps. */
void key_secret_make(char ret[KEY_SECRET_SIZE]);
void key_secret_hash(const char *secret, char ret[KEY_DIGEST_SIZE]);

/* keys-row.c: the form on record. */
json_t *key_entry_to_row(const struct key_entry *e);
int key_entry_from_row(struct key_entry *ret, const char *id, const char *body, size_t len,
                       struct error *err);
int key_name_check(const char *name, struct error *err);

/* keys-rate.c: 0, or after how many seconds there is room for one more. */
unsigned key_rate_take(struct key_rate *r, int64_t per_minute, int64_t now_ns);
