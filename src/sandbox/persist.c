/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/persist.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/json-format.h"
#include "base/log.h"
#include "gateway/gateway-client.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"

#define TAG_ARGV_MAX 4096 /* bytes of argv that a tag repeats */
#define ARGV_MAX     65536

bool persist_wants_sandbox(const struct sandbox *sb)
{
    return sb->manager->options.store && !sb->hidden;
}

bool persist_wants_exec(const struct exec *e)
{
    return persist_wants_sandbox(e->sandbox) && !e->hidden;
}

/* --- specs */

static json_t *format_flags(const bool flags[_WALL_MAX])
{
    json_t *list = json_array();
    for (int w = 0; w < _WALL_MAX; w++)
        if (flags[w])
            json_array_append_new(list, json_string(wall_name((enum wall)w)));
    return list;
}

static json_t *format_strings(char *const *v, size_t max_bytes)
{
    json_t *list = json_array();
    for (size_t used = 0; v && *v && used < max_bytes; v++) {
        bool lossy;
        size_t len = strlen(*v);
        used += len;
        json_array_append_new(list, json_string_from_bytes(*v, len, &lossy));
    }
    return list;
}

static json_t *format_volume(const struct volume *v)
{
    return json_pack("{s:s, s:s, s:I, s:s}", "mode", volume_mode_name(v->mode), "access",
                     volume_access_name(v->access), "bytes", (json_int_t)v->bytes, "class",
                     v->storage_class);
}

json_t *persist_spec_format(const struct spec *s)
{
    json_t *mounts = json_array();
    for (size_t i = 0; i < s->n_mounts; i++)
        json_array_append_new(mounts,
                              json_pack("{s:s, s:s, s:b}", "source", s->mounts[i].source, "target",
                                        s->mounts[i].target, "read_only", s->mounts[i].read_only));
    json_t *o =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:s?}", "runtime", s->runtime, "asked",
                  format_flags(s->asked), "weaker", format_flags(s->accept_weaker), "mounts",
                  mounts, "env", format_strings(s->env, SIZE_MAX), "workdir", s->workdir);
    limit_for_each(row) {
        if (row->name)
            json_object_set_new(o, row->member,
                                json_integer((json_int_t)limit_get(row, &s->limits)));
    }
    if (s->network)
        json_object_set_new(o, "network",
                            json_pack("{s:o, s:o}", "allow", format_strings(s->hosts, SIZE_MAX),
                                      "deny", format_strings(s->denied_hosts, SIZE_MAX)));
    if (s->intercept)
        json_object_set_new(o, "intercept",
                            json_pack("{s:o, s:o}", "inject", format_strings(s->inject, SIZE_MAX),
                                      "hosts", format_strings(s->intercept_hosts, SIZE_MAX)));
    if (s->cidrs && s->cidrs[0])
        json_object_set_new(o, "cidrs", format_strings(s->cidrs, SIZE_MAX));
    if (s->lent && s->lent[0])
        json_object_set_new(o, "lent", format_strings(s->lent, SIZE_MAX));
    if (spec_has_addresses(s) && !s->network)
        json_object_set_new(o, "denied", format_strings(s->denied_hosts, SIZE_MAX));
    if (s->workspace.mode != VOLUME_EMPTY)
        json_object_set_new(o, "workspace", format_volume(&s->workspace));
    if (s->cache.mode != VOLUME_EMPTY)
        json_object_set_new(o, "cache", format_volume(&s->cache));
    if (s->stream_token[0])
        json_object_set_new(o, "stream_token", json_string(s->stream_token));
    if (s->image)
        json_object_set_new(
            o, "image",
            json_pack("{s:s, s:s?, s:o, s:s?, s:o}", "name", s->image, "digest", s->image_digest,
                      "env", format_strings(s->image_env, SIZE_MAX), "workdir", s->image_workdir,
                      "names", format_strings(s->image_names, SIZE_MAX)));
    return o;
}

static void parse_flags(const json_t *obj, const char *key, bool flags[_WALL_MAX])
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(obj, key), i, item)
    {
        int w = json_is_string(item) ? spec_wall_parse(json_string_value(item)) : -1;
        if (w >= 0)
            flags[w] = true;
    }
}

static void parse_mounts(const json_t *obj, struct spec *s)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(obj, "mounts"), i, item)
    {
        const char *source = json_string_value(json_object_get(item, "source"));
        const char *target = json_string_value(json_object_get(item, "target"));
        if (source && target && s->n_mounts < SPEC_MOUNTS_MAX)
            s->mounts[s->n_mounts++] = (struct spec_mount){
                xstrdup(source), xstrdup(target), json_is_true(json_object_get(item, "read_only"))};
    }
}

static uint64_t member_number(const json_t *obj, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(obj, key));
    return n > 0 ? (uint64_t)n : 0;
}

static int parse_image(const json_t *obj, struct spec *s, struct error *err)
{
    json_t *o = NULL;
    const char *name = NULL, *digest = NULL, *workdir = NULL;
    _cleanup_strv_ char **env = NULL, **names = NULL;
    int r = json_member_object(obj, "image", &o, err);
    if (r <= 0)
        return r;
    r = json_member_string(o, "name", &name, err);
    if (r < 0)
        return r;
    r = json_member_string(o, "digest", &digest, err);
    if (r < 0)
        return r;
    r = json_member_string(o, "workdir", &workdir, err);
    if (r < 0)
        return r;
    r = json_member_strv(o, "env", ARGV_MAX, &env, err);
    if (r < 0)
        return r;
    r = json_member_strv(o, "names", ARGV_MAX, &names, err);
    if (r < 0)
        return r;
    spec_set_image(s, name, digest, env, workdir, names);
    return 0;
}

/* A row whose lists cannot be read must not become a sandbox that may reach anything. */
static int parse_network(const json_t *obj, struct spec *s, struct error *err)
{
    json_t *o = NULL;
    int r = json_member_object(obj, "network", &o, err);
    if (r <= 0)
        return r;
    r = json_member_strv(o, "allow", ARGV_MAX, &s->hosts, err);
    if (r < 0)
        return r;
    r = json_member_strv(o, "deny", ARGV_MAX, &s->denied_hosts, err);
    if (r < 0)
        return r;
    if (!s->hosts || !s->hosts[0])
        return error_set(err, ERROR_INTERNAL, 0, "a stored spec has a network without hosts");
    s->network = true;
    return 0;
}

static int parse_intercept(const json_t *obj, struct spec *s, struct error *err)
{
    json_t *o = NULL;
    int r = json_member_object(obj, "intercept", &o, err);
    if (r <= 0)
        return r;
    s->intercept = true;
    r = json_member_strv(o, "inject", ARGV_MAX, &s->inject, err);
    return r < 0 ? r : json_member_strv(o, "hosts", ARGV_MAX, &s->intercept_hosts, err);
}

static int parse_volume(const json_t *obj, const char *key, struct volume *v, struct error *err)
{
    json_t *o = NULL;
    const char *mode = "", *access = "", *class = "";
    int r = json_member_object(obj, key, &o, err);
    if (r <= 0)
        return r;
    r = json_member_string(o, "mode", &mode, err);
    if (r < 0)
        return r;
    r = json_member_string(o, "access", &access, err);
    if (r < 0)
        return r;
    r = json_member_string(o, "class", &class, err);
    if (r < 0)
        return r;
    int m = volume_mode_parse(mode), a = volume_access_parse(access);
    if (m < 0 || a < 0 || strlen(class) >= sizeof(v->storage_class))
        return error_set(err, ERROR_INTERNAL, 0, "a stored spec has a '%s' that cannot be read",
                         key);
    *v = (struct volume){.mode = (enum volume_mode)m,
                         .access = (enum volume_access)a,
                         .bytes = member_number(o, "bytes")};
    strcpy(v->storage_class, class);
    return 0;
}

/* One that is not whole would let a caller in that has only a part of it. */
static int parse_stream(const json_t *obj, struct spec *s, struct error *err)
{
    const char *token = "";
    int r = json_member_string(obj, "stream_token", &token, err);
    if (r < 0)
        return r;
    if (*token && strlen(token) != SPEC_TOKEN_SIZE - 1)
        return error_set(err, ERROR_INTERNAL, 0, "a stored spec has a stream_token that is none");
    strcpy(s->stream_token, token);
    return r;
}

int persist_spec_parse(const json_t *obj, struct spec *ret, struct error *err)
{
    const char *runtime = NULL, *workdir = NULL;
    _cleanup_spec_ struct spec s = {0};
    int r = json_member_string(obj, "runtime", &runtime, err);
    if (r < 0)
        return r;
    if (!runtime)
        return error_set(err, ERROR_INTERNAL, 0, "a stored spec has no runtime");
    r = json_member_string(obj, "workdir", &workdir, err);
    if (r < 0)
        return r;
    r = json_member_strv(obj, "env", ARGV_MAX, &s.env, err);
    if (r < 0)
        return r;
    r = parse_image(obj, &s, err);
    if (r < 0)
        return r;
    r = parse_network(obj, &s, err);
    if (r < 0)
        return r;
    r = parse_intercept(obj, &s, err);
    if (r < 0)
        return r;
    r = parse_volume(obj, "workspace", &s.workspace, err);
    if (r < 0)
        return r;
    r = parse_volume(obj, "cache", &s.cache, err);
    if (r < 0)
        return r;
    r = parse_stream(obj, &s, err);
    if (r < 0)
        return r;
    r = json_member_strv(obj, "cidrs", ARGV_MAX, &s.cidrs, err);
    if (r < 0)
        return r;
    r = json_member_strv(obj, "lent", ARGV_MAX, &s.lent, err);
    if (r < 0)
        return r;
    if (!s.network) /* with one it is a part of that, and has been read */
        r = json_member_strv(obj, "denied", ARGV_MAX, &s.denied_hosts, err);
    if (r < 0)
        return r;
    s.runtime = xstrdup(runtime);
    s.workdir = workdir ? xstrdup(workdir) : NULL;
    limit_for_each(row) {
        if (row->name)
            limit_set(row, &s.limits, member_number(obj, row->member));
    }
    parse_flags(obj, "asked", s.asked);
    parse_flags(obj, "weaker", s.accept_weaker);
    parse_mounts(obj, &s);
    *ret = s;
    spec_init(&s); /* its contents are the caller's now */
    return 0;
}

/* --- rows that cannot be written */

struct refusal {
    store_done_fn on_durable;
    void *data;
};

static void on_refused(void *data)
{
    struct refusal r = *(struct refusal *)data;
    struct error err = {0};
    free(data);
    error_set(&err, ERROR_TOO_LARGE, 0, "its record would be over %d MiB", ROW_MAX >> 20);
    r.on_durable(r.data, &err);
}

/* The answer comes in a later turn of the loop, as it would from the store: callers do not expect
 * it from inside of their own call. */
static void refuse_row(const struct manager *m, const char *id, store_done_fn on_durable,
                       void *data)
{
    log_error("a record is too large to be written id=%s", id);
    if (!on_durable)
        return;
    struct refusal *r = new0(struct refusal);
    *r = (struct refusal){on_durable, data};
    loop_defer(m->options.loop, on_refused, r);
}

/* --- sandboxes */

static json_t *format_sandbox(const struct sandbox *sb)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s?, s:I, s:o}", "runtime_id", sb->runtime_id, "generation",
                  sb->generation, "owner", sb->owner, "alias", sb->alias, "created_ns",
                  (json_int_t)sb->created_ns, "spec", persist_spec_format(&sb->spec));
    sandbox_policy_put(sb->policy, o);
    if (!*sb->owner && *sb->address)
        json_object_set_new(o, "caller", json_message(sb->address));
    if (sb->paused || sb->pause_wished)
        json_object_set_new(o, "paused", json_true());
    if (sb->forget_on_record)
        json_object_set_new(o, "forgets", json_true());
    if (sb->state == SANDBOX_CRASHED)
        json_object_set_new(o, "failure", json_message(sb->failure.message));
    return o;
}

char *persist_sandbox_text(const struct sandbox *sb)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    if (!persist_wants_sandbox(sb))
        return NULL;
    _cleanup_json_ json_t *o = format_sandbox(sb);
    json_object_set_new(o, "id", json_string(sb->id));
    return json_format(o, &b) < 0 ? NULL : strbuf_steal(&b);
}

/* A runtime that has a copy hears of the change. */
void persist_sandbox(struct sandbox *sb, store_done_fn on_durable, void *data)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ROW_MAX);
    _cleanup_json_ json_t *o = format_sandbox(sb);
    if (sb->instance && sb->ops->note)
        sb->ops->note(sb->instance);
    if (json_format(o, &b) < 0) {
        refuse_row(sb->manager, sb->id, on_durable, data);
        return;
    }
    store_put(sb->manager->options.store, STORE_SANDBOX, sb->id, b.data, b.len, on_durable, data);
}

void persist_sandbox_remove(struct sandbox *sb, store_done_fn on_durable, void *data)
{
    store_delete(sb->manager->options.store, STORE_SANDBOX, sb->id, on_durable, data);
}

/* --- execs */

/* The object stays open: what only a row has comes behind it. */
static struct json_text format_exec(const struct exec *e, size_t max_argv, struct strbuf *out)
{
    struct json_text t = json_text_begin(out, '{');
    json_text_string(&t, "id", e->id);
    json_text_string(&t, "sandbox", e->sandbox->id);
    json_text_open(&t, "argv", '[');
    size_t used = 0;
    /* A tag holds the beginning of a long argv, from which a control plane without a row learns
     * what it was about; a row holds all of it. */
    for (char *const *a = e->argv; *a && used < max_argv; a++) {
        size_t len = strlen(*a);
        json_text_bytes(&t, NULL, *a, len);
        used += len;
    }
    json_text_close(&t, ']');
    json_text_bool(&t, "pty", e->pty);
    json_text_bool(&t, "hidden", e->hidden);
    json_text_bool(&t, "block", e->block_output);
    json_text_bool(&t, "stdin", e->stdin_open && !e->stdin_close_wanted);
    json_text_int(&t, "timeout_ms", (int64_t)e->timeout_ms);
    json_text_int(&t, "started_ns", e->started_ns);
    if (*e->call)
        json_text_string(&t, "call", e->call);
    if (e->stdin_whole)
        json_text_int(&t, "stdin_bytes", (int64_t)e->stdin_given);
    return t;
}

static void put_list(struct json_text *t, const char *name, char *const *texts)
{
    if (!texts)
        return;
    json_text_open(t, name, '[');
    for (; *texts; texts++)
        json_text_string(t, NULL, *texts);
    json_text_close(t, ']');
}

/* The runner keeps the tag and says it again to a control plane that knows nothing of the
 * command. The hosts are in it, because without them such a command would have its sandbox's
 * whole network. */
char *persist_exec_tag(const struct exec *e)
{
    char *const none[] = {(char *)GATEWAY_HOST_NONE, NULL};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PROTO_TAG_MAX - 1);
    struct json_text t = format_exec(e, TAG_ARGV_MAX, &b);
    put_list(&t, "hosts", e->hosts);
    put_list(&t, "bound", e->bound);
    if (json_text_end(&t, '}') < 0) { /* too long: its id is what matters, and it reaches nothing */
        strbuf_reset(&b);
        t = format_exec(e, 0, &b);
        put_list(&t, "hosts", e->hosts ? none : NULL);
        put_list(&t, "bound", e->bound ? none : NULL);
        json_text_end(&t, '}');
    }
    return strbuf_steal(&b);
}

static void put_result(struct json_text *t, const struct exec *e)
{
    const struct exec_result *r = &e->result;
    json_text_int(t, "finished_ns", e->finished_ns);
    json_text_open(t, "result", '{');
    json_text_int(t, "status", (int)r->status);
    json_text_bool(t, "has_exit_code", r->has_exit_code);
    json_text_int(t, "exit_code", r->exit_code);
    json_text_int(t, "signo", r->signo);
    json_text_bool(t, "oom_killed", r->oom_killed);
    json_text_bool(t, "pipe_held", r->pipe_held);
    json_text_bool(t, "crashed", r->crashed);
    json_text_int(t, "spawn_errno", r->spawn_errno);
    json_text_bytes(t, "error", r->error, strlen(r->error));
    json_text_int(t, "user_us", (int64_t)r->usage.user_us);
    json_text_int(t, "system_us", (int64_t)r->usage.system_us);
    json_text_int(t, "max_rss_kb", (int64_t)r->usage.max_rss_kb);
    json_text_int(t, "wall_us", (int64_t)r->usage.wall_us);
    json_text_close(t, '}');
}

/* A row is the JSON's length, the JSON, and the journal where it has no files of its own. */
int persist_exec_format(const struct exec *e, struct strbuf *row)
{
    uint32_t len = 0;
    int r = strbuf_append(row, &len, sizeof(len));
    if (r < 0)
        return r;
    struct json_text t = format_exec(e, SIZE_MAX, row);
    put_list(&t, "hosts", e->hosts);
    put_list(&t, "bound", e->bound);
    if (exec_is_done(e))
        put_result(&t, e);
    else if (e->result.status == EXEC_CANCELING)
        json_text_bool(&t, "canceling", true);
    r = json_text_end(&t, '}');
    if (r < 0)
        return r;
    len = (uint32_t)(row->len - sizeof(len));
    memcpy(row->data, &len, sizeof(len));
    return e->journal ? journal_snapshot(e->journal, row) : 0;
}

static void put_row(struct exec *e, const struct strbuf *row, bool hurry, store_done_fn on_durable,
                    void *data)
{
    if (!row->len) {
        refuse_row(e->sandbox->manager, e->id, on_durable, data);
        return;
    }
    e->has_row = true;
    (hurry ? store_put : store_put_soon)(e->sandbox->manager->options.store, STORE_EXEC, e->id,
                                         row->data, row->len, on_durable, data);
}

void persist_exec_put(struct exec *e, const struct strbuf *row, store_done_fn on_durable,
                      void *data)
{
    put_row(e, row, false, on_durable, data);
}

void persist_exec(struct exec *e, store_done_fn on_durable, void *data)
{
    _cleanup_strbuf_ struct strbuf row = STRBUF_INIT(ROW_MAX);
    if (persist_exec_format(e, &row) < 0)
        strbuf_reset(&row);
    /* No answer waits for the row of an end: until the row is durable, recent.c keeps the end, or
     * the runner remembers it and says it again. */
    put_row(e, &row, !exec_is_done(e), on_durable, data);
}

void persist_exec_remove(struct exec *e)
{
    if (e->has_row)
        store_delete(e->sandbox->manager->options.store, STORE_EXEC, e->id, NULL, NULL);
    e->has_row = false;
}

static void parse_result(const json_t *o, struct exec_result *r)
{
    const char *error = json_string_value(json_object_get(o, "error"));
    uint64_t status = member_number(o, "status");
    /* A row of a newer version may have a status that is not known here: that command did not
     * succeed as far as this version can tell. */
    r->status = status < _EXEC_STATUS_MAX ? (enum exec_status)status : EXEC_FAILED;
    r->has_exit_code = json_is_true(json_object_get(o, "has_exit_code"));
    r->exit_code = (int)member_number(o, "exit_code");
    r->signo = (int)member_number(o, "signo");
    r->oom_killed = json_is_true(json_object_get(o, "oom_killed"));
    r->pipe_held = json_is_true(json_object_get(o, "pipe_held"));
    r->crashed = json_is_true(json_object_get(o, "crashed"));
    r->spawn_errno = (int)member_number(o, "spawn_errno");
    r->usage = (struct exec_usage){member_number(o, "user_us"), member_number(o, "system_us"),
                                   member_number(o, "max_rss_kb"), member_number(o, "wall_us")};
    snprintf(r->error, sizeof(r->error), "%s", error ? error : "");
}

int persist_exec_parse(const json_t *obj, struct exec *e, struct error *err)
{
    const char *id = NULL;
    json_t *result = NULL;
    int r = json_member_string(obj, "id", &id, err);
    if (r < 0)
        return r;
    /* The id is the name of the journal's files, so it must not lead out of their directory. */
    if (!id || strlen(id) >= sizeof(e->id) || strchr(id, '/'))
        return error_set(err, ERROR_INTERNAL, 0, "a stored exec has no id");
    r = json_member_strv(obj, "argv", ARGV_MAX, &e->argv, err);
    if (r < 0)
        return r;
    r = json_member_strv(obj, "hosts", ARGV_MAX, &e->hosts, err);
    if (r < 0)
        return r;
    r = json_member_strv(obj, "bound", ARGV_MAX, &e->bound, err);
    if (r < 0)
        return r;
    r = json_member_object(obj, "result", &result, err);
    if (r < 0)
        return r;
    if (!e->argv || !e->argv[0]) {
        char *unknown[] = {(char *)"?", NULL};
        strv_free(e->argv);
        e->argv = strv_copy(unknown);
    }
    const char *call = json_string_value(json_object_get(obj, "call"));
    snprintf(e->id, sizeof(e->id), "%s", id);
    snprintf(e->call, sizeof(e->call), "%s", call ? call : "");
    e->pty = json_is_true(json_object_get(obj, "pty"));
    e->hidden = json_is_true(json_object_get(obj, "hidden"));
    e->block_output = json_is_true(json_object_get(obj, "block"));
    e->stdin_open = json_is_true(json_object_get(obj, "stdin"));
    e->stdin_whole = json_is_integer(json_object_get(obj, "stdin_bytes"));
    e->stdin_given = member_number(obj, "stdin_bytes");
    e->timeout_ms = member_number(obj, "timeout_ms");
    e->started_ns = (int64_t)member_number(obj, "started_ns");
    e->finished_ns = (int64_t)member_number(obj, "finished_ns");
    if (result)
        parse_result(result, &e->result);
    else if (json_is_true(json_object_get(obj, "canceling")))
        e->result.status = EXEC_CANCELING;
    return 0;
}
