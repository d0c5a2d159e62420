/* SPDX-License-Identifier: Apache-2.0 */
/* All that will run, as one JSON object whose canonical bytes an approval is over. Nothing that
 * changes what happens may be missing here: whatever is added to struct exec_spec or struct spec
 * belongs into it. Large inputs are there as hashes; beside the subject, run_shown() has what a
 * person needs to see of them. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "sandbox/persist.h"
#include "tool/run-internal.h"

#define SUBJECT_VERSION 1
#define SHOWN_MAX       (64 * 1024) /* bytes of a text that a person is shown */

static json_t *strings_to_json(char *const *v)
{
    json_t *list = json_array();
    bool lossy;
    for (; v && *v; v++)
        json_array_append_new(list, json_string_from_bytes(*v, strlen(*v), &lossy));
    return list;
}

/* Bytes that are not UTF-8 look alike in JSON: the digest does not. */
static json_t *digest_of(char *const *v)
{
    char digest[AUDIT_DIGEST_SIZE];
    static char *const none[] = {NULL};
    audit_digest_argv(v ? v : none, digest);
    return json_string(digest);
}

/* A path as JSON can show it. Two that look alike there are told apart by a digest. */
static void set_path(json_t *o, const char *key, const char *path)
{
    char digest[AUDIT_DIGEST_SIZE];
    bool lossy;
    json_object_set_new(o, key, json_string_from_bytes(path, strlen(path), &lossy));
    if (!lossy)
        return;
    _cleanup_free_ char *name = xasprintf("%s_digest", key);
    audit_digest(path, strlen(path), digest);
    json_object_set_new(o, name, json_string(digest));
}

static json_t *content_to_json(const char *data, size_t len)
{
    char digest[AUDIT_DIGEST_SIZE];
    audit_digest(data ? data : "", len, digest);
    return json_pack("{s:s, s:I}", "digest", digest, "bytes", (json_int_t)len);
}

static json_t *files_of(const struct run *run)
{
    json_t *list = json_array();
    for (size_t i = 0; i < run->n_files; i++) {
        json_t *f = content_to_json(run->files[i].data, run->files[i].len);
        set_path(f, "path", run->files[i].path);
        json_object_set_new(f, "mode", json_integer(run->files[i].mode));
        json_array_append_new(list, f);
    }
    return list;
}

static json_t *stdin_of(const struct exec_spec *s)
{
    json_t *o = content_to_json(s->stdin_data, s->stdin_len);
    json_object_set_new(o, "open", json_boolean(s->open_stdin || s->pty));
    return o;
}

static json_t *walls_of(const struct exec_spec *s)
{
    if (!s->narrow)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_paths; i++) {
        json_t *o = json_pack("{s:b}", "writable", s->paths[i].writable);
        set_path(o, "path", s->paths[i].path);
        json_array_append_new(list, o);
    }
    return list;
}

/* Where its paths led when it was asked about: a link that leads elsewhere is another call. */
static json_t *places_of(const struct run *run)
{
    json_t *list = json_array();
    for (size_t i = run->n_given; i < run->call.n_paths; i++) {
        const struct rules_path *p = &run->call.paths[i];
        json_t *o = json_pack("{s:b}", "write", p->write);
        set_path(o, "path", p->path);
        if (p->tree)
            json_object_set_new(o, "tree", json_true());
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *place_of(const struct run *run)
{
    if (run->one_shot)
        return json_null();
    return json_pack("{s:s, s:s}", "id", sandbox_id(run->sandbox), "generation",
                     sandbox_generation(run->sandbox));
}

static json_t *spec_of(const struct run *run)
{
    const struct spec *s = run->one_shot ? &run->box : sandbox_spec(run->sandbox);
    json_t *o = persist_spec_format(s);
    json_object_del(o, "stream_token");                    /* which no person needs to see */
    json_object_del(json_object_get(o, "image"), "names"); /* others may add to them */
    json_object_set_new(o, "tool_net", json_boolean(s->tool_net));
    json_object_set_new(o, "hosts", s->hosts ? strings_to_json(s->hosts) : json_null());
    json_object_set_new(o, "image_digest",
                        s->image_digest ? json_string(s->image_digest) : json_null());
    return o;
}

json_t *run_subject(const struct run *run)
{
    json_t *o = json_pack("{s:i, s:s, s:s, s:s}", "version", SUBJECT_VERSION, "tool",
                          run->call.tool, "requester", run->who.key, "policy_revision",
                          ruleset_revision(run->decision.ruleset));
    json_object_set_new(o, "args", run->call.args ? json_deep_copy(run->call.args) : json_null());
    json_object_set_new(o, "action",
                        run->terms.action_id ? json_string(run->terms.action_id) : json_null());
    json_object_set_new(o, "sandbox", place_of(run));
    json_object_set_new(o, "spec", spec_of(run));
    json_object_set_new(o, "pins", run_pins(run));
    const struct exec_spec *s = &run->spec;
    json_object_set_new(o, "argv", strings_to_json(s->argv));
    json_object_set_new(o, "argv_digest", digest_of(s->argv));
    json_object_set_new(o, "builtin", json_boolean(s->builtin));
    json_object_set_new(o, "env", strings_to_json(s->env));
    json_object_set_new(o, "env_digest", digest_of(s->env));
    json_object_set_new(o, "env_whitelist",
                        s->env_whitelist ? strings_to_json(s->env_whitelist) : json_null());
    json_object_set_new(o, "cwd", json_null());
    if (s->cwd)
        set_path(o, "cwd", s->cwd);
    json_object_set_new(o, "stdin", stdin_of(s));
    json_object_set_new(o, "pty", json_boolean(s->pty));
    json_object_set_new(o, "timeout_ms", json_integer((json_int_t)s->timeout_ms));
    json_object_set_new(o, "limit_as_bytes", json_integer((json_int_t)s->limit_as_bytes));
    json_object_set_new(o, "paths", walls_of(s));
    if (s->hosts)
        json_object_set_new(o, "hosts", strings_to_json(s->hosts));
    json_object_set_new(o, "files", files_of(run));
    json_object_set_new(o, "leads_to", places_of(run));
    return o;
}

static void show_text(json_t *o, const char *key, const char *data, size_t len)
{
    bool lossy;
    size_t n = len < SHOWN_MAX ? len : SHOWN_MAX;
    if (!len)
        return;
    json_object_set_new(o, key, json_string_from_bytes(data, n, &lossy));
    if (lossy || n < len)
        json_object_set_new(o, "not_shown_in_full", json_true());
}

json_t *run_shown(const struct run *run)
{
    json_t *o = json_object();
    json_object_set_new(o, "runtime", json_string(run->call.runtime ? run->call.runtime : ""));
    json_object_set_new(o, "hosts",
                        run->call.host ? json_pack("[s]", run->call.host) : json_array());
    json_object_set_new(o, "findings", findings_to_json(&run->decision.findings));
    json_object_set_new(o, "obligations",
                        rules_obligations_to_json(&run->decision.rules.obligations));
    if (run->probed.diff)
        json_object_set(o, "diff", run->probed.diff);
    show_text(o, "stdin", run->spec.stdin_data, run->spec.stdin_len);
    json_t *files = json_array();
    for (size_t i = 0; i < run->n_files; i++) {
        json_t *f = json_pack("{s:o}", "path", json_message(run->files[i].path));
        show_text(f, "content", run->files[i].data, run->files[i].len);
        json_array_append_new(files, f);
    }
    json_object_set_new(o, "files", files);
    return o;
}
