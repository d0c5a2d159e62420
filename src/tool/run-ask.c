/* SPDX-License-Identifier: Apache-2.0 */
/* A person decides: the subject is made, and a session approval or the grant that the caller named
 * is used, or a person is asked. The approvals' answers come later and cannot be called off, so
 * they carry a weak reference: the run may be abandoned at any time.
 *
 * Whatever was decided before a wait is decided again after it: before the subject is made, and
 * once more when the use of the grant is on record. A run that waited for a person is from then on
 * the same as one whose caller comes back with the grant: looked up, decided and compared anew. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/weak.h"
#include "tool/run-internal.h"

bool run_ask_wanted(const struct run *run)
{
    return !run->grant && (run->decision.rules.verdict == VERDICT_ASK || run->terms.approval_id);
}

void run_ask_cancel(struct run *run)
{
    approval_watch_remove(&run->watch);
}

/* A grant that cannot be used is a refusal, and on record as one. */
static int refuse_grant(struct run *run, struct error *err)
{
    struct error ignored = {0};
    return gate_refuse(run->gate, &run->call, &run->decision, "approval", err->message, &ignored);
}

/* An answer is there: NULL when there is no run to go on with, or no reason to. The run may have
 * been abandoned since it asked, and its memory is gone then: only the weak reference tells. */
static struct run *take_answer(void *data, const struct error *err)
{
    struct run *run = weak_unref(data);
    if (run && err)
        run_fail(run, err);
    return err ? NULL : run;
}

/* --- the decision of this moment */

/* The least that an approval must cover. A grant of lower risk, another rule or fewer obligations
 * was given for something else. */
static struct approval_need need_of(const struct run *run, const json_t *obligations)
{
    const struct gate_decision *d = &run->decision;
    return (struct approval_need){.risk = d->rules.risk,
                                  .rule = d->rules.rule,
                                  .revision = ruleset_revision(d->ruleset),
                                  .obligations = obligations};
}

static json_t *obligations_of(const struct run *run)
{
    return rules_obligations_to_json(&run->decision.rules.obligations);
}

/* Policy, hours, findings, image rules, the key, and whether the sandbox is still there. */
static int decide_again(struct run *run, struct error *err)
{
    enum sandbox_state state = run->one_shot ? SANDBOX_READY : sandbox_state(run->sandbox);
    if (state != SANDBOX_READY && state != SANDBOX_CREATING)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s has ended meanwhile",
                         sandbox_id(run->sandbox));
    return run_decide(run, err);
}

/* Whether a, which may be NULL, is enough for what was decided just now. */
static int check_grant(struct run *run, const struct approval *a, struct error *err)
{
    _cleanup_json_ json_t *obligations = obligations_of(run);
    struct approval_need need = need_of(run, obligations);
    int r = a ? approval_check_need(a, &need, err)
              : error_set(err, ERROR_DENIED, 0, "the approval is not known any more");
    return r < 0 ? refuse_grant(run, err) : 0;
}

int run_ask_check(struct run *run, struct error *err)
{
    return check_grant(run, approvals_find(gate_approvals(run->gate), &run->who, run->grant), err);
}

/* --- using a grant */

/* The use of the grant is on record, and it cannot be used again. Writing that took time, so the
 * decision is made anew before anything goes on; a refusal here costs the grant. */
static void on_used(void *data, struct approval *a, const struct error *err)
{
    struct error late = {0};
    struct run *run = take_answer(data, err);
    if (!run)
        return;
    if (decide_again(run, &late) < 0 || check_grant(run, a, &late) < 0) {
        run_fail(run, &late);
        return;
    }
    run_apply_pins(run);
    run->grant = xstrdup(approval_id(a));
    run_go_on(run, RUN_BOX);
}

/* A run that is abandoned while the use is being written has used the grant up: it was on its way
 * to the record, and taking it back could make it usable twice. */
static int use_grant(struct run *run, const char *id, const json_t *subject,
                     const struct approval_need *need, struct error *err)
{
    struct weak *weak = weak_ref(&run->weak, run);
    int r =
        approvals_use(gate_approvals(run->gate), id, &run->who, subject, need, on_used, weak, err);
    if (r < 0)
        weak_unref(weak);
    return r;
}

/* The sandbox has been looked into since the grant was used, which takes as long as it likes: the
 * paths must still lead where they led, and the grant must still be enough. */
int run_ask_confirm(struct run *run, bool moved, struct error *err)
{
    bool same = strcmp(gate_revision(run->gate), ruleset_revision(run->decision.ruleset)) == 0;
    if (moved || !same)
        return gate_refuse(run->gate, &run->call, &run->decision, "approval",
                           moved ? "the path leads elsewhere than when it was approved"
                                 : "the policy has changed since it was approved",
                           err);
    int next = run_decide(run, err);
    if (next < 0)
        return next;
    int r = run_ask_check(run, err);
    return r < 0 ? r : next;
}

/* --- waiting for a person */

/* Comes for every change of every approval. An approved run starts over at RUN_PROBE: the program
 * may have been replaced while the person read, and then the subject is not the approved one. */
static void on_change(struct approval_watch *w, struct approval *a)
{
    struct run *run = container_of(w, struct run, watch);
    struct error err = {0};
    if (strcmp(approval_id(a), run->terms.approval_id) != 0 ||
        approval_state(a) == APPROVAL_PENDING)
        return;
    approval_watch_remove(w);
    if (approval_state(a) == APPROVAL_APPROVED) {
        run_go_on(run, RUN_PROBE);
        return;
    }
    const char *why = approval_reason(a);
    error_set(&err, ERROR_DENIED, 0, "approval %s is %s%s%s", approval_id(a),
              approval_state_name(approval_state(a)), *why ? ": " : "", why);
    refuse_grant(run, &err);
    run_fail(run, &err);
}

/* From here on the approval is the grant that this run has to use. */
static void on_asked(void *data, struct approval *a, const struct error *err)
{
    struct error pending = {0};
    struct run *run = take_answer(data, err);
    if (!run)
        return;
    if (!run->terms.wait) {
        error_set(&pending, ERROR_PENDING, 0, "waiting for approval %s", approval_id(a));
        memcpy(pending.ref, approval_id(a), APPROVAL_ID_SIZE);
        run_fail(run, &pending);
        return;
    }
    run->terms.approval_id = xstrdup(approval_id(a));
    run->watch.on_change = on_change;
    approvals_watch(gate_approvals(run->gate), &run->watch);
    if (run->events->on_asked)
        run->events->on_asked(run->data, run, a);
}

/* A person may take hours, and an empty sandbox is quickly made again: a one-shot has none
 * meanwhile. With a grant it keeps the one it has, because another beside it, while it is being
 * taken apart, might be one too many for its key, and the grant would be used up for nothing. */
static int ask_person(struct run *run, const json_t *subject, const struct approval_need *need,
                      struct error *err)
{
    if (run->one_shot && run->sandbox)
        run_drop_box(run);
    _cleanup_json_ json_t *shown = run_shown(run);
    struct approval_request r = {.id = run->terms.action_id,
                                 .who = &run->who,
                                 .need = *need,
                                 .reason = run->decision.rules.reason,
                                 .subject = subject,
                                 .shown = shown};
    struct weak *weak = weak_ref(&run->weak, run);
    int e = approvals_ask(gate_approvals(run->gate), &r, on_asked, weak, err);
    if (e < 0)
        weak_unref(weak);
    return e;
}

/* --- the phase: which of them */

int run_ask_enter(struct run *run, struct error *err)
{
    if (!run_ask_wanted(run))
        return run_next(run);
    int r = decide_again(run, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *subject = run_subject(run);
    _cleanup_json_ json_t *obligations = obligations_of(run);
    struct approval_need need = need_of(run, obligations);
    if (run->terms.approval_id) {
        r = use_grant(run, run->terms.approval_id, subject, &need, err);
        return r < 0 ? (refuse_grant(run, err), r) : RUN_ASK;
    }
    struct approval *session =
        approvals_find_session(gate_approvals(run->gate), &run->who, subject, &need);
    r = session ? use_grant(run, approval_id(session), subject, &need, err)
                : ask_person(run, subject, &need, err);
    return r < 0 ? r : RUN_ASK;
}
