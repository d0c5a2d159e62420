/* SPDX-License-Identifier: Apache-2.0 */
/* The runner program itself, over a socketpair: commands, streams, signals, reconnection. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"

static void test_commands(struct peer *p)
{
    struct peer_exec *e = peer_run_argv(p, (const char *[]){"echo", "hello", NULL});
    ok(p->hello_ok && p->preface, "preface and HELLO_OK");
    ok(e->started && e->pid > 1 && peer_exited_with(e, 0), "echo starts and ends");
    ok(peer_out_is(e, 1, "hello\n") && peer_out_is(e, 2, ""), "its output");
    ok(e->exit.end[0] == 6 && e->exit.end[1] == 0 && e->exit.wall_us > 0, "the account in EXIT");
    e = peer_shell(p, "echo out; echo err >&2; exit 3");
    ok(peer_exited_with(e, 3) && peer_out_is(e, 1, "out\n") && peer_out_is(e, 2, "err\n"),
       "both streams and an exit code");
    e = peer_shell(p, "kill -KILL $$");
    ok(e->exited && WIFSIGNALED(e->exit.wait_status) && WTERMSIG(e->exit.wait_status) == SIGKILL &&
           !(e->exit.flags & EXIT_SIGNALED),
       "ended by a signal of its own");
    e = peer_shell(p, "cat; pwd; echo $FOO; echo $HOME");
    ok(peer_exited_with(e, 0) && strstr(e->out[0].data, "\n\n/tmp\n"),
       "stdin is empty, env is whole");
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"pwd", NULL});
    m.cwd = "/usr";
    ok(peer_out_is(peer_run(p, &m), 1, "/usr\n"), "cwd");
    e = peer_shell(p, "ls /proc/self/fd; trap | wc -l; kill -PIPE $$");
    ok(e->exited && WIFSIGNALED(e->exit.wait_status), "SIGPIPE is not ignored in commands");
    ok(peer_out_is(e, 1, "0\n1\n2\n3\n0\n"), "no descriptor of the runner's");
}

static void expect_spawn_error(struct peer *p, const char *program, int error, const char *stage)
{
    struct peer_exec *e = peer_run_argv(p, (const char *[]){program, NULL});
    ok(e->failed && e->error == error && !strcmp(e->stage, stage),
       "'%s' fails with %s at %s: %s %s", program, strerror(error), stage, strerror(e->error),
       e->stage);
}

static void test_spawn_errors(struct peer *p, const char *dir)
{
    char file[256], script[256];
    snprintf(file, sizeof(file), "%s/plain", dir);
    snprintf(script, sizeof(script), "%s/script", dir);
    close(open(file, O_CREAT | O_WRONLY, 0644));
    int fd = open(script, O_CREAT | O_WRONLY, 0755);
    ok(write(fd, "echo script $1\n", 15) == 15, "script written");
    close(fd);
    expect_spawn_error(p, "no-such-program", ENOENT, "exec");
    expect_spawn_error(p, "/no/such/program", ENOENT, "exec");
    expect_spawn_error(p, "", ENOENT, "exec");
    expect_spawn_error(p, dir, EISDIR, "exec");
    expect_spawn_error(p, file, EACCES, "exec");
    struct peer_exec *e = peer_run_argv(p, (const char *[]){script, "x", NULL});
    ok(peer_out_is(e, 1, "script x\n"), "a script without #! is run by sh");
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"plain", NULL});
    char path[300];
    snprintf(path, sizeof(path), "PATH=/nowhere:%s:/bin", dir);
    const char *env[] = {path, NULL};
    m.env = (char **)env;
    e = peer_run(p, &m);
    ok(e->failed && e->error == EACCES, "found in PATH but not executable");
    m = peer_spawn_message(p, (const char *[]){"true", NULL});
    m.cwd = "/no/such/dir";
    e = peer_run(p, &m);
    ok(e->failed && e->error == ENOENT && !strcmp(e->stage, "chdir"), "a cwd that is not there");
    _cleanup_free_ char *big = xcalloc(1, 3 << 20);
    memset(big, 'x', (3 << 20) - 1);
    e = peer_run_argv(p, (const char *[]){"true", big, NULL});
    ok(e->failed && e->error == E2BIG, "an argument over the kernel's limit");
    m = peer_spawn_message(p, (const char *[]){"no-such-builtin", NULL});
    m.flags = SPAWN_BUILTIN;
    e = peer_run(p, &m);
    ok(e->failed && e->error == ENOENT && !strcmp(e->stage, "builtin"), "an unknown builtin");
    unlink(file);
    unlink(script);
}

static void test_stdin(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"cat", NULL});
    m.flags = SPAWN_STDIN;
    struct peer_exec *e = peer_spawn(p, &m);
    peer_stdin(p, e, 0, "hello ", 6);
    ok(peer_wait(p, e->stdin_acked == 6), "STDIN_ACK is credit");
    peer_stdin(p, e, 0, "hello world", 11);
    peer_stdin(p, e, 3, "lo wo", 5);
    peer_stdin_close(p, e, 11);
    ok(peer_wait(p, e->exited) && peer_out_is(e, 1, "hello world"),
       "repeated bytes are taken once");
    ok(e->stdin_closed, "the end is told");
    size_t len = 3 << 20;
    _cleanup_free_ char *big = xcalloc(1, len);
    for (size_t i = 0; i < len; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    m.request_id = p->next_request++;
    e = peer_spawn(p, &m);
    peer_stdin_all(p, e, big, len);
    ok(peer_wait(p, e->exited) && e->out[0].len == len && !memcmp(e->out[0].data, big, len),
       "3 MiB through cat");
    m = peer_spawn_message(p, (const char *[]){"sh", "-c", "exec 0<&-; sleep 2; echo done", NULL});
    m.flags = SPAWN_STDIN;
    e = peer_spawn(p, &m);
    peer_idle(p, 50);
    peer_stdin(p, e, 0, "nobody reads", 12);
    ok(peer_wait(p, e->exited) && peer_out_is(e, 1, "done\n") && e->stdin_closed &&
           e->stdin_acked == 12,
       "a command that closed its stdin");
}

static void test_output(struct peer *p)
{
    struct peer_exec *e = peer_shell(p, "seq 1 300000");
    ok(peer_exited_with(e, 0) && e->out[0].len == 1988895 && e->exit.end[0] == 1988895 &&
           !strncmp(e->out[0].data + 1988895 - 7, "300000\n", 7) && !p->gap,
       "2 MB of output, whole");
    p->no_acks = true;
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sh", "-c", "seq 1 300000", NULL});
    e = peer_spawn(p, &m);
    peer_idle(p, 300);
    ok(e->out[0].len == PROTO_WINDOW && !e->exited, "without ACK only the window is sent: %zu",
       e->out[0].len);
    struct peer_exec *other = peer_run_argv(p, (const char *[]){"echo", "hi", NULL});
    ok(peer_out_is(other, 1, "hi\n") && other->exited, "others go on meanwhile");
    p->no_acks = false;
    peer_ack(p, e, 1);
    ok(peer_wait(p, e->exited) && e->out[0].len == 1988895 && !p->gap,
       "and it goes on with the ACK");
}

static void test_signals(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(
        p, (const char *[]){"sh", "-c",
                            "trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.05; done",
                            NULL});
    struct peer_exec *e = peer_spawn(p, &m);
    ok(peer_wait(p, e->out[0].len == 3), "output arrives while it runs");
    peer_signal(p, e, 1, SIGUSR1, 0);
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 9) &&
           e->exit.flags == (EXIT_SIGNALED | EXIT_ALONE),
       "SIGUSR1 reaches it");
    m = peer_spawn_message(p, (const char *[]){"sh", "-c",
                                               "n=0; trap 'n=$((n+1)); echo $n' USR1; echo up;"
                                               "while :; do sleep 0.02; done",
                                               NULL});
    e = peer_spawn(p, &m);
    (void)!peer_wait(p, e->out[0].len == 3);
    for (int i = 0; i < 5; i++) {
        peer_signal(p, e, 77, SIGUSR1, 0);
        peer_idle(p, 30);
    }
    ok(peer_out_is(e, 1, "up\n1\n"), "one request id, one signal");
    peer_signal(p, e, 78, SIGTERM, 200);
    ok(peer_wait(p, e->exited) && WIFSIGNALED(e->exit.wait_status) &&
           WTERMSIG(e->exit.wait_status) == SIGTERM,
       "SIGTERM ends it");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c", "trap '' TERM; echo up; sleep 30 & wait; sleep 30", NULL});
    e = peer_spawn(p, &m);
    (void)!peer_wait(p, e->out[0].len == 3);
    peer_signal(p, e, 79, SIGTERM, 150);
    ok(peer_wait(p, e->exited) && WTERMSIG(e->exit.wait_status) == SIGKILL &&
           e->exit.wall_us < 5000000,
       "SIGKILL follows for one that ignores SIGTERM");
}

static void test_timeout(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sleep", "30", NULL});
    m.timeout_ms = 100;
    struct peer_exec *e = peer_run(p, &m);
    ok(e->exited && e->exit.flags & EXIT_TIMED_OUT && WTERMSIG(e->exit.wait_status) == SIGTERM &&
           e->exit.wall_us >= 100000 && e->exit.wall_us < 5000000,
       "timeout ends it with SIGTERM");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c", "trap '' TERM; while :; do sleep 1; done", NULL});
    m.timeout_ms = 50;
    m.kill_grace_ms = 100;
    e = peer_run(p, &m);
    ok(e->exited && e->exit.flags & EXIT_TIMED_OUT && WTERMSIG(e->exit.wait_status) == SIGKILL,
       "then with SIGKILL");
}

static void test_background(struct peer *p, const char *dir)
{
    char pid_file[256];
    snprintf(pid_file, sizeof(pid_file), "%s/pid", dir);
    struct msg_spawn m = peer_spawn_message(
        p, (const char *[]){"sh", "-c",
                            "echo first; (sleep 0.05; echo second; sleep 0.4; echo third) & exit 4",
                            NULL});
    m.drain_grace_ms = 200;
    struct peer_exec *e = peer_run(p, &m);
    ok(peer_exited_with(e, 4) && e->exit.flags & EXIT_PIPE_HELD,
       "a held pipe does not hold the exit");
    ok(peer_out_is(e, 1, "first\nsecond\n") && e->exit.end[0] == e->out[0].len,
       "output within the grace is kept");
    peer_idle(p, 400);
    ok(peer_out_is(e, 1, "first\nsecond\n") && e->n_exit == 1, "later output is dropped");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c", "setsid sleep 5 >/dev/null 2>&1 & echo x", NULL});
    m.drain_grace_ms = 5000;
    e = peer_run(p, &m);
    ok(peer_exited_with(e, 0) && !(e->exit.flags & EXIT_PIPE_HELD) && e->exit.wall_us < 1000000,
       "a background process with its own output holds nothing");
    ok(!(e->exit.flags & EXIT_ALONE), "and it is known that somebody is left");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c", "yes | head -c 3000000; yes & echo $! >\"$0\"; exec true",
                            pid_file, NULL});
    m.drain_grace_ms = 50;
    e = peer_run(p, &m);
    ok(e->exited && e->exit.flags & EXIT_PIPE_HELD && e->exit.end[0] >= 3000000 &&
           e->out[0].len == e->exit.end[0],
       "a background flood does not hold the exit either");
    m = peer_spawn_message(p, (const char *[]){"sh", "-c", "kill $(cat \"$0\")", pid_file, NULL});
    ok(peer_exited_with(peer_run(p, &m), 0), "and is ended by its pid");
    unlink(pid_file);
}

static void test_repeat(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sh", "-c", "echo once", NULL});
    struct peer_exec *e = peer_run(p, &m);
    struct peer_exec *again = peer_spawn(p, &m);
    ok(peer_wait(p, e->n_started == 2), "a repeated SPAWN is answered");
    peer_idle(p, 50);
    ok(peer_out_is(e, 1, "once\n") && !again->started && !again->exited, "and not applied twice");
    peer_forget(p, e);
    m = peer_spawn_message(p, (const char *[]){"sleep", "60", NULL});
    e = peer_spawn(p, &m);
    ok(peer_wait(p, e->started), "started");
    peer_forget(p, e);
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (kill((pid_t)e->pid, 0) == 0 && clock_mono_ms() < end)
        peer_idle(p, 10);
    ok(kill((pid_t)e->pid, 0) < 0, "a forgotten exec is killed and reaped");
}

static void test_pty(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(
        p,
        (const char *[]){"sh", "-c", "tty; stty size; read x; echo \"[$x]\"; cat; echo end", NULL});
    m.flags = SPAWN_PTY;
    m.rows = 30;
    m.cols = 100;
    struct peer_exec *e = peer_spawn(p, &m);
    ok(peer_wait(p, e->out[0].len > 0 && strstr(e->out[0].data, "30 100")), "window size");
    ok(strstr(e->out[0].data, "/dev/pts/"), "a terminal");
    peer_stdin(p, e, 0, "word\n", 5);
    ok(peer_wait(p, strstr(e->out[0].data, "[word]")), "input line");
    msg_resize_format(&p->out, e->stream, &(struct msg_resize){40, 120});
    peer_flush(p);
    peer_stdin_close(p, e, 5);
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 0) && strstr(e->out[0].data, "end\r\n"),
       "end of input, end of terminal");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c",
                            "trap 'stty size; exit 5' WINCH; echo up; while :; do sleep 0.02; done",
                            NULL});
    m.flags = SPAWN_PTY;
    e = peer_spawn(p, &m);
    (void)!peer_wait(p, e->out[0].len && strstr(e->out[0].data, "up"));
    msg_resize_format(&p->out, e->stream, &(struct msg_resize){40, 120});
    peer_flush(p);
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 5) && strstr(e->out[0].data, "40 120"),
       "resize");
    m = peer_spawn_message(p, (const char *[]){"sh", "-c", "echo up; exec sleep 30", NULL});
    m.flags = SPAWN_PTY;
    e = peer_spawn(p, &m);
    (void)!peer_wait(p, e->out[0].len);
    peer_stdin(p, e, 0, "\003", 1);
    ok(peer_wait(p, e->exited) && WIFSIGNALED(e->exit.wait_status) &&
           WTERMSIG(e->exit.wait_status) == SIGINT,
       "^C is SIGINT");
}

static void test_reconnect(struct peer *p)
{
    struct msg_spawn m = peer_spawn_message(
        p, (const char *[]){"sh", "-c", "seq 1 200000; read x; echo $x; exit 6", NULL});
    m.flags = SPAWN_STDIN;
    struct peer_exec *e = peer_spawn(p, &m);
    struct peer_exec *done = peer_shell(p, "echo done; exit 8");
    uint64_t generation = 2;
    for (; generation < 12; generation++) {
        for (int i = 0; i < 3; i++)
            peer_step(p, 100);
        p->no_acks = generation % 2; /* what was received is not always what was acknowledged */
        peer_reconnect(p, generation);
        (void)!peer_wait(p, p->hello_ok && e->has_state);
        p->no_acks = false;
        peer_ack(p, e, 1);
    }
    ok(peer_wait(p, e->out[0].len == 1288895), "all of it over 10 connections: %zu", e->out[0].len);
    _cleanup_strbuf_ struct strbuf want = STRBUF_INIT(4 << 20);
    for (int i = 1; i <= 200000; i++)
        strbuf_printf(&want, "%d\n", i);
    ok(want.len == e->out[0].len && !memcmp(want.data, e->out[0].data, want.len) && !p->gap,
       "no byte lost or doubled");
    ok(done->n_exit >= 2 && peer_exited_with(done, 8), "EXIT is repeated until FORGET: %u",
       done->n_exit);
    peer_forget(p, done);
    peer_stdin(p, e, 0, "answer\n", 7);
    (void)!peer_wait(p, e->stdin_acked == 7);
    e->exited = e->has_state = false; /* it may have ended already; EXIT comes again */
    peer_reconnect(p, generation);
    ok(peer_wait(p, e->exited && e->has_state) && peer_exited_with(e, 6), "exit code after it all");
    ok(e->state.stdin_received == 7 && e->state.started && e->state.request_id == m.request_id,
       "STATE tells what was received");
    peer_reconnect(p, generation - 1);
    ok(peer_wait(p, p->eof) && p->goodbye, "an older generation is sent away: %s", p->goodbye_text);
    peer_reconnect(p, generation + 1);
    ok(peer_wait(p, p->hello_ok), "and the next one is served");
}

/* What is kept is sent even when the new connection never says where it is. */
static void test_reconnect_silent(struct peer *p, uint64_t generation)
{
    struct msg_spawn m =
        peer_spawn_message(p, (const char *[]){"sh", "-c", "echo kept; exit 2", NULL});
    p->no_acks = true;
    struct peer_exec *e = peer_run(p, &m);
    strbuf_reset(&e->out[0]);
    e->exited = false;
    p->no_acks = false;
    peer_reconnect(p, generation);
    ok(peer_wait(p, e->exited) && peer_out_is(e, 1, "kept\n") && e->state.exited,
       "kept output and EXIT again without an ACK");
}

/* A connection that was made before the present one and arrives after it: one that says nothing,
 * and one whose HELLO comes late. */
static void test_late(struct peer *p, uint64_t generation)
{
    static struct peer late;
    int silent[2], conn[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, silent));
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, conn));
    late = (struct peer){.fd = conn[0], .channel = -1, .attempt = 1};
    strbuf_init(&late.in, 1 << 20);
    strbuf_init(&late.out, 8 << 20);
    p->attempt = 2;
    peer_reconnect(p, generation);
    ok(peer_wait(p, p->hello_ok), "the second connection of a generation");
    assert(fd_send_msg(p->channel, "c", 1, &silent[1], 1) == 1);
    assert(fd_send_msg(p->channel, "c", 1, &conn[1], 1) == 1);
    close(silent[1]);
    close(conn[1]);
    struct peer_exec *e = peer_shell(p, "echo still here");
    ok(peer_out_is(e, 1, "still here\n"), "one that says nothing does not take its place");
    peer_hello(&late, generation);
    ok(peer_wait(&late, late.eof) && late.goodbye && !late.hello_ok,
       "the first one of that generation is sent away: %s", late.goodbye_text);
    e = peer_shell(p, "echo and still");
    ok(peer_out_is(e, 1, "and still\n") && !p->eof, "the second one goes on");
    p->attempt = 3;
    peer_dial(p);
    peer_idle(p, 11000);
    peer_hello(p, generation);
    ok(peer_wait(p, p->hello_ok) && !p->eof, "a HELLO that takes its time is waited for");
    p->attempt = 0;
    peer_reconnect(p, generation + 1);
    ok(peer_wait(p, p->hello_ok), "the next generation counts from its beginning");
    close(silent[0]);
    close(late.fd);
    strbuf_done(&late.in);
    strbuf_done(&late.out);
}

static void expect_goodbye(struct peer *p, uint64_t *generation, const char *what,
                           const void *bytes, size_t len)
{
    strbuf_append(&p->out, bytes, len);
    peer_flush(p);
    bool gone = peer_wait(p, p->eof) && p->goodbye;
    peer_reconnect(p, ++*generation);
    ok(gone && peer_wait(p, p->hello_ok), "%s: GOODBYE, then a new connection", what);
}

static void test_malformed(struct peer *p, uint64_t generation)
{
    static const uint8_t garbage[64] = {0xff, 0xff, 0xff, 0xff};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    expect_goodbye(p, &generation, "garbage", garbage, sizeof(garbage));
    msg_started_format(&b, 1, &(struct msg_started){1, 1});
    expect_goodbye(p, &generation, "a frame of the wrong direction", b.data, b.len);
    strbuf_reset(&b);
    msg_hello_format(&b, 0, &(struct msg_hello){PROTO_VERSION, generation, 0});
    expect_goodbye(p, &generation, "a second HELLO", b.data, b.len);
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sleep", "1", NULL});
    m.flags = SPAWN_STDIN;
    struct peer_exec *e = peer_spawn(p, &m);
    (void)!peer_wait(p, e->started);
    strbuf_reset(&b);
    msg_ack_format(&b, e->stream, &(struct msg_ack){1, 1});
    expect_goodbye(p, &generation, "an ACK past the end", b.data, b.len);
    strbuf_reset(&b);
    msg_stdin_format(&b, e->stream, &(struct msg_stdin){5, (const uint8_t *)"x", 1});
    expect_goodbye(p, &generation, "a gap in STDIN", b.data, b.len);
    strbuf_reset(&b);
    msg_spawn_format(&b, 2, &m);
    m.request_id = 99999;
    strbuf_reset(&b);
    msg_spawn_format(&b, 2, &m);
    expect_goodbye(p, &generation, "a SPAWN on an even stream", b.data, b.len);
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 0), "the exec lived through all that");
}

static void test_limits(struct peer *p)
{
    struct msg_spawn m =
        peer_spawn_message(p, (const char *[]){"sh", "-c", "ulimit -v; ulimit -t", NULL});
    m.limit_as_bytes = 512 << 20;
    m.limit_cpu_s = 7;
    ok(peer_out_is(peer_run(p, &m), 1, "524288\n7\n"), "limits of one exec");
    m = peer_spawn_message(
        p, (const char *[]){"sh", "-c",
                            "cat /root/.profile /tmp/runner-narrow-ok 2>&1; echo w > "
                            "/tmp/runner-narrow-ok; echo x > /tmp/runner-narrow-no; ls /usr "
                            ">/dev/null && echo usr; echo n > /dev/null && echo null",
                            NULL});
    struct spawn_path paths[] = {{true, "/tmp/runner-narrow-ok"}, {false, "/no/such/path"}};
    int fd = open("/tmp/runner-narrow-ok", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    ok(write(fd, "seen\n", 5) == 5, "file written");
    close(fd);
    unlink("/tmp/runner-narrow-no");
    m.flags = SPAWN_NARROW;
    m.paths = paths;
    m.n_paths = 2;
    struct peer_exec *e = peer_run(p, &m);
    ok(e->exited && strstr(e->out[0].data, "/root/.profile: Permission denied") &&
           strstr(e->out[0].data, "seen\n") && strstr(e->out[0].data, "usr\nnull\n"),
       "a narrowed exec reaches what is listed");
    ok(access("/tmp/runner-narrow-no", F_OK) < 0, "and nothing else");
    unlink("/tmp/runner-narrow-ok");
    ok(!symlink("/root", "/tmp/runner-narrow-link"), "symlink");
    paths[0].path = "/tmp/runner-narrow-link";
    m.request_id = p->next_request++;
    e = peer_run(p, &m);
    ok(e->failed && e->error == ELOOP && !strcmp(e->stage, "narrow"),
       "a listed symlink is refused");
    unlink("/tmp/runner-narrow-link");
}

/* The dead are seen by their tracer first, and this one does not look. */
static void test_traced(struct peer *p, const char *binary)
{
    peer_start(p, binary, (const char *[]){"--workdir", "/tmp", NULL});
    struct peer_exec *e = peer_shell(p, "setsid sleep 300 >/dev/null 2>&1 & echo $!");
    pid_t left = (pid_t)atoi(e->out[0].data);
    ok(left > 1 && ptrace(PTRACE_SEIZE, left, NULL, NULL) == 0, "a process that we trace");
    ok(WIFEXITED(peer_stop(p)), "the runner ends without having seen it end");
    ok(waitpid(left, NULL, 0) == left, "and has ended it");
}

int main(int argc, char **argv)
{
    static struct peer p;
    char dir[] = "/tmp/test-runner-XXXXXX";
    if (argc != 2 || !mkdtemp(dir))
        tap_skip_all("usage: test-runner PATH-OF-MAS-TOOLRUNNER");
    peer_start(&p, argv[1], (const char *[]){"--workdir", "/tmp", NULL});
    test_commands(&p);
    test_spawn_errors(&p, dir);
    test_stdin(&p);
    test_output(&p);
    test_signals(&p);
    test_timeout(&p);
    ok(WIFEXITED(peer_stop(&p)), "the runner ends with its channel");
    peer_start(&p, argv[1], (const char *[]){"--workdir", "/tmp", NULL});
    test_background(&p, dir);
    test_repeat(&p);
    test_pty(&p);
    test_limits(&p);
    test_reconnect(&p);
    test_reconnect_silent(&p, 100);
    test_late(&p, 101);
    test_malformed(&p, 103);
    struct peer_exec *e = peer_shell(&p, "setsid sleep 300 >/dev/null 2>&1 & echo $!");
    ok(peer_exited_with(e, 0), "a background process of its own session");
    pid_t left = (pid_t)atoi(e->out[0].data);
    ok(left > 1 && kill(left, 0) == 0, "lives on");
    ok(WIFEXITED(peer_stop(&p)), "the runner ends with its channel");
    ok(kill(left, 0) < 0, "and everything that it started ends with it");
    test_traced(&p, argv[1]);
    rmdir(dir);
    return tap_done();
}
