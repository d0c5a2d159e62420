/* create_sandbox, list_sandboxes, destroy_sandbox, list_runtimes: for models that need more than
 * the sandbox they have. */
#include <string.h>

#include "api/api.h"
#include "api/image-call.h"
#include "api/image-wait.h"
#include "api/sandbox-reply.h"
#include "api/spec-json.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "keeper/images.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"
#include "mcp/tools/workspace.h"

#define LIST_MAX 200

/* --- calls that wait for a sandbox */

struct pending {
    struct sandbox_waiter waiter;
    struct mcp_call *call;
    struct sandbox *created; /* referenced; deleted when nobody wants it any more */
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

/* A deletion goes on, and nobody hears how; what is being made is not wanted. */
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

static json_t *show(struct mcp_call *call, struct sandbox *sb)
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
    result_finish(call, show(call, sb), text);
}

/* The body that HTTP has for the same arguments. */
static json_t *make_body(const json_t *args)
{
    static const char *const limits[] = {"cpu_cores", "memory_mb", "disk_mb", "max_processes"};
    static const char *const same[] = {"runtime", "image", "env"};
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

struct image_pending {
    struct image_wait wait;
    struct mcp_call *call;
    struct spec spec;
};

static void image_pending_free(struct image_pending *p)
{
    spec_done(&p->spec);
    free(p);
}

static void on_image_cancel(struct mcp_call *call)
{
    struct image_pending *p = mcp_call_state(call);
    image_wait_cancel(&p->wait);
    image_pending_free(p);
    mcp_call_finish_text(call, true, "cancelled");
}

static void create(struct mcp_call *call, const struct spec *spec)
{
    const struct api_options *o = mcp_call_services(call);
    const char *name = json_string_value(json_object_get(mcp_call_arguments(call), "name"));
    struct error err = {0};
    const struct identity *who = mcp_call_identity(call);
    struct sandbox_maker by = {who->key, who->address};
    struct sandbox *sb = sandbox_create(o->manager, spec, &by, name, NULL, false, &err);
    if (sb)
        sandbox_wait_ready(sb, wait_with(call, sb, finish_create));
    else
        result_fail(call, &err, NULL);
}

static void on_image(struct image_wait *w, const struct image_found *found, const struct error *err)
{
    struct image_pending *p = container_of(w, struct image_pending, wait);
    struct mcp_call *call = p->call;
    const struct api_options *o = mcp_call_services(call);
    struct error denied = {0};
    mcp_call_on_cancel(call, NULL);
    if (found && found->fetched)
        image_note(o->audit, mcp_call_identity(call), "pulled", p->spec.image, found->digest, NULL);
    if (found && image_apply(o, mcp_call_identity(call), &p->spec, found, &denied) < 0)
        err = &denied;
    if (err)
        result_fail(call, err, NULL);
    else
        create(call, &p->spec);
    image_pending_free(p);
}

/* Takes what is in spec; made once it is known what its image is. */
static int create_when_found(struct mcp_call *call, struct spec *spec, struct error *err)
{
    const struct api_options *o = mcp_call_services(call);
    struct images *images = o->images;
    bool open = spec->image && !spec->image_digest;
    const struct image_found *found = open ? images_peek(images, spec->image) : NULL;
    int r = found  ? image_apply(o, mcp_call_identity(call), spec, found, err)
            : open ? image_check_name(o, mcp_call_identity(call), spec->image, err)
                   : 0;
    if (r < 0) {
        spec_done(spec);
        return r;
    }
    if (!spec->image || spec->image_digest) {
        create(call, spec);
        spec_done(spec);
        return 0;
    }
    struct image_pending *p = new0(struct image_pending);
    p->call = call;
    p->wait.on_found = on_image;
    r = images_resolve(images, spec->image, &p->wait, err);
    p->spec = *spec;
    if (r < 0) {
        image_pending_free(p);
        return r;
    }
    mcp_call_set_state(call, p);
    mcp_call_on_cancel(call, on_image_cancel);
    return 0;
}

void tool_create_sandbox(struct mcp_call *call)
{
    const struct api_options *o = mcp_call_services(call);
    const json_t *args = mcp_call_arguments(call);
    const char *name = json_string_value(json_object_get(args, "name"));
    struct error err = {0};
    struct spec spec;
    spec_init(&spec);
    _cleanup_json_ json_t *body = make_body(args);
    int r = name ? sandbox_name_check(name, &err) : 0;
    if (r >= 0)
        r = spec_json_parse(body, o, &spec, &err);
    if (r >= 0)
        r = create_when_found(call, &spec, &err);
    if (r < 0)
        result_fail(call, &err, NULL);
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
        json_t *o = show(call, found[i]);
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
    const struct api_options *o = mcp_call_services(call);
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
