/* SPDX-License-Identifier: Apache-2.0 */
/* What a grant says about the code that a command runs: files that are run from sealed copies, and
 * each thing that runs code which only the start finds, as not pinned. The runner looks up the
 * files (run-probe.c), also those that programs find by themselves (shell/convention.h); variables,
 * and programs that the command runs in turn, are seen from here.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "shell/convention.h"
#include "shell/shell.h"
#include "tool/run-internal.h"

#define PINS_TEXT     512
#define NAMED_MAX     512  /* files that a runner says were found by their names */
#define COMMANDS_MAX  64   /* that are listed of a line */
#define COMMAND_BYTES 1000 /* that are listed of a command; the whole line is in argv */

/* A person who approves must see what could make the pinned program do something else: LD_PRELOAD
 * and the like (shell_env_is_harmful). */
static void add_variables(json_t *list, char *const *env, const char *of)
{
    bool lossy;
    for (; env && *env; env++) {
        size_t n = strcspn(*env, "=");
        if (!shell_env_is_harmful(*env, n))
            continue;
        json_array_append_new(list, json_pack("{s:o, s:s, s:s}", "env",
                                              json_string_from_bytes(*env, strlen(*env), &lossy),
                                              "of", of, "not_pinned",
                                              shell_env_is_known(*env, n)
                                                  ? "a variable that may change what runs"
                                                  : "by its name, it may load code"));
    }
}

static void add_command(json_t *list, const struct shell_command *c)
{
    bool lossy;
    _cleanup_free_ char *text = shell_command_format(c);
    size_t len = strlen(text);
    json_array_append_new(
        list,
        json_pack("{s:o, s:s}", "command",
                  json_string_from_bytes(text, len < COMMAND_BYTES ? len : COMMAND_BYTES, &lossy),
                  "not_pinned",
                  c->opaque ? "cannot be known before it runs"
                            : "run in turn: looked up when it runs"));
}

/* The first one is argv itself. */
static void add_commands(json_t *list, char *const *argv)
{
    struct shell shell;
    shell_parse_argv(argv, &shell);
    for (size_t i = 0; i < shell.n_commands; i++) {
        if (i > COMMANDS_MAX) {
            json_array_append_new(list, json_pack("{s:s, s:s}", "command", "...", "not_pinned",
                                                  "more are run than are listed"));
            break;
        }
        if (i > 0 || shell.commands[i].opaque)
            add_command(list, &shell.commands[i]);
    }
    shell_done(&shell);
}

/* --- what programs find by themselves */

void run_conventions(const struct run *run, struct shell_conventions *ret)
{
    struct shell shell;
    shell_parse_argv(run->spec.argv, &shell);
    shell_conventions_find(&shell, ret);
    shell_done(&shell);
}

/* Names that are not UTF-8 may look alike, so the same path is the same file only with the same
 * content. */
static bool has_file(const json_t *list, const char *path, const json_t *hash)
{
    size_t i;
    json_t *pin;
    json_array_foreach(list, i, pin)
    {
        const char *other = json_string_value(json_object_get(pin, "path"));
        if (other && strcmp(other, path) == 0 && hash &&
            json_equal(json_object_get(pin, "sha256"), hash))
            return true;
    }
    return false;
}

/* A file that the program reads by itself cannot be swapped for a sealed copy: its hash is in the
 * subject, so that another content makes the grant void. The runner is not trusted: what it says is
 * about a file that was asked for, or it is left out. */
static void add_named(json_t *list, const json_t *found, const struct shell_conventions *c)
{
    const json_t *at = json_object_get(found, "at"), *path = json_object_get(found, "path");
    const json_t *hash = json_object_get(found, "sha256"), *bytes = json_object_get(found, "bytes");
    const json_t *failed = json_object_get(found, "not_pinned");
    bool lossy, hashed = json_is_string(hash) && json_is_integer(bytes);
    json_int_t i = json_is_integer(at) ? json_integer_value(at) : -1;
    if (i < 0 || (size_t)i >= c->n_looks || !json_is_string(path) ||
        has_file(list, json_string_value(path), hash))
        return;
    const char *program = c->looks[i].program;
    json_t *pin = json_pack("{s:O, s:o}", "path", path, "by",
                            json_string_from_bytes(program, strlen(program), &lossy));
    if (hashed) {
        json_object_set(pin, "sha256", (json_t *)hash);
        json_object_set(pin, "bytes", (json_t *)bytes);
    }
    json_object_set_new(pin, "not_pinned",
                        hashed                   ? json_string("found by its name: compared "
                                                                                 "before the start, read by the command itself")
                        : json_is_string(failed) ? json_copy((json_t *)failed)
                                                 : json_string("unreadable"));
    json_array_append_new(list, pin);
}

static void add_loads(json_t *list, const struct run *run, const struct shell_loads *l)
{
    const char *cwd = run->call.cwd ? run->call.cwd : ".";
    bool lossy, inside = l->directory && *l->directory && l->directory[0] != '/';
    _cleanup_free_ char *where = !l->directory   ? xstrdup("a directory that is known when it runs")
                                 : inside        ? xasprintf("%s/%s", cwd, l->directory)
                                 : *l->directory ? xstrdup(l->directory)
                                                 : xstrdup(cwd);
    _cleanup_free_ char *text = xasprintf("what %s loads from %s", l->program, where);
    json_array_append_new(list, json_pack("{s:o, s:s}", "loads",
                                          json_string_from_bytes(text, strlen(text), &lossy),
                                          "not_pinned", l->what));
}

static void add_conventions(json_t *list, const struct run *run)
{
    struct shell_conventions c;
    size_t i;
    json_t *found;
    run_conventions(run, &c);
    c.more |= run->probed.more;
    json_array_foreach(run->probed.named, i, found)
    {
        if (i == NAMED_MAX) {
            c.more = true;
            break;
        }
        add_named(list, found, &c);
    }
    if (run->probed.pins && !run->probed.named && c.n_looks > 0)
        json_array_append_new(
            list,
            json_pack("{s:s, s:s}", "loads", "files that it finds by their names", "not_pinned",
                      run->probed.plain ? "could not be looked up"
                                        : "the runner of this sandbox is of an earlier version"));
    for (i = 0; i < c.n_loads; i++)
        add_loads(list, run, &c.loads[i]);
    if (c.more)
        json_array_append_new(list, json_pack("{s:s, s:s}", "loads", "...", "not_pinned",
                                              "more is loaded than is listed"));
    shell_conventions_done(&c);
}

/* Part of the subject. What cannot be pinned is listed as such and not left out, so that an
 * approval never looks stronger than it is. */
json_t *run_pins(const struct run *run)
{
    const struct spec *box = run->one_shot ? &run->box : sandbox_spec(run->sandbox);
    json_t *list = run->probed.pins ? json_deep_copy(run->probed.pins) : json_array();
    if (run->spec.builtin || run->box.tool_net)
        return list;
    if (!run->probed.pins)
        json_array_append_new(list, json_pack("{s:i, s:o, s:s}", "arg", 0, "path",
                                              json_message(run->spec.argv[0]), "not_pinned",
                                              run->one_shot ? "its sandbox is not made yet"
                                                            : "could not be looked up"));
    _cleanup_free_ char **sandbox_env = gate_asked_env(run->gate, box->env, box->image_env);
    add_conventions(list, run);
    add_variables(list, run->spec.env, "call");
    add_variables(list, sandbox_env, "sandbox");
    add_commands(list, run->spec.argv);
    return list;
}

/* node resolves the name of its script, which for a sealed copy leads nowhere. */
static void keep_script_name(struct run *run)
{
    size_t n = strv_length(run->spec.env);
    char **env = xcalloc(n + 2, sizeof(*env));
    for (size_t i = 0; i < n; i++)
        env[i] = run->spec.env[i];
    env[n] = xstrdup("NODE_PRESERVE_SYMLINKS_MAIN=1");
    free((char **)run->spec.env);
    run->spec.env = env;
    run->call.env = env;
}

/* Only what runs is run from a sealed copy; other files were compared when the grant was used. */
void run_apply_pins(struct run *run)
{
    char text[PINS_TEXT] = "";
    size_t len = 0, i;
    json_t *pin;
    bool program_pinned = false;
    json_array_foreach(run->probed.pins, i, pin)
    {
        const char *hash = json_string_value(json_object_get(pin, "sha256"));
        int arg = (int)json_integer_value(json_object_get(pin, "arg"));
        if (!hash || strlen(hash) != 64 || json_object_get(pin, "not_pinned"))
            continue;
        if (len + 80 > sizeof(text))
            break;
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%s%d:%s", len ? " " : "", arg, hash);
        program_pinned = program_pinned || arg == 0;
    }
    if (len) {
        run->spec.pins = xstrdup(text);
        keep_script_name(run);
    }
    /* Found once and for all: nothing that appears in PATH later can take its place. */
    char **argv = (char **)run->spec.argv;
    if (run->probed.program && !program_pinned && !strchr(argv[0], '/')) {
        free(argv[0]);
        argv[0] = steal_ptr(run->probed.program);
    }
}
