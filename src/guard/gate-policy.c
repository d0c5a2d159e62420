/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's policy while the daemon runs: one revision at a time, replaced as a whole. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "event/event-journal.h"
#include "guard/approval.h"
#include "guard/gate-internal.h"

const char *gate_revision(const struct gate *g)
{
    return ruleset_revision(g->ruleset);
}

bool gate_has_policy(const struct gate *g)
{
    return g->ruleset;
}

bool gate_names_rule(const struct gate *g, const char *rule)
{
    return ruleset_names(g->ruleset, rule);
}

static void record_change(struct gate *g, const struct identity *who, const char *outcome,
                          const char *before, const char *why)
{
    _cleanup_json_ json_t *details =
        json_pack("{s:s, s:s, s:o*}", "before", before, "file",
                  g->policy_name ? g->policy_name : "", "error", why ? json_message(why) : NULL);
    struct audit_record r = {.kind = "policy_change",
                             .who = who,
                             .outcome = outcome,
                             .revision = gate_revision(g),
                             .details = details};
    audit_note(g->audit, &r);
}

/* A start loads what was loaded before, or finds the same file bad: that is no change. */
static void announce_policy(struct gate *g, enum event_type type, const char *id)
{
    const struct event *last = event_find_latest(g->events, event_types_of("policy"));
    if (!last || last->type != type || strcmp(event_id(last), id) != 0)
        event_append(g->events, type, id, "", NULL);
}

static int refuse_policy(struct gate *g, const char *digest, const struct identity *who,
                         const struct error *why)
{
    bool news = strcmp(g->failed_revision, digest) != 0;
    snprintf(g->failed_revision, sizeof(g->failed_revision), "%s", digest);
    snprintf(g->policy_error, sizeof(g->policy_error), "%s", why->message);
    if (!news && !who)
        return -EINVAL;
    log_error("policy is not changed: %s", why->message);
    record_change(g, who, "refused", gate_revision(g), why->message);
    announce_policy(g, EVENT_POLICY_REFUSED, digest);
    return -EINVAL;
}

/* A policy whose own tests fail is not what its author meant. */
static int run_tests(const struct ruleset *rs, const char *name, struct error *err)
{
    size_t failed, i;
    json_t *result;
    _cleanup_json_ json_t *results = ruleset_test(rs, &failed);
    json_array_foreach(results, i, result) if (json_is_false(json_object_get(result, "passed")))
    {
        return error_set(err, ERROR_INVALID, 0,
                         "%s:%d: %zu of its %zu tests fail, first: '%.80s' is %s by '%s', not %s",
                         name, (int)json_integer_value(json_object_get(result, "line")), failed,
                         json_array_size(results),
                         json_string_value(json_object_get(result, "what")),
                         json_string_value(json_object_get(result, "verdict")),
                         json_string_value(json_object_get(result, "rule")),
                         json_string_value(json_object_get(result, "expected")));
    }
    return 0;
}

int gate_load_policy(struct gate *g, const char *name, const char *text, size_t len,
                     const struct identity *who, struct error *err)
{
    struct error why = {0};
    char digest[AUDIT_DIGEST_SIZE];
    audit_digest(text, len, digest);
    if (!g->policy_name)
        g->policy_name = xstrdup(name);
    struct ruleset *rs = ruleset_parse(text, len, name, &why);
    if (!rs || run_tests(rs, name, &why) < 0) {
        ruleset_unref(rs);
        refuse_policy(g, digest, who, &why);
        *err = why;
        return -EINVAL;
    }
    *g->policy_error = *g->failed_revision = 0;
    if (g->ruleset && strcmp(ruleset_revision(rs), gate_revision(g)) == 0) {
        ruleset_unref(rs);
        return 0;
    }
    /* The revision is copied, because it is a part of the ruleset that may go with the next line;
     * decisions that are under way have references of their own. */
    _cleanup_free_ char *before = xstrdup(gate_revision(g));
    ruleset_unref(g->ruleset);
    g->ruleset = rs;
    g->loaded_ns = clock_real_ns();
    log_info("policy loaded file=%s revision=%.12s rules=%zu", name, gate_revision(g),
             ruleset_count(rs));
    record_change(g, who, "loaded", before, NULL);
    announce_policy(g, EVENT_POLICY_LOADED, gate_revision(g));
    approvals_check_all(g->approvals);
    return 1;
}

json_t *gate_policy_view(const struct gate *g)
{
    char time[CLOCK_RFC3339_SIZE];
    if (!g->ruleset)
        return json_null();
    clock_format_rfc3339(g->loaded_ns, time);
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:s}", "file", g->policy_name, "revision", gate_revision(g),
                  "rules", (json_int_t)ruleset_count(g->ruleset), "loaded_at", time);
    if (*g->policy_error)
        json_object_set_new(o, "error", json_message(g->policy_error));
    return o;
}
