/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/approval.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "guard/approval-internal.h"
#include "guard/gate.h"
#include "store/store.h"

#define TICK_MS   1000
#define ID_LENGTH 16
#define ROW_MAX   (64 * 1024 * 1024)
#define NS_PER_S  1000000000LL

/* How old the time in the store may be while anything is there that expires. */
#define KEEP_TIME_S 60
#define CLOCK_ROW   "approvals"

int64_t approval_now_s(void)
{
    return clock_seen_ns() / NS_PER_S;
}

/* Of canonical bytes: sorted keys and no spaces, so that the same subject has the same digest in
 * every process and version. */
void approval_digest(const json_t *subject, char out[AUDIT_DIGEST_SIZE])
{
    char *text = json_dumps(subject, JSON_COMPACT | JSON_SORT_KEYS);
    audit_digest(text ? text : "", text ? strlen(text) : 0, out);
    free(text);
}

/* --- watching */

void approvals_watch(struct approvals *s, struct approval_watch *w)
{
    list_append(&s->watches, &w->node);
}

void approval_watch_remove(struct approval_watch *w)
{
    if (w->node.next)
        list_remove(&w->node);
}

/* Each watch once, whatever they remove meanwhile: they pass through a list of their own. */
static void call_watches(struct approval *a)
{
    struct list turn, *all = &a->set->watches;
    approval_announce(a);
    list_init(&turn);
    while (!list_empty(all)) {
        struct list *node = all->next;
        list_remove(node);
        list_append(&turn, node);
    }
    while (!list_empty(&turn)) {
        struct approval_watch *w = container_of(turn.next, struct approval_watch, node);
        list_remove(&w->node);
        list_append(all, &w->node);
        w->on_change(w, a);
    }
}

/* --- recording */

/* A change of one approval on its way to the disk. */
struct change {
    struct approval *approval;
    enum approval_state before; /* comes back when it cannot be written */
    size_t votes_before;
    bool is_new;
    approval_fn fn;
    void *data;
};

void approval_set_state(struct approval *a, enum approval_state state)
{
    a->set->n_pending += (state == APPROVAL_PENDING) - (a->state == APPROVAL_PENDING);
    a->state = state;
    a->changed_s = approval_now_s();
}

bool approval_is_live(const struct approval *a)
{
    return a->state == APPROVAL_PENDING || a->state == APPROVAL_APPROVED;
}

/* Out of every table. Nothing points to it then: a change that is being written keeps it busy, and
 * what is busy is not dropped. */
static void drop_approval(struct approval *a)
{
    approval_set_state(a, APPROVAL_VOID);
    map_remove(a->set->by_id, a->id);
    list_remove(&a->node);
    approval_free(a);
}

/* Votes of keys that have ended, or lost the role, make room for others. */
static void drop_ended_votes(struct approval *a)
{
    struct error err = {0};
    size_t before = a->n_votes;
    for (size_t i = a->n_votes; i > 0; i--) {
        const struct approval_vote *v = &a->votes[i - 1];
        if (approval_vote_counts(a->set, v))
            continue;
        if (approval_record(a, "approval", &v->who, "unconfirmed",
                            "the key has lost the role approver", &err) < 0)
            log_error("approval id=%s: %s", a->id, err.message);
        approval_drop_vote(a, i - 1);
    }
    if (a->n_votes < before)
        approval_write(a, a->state, a->n_votes, false, NULL, NULL);
}

/* What the policy and the keys of this moment leave of it. What is being recorded is looked at
 * right after that (follow_up()), so that no change of theirs is missed. */
static void look_after(struct approval *a)
{
    struct error why = {0};
    if (a->busy || !approval_is_live(a))
        return;
    if (approval_check_alive(a, &why) < 0)
        approval_end(a, APPROVAL_VOID, why.message);
    else if (a->state == APPROVAL_PENDING)
        drop_ended_votes(a);
    else if (approval_confirmations(a) < approval_confirmations_needed(a))
        approval_end(a, APPROVAL_VOID, "the key of an approver has ended");
}

/* Ends are written by the store in a later turn, so that no approval leaves the list in here. */
void approvals_check_all(struct approvals *s)
{
    list_for_each(a, &s->all, struct approval, node)
        look_after(a);
}

static void follow_up(struct approval *a)
{
    look_after(a);
    if (!a->busy)
        approval_next_uses(a);
}

/* What widens is taken back when it cannot be recorded: a new question, a vote, the use of a grant.
 * What narrows (a rejection, an end) holds at once and is written again later, so that a full disk
 * cannot bring back to life what a person has refused. */
static void fail_change(const struct change *c, const struct error *err)
{
    struct approval *a = c->approval;
    struct error copy = {0};
    error_set(&copy, ERROR_NO_SPACE, 0, "the approval cannot be recorded: %s", err->message);
    if (a->state != c->before)
        approval_set_state(a, c->before);
    approval_drop_votes(a, c->votes_before);
    if (c->fn)
        c->fn(c->data, NULL, &copy);
    if (c->is_new)
        return drop_approval(a);
    if (approval_is_live(a) || a->unwritten)
        return follow_up(a);
    log_error("approval id=%s is %s, which is not recorded yet: %s", a->id,
              approval_state_name(a->state), err->message);
    a->unwritten = true;
    call_watches(a);
    follow_up(a);
}

/* The approval is free for the next change before its caller hears of this one, because a caller
 * may use it at once: a session is used again from inside. What that puts under way makes it busy,
 * and follow_up() leaves it alone then. */
static void on_written(void *data, const struct error *err)
{
    struct change c = *(struct change *)data;
    struct approval *a = c.approval;
    free(data);
    a->busy = a->using = false;
    if (err)
        return fail_change(&c, err);
    fault_point("approval.recorded");
    bool was_announced = a->unwritten;
    a->unasked = a->unwritten = false;
    if (c.fn)
        c.fn(c.data, a, NULL);
    if (!was_announced)
        call_watches(a);
    follow_up(a);
}

static void on_unstored(void *data)
{
    on_written(data, NULL);
}

/* One change of an approval at a time (busy). A decision or a use that comes meanwhile is refused
 * or waits, so no two of them can be based on the same state. */
void approval_write(struct approval *a, enum approval_state before, size_t votes_before,
                    bool is_new, approval_fn fn, void *data)
{
    struct change *c = new0(struct change);
    *c = (struct change){a, before, votes_before, is_new, fn, data};
    a->busy = true;
    if (!a->set->options.store) {
        loop_defer(a->set->options.loop, on_unstored, c);
        return;
    }
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *row = approval_to_row(a);
    json_format(row, &b);
    store_put(a->set->options.store, STORE_APPROVAL, a->id, b.data, b.len, on_written, c);
}

int approval_record(struct approval *a, const char *kind, const struct identity *who,
                    const char *outcome, const char *reason, struct error *err)
{
    const char *tool = json_string_value(json_object_get(a->subject, "tool"));
    _cleanup_json_ json_t *details =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "digest", a->digest, "risk", risk_name(a->risk),
                  "rule", a->rule, "revision", a->revision, "requester",
                  a->requester.authenticated ? a->requester.key : "unauthenticated");
    if (reason && *reason)
        json_object_set_new(details, "reason", json_message(reason));
    return gate_record(a->set->options.gate, kind, who, a->id, tool, outcome, details, err);
}

/* --- time */

/* What has expired stays so by its own row; this keeps what has not from living longer than a
 * minute more when the clock is set back and the control plane is started again. */
static void keep_time(struct approvals *s)
{
    char text[64];
    int64_t now = approval_now_s();
    if (!s->options.store || now < s->kept_s + KEEP_TIME_S)
        return;
    s->kept_s = now;
    int n = snprintf(text, sizeof(text), "{\"seen_s\":%lld}", (long long)now);
    store_put_soon(s->options.store, STORE_CLOCK, CLOCK_ROW, text, (size_t)n, NULL, NULL);
}

static void load_time(void *data, const char *key, const char *body, size_t len)
{
    struct approvals *s = data;
    struct error err = {0};
    _cleanup_json_ json_t *row = json_parse_object(body, len, &err);
    if (strcmp(key, CLOCK_ROW) != 0)
        return;
    s->kept_s = json_integer_value(json_object_get(row, "seen_s"));
    clock_seen_raise(s->kept_s * NS_PER_S);
}

/* --- life */

static void remove_row(struct approval *a)
{
    if (a->set->options.store)
        store_delete(a->set->options.store, STORE_APPROVAL, a->id, NULL, NULL);
    drop_approval(a);
}

/* The end holds even where the audit cannot be written: it takes a right away. */
void approval_end(struct approval *a, enum approval_state state, const char *why)
{
    struct error err = {0};
    if (approval_record(a, "approval", NULL, approval_state_name(state), why, &err) < 0)
        log_error("approval id=%s: %s", a->id, err.message);
    approval_set_state(a, state);
    free(a->void_reason);
    a->void_reason = xstrdup(why);
    approval_write(a, state, a->n_votes, false, NULL, NULL);
}

/* What is busy is passed over: its next state is on its way to the disk, and follow_up() looks at
 * it when it is there. */
static void on_tick(void *data)
{
    struct approvals *s = data;
    int64_t now = approval_now_s();
    list_for_each_safe(a, &s->all, struct approval, node) {
        if (a->busy)
            continue;
        if (a->unwritten)
            approval_write(a, a->state, a->n_votes, false, NULL, NULL);
        else if (approval_is_live(a) && now >= a->expires_s)
            approval_end(a, APPROVAL_EXPIRED,
                         a->state == APPROVAL_PENDING ? "no person decided in time"
                                                      : "the grant was not used in time");
        else if (approval_is_live(a))
            look_after(a);
        else if (now >= a->changed_s + (int64_t)(s->options.config.keep_ms / 1000))
            remove_row(a);
    }
    if (list_empty(&s->all))
        loop_timer_stop(&s->tick);
    else
        keep_time(s);
}

static void enter_approval(struct approvals *s, struct approval *a)
{
    a->set = s;
    list_append(&s->all, &a->node);
    map_put(s->by_id, a->id, a);
    s->n_pending += a->state == APPROVAL_PENDING;
    if (!loop_timer_active(&s->tick))
        loop_timer_start_every(&s->tick, TICK_MS);
}

static void load_row(void *data, const char *key, const char *body, size_t len)
{
    struct approvals *s = data;
    struct error err = {0};
    _cleanup_json_ json_t *row = json_parse_object(body, len, &err);
    struct approval *a = row ? approval_from_row(key, row, &err) : NULL;
    if (a) {
        clock_seen_raise(a->changed_s * NS_PER_S);
        enter_approval(s, a);
        approval_announce_restored(a);
    } else {
        log_error("stored approval cannot be read id=%s: %s", key, err.message);
    }
}

struct approvals *approvals_new(const struct approvals_options *o, struct error *err)
{
    struct approvals *s = new0(struct approvals);
    s->options = *o;
    s->by_id = map_new();
    list_init(&s->all);
    list_init(&s->watches);
    loop_timer_init(&s->tick, o->loop, on_tick, s);
    if (o->store && (store_load(o->store, STORE_CLOCK, load_time, s, err) < 0 ||
                     store_load(o->store, STORE_APPROVAL, load_row, s, err) < 0)) {
        approvals_free(s);
        return NULL;
    }
    return s;
}

static void on_tick_closed(void *data)
{
    free(data);
}

void approvals_free(struct approvals *s)
{
    if (!s)
        return;
    while (!list_empty(&s->all)) {
        struct approval *a = container_of(s->all.next, struct approval, node);
        list_remove(&a->node);
        approval_free(a);
    }
    map_free(s->by_id);
    loop_timer_close(&s->tick, on_tick_closed, s);
}

/* --- asking */

static int check_room(const struct approvals *s, const struct identity *who, struct error *err)
{
    size_t mine = 0, share = s->options.config.max_pending_per_key;
    size_t half = (s->options.config.max_pending + 1) / 2;
    if (*who->key && share > half) /* whatever is set, one key cannot shut out all others */
        share = half;
    list_for_each(a, &s->all, struct approval, node)
        mine += a->state == APPROVAL_PENDING && strcmp(a->requester.key, who->key) == 0;
    if (s->n_pending >= s->options.config.max_pending)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu calls wait for approval already "
                         "(max_pending_approvals)",
                         s->n_pending);
    if (mine >= share)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu calls of this key wait for approval already "
                         "(max_pending_approvals_per_key)",
                         mine);
    return 0;
}

json_t *approval_subject_until(const json_t *subject, int64_t expires_s)
{
    json_t *copy = json_copy((json_t *)subject);
    json_object_set_new(copy, "expires_at", json_integer(expires_s));
    return copy;
}

/* The time at which it expires is part of the subject, and so of the digest: a grant cannot be
 * given another one. The record of the audit comes first; an approval that is not recorded is not
 * asked. */
int approvals_ask(struct approvals *s, const struct approval_request *r, approval_fn fn, void *data,
                  struct error *err)
{
    int e = check_room(s, r->who, err);
    if (e < 0)
        return e;
    if (strcmp(r->need.revision, gate_revision(s->options.gate)) != 0)
        return error_set(err, ERROR_DENIED, 0, "the policy has changed: try again");
    if (r->id && map_find(s->by_id, r->id))
        return error_set(err, ERROR_CONFLICT, 0, "there is an approval '%s' already", r->id);
    struct approval *a = new0(struct approval);
    list_init(&a->node);
    list_init(&a->uses);
    a->set = s;
    snprintf(a->id, sizeof(a->id), "%s", r->id ? r->id : "apr-");
    if (!r->id)
        random_id(a->id + 4, ID_LENGTH);
    a->requester = *r->who;
    a->risk = r->need.risk;
    a->rule = xstrdup(r->need.rule);
    a->why = xstrdup(r->reason ? r->reason : "");
    a->revision = xstrdup(r->need.revision);
    a->obligations = r->need.obligations ? json_deep_copy(r->need.obligations) : json_object();
    a->created_s = a->changed_s = approval_now_s();
    a->expires_s = a->created_s + (int64_t)(s->options.config.ttl_ms + 999) / 1000;
    a->subject = approval_subject_until(r->subject, a->expires_s);
    a->shown = r->shown ? json_deep_copy(r->shown) : NULL;
    approval_digest(a->subject, a->digest);
    e = approval_record(a, "approval", r->who, "pending", NULL, err);
    if (e < 0) {
        approval_free(a);
        return e;
    }
    a->unasked = true;
    enter_approval(s, a);
    approval_write(a, APPROVAL_PENDING, 0, true, fn, data);
    return 0;
}
