/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic tokens: secrets for the ports of one sandbox, and for nothing else. Who has one reaches
 * servers inside that sandbox as if the maker of the token asked; it is no key of the API's.
 *
 * A row has only the SHA-256 of each secret, as keys do. A token has secrets of three kinds: its
 * own, which goes in the header X-Mas-Traffic-Token; links, which work once and for minutes; and
 * cookies, which links are exchanged for, each for one host. They end with the token, and a token
 * with its sandbox, with its time and with the key that made it: an id may come back, its
 * generation does not. A change holds in memory at once; on_done comes when it is on record. A
 * token that cannot be recorded never was; an end that cannot be is written again until it would
 * hold after a restart too. All calls are on the loop's thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct error;
struct store;
struct traffic_tokens;

#define TRAFFIC_SECRET_PREFIX "mastt_"
#define TRAFFIC_SECRET_SIZE   (6 + 64 + 1)
#define TRAFFIC_ID_SIZE       24
#define TRAFFIC_NAME_MAX      64
#define TRAFFIC_TOKENS_MAX    32 /* of one sandbox */
#define TRAFFIC_SECRETS_MAX   16 /* links and cookies of one token; the oldest makes room */
#define TRAFFIC_LINK_S        300

struct traffic_token {
    char id[TRAFFIC_ID_SIZE]; /* tt-<x> */
    char sandbox[72];
    char generation[32]; /* of the sandbox */
    char owner[40];      /* the key that made it; "": none */
    int64_t rotations;   /* of that key, then: after another one the token is worth nothing, also
                            where the daemon died before its row was deleted */
    char name[TRAFFIC_NAME_MAX + 1];
    uint16_t port;                  /* the only one; 0: any */
    int64_t created_ns, expires_ns; /* real time, by clock_seen_ns(); 0: never */
};

typedef void (*traffic_done_fn)(void *data, const struct error *err);

/* A maker that is no key, and its secret, which is the operator's to change while no daemon runs.
 */
struct traffic_maker {
    const char *owner;
    const char *secret; /* NULL: it has none, and cannot come */
};

/* Refuses to open with a row that it does not understand. What the maker has made with another
 * secret is dropped. store NULL: nothing survives. */
struct traffic_tokens *traffic_tokens_open(struct store *s, uv_loop_t *loop,
                                           const struct traffic_maker *maker, struct error *err);
/* traffic_tokens_stop() before the loop ends, traffic_tokens_free() after that and after the end of
 * the store. NULL is fine. */
void traffic_tokens_stop(struct traffic_tokens *t);
void traffic_tokens_free(struct traffic_tokens *t);
/* on_ended comes when a token has expired, was revoked, or went with its sandbox or its maker: what
 * is open by it ends. */
void traffic_tokens_on_ended(struct traffic_tokens *t, void (*on_ended)(void *data, const char *id),
                             void *data);

/* Fills id, times and secret of a copy of what; NULL with err set when there are too many. */
const struct traffic_token *traffic_token_add(struct traffic_tokens *t,
                                              const struct traffic_token *what, int64_t lifetime_s,
                                              char ret_secret[TRAFFIC_SECRET_SIZE],
                                              traffic_done_fn on_done, void *data,
                                              struct error *err);
/* By id, of that sandbox; NULL: there is none, or it has ended. */
const struct traffic_token *traffic_token_find(struct traffic_tokens *t, const char *generation,
                                               const char *id);
/* -ENOENT: there is none, or it has ended; on_done does not come then. */
int traffic_token_revoke(struct traffic_tokens *t, const char *generation, const char *id,
                         traffic_done_fn on_done, void *data);
/* Without secrets, oldest first: an array of what traffic_token_to_json() makes. */
json_t *traffic_tokens_list(struct traffic_tokens *t, const char *generation);
json_t *traffic_token_to_json(const struct traffic_token *token);

/* The live token of that secret; NULL: there is none. */
const struct traffic_token *traffic_token_identify(struct traffic_tokens *t, const char *secret);
/* The same of a cookie, which is for one port. */
const struct traffic_token *traffic_token_identify_cookie(struct traffic_tokens *t,
                                                          const char *secret, uint16_t port);
/* The secret of a link to one port. -ENOENT: the token has ended since it was found, by its time;
 * on_done does not come then. */
int traffic_link_make(struct traffic_tokens *t, const struct traffic_token *token, uint16_t port,
                      char ret_secret[TRAFFIC_SECRET_SIZE], traffic_done_fn on_done, void *data);
/* Exchanges a link for a cookie; NULL: it was used, is too old, or for another port or
 * sandbox. on_done comes
 * only where it is not. */
const struct traffic_token *traffic_link_use(struct traffic_tokens *t, const char *secret,
                                             const char *sandbox, uint16_t port,
                                             char ret_secret[TRAFFIC_SECRET_SIZE],
                                             traffic_done_fn on_done, void *data);

/* The key has ended, or has another secret now: what the old one made goes with it. */
void traffic_tokens_drop_owner(struct traffic_tokens *t, const char *owner);
/* The sandbox has ended. */
void traffic_tokens_drop(struct traffic_tokens *t, const char *generation);
/* Drops those whose sandbox is not there any more; once, after a start. */
void traffic_tokens_sweep(struct traffic_tokens *t,
                          bool (*is_there)(void *data, const char *sandbox, const char *generation),
                          void *data);
