/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of approvals share. */
#pragma once

#include "guard/approval.h"
#include "loop/loop.h"

#define APPROVAL_DECISIONS_MAX 3

struct approval_vote {
    struct identity who;
    bool approve;
    int64_t time_s;
    char *reason, *user_id; /* or NULL */
};

struct approval {
    struct approvals *set;
    struct list node;
    char id[APPROVAL_ID_SIZE];
    enum approval_state state;
    enum risk risk;
    struct identity requester;
    char *rule, *why, *revision;
    json_t *obligations; /* an object */
    json_t *subject, *shown;
    char digest[AUDIT_DIGEST_SIZE];
    int64_t created_s, expires_s, changed_s;
    bool busy;      /* a decision or a use is being recorded */
    bool using;     /* ... and it is uses */
    bool unwritten; /* has ended, but the store does not know yet: the row is written again */
    bool unasked;   /* not stored yet; hidden from listings until it can be decided */
    struct approval_vote votes[APPROVAL_DECISIONS_MAX];
    size_t n_votes;
    char *void_reason;
    /* a session approval */
    bool is_session;      /* also after its last use */
    int64_t session_left; /* 0: not one, or used up */
    char **session_prefix, **session_rules;
    struct list uses; /* struct approval_use that wait for the record before them */
    int64_t n_uses;
};

struct approvals {
    struct approvals_options options;
    struct map *by_id;
    struct list all; /* oldest first */
    struct list watches;
    struct loop_timer tick;
    size_t n_pending;
    int64_t kept_s; /* the time that is in the store */
};

/* approval.c */
int64_t approval_now_s(void);
bool approval_is_live(const struct approval *a); /* pending or approved */
/* To EXPIRED or VOID, without an approver, and for good: a store that fails brings no grant back.
 */
void approval_end(struct approval *a, enum approval_state state, const char *why);
/* What the digest is over: the subject with its end. A new reference. */
json_t *approval_subject_until(const json_t *subject, int64_t expires_s);
void approval_set_state(struct approval *a, enum approval_state state);
/* Puts it on record; fn and the watches come then. Where that fails, state and votes are what they
 * were before; one that is new is gone. What has ended by then stays so, and is written later. */
void approval_write(struct approval *a, enum approval_state before, size_t votes_before,
                    bool is_new, approval_fn fn, void *data);
/* Audits; who NULL is the daemon itself. */
int approval_record(struct approval *a, const char *kind, const struct identity *who,
                    const char *outcome, const char *reason, struct error *err);
/* approval-announce.c. The second is for one that was read back: a change that the journal has
 * is not announced again. */
void approval_announce(const struct approval *a);
void approval_announce_restored(const struct approval *a);
/* approval-use.c: the uses that waited for what is on record now. */
void approval_next_uses(struct approval *a);
/* approval-grant.c */
/* Whether it may still be decided or used at all: the policy is the same, its key lives. */
int approval_check_alive(const struct approval *a, struct error *err);
bool approval_vote_counts(const struct approvals *s, const struct approval_vote *v);
/* approval-row.c */
json_t *approval_to_row(const struct approval *a);
/* NULL with err set for a row that cannot be read. */
struct approval *approval_from_row(const char *id, const json_t *row, struct error *err);
void approval_free(struct approval *a);
void approval_drop_votes(struct approval *a, size_t keep);
void approval_drop_vote(struct approval *a, size_t which);
/* approval-image.c */
void approval_show_image(const struct approval *a, json_t *view);
/* approval-session.c */
int approval_session_check(const struct approval *a, const struct approval_session *session,
                           struct error *err);
bool approval_session_covers(const struct approval *a, const json_t *subject);
