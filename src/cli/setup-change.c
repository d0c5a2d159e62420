/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup-change.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/output.h"
#include "cli/setup-root.h"
#include "libsbx/sbx.h"

#define FILE_MAX_BYTES (1024 * 1024)
#define FILE_MODE      0644

extern char **environ;

static bool is_kind(const json_t *change, const char *kind)
{
    return strcmp(json_member_text(change, "kind"), kind) == 0;
}

/* --- running programs */

/* Their output is for the person who runs sbx. -1 when it cannot be started or fails. */
static int run_program(char *const argv[])
{
    pid_t pid;
    int status = 0;
    fflush(stdout);
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The words before, then those of the array. Borrowed strings; the caller frees the list. */
static char **make_argv(const char *const *before, const json_t *words)
{
    size_t n = 0, i;
    json_t *word;
    while (before && before[n])
        n++;
    char **argv = xcalloc(n + json_array_size(words) + 1, sizeof(char *));
    for (i = 0; i < n; i++)
        argv[i] = (char *)before[i];
    json_array_foreach(words, i, word) argv[n + i] = (char *)json_string_value(word);
    return argv;
}

/* A program that does not run does not need to notice: its failure is only said. */
static void run_then(const struct setup_root *root, const json_t *change)
{
    const json_t *then = json_object_get(change, "then");
    if (!root->is_host || !json_array_size(then))
        return;
    _cleanup_free_ char **argv = make_argv(NULL, then);
    if (run_program(argv) < 0)
        cli_warn("'%s %s' failed; run it again, or restart the machine", argv[0],
                 argv[1] ? argv[1] : "");
}

static int run_apt(const json_t *change, bool undo, struct sbx_error *err)
{
    static const char *const install[] = {"apt-get", "install", "-y", "--no-install-recommends",
                                          "--",      NULL};
    static const char *const remove[] = {"apt-get", "remove", "-y", "--", NULL};
    _cleanup_free_ char **argv =
        make_argv(undo ? remove : install, json_object_get(change, "names"));
    if (run_program(argv) < 0)
        return cli_set_error(err, NULL, "apt-get %s failed", argv[1]);
    return 0;
}

/* --- making them */

/* The directories above path that are not there, the outermost first. */
static json_t *find_missing_dirs(const struct setup_root *root, const char *path)
{
    json_t *dirs = json_array();
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        _cleanup_free_ char *dir = xstrndup(path, (size_t)(slash - path));
        if (!setup_root_has(root, dir))
            json_array_append_new(dirs, json_string(dir));
    }
    return dirs;
}

json_t *change_packages(const char *const *names, const char *why)
{
    return json_pack("{s:s, s:s, s:o}", "kind", "packages", "why", why, "names",
                     json_from_words(names));
}

static json_t *change_text(const struct setup_root *root, const char *kind, const char *path,
                           const char *before, const char *after, const char *why)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:o}", "kind", kind, "why", why, "path", path,
                     "before", before, "after", after, "dirs", find_missing_dirs(root, path));
}

json_t *change_file(const struct setup_root *root, const char *path, const char *text,
                    const char *why, const char *const *then)
{
    if (setup_root_has(root, path))
        return NULL;
    json_t *change = change_text(root, "file", path, NULL, text, why);
    json_object_set_new(change, "then", json_from_words(then));
    return change;
}

/* Whether there is such a file; -1 with an error where it cannot be read. */
static int read_text(const struct setup_root *root, const char *path, struct strbuf *b,
                     struct sbx_error *err)
{
    int r = setup_root_read(root, path, b);
    if (r < 0 && r != -ENOENT)
        return cli_set_error(err, NULL, "read '%s': %s", path, strerror(-r));
    return r >= 0;
}

json_t *change_line(const struct setup_root *root, const char *path, const char *line,
                    const char *why, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX_BYTES);
    int there = read_text(root, path, &b, err);
    if (there < 0)
        return NULL;
    const char *text = b.data ? b.data : "";
    bool open = b.len && text[b.len - 1] != '\n';
    _cleanup_free_ char *after = xasprintf("%s%s%s\n", text, open ? "\n" : "", line);
    json_t *change = change_text(root, "line", path, there ? text : NULL, after, why);
    if (!change)
        cli_set_error(err, NULL, "'%s' is not UTF-8 text", path);
    else
        json_object_set_new(change, "text", json_string(line));
    return change;
}

json_t *change_member(const struct setup_root *root, const char *path, const char *in,
                      const char *name, json_t *value, const char *why, const char *const *then,
                      struct sbx_error *err)
{
    _cleanup_json_ json_t *member = value;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX_BYTES);
    int there = read_text(root, path, &b, err);
    if (there < 0)
        return NULL;
    _cleanup_json_ json_t *object =
        there ? json_loadb(b.data ? b.data : "", b.len, 0, NULL) : json_object();
    json_t *outer = json_object_get(object, in);
    if (!json_is_object(object) || (outer && !json_is_object(outer))) {
        cli_set_error(err, NULL, "'%s' is not understood: add %s.%s by hand, or use -skip", path,
                      in, name);
        return NULL;
    }
    if (json_object_get(outer, name))
        return NULL;
    if (!outer)
        json_object_set_new(object, in, outer = json_object());
    json_object_set(outer, name, member);
    _cleanup_free_ char *json = json_dumps(object, JSON_INDENT(4));
    _cleanup_free_ char *after = xasprintf("%s\n", json);
    json_t *change = change_text(root, "member", path, there ? b.data : NULL, after, why);
    json_object_set_new(change, "at", json_pack("[s, s]", in, name));
    json_object_set(change, "text", member);
    json_object_set_new(change, "then", json_from_words(then));
    return change;
}

/* --- showing */

static void print_indented(const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        printf("        %.*s\n", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

static void print_command(const json_t *words, const char *before)
{
    size_t i;
    json_t *word;
    printf("    run: %s", before);
    json_array_foreach(words, i, word)
        printf("%s%s", i || *before ? " " : "", json_string_value(word));
    putchar('\n');
}

void change_print(const json_t *change, bool undo)
{
    const char *path = json_member_text(change, "path");
    const json_t *then = json_object_get(change, "then"), *text = json_object_get(change, "text");
    printf("\n  %s\n", json_member_text(change, "why"));
    if (is_kind(change, "packages")) {
        print_command(json_object_get(change, "names"),
                      undo ? "apt-get remove" : "apt-get install");
        return;
    }
    bool is_new = is_kind(change, "file");
    if (undo)
        printf("    %s %s%s\n", is_new ? "remove" : "take back from", path, is_new ? "" : ":");
    else
        printf("    %s %s:\n", is_new ? "write" : "add to", path);
    _cleanup_free_ char *value = json_is_object(text) ? json_dumps(text, JSON_COMPACT) : NULL;
    if (value)
        printf("        %s.%s: %s\n",
               json_string_value(json_array_get(json_object_get(change, "at"), 0)),
               json_string_value(json_array_get(json_object_get(change, "at"), 1)), value);
    else if (!is_new || !undo)
        print_indented(is_new ? json_member_text(change, "after") : json_string_value(text));
    if (json_array_size(then))
        print_command(then, "");
}

/* --- doing */

bool change_is_possible(const struct setup_root *root, const json_t *change)
{
    return root->is_host || !is_kind(change, "packages");
}

static int write_text(const struct setup_root *root, const char *path, const char *text,
                      struct sbx_error *err)
{
    int r = setup_root_write(root, path, text, FILE_MODE);
    if (r == -ELOOP)
        return cli_set_error(err, NULL, "'%s' is not an ordinary file: it is left alone", path);
    if (r < 0)
        return cli_set_error(err, NULL, "write '%s': %s", path, strerror(-r));
    return 0;
}

int change_apply(const struct setup_root *root, const json_t *change, struct sbx_error *err)
{
    size_t i;
    json_t *dir;
    if (is_kind(change, "packages"))
        return run_apt(change, false, err);
    json_array_foreach(json_object_get(change, "dirs"), i, dir)
    {
        int r = setup_root_make_dir(root, json_string_value(dir));
        if (r < 0)
            return cli_set_error(err, NULL, "make '%s': %s", json_string_value(dir), strerror(-r));
    }
    if (write_text(root, json_member_text(change, "path"), json_member_text(change, "after"), err) <
        0)
        return -1;
    run_then(root, change);
    return 0;
}

/* --- taking back */

/* Of a file that others have changed since, without our line; NULL where it is not in it. */
static char *without_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, len) == 0 && at[len] == '\n')
            return xasprintf("%.*s%s", (int)(at - text), text, at + len + 1);
    }
    return NULL;
}

static char *without_member(const char *text, const json_t *change)
{
    const json_t *at = json_object_get(change, "at");
    const char *in = json_string_value(json_array_get(at, 0));
    const char *name = json_string_value(json_array_get(at, 1));
    _cleanup_json_ json_t *object = json_loads(text, 0, NULL);
    json_t *outer = in ? json_object_get(object, in) : NULL;
    json_t *member = name ? json_object_get(outer, name) : NULL;
    if (!member || !json_equal(member, json_object_get(change, "text")))
        return NULL;
    json_object_del(outer, name);
    if (!json_object_size(outer))
        json_object_del(object, in);
    _cleanup_free_ char *json = json_dumps(object, JSON_INDENT(4));
    return xasprintf("%s\n", json);
}

static int restore_text(const struct setup_root *root, const json_t *change, const char *now,
                        struct sbx_error *err)
{
    const char *path = json_member_text(change, "path");
    const char *before = json_string_value(json_object_get(change, "before"));
    if (strcmp(now, json_member_text(change, "after")) == 0) {
        int r = before ? 0 : setup_root_remove(root, path);
        if (r < 0)
            return cli_set_error(err, NULL, "remove '%s': %s", path, strerror(-r));
        return before ? write_text(root, path, before, err) : 0;
    }
    _cleanup_free_ char *text = is_kind(change, "line")
                                    ? without_line(now, json_member_text(change, "text"))
                                : is_kind(change, "member") ? without_member(now, change)
                                                            : NULL;
    if (text)
        return write_text(root, path, text, err);
    if (!before || strcmp(now, before) != 0)
        cli_warn("'%s' was changed since and is left as it is", path);
    return 0;
}

int change_undo(const struct setup_root *root, const json_t *change, struct sbx_error *err)
{
    const json_t *dirs = json_object_get(change, "dirs");
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX_BYTES);
    if (is_kind(change, "packages"))
        return run_apt(change, true, err);
    int there = read_text(root, json_member_text(change, "path"), &b, err);
    if (there < 0 || (there && restore_text(root, change, b.data ? b.data : "", err) < 0))
        return -1;
    /* A directory that others use by now is not empty, and stays. */
    for (size_t i = json_array_size(dirs); i-- > 0;)
        setup_root_remove_dir(root, json_string_value(json_array_get(dirs, i)));
    run_then(root, change);
    return 0;
}
