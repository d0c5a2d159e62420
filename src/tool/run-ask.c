/* Between `ask` and the start of a call: the subject is made, a session approval or the grant that
 * the caller named is used, or a person is asked. The run waits meanwhile; struct run_asking is
 * what callbacks hold, so that a run may be abandoned at any time.
 *
 * Whatever was decided before a wait is decided again after it: before the subject is made, and
 * once more when the use of the grant is on record. A run that waited for a person is from then on
 * the same as one whose caller comes back with the grant: looked up, decided and compared anew. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "tool/run-internal.h"

struct run_asking {
    struct run *run; /* NULL: abandoned */
    struct approval_watch watch;
    json_t *subject;
    json_t *obligations; /* of the decision, for struct approval_need */
    char id[APPROVAL_ID_SIZE];
    bool granted; /* a person has approved id */
    int calls;    /* callbacks under way */
};

static void asking_free(struct run_asking *k)
{
    if (k->run || k->calls)
        return;
    approval_watch_remove(&k->watch);
    json_decref(k->subject);
    json_decref(k->obligations);
    free(k);
}

void run_ask_cancel(struct run *run)
{
    struct run_asking *k = steal_ptr(run->asking);
    if (!k)
        return;
    k->run = NULL;
    approval_watch_remove(&k->watch);
    asking_free(k);
}

static void fail(struct run_asking *k, const struct error *err)
{
    struct run *run = k->run;
    if (run)
        run_fail(run, err); /* frees k, or leaves it to the last callback */
}

/* A grant that cannot be used is a refusal, and on record as one. */
static void refuse(struct run_asking *k, const struct error *err)
{
    struct run *run = k->run;
    struct error ignored = {0};
    if (!run)
        return;
    gate_refuse(run->gate, &run->call, &run->decision, "approval", err->message, &ignored);
    run_fail(run, err);
}

/* A call is back: false when there is nobody to go on for, or no reason to. */
static bool comes_back(struct run_asking *k, const struct error *err)
{
    k->calls--;
    if (!k->run)
        asking_free(k);
    else if (err)
        fail(k, err);
    else
        return true;
    return false;
}

/* --- the decision of this moment */

static struct approval_need need_of(struct run_asking *k)
{
    const struct gate_decision *d = &k->run->decision;
    json_decref(k->obligations);
    k->obligations = rules_obligations_to_json(&d->rules.obligations);
    return (struct approval_need){.risk = d->rules.risk,
                                  .rule = d->rules.rule,
                                  .revision = ruleset_revision(d->ruleset),
                                  .obligations = k->obligations};
}

/* Policy, hours, findings, image rules, the key, and whether the sandbox is still there. */
static int decide_again(struct run *run, struct error *err)
{
    enum sandbox_state state = run->one_shot ? SANDBOX_READY : sandbox_state(run->sandbox);
    if (state != SANDBOX_READY && state != SANDBOX_CREATING)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s has ended meanwhile",
                         sandbox_id(run->sandbox));
    int r = gate_decide_again(run->gate, &run->call, &run->decision, err);
    return r < 0 ? r : run_oblige(run, err);
}

/* --- using a grant */

static void on_used(void *data, struct approval *a, const struct error *err)
{
    struct run_asking *k = data;
    struct error late = {0};
    if (!comes_back(k, err))
        return;
    if (decide_again(k->run, &late) < 0) {
        fail(k, &late);
        return;
    }
    struct approval_need need = need_of(k);
    if (approval_check_need(a, &need, &late) < 0) {
        refuse(k, &late);
        return;
    }
    run_apply_pins(k->run);
    run_go_on(k->run, approval_id(a));
}

/* The sandbox has been looked into since then, which takes as long as it likes. */
int run_ask_again(struct run *run, struct error *err)
{
    struct error why = {0};
    int r = gate_decide_again(run->gate, &run->call, &run->decision, err);
    if (r < 0)
        return r;
    struct approval *a = approvals_find(gate_approvals(run->gate), &run->who, run->grant);
    struct approval_need need = need_of(run->asking);
    if (!a)
        error_set(&why, ERROR_DENIED, 0, "the approval is not known any more");
    else
        approval_check_need(a, &need, &why);
    return error_is_set(&why)
               ? gate_refuse(run->gate, &run->call, &run->decision, "approval", why.message, err)
               : 0;
}

static int use(struct run_asking *k, const char *id, struct error *err)
{
    struct run *run = k->run;
    struct approval_need need = need_of(k);
    k->calls++;
    int r =
        approvals_use(gate_approvals(run->gate), id, &run->who, k->subject, &need, on_used, k, err);
    if (r < 0)
        k->calls--;
    return r;
}

/* --- waiting for a person */

static void set_ended(const struct approval *a, struct error *err)
{
    const char *why = approval_reason(a);
    error_set(err, ERROR_DENIED, 0, "approval %s is %s%s%s", approval_id(a),
              approval_state_name(approval_state(a)), *why ? ": " : "", why);
}

static void start_settling(struct run_asking *k);

static void on_change(struct approval_watch *w, struct approval *a)
{
    struct run_asking *k = container_of(w, struct run_asking, watch);
    struct error err = {0};
    if (strcmp(approval_id(a), k->id) != 0 || approval_state(a) == APPROVAL_PENDING)
        return;
    approval_watch_remove(w);
    if (approval_state(a) == APPROVAL_APPROVED) {
        k->granted = true;
        start_settling(k);
    } else {
        set_ended(a, &err);
        refuse(k, &err);
    }
}

static void on_asked(void *data, struct approval *a, const struct error *err)
{
    struct run_asking *k = data;
    struct error pending = {0};
    if (!comes_back(k, err))
        return;
    memcpy(k->id, approval_id(a), sizeof(k->id));
    if (k->run->terms.wait) {
        approvals_watch(gate_approvals(k->run->gate), &k->watch);
        if (k->run->events->on_asked)
            k->run->events->on_asked(k->run->data, k->run, a);
        return;
    }
    error_set(&pending, ERROR_PENDING, 0, "waiting for approval %s", k->id);
    memcpy(pending.ref, k->id, sizeof(pending.ref));
    fail(k, &pending);
}

static int ask_person(struct run_asking *k, struct error *err)
{
    struct run *run = k->run;
    _cleanup_json_ json_t *shown = run_shown(run);
    struct approval_request r = {.id = run->terms.action_id,
                                 .who = &run->who,
                                 .need = need_of(k),
                                 .reason = run->decision.rules.reason,
                                 .subject = k->subject,
                                 .shown = shown};
    k->calls++;
    int e = approvals_ask(gate_approvals(run->gate), &r, on_asked, k, err);
    if (e < 0)
        k->calls--;
    return e;
}

/* --- which of them */

static int settle(struct run_asking *k, struct error *err)
{
    struct run *run = k->run;
    struct error ignored = {0};
    const char *grant = k->granted ? k->id : run->terms.approval_id;
    int r = decide_again(run, err);
    if (r < 0)
        return r;
    json_decref(k->subject);
    k->subject = run_subject(run);
    if (grant) {
        r = use(k, grant, err);
        if (r < 0)
            gate_refuse(run->gate, &run->call, &run->decision, "approval", err->message, &ignored);
        return r;
    }
    struct approval_need need = need_of(k);
    struct approval *session =
        approvals_find_session(gate_approvals(run->gate), &run->who, k->subject, &need);
    return session ? use(k, approval_id(session), err) : ask_person(k, err);
}

static void on_probed(struct run *run)
{
    struct error err = {0};
    if (settle(run->asking, &err) < 0)
        run_fail(run, &err);
}

static void start_settling(struct run_asking *k)
{
    if (!run_probe_start(k->run, on_probed))
        on_probed(k->run);
}

int run_ask(struct run *run, struct error *err)
{
    if (run->left)
        return error_set(err, ERROR_DENIED, 0, "the caller left before a person was asked");
    struct run_asking *k = new0(struct run_asking);
    list_init(&k->watch.node);
    k->watch.on_change = on_change;
    k->run = run;
    run->asking = k;
    return run_probe_start(run, on_probed) ? 0 : settle(k, err);
}
