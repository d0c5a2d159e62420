/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools/workspace.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "identity/identity.h"
#include "loop/loop.h"
#include "mcp/tools/uri.h"

#define NAME_RANDOM     12
#define WATCHES_MAX     64  /* execs whose news one session gets */
#define WATCH_PAUSE_MS  500 /* between two notifications about one exec */
#define EXECS_NAMED_MAX 5   /* in an error about an unknown one */
#define EXECS_SEEN_MAX  1024

struct watch {
    struct list node;
    struct workspace *workspace;
    struct exec *exec;
    struct journal_reader reader;
    struct exec_waiter done;
    struct loop_timer timer;
    bool due; /* something came while the timer runs */
};

struct workspace {
    struct mcp_session *session;
    struct sandbox *own;     /* referenced and held; NULL while there is none */
    struct sandbox *current; /* the same, when another one was chosen; else NULL */
    char *note;
    struct list watches;
    size_t n_watches;
};

/* --- holding a sandbox while the session works in it */

static void slot_take(struct sandbox **slot, struct sandbox *sb)
{
    *slot = sandbox_ref(sb);
    sandbox_hold(sb);
}

static void drop_sandbox(struct sandbox **slot)
{
    struct sandbox *sb = steal_ptr(*slot);
    if (!sb)
        return;
    sandbox_release(sb);
    sandbox_unref(sb);
}

static bool is_alive(const struct sandbox *sb)
{
    return sb && (sandbox_state(sb) == SANDBOX_CREATING || sandbox_state(sb) == SANDBOX_READY);
}

/* --- watching logs */

static struct workspace *workspace_of(struct mcp_session *s);

static void on_watch_closed(void *data)
{
    free(data);
}

static void watch_free(struct watch *w)
{
    journal_unsubscribe(&w->reader);
    exec_waiter_cancel(&w->done);
    exec_unref(w->exec);
    list_remove(&w->node);
    w->workspace->n_watches--;
    loop_timer_close(&w->timer, on_watch_closed, w);
}

static void watch_tell(struct watch *w)
{
    for (uint8_t stream = OUTPUT_STDOUT; stream <= OUTPUT_STDERR; stream++) {
        _cleanup_free_ char *uri = uri_format_log(w->exec, stream);
        mcp_session_resource_updated(w->workspace->session, uri);
    }
}

static void on_watch_pause(void *data)
{
    struct watch *w = data;
    if (!w->due)
        return;
    w->due = false;
    watch_tell(w);
    loop_timer_start(&w->timer, WATCH_PAUSE_MS);
}

static void on_watch_output(struct journal_reader *r)
{
    struct watch *w = container_of(r, struct watch, reader);
    w->due = true;
    if (!loop_timer_active(&w->timer))
        loop_timer_start(&w->timer, 1);
}

static void on_watch_done(struct exec_waiter *waiter, struct exec *e)
{
    struct watch *w = container_of(waiter, struct watch, done);
    (void)e;
    watch_tell(w);
    watch_free(w);
}

static struct watch *watch_find(struct workspace *ws, const struct exec *e)
{
    list_for_each(w, &ws->watches, struct watch, node)
        if (w->exec == e)
            return w;
    return NULL;
}

void workspace_watch(struct mcp_session *s, struct exec *e)
{
    struct workspace *ws = workspace_of(s);
    if (exec_is_done(e) || !exec_journal(e) || watch_find(ws, e) || ws->n_watches >= WATCHES_MAX)
        return;
    struct watch *w = new0(struct watch);
    w->workspace = ws;
    w->exec = exec_ref(e);
    list_append(&ws->watches, &w->node);
    ws->n_watches++;
    loop_timer_init(&w->timer, mcp_session_services(s)->loop, on_watch_pause, w);
    list_init(&w->reader.node);
    w->reader.on_ready = on_watch_output;
    journal_subscribe(exec_journal(e), &w->reader);
    list_init(&w->done.node);
    w->done.on_done = on_watch_done;
    exec_wait(e, &w->done);
}

/* --- the workspace itself */

static void workspace_free(void *data)
{
    struct workspace *ws = data;
    while (!list_empty(&ws->watches))
        watch_free(container_of(ws->watches.next, struct watch, node));
    if (ws->own && sandbox_state(ws->own) != SANDBOX_GONE)
        sandbox_delete(ws->own, NULL);
    drop_sandbox(&ws->own);
    drop_sandbox(&ws->current);
    free(ws->note);
    free(ws);
}

static struct workspace *workspace_of(struct mcp_session *s)
{
    struct workspace *ws = mcp_session_data(s);
    if (ws)
        return ws;
    ws = new0(struct workspace);
    ws->session = s;
    list_init(&ws->watches);
    mcp_session_set_data(s, ws, workspace_free);
    return ws;
}

static void set_note(struct workspace *ws, const struct sandbox *sb)
{
    const char *why =
        sandbox_state(sb) == SANDBOX_CRASHED ? sandbox_failure(sb)->message : "it was deleted";
    free(ws->note);
    ws->note = xasprintf("Note: sandbox %s is gone (%.200s), and its files and running commands "
                         "with it. The session's sandbox is a new, empty one now.",
                         sandbox_id(sb), *why ? why : "it died");
}

char *workspace_take_note(struct mcp_session *s)
{
    return steal_ptr(workspace_of(s)->note);
}

struct sandbox *workspace_current(struct mcp_session *s)
{
    struct workspace *ws = workspace_of(s);
    /* Forget sandboxes that have died, or that another client has deleted. */
    if (ws->current && !is_alive(ws->current)) {
        set_note(ws, ws->current);
        drop_sandbox(&ws->current);
    }
    if (ws->own && !is_alive(ws->own)) {
        if (!ws->current)
            set_note(ws, ws->own);
        if (sandbox_state(ws->own) == SANDBOX_CRASHED)
            sandbox_delete(ws->own, NULL);
        drop_sandbox(&ws->own);
    }
    return ws->current ? ws->current : ws->own;
}

static struct sandbox *make_own(struct workspace *ws, struct error *err)
{
    const struct services *o = mcp_session_services(ws->session);
    char random[NAME_RANDOM + 1], name[NAME_RANDOM + 8];
    random_id(random, NAME_RANDOM);
    snprintf(name, sizeof(name), "mcp-%s", random);
    const struct identity *who = mcp_session_identity(ws->session);
    struct sandbox_maker by = {.key = who->key, .address = who->address};
    struct sandbox *sb = sandbox_create(o->manager, o->default_spec, &by, name, NULL, false, err);
    if (sb)
        slot_take(&ws->own, sb);
    return sb;
}

void workspace_choose(struct mcp_session *s, struct sandbox *sb)
{
    struct workspace *ws = workspace_of(s);
    drop_sandbox(&ws->current);
    if (sb != ws->own)
        slot_take(&ws->current, sb);
}

void workspace_forget(struct mcp_session *s, const struct sandbox *sb)
{
    struct workspace *ws = workspace_of(s);
    if (ws->current == sb)
        drop_sandbox(&ws->current);
    if (ws->own == sb)
        drop_sandbox(&ws->own);
}

struct sandbox *workspace_find(struct mcp_session *s, const char *id, struct error *err)
{
    const struct services *o = mcp_session_services(s);
    struct sandbox *sb = strcmp(id, "current") == 0
                             ? workspace_current(s)
                             : sandbox_find(o->manager, mcp_session_owner(s), id);
    if (!sb)
        error_set(err, ERROR_NOT_FOUND, 0, "there is no sandbox '%.80s'", id);
    return sb;
}

struct sandbox *workspace_sandbox(struct mcp_call *call, struct error *err)
{
    struct mcp_session *s = mcp_call_session(call);
    const char *id = NULL;
    if (json_member_string(mcp_call_arguments(call), "sandbox", &id, err) < 0)
        return NULL;
    if (id)
        return workspace_find(s, id, err);
    struct sandbox *sb = workspace_current(s);
    return sb ? sb : make_own(workspace_of(s), err);
}

/* --- commands */

struct exec *workspace_exec(struct mcp_call *call, struct error *err)
{
    struct mcp_session *s = mcp_call_session(call);
    const json_t *args = mcp_call_arguments(call);
    const char *id = json_string_value(json_object_get(args, "sandbox"));
    const char *wanted = json_string_value(json_object_get(args, "exec_id"));
    struct sandbox *sb = id ? workspace_find(s, id, err) : workspace_current(s);
    struct exec *e = sb ? exec_find(sb, wanted) : NULL;
    struct sandbox *own = workspace_of(s)->own;
    if (!e && !id && own && own != sb)
        e = exec_find(own, wanted);
    if (e || error_is_set(err))
        return e;
    _cleanup_strbuf_ struct strbuf known = STRBUF_INIT(512);
    if (sb) {
        /* "it has exec_1, exec_2", so that a model that mistook an id finds the right one. */
        struct exec **found = xcalloc(EXECS_SEEN_MAX, sizeof(struct exec *));
        size_t n = exec_list(sb, found, EXECS_SEEN_MAX);
        for (size_t i = n > EXECS_NAMED_MAX ? n - EXECS_NAMED_MAX : 0; i < n; i++)
            strbuf_printf(&known, "%s%s (%s)", known.len ? ", " : "", exec_id(found[i]),
                          exec_status_name(exec_status(found[i])));
        free(found);
    }
    error_set(err, ERROR_NOT_FOUND, 0, "there is no command '%.80s'; known ones: %s", wanted,
              known.len ? known.data : "none");
    return NULL;
}
