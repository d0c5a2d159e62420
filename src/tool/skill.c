/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/skill.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "store/store.h"
#include "tool/tool.h"

/* Skills that are no tools of the same name. */
static const struct {
    const char *id, *name, *tool;
} own[] = {{SKILL_FILESYSTEM, "files below one directory", NULL},
           {SKILL_SYSTEM, "commands in a shell", "shell"}};

struct skills {
    struct store *store;
    struct map *disabled; /* by main_id(); values are of no meaning */
};

bool skill_exists(const char *id)
{
    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (strcmp(own[i].id, id) == 0)
            return true;
    return tool_find(id);
}

const char *skill_tool(const char *id)
{
    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (strcmp(own[i].id, id) == 0)
            return own[i].tool;
    const struct tool *t = tool_find(id);
    return t ? t->name : NULL;
}

/* One thing may have two ids, `system` and `shell`: what is said of one of them holds for both. */
static const char *main_id(const char *id)
{
    const char *tool = skill_tool(id);
    return tool ? tool : id;
}

static bool is_enabled(const struct skills *s, const char *id)
{
    return !s || !map_find(s->disabled, main_id(id));
}

int skill_check(const struct skills *s, const char *id, struct error *err)
{
    if (!skill_exists(id))
        return error_set(err, ERROR_NOT_FOUND, 0, "there is no skill '%.60s'", id);
    if (!is_enabled(s, id))
        return error_set(err, ERROR_FORBIDDEN, 0, "the skill '%s' is disabled", id);
    return 0;
}

/* --- the record */

static void load_row(void *data, const char *id, const char *body, size_t len)
{
    struct skills *s = data;
    (void)body;
    (void)len;
    map_put(s->disabled, main_id(id), s);
}

struct skills *skills_new(struct store *store, struct error *err)
{
    struct skills *s = new0(struct skills);
    s->store = store;
    s->disabled = map_new();
    if (store && store_load(store, STORE_SKILL, load_row, s, err) < 0) {
        skills_free(s);
        return NULL;
    }
    return s;
}

void skills_free(struct skills *s)
{
    if (!s)
        return;
    map_free(s->disabled);
    free(s);
}

/* Its row may be under any of its ids. */
static void forget_row(struct skills *s, const char *id,
                       void (*on_done)(void *data, const struct error *err), void *data)
{
    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (own[i].tool && strcmp(own[i].tool, id) == 0)
            store_delete(s->store, STORE_SKILL, own[i].id, NULL, NULL);
    store_delete(s->store, STORE_SKILL, id, on_done, data);
}

int skill_set_enabled(struct skills *s, const char *id, bool enabled,
                      void (*on_done)(void *data, const struct error *err), void *data,
                      struct error *err)
{
    static const char row[] = "{\"enabled\":false}";
    if (!skill_exists(id))
        return error_set(err, ERROR_NOT_FOUND, 0, "there is no skill '%.60s'", id);
    id = main_id(id);
    if (enabled)
        map_remove(s->disabled, id);
    else
        map_put(s->disabled, id, s);
    if (!s->store) {
        if (on_done)
            on_done(data, NULL);
    } else if (enabled) {
        forget_row(s, id, on_done, data);
    } else {
        store_put(s->store, STORE_SKILL, id, row, sizeof(row) - 1, on_done, data);
    }
    return 0;
}

static json_t *skill_to_json(const struct skills *s, const char *id, const char *name)
{
    return json_pack("{s:s, s:s, s:b}", "id", id, "name", name, "enabled", is_enabled(s, id));
}

json_t *skills_to_json(const struct skills *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ELEMENTS(own); i++)
        json_array_append_new(list, skill_to_json(s, own[i].id, own[i].name));
    for (size_t i = 0; i < n_tools; i++)
        json_array_append_new(list, skill_to_json(s, tools[i].name, tools[i].summary));
    return list;
}
