/* SPDX-License-Identifier: Apache-2.0 */
/* The use of a grant. It is on record before the call runs; uses of a session that come meanwhile
 * queue up on it and are recorded together. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/map.h"
#include "guard/approval-internal.h"
#include "guard/gate.h"

struct approval_use {
    struct list node;
    struct identity who;
    approval_fn fn;
    void *data;
};

/* Uses that are in one record. */
struct batch {
    struct list uses;
};

static int check_usable(const struct approval *a, struct error *err)
{
    if (a->state == APPROVAL_APPROVED && approval_now_s() < a->expires_s)
        return approval_check_alive(a, err);
    if (a->state == APPROVAL_PENDING)
        return error_set(err, ERROR_DENIED, 0, "approval %s is still pending", a->id);
    return error_set(err, ERROR_DENIED, 0, "approval %s is %s%s%s", a->id,
                     a->state == APPROVAL_APPROVED ? "expired" : approval_state_name(a->state),
                     a->void_reason ? ": " : "", a->void_reason ? a->void_reason : "");
}

/* A use waits for nothing but uses: what is being decided is not decided yet. */
static bool is_in_use(const struct approval *a)
{
    return a->busy && a->using;
}

/* A grant covers exactly the bytes that a person approved: the subject is built anew from the call
 * that wants to run, and its digest compared. */
static bool approval_covers(const struct approval *a, const json_t *subject)
{
    char digest[AUDIT_DIGEST_SIZE];
    if (a->session_left)
        return approval_session_covers(a, subject);
    _cleanup_json_ json_t *whole = approval_subject_until(subject, a->expires_s);
    approval_digest(whole, digest);
    return strcmp(digest, a->digest) == 0;
}

/* --- recording */

/* The use is freed before its caller is called, which may use the same session again. */
static void tell_use(struct approval_use *use, struct approval *a, const struct error *err)
{
    approval_fn fn = use->fn;
    void *data = use->data;
    list_remove(&use->node);
    free(use);
    fn(data, a, err);
}

/* A session whose policy or key has ended meanwhile runs nothing more, recorded or not. */
static void on_recorded(void *data, struct approval *a, const struct error *err)
{
    struct batch *b = data;
    struct error late = {0};
    if (a) {
        a->using = false;
        if (approval_check_alive(a, &late) < 0)
            err = &late;
    }
    while (!list_empty(&b->uses))
        tell_use(container_of(b->uses.next, struct approval_use, node), err ? NULL : a, err);
    free(b);
}

/* Takes one use from the grant, in memory, before its row is written: a second call that comes
 * meanwhile finds it taken. */
static int grant_take(struct approval *a, const struct approval_use *use, struct error *err)
{
    int r = approval_record(a, "grant", &use->who, "used", NULL, err);
    if (r >= 0 && (a->session_left == 0 || --a->session_left == 0))
        approval_set_state(a, APPROVAL_USED);
    return r;
}

static void write_uses(struct approval *a, struct batch *b)
{
    bool last = a->state == APPROVAL_USED;
    a->using = true;
    if (last)
        fault_point("approval.using");
    /* The last one that is not written is never to be used again. */
    approval_write(a, last ? APPROVAL_VOID : a->state, a->n_votes, false, on_recorded, b);
}

static struct batch *batch_new(void)
{
    struct batch *b = new0(struct batch);
    list_init(&b->uses);
    return b;
}

/* The change that was being written is done. All uses that queued up go into one row; each is
 * checked again, because the change may have ended the grant. */
void approval_next_uses(struct approval *a)
{
    if (list_empty(&a->uses))
        return;
    struct batch *b = batch_new();
    while (!list_empty(&a->uses)) {
        struct approval_use *use = container_of(a->uses.next, struct approval_use, node);
        struct error err = {0};
        list_remove(&use->node);
        list_append(&b->uses, &use->node);
        a->n_uses--;
        if (check_usable(a, &err) < 0 || grant_take(a, use, &err) < 0)
            tell_use(use, NULL, &err);
    }
    if (list_empty(&b->uses))
        free(b);
    else
        write_uses(a, b);
}

/* --- using */

/* What is no session is for one call only: whatever else it is tried for has used it up. Otherwise
 * a caller could try one call after the other until one of them fits. */
static int refuse_use(struct approval *a, const struct error *why, struct error *err)
{
    if (!a->session_left && !a->busy)
        approval_end(a, APPROVAL_VOID, why->message);
    return error_set(err, ERROR_DENIED, 0, "approval %s%s: %s", a->id,
                     a->session_left ? " does not cover this call" : " is void now", why->message);
}

/* Version 0.1 did not say where the paths of a call lead: what it asked about is no call of now.
 * Subjects that are no commands, such as a wider network, say it in no version. */
static bool is_of_version_0_1(const struct approval *a, const json_t *subject)
{
    return json_object_get(subject, "leads_to") && !json_object_get(a->subject, "leads_to") &&
           json_object_get(a->subject, "argv");
}

static int check_use(struct approval *a, const json_t *subject, const struct approval_need *need,
                     struct error *err)
{
    struct error why = {0};
    int r = check_usable(a, err);
    if (r < 0)
        return r;
    if (!a->session_left && is_of_version_0_1(a, subject))
        error_set(
            &why, ERROR_DENIED, 0,
            "it was asked for by version 0.1, which described calls differently; call without it "
            "to ask again");
    else if (!approval_covers(a, subject))
        error_set(&why, ERROR_DENIED, 0, "this is another call than the one that was approved");
    else
        approval_check_need(a, need, &why);
    return error_is_set(&why) ? refuse_use(a, &why, err) : 0;
}

/* Another key's approval does not exist for this one (404), so ids cannot be tried out. Uses that
 * wait in the queue count as used: a session of three cannot start four calls at once. */
int approvals_use(struct approvals *s, const char *id, const struct identity *who,
                  const json_t *subject, const struct approval_need *need, approval_fn fn,
                  void *data, struct error *err)
{
    struct approval *a = map_find(s->by_id, id);
    if (!a || strcmp(a->requester.key, who->key) != 0)
        return error_set(err, ERROR_NOT_FOUND, 0, "there is no approval '%.60s' of this key", id);
    if (a->busy && approval_is_live(a) && !is_in_use(a)) /* what has ended stays so */
        return error_set(err, ERROR_CONFLICT, 0, "approval %s is being decided or used", a->id);
    int r = check_use(a, subject, need, err);
    if (r < 0)
        return r;
    if (a->session_left && a->session_left <= a->n_uses)
        return error_set(err, ERROR_DENIED, 0, "approval %s is used up", a->id);
    struct approval_use *use = new0(struct approval_use);
    *use = (struct approval_use){.who = *who, .fn = fn, .data = data};
    if (a->busy) {
        list_append(&a->uses, &use->node);
        a->n_uses++;
        return 0;
    }
    r = grant_take(a, use, err);
    if (r < 0) {
        free(use);
        return r;
    }
    struct batch *b = batch_new();
    list_append(&b->uses, &use->node);
    write_uses(a, b);
    return 0;
}

struct approval *approvals_find_session(struct approvals *s, const struct identity *who,
                                        const json_t *subject, const struct approval_need *need)
{
    struct error ignored = {0};
    if (need->risk == RISK_CRITICAL)
        return NULL;
    list_for_each(a, &s->all, struct approval, node) {
        error_clear(&ignored);
        if (a->session_left > a->n_uses && strcmp(a->requester.key, who->key) == 0 &&
            (!a->busy || is_in_use(a)) && check_usable(a, &ignored) >= 0 &&
            approval_covers(a, subject) && approval_check_need(a, need, &ignored) >= 0)
            return a;
    }
    return NULL;
}
