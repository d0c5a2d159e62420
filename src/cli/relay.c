/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/relay.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "libsbx/sbx.h"

#define STDIN_PIECE (32u << 10)
#define QUEUE_HIGH  (256u << 10) /* our stdin waits while more than this is unsent */

/* First byte of a binary message from the daemon. */
enum attach_stream { ATTACH_STDOUT = 1, ATTACH_STDERR = 2 };

struct relay {
    struct sbx_ws *ws;
    bool terminal;
    bool raw; /* saved holds the terminal's settings */
    struct termios saved;
    bool stdin_open;
    int n_signals;
    bool done;
    struct relay_result result;
};

void relay_terminal_size(int *ret_rows, int *ret_cols)
{
    struct winsize w = {0};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col)
            break;
    *ret_rows = w.ws_row ? w.ws_row : 24;
    *ret_cols = w.ws_col ? w.ws_col : 80;
}

/* Takes message. */
static int send_control(struct relay *r, json_t *message, struct sbx_error *err)
{
    _cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    return sbx_ws_send(r->ws, 0, text, strlen(text), err);
}

static int send_size(struct relay *r, struct sbx_error *err)
{
    int rows, cols;
    relay_terminal_size(&rows, &cols);
    return send_control(
        r, json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", rows, "cols", cols), err);
}

/* A connection that takes no more may still hold the command's last words: what it is about is said
 * by on_socket(). */
static void on_stdin(struct relay *r)
{
    char buf[STDIN_PIECE];
    ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0)
        r->stdin_open = sbx_ws_send(r->ws, 1, buf, (size_t)n, NULL) == 0;
    else
        r->stdin_open = false;
    if (n <= 0)
        send_control(r, json_pack("{s:s}", "type", "stdin_close"), NULL);
}

/* The third signal ends sbx itself, for a command that ignores them. With a terminal, control
 * characters go to the sandbox as bytes, so a signal that arrives here is meant for sbx and ends
 * it. */
static int on_signal(struct relay *r, struct sbx_error *err)
{
    int signo = signals_read();
    if (!signo)
        return 0;
    if (signo == SIGWINCH)
        return r->terminal ? send_size(r, err) : 0;
    if (++r->n_signals >= SIGNALS_TO_QUIT || r->terminal)
        return cli_set_error(err, "canceled", "interrupted");
    const char *name = signo == SIGINT ? "INT" : signo == SIGHUP ? "HUP" : "TERM";
    return send_control(r, json_pack("{s:s, s:s}", "type", "signal", "signal", name), err);
}

static void on_exit_message(struct relay *r, const json_t *m)
{
    const char *status = json_string_value(json_object_get(m, "status"));
    const char *error = json_string_value(json_object_get(m, "error"));
    const json_t *code = json_object_get(m, "exit_code");
    snprintf(r->result.status, sizeof(r->result.status), "%s", status ? status : "");
    snprintf(r->result.error, sizeof(r->result.error), "%s", error ? error : "");
    r->result.has_exit_code = json_is_integer(code);
    r->result.exit_code = (int)json_integer_value(code);
    r->done = true;
}

static int on_message(struct relay *r, const struct sbx_ws_message *m, struct sbx_error *err)
{
    if (m->binary) {
        if (!m->len)
            return 0;
        int fd = m->data[0] == ATTACH_STDERR ? STDERR_FILENO : STDOUT_FILENO;
        int e = fd_write_all(fd, m->data + 1, m->len - 1);
        return e < 0 ? cli_set_error(err, e == -EPIPE ? "broken_pipe" : NULL, "output: %s",
                                     strerror(-e))
                     : 0;
    }
    _cleanup_json_ json_t *root = json_loadb(m->data, m->len, 0, NULL);
    const char *type = json_string_value(json_object_get(root, "type"));
    if (type && strcmp(type, "exit") == 0)
        on_exit_message(r, root);
    else if (type && strcmp(type, "cut") == 0)
        cli_warn("output was dropped: it came faster than it was read");
    return 0;
}

static int on_socket(struct relay *r, struct sbx_error *err)
{
    while (!r->done) {
        struct sbx_ws_message m;
        enum sbx_ws_result got = sbx_ws_receive(r->ws, 0, &m, err);
        if (got == SBX_WS_TIMEOUT)
            return 0;
        if (got == SBX_WS_CLOSED)
            return cli_set_error(err, "unavailable", "the daemon ended the session");
        if (got == SBX_WS_FAILED || on_message(r, &m, err) < 0)
            return -1;
    }
    return 0;
}

/* What came with the answer to the upgrade is read before the first wait: nothing may follow it. */
static int relay_loop(struct relay *r, struct sbx_error *err)
{
    if (on_socket(r, err) < 0)
        return -1;
    while (!r->done) {
        bool read_stdin = r->stdin_open && sbx_ws_queued(r->ws) < QUEUE_HIGH;
        struct pollfd p[] = {
            {.fd = sbx_ws_fd(r->ws), .events = sbx_ws_events(r->ws)},
            {.fd = signals_fd(), .events = POLLIN},
            {.fd = read_stdin ? STDIN_FILENO : -1, .events = POLLIN},
        };
        if (poll(p, ELEMENTS(p), -1) < 0 && errno != EINTR)
            return cli_set_error(err, NULL, "poll: %s", strerror(errno));
        if (p[1].revents && on_signal(r, err) < 0)
            return -1;
        if (p[2].revents)
            on_stdin(r);
        if (p[0].revents && on_socket(r, err) < 0)
            return -1;
    }
    return 0;
}

/* In raw mode the sandbox's terminal does what ours would: echo, lines, and the signals of control
 * characters. Output that is on its way is written first. */
static void enter_raw(struct relay *r)
{
    struct termios t;
    if (!r->terminal || tcgetattr(STDIN_FILENO, &t) < 0)
        return;
    r->saved = t;
    cfmakeraw(&t);
    r->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
}

int relay_exec(struct sbx_client *c, const char *id, const char *exec_id, bool terminal,
               struct relay_result *ret, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/execs/%s/attach", id, exec_id);
    struct relay r = {.terminal = terminal, .stdin_open = true};
    r.ws = sbx_ws_open(c, path, err);
    if (!r.ws)
        return -1;
    enter_raw(&r);
    int result = terminal ? send_size(&r, err) : 0;
    if (result == 0)
        result = relay_loop(&r, err);
    if (r.raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &r.saved);
    sbx_ws_free(r.ws);
    if (result == 0)
        *ret = r.result;
    return result;
}
