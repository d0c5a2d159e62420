/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools/person.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "guard/approval.h"
#include "guard/gate.h"
#include "validate/validate.h"
#include "loop/loop.h"
#include "mcp/tools/result.h"
#include "mcp/tools/workspace.h"

#define TICK_MS      1000
#define SHOWN_MAX    4000 /* of a call, in a question */
#define QUESTION_MAX (SHOWN_MAX + 64 * 1024)

struct person {
    struct mcp_call *call; /* NULL once ended */
    char id[APPROVAL_ID_SIZE];
    char why[256];
    struct loop_timer timer;
    int64_t started_ms, until_ms;
    bool has_queue; /* others can reach the daemon, and decide */
    bool asking;    /* the client's user has the question */
    bool deciding;  /* the answer is being put on record */
    void (*on_give_up)(void *data);
    void *data;
};

static struct approvals *approvals_of(const struct person *p)
{
    return gate_approvals(mcp_call_services(p->call)->gate);
}

struct gate_terms person_terms(const struct mcp_call *call)
{
    const json_t *id = json_object_get(mcp_call_arguments(call), "approval_id");
    return (struct gate_terms){.approval_id = json_string_value(id), .wait = true};
}

/* --- the question as the client's user sees it */

/* Further lines of a text are indented: none of them can pose as one of ours. */
static void put_text(struct strbuf *b, const char *before, const char *text, const char *after)
{
    strbuf_puts(b, before);
    for (size_t n; text && *text; text += n) {
        n = strcspn(text, "\n") + 1;
        if (!text[n - 1]) {
            strbuf_puts(b, text);
            break;
        }
        strbuf_append(b, text, n);
        strbuf_puts(b, "    ");
    }
    strbuf_puts(b, after);
}

/* What runs code that only the start finds. */
static void put_unpinned(struct strbuf *b, const json_t *subject)
{
    static const char *const members[] = {"path", "env", "command", "loads"};
    size_t i;
    json_t *pin;
    json_array_foreach(json_object_get(subject, "pins"), i, pin)
    {
        const char *why = json_string_value(json_object_get(pin, "not_pinned"));
        for (size_t k = 0; why && k < ELEMENTS(members); k++) {
            const char *what = json_string_value(json_object_get(pin, members[k]));
            if (!what)
                continue;
            put_text(b, "Not pinned: ", what, "");
            strbuf_printf(b, " (%s)\n", why);
        }
    }
}

/* Marks of direction and characters without a width make a text look like another one. */
static bool shows_as_it_is(const char *text, size_t len)
{
    for (size_t pos = 0; pos < len;) {
        int32_t cp = validate_next(text, len, &pos);
        if (!validate_shows(cp) && cp != '\n' && cp != '\t')
            return false;
    }
    return true;
}

/* Everything that will run, last, so that nothing in it can pose as the question. False when it
 * does not fit, or hides something: what is not seen in full must not be approved. */
static bool put_call(struct strbuf *b, const json_t *view)
{
    json_t *argv = json_object_get(view, "argv"), *word;
    const json_t *shown = json_object_get(view, "shown");
    const json_t *input = json_object_get(shown, "stdin");
    const json_t *subject = json_object_get(view, "subject");
    const char *cwd = json_string_value(json_object_get(subject, "cwd"));
    size_t before = b->len, i;
    strbuf_printf(b, "Tool: %s\n", json_string_value(json_object_get(view, "tool")));
    if (cwd)
        put_text(b, "Directory: ", cwd, "\n");
    json_array_foreach(json_object_get(subject, "env"), i, word)
        put_text(b, "Variable: ", json_string_value(word), "\n");
    put_unpinned(b, subject);
    strbuf_puts(b, "It runs:\n");
    json_array_foreach(argv, i, word) put_text(b, "    ", json_string_value(word), "\n");
    if (input)
        put_text(b, "Input:\n    ", json_string_value(input), "\n");
    return b->len - before < SHOWN_MAX && shows_as_it_is(b->data + before, b->len - before) &&
           !json_is_true(json_object_get(shown, "not_shown_in_full")) &&
           json_array_size(json_object_get(shown, "files")) == 0;
}

/* NULL where it cannot be shown in full. */
static json_t *make_question(struct person *p, const struct approval *a)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(QUESTION_MAX);
    _cleanup_json_ json_t *view = approval_view(a, true);
    strbuf_printf(&b, "The sandbox's policy wants a person to approve this call (risk: %s).\n",
                  risk_name(approval_risk(a)));
    if (*p->why)
        strbuf_printf(&b, "Why: %s\n", p->why);
    strbuf_printf(&b, "Approval: %s\n", p->id);
    if (!put_call(&b, view))
        return NULL;
    return json_pack("{s:o, s:{s:s, s:{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}}, s:[s]}}", "message",
                     json_message(b.data), "requestedSchema", "type", "object", "properties",
                     "approve", "type", "boolean", "title", "Approve", "description",
                     "Run it this once", "reason", "type", "string", "title", "Reason",
                     "description", "For the record; may be empty", "required", "approve");
}

/* --- its life */

static void on_closed(void *data)
{
    free(data);
}

static void person_release(struct person *p)
{
    if (!p->call && !p->deciding)
        loop_timer_close(&p->timer, on_closed, p);
}

void person_end(struct person *p)
{
    if (!p || !p->call)
        return;
    struct mcp_call *call = p->call;
    loop_timer_stop(&p->timer);
    p->call = NULL;
    if (p->asking)
        mcp_call_unask(call);
    person_release(p);
}

void person_finish_pending(struct person *p)
{
    struct error err = {0};
    struct mcp_call *call = p->call;
    _cleanup_free_ char *advice =
        p->has_queue
            ? xasprintf("Nothing has run. Tell the user that approval %s waits for a person (sbx "
                        "approvals, or the console). Once it is approved, call again with the same "
                        "arguments and \"approval_id\": \"%s\".",
                        p->id, p->id)
            : xstrdup("Nothing has run, and no person can approve it: this daemon belongs to the "
                      "client alone, and the client cannot ask its user. Tell the user; a daemon "
                      "that listens on HTTP has a queue for approvals.");
    error_set(&err, ERROR_PENDING, 0, "this call waits for a person's approval (%s)%s%.200s", p->id,
              *p->why ? ": " : "", p->why);
    person_end(p);
    result_fail(call, &err, advice);
}

/* From then on the run goes on or fails by itself, once the use of the grant is on record. */
static bool is_decided(const struct person *p)
{
    const struct approval *a = approvals_find(approvals_of(p), mcp_call_identity(p->call), p->id);
    return a && approval_state(a) != APPROVAL_PENDING;
}

static void on_tick(void *data)
{
    struct person *p = data;
    char text[160];
    int64_t now = clock_mono_ms();
    snprintf(text, sizeof(text), "waiting for a person's approval (%s)", p->id);
    mcp_call_progress(p->call, (double)(now - p->started_ms) / 1000, 0, text);
    if (now >= p->until_ms && !p->asking && !p->deciding && !is_decided(p))
        p->on_give_up(p->data);
    else
        loop_timer_start(&p->timer, TICK_MS);
}

/* Looks at once whether there is a client left to wait for. */
static void look_soon(struct person *p)
{
    loop_timer_start(&p->timer, 1);
}

/* --- the answer */

/* What cannot be decided by this key stays in the queue. */
static void on_decided(void *data, struct approval *a, const struct error *err)
{
    struct person *p = data;
    (void)a;
    p->deciding = false;
    if (p->call && err)
        mcp_call_log(p->call, MCP_WARNING, "approvals", err->message);
    person_release(p);
}

static void decide_approval(struct person *p, bool approve, const char *reason)
{
    struct error err = {0};
    struct approval_decision d = {.who = mcp_call_identity(p->call),
                                  .approve = approve,
                                  .reason = reason && *reason ? reason : NULL,
                                  .user_id = "mcp"};
    p->deciding = true;
    if (approvals_decide(approvals_of(p), p->id, &d, on_decided, p, &err) < 0)
        on_decided(p, NULL, &err);
}

static void on_answer(struct mcp_call *call, const json_t *result, const struct error *err,
                      void *data)
{
    struct person *p = data;
    const char *action = json_string_value(json_object_get(result, "action"));
    const json_t *content = json_object_get(result, "content");
    const char *reason = json_string_value(json_object_get(content, "reason"));
    (void)call;
    (void)err;
    p->asking = false;
    if (p->call)
        look_soon(p);
    if (!p->call || !action)
        return;
    if (strcmp(action, "accept") == 0 && json_is_true(json_object_get(content, "approve")))
        decide_approval(p, true, reason);
    else if (strcmp(action, "cancel") != 0)
        decide_approval(p, false, reason && *reason ? reason : "declined in the client");
}

struct person *person_new(struct mcp_call *call, const struct approval *a,
                          void (*on_give_up)(void *data), void *data)
{
    const struct services *o = mcp_call_services(call);
    struct person *p = new0(struct person);
    _cleanup_json_ json_t *view = approval_view(a, false);
    const char *why = json_string_value(json_object_get(view, "why"));
    p->call = call;
    p->on_give_up = on_give_up;
    p->data = data;
    p->started_ms = clock_mono_ms();
    p->has_queue = o->store; /* with stdin and stdout there is no other way in */
    p->until_ms =
        p->started_ms + (p->has_queue ? (int64_t)mcp_call_config(call)->approval_wait_ms : 0);
    snprintf(p->id, sizeof(p->id), "%s", approval_id(a));
    snprintf(p->why, sizeof(p->why), "%s", why ? why : "");
    loop_timer_init(&p->timer, o->loop, on_tick, p);
    look_soon(p);
    /* Asks the client where it can ask its user, and the answer would count. */
    const struct identity *who = mcp_call_identity(p->call);
    bool counts = !who->authenticated && identity_has(who, ROLE_APPROVER) &&
                  approval_risk(a) != RISK_CRITICAL;
    json_t *question = counts ? make_question(p, a) : NULL;
    if (question)
        p->asking = mcp_call_ask(p->call, "elicitation/create", question, on_answer, p) == 0;
    return p;
}
