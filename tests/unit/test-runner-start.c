/* SPDX-License-Identifier: Apache-2.0 */
/* Starts of commands that the runner does not wait for: many at once, failures, signals to those
 * that have not begun, and programs whose execve() hangs. A file whose lease we hold makes it hang:
 * opening it waits until we give the lease up. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"

#define MANY 60

static char dir[] = "/tmp/test-runner-start-XXXXXX";
static char plain[64], script[64], broken[64];

static void write_file(char path[64], const char *name, const char *text, mode_t mode)
{
    snprintf(path, 64, "%s/%s", dir, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
    assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* --- many at once */

static const struct kind {
    const char *what, *argv[4];
    const char *cwd, *stage;
    int error;
} kinds[] = {
    {"a program", {"sh", "-c", "echo good; exit 7"}, "", NULL, 0},
    {"a missing one", {"no-such-program"}, "", "exec", ENOENT},
    {"one that may not be executed", {plain}, "", "exec", EACCES},
    {"a directory", {dir}, "", "exec", EISDIR},
    {"a directory to start in that is not there", {"true"}, "/no/such/dir", "chdir", ENOENT},
    {"a script without its interpreter", {broken}, "", "exec", ENOENT},
};

static bool ended_as(const struct peer_exec *e, const struct kind *k)
{
    if (!k->error)
        return e->n_started == 1 && !e->failed && e->n_exit == 1 && peer_exited_with(e, 7) &&
               peer_out_is(e, 1, "good\n");
    return !e->started && !e->exited && e->failed && e->error == k->error &&
           !strcmp(e->stage, k->stage);
}

static void test_many(struct peer *p)
{
    struct peer_exec *execs[MANY];
    size_t n_kinds = sizeof(kinds) / sizeof(kinds[0]), done = 0, wrong[8] = {0};
    for (size_t i = 0; i < MANY; i++) {
        const struct kind *k = &kinds[i % n_kinds];
        struct msg_spawn m = peer_spawn_message(p, k->argv);
        m.cwd = k->cwd;
        msg_spawn_format(&p->out, p->next_stream, &m);
        execs[i] = peer_find(p, p->next_stream);
        p->next_stream += 2;
    }
    peer_flush(p);
    for (; done < MANY && peer_wait(p, execs[done]->exited || execs[done]->failed); done++)
        continue;
    ok(done == MANY && !p->gap, "%d at once, and each is answered", MANY);
    for (size_t i = 0; i < done; i++)
        wrong[i % n_kinds] += !ended_as(execs[i], &kinds[i % n_kinds]);
    for (size_t i = 0; i < n_kinds; i++)
        ok(!wrong[i], "%s", kinds[i].what);
    for (size_t i = 0; i < MANY; i++) {
        peer_forget(p, execs[i]);
        strbuf_done(&execs[i]->out[0]);
        strbuf_done(&execs[i]->out[1]);
    }
    p->n_execs = 0;
}

/* --- signals that come with the SPAWN */

static struct peer_exec *spawn_and_signal(struct peer *p, const char *const *argv, int signo)
{
    struct msg_spawn m = peer_spawn_message(p, argv);
    uint32_t stream = p->next_stream;
    p->next_stream += 2;
    msg_spawn_format(&p->out, stream, &m);
    msg_signal_format(&p->out, stream, &(struct msg_signal){1, signo, 0});
    peer_flush(p);
    return peer_find(p, stream);
}

static bool ended_by(const struct peer_exec *e, int signo)
{
    return e->exited && WIFSIGNALED(e->exit.wait_status) && WTERMSIG(e->exit.wait_status) == signo;
}

static void test_signals(struct peer *p)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct peer_exec *e =
            spawn_and_signal(p, (const char *[]){"sleep", "60", NULL}, signals[i]);
        ok(peer_wait(p, e->exited) && e->n_started == 1 && ended_by(e, signals[i]) &&
               e->exit.flags & EXIT_SIGNALED,
           "signal %d in one write with the SPAWN ends it", signals[i]);
        e = spawn_and_signal(p, (const char *[]){"/no/such/program", NULL}, signals[i]);
        /* Only one that took very long to fail can be reached by the signal. */
        ok(peer_wait(p, e->failed || e->exited) &&
               (e->exited ? ended_by(e, signals[i]) : e->error == ENOENT),
           "and does not make a start of a failure");
    }
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sleep", "60", NULL});
    m.timeout_ms = 1;
    struct peer_exec *e = peer_run(p, &m);
    ok(ended_by(e, SIGTERM) && e->exit.flags & EXIT_TIMED_OUT && e->n_started == 1,
       "a timeout of a millisecond");
    m = peer_spawn_message(p, (const char *[]){"sleep", "60", NULL});
    e = peer_spawn(p, &m);
    peer_forget(p, e);
    m = peer_spawn_message(p, (const char *[]){"sh", "-c", "echo twice", NULL});
    msg_spawn_format(&p->out, p->next_stream, &m);
    e = peer_spawn(p, &m);
    ok(peer_wait(p, e->exited) && peer_out_is(e, 1, "twice\n") && e->n_started >= 1 &&
           e->n_exit == 1,
       "a SPAWN repeated at once is applied once");
}

/* --- execve() that hangs */

static bool was_wanted(int seconds)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    return sigtimedwait(&set, NULL, &(struct timespec){seconds, 0}) == SIGIO;
}

static int hold(const char *path)
{
    while (was_wanted(0))
        continue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? fd : -1;
}

static void let_go(int *fd)
{
    fcntl(*fd, F_SETLEASE, F_UNLCK);
    fd_close(fd);
}

static struct peer_exec *spawn_hanging(struct peer *p, struct msg_spawn *m)
{
    struct peer_exec *e = peer_spawn(p, m);
    ok(was_wanted(PEER_WAIT_MS / 1000) && !e->started, "an execve() hangs");
    return e;
}

static bool wait_for_end(struct peer *p, pid_t pid)
{
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (kill(pid, 0) == 0 && clock_mono_ms() < end)
        peer_idle(p, 10);
    return kill(pid, 0) < 0;
}

static void test_hanging(struct peer *p)
{
    struct msg_spawn cat = peer_spawn_message(p, (const char *[]){"cat", NULL});
    cat.flags = SPAWN_STDIN;
    struct peer_exec *other = peer_spawn(p, &cat);
    int held = hold(script);
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){script, NULL});
    struct peer_exec *e = spawn_hanging(p, &m);
    ok(peer_exited_with(peer_shell(p, "exit 3"), 3), "others start meanwhile");
    peer_stdin_close(p, other, 0);
    ok(peer_wait(p, other->exited) && peer_exited_with(other, 0),
       "and it holds no pipe of another's open");
    peer_spawn(p, &m);
    peer_reconnect(p, 2);
    ok(peer_wait(p, p->hello_ok && e->has_state) && !e->state.started && e->state.pid > 1 &&
           !e->started,
       "a new connection is told that it has not started");
    let_go(&held);
    ok(peer_wait(p, e->exited) && e->n_started == 1 && peer_exited_with(e, 4) &&
           peer_out_is(e, 1, "ran\n"),
       "it starts when it can");
    peer_spawn(p, &m);
    ok(peer_wait(p, e->n_started == 2), "and a repeated SPAWN is answered then");
}

static void test_hanging_signals(struct peer *p)
{
    int held = hold(script);
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){script, NULL});
    struct peer_exec *e = spawn_hanging(p, &m);
    peer_signal(p, e, 1, SIGTERM, 0);
    ok(peer_wait(p, e->exited) && ended_by(e, SIGTERM), "a signal reaches one that hangs");
    let_go(&held);
    held = hold(script);
    m = peer_spawn_message(p, (const char *[]){script, NULL});
    m.timeout_ms = 20;
    ok(peer_run(p, &m)->exit.flags & EXIT_TIMED_OUT, "a timeout, too");
    let_go(&held);
    held = hold(broken);
    m = peer_spawn_message(p, (const char *[]){broken, NULL});
    e = spawn_hanging(p, &m);
    let_go(&held);
    ok(peer_wait(p, e->failed || e->exited) && e->error == ENOENT && !e->started,
       "one that fails after it hung has failed");
}

static void test_hanging_ends(struct peer *p)
{
    int held = hold(script);
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){script, NULL});
    struct peer_exec *e = spawn_hanging(p, &m);
    peer_reconnect(p, 3);
    ok(peer_wait(p, e->has_state && p->hello_ok) && e->state.pid > 1, "its pid is known");
    peer_forget(p, e);
    ok(wait_for_end(p, (pid_t)e->state.pid), "a forgotten one is killed");
    let_go(&held);
    held = hold(script);
    m = peer_spawn_message(p, (const char *[]){script, NULL});
    e = spawn_hanging(p, &m);
    peer_reconnect(p, 4);
    ok(peer_wait(p, e->has_state && p->hello_ok) && e->state.pid > 1, "its pid is known");
    pid_t pid = (pid_t)e->state.pid;
    ok(WIFEXITED(peer_stop(p)), "the runner ends with its channel");
    ok(kill(pid, 0) < 0, "and what hangs with it");
    let_go(&held);
}

int main(int argc, char **argv)
{
    static struct peer p;
    sigset_t set;
    if (argc != 2 || !mkdtemp(dir))
        tap_skip_all("usage: test-runner-start PATH-OF-MAS-TOOLRUNNER");
    write_file(plain, "plain", "", 0644);
    write_file(script, "script", "#!/bin/sh\necho ran; exit 4\n", 0755);
    write_file(broken, "broken", "#!/no/such/interpreter\n", 0755);
    peer_start(&p, argv[1], (const char *[]){"--workdir", "/tmp", NULL});
    test_many(&p);
    test_signals(&p);
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int held = hold(script);
    if (held >= 0) {
        let_go(&held);
        test_hanging(&p);
        test_hanging_signals(&p);
        test_hanging_ends(&p);
    } else {
        ok(WIFEXITED(peer_stop(&p)), "no leases here (%s): the runner ends", strerror(errno));
    }
    unlink(plain);
    unlink(script);
    unlink(broken);
    rmdir(dir);
    return tap_done();
}
