/* SPDX-License-Identifier: Apache-2.0 */
/* libsbx against libsbx-server.js, which answers in every shape a daemon may, well and badly.
 * usage: test-libsbx NODE SERVER.js */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "libsbx/sbx.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/test-libsbx-XXXXXX";
static char unix_address[64], http_address[64], https_address[64];
static struct sbx_error err;

static bool err_is(const char *code, int status)
{
    if (strcmp(err.code, code) == 0 && err.http_status == status)
        return true;
    printf("# error is %s %d: %s\n", err.code, err.http_status, err.message);
    return false;
}

static void test_addresses(void)
{
    static const char *const bad[] = {"ftp://x",
                                      "unix:",
                                      "http://",
                                      "http://u:p@localhost:1",
                                      "http://localhost/a",
                                      "http://localhost:99999",
                                      "http://localhost?q"};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct sbx_client *c = sbx_client_new(bad[i], "", &err);
        ok(!c && err_is("invalid_request", 0), "'%s' is refused", bad[i]);
        sbx_client_free(c);
    }
    static const char *const good[] = {"localhost:1", ":1", "unix:/x", "unix:///x", "https://h/"};
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        struct sbx_client *c = sbx_client_new(good[i], "", &err);
        ok(c != NULL, "'%s' is an address", good[i]);
        sbx_client_free(c);
    }
    ok(!sbx_client_new("http://localhost", "a\r\nX: y", &err) && err_is("invalid_request", 0),
       "a token cannot add a header");
    setenv("MAS_SANDBOX_URL", "http://127.0.0.1:7", 1);
    struct sbx_client *c = sbx_client_new(NULL, NULL, &err);
    ok(c && strcmp(sbx_client_address(c), "http://127.0.0.1:7") == 0, "MAS_SANDBOX_URL is used");
    sbx_client_free(c);
    unsetenv("MAS_SANDBOX_URL");
    c = sbx_client_new(NULL, NULL, &err);
    ok(c && strcmp(sbx_client_address(c), SBX_DEFAULT_ADDRESS) == 0, "and there is a default");
    sbx_client_free(c);
}

static void test_paths(void)
{
    char *p = sbx_path_format("/a/%s?path=%s&x=1", "../b c", "/é&#?%");
    ok(strcmp(p, "/a/..%2Fb%20c?path=%2F%C3%A9%26%23%3F%25&x=1") == 0, "%s is encoded", p);
    free(p);
}

static void test_requests(struct sbx_client *c, const char *name)
{
    struct sbx_response r = {0};
    ok(sbx_request(c, "POST", "/echo", "{\"a\":1}", &r, &err) == 0 && r.status == 200 &&
           strstr(r.body, "\"body\":\"{\\\"a\\\":1}\"") &&
           strstr(r.body, "\"content-type\":\"application/json\""),
       "%s: POST carries its body", name);
    sbx_response_done(&r);
    ok(sbx_request(c, "DELETE", "/echo", NULL, &r, &err) == 0 && strstr(r.body, "DELETE"),
       "%s: DELETE after POST is a DELETE", name);
    sbx_response_done(&r);
    ok(sbx_request(c, "GET", "/native-error", NULL, &r, &err) == 0 && r.status == 404,
       "%s: sbx_request answers any status", name);
    sbx_response_done(&r);
    ok(sbx_call(c, "GET", "/private", NULL, NULL, &err) == 0, "%s: the token is sent", name);
}

static void test_errors(struct sbx_client *c)
{
    ok(sbx_call(c, "GET", "/native-error", NULL, NULL, &err) < 0 && err_is("not_found", 404) &&
           strcmp(err.message, "no such sandbox") == 0,
       "error of /v1");
    ok(sbx_call(c, "GET", "/field-error", NULL, NULL, &err) < 0 && err_is("invalid_request", 400) &&
           strcmp(err.message, "limits.cpu: out of range") == 0,
       "error with a field");
    ok(sbx_call(c, "GET", "/contract-error", NULL, NULL, &err) < 0 && err_is("conflict", 409) &&
           strcmp(err.message, "exec is terminal") == 0,
       "error of /sandboxes");
    ok(sbx_call(c, "GET", "/detail-error", NULL, NULL, &err) < 0 && err_is("not_found", 404) &&
           strcmp(err.message, "Action not found") == 0,
       "error with a detail");
    ok(sbx_call(c, "GET", "/text-error", NULL, NULL, &err) < 0 && err_is("unavailable", 503),
       "error that is not JSON");
    ok(sbx_call(c, "GET", "/text-error", NULL, NULL, NULL) < 0, "err may be NULL");
    struct sbx_response r;
    ok(sbx_request(c, "GET", "/huge", NULL, &r, &err) < 0 && err_is("too_large", 0),
       "an endless answer fails at its limit");
    ok(sbx_request(c, "GET", "/cut", NULL, &r, &err) < 0 && err_is("unavailable", 0),
       "an answer that is cut fails");
    sbx_client_set_timeout(c, 100);
    ok(sbx_request(c, "GET", "/slow", NULL, &r, &err) < 0 && err_is("timeout", 0),
       "a timeout is one");
    sbx_client_set_timeout(c, 0);
    ok(sbx_call(c, "GET", "/echo", NULL, NULL, &err) == 0, "and the client still works");
    struct sbx_client *none = sbx_client_new("unix:/nonexistent/sock", "", &err);
    ok(sbx_call(none, "GET", "/", NULL, NULL, &err) < 0 && err_is("unavailable", 0),
       "no daemon: unavailable");
    sbx_client_free(none);
    struct sbx_client *stranger = sbx_client_new(unix_address, "wrong", &err);
    ok(sbx_call(stranger, "GET", "/private", NULL, NULL, &err) < 0 && err_is("unauthorized", 401),
       "a wrong token: unauthorized");
    sbx_client_free(stranger);
}

/* --- events */

struct seen {
    int n, stop_at, exit_code;
    long long last_seq;
    char out[64], errors[64];
    size_t out_len, errors_len;
};

static int on_event(void *data, const struct sbx_event *ev)
{
    struct seen *s = data;
    s->n++;
    s->last_seq = ev->seq;
    if (strcmp(ev->stream, "stdout") == 0) {
        memcpy(s->out + s->out_len, ev->data, ev->data_len);
        s->out_len += ev->data_len;
    } else if (strcmp(ev->stream, "stderr") == 0) {
        memcpy(s->errors + s->errors_len, ev->data, ev->data_len);
        s->errors_len += ev->data_len;
    }
    if (ev->has_exit_code)
        s->exit_code = ev->exit_code;
    return s->n == s->stop_at;
}

static bool saw_all(const struct seen *s)
{
    return s->n == 5 && s->last_seq == 4 && s->exit_code == 3 && s->out_len == 10 &&
           memcmp(s->out, "h\xc3\xa9llo\na\0b", 10) == 0 && s->errors_len == 3 &&
           memcmp(s->errors, "\xff\0\1", 3) == 0;
}

static void test_events(struct sbx_client *c)
{
    struct seen s = {0};
    ok(sbx_run_stream(c, "{\"command\":[\"x\"]}", on_event, &s, &err) == 0 && saw_all(&s),
       "NDJSON in pieces: %d events, bytes as the command wrote them", s.n);
    s = (struct seen){0};
    ok(sbx_exec_stream(c, "sbx-x", "e1", on_event, &s, &err) == 0 && saw_all(&s),
       "the same over WebSocket");
    s = (struct seen){0};
    ok(sbx_exec_logs(c, "s 1", "e1", 1, 3, on_event, &s, &err) == 0 && s.n == 2, "logs since 3");
    s = (struct seen){.stop_at = 2};
    ok(sbx_run_stream(c, "{\"command\":[\"x\"]}", on_event, &s, &err) == 0 && s.n == 2,
       "a reader that had enough ends a stream without an error");
    s = (struct seen){.stop_at = 2};
    ok(sbx_exec_stream(c, "sbx-x", "e1", on_event, &s, &err) == 0 && s.n == 2,
       "likewise WebSocket");
    s = (struct seen){0};
    ok(sbx_run_stream(c, "{\"command\":[\"cut-stream\"]}", on_event, &s, &err) < 0 &&
           err_is("unavailable", 0),
       "a stream without an exit fails");
    ok(sbx_exec_stream(c, "sbx-x", "cut", on_event, &s, &err) < 0 && err_is("unavailable", 0),
       "likewise WebSocket");
    ok(sbx_run_stream(c, "{\"command\":[\"bad-stream\"]}", on_event, &s, &err) < 0 &&
           err_is("internal", 0),
       "a line that is not JSON fails");
    ok(sbx_run_stream(c, "{\"command\":[\"typeless\"]}", on_event, &s, &err) < 0 &&
           err_is("internal", 0),
       "an event without a type fails");
    ok(sbx_exec_stream(c, "nobody", "e1", on_event, &s, &err) < 0 && err_is("not_found", 404),
       "a refused upgrade is the daemon's error");
}

static int count_line(void *data, const char *line, size_t len)
{
    (void)line;
    (void)len;
    ++*(int *)data;
    return 0;
}

static void test_long_line(struct sbx_client *c)
{
    int lines = 0;
    ok(sbx_stream_lines(c, "GET", "/longline", NULL, count_line, &lines, &err) < 0 &&
           err_is("too_large", 0) && lines == 0,
       "a line over the limit fails");
}

/* --- WebSocket */

static enum sbx_ws_result receive(struct sbx_ws *ws, struct sbx_ws_message *m)
{
    return sbx_ws_receive(ws, 10000, m, &err);
}

static void test_ws_echo(struct sbx_client *c, const char *name)
{
    static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536, 1 << 20};
    struct sbx_ws *ws = sbx_ws_open(c, "/ws/echo", &err);
    if (!ok(ws != NULL, "%s: WebSocket opens", name))
        return;
    char *data = xcalloc(1, 1 << 20);
    for (size_t i = 0; i < 1 << 20; i++)
        data[i] = (char)(i * 7);
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        struct sbx_ws_message m;
        ok(sbx_ws_send(ws, 1, data, sizes[i], &err) == 0 && receive(ws, &m) == SBX_WS_MESSAGE &&
               m.binary && m.len == sizes[i] && memcmp(m.data, data, m.len) == 0,
           "%s: %zu bytes come back", name, sizes[i]);
    }
    struct sbx_ws_message m;
    ok(sbx_ws_receive(ws, 20, &m, &err) == SBX_WS_TIMEOUT, "%s: nothing more: timeout", name);
    free(data);
    sbx_ws_free(ws);
}

static enum sbx_ws_result first_result(struct sbx_client *c, const char *path)
{
    struct sbx_ws_message m;
    struct sbx_ws *ws = sbx_ws_open(c, path, &err);
    if (!ws)
        return SBX_WS_TIMEOUT;
    enum sbx_ws_result r = receive(ws, &m);
    sbx_ws_free(ws);
    return r;
}

static void test_ws_odd(struct sbx_client *c)
{
    struct sbx_ws_message m;
    struct sbx_ws *ws = sbx_ws_open(c, "/ws/fragments", &err);
    ok(ws && receive(ws, &m) == SBX_WS_MESSAGE && !m.binary && strcmp(m.data, "one two three") == 0,
       "fragments are joined and a ping between them is answered");
    ok(ws && receive(ws, &m) == SBX_WS_CLOSED, "then the goodbye");
    sbx_ws_free(ws);
    ws = sbx_ws_open(c, "/ws/early", &err);
    ok(ws && receive(ws, &m) == SBX_WS_MESSAGE && strcmp(m.data, "early") == 0 &&
           receive(ws, &m) == SBX_WS_MESSAGE && strcmp(m.data, "bird") == 0,
       "messages that came with the upgrade's answer are not lost");
    sbx_ws_free(ws);
    ok(!sbx_ws_open(c, "/ws/bad-accept", &err) && err_is("internal", 0), "a wrong accept fails");
    ok(!sbx_ws_open(c, "/ws/plain-200", &err) && err.http_status == 200, "a 200 is no upgrade");
    ok(!sbx_ws_open(c, "/ws/none", &err) && err_is("not_found", 404), "a 404 neither");
    static const char *const broken[] = {"/ws/vanish", "/ws/error-close", "/ws/bad-utf8",
                                         "/ws/too-big", "/ws/reserved"};
    for (size_t i = 0; i < ELEMENTS(broken); i++)
        ok(first_result(c, broken[i]) == SBX_WS_FAILED, "%s fails", broken[i]);
}

static void test_ws_flood(struct sbx_client *c)
{
    struct sbx_ws *ws = sbx_ws_open(c, "/ws/flood", &err);
    if (!ok(ws != NULL, "flood opens"))
        return;
    static char piece[128 << 10];
    size_t sent = 0, got = 0;
    for (int i = 0; i < 64; i++, sent += sizeof(piece))
        if (sbx_ws_send(ws, 1, piece, sizeof(piece), &err) < 0)
            break;
    sbx_ws_send(ws, 0, "?", 1, &err);
    ok(sbx_ws_queued(ws) > 0, "what the socket does not take is queued");
    struct sbx_ws_message m;
    while (receive(ws, &m) == SBX_WS_MESSAGE && m.binary)
        got += m.len;
    ok(got == 64 * sizeof(piece) && m.len && strtoul(m.data, NULL, 10) == sent,
       "both sides wrote 8 MiB first, and all of it arrived");
    sbx_ws_free(ws);
}

static void test_tls(void)
{
    struct sbx_client *c = sbx_client_new(https_address, "sesame", &err);
    ok(sbx_call(c, "GET", "/echo", NULL, NULL, &err) < 0 && err_is("unavailable", 0),
       "an unknown certificate is refused");
    char ca[64];
    snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
    ok(sbx_client_set_ca_file(c, ca, &err) == 0, "a CA file is taken");
    test_requests(c, "https");
    test_ws_echo(c, "wss");
    sbx_client_free(c);
}

/* --- operations */

static void test_sandboxes(struct sbx_client *c)
{
    struct sbx_sandbox sb = {0};
    ok(sbx_sandbox_create(c, "{\"id\":\"x\"}", &sb, &err) == 0 && strcmp(sb.id, "sbx-x") == 0 &&
           strcmp(sb.name_space, "sbx-x") == 0 && strcmp(sb.pod_name, "sandbox") == 0,
       "create");
    sbx_sandbox_done(&sb);
    ok(sbx_sandbox_get(c, "sbx-x", &sb, &err) == 0 && strcmp(sb.phase, "Running") == 0, "get");
    sbx_sandbox_done(&sb);
    ok(sbx_sandbox_get(c, "../echo", &sb, &err) < 0 && err_is("not_found", 404),
       "an id with slashes stays one path component");
    static const char *const argv[] = {"a b", "c", NULL}, *const bad[] = {"\xff", NULL};
    struct sbx_exec_result r = {0};
    ok(sbx_exec(c, "sbx-x", argv, 7, &r, &err) == 0 && strcmp(r.stdout_data, "a b|c 7") == 0 &&
           strcmp(r.status, "completed") == 0 && r.has_exit_code && r.exit_code == 0,
       "exec");
    sbx_exec_result_done(&r);
    ok(sbx_exec(c, "sbx-x", bad, 0, &r, &err) < 0 && err_is("invalid_request", 0),
       "an argument that is not UTF-8 is refused");
    char *exec_id = NULL;
    ok(sbx_exec_start(c, "sbx-x", argv, 0, &exec_id, &err) == 0 && strcmp(exec_id, "e1") == 0,
       "exec, started");
    free(exec_id);
    struct sbx_exec_status st = {0};
    ok(sbx_exec_get(c, "sbx-x", "e1", &st, &err) == 0 && strcmp(st.status, "completed") == 0 &&
           st.has_exit_code && st.timeout_seconds == 9 && !st.error,
       "exec status");
    sbx_exec_status_done(&st);
    ok(sbx_exec_cancel(c, "sbx-x", "e1", &st, &err) < 0 && err_is("conflict", 409), "cancel: 409");
    ok(sbx_sandbox_delete(c, "sbx-x", &err) == 0, "delete");
}

static void test_native(struct sbx_client *c)
{
    struct sbx_exec_result r = {0};
    ok(sbx_run(c, "{\"command\":[\"x\"]}", &r, &err) == 0 && strcmp(r.stdout_data, "out") == 0 &&
           r.stderr_len == 2 && memcmp(r.stderr_data, "\xff", 2) == 0 && r.exit_code == 3 &&
           r.duration_ms == 12,
       "run, with bytes that are not text");
    sbx_exec_result_done(&r);
    char *data = NULL;
    size_t len = 0;
    ok(sbx_file_write(c, "s", "/a b", "x\0y", 3, 0640, &err) == 0, "file write");
    ok(sbx_file_read(c, "s", "/a b", &data, &len, &err) == 0 && len == 3 &&
           memcmp(data, "x\0y", 3) == 0,
       "file read");
    free(data);
    ok(sbx_file_read(c, "s", "/none", &data, &len, &err) < 0 && err_is("not_found", 404),
       "file that is not there");
    ok(sbx_file_mkdir(c, "s", "/d", 1, &err) == 0, "mkdir");
}

/* --- tools */

static void write_script(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    chmod(path, 0700);
}

static void test_local(void)
{
    char path[64];
    struct sbx_tool_call call = {.tool = "calculator", .args = "{\"expression\":\"1\"}"};
    struct sbx_tool_result r = {0};
    snprintf(path, sizeof(path), "%s/daemon", dir);
    write_script(path, "#!/bin/sh\nread -r line\necho 'starting up'\n"
                       "echo '{\"id\":\"call-1\",\"result\":'\"$line\"',\"exit_code\":0}'\n"
                       "echo '[1]'\necho done\n");
    ok(sbx_tool_execute_local(path, &call, &r, &err) == 0 && r.ok && r.exit_code == 0 &&
           strstr(r.result, "\"tool\":\"calculator\"") && strstr(r.result, "\"id\":\"call-1\""),
       "local: the last line that is a JSON object is the answer");
    sbx_tool_result_done(&r);
    write_script(path,
                 "#!/bin/sh\necho '{\"id\":\"\",\"error\":\"tool not found\",\"exit_code\":1}'\n");
    setenv("MAS_SANDBOXD", path, 1);
    ok(sbx_tool_execute_env(&call, &r, &err) == 0 && !r.ok && r.exit_code == 1 &&
           strcmp(r.error_message, "tool not found") == 0,
       "local by default, through MAS_SANDBOXD; a failed tool is a result");
    sbx_tool_result_done(&r);
    write_script(path, "#!/bin/sh\nexit 3\n");
    ok(sbx_tool_execute_local(NULL, &call, &r, &err) < 0 && err_is("unavailable", 0) &&
           strstr(err.message, "exit code 3"),
       "a daemon without an answer: %s", err.message);
    ok(sbx_tool_execute_local("/nonexistent", &call, &r, &err) < 0 && err_is("unavailable", 0),
       "no daemon");
    call.args = "[1]";
    ok(sbx_tool_execute_local(path, &call, &r, &err) < 0 && err_is("invalid_request", 0),
       "args that are no object");
    /* More than a socket holds, to a daemon that talks before it listens. */
    char *big = xcalloc(1, (4 << 20) + 32);
    sprintf(big, "{\"expression\":\"");
    memset(big + 15, '1', 4 << 20);
    strcpy(big + 15 + (4 << 20), "\"}");
    call.args = big;
    write_script(path, "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' 'x'\necho\n"
                       "echo '{\"exit_code\":0,\"result\":{\"n\":'$(wc -c)'}}'\n");
    ok(sbx_tool_execute_local(path, &call, &r, &err) == 0 && r.ok && strstr(r.result, "41943"),
       "a long request and a long output at once");
    sbx_tool_result_done(&r);
    free(big);
    unsetenv("MAS_SANDBOXD");
}

static void test_tools(struct sbx_client *c)
{
    struct sbx_tool_call call = {.tool = "calculator", .args = "{\"expression\":\"15*8+7\"}"};
    struct sbx_tool_result r = {0};
    ok(sbx_tool_execute(c, &call, &r, &err) == 0 && r.ok &&
           strcmp(r.result, "{\"expression\":\"15*8+7\",\"result\":127}") == 0 && !r.error_code,
       "tool call over HTTP");
    sbx_tool_result_done(&r);
    call.tool = "web_search";
    ok(sbx_tool_execute(c, &call, &r, &err) == 0 && !r.ok && r.exit_code == 1 &&
           strcmp(r.error_code, "policy_denied") == 0 &&
           strcmp(r.error_message, "tool not allowed") == 0,
       "a denied call is a result");
    sbx_tool_result_done(&r);
    setenv("MAS_SANDBOX_MODE", "http", 1);
    setenv("MAS_SANDBOX_URL", http_address, 1);
    call.tool = "calculator";
    ok(sbx_tool_execute_env(&call, &r, &err) == 0 && r.ok, "MAS_SANDBOX_MODE=http");
    sbx_tool_result_done(&r);
    setenv("MAS_SANDBOX_MODE", "telepathy", 1);
    ok(sbx_tool_execute_env(&call, &r, &err) < 0 && err_is("invalid_request", 0), "another mode");
    unsetenv("MAS_SANDBOX_MODE");
    unsetenv("MAS_SANDBOX_URL");
}

/* --- the server */

static int server_stdin = -1;

static pid_t start_server(const char *node, const char *script)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execlp(node, node, script, dir, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    server_stdin = in[1];
    FILE *f = fdopen(out[0], "r");
    int port, tls_port;
    if (fscanf(f, "ready %d %d", &port, &tls_port) != 2)
        return -1;
    fclose(f);
    snprintf(unix_address, sizeof(unix_address), "unix:%s/sock", dir);
    snprintf(http_address, sizeof(http_address), "http://127.0.0.1:%d", port);
    snprintf(https_address, sizeof(https_address), "https://localhost:%d", tls_port);
    return pid;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    if (argc != 3 || !mkdtemp(dir))
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    unsetenv("MAS_SANDBOX_TOKEN");
    test_addresses();
    test_paths();
    pid_t pid = start_server(argv[1], argv[2]);
    if (!ok(pid > 0, "the server starts"))
        return tap_done();
    struct sbx_client *c = sbx_client_new(unix_address, "sesame", &err);
    struct sbx_client *tcp = sbx_client_new(http_address, "sesame", &err);
    test_requests(c, "unix");
    test_requests(tcp, "http");
    test_errors(c);
    test_events(c);
    test_long_line(c);
    test_ws_echo(c, "unix");
    test_ws_echo(tcp, "http");
    test_ws_odd(c);
    test_ws_flood(c);
    test_ws_flood(tcp);
    test_tls();
    test_sandboxes(c);
    test_native(c);
    test_tools(c);
    test_local();
    sbx_client_free(c);
    sbx_client_free(tcp);
    close(server_stdin);
    waitpid(pid, NULL, 0);
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
