/* SPDX-License-Identifier: Apache-2.0 */
/* What an intent says of the call beyond its arguments: everything that changes what happens, as
 * names, numbers and hashes, and one hash over all of that. What may be secret (the values of
 * variables, input) is there as a keyed hash, contents of files as a plain one. Lists are cut at a
 * length: the hash beside them is over all of it. */
#include <string.h>

#include "base/alloc.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "sandbox/persist.h"
#include "tool/run-internal.h"

#define LIST_MAX 4096 /* bytes of one list in a record */

static void put_keyed(struct json_text *t, const struct audit *a, const char *key,
                      const char *plain)
{
    char digest[AUDIT_DIGEST_SIZE];
    strcpy(digest, plain);
    audit_digest_keyed(a, digest);
    json_text_string(t, key, digest);
}

/* NAME=value: the names, and one keyed hash of all. */
static void put_env(struct json_text *t, const struct audit *a, const char *key, char *const *env)
{
    char digest[AUDIT_DIGEST_SIZE];
    size_t used = 0, n = 0;
    if (!env || !*env)
        return;
    json_text_open(t, key, '{');
    json_text_open(t, "names", '[');
    for (char *const *v = env; *v; v++, n++) {
        size_t len = strcspn(*v, "=");
        used += len;
        if (used <= LIST_MAX)
            json_text_bytes(t, NULL, *v, len);
    }
    json_text_close(t, ']');
    json_text_int(t, "count", (int64_t)n);
    audit_digest_argv(env, digest);
    put_keyed(t, a, "digest", digest);
    json_text_close(t, '}');
}

static void put_input(struct json_text *t, const struct audit *a, const struct run *run)
{
    char digest[AUDIT_DIGEST_SIZE];
    const struct exec_spec *s = &run->spec;
    if (s->open_stdin || s->pty)
        json_text_bool(t, "open_stdin", true);
    if (s->pty)
        json_text_bool(t, "pty", true);
    if (!s->stdin_len)
        return;
    audit_digest(s->stdin_data, s->stdin_len, digest);
    if (!s->builtin) /* of a file operation it is the file's content */
        audit_digest_keyed(a, digest);
    json_text_int(t, "stdin_bytes", (int64_t)s->stdin_len);
    json_text_string(t, "stdin_digest", digest);
}

static void put_files(struct json_text *t, const struct run *run)
{
    size_t used = 0;
    if (!run->n_files)
        return;
    struct audit_stream *all = NULL;
    char digest[AUDIT_DIGEST_SIZE];
    json_text_open(t, "files", '[');
    for (size_t i = 0; i < run->n_files; i++) {
        const struct run_file *f = &run->files[i];
        audit_digest(f->data ? f->data : "", f->len, digest);
        audit_stream_add(&all, f->path, strlen(f->path) + 1);
        audit_stream_add(&all, digest, strlen(digest));
        used += strlen(f->path) + sizeof(digest);
        if (used > LIST_MAX)
            continue;
        json_text_open(t, NULL, '{');
        json_text_bytes(t, "path", f->path, strlen(f->path));
        json_text_int(t, "mode", f->mode);
        json_text_int(t, "bytes", (int64_t)f->len);
        json_text_string(t, "digest", digest);
        json_text_close(t, '}');
    }
    json_text_close(t, ']');
    json_text_int(t, "n_files", (int64_t)run->n_files);
    audit_stream_end(all, digest);
    json_text_string(t, "files_digest", digest);
}

static void put_hosts(struct json_text *t, const struct exec_spec *s)
{
    size_t used = 0;
    if (!s->hosts)
        return;
    json_text_open(t, "hosts", '[');
    for (char *const *h = s->hosts; *h && (used += strlen(*h)) <= LIST_MAX; h++)
        json_text_string(t, NULL, *h);
    json_text_close(t, ']');
}

static void put_walls(struct json_text *t, const struct exec_spec *s)
{
    size_t used = 0;
    if (!s->narrow)
        return;
    json_text_open(t, "paths", '[');
    for (size_t i = 0; i < s->n_paths; i++) {
        used += strlen(s->paths[i].path);
        if (used > LIST_MAX)
            break;
        json_text_open(t, NULL, '{');
        json_text_bytes(t, "path", s->paths[i].path, strlen(s->paths[i].path));
        json_text_bool(t, "writable", s->paths[i].writable);
        json_text_close(t, '}');
    }
    json_text_close(t, ']');
}

void run_put_spec(struct json_text *t, const struct audit *a, const struct spec *s)
{
    _cleanup_json_ json_t *o = persist_spec_format(s);
    json_object_del(o, "env");
    json_object_del(o, "stream_token");
    json_t *image = json_object_get(o, "image");
    json_object_del(image, "env"); /* the digest says it */
    json_object_del(image, "names");
    json_text_value(t, "spec", o);
    put_env(t, a, "spec_env", s->env);
}

void run_put_parts(const struct gate_call *call, struct json_text *t)
{
    const struct run *run = container_of(call, struct run, call);
    const struct exec_spec *s = &run->spec;
    const struct audit *a = gate_audit(run->gate);
    char digest[AUDIT_DIGEST_SIZE];
    if (!a)
        return;
    json_text_open(t, "subject", '{');
    size_t start = t->out->len;
    if (s->cwd)
        json_text_bytes(t, "cwd", s->cwd, strlen(s->cwd));
    json_text_int(t, "timeout_ms", (int64_t)s->timeout_ms);
    if (s->limit_as_bytes)
        json_text_int(t, "limit_as_bytes", (int64_t)s->limit_as_bytes);
    put_env(t, a, "env", s->env);
    put_input(t, a, run);
    put_files(t, run);
    put_walls(t, s);
    put_hosts(t, s);
    if (run->one_shot)
        run_put_spec(t, a, &run->box);
    json_text_close(t, '}');
    if (t->error)
        return;
    audit_digest(t->out->data + start, t->out->len - start, digest);
    json_text_string(t, "subject_digest", digest);
}
