/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of the warden's socket: sends plans, matches replies by tag, hands events
 * to the holder of the sandbox. */
#pragma once

#include <uv.h>

#include "proto/plan.h"

struct error;
struct warden_client;
struct warden_kind;

/* fd is the reply's descriptor or -1, taken by the callback. reply is NULL when the warden is gone.
 */
typedef void (*warden_reply_fn)(void *data, const struct plan_reply *reply, int fd);

struct warden_client *warden_client_new(uv_loop_t *loop, int sock);
void warden_client_close(struct warden_client *c);
/* Sends a plan (version and tag are filled in). cb comes later, exactly once. */
void warden_client_send(struct warden_client *c, struct plan *plan, warden_reply_fn cb, void *data);
/* The same with a descriptor, which stays the caller's. */
void warden_client_send_fd(struct warden_client *c, struct plan *plan, int fd, warden_reply_fn cb,
                           void *data);
/* Who hears of the death of sandbox id. One per id; NULL fn forgets. */
typedef void (*warden_exit_fn)(void *data, const struct plan_reply *event);
void warden_client_on_exit(struct warden_client *c, const char *id, warden_exit_fn fn, void *data);
/* Asks at start, blocking, what the host can enforce of each kind that a runtime is of. */
int warden_client_probe(struct warden_client *c, struct plan_reply *ret, struct error *err);
/* Asks at start, blocking, for the newest checkpoint of the audit and the public key. */
int warden_client_signed(struct warden_client *c, struct plan_reply *ret, struct error *err);
/* Asks at start, blocking, which sandboxes live: struct warden_alive by id in a new map; the caller
 * frees the values and the map. */
struct warden_alive {
    char id[PLAN_ID_SIZE];
    bool frozen;
};
struct map *warden_client_list(struct warden_client *c, struct error *err);
/* Asks, blocking, for the operator's policy file. The descriptor, or -errno with err set. */
int warden_client_policy(struct warden_client *c, struct error *err);
/* What the warden says of sandboxes of this kind: what would enforce each wall, or error and
 * message where there can be none. A later EVENT_PROBED changes it. */
const struct plan_reply *warden_client_probed_kind(const struct warden_client *c,
                                                   const struct warden_kind *k);
/* The same of local sandboxes, which says most about the host. */
const struct plan_reply *warden_client_probed(const struct warden_client *c);
