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

int64_t approval_now_s(void)
{
    return clock_real_ns() / 1000000000;
}

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
static void tell(struct approval *a)
{
    struct list turn, *all = &a->set->watches;
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

static bool is_live(const struct approval *a)
{
    return a->state == APPROVAL_PENDING || a->state == APPROVAL_APPROVED;
}

static void drop(struct approval *a)
{
    approval_set_state(a, APPROVAL_VOID);
    map_remove(a->set->by_id, a->id);
    list_remove(&a->node);
    approval_free(a);
}

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
        return drop(a);
    if (is_live(a) || a->unwritten)
        return;
    log_error("approval id=%s is %s, which is not recorded yet: %s", a->id,
              approval_state_name(a->state), err->message);
    a->unwritten = true;
    tell(a);
}

static void on_written(void *data, const struct error *err)
{
    struct change c = *(struct change *)data;
    struct approval *a = c.approval;
    free(data);
    a->busy = false;
    if (err)
        return fail_change(&c, err);
    fault_point("approval.recorded");
    bool told = a->unwritten;
    a->unasked = a->unwritten = false;
    if (c.fn)
        c.fn(c.data, a, NULL);
    if (!told)
        tell(a);
}

static void on_unstored(void *data)
{
    on_written(data, NULL);
}

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

/* --- life */

static void remove_row(struct approval *a)
{
    if (a->set->options.store)
        store_delete(a->set->options.store, STORE_APPROVAL, a->id, NULL, NULL);
    drop(a);
}

/* To EXPIRED or VOID, by nobody, and for good: a store that fails brings no grant back. */
static void end(struct approval *a, enum approval_state state, const char *why)
{
    struct error err = {0};
    if (approval_record(a, "approval", NULL, approval_state_name(state), why, &err) < 0)
        log_error("approval id=%s: %s", a->id, err.message);
    approval_set_state(a, state);
    free(a->void_reason);
    a->void_reason = xstrdup(why);
    approval_write(a, state, a->n_votes, false, NULL, NULL);
}

static void on_tick(void *data)
{
    struct approvals *s = data;
    int64_t now = approval_now_s();
    list_for_each_safe(a, &s->all, struct approval, node)
    {
        if (a->busy)
            continue;
        if (a->unwritten)
            approval_write(a, a->state, a->n_votes, false, NULL, NULL);
        else if (is_live(a) && now >= a->expires_s)
            end(a, APPROVAL_EXPIRED,
                a->state == APPROVAL_PENDING ? "nobody decided in time"
                                             : "the grant was not used in time");
        else if (!is_live(a) && now >= a->changed_s + (int64_t)(s->options.keep_ms / 1000))
            remove_row(a);
    }
    if (list_empty(&s->all))
        loop_timer_stop(&s->tick);
}

static void enter(struct approvals *s, struct approval *a)
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
    if (a)
        enter(s, a);
    else
        log_error("stored approval cannot be read id=%s: %s", key, err.message);
}

struct approvals *approvals_new(const struct approvals_options *o, struct error *err)
{
    struct approvals *s = new0(struct approvals);
    s->options = *o;
    s->by_id = map_new();
    list_init(&s->all);
    list_init(&s->watches);
    loop_timer_init(&s->tick, o->loop, on_tick, s);
    if (o->store && store_load(o->store, STORE_APPROVAL, load_row, s, err) < 0) {
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
    size_t mine = 0;
    list_for_each(a, &s->all, struct approval, node) mine +=
        a->state == APPROVAL_PENDING && strcmp(a->requester.key, who->key) == 0;
    if (s->n_pending >= s->options.max_pending)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu calls wait for approval already "
                         "(max_pending_approvals)",
                         s->n_pending);
    if (mine >= s->options.max_pending_per_key)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu calls of this key wait for approval already "
                         "(max_pending_approvals_per_key)",
                         mine);
    return 0;
}

static json_t *with_expiry(const json_t *subject, int64_t expires_s)
{
    json_t *copy = json_copy((json_t *)subject);
    json_object_set_new(copy, "expires_at", json_integer(expires_s));
    return copy;
}

int approvals_ask(struct approvals *s, const struct approval_request *r, approval_fn fn, void *data,
                  struct error *err)
{
    int e = check_room(s, r->who, err);
    if (e < 0)
        return e;
    if (r->id && map_find(s->by_id, r->id))
        return error_set(err, ERROR_CONFLICT, 0, "there is an approval '%s' already", r->id);
    struct approval *a = new0(struct approval);
    list_init(&a->node);
    a->set = s;
    snprintf(a->id, sizeof(a->id), "%s", r->id ? r->id : "apr-");
    if (!r->id)
        random_id(a->id + 4, ID_LENGTH);
    a->requester = *r->who;
    a->risk = r->risk;
    a->rule = xstrdup(r->rule);
    a->why = xstrdup(r->reason ? r->reason : "");
    a->revision = xstrdup(r->revision);
    a->created_s = a->changed_s = approval_now_s();
    a->expires_s = a->created_s + (int64_t)(s->options.ttl_ms + 999) / 1000;
    a->subject = with_expiry(r->subject, a->expires_s);
    a->shown = r->shown ? json_deep_copy(r->shown) : NULL;
    approval_digest(a->subject, a->digest);
    e = approval_record(a, "approval", r->who, "pending", NULL, err);
    if (e < 0) {
        approval_free(a);
        return e;
    }
    a->unasked = true;
    enter(s, a);
    approval_write(a, APPROVAL_PENDING, 0, true, fn, data);
    return 0;
}

/* --- using */

static int check_usable(const struct approval *a, struct error *err)
{
    if (a->busy && is_live(a)) /* what has ended stays so, whether or not it is written yet */
        return error_set(err, ERROR_CONFLICT, 0, "approval %s is being decided or used", a->id);
    if (a->state == APPROVAL_APPROVED && approval_now_s() < a->expires_s)
        return 0;
    if (a->state == APPROVAL_PENDING)
        return error_set(err, ERROR_DENIED, 0, "approval %s is still pending", a->id);
    return error_set(err, ERROR_DENIED, 0, "approval %s is %s%s%s", a->id,
                     a->state == APPROVAL_APPROVED ? "expired" : approval_state_name(a->state),
                     a->void_reason ? ": " : "", a->void_reason ? a->void_reason : "");
}

static bool covers(const struct approval *a, const json_t *subject)
{
    char digest[AUDIT_DIGEST_SIZE];
    if (a->session_left)
        return approval_session_covers(a, subject);
    _cleanup_json_ json_t *whole = with_expiry(subject, a->expires_s);
    approval_digest(whole, digest);
    return strcmp(digest, a->digest) == 0;
}

int approvals_use(struct approvals *s, const char *id, const struct identity *who,
                  const json_t *subject, approval_fn fn, void *data, struct error *err)
{
    struct approval *a = map_find(s->by_id, id);
    if (!a || strcmp(a->requester.key, who->key) != 0)
        return error_set(err, ERROR_NOT_FOUND, 0, "there is no approval '%.60s' of this key", id);
    int r = check_usable(a, err);
    if (r < 0)
        return r;
    if (!covers(a, subject)) {
        end(a, APPROVAL_VOID, "the call is not the one that was approved");
        return error_set(err, ERROR_DENIED, 0, "approval %s is for another call: it is void now",
                         a->id);
    }
    r = approval_record(a, "grant", who, "used", NULL, err);
    if (r < 0)
        return r;
    if (a->session_left > 0 && --a->session_left > 0) {
        approval_write(a, a->state, a->n_votes, false, fn, data);
        return 0;
    }
    approval_set_state(a, APPROVAL_USED);
    fault_point("approval.using");
    approval_write(a, APPROVAL_VOID, a->n_votes, false, fn,
                   data); /* not written: never to be used again */
    return 0;
}

struct approval *approvals_find_session(struct approvals *s, const struct identity *who,
                                        const json_t *subject)
{
    struct error ignored = {0};
    list_for_each(a, &s->all, struct approval, node)
    {
        error_clear(&ignored);
        if (a->session_left && strcmp(a->requester.key, who->key) == 0 &&
            check_usable(a, &ignored) >= 0 && covers(a, subject))
            return a;
    }
    return NULL;
}

void approvals_void_others(struct approvals *s, const char *revision)
{
    list_for_each(a, &s->all, struct approval, node)
    {
        if (is_live(a) && !a->busy && strcmp(a->revision, revision) != 0)
            end(a, APPROVAL_VOID, "the policy has changed");
    }
}
