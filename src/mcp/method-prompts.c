/* SPDX-License-Identifier: Apache-2.0 */
/* prompts/list, prompts/get, and completion of their arguments and of templates' variables. */
#include <string.h>

#include "base/json.h"
#include "mcp/internal.h"

#define COMPLETIONS_MAX 100 /* as the protocol has it */

void method_prompts_list(struct mcp_call *call)
{
    call_finish_page(call, "prompts", call->session->mcp->prompt_list);
}

static bool is_plain_text(const json_t *v)
{
    return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

/* Whether the call may go on; it has failed otherwise. */
static bool check_arguments(struct mcp_call *call, const struct mcp_prompt *p)
{
    const char *name;
    json_t *v;
    for (size_t i = 0; i < p->n_arguments; i++)
        if (p->arguments[i].required && !json_object_get(call->arguments, p->arguments[i].name)) {
            mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'arguments' lacks '%s', which is required",
                              p->arguments[i].name);
            return false;
        }
    json_object_foreach(call->arguments, name, v)
    {
        if (!is_plain_text(v)) {
            mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'arguments.%.60s' must be a string", name);
            return false;
        }
    }
    return true;
}

void method_prompts_get(struct mcp_call *call)
{
    json_t *arguments = json_object_get(call->params, "arguments");
    const char *name = call_param_string(call, "name");
    if (!name)
        return;
    const struct mcp_prompt *p = catalog_find_prompt(call->session->mcp, name);
    if (!p) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "there is no prompt '%.100s'", name);
        return;
    }
    if (arguments && !json_is_object(arguments)) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'arguments' must be an object");
        return;
    }
    if (arguments) {
        json_decref(call->arguments);
        call->arguments = json_incref(arguments);
    }
    if (check_arguments(call, p))
        p->handle(call);
}

/* --- completion */

struct completion {
    const char *type, *name, *argument, *value;
    const json_t *known;
};

static const char *plain_text(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return is_plain_text(v) ? json_string_value(v) : NULL;
}

static bool parse_completion(const struct mcp_call *call, struct completion *c)
{
    const json_t *ref = json_object_get(call->params, "ref");
    const json_t *argument = json_object_get(call->params, "argument");
    c->type = plain_text(ref, "type");
    c->argument = plain_text(argument, "name");
    c->value = plain_text(argument, "value");
    c->known = json_object_get(json_object_get(call->params, "context"), "arguments");
    if (!c->type || !c->argument || !c->value)
        return false;
    c->name = plain_text(ref, strcmp(c->type, "ref/prompt") == 0 ? "name" : "uri");
    return c->name;
}

/* Whether what is to be completed exists. */
static bool complete_argument(struct mcp_session *s, const struct completion *c, json_t *values)
{
    if (strcmp(c->type, "ref/prompt") == 0) {
        const struct mcp_prompt *p = catalog_find_prompt(s->mcp, c->name);
        if (p && p->complete)
            p->complete(s, c->argument, c->value, c->known, values);
        return p;
    }
    const struct mcp_resource_provider *p = catalog_find_provider(s->mcp, c->name);
    if (p && p->complete)
        p->complete(s, c->name, c->argument, c->value, c->known, values);
    return p && strcmp(c->type, "ref/resource") == 0;
}

void method_complete(struct mcp_call *call)
{
    struct completion c = {0};
    if (!parse_completion(call, &c)) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS,
                          "'ref' must name a prompt or a resource template, 'argument' have a name "
                          "and a value");
        return;
    }
    json_t *values = json_array();
    if (!complete_argument(call->session, &c, values)) {
        json_decref(values);
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "there is no '%.100s' to complete", c.name);
        return;
    }
    size_t n = json_array_size(values);
    while (json_array_size(values) > COMPLETIONS_MAX)
        json_array_remove(values, COMPLETIONS_MAX);
    mcp_call_finish(call, json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total",
                                    (json_int_t)n, "hasMore", n > COMPLETIONS_MAX));
}
