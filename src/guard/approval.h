/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a person, and what a person allowed.
 *
 *   PENDING ── approved by as many keys as its risk needs ──> APPROVED ── the call runs ──> USED
 *      │ rejected ──> REJECTED      │ no vote in time ──> EXPIRED (also an unused grant)
 *      '───────────────────────────────> VOID: the policy, or anything of the call, has changed;
 *                                              the key that asked has ended, or a vote's key has
 *
 * A grant is over the SHA-256 of the subject's canonical bytes: the JSON of all that will run, keys
 * sorted, no spaces, with the time it expires. It is used once: USED is on record before the call
 * starts, so kill -9 can lose a grant and never double it. The one exception is a session approval:
 * a temporary rule over the same subject with a prefix of its argv, a count and an end; never for
 * critical, and only for what the same rule asks about, or rules that the approver named.
 *
 * A grant carries what was decided when it was asked for: rule, risk, obligations. It is worth
 * nothing where the decision of the moment asks for more than that, under another policy, or once
 * the key that asked has ended (approval-grant.c).
 *
 * Who may decide: without keys every caller, but no caller about critical calls; with keys every
 * key that has the role approver and is not the key that asked; critical calls need two of them. A
 * vote counts while its key lives and has the role. All of it is on record before it holds: audit
 * first, then the row (approval-row.c). Only approval.c writes the state; approval-row.c reads it
 * back from a row.
 *
 * Times are those of clock_seen_ns(), kept over restarts: a clock that is set back revives nothing.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "audit/audit.h"
#include "identity/identity.h"
#include "policy/rules.h"

struct approval;
struct approvals;
struct error;
struct event_journal;
struct gate;
struct keys;
struct store;

#define APPROVAL_ID_SIZE     40
#define APPROVAL_REASON_MAX  500
#define APPROVAL_SESSION_MAX 1000  /* calls of one session approval */
#define APPROVAL_SESSION_S   86400 /* and how long it may last */

enum approval_state {
    APPROVAL_PENDING,
    APPROVAL_APPROVED,
    APPROVAL_REJECTED,
    APPROVAL_EXPIRED,
    APPROVAL_USED,
    APPROVAL_VOID,
    _APPROVAL_STATE_MAX,
};

struct approvals_config {
    uint64_t ttl_ms;  /* from the question to its end, and to that of an unused grant */
    uint64_t keep_ms; /* how long a decided one is shown */
    size_t max_pending, max_pending_per_key;
};

struct approvals_options {
    uv_loop_t *loop;
    struct store *store;          /* NULL if approvals end with the process */
    struct event_journal *events; /* changes go there as events; NULL: nowhere */
    struct gate *gate;            /* for records and the revision of the policy */
    struct keys *keys;            /* NULL if there are none */
    struct approvals_config config;
};

/* Loads what an earlier process left. */
struct approvals *approvals_new(const struct approvals_options *o, struct error *err);
void approvals_free(struct approvals *s); /* NULL is fine */

/* --- asking. Borrowed, but for what is said. */
/* What a decision asks for: carried by a grant, and compared at its use with that of the moment. */
struct approval_need {
    enum risk risk;
    const char *rule;
    const char *revision;      /* of the policy that decided */
    const json_t *obligations; /* rules_obligations_to_json(); NULL if there is none */
};
struct approval_request {
    const char *id; /* NULL means a random one */
    const struct identity *who;
    struct approval_need need;
    const char *reason;
    const json_t *subject; /* all that will run, without "expires_at" */
    const json_t *shown;   /* what helps to decide and is no part of the grant; may be NULL */
};
/* Comes once, later. err set: nothing is on record. */
typedef void (*approval_fn)(void *data, struct approval *a, const struct error *err);

/* fn comes when the question is on record. Negative with err set: too many wait already, the policy
 * is another one by now, or the audit cannot be written; fn does not come. */
int approvals_ask(struct approvals *s, const struct approval_request *r, approval_fn fn, void *data,
                  struct error *err);
/* The grant id, for exactly this subject and no more than it carries: fn comes when its use is on
 * record and the call may run. Uses of a session queue up and share a commit. Negative:
 * ERROR_NOT_FOUND for what is not the caller's, ERROR_DENIED for what is not approved, not any
 * more, for another subject or for less than `need`; the last two make what is no session void. */
int approvals_use(struct approvals *s, const char *id, const struct identity *who,
                  const json_t *subject, const struct approval_need *need, approval_fn fn,
                  void *data, struct error *err);
/* A session approval of the same key that covers the subject and the need; NULL if there is none.
 */
struct approval *approvals_find_session(struct approvals *s, const struct identity *who,
                                        const json_t *subject, const struct approval_need *need);
/* Whether a grant, used or not, is enough for what a decision asks for. */
int approval_check_need(const struct approval *a, const struct approval_need *need,
                        struct error *err);
/* Ends everything that is not decided or not used and was asked under another policy than the
 * gate's, or by a key that has ended; what is being recorded ends right afterwards. Votes of ended
 * keys are taken out. For the gate when the policy, and for the daemon when a key has changed. */
void approvals_check_all(struct approvals *s);

/* --- deciding */
struct approval_session {
    char *const *argv_prefix; /* NULL means all of argv */
    char *const *rules;       /* beyond the one that asked; NULL if there is none */
    int64_t count, ttl_s;
};
struct approval_decision {
    const struct identity *who;
    bool approve;
    const char *reason;                     /* may be NULL */
    const char *user_id;                    /* a note, may be NULL */
    const struct approval_session *session; /* NULL means once */
};
/* fn comes when the decision is on record. ERROR_NOT_FOUND: there is none of that id;
 * ERROR_CONFLICT: it is not pending; ERROR_FORBIDDEN: not by this key. */
int approvals_decide(struct approvals *s, const char *id, const struct approval_decision *d,
                     approval_fn fn, void *data, struct error *err);

/* --- looking */
/* By id, if it exists for the caller: their own, or any for those who decide, audit or operate.
 */
struct approval *approvals_find(struct approvals *s, const struct identity *who, const char *id);
/* Oldest first; state -1 means any. */
size_t approvals_list(struct approvals *s, const struct identity *who, int state,
                      struct approval **ret, size_t max);
size_t approvals_pending(const struct approvals *s);
/* Calls cb with the image of every one-shot that waits or may still run, any number of times. */
void approvals_for_each_image(const struct approvals *s, void (*cb)(void *arg, const char *digest),
                              void *arg);
/* What `image` was when the caller's approval id was asked for; NULL: it is not about that. */
const char *approvals_find_image(const struct approvals *s, const struct identity *who,
                                 const char *id, const char *image);

const char *approval_id(const struct approval *a);
enum approval_state approval_state(const struct approval *a);
const char *approval_state_name(enum approval_state state);
int approval_state_find(const char *name); /* -1 if there is none */
enum risk approval_risk(const struct approval *a);
const char *approval_reason(const struct approval *a); /* of the approver who rejected it, or "" */
const char *approval_requester(const struct approval *a); /* its key */
size_t approval_confirmations(const struct approval *a);  /* votes that count */
size_t approval_confirmations_needed(const struct approval *a);
/* New references. full: with the subject and what is shown beside it. */
json_t *approval_view(const struct approval *a, bool full);

/* on_change comes after every change of state that is on record, and after a first confirmation of
 * two. It may remove any watch. */
struct approval_watch {
    struct list node;
    void (*on_change)(struct approval_watch *w, struct approval *a);
};
void approvals_watch(struct approvals *s, struct approval_watch *w);
void approval_watch_remove(struct approval_watch *w); /* legal when not watching */

/* "sha256:<hex>" of the canonical bytes. */
void approval_digest(const json_t *subject, char out[AUDIT_DIGEST_SIZE]);
