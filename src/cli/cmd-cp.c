/* SPDX-License-Identifier: Apache-2.0 */
/* sbx cp: files and directories between here and a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/transfer.h"
#include "libsbx/sbx.h"

#define EXIT_LEFT_OUT 1

/* The last component: what a copy into a directory is called. */
static char *base_name(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t start = len;
    while (start && path[start - 1] != '/')
        start--;
    return xstrndup(path + start, len - start);
}

/* dir/base when dir is a directory or is written like one, else dir itself. */
static char *target_name(const char *to, bool is_dir, const char *from)
{
    _cleanup_free_ char *base = base_name(from);
    size_t len = strlen(to);
    bool slash = len && to[len - 1] == '/';
    bool plain = !*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0;
    if ((!is_dir && !slash) || plain)
        return xstrdup(to);
    return xasprintf("%s%s%s", to, slash ? "" : "/", base);
}

static int copy_in(struct session *s, const char *local, const struct remote *to, int *skipped,
                   struct sbx_error *err)
{
    struct stat st;
    if (stat(local, &st) < 0)
        return cli_set_error(err, "invalid_request", "'%s': %s", local, strerror(errno));
    enum remote_kind kind;
    if (remote_stat(s, to, &kind, err) < 0)
        return -1;
    _cleanup_free_ char *target = target_name(to->path, kind == REMOTE_DIRECTORY, local);
    if (S_ISDIR(st.st_mode))
        return transfer_tree_in(s, local, to->id, target, skipped, err);
    return transfer_file_in(s, local, to->id, target, err);
}

static int copy_out(struct session *s, const struct remote *from, const char *local, int *skipped,
                    struct sbx_error *err)
{
    enum remote_kind kind;
    if (remote_stat(s, from, &kind, err) < 0)
        return -1;
    if (kind == REMOTE_ABSENT)
        return cli_set_error(err, "not_found", "%s:%s does not exist", from->id, from->path);
    struct stat st;
    bool is_dir = stat(local, &st) == 0 && S_ISDIR(st.st_mode);
    _cleanup_free_ char *target = target_name(local, is_dir, from->path);
    if (kind == REMOTE_DIRECTORY)
        return transfer_tree_out(s, from->id, from->path, target, skipped, err);
    return transfer_file_out(s, from->id, from->path, target, err);
}

static int run_cp(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_remote_ struct remote from = {0}, to = {0};
    bool from_remote = remote_parse(a->rest[0], &from), to_remote = remote_parse(a->rest[1], &to);
    if (from_remote == to_remote)
        return cli_fail_usage("cp: one of FROM and TO is ID:PATH, the other is local");
    if (session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    if (remote_settle(&s, to_remote ? &to : &from, &err) < 0)
        return cli_fail(&err);
    int skipped = 0;
    int r = to_remote ? copy_in(&s, a->rest[0], &to, &skipped, &err)
                      : copy_out(&s, &from, a->rest[1], &skipped, &err);
    if (r < 0)
        return cli_fail(&err);
    return skipped ? EXIT_LEFT_OUT : 0;
}

const struct command command_cp = {
    .name = "cp",
    .group = GROUP_EVERYDAY,
    .usage = "FROM TO",
    .summary = "Copy files and directories into a sandbox or out of it",
    .details =
        "One of FROM and TO is a local path, the other is ID:PATH with the id of a sandbox. A "
        "relative PATH is below /workspace. A directory is copied with everything in it. If "
        "TO is a directory, the copy goes into it; else the copy is named TO. Nothing is "
        "written outside of TO, whatever links the sandbox's files contain.",
    .options = OPTIONS(OPTIONS_CONNECTION, OPTION_APPROVAL),
    .min_rest = 2,
    .max_rest = 2,
    .run = run_cp,
};
