/* SPDX-License-Identifier: Apache-2.0 */
/* The runner program: builtins, the gateway socket, the guest's port with its client, and being PID
 * 1 of a real pid namespace. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/json.h"
#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/test-inside-XXXXXX";

static struct peer_exec *run_builtin(struct peer *p, const char *const *argv, const char *input,
                                     size_t len)
{
    struct msg_spawn m = peer_spawn_message(p, argv);
    m.flags = SPAWN_BUILTIN | SPAWN_STDIN;
    m.cwd = dir;
    struct peer_exec *e = peer_spawn(p, &m);
    peer_stdin_all(p, e, input, len);
    (void)!peer_wait(p, e->exited || e->failed);
    return e;
}

#define BUILTIN(p, input, ...)                                                                     \
    run_builtin(p, (const char *[]){__VA_ARGS__, NULL}, input, strlen(input))

static bool says(const struct peer_exec *e, int code, int which, const char *part)
{
    const char *text = e->out[which - 1].data ? e->out[which - 1].data : "";
    bool good = peer_exited_with(e, code) && strstr(text, part);
    if (!good)
        printf("# wanted %d '%s', got %d '%s'\n", code, part, WEXITSTATUS(e->exit.wait_status),
               text);
    return good;
}

static void test_calculator(struct peer *p)
{
    struct peer_exec *e = BUILTIN(p, "{\"args\":{\"expression\":\"15*8+7\"}}", "calculator");
    ok(peer_exited_with(e, 0) && peer_out_is(e, 1, "{\"expression\":\"15*8+7\",\"result\":127}\n"),
       "calculator");
    e = BUILTIN(p, "{\"args\":{\"expression\":\"0.1+0.2\"}}", "calculator");
    ok(says(e, 0, 1, "\"result\":0.30000000000000004}"), "decimals");
    e = BUILTIN(p, "{\"args\":{\"expression\":\"1/0\"}}", "calculator");
    ok(says(e, 1, 1, "\"error\":\"division by zero\"") && says(e, 1, 1, "\"code\":\"tool_failed\""),
       "division by zero");
    ok(says(BUILTIN(p, "{\"args\":{}}", "calculator"), 1, 1, "invalid_request"), "no expression");
    ok(says(BUILTIN(p, "not json", "calculator"), 1, 1, "invalid_request"), "not JSON");
    ok(says(BUILTIN(p, "", "calculator"), 1, 1, "invalid_request"), "nothing");
}

static struct peer_exec *file_system(struct peer *p, const char *args, const char *allowed)
{
    _cleanup_free_ char *input = xasprintf("{\"args\":%s,\"allowed_paths\":%s}", args, allowed);
    return BUILTIN(p, input, "file_system");
}

static void test_file_system(struct peer *p)
{
    char allowed[128];
    snprintf(allowed, sizeof(allowed), "[\"%s\"]", dir);
    ok(says(file_system(p, "{\"action\":\"write\",\"path\":\"d/f.txt\",\"content\":\"hé\"}",
                        allowed),
            0, 1, "\"success\":true"),
       "write with parents");
    ok(says(file_system(
                p, "{\"action\":\"write\",\"path\":\"d/f.txt\",\"content\":\"!\",\"append\":true}",
                allowed),
            0, 1, "appended 1 bytes"),
       "append");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"d/f.txt\"}", allowed), 0, 1,
            "\"content\":\"hé!\""),
       "read");
    struct peer_exec *e =
        file_system(p, "{\"action\":\"list\",\"path\":\".\",\"recursive\":true}", allowed);
    ok(says(e, 0, 1, "\"name\":\"f.txt\"") && says(e, 0, 1, "\"is_dir\":true") &&
           says(e, 0, 1, "\"size\":4") && says(e, 0, 1, "\"mod_time\":\"20"),
       "list");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"/etc/passwd\"}", allowed), 1, 1,
            "\"error\":\"path not allowed\""),
       "outside of what is allowed");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"d/../../../etc/passwd\"}", allowed), 1,
            1, "policy_denied"),
       "outside by ..");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"d/f.txt\"}", "[]"), 1, 1,
            "path not allowed"),
       "nothing allowed");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"/etc/hostname\"}", "null"), 0, 1,
            "content"),
       "no list, no check");
    char link[128];
    snprintf(link, sizeof(link), "%s/door", dir);
    ok(!symlink("/etc", link), "symlink");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"door/passwd\"}", allowed), 1, 1,
            "path not allowed"),
       "through a symlink");
    ok(says(file_system(p, "{\"action\":\"write\",\"path\":\"door/new\",\"content\":\"x\"}",
                        allowed),
            1, 1, "path not allowed"),
       "a new file through a symlink");
    ok(says(file_system(p, "{\"action\":\"delete\",\"path\":\"door\"}", allowed), 0, 1, "true") &&
           access("/etc/passwd", F_OK) == 0,
       "deleting a symlink deletes the symlink");
    ok(says(file_system(p, "{\"action\":\"delete\",\"path\":\"d\"}", allowed), 1, 1, "not empty"),
       "a directory with something in it");
    ok(says(file_system(p, "{\"action\":\"delete\",\"path\":\"d\",\"recursive\":true}", allowed), 0,
            1, "true"),
       "recursive");
    ok(says(file_system(p, "{\"action\":\"read\",\"path\":\"d/f.txt\"}", allowed), 1, 1,
            "No such file or directory"),
       "gone");
    ok(says(file_system(p, "{\"action\":\"fly\",\"path\":\"d\"}", allowed), 1, 1, "unknown action"),
       "unknown action");
}

static void test_files(struct peer *p)
{
    ok(peer_exited_with(BUILTIN(p, "some content", "fs-write", "x/y/file", "0640", "truncate"), 0),
       "fs-write");
    ok(peer_exited_with(BUILTIN(p, " more", "fs-write", "x/y/file", "0640", "append"), 0),
       "append");
    ok(peer_out_is(BUILTIN(p, "", "fs-read", "x/y/file"), 1, "some content more"), "fs-read");
    ok(peer_out_is(BUILTIN(p, "", "fs-read", "x/y/file", "5", "7"), 1, "content"), "a part of it");
    struct peer_exec *e = BUILTIN(p, "", "fs-stat", "x/y/file");
    ok(says(e, 0, 1, "\"size\":17") && says(e, 0, 1, "\"mode\":\"0640\"") &&
           says(e, 0, 1, "\"type\":\"file\""),
       "fs-stat");
    e = BUILTIN(p, "", "fs-list", "x", "recursive");
    ok(says(e, 0, 1, "\"path\":\"x/y/file\"") && says(e, 0, 1, "\"truncated\":false"), "fs-list");
    ok(says(BUILTIN(p, "", "fs-read", "nothing"), 1, 2, "\"code\":\"not_found\""), "not_found");
    ok(says(BUILTIN(p, "", "fs-read", "x"), 1, 2, "\"code\":\"conflict\""), "a directory");
    ok(says(BUILTIN(p, "", "fs-mkdir", "x"), 1, 2, "\"code\":\"conflict\""),
       "mkdir of what exists");
    ok(peer_exited_with(BUILTIN(p, "", "fs-mkdir", "x", "parents"), 0), "mkdir with parents");
    ok(says(BUILTIN(p, "", "fs-remove", "x"), 1, 2, "\"code\":\"conflict\""),
       "remove of a full one");
    ok(peer_exited_with(BUILTIN(p, "", "fs-move", "x/y/file", "x/moved"), 0) &&
           peer_out_is(BUILTIN(p, "", "fs-read", "x/moved"), 1, "some content more"),
       "fs-move");
    ok(peer_exited_with(BUILTIN(p, "", "fs-move", "x/moved", "/dev/shm/test-inside-moved"), 0) &&
           peer_exited_with(BUILTIN(p, "", "fs-move", "/dev/shm/test-inside-moved", "x/moved"),
                            0) &&
           peer_out_is(BUILTIN(p, "", "fs-read", "x/moved"), 1, "some content more"),
       "between mounts");
    ok(says(BUILTIN(p, "", "fs-list", "x/moved"), 1, 2, "not a directory"), "list of a file");
    ok(says(BUILTIN(p, "", "fs-write", "x", "0644", "truncate"), 1, 2, "conflict"),
       "write to a directory");
    ok(says(BUILTIN(p, "", "fs-write", "f", "9", "truncate"), 1, 2, "invalid_request"),
       "a bad mode");
    e = BUILTIN(p, "", "tar-create", "x");
    _cleanup_free_ char *tar = xcalloc(1, e->out[0].len + 1);
    size_t len = e->out[0].len;
    memcpy(tar, e->out[0].data, len);
    ok(peer_exited_with(e, 0) && len % 512 == 0, "tar-create");
    ok(peer_exited_with(run_builtin(p, (const char *[]){"tar-extract", "z/copy", NULL}, tar, len),
                        0) &&
           peer_out_is(BUILTIN(p, "", "fs-read", "z/copy/moved"), 1, "some content more"),
       "tar-extract");
    memcpy(tar, "../evil", 8);
    ok(says(run_builtin(p, (const char *[]){"tar-extract", "z/copy", NULL}, tar, len), 1, 2,
            "invalid_request"),
       "a broken archive");
    ok(peer_exited_with(BUILTIN(p, "", "fs-remove", "x", "recursive"), 0) &&
           peer_exited_with(BUILTIN(p, "", "fs-remove", "z", "recursive"), 0),
       "fs-remove");
    ok(says(BUILTIN(p, "", "ps"), 0, 1, "mas-toolrunner"), "ps");
}

static int connect_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 3000 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0; i++)
        usleep(10000);
    struct timeval limit = {.tv_sec = 30};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

static void answer_open(struct peer *p, uint32_t stream, int error)
{
    msg_open_result_format(&p->out, stream, &(struct msg_open_result){error});
    peer_flush(p);
}

static void test_gateway(const char *binary)
{
    static struct peer p;
    char path[128], text[64] = "";
    snprintf(path, sizeof(path), "%s/gateway.sock", dir);
    peer_start(&p, binary, (const char *[]){"--gateway-socket", path, NULL});
    (void)!peer_wait(&p, p.hello_ok);
    int fd = connect_unix(path);
    ok(peer_wait(&p, p.n_tunnels == 1) && p.tunnels[0].stream % 2 == 0, "OPEN with an even id");
    struct peer_tunnel *t = &p.tunnels[0];
    ok(write(fd, "request", 7) == 7, "sent");
    peer_idle(&p, 50);
    ok(t->in.len == 0, "no data before OPEN_RESULT");
    answer_open(&p, t->stream, 0);
    ok(peer_wait(&p, t->in.len == 7) && !memcmp(t->in.data, "request", 7), "data to the outside");
    msg_data_format(&p.out, t->stream, &(struct msg_data){0, (const uint8_t *)"response", 8});
    peer_flush(&p);
    ok(recv(fd, text, sizeof(text), 0) == 8 && !memcmp(text, "response", 8), "data to the inside");
    ok(peer_wait(&p, t->acked == 8), "DATA_ACK");
    size_t len = 2 << 20;
    _cleanup_free_ char *big = xcalloc(1, len);
    for (size_t i = 0; i < len; i++)
        big[i] = (char)(i * 40503u >> 7);
    if (fork() == 0) {
        fd_write_all(fd, big, len);
        _exit(0);
    }
    close(fd);
    ok(peer_wait(&p, t->in.len == 7 + len) && !memcmp(t->in.data + 7, big, len) && !p.gap,
       "2 MiB, more than the window");
    ok(peer_wait(&p, t->closed), "CLOSE after the last byte");
    fd = connect_unix(path);
    (void)!peer_wait(&p, p.n_tunnels == 2);
    answer_open(&p, p.tunnels[1].stream, ECONNREFUSED);
    ok(recv(fd, text, 1, 0) == 0, "a refused opening closes the socket");
    close(fd);
    int fds[40];
    for (size_t i = 0; i < 40; i++)
        fds[i] = connect_unix(path);
    peer_idle(&p, 100);
    ok(p.n_tunnels == 2 + 32, "at most 32 at once: %zu", p.n_tunnels);
    answer_open(&p, p.tunnels[2].stream, 0);
    frame_append(&p.out, MSG_CLOSE, p.tunnels[2].stream, NULL, 0);
    peer_flush(&p);
    ok(recv(fds[0], text, 1, 0) == 0 && peer_wait(&p, p.n_tunnels == 3 + 32), "CLOSE makes room");
    peer_reconnect(&p, 2);
    ok(recv(fds[1], text, 1, 0) == 0, "they end with the connection");
    for (size_t i = 0; i < 40; i++)
        close(fds[i]);
    peer_stop(&p);
}

static struct sockaddr_in free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(!bind(fd, (struct sockaddr *)&a, size) &&
           !getsockname(fd, (struct sockaddr *)&a, &size));
    return a;
}

/* A connection through the proxy that is carried in frames, because the peer takes no sockets. */
static int open_carried(struct peer *p, const struct sockaddr_in *at, struct peer_tunnel **ret)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = p->n_tunnels;
    assert(!connect(fd, (const struct sockaddr *)at, sizeof(*at)));
    (void)!peer_wait(p, p->n_tunnels == n + 1);
    if (n == 0) {
        answer_open(p, p->tunnels[n++].stream, EPERM);
        (void)!peer_wait(p, p->n_tunnels == n + 1);
    }
    *ret = &p->tunnels[n];
    answer_open(p, (*ret)->stream, 0);
    return fd;
}

static void close_by_reset(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

static void test_carried_resets(const char *binary)
{
    static struct peer p;
    static char answer[100000];
    char port[8];
    struct peer_tunnel *t;
    struct sockaddr_in at = free_port();
    snprintf(port, sizeof(port), "%u", ntohs(at.sin_port));
    peer_start(&p, binary, (const char *[]){"--proxy-port", port, NULL});
    (void)!peer_wait(&p, p.hello_ok);

    int fd = open_carried(&p, &at, &t);
    ok(write(fd, "request", 7) == 7 && peer_wait(&p, t->in.len == 7), "a client that has sent");
    close_by_reset(fd);
    ok(peer_wait(&p, t->closed) && t->reset, "and resets: CLOSE says so");

    fd = open_carried(&p, &at, &t);
    ok(write(fd, "request", 7) == 7 && shutdown(fd, SHUT_WR) == 0 && peer_wait(&p, t->in.len == 7),
       "a client that sends no more");
    close_by_reset(fd);
    ok(peer_wait(&p, t->closed) && t->reset, "and resets while it waits");

    fd = open_carried(&p, &at, &t);
    ok(shutdown(fd, SHUT_RDWR) == 0 && peer_wait(&p, t->closed) && !t->reset,
       "an ordinary end stays one");
    close(fd);

    for (int reset = 0; reset < 2; reset++) {
        fd = open_carried(&p, &at, &t);
        for (size_t sent = 0; sent < sizeof(answer); sent += 50000)
            msg_data_format(&p.out, t->stream,
                            &(struct msg_data){sent, (const uint8_t *)answer + sent, 50000});
        msg_close_format(&p.out, t->stream, &(struct msg_close){.reset = reset});
        peer_flush(&p);
        size_t got = 0;
        ssize_t n;
        while ((n = recv(fd, answer, sizeof(answer), 0)) > 0)
            got += (size_t)n;
        ok(got == sizeof(answer) && (reset ? n < 0 && errno == ECONNRESET : n == 0),
           "all of an answer, and its %s: %zu, %zd", reset ? "reset" : "end", got, n);
        close(fd);
    }
    peer_stop(&p);
}

static pid_t start_listener(const char *binary, const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(binary, binary, "--unix", path, "--workdir", dir, NULL);
        _exit(127);
    }
    return pid;
}

static bool line_answer(int fd, const char *request, const char *part)
{
    char text[8192];
    size_t len = 0;
    if (fd_write_all(fd, request, strlen(request)) < 0)
        return false;
    while (len < sizeof(text) - 1) {
        ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
        if (text[len - 1] == '\n')
            break;
    }
    text[len] = 0;
    if (!strstr(text, part))
        printf("# %s", text);
    return strstr(text, part);
}

/* What narrows a call is held or refused by name, whatever shape the request has. */
static void expect_guards_held(int fd)
{
    static const char shell[] = "\"tool\":\"shell\",\"args\":{\"command\":\"echo ran\"}";
    static const struct {
        const char *tool, *rest, *part;
    } cases[] = {
        {shell, "\"Policy\":{}", "did you mean 'policy'?"},
        {shell, "\"polcy\":{}", "did you mean 'policy'?"},
        {shell, "\"limits\":{}", "there is no member 'limits'"},
        {"\"tool\":{\"name\":\"shell\",\"args\":{\"command\":\"echo ran\"}}", "\"Policy\":{}",
         "did you mean 'policy'?"},
        {shell, "\"policy\":[]", "'policy' must be an object"},
        {shell, "\"policy\":{\"AllowedCaps\":[\"file\"]}", "capability not allowed: unsafe"},
        {"\"tool\":\"code\",\"args\":{\"language\":\"sh\",\"code\":\"echo ran\"}",
         "\"policy\":{\"allowed_caps\":[\"network\"]}", "capability not allowed: unsafe"},
        {"\"tool\":\"file_system\",\"args\":{\"action\":\"list\",\"path\":\"/tmp\"}",
         "\"policy\":{\"AllowedCaps\":[\"unsafe\"],\"AllowedPaths\":[\"/tmp\"]}",
         "capability not allowed: file"},
        {"\"tool\":\"calculator\",\"args\":{\"expression\":\"1\"}",
         "\"policy\":{\"AllowedCaps\":[\"unsafe\"]}", "capability not allowed: the tool has none"},
        {shell, "\"policy\":{\"MemoryLimit\":1048576}",
         "cannot hold a call to 'policy.MemoryLimit'"},
        {shell, "\"policy\":{\"MemoryLimit\":1e300}", "cannot hold a call to 'policy.MemoryLimit'"},
        {"\"tool\":\"calculator\",\"args\":{\"expression\":\"1\"}",
         "\"policy\":{\"memory_limit\":1048576}", "cannot hold a call to 'policy.MemoryLimit'"},
        {shell, "\"policy\":{\"MaxConcurrent\":1}", "cannot hold a call to 'policy.MaxConcurrent'"},
        {shell, "\"policy\":{\"EnvWhitelist\":[\"A\"]}",
         "cannot hold a call to 'policy.EnvWhitelist'"},
        {shell, "\"policy\":{\"network\":{\"Enabled\":true,\"allowed_hosts\":[\"a.test\"]}}",
         "cannot hold a call to 'policy.Network.AllowedHosts'"},
        {"\"tool\":\"shell\",\"args\":{\"command\":\"echo ran\",\"argv\":[\"echo\",\"ran\"]}",
         "\"policy\":{}", "shell needs either 'command' or 'argv'"},
        {shell, "\"policy\":{\"AllowedCaps\":[\"unsafe\"]}", "\"stdout\":\"ran\\n\""},
        {shell, "\"policy\":{\"Timeout\":5e9}", "\"stdout\":\"ran\\n\""},
        {shell, "\"policy\":null,\"tool_version\":3", "\"stdout\":\"ran\\n\""},
        /* All that a client in Go sends of a policy that was not set. */
        {shell,
         "\"policy\":{\"AllowedTools\":null,\"AllowedCaps\":null,\"Workdir\":\"\",\"AllowedPaths\":"
         "null,\"EnvWhitelist\":null,\"Network\":{\"Enabled\":false,\"AllowedHosts\":null},"
         "\"Timeout\":0,\"MemoryLimit\":0,\"MaxConcurrent\":0}",
         "\"stdout\":\"ran\\n\""},
        {"\"tool\":\"calculator\",\"args\":{\"expression\":\"1\"}",
         "\"policy\":{\"Network\":{\"AllowedHosts\":[\"a.test\"]},\"EnvWhitelist\":[\"A\"]}",
         "\"result\":1}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[640];
        snprintf(line, sizeof(line), "{\"id\":\"g\",%s,%s}\n", cases[i].tool, cases[i].rest);
        ok(line_answer(fd, line, cases[i].part), "a guard of a line: %s", cases[i].rest);
    }
    ok(line_answer(fd, "{\"id\":\"g1\",\"tool\":5}\n",
                   "{\"id\":\"g1\",\"error\":\"invalid request: 'tool' must be a string\","
                   "\"exit_code\":1,\"duration\":\"0s\"}"),
       "a refused line has its id");
    ok(line_answer(fd,
                   "{\"tool_call_id\":\"g2\",\"tool\":{\"name\":\"calculator\"},\"policy\":5}\n",
                   "{\"tool_call_id\":\"g2\",\"status\":\"error\",\"error\":{\"code\":"
                   "\"invalid_request\",\"message\":\"'policy' must be an object\"},"
                   "\"exit_code\":1}"),
       "a refused request of the execute shape is answered in kind");
}

static void test_lines(const char *binary)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/port.sock", dir);
    pid_t pid = start_listener(binary, path);
    int fd = connect_unix(path);
    expect_guards_held(fd);
    ok(line_answer(
           fd, "{\"id\":\"c1\",\"tool\":\"calculator\",\"args\":{\"expression\":\"2+3\"}}\n",
           "{\"id\":\"c1\",\"result\":{\"expression\":\"2+3\",\"result\":5},\"exit_code\":0,"
           "\"duration\":\""),
       "a JSON line");
    ok(line_answer(fd, "nonsense\n", "{\"id\":\"\",\"error\":\"invalid request"),
       "a line that is not JSON");
    ok(line_answer(fd, "{\"id\":\"c2\",\"tool\":\"fly\",\"args\":{}}\n", "tool not found"),
       "unknown tool");
    ok(line_answer(
           fd, "{\"id\":\"c3\",\"tool\":\"shell\",\"args\":{\"command\":\"echo hi; exit 3\"}}\n",
           "\"stdout\":\"hi\\n\",\"stderr\":\"\",\"exit_code\":3}"),
       "shell");
    ok(line_answer(fd,
                   "{\"id\":\"c4\",\"tool\":\"shell\",\"args\":{\"command\":\"sleep "
                   "30\"},\"policy\":{\"Timeout\":100000000}}\n",
                   "timed out"),
       "a command that takes too long");
    static const char *const unread[] = {"\"soon\"", "\"\"", "\"-1s\"", "-1", "1.5", "true", "[1]"};
    for (size_t i = 0; i < sizeof(unread) / sizeof(unread[0]); i++) {
        char line[200];
        snprintf(line, sizeof(line),
                 "{\"id\":\"c4\",\"tool\":\"shell\",\"args\":{\"command\":\"true\"},"
                 "\"policy\":{\"Timeout\":%s}}\n",
                 unread[i]);
        ok(line_answer(fd, line, i < 5 ? "'Timeout' is neither" : "'policy.Timeout' must be"),
           "a timeout that is none: %s", unread[i]);
    }
    static const char *const wrong[][2] = {
        {"\"AllowedTools\":5", "'policy.AllowedTools' must be an array"},
        {"\"AllowedTools\":{\"a\":\"b\"}", "'policy.AllowedTools' must be an array"},
        {"\"allowed_tools\":[5]", "'policy.allowed_tools[0]' must be a string"},
        {"\"AllowedPaths\":\"/tmp\"", "'policy.AllowedPaths' must be an array"},
        {"\"AllowedPaths\":[\"/tmp\",[]]", "'policy.AllowedPaths[1]' must be a string"},
        {"\"Workdir\":[\"/tmp\"]", "'policy.Workdir' must be a string"},
        {"\"AllowedCaps\":true", "'policy.AllowedCaps' must be an array"},
        {"\"EnvWhitelist\":1", "'policy.EnvWhitelist' must be an array"},
        {"\"Network\":false", "'policy.Network' must be an object"},
        {"\"Network\":{\"enabled\":0}", "'policy.Network.enabled' must be true or false"},
        {"\"Network\":{\"AllowedHosts\":{}}", "'policy.Network.AllowedHosts' must be an array"},
        {"\"MemoryLimit\":\"1\"", "'policy.MemoryLimit' must be a whole number"},
        {"\"MaxConcurrent\":1.5", "'policy.MaxConcurrent' must be a whole number"},
        {"\"AllowedTools\":[],\"allowed_tools\":[\"fetch\"]", "'policy' has both"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char line[256];
        snprintf(line, sizeof(line),
                 "{\"id\":\"c4\",\"tool\":\"shell\",\"args\":{\"command\":\"true\"},"
                 "\"policy\":{%s}}\n",
                 wrong[i][0]);
        ok(line_answer(fd, line, wrong[i][1]), "a policy that is none: %s", wrong[i][0]);
    }
    ok(line_answer(fd,
                   "{\"id\":\"c5\",\"tool\":\"code\",\"args\":{\"language\":\"bash\",\"code\":"
                   "\"echo $((6*7))\"}}\n",
                   "\"stdout\":\"42\\n\""),
       "code");
    ok(line_answer(fd,
                   "{\"id\":\"c6\",\"tool\":\"file_system\",\"args\":{\"action\":\"read\",\"path\":"
                   "\"/etc/passwd\"},\"policy\":{\"AllowedPaths\":[\"/tmp\"]}}\n",
                   "path not allowed"),
       "policy paths");
    ok(line_answer(
           fd,
           "{\"id\":\"c9\",\"tool\":\"file_system\",\"args\":{\"action\":\"read\",\"path\":"
           "\"/tmp/none\"},\"policy\":{\"AllowedPaths\":[\"/tmp\"]}}\n",
           "{\"id\":\"c9\",\"result\":{\"success\":false,\"error\":\"read /tmp/none: No such file or "
           "directory\"},\"exit_code\":0,"),
       "what a tool says did not succeed is a result");
    ok(line_answer(
           fd,
           "{\"tool_call_id\":\"c7\",\"tool\":{\"name\":\"calculator\",\"args\":{\"expression\":"
           "\"1/0\"}}}\n",
           "{\"tool_call_id\":\"c7\",\"status\":\"error\",\"error\":{\"code\":\"tool_failed\","
           "\"message\":\"division by zero\"},\"exit_code\":1}"),
       "the execute shape is answered in kind");
    ok(line_answer(fd,
                   "{\"id\":\"c8\",\"tool\":\"calculator\",\"args\":{},\"policy\":{\"allowed_"
                   "tools\":[\"fetch\"]}}\n",
                   "tool not allowed"),
       "policy tools");
    close(fd);
    static struct peer p;
    p = (struct peer){.next_stream = 1, .next_request = 1, .channel = -1};
    strbuf_init(&p.in, 1 << 20);
    strbuf_init(&p.out, 1 << 20);
    p.fd = connect_unix(path);
    p.pid = pid;
    peer_hello(&p, 1);
    ok(peer_out_is(peer_run_argv(&p, (const char *[]){"echo", "framed", NULL}), 1, "framed\n"),
       "frames on the same port");
    kill(pid, SIGTERM);
    kill(pid, SIGTERM);
    ok(WIFEXITED(peer_stop(&p)), "SIGTERM twice ends it");
}

/* A stand-in for the hypervisor: takes CONNECT, says what it is told to, then relays one line. */
static pid_t start_hypervisor(const char *path, const char *greeting)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 4) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        char text[1024];
        int c = accept(fd, NULL, NULL);
        ssize_t n = read(c, text, sizeof(text));
        if (n == 13 && !memcmp(text, "CONNECT 5252\n", 13) && *greeting) {
            fd_write_all(c, greeting, strlen(greeting));
            while ((n = read(c, text, sizeof(text))) > 0) {
                fd_write_all(c, text, (size_t)n);
                if (text[n - 1] == '\n')
                    break;
            }
        }
        if (!*greeting)
            sleep(5);
        _exit(0);
    }
    close(fd);
    return pid;
}

static void expect_client(const char *client, const char *greeting, const char *input, int code,
                          const char *part)
{
    char path[128], command[1024], text[4096];
    snprintf(path, sizeof(path), "%s/vsock", dir);
    pid_t pid = start_hypervisor(path, greeting);
    snprintf(command, sizeof(command),
             "printf '%s' | MAS_VSOCK_PORT=5252 %s --vsock %s --timeout 300ms 2>&1", input, client,
             path);
    FILE *f = popen(command, "r");
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = 0;
    int status = pclose(f);
    ok(WEXITSTATUS(status) == code && strstr(text, part), "client, greeted '%.2s': %d %.*s",
       greeting, WEXITSTATUS(status), (int)strcspn(text, "\n"), text);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_client(const char *client)
{
    expect_client(client, "OK 1024\n", "{\"id\":\"x\",\n\"a\":1}\n", 0,
                  "{\"id\":\"x\", \"a\":1}\n");
    expect_client(client, "NO\n", "{}", 1, "answered 'NO'");
    expect_client(client, "", "{}", 3, "timed out");
    expect_client(client, "OK 1\n", "", 1, "no request");
    char command[512];
    snprintf(command, sizeof(command), "echo {} | %s --vsock /no/such/socket 2>/dev/null", client);
    ok(WEXITSTATUS(system(command)) == 1, "no socket");
    snprintf(command, sizeof(command), "%s 2>/dev/null </dev/null", client);
    ok(WEXITSTATUS(system(command)) == 2, "usage");
}

/* As peer_start(), in a new pid namespace. */
static bool start_pid1(struct peer *p, const char *binary, const char *const *options)
{
    int conn[2], channel[2];
    *p = (struct peer){.next_stream = 1, .next_request = 1};
    strbuf_init(&p->in, 1 << 20);
    strbuf_init(&p->out, 8 << 20);
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, conn));
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel));
    p->pid = fork();
    if (p->pid == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(99);
        pid_t inner = fork();
        if (inner == 0) {
            const char *argv[32] = {binary, "--pid1"};
            for (size_t i = 0; options[i]; i++)
                argv[2 + i] = options[i];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int a = fcntl(conn[1], F_DUPFD, 10), b = fcntl(channel[1], F_DUPFD, 10);
            dup2(a, 3);
            dup2(b, 4);
            execv(binary, (char *const *)argv);
            _exit(127);
        }
        close(conn[1]);
        close(channel[1]);
        close(conn[0]);
        close(channel[0]);
        int status = 0;
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
    }
    close(conn[1]);
    close(channel[1]);
    p->fd = conn[0];
    p->channel = channel[0];
    peer_hello(p, 1);
    return peer_wait(p, p->hello_ok);
}

static void test_pid1(const char *binary)
{
    static struct peer p;
    if (!start_pid1(
            &p, binary,
            (const char *[]){"--uid", "1000", "--gid", "1001", "--workdir", "/tmp", NULL})) {
        ok(true, "# SKIP pid namespaces are not to be had here");
        peer_stop(&p);
        return;
    }
    struct peer_exec *e = peer_shell(
        &p, "id -u; id -g; id -G; echo $$; grep -c NoNewPrivs:.1 /proc/thread-self/status");
    ok(e->exited && !strncmp(e->out[0].data, "1000\n1001\n1001\n", 15),
       "commands are the tool's user");
    ok(e->pid > 1 && e->pid < 10, "pids are those of the namespace: %u", e->pid);
    e = peer_shell(&p, "kill -TERM 1 2>&1; kill -KILL 1; echo still");
    ok(strstr(e->out[0].data, "not permitted") && strstr(e->out[0].data, "still\n"),
       "nobody inside can signal PID 1");
    struct msg_spawn m = peer_spawn_message(
        &p, (const char *[]){"sh", "-c", "(setsid sleep 0.2 & ) ; echo ok", NULL});
    m.drain_grace_ms = 0;
    e = peer_run(&p, &m);
    ok(peer_exited_with(e, 0), "an orphan is left behind");
    peer_idle(&p, 400);
    m = peer_spawn_message(&p, (const char *[]){"ps", NULL});
    m.flags = SPAWN_BUILTIN;
    ok(peer_exited_with(peer_run(&p, &m), 0), "builtins as the tool's user");
    m = peer_spawn_message(
        &p, (const char *[]){"sh", "-c", "tty && test -w $(tty) && stat -c %u $(tty)", NULL});
    m.flags = SPAWN_PTY;
    e = peer_run(&p, &m);
    ok(peer_exited_with(e, 0) && strstr(e->out[0].data, "1000"), "its terminal is the tool's");
    ok(WIFEXITED(peer_stop(&p)), "PID 1 ends with the warden's channel");
}

static void test_shared_uid(const char *binary)
{
    static struct peer p;
    if (!start_pid1(&p, binary, (const char *[]){"--shared-uid", "--workdir", "/tmp", NULL})) {
        ok(true, "# SKIP pid namespaces are not to be had here");
        peer_stop(&p);
        return;
    }
    struct peer_exec *e = peer_shell(&p, "kill -TERM 1 2>&1; sleep 0.1; echo still");
    ok(e->exited && strstr(e->out[0].data, "still"), "a signal does not end the runner");
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1u /* the version, please */);
    if (abi >= 6)
        ok(strstr(e->out[0].data, "not permitted") != NULL, "Landlock keeps signals off it");
    else
        ok(true, "# SKIP signals need Landlock ABI 6, this kernel has %ld", abi);
    ok(peer_exited_with(peer_shell(&p, "true"), 0), "which goes on");
    peer_stop(&p);
}

int main(int argc, char **argv)
{
    static struct peer p;
    if (argc != 3 || !mkdtemp(dir))
        tap_skip_all("usage: test-runner-inside MAS-TOOLRUNNER MAS-TOOLRUNNER-CLIENT");
    signal(SIGPIPE, SIG_IGN);
    peer_start(&p, argv[1], NULL);
    test_calculator(&p);
    test_file_system(&p);
    peer_stop(&p);
    peer_start(&p, argv[1], NULL);
    test_files(&p);
    peer_stop(&p);
    test_gateway(argv[1]);
    test_carried_resets(argv[1]);
    test_lines(argv[1]);
    test_client(argv[2]);
    test_pid1(argv[1]);
    test_shared_uid(argv[1]);
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ok(system(command) == 0, "cleaned up");
    return tap_done();
}
