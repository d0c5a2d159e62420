/* SPDX-License-Identifier: Apache-2.0 */
/* An approval as its row in the store, and as people see it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "guard/approval-internal.h"

#define PREFIX_MAX 1024

void approval_drop_votes(struct approval *a, size_t keep)
{
    while (a->n_votes > keep) {
        struct approval_vote *v = &a->votes[--a->n_votes];
        free(v->reason);
        free(v->user_id);
    }
}

void approval_drop_vote(struct approval *a, size_t which)
{
    struct approval_vote dropped = a->votes[which];
    memmove(&a->votes[which], &a->votes[which + 1], (a->n_votes - which - 1) * sizeof(a->votes[0]));
    a->votes[a->n_votes - 1] = dropped;
    approval_drop_votes(a, a->n_votes - 1);
}

void approval_free(struct approval *a)
{
    if (!a)
        return;
    approval_drop_votes(a, 0);
    json_decref(a->subject);
    json_decref(a->shown);
    json_decref(a->obligations);
    strv_free(a->session_prefix);
    strv_free(a->session_rules);
    free(a->rule);
    free(a->why);
    free(a->revision);
    free(a->void_reason);
    free(a);
}

/* --- the row */

json_t *approval_to_row(const struct approval *a)
{
    json_t *votes = json_array();
    for (size_t i = 0; i < a->n_votes; i++) {
        const struct approval_vote *v = &a->votes[i];
        json_array_append_new(votes, json_pack("{s:o, s:b, s:I, s:s*, s:s*}", "who",
                                               identity_to_json(&v->who), "approve", v->approve,
                                               "time", (json_int_t)v->time_s, "reason", v->reason,
                                               "user_id", v->user_id));
    }
    json_t *o = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:s, s:O, s:O, s:O*, s:I, s:I, s:I, s:o, s:s*}", "state",
        approval_state_name(a->state), "risk", risk_name(a->risk), "requester",
        identity_to_json(&a->requester), "rule", a->rule, "why", a->why, "revision", a->revision,
        "obligations", a->obligations, "subject", a->subject, "shown", a->shown, "created",
        (json_int_t)a->created_s, "expires", (json_int_t)a->expires_s, "changed",
        (json_int_t)a->changed_s, "votes", votes, "void", a->void_reason);
    if (a->session_left) {
        json_object_set_new(o, "session_left", json_integer(a->session_left));
        if (a->session_prefix)
            json_object_set_new(o, "session_prefix", json_from_strv(a->session_prefix));
        if (a->session_rules)
            json_object_set_new(o, "session_rules", json_from_strv(a->session_rules));
    }
    return o;
}

static char *dup_member(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? xstrdup(text) : NULL;
}

static void votes_from_row(const json_t *list, struct approval *a)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (a->n_votes == APPROVAL_DECISIONS_MAX)
            return;
        struct approval_vote *v = &a->votes[a->n_votes++];
        identity_from_json(json_object_get(item, "who"), &v->who);
        v->approve = json_is_true(json_object_get(item, "approve"));
        v->time_s = json_integer_value(json_object_get(item, "time"));
        v->reason = dup_member(item, "reason");
        v->user_id = dup_member(item, "user_id");
    }
}

struct approval *approval_from_row(const char *id, const json_t *row, struct error *err)
{
    struct approval *a = new0(struct approval);
    const char *state = json_string_value(json_object_get(row, "state"));
    const char *risk = json_string_value(json_object_get(row, "risk"));
    int s = state ? approval_state_find(state) : -1, r = risk ? risk_find(risk) : -1;
    list_init(&a->node);
    list_init(&a->uses);
    snprintf(a->id, sizeof(a->id), "%s", id);
    a->rule = dup_member(row, "rule");
    a->why = dup_member(row, "why");
    a->revision = dup_member(row, "revision");
    a->void_reason = dup_member(row, "void");
    /* Rows of an earlier version have them among what was shown. */
    json_t *own = json_object_get(row, "obligations");
    if (!own)
        own = json_object_get(json_object_get(row, "shown"), "obligations");
    a->obligations = json_is_object(own) ? json_incref(own) : json_object();
    a->subject = json_incref(json_object_get(row, "subject"));
    a->shown = json_incref(json_object_get(row, "shown"));
    a->created_s = json_integer_value(json_object_get(row, "created"));
    a->expires_s = json_integer_value(json_object_get(row, "expires"));
    a->changed_s = json_integer_value(json_object_get(row, "changed"));
    a->session_left = json_integer_value(json_object_get(row, "session_left"));
    a->is_session = a->session_left > 0;
    identity_from_json(json_object_get(row, "requester"), &a->requester);
    votes_from_row(json_object_get(row, "votes"), a);
    if (s < 0 || r < 0 || !a->rule || !a->why || !a->revision || !json_is_object(a->subject) ||
        json_member_strv(row, "session_prefix", PREFIX_MAX, &a->session_prefix, err) < 0 ||
        json_member_strv(row, "session_rules", PREFIX_MAX, &a->session_rules, err) < 0) {
        error_set(err, ERROR_INTERNAL, 0, "members are missing");
        approval_free(a);
        return NULL;
    }
    a->state = (enum approval_state)s;
    a->risk = (enum risk)r;
    approval_digest(a->subject, a->digest);
    return a;
}

/* --- the view */

static json_t *time_view(int64_t seconds)
{
    char text[CLOCK_RFC3339_SIZE];
    clock_format_rfc3339(seconds * 1000000000, text);
    return json_string(text);
}

static json_t *who_view(const struct identity *who)
{
    return json_pack("{s:s, s:s, s:b}", "key", who->key, "name", who->name, "authenticated",
                     who->authenticated);
}

static json_t *votes_view(const struct approval *a)
{
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_votes; i++) {
        const struct approval_vote *v = &a->votes[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:b, s:o, s:s*, s:s*}", "by", who_view(&v->who),
                                        "approved", v->approve, "at", time_view(v->time_s),
                                        "reason", v->reason, "user_id", v->user_id));
    }
    return list;
}

json_t *approval_view(const struct approval *a, bool full)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:o, s:s, s:o, s:o, s:i, s:i}", "id", a->id, "status",
                  approval_state_name(a->state), "risk", risk_name(a->risk), "requester",
                  who_view(&a->requester), "rule", a->rule, "why", json_message(a->why), "digest",
                  a->digest, "created_at", time_view(a->created_s), "expires_at",
                  time_view(a->expires_s), "confirmations", (int)approval_confirmations(a),
                  "confirmations_needed", (int)approval_confirmations_needed(a));
    json_object_set_new(o, "tool", json_incref(json_object_get(a->subject, "tool")));
    json_t *argv = json_object_get(a->subject, "argv");
    if (argv)
        json_object_set(o, "argv", argv);
    approval_show_image(a, o);
    if (a->state != APPROVAL_PENDING)
        json_object_set_new(o, "changed_at", time_view(a->changed_s));
    if (*approval_reason(a))
        json_object_set_new(o, "reason", json_message(approval_reason(a)));
    if (a->session_left) {
        json_object_set_new(o, "session_calls_left", json_integer(a->session_left));
        if (a->session_rules)
            json_object_set_new(o, "session_rules", json_from_strv(a->session_rules));
    }
    if (!full)
        return o;
    json_object_set_new(o, "decisions", votes_view(a));
    json_object_set(o, "subject", a->subject);
    if (a->shown)
        json_object_set(o, "shown", a->shown);
    return o;
}
