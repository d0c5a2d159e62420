/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures that do something more than once before they answer, and fixtures that ask. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "tests/mcp/fixtures.h"
#include "mcp/session.h"

#define STEP_MS 50

/* --- in steps */

struct steps {
    struct loop_timer timer;
    struct mcp_call *call;
    uint64_t every_ms;
    int at;
    /* Whether there is another step. */
    bool (*step)(struct mcp_call *call, int at);
};

static void steps_finish(struct steps *s, const char *text)
{
    struct mcp_call *call = s->call;
    loop_timer_close(&s->timer, free, s);
    mcp_call_finish_text(call, false, text);
}

static void on_cancel(struct mcp_call *call)
{
    steps_finish(mcp_call_state(call), "cancelled");
}

static void on_step(void *data)
{
    struct steps *s = data;
    if (s->step(s->call, s->at++))
        loop_timer_start(&s->timer, s->every_ms);
    else
        steps_finish(s, "Done.");
}

static void steps_start(struct mcp_call *call, uint64_t every_ms,
                        bool (*step)(struct mcp_call *call, int at))
{
    struct steps *s = new0(struct steps);
    s->call = call;
    s->every_ms = every_ms;
    s->step = step;
    loop_timer_init(&s->timer, mcp_call_services(call)->loop, on_step, s);
    mcp_call_set_state(call, s);
    mcp_call_on_cancel(call, on_cancel);
    on_step(s);
}

static bool step_logging(struct mcp_call *call, int at)
{
    static const char *const lines[] = {"Tool execution started", "Tool processing data",
                                        "Tool execution completed"};
    mcp_call_log(call, MCP_INFO, "fixtures", lines[at]);
    return at < 2;
}

void fixture_logging(struct mcp_call *call)
{
    steps_start(call, STEP_MS, step_logging);
}

static bool step_progress(struct mcp_call *call, int at)
{
    mcp_call_progress(call, at * 50, 100, "working");
    return at < 2;
}

void fixture_progress(struct mcp_call *call)
{
    steps_start(call, STEP_MS, step_progress);
}

static bool step_reconnection(struct mcp_call *call, int at)
{
    if (at == 0)
        mcp_call_interrupt(call);
    return at < 2;
}

void fixture_reconnection(struct mcp_call *call)
{
    steps_start(call, STEP_MS, step_reconnection);
}

static bool step_once(struct mcp_call *call, int at)
{
    (void)call;
    return at < 1;
}

void fixture_sleep(struct mcp_call *call)
{
    json_int_t ms = json_integer_value(json_object_get(mcp_call_arguments(call), "ms"));
    steps_start(call, (uint64_t)ms, step_once);
}

void fixture_touch(struct mcp_call *call)
{
    struct mcp_session *s = mcp_call_session(call);
    mcp_session_resource_updated(s, "test://watched-resource");
    mcp_session_list_changed(s, MCP_LIST_RESOURCES);
    mcp_call_finish_text(call, false, "Touched.");
}

/* --- asking */

static void on_answer(struct mcp_call *call, const json_t *result, const struct error *err,
                      void *data)
{
    const char *format = data;
    if (err) {
        mcp_call_finish_error(call, err, NULL);
        return;
    }
    const json_t *content = json_object_get(result, "content");
    const char *action = json_string_value(json_object_get(result, "action"));
    const char *text = json_string_value(json_object_get(content, "text"));
    char *dumped = content ? json_dumps(content, JSON_COMPACT) : NULL;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1024 * 1024);
    strbuf_puts(&out, format);
    if (action)
        strbuf_printf(&out, "action=%s, content=%s", action, dumped ? dumped : "{}");
    else
        strbuf_puts(&out, text ? text : "");
    mcp_call_finish_text(call, false, out.data);
    free(dumped);
}

static void ask(struct mcp_call *call, const char *method, json_t *params, const char *format)
{
    int r = mcp_call_ask(call, method, params, on_answer, (void *)(uintptr_t)format);
    if (r < 0)
        mcp_call_finish_text(call, true,
                             r == -ENOTSUP ? "The client does not support what this tool asks."
                                           : "The client cannot be asked now.");
}

static json_t *argument(struct mcp_call *call, const char *name)
{
    return json_object_get(mcp_call_arguments(call), name);
}

void fixture_sampling(struct mcp_call *call)
{
    ask(call, "sampling/createMessage",
        json_pack("{s:[{s:s, s:{s:s, s:O}}], s:i}", "messages", "role", "user", "content", "type",
                  "text", "text", argument(call, "prompt"), "maxTokens", 100),
        "LLM response: ");
}

/* The message and the schema of what is asked; takes message. */
static void elicit(struct mcp_call *call, json_t *message, const char *schema, const char *format)
{
    ask(call, "elicitation/create",
        json_pack("{s:o, s:o}", "message", message, "requestedSchema", json_loads(schema, 0, NULL)),
        format);
}

void fixture_elicitation(struct mcp_call *call)
{
    elicit(call, json_incref(argument(call, "message")),
           "{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\","
           "\"description\":\"User's response\"},\"email\":{\"type\":\"string\",\"description\":"
           "\"User's email address\"}},\"required\":[\"username\",\"email\"]}",
           "User response: ");
}

void fixture_elicitation_defaults(struct mcp_call *call)
{
    elicit(call, json_string("Please review the defaults"),
           "{\"type\":\"object\",\"properties\":{"
           "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
           "\"age\":{\"type\":\"integer\",\"default\":30},"
           "\"score\":{\"type\":\"number\",\"default\":95.5},"
           "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
           "\"default\":\"active\"},"
           "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}",
           "Elicitation completed: ");
}

void fixture_elicitation_enums(struct mcp_call *call)
{
    elicit(call, json_string("Please choose"),
           "{\"type\":\"object\",\"properties\":{"
           "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
           "\"option3\"]},"
           "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":"
           "\"First Option\"},{\"const\":\"value2\",\"title\":\"Second Option\"},{\"const\":"
           "\"value3\",\"title\":\"Third Option\"}]},"
           "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
           "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
           "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":"
           "[\"option1\",\"option2\",\"option3\"]}},"
           "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\","
           "\"title\":\"First Choice\"},{\"const\":\"value2\",\"title\":\"Second Choice\"},"
           "{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}",
           "Elicitation completed: ");
}
