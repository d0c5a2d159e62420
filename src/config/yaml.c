/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML source. libyaml gives events; nested maps flatten into key names ("mounts: {allow: …}"
 * is mounts_allow) until a known key is reached. Anchors, aliases, tags, a second document,
 * duplicate and unknown keys are problems with file and line: nothing in a configuration is
 * ignored. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/fd.h"

#define YAML_NAME_MAX 128 /* bytes of a flattened key name */

struct reader {
    struct config *config;
    struct config_problems *problems;
    const char *name; /* of the file, for messages */
    yaml_parser_t parser;
    bool seen[CONFIG_KEYS_MAX];
    bool failed; /* the rest cannot be understood */
};

#define problem(r, line, fmt, ...)                                                                 \
    config_error((r)->problems, "%s:%zu: " fmt, (r)->name, (size_t)(line), ##__VA_ARGS__)

static size_t line_of(const yaml_event_t *ev)
{
    return ev->start_mark.line + 1;
}

static const char *anchor_of(const yaml_event_t *ev)
{
    const yaml_char_t *anchor = NULL;
    if (ev->type == YAML_SCALAR_EVENT)
        anchor = ev->data.scalar.anchor;
    else if (ev->type == YAML_SEQUENCE_START_EVENT)
        anchor = ev->data.sequence_start.anchor;
    else if (ev->type == YAML_MAPPING_START_EVENT)
        anchor = ev->data.mapping_start.anchor;
    return (const char *)anchor;
}

static const char *tag_of(const yaml_event_t *ev)
{
    const yaml_char_t *tag = NULL;
    if (ev->type == YAML_SCALAR_EVENT)
        tag = ev->data.scalar.tag;
    else if (ev->type == YAML_SEQUENCE_START_EVENT)
        tag = ev->data.sequence_start.tag;
    else if (ev->type == YAML_MAPPING_START_EVENT)
        tag = ev->data.mapping_start.tag;
    return (const char *)tag;
}

/* False when there is nothing more to read: bad YAML, or a feature that is refused. */
static bool next_event(struct reader *r, yaml_event_t *ev)
{
    if (r->failed)
        return false;
    if (!yaml_parser_parse(&r->parser, ev)) {
        problem(r, r->parser.problem_mark.line + 1, "not YAML: %s",
                r->parser.problem ? r->parser.problem : "cannot be read");
        r->failed = true;
        return false;
    }
    if (ev->type == YAML_ALIAS_EVENT || anchor_of(ev) || tag_of(ev)) {
        problem(r, line_of(ev), "aliases, anchors and tags are not allowed");
        yaml_event_delete(ev);
        r->failed = true;
        return false;
    }
    return true;
}

/* Plain "~", "null" or nothing: as if the key were not there. */
static bool is_null(const yaml_event_t *ev)
{
    const char *v = (const char *)ev->data.scalar.value;
    return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*v || strcmp(v, "~") == 0 || strcmp(v, "null") == 0);
}

static const char *scalar_text(struct reader *r, const yaml_event_t *ev)
{
    const char *v = (const char *)ev->data.scalar.value;
    if (strlen(v) == ev->data.scalar.length)
        return v;
    problem(r, line_of(ev), "a NUL byte in a value");
    return NULL;
}

static void skip_rest(struct reader *r, yaml_event_type_t start)
{
    int depth = start == YAML_SEQUENCE_START_EVENT || start == YAML_MAPPING_START_EVENT;
    yaml_event_t ev;
    while (depth > 0 && next_event(r, &ev)) {
        depth += ev.type == YAML_SEQUENCE_START_EVENT || ev.type == YAML_MAPPING_START_EVENT;
        depth -= ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT;
        yaml_event_delete(&ev);
        if (depth > CONFIG_DEPTH_MAX) {
            problem(r, r->parser.mark.line + 1, "nested deeper than %d", CONFIG_DEPTH_MAX);
            r->failed = true;
        }
    }
}

static void set_scalar(struct reader *r, const struct config_key *key, const yaml_event_t *ev,
                       bool item)
{
    const char *text = scalar_text(r, ev);
    if (!text)
        return;
    char why[256];
    int rc = item ? config_value_add(r->config, key, ORIGIN_FILE, text, why, sizeof(why))
                  : config_value_set(r->config, key, ORIGIN_FILE, text, why, sizeof(why));
    if (rc < 0)
        problem(r, line_of(ev), "%s: %s", key->name, why);
}

static void read_sequence(struct reader *r, const struct config_key *key)
{
    yaml_event_t ev;
    while (next_event(r, &ev)) {
        yaml_event_type_t type = ev.type;
        if (type == YAML_SCALAR_EVENT)
            set_scalar(r, key, &ev, true);
        else if (type != YAML_SEQUENCE_END_EVENT)
            problem(r, line_of(&ev), "%s: an item is not a plain value", key->name);
        yaml_event_delete(&ev);
        if (type == YAML_SEQUENCE_END_EVENT)
            return;
        if (type != YAML_SCALAR_EVENT)
            skip_rest(r, type);
    }
}

/* The value of a name in a map: NAME=value becomes an item. */
static void read_pair(struct reader *r, const struct config_key *key, const char *name)
{
    yaml_event_t ev;
    if (!next_event(r, &ev))
        return;
    yaml_event_type_t type = ev.type;
    const char *text = type == YAML_SCALAR_EVENT ? scalar_text(r, &ev) : NULL;
    if (type != YAML_SCALAR_EVENT)
        problem(r, line_of(&ev), "%s.%s: not a plain value", key->name, name);
    if (text) {
        _cleanup_free_ char *item = xasprintf("%s=%s", name, is_null(&ev) ? "" : text);
        char why[256];
        if (config_value_add(r->config, key, ORIGIN_FILE, item, why, sizeof(why)) < 0)
            problem(r, line_of(&ev), "%s: %s", key->name, why);
    }
    yaml_event_delete(&ev);
    skip_rest(r, type);
}

static void read_map(struct reader *r, const struct config_key *key)
{
    yaml_event_t ev;
    while (next_event(r, &ev)) {
        if (ev.type == YAML_SCALAR_EVENT && scalar_text(r, &ev)) {
            _cleanup_free_ char *name = xstrdup((const char *)ev.data.scalar.value);
            yaml_event_delete(&ev);
            read_pair(r, key, name);
            continue;
        }
        bool end = ev.type == YAML_MAPPING_END_EVENT;
        if (!end)
            problem(r, line_of(&ev), "%s: a name is not a plain value", key->name);
        r->failed |= !end;
        yaml_event_delete(&ev);
        if (end)
            return;
    }
}

static void read_value(struct reader *r, const struct config_key *key, const yaml_event_t *ev)
{
    size_t index = (size_t)(key - config_keys);
    if (r->seen[index])
        problem(r, line_of(ev), "%s is there twice", key->name);
    r->seen[index] = true;
    bool list = config_value_is_list(key);
    if (ev->type == YAML_SCALAR_EVENT && is_null(ev))
        return;
    if (ev->type == YAML_SCALAR_EVENT && key->type != CONFIG_MAP)
        set_scalar(r, key, ev, false);
    else if (ev->type == YAML_SEQUENCE_START_EVENT && list && key->type != CONFIG_MAP)
        read_sequence(r, key);
    else if (ev->type == YAML_MAPPING_START_EVENT && key->type == CONFIG_MAP)
        read_map(r, key);
    else {
        problem(r, line_of(ev), "%s: %s is expected", key->name,
                key->type == CONFIG_MAP ? "a map"
                : list                  ? "a list"
                                        : "a plain value");
        skip_rest(r, ev->type);
    }
}

static void read_mapping(struct reader *r, const char *prefix, int depth);

static void report_unknown(struct reader *r, size_t line, const char *name)
{
    const char *near = config_suggest(name);
    problem(r, line, "unknown key '%s'%s%s%s", name, near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
}

/* Is there a key below this name, so that a map may hold it? */
static bool is_prefix(const char *name)
{
    size_t len = strlen(name);
    config_for_each_key(k)
        if (!(k->flags & KEY_INTERNAL) && strncmp(k->name, name, len) == 0 && k->name[len] == '_')
            return true;
    return false;
}

static void read_member(struct reader *r, const char *name, size_t line, int depth)
{
    const struct config_key *key = config_key_find(name);
    if (key && (key->flags & KEY_INTERNAL))
        key = NULL;
    yaml_event_t ev;
    if (!next_event(r, &ev))
        return;
    yaml_event_type_t type = ev.type;
    bool nested = type == YAML_MAPPING_START_EVENT && is_prefix(name);
    if (key && !(nested && key->type != CONFIG_MAP))
        read_value(r, key, &ev);
    else if (!nested)
        report_unknown(r, line, name);
    yaml_event_delete(&ev);
    if (nested && !(key && key->type == CONFIG_MAP))
        read_mapping(r, name, depth + 1);
    else if (!key)
        skip_rest(r, type);
}

static void read_mapping(struct reader *r, const char *prefix, int depth)
{
    yaml_event_t ev;
    while (next_event(r, &ev)) {
        char name[YAML_NAME_MAX];
        size_t line = line_of(&ev);
        bool end = ev.type == YAML_MAPPING_END_EVENT;
        const char *text = ev.type == YAML_SCALAR_EVENT ? scalar_text(r, &ev) : NULL;
        int n = text ? snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "_" : "", text) : 0;
        if (!end && (!text || n >= (int)sizeof(name) || depth > CONFIG_DEPTH_MAX)) {
            problem(r, line, "a key that is too long, too deep or not a plain value");
            r->failed = true;
        }
        yaml_event_delete(&ev);
        if (end)
            return;
        if (!r->failed)
            read_member(r, name, line, depth);
    }
}

static void read_document(struct reader *r)
{
    yaml_event_t ev;
    int documents = 0;
    while (next_event(r, &ev)) {
        yaml_event_type_t type = ev.type;
        size_t line = line_of(&ev);
        bool empty = type == YAML_SCALAR_EVENT && is_null(&ev);
        yaml_event_delete(&ev);
        if (type == YAML_STREAM_END_EVENT)
            return;
        if (type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
            problem(r, line, "a second document");
            return;
        }
        if (type == YAML_MAPPING_START_EVENT) {
            read_mapping(r, "", 1);
        } else if ((type == YAML_SCALAR_EVENT && !empty) || type == YAML_SEQUENCE_START_EVENT) {
            problem(r, line, "not a map of keys and values");
            return;
        }
    }
}

void config_load_yaml(struct config *c, const char *name, const char *text, size_t len,
                      struct config_problems *p)
{
    struct reader r = {.config = c, .problems = p, .name = name};
    if (len > CONFIG_FILE_MAX) {
        config_error(p, "%s: larger than %d bytes", name, CONFIG_FILE_MAX);
        return;
    }
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* out of memory */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    read_document(&r);
    yaml_parser_delete(&r.parser);
}

void config_load_file(struct config *c, const char *path, struct config_problems *p)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CONFIG_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &text);
    if (r == -EFBIG)
        config_error(p, "%s: larger than %d bytes", path, CONFIG_FILE_MAX);
    else if (r < 0)
        config_error(p, "%s: %s", path, strerror(-r));
    else
        config_load_yaml(c, path, text.data ? text.data : "", text.len, p);
}
