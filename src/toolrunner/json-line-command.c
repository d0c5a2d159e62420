/* SPDX-License-Identifier: Apache-2.0 */
/* The tools shell and code for JSON lines: start, collect, time out. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner/descendants.h"
#include "toolrunner/json-line.h"
#include "toolrunner/tool.h"

#define ARGV_MAX       1024
#define READ_SIZE      65536
#define DRAIN_GRACE_MS 100 /* for a background process that keeps the output open */
#define KILL_GRACE_MS  1000

struct command {
    pid_t pid;
    int fds[2];
    struct strbuf out[2];
    bool truncated;
    bool timed_out;
    int status;
};

static const struct {
    const char *language, *program, *option;
} languages[] = {
    {"python", "python3", "-c"}, {"python3", "python3", "-c"}, {"javascript", "node", "-e"},
    {"js", "node", "-e"},        {"bash", "bash", "-c"},       {"sh", "sh", "-c"},
};

static void __attribute__((noreturn)) command_child(char *const *argv, int out, int err)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* A session of its own: the whole group is killed when time is up, and no terminal can be its
     * own. */
    setsid();
    signal(SIGPIPE, SIG_DFL);
    if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    execvp(argv[0], argv);
    int saved = errno;
    dprintf(2, "%s: %s\n", argv[0], strerror(saved));
    _exit(saved == ENOENT ? 127 : 126);
}

static int command_start(struct command *c, char *const *argv)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int out_read = out[0], out_write = out[1];
    if (pipe2(err, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int err_read = err[0], err_write = err[1];
    c->pid = fork();
    if (c->pid < 0)
        return -errno;
    if (c->pid == 0)
        command_child(argv, out_write, err_write);
    c->fds[0] = fd_steal(&out_read);
    c->fds[1] = fd_steal(&err_read);
    return 0;
}

static void command_read(struct command *c, int i)
{
    char chunk[READ_SIZE];
    ssize_t n = read(c->fds[i], chunk, sizeof(chunk));
    if (n <= 0) {
        fd_close(&c->fds[i]);
        return;
    }
    size_t room = c->out[i].max - c->out[i].len;
    c->truncated |= (size_t)n > room;
    strbuf_append(&c->out[i], chunk, (size_t)n < room ? (size_t)n : room);
}

static bool command_await_end(struct command *c, int64_t deadline)
{
    while (descendants_reap(c->pid, &c->status, NULL) != c->pid) {
        if (clock_mono_ms() >= deadline)
            return false;
        poll(NULL, 0, 5);
    }
    return true;
}

/* Until both pipes ended, or the command did and the grace after it is over, or time is up. */
static void command_collect(struct command *c, int64_t timeout_ms)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    bool ended = false;
    while (c->fds[0] >= 0 || c->fds[1] >= 0) {
        if (!ended && descendants_reap(c->pid, &c->status, NULL) == c->pid) {
            ended = true;
            deadline = clock_mono_ms() + DRAIN_GRACE_MS;
        }
        int64_t left = deadline - clock_mono_ms();
        if (left <= 0)
            break;
        struct pollfd p[2] = {{c->fds[0], POLLIN, 0}, {c->fds[1], POLLIN, 0}};
        poll(p, 2, left < 20 ? (int)left : 20);
        for (int i = 0; i < 2; i++) {
            if (p[i].revents)
                command_read(c, i);
        }
    }
    if (ended || command_await_end(c, deadline))
        return;
    c->timed_out = true;
    kill(-c->pid, SIGKILL);
    /* A process that traces it may keep its end from us for as long as it likes. */
    if (!command_await_end(c, clock_mono_ms() + KILL_GRACE_MS))
        c->status = SIGKILL;
}

static json_t *command_result(struct command *c)
{
    bool lossy[2];
    json_t *text[2];
    for (int i = 0; i < 2; i++)
        text[i] =
            json_string_from_bytes(c->out[i].data ? c->out[i].data : "", c->out[i].len, &lossy[i]);
    int code = WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 128 + WTERMSIG(c->status);
    json_t *o =
        json_pack("{s:o, s:o, s:i}", "stdout", text[0], "stderr", text[1], "exit_code", code);
    if (c->truncated)
        json_object_set_new(o, "truncated", json_true());
    return o;
}

static json_t *command_run(char *const *argv, int64_t timeout_ms, struct tool_failure *f)
{
    struct command c = {
        .fds = {-1, -1},
        .out = {STRBUF_INIT(JSON_LINE_OUTPUT_MAX), STRBUF_INIT(JSON_LINE_OUTPUT_MAX)}};
    int r = command_start(&c, argv);
    if (r < 0)
        return tool_fail(f, "tool_failed", "start: %s", strerror(-r));
    command_collect(&c, timeout_ms);
    json_t *result = command_result(&c);
    for (int i = 0; i < 2; i++) {
        fd_close(&c.fds[i]);
        strbuf_done(&c.out[i]);
    }
    if (!c.timed_out)
        return result;
    tool_fail(f, "tool_failed", "timed out");
    f->result = result;
    return NULL;
}

json_t *json_line_shell(const json_t *args, int64_t timeout_ms, struct tool_failure *f)
{
    _cleanup_strv_ char **argv = NULL;
    const char *command = NULL;
    struct error err = {0};
    if (json_member_string(args, "command", &command, &err) < 0 ||
        json_member_strv(args, "argv", ARGV_MAX, &argv, &err) < 0)
        return tool_fail(f, "invalid_request", "%s", err.message);
    if (!command == !argv)
        return tool_fail(f, "invalid_request", "shell needs either 'command' or 'argv'");
    if (argv && !argv[0])
        return tool_fail(f, "invalid_request", "'argv' is empty");
    const char *shell[] = {"/bin/sh", "-c", command, NULL};
    return command_run(command ? (char *const *)shell : argv, timeout_ms, f);
}

json_t *json_line_code(const json_t *args, int64_t timeout_ms, struct tool_failure *f)
{
    const char *language = NULL, *code = NULL;
    struct error err = {0};
    if (json_member_string(args, "language", &language, &err) < 0 ||
        json_member_string(args, "code", &code, &err) < 0)
        return tool_fail(f, "invalid_request", "%s", err.message);
    if (!language || !code)
        return tool_fail(f, "invalid_request", "language and code are required");
    for (size_t i = 0; i < ELEMENTS(languages); i++) {
        if (strcmp(languages[i].language, language))
            continue;
        const char *argv[] = {languages[i].program, languages[i].option, code, NULL};
        return command_run((char *const *)argv, timeout_ms, f);
    }
    return tool_fail(f, "invalid_request", "unknown language '%.40s'", language);
}
