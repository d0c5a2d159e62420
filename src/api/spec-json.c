/* SPDX-License-Identifier: Apache-2.0 */
#include "api/spec-json.h"

#include <errno.h>
#include <string.h>

#include "api/network-json.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "keeper/images.h"
#include "runtime/choose.h"

#define ENV_MAX   1024
#define FILES_MAX 256

/* --- environment */

static int check_env_name(const char *name, struct error *err)
{
    if (!*name || strchr(name, '='))
        return error_field(err, "env", "'%.60s' is not a name for an environment variable", name);
    return 0;
}

int spec_json_env(const json_t *body, const char *key, char ***ret, struct error *err)
{
    json_t *obj = NULL, *value;
    const char *name;
    size_t n = 0;
    int r = json_member_object(body, key, &obj, err);
    if (r <= 0)
        return r;
    if (json_object_size(obj) > ENV_MAX)
        return error_field(err, key, "'%s' has more than %d variables", key, ENV_MAX);
    char **env = xcalloc(json_object_size(obj) + 1, sizeof(*env));
    json_object_foreach(obj, name, value)
    {
        r = check_env_name(name, err);
        if (r >= 0 && !json_is_string(value))
            r = error_within(err, error_field(err, name, "'%.60s' must be a string", name), "%s",
                             key);
        if (r < 0) {
            strv_free(env);
            return r;
        }
        env[n++] = xasprintf("%s=%s", name, json_string_value(value));
    }
    *ret = env;
    return 1;
}

/* --- limits */

static int parse_limit(const json_t *limits, const struct limit *row, struct spec *s,
                       struct error *err)
{
    double value = 0;
    int64_t whole = 0;
    int r = row->whole ? json_member_int(limits, row->name, (int64_t)row->min, (int64_t)row->max,
                                         &whole, err)
                       : json_member_number(limits, row->name, row->min, row->max, &value, err);
    if (r <= 0)
        return r;
    limit_set(row, &s->limits, row->whole ? (uint64_t)whole : limit_from_unit(row, value));
    s->asked[row->wall] = true;
    return 0;
}

int spec_json_limits(const json_t *body, struct spec *s, struct error *err)
{
    json_t *limits = NULL;
    int r = json_member_object(body, "limits", &limits, err);
    if (r <= 0)
        return r;
    limit_for_each(row) {
        if (!row->max)
            continue;
        r = parse_limit(limits, row, s, err);
        if (r < 0)
            return error_within(err, r, "limits");
    }
    return 0;
}

static int parse_weaker(const json_t *body, struct spec *s, struct error *err)
{
    _cleanup_strv_ char **list = NULL;
    int r = json_member_strv(body, "accept_weaker", _WALL_MAX, &list, err);
    if (r <= 0)
        return r;
    for (char **name = list; *name; name++) {
        int w = spec_wall_parse(*name);
        if (w < 0)
            return error_field(err, "accept_weaker", "accept_weaker: there is no wall '%s'", *name);
        s->accept_weaker[w] = true;
    }
    return 0;
}

/* --- mounts and the rest */

static int parse_mount(const json_t *item, struct spec *s, struct error *err)
{
    const char *source = NULL, *target = NULL;
    bool read_only = true;
    int r = json_member_string(item, "source", &source, err);
    if (r < 0)
        return r;
    r = json_member_string(item, "target", &target, err);
    if (r < 0)
        return r;
    r = json_member_bool(item, "read_only", &read_only, err);
    if (r < 0)
        return r;
    if (!source || !path_is_clean(source))
        return error_field(err, "source", "'source' must be an absolute path");
    target = target ? target : source;
    if (!path_is_clean(target))
        return error_field(err, "target", "'target' must be an absolute path");
    s->mounts[s->n_mounts++] = (struct spec_mount){xstrdup(source), xstrdup(target), read_only};
    return 0;
}

static int parse_mounts(const json_t *body, struct spec *s, struct error *err)
{
    json_t *list = NULL, *item;
    size_t i;
    int r = json_member_array(body, "mounts", &list, err);
    if (r <= 0)
        return r;
    if (json_array_size(list) > SPEC_MOUNTS_MAX)
        return error_field(err, "mounts", "more than %d mounts", SPEC_MOUNTS_MAX);
    json_array_foreach(list, i, item)
    {
        if (!json_is_object(item))
            return error_field(err, "mounts", "each of 'mounts' must be an object");
        r = error_within(err, parse_mount(item, s, err), "mounts[%zu]", i);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Members that other versions have: refused by name, never ignored. */
static int check_refused(const json_t *body, struct error *err)
{
    static const char *const refused[] = {"pool", "snapshot", "template", "approval"};
    for (size_t i = 0; i < ELEMENTS(refused); i++) {
        const json_t *v = json_object_get(body, refused[i]);
        if (v && !json_is_null(v))
            return error_unsupported(err, refused[i], "'%s' is not supported by this version",
                                     refused[i]);
    }
    return 0;
}

static int parse_runtime(const json_t *body, struct runtime_host *host, struct spec *s,
                         struct error *err)
{
    struct runtime_wish wish = {0};
    int r = json_member_string(body, "runtime", &wish.runtime, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "oci_runtime", &wish.oci_runtime, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "min_isolation", &wish.min_isolation, err);
    if (r < 0)
        return r;
    return runtime_choose(host, &wish, s, err);
}

/* What a name means is found later (tool/image-find.h); "" asks for the host's view. */
int spec_json_image(const json_t *body, struct spec *s, struct error *err)
{
    const char *image = NULL;
    int r = json_member_string(body, "image", &image, err);
    if (r <= 0)
        return r;
    if (!*image) {
        spec_set_image(s, NULL, NULL, NULL, NULL, NULL);
        return 0;
    }
    r = image_text_check(image, err);
    if (r < 0)
        return r;
    if (!s->image_digest || strcmp(s->image, image) != 0)
        spec_set_image(s, image, NULL, NULL, NULL, NULL);
    return 0;
}

static int parse_strings(const json_t *body, struct spec *s, struct error *err)
{
    const char *workdir = NULL;
    char **env = NULL;
    int r = json_member_string(body, "workdir", &workdir, err);
    if (r < 0)
        return r;
    if (workdir && !path_is_clean(workdir))
        return error_field(err, "workdir", "'workdir' must be an absolute path");
    r = spec_json_env(body, "env", &env, err);
    if (r < 0)
        return r;
    if (workdir) {
        free(s->workdir);
        s->workdir = xstrdup(workdir);
    }
    if (env) {
        size_t a = strv_length(s->env), b = strv_length(env);
        s->env = xrealloc(s->env, (a + b + 1) * sizeof(*s->env));
        memcpy(s->env + a, env, b * sizeof(*env));
        s->env[a + b] = NULL;
        free(env);
    }
    return 0;
}

int spec_json_parse(const json_t *body, const struct services *o, struct spec *ret,
                    struct error *err)
{
    _cleanup_spec_ struct spec s;
    spec_copy(&s, o->default_spec);
    int r = check_refused(body, err);
    if (r < 0)
        return r;
    r = parse_runtime(body, o->host, &s, err);
    if (r < 0)
        return r;
    r = spec_json_image(body, &s, err);
    if (r < 0)
        return r;
    r = parse_strings(body, &s, err);
    if (r < 0)
        return r;
    r = spec_json_limits(body, &s, err);
    if (r < 0)
        return r;
    r = parse_weaker(body, &s, err);
    if (r < 0)
        return r;
    r = parse_mounts(body, &s, err);
    if (r < 0)
        return r;
    r = network_json_parse(body, &s, err);
    if (r < 0)
        return r;
    *ret = s;
    spec_init(&s); /* its contents are the caller's now */
    return 0;
}

/* --- commands */

void exec_json_done(struct exec_json *x)
{
    for (size_t i = 0; i < x->n_files; i++) {
        free(x->files[i].path);
        free(x->files[i].data);
    }
    free(x->files);
    tool_command_done(&x->command);
    strv_free(x->argv);
    strv_free(x->env);
    *x = (struct exec_json){0};
}

static int parse_command(const json_t *body, struct exec_json *x, struct error *err)
{
    const char *language = NULL, *code = NULL;
    int r = json_member_strv(body, "command", EXEC_WORDS_MAX, &x->argv, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "language", &language, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "code", &code, err);
    if (r < 0)
        return r;
    if (x->argv && (language || code))
        return error_field(err, "command", "'command' and 'code' exclude each other");
    if (x->argv && !x->argv[0])
        return error_field(err, "command", "'command' is empty");
    if (!x->argv && (!language || !code))
        return error_field(err, "command", "'command', or 'language' and 'code', are needed");
    if (code)
        r = tool_build_code(language, code, &x->command, err);
    x->spec.argv = x->argv ? x->argv : x->command.argv;
    return r;
}

static int parse_file(const json_t *item, struct run_file *f, struct error *err)
{
    const char *path = NULL, *content = NULL, *encoded = NULL;
    int64_t mode = 0644;
    int r = json_member_string(item, "path", &path, err);
    if (r < 0)
        return r;
    r = json_member_string(item, "content", &content, err);
    if (r < 0)
        return r;
    r = json_member_string(item, "content_base64", &encoded, err);
    if (r < 0)
        return r;
    r = json_member_int(item, "mode", 0, 0777, &mode, err);
    if (r < 0)
        return r;
    if (!path || !*path || (!content && !encoded))
        return error_field(err, !path || !*path ? "path" : "content",
                           "a file needs 'path' and 'content' or 'content_base64'");
    /* Before the file that stands before it in the list is written. */
    if (path_check_length(path) < 0)
        return error_field(err, "path", "the path of a file or a name in it is too long");
    if (!path_names_entry(path))
        return error_field(err, "path", "'%.200s' names no file", path);
    if (content && encoded)
        return error_field(err, "content_base64",
                           "'content' and 'content_base64' exclude each other");
    f->path = xstrdup(path);
    f->mode = (unsigned)mode;
    if (encoded) {
        if (base64_decode(encoded, strlen(encoded), &f->data, &f->len) < 0)
            return error_field(err, "content_base64", "'content_base64' of '%.80s' is not base64",
                               f->path);
        return 0;
    }
    f->data = xstrdup(content);
    f->len = strlen(content);
    return 0;
}

static int parse_files(const json_t *body, struct exec_json *x, struct error *err)
{
    json_t *list = NULL, *item;
    size_t i;
    int r = json_member_array(body, "files", &list, err);
    if (r < 0)
        return r;
    size_t n = list ? json_array_size(list) : 0;
    if (n > FILES_MAX)
        return error_field(err, "files", "more than %d files", FILES_MAX);
    x->files = xcalloc(n + 1, sizeof(*x->files));
    json_array_foreach(list, i, item)
    {
        if (!json_is_object(item))
            return error_field(err, "files", "each of 'files' must be an object");
        r = error_within(err, parse_file(item, &x->files[x->n_files++], err), "files[%zu]", i);
        if (r < 0)
            return r;
    }
    if (x->command.file)
        x->files[x->n_files++] = (struct run_file){steal_ptr(x->command.file), x->command.file_data,
                                                   strlen(x->command.file_data), 0644};
    x->command.file_data = NULL;
    return 0;
}

static int parse_timeout(const json_t *body, const struct services *o, struct exec_json *x,
                         struct error *err)
{
    int64_t ms = (int64_t)o->config.exec_timeout_ms;
    int64_t max = o->config.exec_max_timeout_ms ? (int64_t)o->config.exec_max_timeout_ms
                                                : INT64_MAX / 1000000;
    int r = json_member_int(body, "timeout_ms", 1, max, &ms, err);
    x->spec.timeout_ms = (uint64_t)(ms ? ms : (int64_t)o->config.exec_max_timeout_ms);
    return r;
}

static int parse_terminal(const json_t *body, struct exec_json *x, struct error *err)
{
    int64_t rows = 24, cols = 80;
    int r = json_member_bool(body, "pty", &x->spec.pty, err);
    if (r < 0)
        return r;
    r = json_member_int(body, "rows", 1, 10000, &rows, err);
    if (r < 0)
        return r;
    bool given_rows = r > 0;
    r = json_member_int(body, "cols", 1, 10000, &cols, err);
    if (r < 0)
        return r;
    bool given_cols = r > 0;
    if (!x->spec.pty && (given_rows || given_cols))
        return error_field(err, given_rows ? "rows" : "cols",
                           "'rows' and 'cols' are the size of a terminal: they need 'pty': true");
    x->spec.rows = (uint16_t)rows;
    x->spec.cols = (uint16_t)cols;
    return 0;
}

static int parse_input(const json_t *body, struct exec_json *x, struct error *err)
{
    int r = json_member_string(body, "stdin", &x->spec.stdin_data, err);
    if (r < 0)
        return r;
    if (r > 0)
        x->spec.stdin_len = strlen(x->spec.stdin_data);
    r = json_member_bool(body, "open_stdin", &x->spec.open_stdin, err);
    if (r < 0)
        return r;
    r = json_member_string(body, "cwd", &x->spec.cwd, err);
    if (r < 0)
        return r;
    if (x->spec.cwd && !*x->spec.cwd)
        x->spec.cwd = NULL;
    r = spec_json_env(body, "env", &x->env, err);
    x->spec.env = x->env;
    return r;
}

int spec_json_on_limit(const json_t *body, enum exec_on_limit *ret, struct error *err)
{
    const char *text = NULL;
    int r = json_member_string(body, "on_output_limit", &text, err);
    if (r < 0 || !text)
        return r;
    if (strcmp(text, "block") != 0 && strcmp(text, "truncate") != 0)
        return error_field(err, "on_output_limit", "'on_output_limit' is 'truncate' or 'block'");
    *ret = *text == 'b' ? EXEC_LIMIT_BLOCK : EXEC_LIMIT_TRUNCATE;
    return 0;
}

int exec_json_parse(const json_t *body, const struct services *o, struct exec_json *ret,
                    struct error *err)
{
    _cleanup_exec_json_ struct exec_json x = {0};
    int64_t max_output = (int64_t)o->max_output_bytes;
    int r = parse_command(body, &x, err);
    if (r < 0)
        return r;
    r = parse_files(body, &x, err);
    if (r < 0)
        return r;
    r = parse_timeout(body, o, &x, err);
    if (r < 0)
        return r;
    r = parse_terminal(body, &x, err);
    if (r < 0)
        return r;
    r = parse_input(body, &x, err);
    if (r < 0)
        return r;
    r = json_member_bool(body, "stream", &x.stream, err);
    if (r < 0)
        return r;
    r = spec_json_on_limit(body, &x.spec.on_limit, err);
    if (r < 0)
        return r;
    r = json_member_int(body, "max_output_bytes", 0, max_output, &max_output, err);
    if (r < 0)
        return r;
    x.max_output_bytes = (size_t)max_output;
    x.limits_output = json_is_integer(json_object_get(body, "max_output_bytes"));
    *ret = x;
    x = (struct exec_json){0}; /* its contents are the caller's now */
    return 0;
}

struct run_request exec_json_request(const struct exec_json *x, const struct services *o,
                                     const struct identity *who)
{
    return (struct run_request){.manager = o->manager,
                                .gate = o->gate,
                                .images = o->images,
                                .who = who,
                                .call = {.tool = "exec", .capabilities = CAPABILITY_UNSAFE},
                                .files = x->files,
                                .n_files = x->n_files,
                                .exec = x->spec};
}
