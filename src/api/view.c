/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "runtime/warden-client.h"
#include "base/strbuf.h"

json_t *view_time(int64_t real_ns)
{
    char text[CLOCK_RFC3339_SIZE];
    if (!real_ns)
        return json_null();
    clock_format_rfc3339(real_ns, text);
    return json_string(text);
}

static json_t *wall_by(const char *by)
{
    return by ? json_pack("{s:s}", "by", by) : json_null();
}

/* {"limit…":n,"by":"…"}, or null where nothing enforces a limit. */
static json_t *limit_by(const struct effective *e, const struct limit *row)
{
    double v = limit_in_unit(row, limit_get(row, &e->limits));
    if (!e->by[row->wall] || v <= 0)
        return json_null();
    json_t *value = v == (double)(json_int_t)v ? json_integer((json_int_t)v) : json_real(v);
    return json_pack("{s:o, s:s}", row->report, value, "by", e->by[row->wall]);
}

static json_t *view_effective(const struct effective *e)
{
    json_t *o = json_object();
    json_object_set_new(o, "runtime", json_string(e->runtime));
    limit_for_each(row) {
        if (row->report)
            json_object_set_new(o, wall_name((enum wall)row->wall), limit_by(e, row));
    }
    json_t *disk = json_object_get(o, wall_name(WALL_DISK));
    if (json_is_object(disk))
        json_object_set_new(disk, "charged_to_memory", json_boolean(e->disk_in_memory));
    json_t *network = wall_by(e->by[WALL_NETWORK]);
    if (e->network_by_name && !e->network_by_address)
        json_object_set_new(network, "by", json_string("gateway"));
    if (json_is_object(network))
        json_object_set_new(network, "mode",
                            json_string(e->network_by_address ? "addresses"
                                        : e->network_by_name  ? "names"
                                                              : "none"));
    if (e->intercepted)
        json_object_set_new(network, "intercept", json_true());
    json_object_set_new(o, "network", network);
    json_object_set_new(o, "filesystem", wall_by(e->by[WALL_FILESYSTEM]));
    json_object_set_new(o, "syscalls", wall_by(e->by[WALL_SYSCALLS]));
    json_object_set_new(o, "users", wall_by(e->by[WALL_USERS]));
    json_object_set_new(o, "uid_separation", json_boolean(e->uid_separation));
    json_t *landlock = wall_by(e->by[WALL_LANDLOCK]);
    if (json_is_object(landlock))
        json_object_set_new(landlock, "abi", json_integer(e->landlock_abi));
    json_object_set_new(o, "landlock", landlock);
    if (e->machine)
        json_object_set_new(o, "machine", json_string(e->machine));
    if (e->vmm)
        json_object_set_new(o, "vmm", json_string(e->vmm));
    if (e->shares)
        json_object_set_new(o, "shares", json_from_words(e->shares));
    return o;
}

/* what would enforce each, no limits */
static json_t *view_walls(const struct effective *e)
{
    json_t *o = json_object();
    for (int w = 0; w < _WALL_MAX; w++)
        json_object_set_new(o, wall_name((enum wall)w),
                            e->by[w] ? json_string(e->by[w]) : json_null());
    json_object_set_new(o, "uid_separation", json_boolean(e->uid_separation));
    return o;
}

static json_t *view_checks(const struct runtime_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->n_checks; i++) {
        const struct runtime_check *c = &report->checks[i];
        json_t *o = json_pack("{s:s, s:b}", "name", c->name, "ok", c->ok);
        if (*c->detail)
            json_object_set_new(o, "detail", json_message(c->detail));
        if (c->advice)
            json_object_set_new(o, "advice", json_string(c->advice));
        json_array_append_new(list, o);
    }
    return list;
}

json_t *view_runtimes(struct runtime_host *host)
{
    json_t *list = json_array();
    for (size_t i = 0; runtimes[i]; i++) {
        struct runtime_report report = {0};
        runtimes[i]->probe(runtimes[i], host, &report);
        json_t *o = json_pack("{s:s, s:s, s:b, s:s, s:b, s:b}", "name", runtimes[i]->name,
                              "summary", runtimes[i]->summary, "available", report.available,
                              "isolation", isolation_name(runtimes[i]->isolation), "pause",
                              report.pause, "snapshots", report.snapshots);
        if (*report.version)
            json_object_set_new(o, "version", json_message(report.version));
        if (*report.why)
            json_object_set_new(o, "why", json_message(report.why));
        json_object_set_new(o, "enforces", view_walls(&report.walls));
        if (report.walls.shares)
            json_object_set_new(o, "shares", json_from_words(report.walls.shares));
        if (report.n_checks)
            json_object_set_new(o, "checks", view_checks(&report));
        json_array_append_new(list, o);
    }
    return list;
}

json_t *view_namespaces(struct runtime_host *host)
{
    const struct plan_reply *p = warden_client_probed(host->warden);
    bool there = p->features & FEATURE_USERNS;
    json_t *o = json_pack("{s:b}", "available", there);
    if (!there)
        json_object_set_new(o, "why", json_message(p->message));
    return o;
}

static json_t *view_mounts(const struct spec *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_mounts; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b}", "source", s->mounts[i].source, "target",
                                        s->mounts[i].target, "read_only", s->mounts[i].read_only));
    return list;
}

json_t *view_sandbox(const struct sandbox *sb)
{
    enum sandbox_state state = sandbox_state(sb);
    json_t *o = json_pack("{s:s, s:s, s:s}", "id", sandbox_id(sb), "state",
                          sandbox_is_paused(sb) ? "paused" : sandbox_state_name(state), "runtime",
                          sandbox_spec(sb)->runtime);
    if (sandbox_alias(sb))
        json_object_set_new(o, "alias", json_string(sandbox_alias(sb)));
    json_object_set_new(o, "created_at", view_time(sandbox_created_ns(sb)));
    json_object_set_new(o, "last_exec_at", view_time(sandbox_last_exec_ns(sb)));
    const char *workdir = spec_workdir(sandbox_spec(sb));
    if (!workdir)
        workdir = sandbox_effective(sb)->workdir;
    if (*workdir)
        json_object_set_new(o, "workdir", json_string(workdir));
    if (sandbox_spec(sb)->image) {
        json_object_set_new(o, "image", json_message(sandbox_spec(sb)->image));
        if (sandbox_spec(sb)->image_digest)
            json_object_set_new(o, "image_digest", json_message(sandbox_spec(sb)->image_digest));
    }
    json_object_set_new(o, "mounts", view_mounts(sandbox_spec(sb)));
    if (state == SANDBOX_READY)
        json_object_set_new(o, "effective", view_effective(sandbox_effective(sb)));
    if (state == SANDBOX_CRASHED)
        json_object_set_new(o, "error", json_message(sandbox_failure(sb)->message));
    return o;
}

static json_t *view_argv(char *const *argv)
{
    json_t *list = json_array();
    for (; *argv; argv++) {
        bool lossy;
        json_array_append_new(list, json_string_from_bytes(*argv, strlen(*argv), &lossy));
    }
    return list;
}

static json_t *view_usage(const struct exec_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "cpu_ms",
                     (json_int_t)((u->user_us + u->system_us + 500) / 1000), "user_ms",
                     (json_int_t)(u->user_us / 1000), "system_ms",
                     (json_int_t)(u->system_us / 1000), "max_rss_kb", (json_int_t)u->max_rss_kb);
}

/* The members that a status and an answer share. */
static void set_outcome(json_t *o, const struct exec *e)
{
    const struct exec_result *r = exec_result(e);
    const char *status = r->oom_killed ? "oom_killed" : exec_status_name(r->status);
    json_object_set_new(o, "status", json_string(status));
    if (r->has_exit_code)
        json_object_set_new(o, "exit_code", json_integer(r->exit_code));
    if (r->signo)
        json_object_set_new(o, "signal", json_integer(r->signo));
    if (*r->error)
        json_object_set_new(o, "error", json_message(r->error));
    if (r->pipe_held)
        json_object_set_new(o, "background_output_dropped", json_true());
}

json_t *view_exec(const struct exec *e)
{
    json_t *o =
        json_pack("{s:s, s:s}", "exec_id", exec_id(e), "sandbox_id", sandbox_id(exec_sandbox(e)));
    set_outcome(o, e);
    json_object_set_new(o, "command", view_argv(exec_argv(e)));
    json_object_set_new(o, "pty", json_boolean(exec_has_pty(e)));
    json_object_set_new(o, "started_at", view_time(exec_started_ns(e)));
    json_object_set_new(o, "finished_at", view_time(exec_finished_ns(e)));
    if (exec_timeout_ms(e))
        json_object_set_new(o, "timeout_ms", json_integer((json_int_t)exec_timeout_ms(e)));
    if (exec_output_blocked(e))
        json_object_set_new(o, "output_blocked", json_true());
    if (exec_is_done(e))
        json_object_set_new(o, "usage", view_usage(&exec_result(e)->usage));
    return o;
}

/* Sets key to text, and key_base64 where bytes are no UTF-8. */
static void view_set_bytes(json_t *obj, const char *key, const char *data, size_t len)
{
    bool lossy;
    json_object_set_new(obj, key, json_string_from_bytes(data ? data : "", len, &lossy));
    if (lossy) {
        char name[64];
        snprintf(name, sizeof(name), "%s_base64", key);
        size_t encoded_len;
        _cleanup_free_ char *encoded = base64_encode(data, len, &encoded_len);
        json_object_set_new(obj, name, json_stringn_nocheck(encoded, encoded_len));
    }
}

/* Output over max: its head and tail with a line between them that says so. */
static void set_output(json_t *o, struct exec *e, uint8_t stream, size_t max)
{
    const char *key = output_name(stream);
    struct strbuf b = STRBUF_INIT(max + 1);
    uint64_t omitted = 0;
    size_t gap = 0;
    journal_collect(exec_journal(e), stream, max, &b, &omitted, &gap);
    if (omitted) {
        char note[80];
        struct strbuf joined = STRBUF_INIT(max + sizeof(note));
        snprintf(note, sizeof(note), "\n[... %llu bytes omitted ...]\n",
                 (unsigned long long)omitted);
        strbuf_append(&joined, b.data, gap);
        strbuf_puts(&joined, note);
        strbuf_append(&joined, b.data + gap, b.len - gap);
        strbuf_done(&b);
        b = joined;
        json_object_set_new(o, "truncated", json_true());
        snprintf(note, sizeof(note), "%s_omitted_bytes", key);
        json_object_set_new(o, note, json_integer((json_int_t)omitted));
    }
    view_set_bytes(o, key, b.data, b.len);
    strbuf_done(&b);
}

json_t *view_result(struct exec *e, size_t max)
{
    json_t *o = json_object();
    set_output(o, e, OUTPUT_STDOUT, max);
    set_output(o, e, OUTPUT_STDERR, max);
    set_outcome(o, e);
    json_object_set_new(o, "exec_id", json_string(exec_id(e)));
    json_object_set_new(o, "duration_ms",
                        json_real((double)(exec_finished_ns(e) - exec_started_ns(e)) / 1e6));
    json_object_set_new(o, "usage", view_usage(&exec_result(e)->usage));
    return o;
}

json_t *view_event(struct exec *e, const struct journal_event *ev)
{
    static const char *const types[] = {"start", "output", "cut", "exit", "blocked"};
    static_assert(ELEMENTS(types) == _JOURNAL_TYPE_MAX, "a name per type");
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:s}", "sandbox_id", sandbox_id(exec_sandbox(e)), "exec_id",
                  exec_id(e), "seq", (json_int_t)ev->seq, "type", types[ev->type]);
    if (ev->type == JOURNAL_OUTPUT) {
        json_object_set_new(o, "stream", json_string(output_name(ev->stream)));
        json_object_set_new(o, "offset", json_integer((json_int_t)ev->offset));
        view_set_bytes(o, "data", ev->data, ev->len);
    } else if (ev->type == JOURNAL_CUT) {
        json_object_set_new(o, "dropped_bytes", json_integer((json_int_t)ev->dropped_bytes));
        json_object_set_new(o, "dropped_events", json_integer((json_int_t)ev->dropped_events));
    } else if (ev->type == JOURNAL_EXIT) {
        set_outcome(o, e);
    }
    json_object_set_new(o, "time", view_time(ev->time_ns));
    return o;
}
