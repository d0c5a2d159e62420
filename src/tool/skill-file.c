/* SPDX-License-Identifier: Apache-2.0 */
/* The filesystem skill: from parameters to an operation that runs, and from its output to a result.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "policy/policy.h"
#include "runtime/spec.h"
#include "sandbox/journal.h"
#include "sandbox/sandbox-policy.h"
#include "tool/builtin.h"
#include "tool/file-op.h"
#include "tool/run.h"
#include "tool/skill.h"

#define WORKSPACE  "/workspace"
#define HOST_ROOT  "/skill" /* where skill_root is, inside */
#define TIMEOUT_MS 60000
#define ANSWER_MAX (4 * 1024 * 1024)

static const struct {
    const char *name;
    const char *tool; /* as policies know it */
    bool writes;
} operations[] = {
    [SKILL_READ] = {"read", "file.read", false},
    [SKILL_LIST] = {"list", "file.list", false},
    [SKILL_WRITE] = {"write", "file.write", true},
    [SKILL_DELETE] = {"delete", "file.remove", true},
    [SKILL_CREATE_DIR] = {"create_dir", "file.mkdir", true},
};
static_assert(ELEMENTS(operations) == _SKILL_OPERATION_MAX, "a row per operation");

/* A name without an extension is fine, too. */
static const char *const extensions[] = {".txt", ".md", ".json", ".yaml", ".yml", ".csv",
                                         ".py",  ".js", ".html", ".css",  ".xml"};

static const char *skill_operation_name(enum skill_operation op)
{
    return operations[op].name;
}

/* --- parameters */

static int find_operation(const char *name, enum skill_operation *ret, struct error *err)
{
    for (size_t i = 0; name && i < ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, name) == 0) {
            *ret = (enum skill_operation)i;
            return 0;
        }
    if (name && strcmp(name, "modify") == 0) {
        *ret = SKILL_WRITE;
        return 0;
    }
    return error_field(err, "operation",
                       "'operation' must be read, list, write, delete or create_dir");
}

static char *path_in_root(const char *path, const char *root, struct error *err)
{
    char out[PATH_MAX];
    /* This check is for the message. What holds the operation to the root is Landlock and the
     * runner's own walk (start_in(), toolrunner/builtin-skill.c), which see links that are not
     * visible from here. */
    if (*path == '/' && !(path = path_below(root, path))) {
        error_field(err, "path", "'path' must be below the skill's root");
        return NULL;
    }
    path += strspn(path, "/");
    if (path_normalize(path, out, sizeof(out)) < 0) {
        error_field(err, "path", "'path' must stay below the skill's root, without '..'");
        return NULL;
    }
    return xstrdup(out);
}

static int check_extension(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < ELEMENTS(extensions); i++)
        if (strcasecmp(extensions[i], dot) == 0)
            return 0;
    return dot ? error_field(err, "path",
                             "files that end in '%.20s' are not allowed for this skill", dot)
               : 0;
}

static int read_content(const json_t *parameters, struct skill_file *f, struct error *err)
{
    const json_t *content = json_object_get(parameters, "content");
    if (!json_is_string(content))
        return error_field(err, "content", "'content' is missing");
    f->content = json_string_value(content);
    f->content_len = json_string_length(content);
    if (f->content_len > SKILL_WRITE_MAX)
        return error_field(err, "content", "'content' is over %d bytes", SKILL_WRITE_MAX);
    return 0;
}

int skill_file_parse(const json_t *parameters, const char *root, struct skill_file *ret,
                     struct error *err)
{
    struct skill_file f = {0};
    const char *name = NULL, *path = NULL;
    int r = json_member_string(parameters, "operation", &name, err);
    if (r < 0)
        return r;
    r = json_member_string(parameters, "path", &path, err);
    if (r < 0)
        return r;
    const json_t *content = json_object_get(parameters, "content");
    if (content && !json_is_null(content) && !json_is_string(content))
        return error_field(err, "content", "'content' must be a string");
    r = find_operation(name, &f.operation, err);
    if (r < 0)
        return r;
    if (!path && f.operation != SKILL_LIST)
        return error_field(err, "path", "'path' is missing");
    f.path = path_in_root(path ? path : "", root ? root : WORKSPACE, err);
    if (!f.path)
        return -EINVAL;
    bool is_file = f.operation == SKILL_READ || f.operation == SKILL_WRITE;
    if (is_file && !*f.path)
        r = error_field(err, "path", "'path' names no file");
    if (r >= 0 && is_file)
        r = check_extension(f.path, err);
    if (r >= 0 && f.operation == SKILL_WRITE)
        r = read_content(parameters, &f, err);
    if (r < 0)
        skill_file_done(&f);
    else
        *ret = f;
    return r;
}

void skill_file_done(struct skill_file *f)
{
    free(f->path);
    f->path = NULL;
}

/* --- the result */

struct skill_run {
    struct run *run;
    enum skill_operation operation;
    char *path;
    void (*on_done)(void *data, const json_t *result, const struct error *err);
    void *data;
};

static json_t *content_to_json(const struct strbuf *b)
{
    const char *data = b->data ? b->data : "";
    if (utf8_valid_prefix(data, b->len) == b->len && !memchr(data, 0, b->len))
        return json_pack("{s:s%}", "content", data, b->len);
    _cleanup_free_ char *text = base64_encode(data, b->len, NULL);
    return json_pack("{s:s}", "content_base64", text);
}

/* The runner is not trusted: what it says is checked, or is an error. */
static json_t *result_of(const struct skill_run *s, struct exec *e, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(ANSWER_MAX);
    if (file_op_bytes(e, &b, err) < 0)
        return NULL;
    json_t *o = s->operation == SKILL_READ ? content_to_json(&b)
                                           : json_parse_object(b.data ? b.data : "", b.len, err);
    if (o) {
        json_object_set_new(o, "success", json_true());
        json_object_set_new(o, "operation", json_string(skill_operation_name(s->operation)));
        json_object_set_new(o, "path", json_string(s->path));
    }
    return o;
}

static void skill_run_free(struct skill_run *s)
{
    free(s->path);
    free(s);
}

static void on_run_done(void *data, struct run *run, struct exec *e, const struct error *run_err)
{
    struct skill_run *s = data;
    struct error err = {0};
    (void)run;
    _cleanup_json_ json_t *result = run_err ? NULL : result_of(s, e, &err);
    s->on_done(s->data, result, result ? NULL : run_err ? run_err : &err);
    skill_run_free(s);
}

/* --- running */

/* By the caller's own key and never by its scope: a caller that sees all sandboxes must not write
 * into the files of another key. A crashed one makes room for a fresh one; one whose end takes a
 * while is returned as it is, and the call fails with its state. */
struct sandbox *skill_sandbox(const struct skill_options *o, const struct identity *who, bool make,
                              struct error *err)
{
    struct sandbox *sb = sandbox_find(o->manager, who->key, SANDBOX_SKILL_ALIAS);
    if (sb && make && sandbox_state(sb) == SANDBOX_CRASHED) {
        sandbox_delete(sb, NULL);
        sb = sandbox_find(o->manager, who->key, SANDBOX_SKILL_ALIAS);
    }
    if (sb)
        return sb;
    struct sandbox_maker by = {.key = who->key, .address = who->address};
    if (make)
        return sandbox_create(o->manager, o->default_spec, &by, NULL, SANDBOX_SKILL_ALIAS, false,
                              err);
    error_set(err, ERROR_NOT_FOUND, 0, "the sandbox of the skill's files is gone");
    return NULL;
}

#define ARGV_MAX (6 + ELEMENTS(extensions))

/* The record that the runner gets; all of it is in the hash that a person approves. */
struct command {
    const char *argv[ARGV_MAX];
    char max[24];
};

static void command_fill(struct command *c, const struct skill_file *f, const char *root)
{
    const char *fixed[] = {"skill-file", operations[f->operation].name, root, f->path, c->max};
    snprintf(c->max, sizeof(c->max), "%d",
             f->operation == SKILL_READ ? SKILL_READ_MAX : SKILL_WRITE_MAX);
    memcpy(c->argv, fixed, sizeof(fixed));
    memcpy(c->argv + ELEMENTS(fixed), extensions, sizeof(extensions));
    c->argv[ARGV_MAX - 1] = NULL;
}

static struct run *start_in(const struct skill_options *o, const struct skill_request *req,
                            const struct skill_file *f, struct skill_run *s,
                            const struct spec *spec, struct sandbox *sb, struct error *err)
{
    static const struct run_events events = {.on_done = on_run_done};
    const char *root = spec ? HOST_ROOT : WORKSPACE;
    _cleanup_free_ char *whole = *f->path ? xasprintf("%s/%s", root, f->path) : xstrdup(root);
    struct rules_path path = {.path = whole, .write = operations[f->operation].writes};
    struct exec_path below = {.writable = true, .path = (char *)root};
    struct command command;
    command_fill(&command, f, root);
    struct run_request run = {
        .manager = o->manager,
        .gate = o->gate,
        .who = req->who,
        .terms = req->terms,
        .spec = spec,
        .sandbox = sb,
        .call = {.tool = operations[f->operation].tool,
                 .capabilities = CAPABILITY_FILE,
                 .args = req->parameters,
                 .paths = &path,
                 .n_paths = 1},
        .exec = {.argv = (char *const *)command.argv,
                 .builtin = true,
                 .hidden = true,
                 .stdin_data = (char *)f->content,
                 .stdin_len = f->content_len,
                 .timeout_ms = TIMEOUT_MS,
                 .narrow = true,
                 .paths = &below,
                 .n_paths = 1},
    };
    return run_start(&run, &events, s, err);
}

static struct run *skill_file_start(const struct skill_options *o, const struct skill_request *req,
                                    const struct skill_file *f, struct skill_run *s,
                                    struct error *err)
{
    if (req->sandbox || !o->root) {
        struct sandbox *sb = req->sandbox ? req->sandbox : skill_sandbox(o, req->who, true, err);
        return sb ? start_in(o, req, f, s, NULL, sb, err) : NULL;
    }
    struct spec spec;
    spec_copy(&spec, o->default_spec);
    spec.mounts[spec.n_mounts++] = (struct spec_mount){xstrdup(o->root), xstrdup(HOST_ROOT), false};
    struct run *run = start_in(o, req, f, s, &spec, NULL, err);
    spec_done(&spec);
    return run;
}

struct skill_run *skill_start(const struct skill_options *o, const struct skill_request *req,
                              void (*on_done)(void *data, const json_t *result,
                                              const struct error *err),
                              void *data, struct error *err)
{
    struct skill_file f;
    if (skill_file_parse(req->parameters, req->sandbox ? NULL : o->root, &f, err) < 0)
        return NULL;
    struct skill_run *s = new0(struct skill_run);
    s->operation = f.operation;
    s->path = xstrdup(f.path);
    s->on_done = on_done;
    s->data = data;
    s->run = skill_file_start(o, req, &f, s, err);
    skill_file_done(&f);
    if (s->run)
        return s;
    skill_run_free(s);
    return NULL;
}

bool skill_is_waiting(const struct skill_run *s)
{
    return run_is_waiting(s->run);
}
