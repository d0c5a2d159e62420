/* SPDX-License-Identifier: Apache-2.0 */
/* What MCP's conformance suite asks of a server under test, and our own tests of the transport:
 * behind a hidden switch, so that no client finds it by chance. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "tests/mcp/fixtures.h"
#include "mcp/mcp.h"
#include "mcp/session.h"

/* A red pixel, and a sample of silence. */
#define PNG                                                                                        \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAA"                                               \
    "AADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
#define WAV                                                                                        \
    "UklGRiYAAABXQVZFZm10IBAAAAABAAEA"                                                             \
    "QB8AAIA+AAACABAAZGF0YQIAAAAAAA=="

#define NO_ARGUMENTS "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"
#define ONE_STRING(name)                                                                           \
    "{\"type\":\"object\",\"properties\":{\"" name                                                 \
    "\":{\"type\":\"string\"}},\"required\":[\"" name "\"],\"additionalProperties\":false}"

/* --- tools */

static void tool_simple_text(struct mcp_call *call)
{
    mcp_call_finish_text(call, false, "This is a simple text response for testing.");
}

static void tool_error(struct mcp_call *call)
{
    mcp_call_finish_text(call, true, "This tool intentionally returns an error for testing");
}

static json_t *binary(const char *type, const char *mime_type, const char *data)
{
    return json_pack("{s:s, s:s, s:s}", "type", type, "data", data, "mimeType", mime_type);
}

static json_t *resource(const char *uri, const char *mime_type, const char *text)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                     "mimeType", mime_type, "text", text);
}

static void tool_image(struct mcp_call *call)
{
    mcp_call_finish(call, json_pack("{s:[o]}", "content", binary("image", "image/png", PNG)));
}

static void tool_audio(struct mcp_call *call)
{
    mcp_call_finish(call, json_pack("{s:[o]}", "content", binary("audio", "audio/wav", WAV)));
}

static void tool_embedded(struct mcp_call *call)
{
    mcp_call_finish(call, json_pack("{s:[o]}", "content",
                                    resource("test://embedded-resource", "text/plain",
                                             "This is an embedded resource content.")));
}

static void tool_multiple(struct mcp_call *call)
{
    mcp_call_finish(call,
                    json_pack("{s:[{s:s, s:s}, o, o]}", "content", "type", "text", "text",
                              "Multiple content types test:", binary("image", "image/png", PNG),
                              resource("test://mixed-content-resource", "application/json",
                                       "{\"test\":\"data\",\"value\":123}")));
}

static void tool_echo(struct mcp_call *call)
{
    mcp_call_finish_structured(
        call, json_pack("{s:O}", "text", json_object_get(mcp_call_arguments(call), "text")), NULL);
}

/* An answer of so many bytes, and log messages before it: for readers that do not read. */
static void tool_flood(struct mcp_call *call)
{
    const json_t *arguments = mcp_call_arguments(call);
    size_t n = (size_t)json_integer_value(json_object_get(arguments, "bytes"));
    json_int_t logs = json_integer_value(json_object_get(arguments, "logs"));
    _cleanup_free_ char *text = xcalloc(1, n + 1);
    memset(text, 'x', n);
    for (json_int_t i = 0; i < logs; i++)
        mcp_call_log(call, MCP_INFO, NULL, text);
    mcp_call_finish_text(call, false, text);
}

#define DIALECT_SCHEMA                                                                             \
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","           \
    "\"$defs\":{\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":"            \
    "\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"            \
    "\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"}},\"additionalProperties\":false}"
#define ECHO_OUTPUT                                                                                \
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]" \
    ",\"additionalProperties\":false}"
#define FLOOD_INPUT                                                                                \
    "{\"type\":\"object\",\"properties\":{\"bytes\":{\"type\":\"integer\",\"minimum\":0,"          \
    "\"maximum\":67108864},\"logs\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":1000000}},"    \
    "\"required\":[\"bytes\"],\"additionalProperties\":false}"
#define SLEEP_INPUT                                                                                \
    "{\"type\":\"object\",\"properties\":{\"ms\":{\"type\":\"integer\",\"minimum\":0,"             \
    "\"maximum\":600000}},\"required\":[\"ms\"],\"additionalProperties\":false}"

static const struct mcp_tool fixture_tools[] = {
    {"test_simple_text", NULL, "a text", NO_ARGUMENTS, NULL, MCP_READ_ONLY, tool_simple_text},
    {"test_image_content", NULL, "an image", NO_ARGUMENTS, NULL, MCP_READ_ONLY, tool_image},
    {"test_audio_content", NULL, "a sound", NO_ARGUMENTS, NULL, MCP_READ_ONLY, tool_audio},
    {"test_embedded_resource", NULL, "a resource", NO_ARGUMENTS, NULL, MCP_READ_ONLY,
     tool_embedded},
    {"test_multiple_content_types", NULL, "all of them", NO_ARGUMENTS, NULL, MCP_READ_ONLY,
     tool_multiple},
    {"test_error_handling", NULL, "fails", NO_ARGUMENTS, NULL, MCP_READ_ONLY, tool_error},
    {"test_tool_with_logging", NULL, "logs three times", NO_ARGUMENTS, NULL, MCP_READ_ONLY,
     fixture_logging},
    {"test_tool_with_progress", NULL, "reports progress", NO_ARGUMENTS, NULL, MCP_READ_ONLY,
     fixture_progress},
    {"test_reconnection", NULL, "closes its stream before it answers", NO_ARGUMENTS, NULL,
     MCP_READ_ONLY, fixture_reconnection},
    {"test_sampling", NULL, "asks the client's model", ONE_STRING("prompt"), NULL, MCP_READ_ONLY,
     fixture_sampling},
    {"test_elicitation", NULL, "asks the user", ONE_STRING("message"), NULL, MCP_READ_ONLY,
     fixture_elicitation},
    {"test_elicitation_sep1034_defaults", NULL, "asks the user, with defaults", NO_ARGUMENTS, NULL,
     MCP_READ_ONLY, fixture_elicitation_defaults},
    {"test_elicitation_sep1330_enums", NULL, "asks the user to choose", NO_ARGUMENTS, NULL,
     MCP_READ_ONLY, fixture_elicitation_enums},
    {"json_schema_2020_12_tool", NULL, "Tool with JSON Schema 2020-12 features", DIALECT_SCHEMA,
     NULL, MCP_READ_ONLY | MCP_RAW_SCHEMA, tool_simple_text},
    {"test_echo", NULL, "answers with its argument", ONE_STRING("text"), ECHO_OUTPUT,
     MCP_READ_ONLY | MCP_IDEMPOTENT, tool_echo},
    {"test_flood", NULL, "a long answer", FLOOD_INPUT, NULL, MCP_READ_ONLY, tool_flood},
    {"test_sleep", NULL, "answers late", SLEEP_INPUT, NULL, MCP_READ_ONLY, fixture_sleep},
    {"test_touch", NULL, "changes test://watched-resource", NO_ARGUMENTS, NULL, 0, fixture_touch},
};

/* --- resources */

#define TEMPLATE_PREFIX "test://template/"
#define TEMPLATE_SUFFIX "/data"

static const struct {
    const char *uri, *name, *mime_type, *member, *content;
} statics[] = {
    {"test://static-text", "static text", "text/plain", "text",
     "This is the content of the static text resource."},
    {"test://static-binary", "static binary", "image/png", "blob", PNG},
    {"test://watched-resource", "watched", "text/plain", "text", "Watched resource content."},
};

static void list_resources(struct mcp_session *session, json_t *resources)
{
    (void)session;
    for (size_t i = 0; i < ELEMENTS(statics); i++)
        json_array_append_new(resources, json_pack("{s:s, s:s, s:s, s:s}", "uri", statics[i].uri,
                                                   "name", statics[i].name, "description",
                                                   "for tests", "mimeType", statics[i].mime_type));
}

static void finish_contents(struct mcp_call *call, const char *uri, const char *mime_type,
                            const char *member, json_t *content)
{
    mcp_call_finish(call, json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri", uri, "mimeType",
                                    mime_type, member, content));
}

static bool read_template(struct mcp_call *call, const char *uri)
{
    size_t head = strlen(TEMPLATE_PREFIX), tail = strlen(TEMPLATE_SUFFIX), n = strlen(uri);
    if (strncmp(uri, TEMPLATE_PREFIX, head) != 0 || n <= head + tail ||
        strcmp(uri + n - tail, TEMPLATE_SUFFIX) != 0)
        return false;
    _cleanup_free_ char *id = xstrndup(uri + head, n - head - tail);
    _cleanup_free_ char *data = xasprintf("Data for ID: %s", id);
    _cleanup_json_ json_t *o =
        json_pack("{s:s, s:b, s:s}", "id", id, "templateTest", 1, "data", data);
    char *text = json_dumps(o, JSON_COMPACT);
    finish_contents(call, uri, "application/json", "text", json_string(text));
    free(text);
    return true;
}

static void read_resource(struct mcp_call *call, const char *uri)
{
    for (size_t i = 0; i < ELEMENTS(statics); i++)
        if (strcmp(statics[i].uri, uri) == 0) {
            finish_contents(call, uri, statics[i].mime_type, statics[i].member,
                            json_string(statics[i].content));
            return;
        }
    if (!read_template(call, uri))
        mcp_call_fail_rpc(call, RPC_RESOURCE_NOT_FOUND, "there is no resource '%.200s'", uri);
}

static int check_subscribe(struct mcp_session *session, const char *uri, struct error *err)
{
    (void)session;
    for (size_t i = 0; i < ELEMENTS(statics); i++)
        if (strcmp(statics[i].uri, uri) == 0)
            return 0;
    return error_set(err, ERROR_NOT_FOUND, 0, "there is no resource '%.200s'", uri);
}

static const struct mcp_resource_template templates[] = {
    {"test://template/{id}/data", "template", NULL, "for tests", "application/json"},
};

static const struct mcp_resource_provider resources[] = {
    {"test://", templates, ELEMENTS(templates), list_resources, read_resource, check_subscribe,
     NULL},
};

/* --- prompts */

static void prompt_simple(struct mcp_call *call)
{
    mcp_call_finish_prompt(call, NULL, "This is a simple prompt for testing.");
}

static const char *argument(const struct mcp_call *call, const char *name)
{
    return json_string_value(json_object_get(mcp_call_arguments(call), name));
}

static void prompt_arguments(struct mcp_call *call)
{
    _cleanup_free_ char *text = xasprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                                          argument(call, "arg1"), argument(call, "arg2"));
    mcp_call_finish_prompt(call, NULL, text);
}

static void finish_two(struct mcp_call *call, json_t *first, const char *text)
{
    mcp_call_finish(call, json_pack("{s:[{s:s, s:o}, {s:s, s:{s:s, s:s}}]}", "messages", "role",
                                    "user", "content", first, "role", "user", "content", "type",
                                    "text", "text", text));
}

static void prompt_resource(struct mcp_call *call)
{
    finish_two(call,
               resource(argument(call, "resourceUri"), "text/plain",
                        "Embedded resource content for testing."),
               "Please process the embedded resource above.");
}

static void prompt_image(struct mcp_call *call)
{
    finish_two(call, binary("image", "image/png", PNG), "Please analyze the image above.");
}

static void complete_argument(struct mcp_session *session, const char *name, const char *prefix,
                              const json_t *known, json_t *values)
{
    static const char *const words[] = {"paris", "park", "party"};
    (void)session, (void)name, (void)known;
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strncmp(words[i], prefix, strlen(prefix)) == 0)
            json_array_append_new(values, json_string(words[i]));
}

static const struct mcp_prompt_argument two_arguments[] = {{"arg1", "First test argument", true},
                                                           {"arg2", "Second test argument", true}};
static const struct mcp_prompt_argument uri_argument[] = {
    {"resourceUri", "URI of the resource to embed", true}};

static const struct mcp_prompt prompts[] = {
    {"test_simple_prompt", NULL, "a text", NULL, 0, prompt_simple, NULL},
    {"test_prompt_with_arguments", NULL, "a text with arguments", two_arguments,
     ELEMENTS(two_arguments), prompt_arguments, complete_argument},
    {"test_prompt_with_embedded_resource", NULL, "a resource", uri_argument, ELEMENTS(uri_argument),
     prompt_resource, NULL},
    {"test_prompt_with_image", NULL, "an image", NULL, 0, prompt_image, NULL},
};

const struct mcp_catalog mcp_fixtures = {
    .tools = fixture_tools,
    .n_tools = ELEMENTS(fixture_tools),
    .resources = resources,
    .n_resources = ELEMENTS(resources),
    .prompts = prompts,
    .n_prompts = ELEMENTS(prompts),
};
