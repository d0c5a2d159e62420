/* SPDX-License-Identifier: Apache-2.0 */
/* Making sandboxes: names and limits, then fresh ones, those of the pool, and those that an earlier
 * control plane left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "gateway/gateway-client.h"
#include "runtime/warden-client.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

#define RANDOM_ID_LEN 12
#define CLAIMS_MAX    8 /* that one create tries */

static int check_name(struct manager *m, const char *id, const char *key, struct error *err)
{
    if (m->closing)
        return error_set(err, ERROR_UNAVAILABLE, 0, "the daemon is shutting down");
    if (map_find(m->by_id, id) || (key && map_find(m->by_alias, key)))
        return error_set(err, ERROR_CONFLICT, 0, "a sandbox with this id exists already");
    return 0;
}

/* Ids and callers' own names are looked up together: were one word both, a call meant for the
 * sandbox with the narrower policy would run in the other. */
static int check_word(struct manager *m, const char *owner, const char *word, struct error *err)
{
    if (sandbox_find(m, owner, word))
        return error_set(err, ERROR_CONFLICT, 0, "a sandbox with this id exists already");
    return 0;
}

static int check_admission(struct manager *m, const char *id, const char *key, struct error *err)
{
    int r = check_name(m, id, key, err);
    if (r < 0)
        return r;
    if (m->counts.sandboxes >= m->options.config.max_sandboxes)
        return error_set(err, ERROR_LIMIT, 0, "there are %zu sandboxes already (max_sandboxes)",
                         m->options.config.max_sandboxes);
    return 0;
}

static void set_maker(struct sandbox *sb, const struct sandbox_maker *by)
{
    free(sb->owner);
    sb->owner = xstrdup(by->key);
    snprintf(sb->address, sizeof(sb->address), "%s", by->address);
    snprintf(sb->actor, sizeof(sb->actor), "%s", by->key);
}

void sandbox_set_turn(struct sandbox *sb, uint64_t generation)
{
    sb->turn = generation;
    stream_numbers_init(&sb->streams, generation);
    sb->next_request = generation << 32 | 1;
}

static struct sandbox *sandbox_new(struct manager *m, const struct spec *spec,
                                   const struct sandbox_maker *by, const char *id)
{
    struct sandbox *sb = new0(struct sandbox);
    sb->manager = m;
    sb->journals.limit = m->options.config.journal_sandbox_bytes;
    sb->refs = 2; /* the tables and the runtime */
    snprintf(sb->id, sizeof(sb->id), "%s", id);
    random_id(sb->generation, sizeof(sb->generation) - 1);
    set_maker(sb, by);
    spec_copy(&sb->spec, spec);
    sb->created_ns = clock_real_ns();
    sb->created_ms = clock_mono_ms();
    sandbox_set_turn(sb, m->options.generation);
    sb->execs_by_id = map_new();
    list_init(&sb->waiters_ready);
    list_init(&sb->waiters_gone);
    list_init(&sb->node);
    list_init(&sb->idle_node);
    list_init(&sb->dirty_node);
    list_init(&sb->retired_node);
    list_init(&sb->expiring_node);
    list_init(&sb->lost_node);
    list_init(&sb->pool_node);
    snprintf(sb->runtime_id, sizeof(sb->runtime_id), "%s", id);
    list_init(&sb->gateway_reports);
    list_init(&sb->network_questions);
    list_init(&sb->record_shares);
    list_init(&sb->execs);
    list_init(&sb->running);
    list_init(&sb->port_streams);
    return sb;
}

/* One that was never in the tables. */
static void sandbox_drop_unborn(struct sandbox *sb)
{
    sb->state = SANDBOX_GONE;
    sb->refs = 1;
    sandbox_unref(sb);
}

/* A helper of one call has no other to share its output with. */
static void set_stream(struct sandbox *sb)
{
    const struct manager_config *c = &sb->manager->options.config;
    if (c->streams && sb->ops->has_streams && (!sb->hidden || sb->pooled))
        random_id(sb->spec.stream_token, SPEC_TOKEN_SIZE - 1);
}

static int launch_sandbox(struct sandbox *sb, struct error *err);

static int start_sandbox(struct sandbox *sb, struct error *err)
{
    struct manager *m = sb->manager;
    set_stream(sb);
    sandbox_enter_tables(m, sb);
    fault_point("create.before-row");
    sandbox_write_row(sb);
    fault_point("create.before-plan");
    if (sb->spec.intercept) {
        interceptor_new(sb);
        return 0;
    }
    return launch_sandbox(sb, err);
}

void sandbox_start_intercepted(struct sandbox *sb, const struct error *err)
{
    struct error why = {0};
    if (err)
        sandbox_start_failed(sb, err);
    else
        launch_sandbox(sb, &why);
}

static void sandbox_await_removal(struct sandbox *sb)
{
    if (!sb->instance || !sb->ops->lives_elsewhere)
        return;
    sb->remains = sb->awaits_removal = true;
    sandbox_ref(sb);
}

static int launch_sandbox(struct sandbox *sb, struct error *err)
{
    struct manager *m = sb->manager;
    sb->instance = sb->ops->start(sb->ops, m->options.host, sb->runtime_id, &sb->spec,
                                  &sandbox_runtime_events, sb, err);
    sandbox_await_removal(sb);
    fault_point("create.plan-sent");
    if (sb->instance)
        return 0;
    sandbox_start_failed(sb, err);
    return -EINVAL;
}

struct sandbox *sandbox_create_pooled(struct manager *m, const struct spec *spec, struct error *err)
{
    char id[PLAN_ID_SIZE] = "sbx-";
    random_id(id + 4, RANDOM_ID_LEN);
    if (check_admission(m, id, NULL, err) < 0)
        return NULL;
    struct sandbox *sb =
        sandbox_new(m, spec, &(struct sandbox_maker){.key = "", .address = ""}, id);
    sb->ops = runtime_find(spec->runtime);
    sb->hidden = sb->pooled = true;
    if (!sb->ops) {
        error_field(err, "runtime",
                    "there is no runtime '%s' in this build ('sbx doctor' lists those there are)",
                    spec->runtime);
        sandbox_drop_unborn(sb);
        return NULL;
    }
    return start_sandbox(sb, err) < 0 ? NULL : sb;
}

int manager_adopt_member(struct manager *m, const char *runtime_id)
{
    struct sandbox_maker none = {.key = "", .address = ""};
    struct error err = {0};
    /* The token of a pod's stream container went with the control plane that made it. */
    if (m->options.config.streams || map_find(m->by_id, runtime_id) || !pool_expect(m->pool))
        return 0;
    struct sandbox *sb = sandbox_new(m, pool_spec(m->pool), &none, runtime_id);
    sb->ops = runtime_find(sb->spec.runtime);
    sb->hidden = sb->pooled = true;
    sandbox_enter_tables(m, sb);
    if (sb->ops && sb->ops->adopt)
        sb->instance = sb->ops->adopt(sb->ops, m->options.host, sb->runtime_id, &sb->spec,
                                      &sandbox_runtime_events, sb, &err);
    if (!sb->instance) {
        sandbox_start_failed(sb, &err);
        return 0;
    }
    sandbox_await_removal(sb);
    return 1;
}

/* A pooled sandbox becomes a caller's: a name, an owner and an environment of its own. It leaves
 * the tables under its old name and owner first, and sandbox_make() enters it again under the new
 * ones: counts and lookups never see a mixture. */
static void give_away(struct sandbox *sb, const struct spec *spec, const struct sandbox_maker *by,
                      const char *id)
{
    struct manager *m = sb->manager;
    char token[SPEC_TOKEN_SIZE];
    memcpy(token, sb->spec.stream_token, sizeof(token));
    map_remove(m->by_id, sb->id);
    list_remove(&sb->node);
    owner_leave(sb);
    m->counts.sandboxes--;
    m->counts.created_total--;
    snprintf(sb->id, sizeof(sb->id), "%s", id);
    set_maker(sb, by);
    spec_done(&sb->spec);
    spec_copy(&sb->spec, spec);
    memcpy(sb->spec.stream_token, token, sizeof(token)); /* its pod's */
    sb->pooled = false;
    sb->state = SANDBOX_CREATING;
    sb->created_ns = clock_real_ns();
    sb->created_ms = clock_mono_ms();
}

bool sandbox_record_fits(struct manager *m, const struct runtime_ops *ops, const struct spec *spec,
                         const struct sandbox_maker *by, const char *alias,
                         struct sandbox_policy *policy)
{
    char id[PLAN_ID_SIZE] = "sbx-";
    if (!ops->record_max)
        return true;
    random_id(id + 4, RANDOM_ID_LEN);
    struct sandbox *unborn = sandbox_new(m, spec, by, id);
    unborn->ops = ops;
    unborn->alias = alias ? xstrdup(alias) : NULL;
    unborn->policy = policy;
    set_stream(unborn);
    _cleanup_free_ char *text = persist_sandbox_text(unborn);
    unborn->policy = NULL; /* the caller's */
    sandbox_drop_unborn(unborn);
    return !text || strlen(text) < ops->record_max;
}

/* Where what the runtime calls a sandbox is seen by callers, as a namespace is, it is the id: one
 * that was made ahead has its own, and a caller's own name needs a fresh one. What would refuse a
 * fresh one by now, as a wall that is not proven any more, keeps those made ahead from callers,
 * too. */
static struct sandbox *sandbox_claim_pooled(struct manager *m, const struct runtime_ops *ops,
                                            const struct spec *spec, const struct sandbox_maker *by,
                                            const char *id, bool named)
{
    char own[PLAN_ID_SIZE];
    struct error err = {0};
    if (ops->claim && (named || ops->check(ops, m->options.host, spec, &err) < 0))
        return NULL;
    struct sandbox *sb = pool_claim(m->pool, spec);
    if (!sb)
        return NULL;
    memcpy(own, sb->id, sizeof(own));
    give_away(sb, spec, by, ops->claim ? own : id);
    return sb;
}

static void on_sandbox_claimed(void *data, const struct error *err);

/* READY waits for the runtime's word. */
static void sandbox_send_claim(struct sandbox *sb)
{
    struct error err = {0};
    if (!sb->ops->claim || !sb->instance)
        return;
    sb->claiming = true;
    if (sb->ops->claim(sb->instance, on_sandbox_claimed, sb, &err) < 0) {
        sb->claiming = false;
        sandbox_fail_creating(sb, &err);
    }
}

/* What the runtime has of a member, which has run nothing, becomes that of a sandbox which lacks
 * it; the rest of the member goes. Instance and connection are taken out of the member before it is
 * deleted, because a deletion would stop the one and close the other; the two references that the
 * runtime had to the member are given up by hand, because its events come to sb from now on. */
static void sandbox_take_member(struct sandbox *sb, struct sandbox *member)
{
    sb->instance = steal_ptr(member->instance);
    sb->runner = steal_ptr(member->runner);
    sb->ops->rebind(sb->instance, sb);
    runner_rebind(sb->runner, sb);
    sb->effective = member->effective;
    sb->turn = member->turn;
    sb->streams = member->streams;
    sb->next_request = member->next_request;
    sb->started = true;
    sb->resumed = member->resumed;
    memcpy(sb->runtime_id, member->runtime_id, sizeof(sb->runtime_id));
    memcpy(sb->spec.stream_token, member->spec.stream_token, sizeof(sb->spec.stream_token));
    sandbox_await_removal(sb);
    member->remains = member->awaits_removal = false;
    sandbox_unref(member); /* of the removal */
    sandbox_delete(member, NULL);
    sandbox_unref(member); /* of the runtime */
}

/* The next one of the pool; false where none can be had at once. */
static bool sandbox_claim_next(struct sandbox *sb)
{
    struct sandbox *member =
        ++sb->n_claims < CLAIMS_MAX ? pool_claim(sb->manager->pool, &sb->spec) : NULL;
    if (!member)
        return false;
    member->pooled = false; /* the pool does not count it any more */
    if (!member->instance || !sandbox_runner(member)) {
        sandbox_delete(member, NULL);
        return false;
    }
    sandbox_take_member(sb, member);
    sandbox_write_row(sb);
    sandbox_send_claim(sb);
    return true;
}

/* What was claimed is another's: the next one is tried. Where there is none, one is made, under a
 * name that no other has. */
static void sandbox_claim_lost(struct sandbox *sb, const struct error *err)
{
    struct error why = {0};
    log_info("a sandbox that was made ahead is another's by now id=%s: %s", sb->id, err->message);
    runner_close(steal_ptr(sb->runner));
    sandbox_forget_lost(sb);
    sb->instance = NULL;
    sb->started = sb->runner_ended = sb->resumed = false;
    if (sb->buried) {      /* the create has failed meanwhile */
        sandbox_unref(sb); /* the runtime's */
        return;
    }
    if (err->code != ERROR_FORBIDDEN && sandbox_claim_next(sb)) /* else each is refused */
        return;
    snprintf(sb->runtime_id, sizeof(sb->runtime_id), "sbx-");
    random_id(sb->runtime_id + 4, RANDOM_ID_LEN);
    if (sb->spec.stream_token[0]) /* the one before is that of another's pod */
        random_id(sb->spec.stream_token, SPEC_TOKEN_SIZE - 1);
    sandbox_write_row(sb);
    launch_sandbox(sb, &why);
}

static void on_sandbox_claimed(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    sb->claiming = false;
    if (err && (err->code == ERROR_CONFLICT || err->code == ERROR_NOT_FOUND ||
                err->code == ERROR_FORBIDDEN))
        sandbox_claim_lost(sb, err);
    else if (err)
        sandbox_fail_creating(sb, err);
    else
        sandbox_ready_when_settled(sb);
}

static int check_network(const struct runtime_ops *ops, const struct spec *spec,
                         const struct sandbox_maker *by, struct error *err)
{
    if (spec->network && !ops->has_proxy)
        return error_unsupported(
            err, "network", "sandboxes of runtime '%s' cannot have a network: those of 'local' can",
            ops->name);
    if (spec_has_addresses(spec) && !ops->has_addresses)
        return error_unsupported(
            err, "network.cidrs",
            "sandboxes of runtime '%s' cannot have a network by address: those of 'local', "
            "'crun', 'runc', 'gvisor', 'podman', 'docker', 'microvm' and 'kube' can",
            ops->name);
    if (spec_has_network(spec) && !by->network_admitted)
        return error_set(err, ERROR_INTERNAL, 0,
                         "nothing has decided on the hosts of this network");
    return 0;
}

int sandbox_check_spec(struct manager *m, const struct runtime_ops *ops, const struct spec *spec,
                       const char *owner, struct error *err)
{
    struct sandbox_maker by = {.key = owner, .address = "", .network_admitted = true};
    _cleanup_strv_ char **hosts = NULL;
    struct error why = {0};
    int r = check_network(ops, spec, &by, err);
    if (r < 0)
        return r;
    r = interceptor_check(m, ops, spec, owner, &hosts, err);
    if (r < 0)
        return r;
    /* A runtime that is not there now may be there when the sandbox is made. */
    if (!ops->check || ops->check(ops, m->options.host, spec, &why) >= 0 ||
        why.code == ERROR_UNAVAILABLE)
        return 0;
    return error_set(err, why.code, 0, "%s", why.message);
}

/* Takes *policy where a sandbox is made of it. */
static struct sandbox *sandbox_make(struct manager *m, const struct spec *spec,
                                    const struct sandbox_maker *by, const char *name,
                                    const char *alias, struct sandbox_policy **policy, bool hidden,
                                    struct error *err)
{
    char id[PLAN_ID_SIZE] = "sbx-";
    _cleanup_free_ char *key = alias ? sandbox_alias_key(by->key, alias) : NULL;
    if (name)
        snprintf(id + 4, sizeof(id) - 4, "%s", name);
    else
        random_id(id + 4, RANDOM_ID_LEN);
    const struct runtime_ops *ops = runtime_find(spec->runtime);
    if (!ops) {
        error_unsupported(
            err, "runtime",
            "there is no runtime '%s' in this build ('sbx doctor' lists those there are)",
            spec->runtime);
        return NULL;
    }
    _cleanup_strv_ char **intercepted = NULL;
    if (check_network(ops, spec, by, err) < 0 ||
        interceptor_check(m, ops, spec, by->key, &intercepted, err) < 0)
        return NULL;
    const struct gateway_rules rules = {.hosts = spec->hosts,
                                        .denied = spec->denied_hosts,
                                        .intercepted = intercepted,
                                        .proxy = true};
    if (spec->network && network_check_room(m, by->key, spec, &rules, err) < 0)
        return NULL;
    if (check_name(m, id, key, err) < 0)
        return NULL;
    if ((name || alias) && check_word(m, by->key, alias ? alias : id, err) < 0)
        return NULL;
    if (owner_check_sandbox(m, by, err) < 0)
        return NULL;
    /* The pool comes last: what it gives out is given out once, so nothing may refuse after it. One
     * of its sandboxes is counted already, and only a fresh one needs room. */
    struct sandbox *pooled = sandbox_record_fits(m, ops, spec, by, alias, policy ? *policy : NULL)
                                 ? sandbox_claim_pooled(m, ops, spec, by, id, name != NULL)
                                 : NULL;
    if (!pooled && check_admission(m, id, key, err) < 0)
        return NULL;
    struct sandbox *sb = pooled ? pooled : sandbox_new(m, spec, by, id);
    sb->ops = ops;
    sb->spec.intercept_hosts = steal_ptr(intercepted);
    sb->hidden = hidden;
    sb->forget_on_record = spec->snapshot != NULL;
    sb->alias = alias ? xstrdup(alias) : NULL;
    sb->alias_key = steal_ptr(key);
    sb->policy = policy ? steal_ptr(*policy) : NULL;
    if (!pooled)
        return start_sandbox(sb, err) < 0 ? NULL : sb;
    sandbox_enter_tables(m, sb);
    sandbox_write_row(sb);
    sandbox_send_claim(sb);
    sandbox_ready_when_settled(sb);
    return sb;
}

struct sandbox *sandbox_create(struct manager *m, const struct spec *spec,
                               const struct sandbox_maker *by, const char *name, const char *alias,
                               bool hidden, struct error *err)
{
    return sandbox_make(m, spec, by, name, alias, NULL, hidden, err);
}

struct sandbox *sandbox_create_narrowed(struct manager *m, const struct spec *spec,
                                        const struct sandbox_maker *by, const char *alias,
                                        struct sandbox_policy *policy, struct error *err)
{
    struct sandbox *sb = sandbox_make(m, spec, by, NULL, alias, &policy, false, err);
    sandbox_policy_free(policy);
    return sb;
}

/* A sandbox whose adoption fails is one that died with the earlier control plane. */
struct sandbox *sandbox_restore(struct manager *m, const char *id, struct sandbox_row *row,
                                const struct warden_alive *alive)
{
    struct error err = {0};
    struct sandbox_maker by = {.key = row->owner, .address = row->caller};
    struct sandbox *sb = sandbox_new(m, &row->spec, &by, id);
    sb->actor[0] = '\0'; /* no key has acted on it since the restart */
    sb->ops = runtime_find(row->spec.runtime);
    sb->created_ns = row->created_ns;
    snprintf(sb->runtime_id, sizeof(sb->runtime_id), "%s", row->runtime_id);
    if (row->generation)
        snprintf(sb->generation, sizeof(sb->generation), "%s", row->generation);
    sb->alias = row->alias ? xstrdup(row->alias) : NULL;
    sb->alias_key = row->alias ? sandbox_alias_key(row->owner, row->alias) : NULL;
    sb->policy = steal_ptr(row->policy);
    sb->restored = true;
    sb->forget_on_record = row->forgets;
    sb->paused = alive && alive->frozen; /* the row has what was wished */
    sandbox_enter_tables(m, sb);
    bool may_live = alive || (sb->ops && sb->ops->lives_elsewhere && !row->failure);
    if (may_live && sb->ops && sb->ops->adopt)
        sb->instance = sb->ops->adopt(sb->ops, m->options.host, sb->runtime_id, &row->spec,
                                      &sandbox_runtime_events, sb, &err);
    sandbox_await_removal(sb);
    if (!sb->instance) {
        sb->remains = sb->ops && sb->ops->lives_elsewhere; /* it was not looked for */
        sandbox_set_failure(sb, row->failure ? row->failure : "the daemon ended and took it along");
        sb->state = SANDBOX_CRASHED;
        m->counts.creating--;
        sandbox_unref(sb); /* the runtime's */
        sandbox_update_idle(sb);
    }
    return sb;
}
