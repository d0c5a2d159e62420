/* SPDX-License-Identifier: Apache-2.0 */
/* sbx mcp install: makes the daemon known to an MCP client. A key never goes into the file, only
 * the name of the variable that has it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/mcp-client.h"
#include "cli/output.h"
#include "libsbx/sbx.h"

#define FILE_MAX       (4 * 1024 * 1024)
#define TOKEN_VARIABLE "MAS_SANDBOX_TOKEN"

static char *expand_path(const char *path, struct sbx_error *err)
{
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) != 0)
        return xstrdup(path);
    if (home && *home == '/')
        return xasprintf("%s/%s", home, path + 2);
    cli_set_error(err, "invalid_request", "$HOME is not set: name the file with -out");
    return NULL;
}

/* Through a link, to the file it names: the link stays. */
static char *resolve_path(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : xstrdup(path);
}

static int read_file(const char *path, struct strbuf *text, struct sbx_error *err)
{
    int r = fd_read_file_at(AT_FDCWD, path, text);
    if (r < 0 && r != -ENOENT)
        return cli_set_error(err, NULL, "read '%s': %s", path, strerror(-r));
    return 0;
}

static int make_parent(const char *path, struct sbx_error *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    _cleanup_free_ char *dir = xstrndup(path, (size_t)(slash - path));
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return cli_set_error(err, NULL, "make '%s': %s", dir, strerror(errno));
    return 0;
}

static int write_temp(int fd, const struct strbuf *text, mode_t mode)
{
    int r = fchmod(fd, mode) < 0 ? -errno : fd_write_all(fd, text->data, text->len);
    if (r < 0)
        return r;
    return fsync(fd) < 0 ? -errno : 0;
}

/* All or nothing, with the mode it had. */
static int replace_file(const char *path, const struct strbuf *text, struct sbx_error *err)
{
    struct stat st;
    _cleanup_free_ char *temp = xasprintf("%s.sbx-XXXXXX", path);
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 0777 : 0600;
    if (make_parent(path, err) < 0)
        return -1;
    _cleanup_close_ int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return cli_set_error(err, NULL, "write beside '%s': %s", path, strerror(errno));
    int r = write_temp(fd, text, mode);
    if (r >= 0 && rename(temp, path) < 0)
        r = -errno;
    if (r >= 0)
        return 0;
    unlink(temp);
    return cli_set_error(err, NULL, "write '%s': %s", path, strerror(-r));
}

/* -addr (or its variable) means HTTP; else the client starts the daemon itself. */
static int find_target(const struct args *a, struct mcp_target *t, char **ret_owned,
                       struct sbx_error *err)
{
    const char *addr = a->addr ? a->addr : getenv("MAS_SANDBOX_URL");
    if (!addr || !*addr) {
        t->command = *ret_owned = sbx_find_daemon(err);
        return t->command ? 0 : -1;
    }
    if (strncmp(addr, "http://", 7) != 0 && strncmp(addr, "https://", 8) != 0)
        return cli_set_error(err, "invalid_request",
                             "clients reach http:// and https:// addresses only, not '%s'", addr);
    size_t n = strlen(addr);
    while (n && addr[n - 1] == '/')
        n--;
    t->url = *ret_owned = xasprintf("%.*s/mcp", (int)n, addr);
    t->token_variable = a->token || getenv(TOKEN_VARIABLE) ? TOKEN_VARIABLE : NULL;
    return 0;
}

static int install_entry(const struct args *a, const struct mcp_client *client,
                         const struct mcp_target *t, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf before = STRBUF_INIT(FILE_MAX), after = STRBUF_INIT(FILE_MAX);
    _cleanup_free_ char *named = a->out ? xstrdup(a->out) : expand_path(client->path, err);
    _cleanup_free_ char *path = named ? resolve_path(named) : NULL;
    if (!path)
        return -1;
    if (!a->print && read_file(path, &before, err) < 0)
        return -1;
    if (client->merge(before.data ? before.data : "", before.len, t, &after, err) < 0)
        return -1;
    if (a->print) {
        fprintf(stderr, "%s, in %s:\n", client->product, named);
        fwrite(after.data, 1, after.len, stdout);
        return 0;
    }
    if (replace_file(path, &after, err) < 0)
        return -1;
    printf("%s: %s is in %s\n", client->product, MCP_SERVER_NAME, path);
    if (t->token_variable)
        printf("It reads the key from $%s: set that where %s is started.\n", t->token_variable,
               client->product);
    return 0;
}

static int mcp_install(const struct args *a)
{
    struct sbx_error err;
    struct mcp_target t = {0};
    _cleanup_free_ char *owned = NULL;
    const struct mcp_client *client = mcp_client_find(a->rest[0]);
    if (!client)
        return cli_fail_usage("mcp install: claude, cursor, vscode or codex, not '%s'", a->rest[0]);
    if (find_target(a, &t, &owned, &err) < 0 || install_entry(a, client, &t, &err) < 0)
        return cli_fail(&err);
    return 0;
}

static const struct command mcp_commands[] = {
    {.name = "mcp install",
     .usage = "claude|cursor|vscode|codex",
     .summary = "Add the MCP server mas-sandbox to the configuration of an agent",
     .details =
         "Everything else in that configuration is kept. With -addr or $MAS_SANDBOX_URL the "
         "agent talks to that daemon, with the key in its $MAS_SANDBOX_TOKEN; else it starts "
         "a daemon of its own.",
     .options = OPTIONS(OPTIONS_CONNECTION,
                        OPTION("print", print, NULL, "Print the entry and change nothing."),
                        OPTION("out", out, "FILE",
                               "Write to this file instead of the agent's own configuration.")),
     .min_rest = 1,
     .max_rest = 1,
     .run = mcp_install},
    {0}};

const struct command command_mcp = {
    .name = "mcp",
    .group = GROUP_HOST,
    .summary = "Let an agent use sandboxes over MCP",
    .commands = mcp_commands,
};
