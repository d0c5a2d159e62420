/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogs as the server uses them: compiled schemas, lists ready to be sent, lookups. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "mcp/internal.h"
#include "mcp/schema.h"

#define TOOL_NAME_MAX    64
#define INSTRUCTIONS_MAX (16 * 1024)

static bool is_tool_name(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_./-", name[i]))
            return false;
    return n > 0 && n <= TOOL_NAME_MAX;
}

static void set_text(json_t *o, const char *name, const char *text)
{
    if (text)
        json_object_set_new(o, name, json_string(text));
}

static json_t *format_annotations(const struct mcp_tool *t)
{
    json_t *o =
        json_pack("{s:b, s:b, s:b, s:b}", "readOnlyHint", !!(t->flags & MCP_READ_ONLY),
                  "destructiveHint", !!(t->flags & MCP_DESTRUCTIVE), "idempotentHint",
                  !!(t->flags & MCP_IDEMPOTENT), "openWorldHint", !!(t->flags & MCP_OPEN_WORLD));
    set_text(o, "title", t->title);
    return o;
}

/* Adds the schema to the listed tool under name, and compiles it where it is to be checked. */
static int load_schema(const char *text, bool check, json_t *listed, const char *name,
                       struct schema **ret, struct error *err)
{
    json_t *json = json_parse_object(text, strlen(text), err);
    if (!json)
        return -1;
    json_object_set_new(listed, name, json);
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type || strcmp(type, "object") != 0)
        return error_set(err, ERROR_INTERNAL, 0, "%s is not of an object", name);
    if (!check)
        return 0;
    *ret = schema_compile(json, err);
    return *ret ? 0 : -1;
}

/* Mistakes of the tables end the start of the daemon, so that no client is ever shown one. */
static int load_tool(struct mcp *m, const struct mcp_tool *t, struct error *err)
{
    if (!is_tool_name(t->name) || catalog_find_tool(m, t->name) || !t->description)
        return error_set(err, ERROR_INTERNAL, 0,
                         "its name is bad or taken, or it is not described");
    m->tools = xrealloc(m->tools, (m->n_tools + 1) * sizeof(*m->tools));
    struct tool_entry *e = &m->tools[m->n_tools++];
    *e = (struct tool_entry){.tool = t};
    json_t *listed = json_pack("{s:s}", "name", t->name);
    json_array_append_new(m->tool_list, listed);
    set_text(listed, "title", t->title);
    set_text(listed, "description", t->description);
    int r = load_schema(t->input_schema, !(t->flags & MCP_RAW_SCHEMA), listed, "inputSchema",
                        &e->input, err);
    if (r == 0 && t->output_schema)
        r = load_schema(t->output_schema, true, listed, "outputSchema", &e->output, err);
    json_object_set_new(listed, "annotations", format_annotations(t));
    return r;
}

static void load_templates(struct mcp *m, const struct mcp_resource_provider *p)
{
    for (size_t i = 0; i < p->n_templates; i++) {
        const struct mcp_resource_template *t = &p->templates[i];
        json_t *o = json_pack("{s:s, s:s}", "uriTemplate", t->uri_template, "name", t->name);
        set_text(o, "title", t->title);
        set_text(o, "description", t->description);
        set_text(o, "mimeType", t->mime_type);
        json_array_append_new(m->template_list, o);
    }
}

static void load_prompt(struct mcp *m, const struct mcp_prompt *p)
{
    json_t *arguments = json_array();
    json_t *o = json_pack("{s:s}", "name", p->name);
    set_text(o, "title", p->title);
    set_text(o, "description", p->description);
    for (size_t i = 0; i < p->n_arguments; i++) {
        json_t *a = json_pack("{s:s, s:b}", "name", p->arguments[i].name, "required",
                              p->arguments[i].required);
        set_text(a, "description", p->arguments[i].description);
        json_array_append_new(arguments, a);
    }
    if (p->n_arguments)
        json_object_set(o, "arguments", arguments);
    json_decref(arguments);
    json_array_append_new(m->prompt_list, o);
}

static int load_one(struct mcp *m, const struct mcp_catalog *c, struct error *err)
{
    for (size_t i = 0; i < c->n_tools; i++)
        if (load_tool(m, &c->tools[i], err) < 0) {
            error_prefix(err, "MCP tool '%s'", c->tools[i].name);
            return -1;
        }
    for (size_t i = 0; i < c->n_resources; i++)
        load_templates(m, &c->resources[i]);
    for (size_t i = 0; i < c->n_prompts; i++)
        load_prompt(m, &c->prompts[i]);
    if (c->instructions)
        strbuf_puts(&m->instructions, c->instructions);
    return 0;
}

int catalog_load(struct mcp *m, struct error *err)
{
    m->tool_list = json_array();
    m->template_list = json_array();
    m->prompt_list = json_array();
    strbuf_init(&m->instructions, INSTRUCTIONS_MAX);
    for (size_t i = 0; i < m->o.n_catalogs; i++)
        if (load_one(m, m->o.catalogs[i], err) < 0)
            return -1;
    return 0;
}

void catalog_unload(struct mcp *m)
{
    for (size_t i = 0; i < m->n_tools; i++) {
        schema_free(m->tools[i].input);
        schema_free(m->tools[i].output);
    }
    free(m->tools);
    json_decref(m->tool_list);
    json_decref(m->template_list);
    json_decref(m->prompt_list);
    strbuf_done(&m->instructions);
}

const struct tool_entry *catalog_find_tool(const struct mcp *m, const char *name)
{
    for (size_t i = 0; i < m->n_tools; i++)
        if (strcmp(m->tools[i].tool->name, name) == 0)
            return &m->tools[i];
    return NULL;
}

const struct mcp_prompt *catalog_find_prompt(const struct mcp *m, const char *name)
{
    for (size_t i = 0; i < m->o.n_catalogs; i++) {
        const struct mcp_catalog *c = m->o.catalogs[i];
        for (size_t k = 0; k < c->n_prompts; k++)
            if (strcmp(c->prompts[k].name, name) == 0)
                return &c->prompts[k];
    }
    return NULL;
}

const struct mcp_resource_provider *catalog_find_provider(const struct mcp *m, const char *uri)
{
    for (size_t i = 0; i < m->o.n_catalogs; i++) {
        const struct mcp_catalog *c = m->o.catalogs[i];
        for (size_t k = 0; k < c->n_resources; k++)
            if (strncmp(c->resources[k].prefix, uri, strlen(c->resources[k].prefix)) == 0)
                return &c->resources[k];
    }
    return NULL;
}
