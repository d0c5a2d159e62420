/* SPDX-License-Identifier: Apache-2.0 */
/* create_sandbox, list_sandboxes, destroy_sandbox, list_runtimes: for models that need more than
 * the sandbox they have. */
#include <string.h>

#include "api/api.h"
#include "api/sandbox-reply.h"
#include "api/spec-json.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"
#include "mcp/tools/workspace.h"
#include "tool/image-find.h"
#include "tool/network.h"

#define LIST_MAX 200

/* --- calls that wait for a sandbox */

struct pending {
    struct sandbox_waiter waiter;
    struct mcp_call *call;
    struct sandbox *created; /* referenced; deleted when the client does not want it any more */
    void (*finish)(struct mcp_call *call, struct sandbox *sb);
};

static void on_event(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err)
{
    struct pending *p = container_of(w, struct pending, waiter);
    if (err)
        result_fail(p->call, err, NULL);
    else
        p->finish(p->call, sb);
    sandbox_unref(p->created);
    free(p);
}

/* A deletion goes on without an answer; a sandbox that is being made is not wanted any more. */
static void on_cancel(struct mcp_call *call)
{
    struct pending *p = mcp_call_state(call);
    sandbox_waiter_cancel(&p->waiter);
    if (p->created)
        sandbox_delete(p->created, NULL);
    sandbox_unref(p->created);
    free(p);
    mcp_call_finish_text(call, true, "cancelled");
}

static struct sandbox_waiter *wait_with(struct mcp_call *call, struct sandbox *created,
                                        void (*finish)(struct mcp_call *call, struct sandbox *sb))
{
    struct pending *p = new0(struct pending);
    p->call = call;
    p->finish = finish;
    p->created = created ? sandbox_ref(created) : NULL;
    p->waiter.on_event = on_event;
    list_init(&p->waiter.node);
    mcp_call_set_state(call, p);
    mcp_call_on_cancel(call, on_cancel);
    return &p->waiter;
}

/* --- creating */

static json_t *show_sandbox(struct mcp_call *call, struct sandbox *sb)
{
    static const char *const shown[] = {"id",        "state", "runtime", "created_at",   "workdir",
                                        "effective", "error", "image",   "image_digest", NULL};
    _cleanup_json_ json_t *all = view_sandbox(sb);
    json_t *o = result_pick(all, shown);
    bool current = workspace_current(mcp_call_session(call)) == sb;
    json_object_set_new(o, "current", json_boolean(current));
    return o;
}

static void finish_create(struct mcp_call *call, struct sandbox *sb)
{
    const json_t *stay = json_object_get(mcp_call_arguments(call), "make_current");
    if (!json_is_false(stay))
        workspace_choose(mcp_call_session(call), sb);
    _cleanup_free_ char *text =
        xasprintf("%s is ready (runtime %s). %s", sandbox_id(sb), sandbox_spec(sb)->runtime,
                  json_is_false(stay) ? "Name it with \"sandbox\" in other calls."
                                      : "Calls that name no sandbox work in it from now on.");
    result_finish(call, show_sandbox(call, sb), text);
}

/* The body that HTTP has for the same arguments. */
static json_t *make_body(const json_t *args)
{
    static const char *const limits[] = {"cpu_cores", "memory_mb", "disk_mb", "max_processes"};
    static const char *const same[] = {"runtime", "image", "env", "network"};
    json_t *body = json_object(), *limit = json_object();
    for (size_t i = 0; i < ELEMENTS(same); i++)
        if (json_object_get(args, same[i]))
            json_object_set(body, same[i], json_object_get(args, same[i]));
    for (size_t i = 0; i < ELEMENTS(limits); i++)
        if (json_object_get(args, limits[i]))
            json_object_set(limit, limits[i], json_object_get(args, limits[i]));
    json_object_set_new(body, "limits", limit);
    return body;
}

struct creation {
    struct image_find image;
    struct mcp_call *call;
    struct spec spec;
};

static void creation_free(struct creation *c)
{
    spec_done(&c->spec);
    free(c);
}

static void on_creation_cancel(struct mcp_call *call)
{
    struct creation *c = mcp_call_state(call);
    image_find_cancel(&c->image);
    creation_free(c);
    mcp_call_finish_text(call, true, "cancelled");
}

/* Takes c, whose image was found, or not. */
static void create_from(struct creation *c, const struct error *failed)
{
    struct mcp_call *call = c->call;
    const char *name = json_string_value(json_object_get(mcp_call_arguments(call), "name"));
    const struct identity *who = mcp_call_identity(call);
    const struct services *o = mcp_call_services(call);
    struct sandbox_maker by;
    struct error err = {0};
    mcp_call_on_cancel(call, NULL);
    struct sandbox *sb = failed || network_admit(o->gate, who, &c->spec, &by, &err) < 0
                             ? NULL
                             : sandbox_create(o->manager, &c->spec, &by, name, NULL, false, &err);
    if (sb)
        sandbox_wait_ready(sb, wait_with(call, sb, finish_create));
    else
        result_fail(call, failed ? failed : &err, NULL);
    creation_free(c);
}

static void on_image_found(struct image_find *f, const struct error *err)
{
    create_from(container_of(f, struct creation, image), err);
}

void tool_create_sandbox(struct mcp_call *call)
{
    const struct services *o = mcp_call_services(call);
    const json_t *args = mcp_call_arguments(call);
    const char *name = json_string_value(json_object_get(args, "name"));
    struct error err = {0};
    struct creation *c = new0(struct creation);
    c->call = call;
    c->image.on_done = on_image_found;
    spec_init(&c->spec);
    _cleanup_json_ json_t *body = make_body(args);
    int r = name ? sandbox_name_check(name, &err) : 0;
    if (r >= 0)
        r = spec_json_parse(body, o, &c->spec, &err);
    if (r >= 0)
        r = image_find_start(&c->image, o->images, o->gate, mcp_call_identity(call), NULL, &c->spec,
                             &err);
    if (r <= 0) {
        create_from(c, r < 0 ? &err : NULL);
        return;
    }
    mcp_call_set_state(call, c);
    mcp_call_on_cancel(call, on_creation_cancel);
}

/* --- listing */

void tool_list_sandboxes(struct mcp_call *call)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    struct sandbox *found[LIST_MAX + 1];
    size_t n = sandbox_list(mcp_call_services(call)->manager, mcp_call_owner(call), NULL, found,
                            LIST_MAX + 1);
    json_t *list = json_array();
    for (size_t i = 0; i < n && i < LIST_MAX; i++) {
        json_t *o = show_sandbox(call, found[i]);
        json_object_del(o, "effective");
        strbuf_printf(&text, "%s  %s  %s%s\n", sandbox_id(found[i]),
                      sandbox_state_name(sandbox_state(found[i])), sandbox_spec(found[i])->runtime,
                      json_is_true(json_object_get(o, "current")) ? "  (current)" : "");
        json_array_append_new(list, o);
    }
    if (!n)
        strbuf_puts(&text, "[none yet: the first command or file makes one]\n");
    result_finish(call, json_pack("{s:o, s:b}", "sandboxes", list, "truncated", n > LIST_MAX),
                  text.data);
}

void tool_list_runtimes(struct mcp_call *call)
{
    const struct services *o = mcp_call_services(call);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RESULT_TEXT_MAX);
    _cleanup_json_ json_t *all = view_runtimes(o->host);
    json_t *list = json_array(), *runtime;
    size_t i;
    json_array_foreach(all, i, runtime)
    {
        static const char *const shown[] = {"name", "summary", "available", "why", NULL};
        const char *name = json_string_value(json_object_get(runtime, "name"));
        const char *why = json_string_value(json_object_get(runtime, "why"));
        bool available = json_is_true(json_object_get(runtime, "available"));
        json_array_append_new(list, result_pick(runtime, shown));
        strbuf_printf(&text, "%s: %s%s\n", name,
                      json_string_value(json_object_get(runtime, "summary")),
                      strcmp(name, o->default_spec->runtime) == 0 ? " (default)" : "");
        if (!available)
            strbuf_printf(&text, "  not available here%s%s\n", why ? ": " : "", why ? why : "");
    }
    result_finish(call,
                  json_pack("{s:s, s:o}", "default", o->default_spec->runtime, "runtimes", list),
                  text.data);
}

/* --- destroying */

static void finish_destroy(struct mcp_call *call, struct sandbox *sb)
{
    _cleanup_free_ char *text = xasprintf("%s and all that was in it is gone", sandbox_id(sb));
    result_finish(call, json_pack("{s:s, s:b}", "id", sandbox_id(sb), "deleted", 1), text);
}

void tool_destroy_sandbox(struct mcp_call *call)
{
    struct error err = {0};
    struct mcp_session *s = mcp_call_session(call);
    const char *id = json_string_value(json_object_get(mcp_call_arguments(call), "sandbox"));
    struct sandbox *sb = workspace_find(s, id, &err);
    if (!sb) {
        result_fail(call, &err, "list_sandboxes shows which there are.");
        return;
    }
    workspace_forget(s, sb);
    sandbox_delete(sb, wait_with(call, NULL, finish_destroy));
}
