/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/rules-yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"

#define MAP_ITEMS_MAX 256 /* keys and values of one map */

struct reader {
    yaml_parser_t parser;
    const char *name;
    size_t max_depth, n_nodes;
    struct error *err;
};

static int fail_at(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    return error_set(r->err, ERROR_INVALID, 0, "%s:%zu:%zu: %s", r->name, mark->line + 1,
                     mark->column + 1, what);
}

int node_error(const struct node *n, const char *name, struct error *err, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return error_set(err, ERROR_INVALID, 0, "%s:%zu:%zu: %s", name, n->line, n->column, text);
}

static void node_done(struct node *n)
{
    for (size_t i = 0; i < n->n_items; i++)
        node_done(&n->items[i]);
    free(n->items);
    free(n->text);
    *n = (struct node){0};
}

void node_free(struct node *n)
{
    if (n)
        node_done(n);
    free(n);
}

const struct node *node_find(const struct node *map, const char *key)
{
    for (size_t i = 0; map->type == NODE_MAP && i + 1 < map->n_items; i += 2)
        if (strcmp(map->items[i].text, key) == 0)
            return &map->items[i + 1];
    return NULL;
}

static bool has_extras(const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_ALIAS_EVENT:
        return true;
    case YAML_SCALAR_EVENT:
        return ev->data.scalar.anchor || ev->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return ev->data.sequence_start.anchor || ev->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return ev->data.mapping_start.anchor || ev->data.mapping_start.tag;
    default:
        return false;
    }
}

static int next_event(struct reader *r, yaml_event_t *ev)
{
    if (!yaml_parser_parse(&r->parser, ev)) {
        const char *why = r->parser.problem ? r->parser.problem : "cannot be read";
        char text[200];
        snprintf(text, sizeof(text), "not YAML: %s", why);
        return fail_at(r, &r->parser.problem_mark, text);
    }
    if (!has_extras(ev))
        return 0;
    int rc = fail_at(r, &ev->start_mark, "aliases, anchors and tags are not allowed");
    yaml_event_delete(ev);
    return rc;
}

static int read_node(struct reader *r, const yaml_event_t *ev, size_t depth, struct node *ret);

static int read_text(struct reader *r, const yaml_event_t *ev, struct node *ret)
{
    const char *text = (const char *)ev->data.scalar.value;
    size_t len = ev->data.scalar.length;
    if (memchr(text, 0, len) || utf8_valid_prefix(text, len) != len)
        return fail_at(r, &ev->start_mark, "a NUL byte or bad UTF-8 in a value");
    ret->text = xstrdup(text);
    ret->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return 0;
}

static int check_key(struct reader *r, const struct node *map, const yaml_event_t *ev)
{
    const struct node *key = &map->items[map->n_items - 1];
    char text[160];
    if (key->type != NODE_TEXT)
        return fail_at(r, &ev->start_mark, "a key that is not a plain word");
    for (size_t i = 0; i + 1 < map->n_items; i += 2) {
        if (strcmp(map->items[i].text, key->text) != 0)
            continue;
        snprintf(text, sizeof(text), "'%.80s' is there twice, first in line %zu", key->text,
                 map->items[i].line);
        return fail_at(r, &ev->start_mark, text);
    }
    return 0;
}

/* Up to the event that ends the list or map. */
static int read_items(struct reader *r, size_t depth, struct node *ret)
{
    for (;;) {
        yaml_event_t ev;
        int rc = next_event(r, &ev);
        if (rc < 0)
            return rc;
        if (ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&ev);
            return 0;
        }
        if (ret->type == NODE_MAP && ret->n_items >= MAP_ITEMS_MAX) {
            rc = fail_at(r, &ev.start_mark, "too many keys");
            yaml_event_delete(&ev);
            return rc;
        }
        if ((ret->n_items & (ret->n_items + 1)) == 0)
            ret->items = xrealloc(ret->items, (2 * ret->n_items + 2) * sizeof(*ret->items));
        ret->items[ret->n_items] = (struct node){0};
        rc = read_node(r, &ev, depth, &ret->items[ret->n_items++]);
        if (rc >= 0 && ret->type == NODE_MAP && ret->n_items % 2 == 1)
            rc = check_key(r, ret, &ev);
        yaml_event_delete(&ev);
        if (rc < 0)
            return rc;
    }
}

static int read_node(struct reader *r, const yaml_event_t *ev, size_t depth, struct node *ret)
{
    ret->line = ev->start_mark.line + 1;
    ret->column = ev->start_mark.column + 1;
    if (++r->n_nodes > RULES_NODES_MAX)
        return fail_at(r, &ev->start_mark, "too many values");
    if (depth > r->max_depth)
        return fail_at(r, &ev->start_mark, "nested too deeply");
    if (ev->type == YAML_SCALAR_EVENT)
        return read_text(r, ev, ret);
    ret->type = ev->type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST;
    return read_items(r, depth + 1, ret);
}

/* The one document of the stream. */
static int read_document(struct reader *r, struct node *ret)
{
    bool found = false;
    for (;;) {
        yaml_event_t ev;
        int rc = next_event(r, &ev);
        if (rc < 0)
            return rc;
        yaml_event_type_t type = ev.type;
        if (type == YAML_DOCUMENT_START_EVENT && found)
            rc = fail_at(r, &ev.start_mark, "a second document");
        else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                 type == YAML_MAPPING_START_EVENT) {
            found = true;
            rc = read_node(r, &ev, 1, ret);
        }
        if (rc >= 0 && type == YAML_STREAM_END_EVENT && !found)
            rc = fail_at(r, &ev.start_mark, "the file is empty");
        yaml_event_delete(&ev);
        if (rc < 0 || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

struct node *node_parse(const char *text, size_t len, const char *name, size_t max_depth,
                        struct error *err)
{
    struct reader r = {.name = name, .max_depth = max_depth, .err = err};
    struct node *root = new0(struct node);
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* out of memory */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    int rc = read_document(&r, root);
    yaml_parser_delete(&r.parser);
    if (rc >= 0)
        return root;
    node_free(root);
    return NULL;
}
