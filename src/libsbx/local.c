/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls without a running daemon: one mas-sandboxd a call, one request line on its stdin, and
 * the last line of its output that parses as a JSON object is the answer. */
#include "libsbx/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "libsbx/tool.h"

#define DAEMON_NAME "mas-sandboxd"

extern char **environ;

/* mas-sandboxd in the directory of the running program, or in the sbin of its bin; NULL when there
 * is none. */
static char *beside_this_program(void)
{
    static const char *const places[] = {"", "/../sbin"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    if (!slash)
        return NULL;
    *slash = 0;
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        char *path = xasprintf("%s%s/" DAEMON_NAME, self, places[i]);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static char *in_path(void)
{
    const char *p = getenv("PATH");
    while (p && *p) {
        size_t len = strcspn(p, ":");
        _cleanup_free_ char *path = xasprintf("%.*s/" DAEMON_NAME, (int)len, p);
        if (len && access(path, X_OK) == 0)
            return steal_ptr(path);
        p += len + (p[len] == ':');
    }
    return NULL;
}

char *sbx_find_daemon(struct sbx_error *err)
{
    const char *named = getenv("MAS_SANDBOXD");
    if (named && *named)
        return xstrdup(named);
    char *path = beside_this_program();
    if (!path)
        path = in_path();
    if (!path)
        libsbx_fail(err, "unavailable",
                    "no " DAEMON_NAME " beside this program or in PATH; set MAS_SANDBOXD");
    return path;
}

/* Starts the daemon with both ends of its talk on one socket: a write to a dead daemon is then an
 * error (MSG_NOSIGNAL), not a signal. */
static int start_daemon(const char *daemon, int *ret_fd, pid_t *ret_pid, struct sbx_error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return libsbx_fail(err, "internal", "socketpair: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    char *argv[] = {(char *)daemon, NULL};
    int r = posix_spawnp(ret_pid, daemon, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    if (r != 0) {
        close(pair[0]);
        return libsbx_fail(err, "unavailable", "start '%s': %s", daemon, strerror(r));
    }
    *ret_fd = pair[0];
    return 0;
}

/* Sends the request and reads to the end, both at once: a daemon may write before it has read all.
 */
static int exchange_texts(int fd, const char *request, size_t len, struct strbuf *out,
                          struct sbx_error *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = (short)(POLLIN | (len ? POLLOUT : 0))};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return libsbx_fail(err, "internal", "poll: %s", strerror(errno));
        if (len && (p.revents & POLLOUT)) {
            ssize_t n = send(fd, request, len, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                len = 0; /* it died; what it said before is still worth reading */
            else if (n > 0)
                request += n, len -= (size_t)n;
            if (!len)
                shutdown(fd, SHUT_WR);
        }
        if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        if (strbuf_reserve(out, 4096) < 0)
            return libsbx_fail(err, "too_large", "the daemon's output is over %u MiB",
                               SBX_RESPONSE_MAX >> 20);
        ssize_t n = recv(fd, out->data + out->len, 4096, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return 0;
        if (n > 0)
            strbuf_commit(out, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR)
            return libsbx_fail(err, "internal", "read from the daemon: %s", strerror(errno));
    }
}

/* The last line that parses as a JSON object with an exit_code or an id. */
static json_t *last_answer(char *text)
{
    for (;;) {
        char *newline = strrchr(text, '\n');
        json_t *v = json_loads(newline ? newline + 1 : text, 0, NULL);
        if (json_is_object(v))
            return v;
        json_decref(v);
        if (!newline)
            return NULL;
        *newline = 0;
    }
}

static char *format_line(const struct sbx_tool_call *call, struct sbx_error *err)
{
    struct tool_parts p;
    if (call->sandbox_id) {
        libsbx_fail(err, "invalid_request", "a local call has no sandbox_id: it makes its own");
        return NULL;
    }
    if (libsbx_tool_parts(call, &p, err) < 0)
        return NULL;
    _cleanup_json_ json_t *req = json_pack("{s:s, s:s, s:o, s:o*}", "id", p.id, "tool", call->tool,
                                           "args", p.args, "policy", p.policy);
    if (!req) {
        libsbx_fail(err, "invalid_request", "the tool call's strings are not UTF-8");
        return NULL;
    }
    _cleanup_free_ char *text = libsbx_dump(req);
    return xasprintf("%s\n", text);
}

static void parse_answer(const json_t *root, struct sbx_tool_result *ret)
{
    const json_t *result = json_object_get(root, "result");
    struct sbx_tool_result r = {.result = result ? libsbx_dump(result) : NULL};
    libsbx_int_member(root, "exit_code", &r.exit_code);
    r.error_message = libsbx_dup_member(root, "error");
    r.ok = r.exit_code == 0 && !r.error_message;
    *ret = r;
}

static int ask_daemon(const char *daemon, const char *line, struct strbuf *out, int *ret_status,
                      struct sbx_error *err)
{
    _cleanup_close_ int fd = -1;
    pid_t pid;
    if (start_daemon(daemon, &fd, &pid, err) < 0)
        return -1;
    int r = exchange_texts(fd, line, strlen(line), out, err);
    if (r < 0)
        kill(pid, SIGTERM);
    fd_close(&fd);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return r;
}

int sbx_tool_execute_local(const char *daemon, const struct sbx_tool_call *call,
                           struct sbx_tool_result *ret, struct sbx_error *err)
{
    _cleanup_free_ char *line = format_line(call, err);
    if (!line)
        return -1;
    _cleanup_free_ char *path = daemon ? xstrdup(daemon) : sbx_find_daemon(err);
    if (!path)
        return -1;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(SBX_RESPONSE_MAX);
    int status = 0;
    if (ask_daemon(path, line, &out, &status, err) < 0)
        return -1;
    _cleanup_json_ json_t *answer = out.len ? last_answer(out.data) : NULL;
    if (!answer)
        return libsbx_fail(err, "unavailable", "'%s' gave no answer (%s %d)", path,
                           WIFSIGNALED(status) ? "killed by signal" : "exit code",
                           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    parse_answer(answer, ret);
    return 0;
}
