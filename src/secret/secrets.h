/* SPDX-License-Identifier: Apache-2.0 */
/* The secrets that callers may name, as the control plane has them: names, hosts and sealed bytes.
 *
 * The operator's come with the configuration and may be named by every caller. A key's own come
 * over the API, are sealed in the same turn, are its owner's alone, and are for hosts of
 * secret_hosts only. Nothing here opens a seal: the process that uses a secret does
 * (secret/seal.h). */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "secret/pair.h"
#include "secret/seal.h"
#include "store/store.h"

struct error;
struct secrets;

#define SECRETS_PER_OWNER_MAX 64
#define SECRET_SEALED_MAX     (PAIR_TEXT_MAX + SEAL_OVERHEAD)

/* What an operator may set (configuration keys in config/table.c), and what was made of it. */
struct secrets_config {
    char **pairs;     /* source.h */
    char **hosts;     /* what a key's own secrets may be for; none: there are no such secrets */
    char **sealed;    /* NAME=BASE64 of each of pairs */
    char *public_key; /* of the warden, in hex */
};

struct secret {
    char *name;
    char *owner;      /* NULL means the operator's; "": of callers without a key */
    struct pair pair; /* its hosts alone */
    uint8_t *sealed;
    size_t sealed_len;
};

struct secrets_options {
    struct secrets_config config;
    struct store *store; /* NULL if keys have no secrets of their own */
    uv_loop_t *loop;
};

/* Of a pair with its value: base64, or NULL. */
char *secret_seal(const struct pair *p, const uint8_t public_key[SEAL_KEY_SIZE]);

struct secrets *secrets_open(const struct secrets_options *o, struct error *err);
/* secrets_stop() before the loop ends, secrets_free() after that and after the end of the store. */
void secrets_stop(struct secrets *s);
void secrets_free(struct secrets *s);

/* By name: the owner's own, or the operator's. NULL when there is none. */
const struct secret *secrets_find(const struct secrets *s, const char *owner, const char *name);
/* Seals the pair, which has a value, and keeps it; one of that name and owner is replaced. The name
 * must not be one of the operator's. on_durable as for store_put(). */
int secrets_put(struct secrets *s, const char *owner, const char *name, const struct pair *p,
                store_done_fn on_durable, void *data, struct error *err);
/* What secrets_put() would refuse. */
int secrets_check_put(const struct secrets *s, const char *owner, const char *name,
                      const struct pair *p, struct error *err);
/* Only the owner's own. ERROR_NOT_FOUND. */
int secrets_remove(struct secrets *s, const char *owner, const char *name, store_done_fn on_durable,
                   void *data, struct error *err);
/* on_changed: the secret was replaced or removed; what uses it has to look again. */
void secrets_on_changed(struct secrets *s,
                        void (*on_changed)(void *data, const char *owner, const char *name),
                        void *data);
/* Of the secrets that the owner names, which it must be able to: */
/* their hosts as rules of the gateway's, "name:port", in a vector that the caller frees; */
char **secrets_find_hosts(const struct secrets *s, const char *owner, char *const *names,
                          struct error *err);
/* the memory file that PLAN_INTERCEPT takes. */
int secrets_open_pairs(const struct secrets *s, const char *owner, char *const *names,
                       char *const *hosts, const char *generation, struct error *err);
/* {"name", "hosts", "own"} of all that the owner may name. */
json_t *secrets_to_json(const struct secrets *s, const char *owner);
json_t *secret_to_json(const struct secret *s);
