/* SPDX-License-Identifier: Apache-2.0 */
/* the actions API's actions: submitted, decided by a person where their level or the policy says
 * so, run by the daemon itself in a sandbox, and kept with their result.
 *
 *   pending ── approved ──> executing ──> completed | failed
 *      '── rejected, expired or void ──> rejected          (one that needs no approval: executing)
 *
 * An action that waits is an approval of the same id (guard/approval.h): deciding about either is
 * the same. What runs is made anew from its parameters when it runs and must match what was
 * approved. Actions are rows of the store, so that all of this survives a restart; one that was
 * executing then has failed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "identity/identity.h"
#include "policy/policy.h"
#include "policy/rules.h"

struct action;
struct actions;
struct api;
struct error;

enum action_type {
    ACTION_SKILL_EXECUTION,
    ACTION_FILE_OPERATION,
    ACTION_API_CALL,
    ACTION_CONFIG_CHANGE,
    _ACTION_TYPE_MAX,
};
const char *action_type_name(enum action_type t);

/* --- action-plan.c: what an action means */
enum action_kind {
    ACTION_TOOL,   /* a tool call */
    ACTION_FILE,   /* an operation of the skill filesystem */
    ACTION_CHANGE, /* of the daemon's own state */
};
enum action_change {
    CHANGE_RELOAD_POLICY,
    CHANGE_ENABLE_SKILL,
    CHANGE_DISABLE_SKILL,
    _CHANGE_MAX,
};
struct action_plan {
    enum action_type type;
    enum action_kind kind;
    enum risk level;
    const char *tool;  /* of ACTION_TOOL; "" otherwise */
    const char *skill; /* that must be enabled; NULL if there is none */
    enum action_change change;
    json_t *args;     /* of the tool or the operation, or the change */
    char *sandbox_id; /* of ACTION_FILE: to work in instead of where the key's files are; or NULL */
    struct policy policy;
};
/* root: of the skill filesystem, if on the host. ret is to be done with on success only. */
int action_plan_make(const char *type, const char *skill_id, const json_t *parameters,
                     const char *root, struct action_plan *ret, struct error *err);
void action_plan_done(struct action_plan *p);

/* --- action.c */
struct actions *actions_new(struct api *api);
void actions_free(struct actions *s); /* NULL is fine */

/* fn comes once, from inside or later: the action in its first lasting state, or err. */
typedef void (*action_fn)(void *data, struct action *a, const struct error *err);
void actions_submit(struct actions *s, const struct identity *who, const char *type,
                    const char *skill_id, const json_t *parameters, action_fn fn, void *data);
/* NULL if there is none for this caller. */
struct action *actions_find(struct actions *s, const struct identity *who, const char *id);
json_t *actions_pending_view(struct actions *s, const struct identity *who);
size_t actions_pending(const struct actions *s);
/* {"action_type","skill_id","status"} of an action that is still known; NULL: it is not. */
json_t *actions_describe(struct actions *s, const char *id);
json_t *action_submitted_view(const struct action *a);
json_t *action_view(const struct action *a);
