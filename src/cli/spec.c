/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/relay.h"
#include "libsbx/sbx.h"
#include "proto/limit.h"

/* Sets obj[key] = value and takes value; NULL, which is what jansson makes of bad UTF-8, fails. */
static int put_member(json_t *obj, const char *key, json_t *value, struct sbx_error *err)
{
    if (json_object_set_new(obj, key, value) < 0)
        return cli_set_error(err, "invalid_request", "%s: not UTF-8", key);
    return 0;
}

static int put_text(json_t *obj, const char *key, const char *text, struct sbx_error *err)
{
    return text ? put_member(obj, key, json_string(text), err) : 0;
}

static json_t *string_array(char *const *v)
{
    json_t *list = json_array();
    for (; v && *v; v++)
        if (json_array_append_new(list, json_string(*v)) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static int put_env(json_t *obj, char *const *vars, struct sbx_error *err)
{
    if (!vars)
        return 0;
    json_t *env = json_object();
    json_object_set_new(obj, "env", env);
    for (; *vars; vars++) {
        const char *eq = strchr(*vars, '=');
        if (!eq || eq == *vars)
            return cli_set_error(err, "invalid_request", "-env needs NAME=VALUE, not '%s'", *vars);
        _cleanup_free_ char *name = xstrndup(*vars, (size_t)(eq - *vars));
        if (put_member(env, name, json_string(eq + 1), err) < 0)
            return -1;
    }
    return 0;
}

/* Each item may hold several hosts with commas between them. */
static int put_hosts(json_t *obj, const char *key, char *const *items, struct sbx_error *err)
{
    if (!items)
        return 0;
    json_t *list = json_array();
    json_object_set_new(obj, key, list);
    for (; *items; items++) {
        _cleanup_free_ char *copy = xstrdup(*items);
        char *save = NULL;
        for (char *h = strtok_r(copy, ",", &save); h; h = strtok_r(NULL, ",", &save))
            if (json_array_append_new(list, json_string(h)) < 0)
                return cli_set_error(err, "invalid_request", "%s: not UTF-8", key);
    }
    return 0;
}

static json_t *limit_value(const char *text, bool fraction)
{
    char *end;
    errno = 0;
    double d = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(d) || d <= 0 || d > 1e12)
        return NULL;
    if (d == floor(d))
        return json_integer((json_int_t)d);
    return fraction ? json_real(d) : NULL;
}

static int put_limit(json_t *limits, const char *item, struct sbx_error *err)
{
    size_t len = strcspn(item, "=");
    limit_for_each(row) {
        if (!row->max || strlen(row->name) != len || strncmp(row->name, item, len) != 0)
            continue;
        bool fraction = row == &limit_table[LIMIT_CPU]; /* of megabytes only whole ones */
        json_t *v = item[len] ? limit_value(item + len + 1, fraction) : NULL;
        if (!v)
            return cli_set_error(err, "invalid_request",
                                 "-limit %s: the value is not a number that this limit can have",
                                 item);
        json_object_set_new(limits, row->name, v);
        return 0;
    }
    return cli_set_error(
        err, "invalid_request",
        "-limit %s: the limits are cpu_cores, memory_mb, disk_mb, max_processes and "
        "io_mb_per_s",
        item);
}

static int put_limits(json_t *obj, char *const *items, struct sbx_error *err)
{
    if (!items)
        return 0;
    json_t *limits = json_object();
    json_object_set_new(obj, "limits", limits);
    for (; *items; items++)
        if (put_limit(limits, *items, err) < 0)
            return -1;
    return 0;
}

json_t *spec_sandbox(const struct args *a, struct sbx_error *err)
{
    _cleanup_json_ json_t *spec = json_object();
    char *const *weaker = a->accept_weaker;
    if (put_text(spec, "runtime", a->runtime, err) < 0 ||
        put_text(spec, "image", a->image, err) < 0 || put_limits(spec, a->limit, err) < 0 ||
        (weaker && put_member(spec, "accept_weaker", string_array(weaker), err) < 0))
        return NULL;
    return steal_ptr(spec);
}

json_t *spec_exec(const struct args *a, char *const argv[], bool terminal, struct sbx_error *err)
{
    _cleanup_json_ json_t *req = json_pack("{s:b, s:b}", "async", 1, "open_stdin", 1);
    if (put_member(req, "command", string_array(argv), err) < 0 || put_env(req, a->env, err) < 0 ||
        put_text(req, "cwd", a->cwd, err) < 0)
        return NULL;
    if (a->timeout)
        json_object_set_new(req, "timeout_ms", json_integer((json_int_t)a->timeout * 1000));
    if (!terminal)
        return steal_ptr(req);
    int rows, cols;
    relay_terminal_size(&rows, &cols);
    json_object_set_new(req, "pty", json_true());
    json_object_set_new(req, "rows", json_integer(rows));
    json_object_set_new(req, "cols", json_integer(cols));
    json_t *env = json_object_get(req, "env");
    if (!env)
        json_object_set_new(req, "env", env = json_object());
    const char *term = getenv("TERM");
    if (!json_object_get(env, "TERM"))
        json_object_set_new(env, "TERM", json_string(term && *term ? term : "xterm"));
    return steal_ptr(req);
}

/* At white space and without quotes: a command that needs them goes behind "--". */
static char **split_fields(const char *text)
{
    _cleanup_free_ char *copy = xstrdup(text);
    char **out = xcalloc(strlen(text) / 2 + 2, sizeof(char *)), *save = NULL;
    size_t n = 0;
    for (char *f = strtok_r(copy, " \t\n", &save); f; f = strtok_r(NULL, " \t\n", &save))
        out[n++] = xstrdup(f);
    return out;
}

char **spec_command(const struct args *a, struct sbx_error *err)
{
    if (a->cmd && a->n_rest) {
        cli_set_error(err, "invalid_request", "give the command once: by -cmd or after '--'");
        return NULL;
    }
    char **v = a->cmd ? split_fields(a->cmd) : a->n_rest ? strv_copy(a->rest) : NULL;
    if (v && v[0])
        return v;
    strv_free(v);
    cli_set_error(err, "invalid_request",
                  "there is no command: give one by -cmd 'a b c' or after '--'");
    return NULL;
}

static int put_create_command(json_t *spec, const struct args *a, struct sbx_error *err)
{
    if (!a->cmd && !a->n_rest)
        return 0;
    char **command = spec_command(a, err);
    if (!command)
        return -1;
    int r = put_member(spec, "command", string_array(command), err);
    strv_free(command);
    return r;
}

json_t *spec_sbx_create(const struct args *a, struct sbx_error *err)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"id", a->id},
                 {"image", a->image},
                 {"volume_mode", a->volume},
                 {"cache_mode", a->cache_mode},
                 {"cache_pvc_size", a->cache_pvc_size},
                 {"cache_pvc_storage_class", a->cache_pvc_storage_class},
                 {"cache_pvc_access_mode", a->cache_pvc_access_mode}};
    _cleanup_json_ json_t *spec = json_object();
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        if (put_text(spec, texts[i].key, texts[i].value, err) < 0)
            return NULL;
    if (put_env(spec, a->env, err) < 0 ||
        put_hosts(spec, "allowed_hosts", a->allow_host, err) < 0 ||
        put_hosts(spec, "disallowed_hosts", a->deny_host, err) < 0 ||
        put_limits(spec, a->limit, err) < 0 || put_create_command(spec, a, err) < 0)
        return NULL;
    return steal_ptr(spec);
}
