/* SPDX-License-Identifier: Apache-2.0 */
/* The real link and the real runner as a pod has them: two users where the test is root, one
 * directory that both see, another one for the link alone. Connections come by mas-link --attach,
 * which is killed while a command prints.
 * Usage: test-pod-link MAS-LINK MAS-TOOLRUNNER */
#include <sys/un.h>

#include "proto/walls.h"
#include "tests/unit/pod-programs.h"
#include "tests/unit/tap.h"

static char link_program[112], runner_program[112]; /* copies that every user can reach */
static char dir[64], channel_path[96], door_dir[96], door_path[112], installed[112];
static char events_dir[96];

static pid_t link_start(void)
{
    return program_start(
        LINK_UID, -1,
        (const char *[]){link_program, "--listen", channel_path, "--door", door_path, NULL});
}

static pid_t runner_start(void)
{
    return program_start(RUNNER_UID, -1,
                         (const char *[]){installed, "--own-filter", "--shared-uid",
                                          "--channel-socket", channel_path, NULL});
}

/* A connection by a process of its own, as the cluster starts one. */
static pid_t peer_attach(struct peer *p)
{
    int pair[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    pid_t pid = program_start(
        LINK_UID, pair[1], (const char *[]){link_program, "--attach", "--door", door_path, NULL});
    close(pair[1]);
    peer_take(p, pair[0]);
    return pid;
}

static int connect_to(const char *path, int type)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

static void check_install(void)
{
    struct stat st;
    pid_t pid =
        program_start(RUNNER_UID, -1, (const char *[]){runner_program, "--install", dir, NULL});
    ok(end_of(pid) == 0 && stat(installed, &st) == 0 && (st.st_mode & 0777) == 0755,
       "the runner installs itself, executable");
    pid = program_start(RUNNER_UID, -1, (const char *[]){installed, "--version", NULL});
    ok(end_of(pid) == 0, "what was installed runs");
    pid = program_start(RUNNER_UID, -1,
                        (const char *[]){runner_program, "--install", "/proc/nowhere", NULL});
    ok(WEXITSTATUS(end_of(pid)) == EXIT_FAILURE, "a directory that is none is a failure");
}

static void check_broken_connections(struct peer *p, pid_t attached)
{
    char script[64];
    snprintf(script, sizeof(script), "seq %d", LINES);
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sh", "-c", script, NULL});
    struct peer_exec *e = peer_spawn(p, &m);
    int breaks = 0;
    for (size_t seen = 0; breaks < 5 && !e->exited; breaks++) {
        if (!peer_wait(p, e->out[0].len > seen + 100000 || e->exited))
            break;
        seen = e->out[0].len;
        kill(attached, SIGKILL);
        end_of(attached);
        attached = peer_attach(p);
    }
    ok(breaks == 5, "the connection was broken %d times while the command printed", breaks);
    (void)!peer_wait(p, e->exited && e->out[0].len >= e->exit.end[0]);
    ok(peer_exited_with(e, 0) && !p->gap && is_counted(&e->out[0]),
       "not a byte is lost or doubled: %zu bytes", e->out[0].len);
    ok(e->n_started == 1, "it was started once");
}

static void check_replaced(struct peer *p)
{
    struct peer other;
    pid_t first = peer_attach(p);
    ok(peer_wait(p, p->hello_ok), "a connection");
    peer_init(&other);
    other.attempt = p->attempt;
    pid_t second = peer_attach(&other);
    ok(peer_wait(&other, other.hello_ok), "another one takes its place");
    ok(end_of(first) >= 0, "the process of the one before ends");
    p->attempt = other.attempt;
    peer_done(&other);
    ok(end_of(second) >= 0, "one that is closed outside ends, too");
}

static void check_walls(struct peer *p)
{
    struct walls w = {0};
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){WALLS_BUILTIN, "/tmp", NULL});
    m.flags = SPAWN_BUILTIN;
    struct peer_exec *e = peer_run(p, &m);
    if (peer_exited_with(e, 0) && e->out[0].len == sizeof(w))
        memcpy(&w, e->out[0].data, sizeof(w));
    ok(w.version == WALLS_VERSION && w.own_filter && w.seccomp == 2 && w.no_new_privs,
       "and a command that looks finds it");
}

static void check_closed_doors(struct peer *p)
{
    char script[300];
    ok(connect_to(channel_path, SOCK_SEQPACKET) == -ENOENT,
       "nothing can be the runner's channel a second time");
    if (geteuid() != 0) {
        ok(true, "commands and the link's door # SKIP needs two users");
        return;
    }
    snprintf(script, sizeof(script), "ls %s >/dev/null 2>&1; echo $?; kill -0 $PPID", door_dir);
    struct peer_exec *e = peer_shell(p, script);
    ok(e->out[0].len && e->out[0].data[0] != '0', "a command does not see the link's door");
}

static void check_pod(void)
{
    struct peer p;
    struct stat st;
    peer_init(&p);
    pid_t runner = runner_start(); /* first, because either container may be up first */
    pid_t link = link_start();
    ok(exists_within(door_path, true) && stat(door_path, &st) == 0 && (st.st_mode & 0777) == 0600,
       "the door is the link's alone");
    pid_t attached = peer_attach(&p);
    ok(peer_wait(&p, p.hello_ok), "the runner answers through the link");
    ok(exists_within(channel_path, false), "the name in the shared directory is gone");
    struct peer_exec *e = peer_shell(&p, "echo through");
    ok(peer_out_is(e, 1, "through\n"), "a command");
    e = peer_shell(&p, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; "
                       "unshare -U true 2>/dev/null || echo refused");
    ok(peer_out_is(e, 1, "NoNewPrivs:1\nSeccomp:2\nrefused\n"), "the runner's own filter is on");
    check_walls(&p);
    check_closed_doors(&p);
    check_broken_connections(&p, attached);
    check_replaced(&p);
    peer_attach(&p);
    struct msg_spawn m = peer_spawn_message(&p, (const char *[]){"sleep", "1000", NULL});
    e = peer_spawn(&p, &m);
    ok(peer_wait(&p, e->started), "a command that goes on");
    kill(link, SIGKILL);
    end_of(link);
    ok(end_of(runner) >= 0, "without the link the runner ends");
    for (int64_t end = clock_mono_ms() + PEER_WAIT_MS; clock_mono_ms() < end; usleep(10000))
        if (kill((pid_t)e->pid, 0) < 0)
            break;
    ok(kill((pid_t)e->pid, 0) < 0 && errno == ESRCH, "and its commands with it");
    peer_done(&p);
}

/* --- output as files */

static bool file_is(const char *name, const char *expected)
{
    char path[160];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(PEER_OUT_MAX);
    snprintf(path, sizeof(path), "%s/%s", events_dir, name);
    return fd_read_file_at(AT_FDCWD, path, &b) == 0 && b.len == strlen(expected) &&
           memcmp(b.data, expected, b.len) == 0;
}

static struct stat look_at(const char *name)
{
    char path[160];
    struct stat st = {0};
    snprintf(path, sizeof(path), "%s/%s", events_dir, name);
    (void)stat(path, &st);
    return st;
}

static struct peer_exec *spawn_filed(struct peer *p, const char *name, const char *script)
{
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sh", "-c", script, NULL});
    m.flags |= SPAWN_EVENTS;
    m.events = name;
    return peer_spawn(p, &m);
}

static void ack_to(struct peer *p, struct peer_exec *e, uint64_t offset)
{
    msg_ack_format(&p->out, e->stream, &(struct msg_ack){1, offset});
    peer_flush(p);
}

/* More than the window holds: what is acknowledged makes room, in the ring and in the file. */
static void check_filed_flow(struct peer *p)
{
    struct peer_exec *e = spawn_filed(p, "ex-flow", "seq 200000");
    struct stat st = {0};
    uint64_t end = 0;
    for (int64_t until = clock_mono_ms() + PEER_WAIT_MS;
         clock_mono_ms() < until && st.st_size < PROTO_WINDOW; usleep(10000))
        st = look_at("ex-flow.stdout");
    usleep(100 * 1000);
    st = look_at("ex-flow.stdout");
    ok(st.st_size == PROTO_WINDOW, "a command waits when the window is full: %lld",
       (long long)st.st_size);
    for (int64_t until = clock_mono_ms() + PEER_WAIT_MS; clock_mono_ms() < until && !e->exited;) {
        end = (uint64_t)look_at("ex-flow.stdout").st_size;
        ack_to(p, e, end);
        peer_step(p, 20);
    }
    st = look_at("ex-flow.stdout");
    ok(e->exited && e->exit.end[0] == 1288895 && (uint64_t)st.st_size == e->exit.end[0],
       "all of it was filed: %llu of %llu", (unsigned long long)st.st_size,
       (unsigned long long)e->exit.end[0]);
    ack_to(p, e, e->exit.end[0]);
    (void)peer_shell(p, "true");
    st = look_at("ex-flow.stdout");
    ok(st.st_blocks * 512 <= 8192, "what was acknowledged takes no room: %lld bytes",
       (long long)st.st_blocks * 512);
    ok(e->out[0].len == 0, "nothing of it came by the connection");
}

static bool filed_within(const char *name, const char *expected)
{
    for (int64_t until = clock_mono_ms() + PEER_WAIT_MS; clock_mono_ms() < until; usleep(10000))
        if (file_is(name, expected))
            return true;
    return false;
}

/* The stream container is not trusted: what it makes up is acknowledged, too. */
static void check_filed_past_end(struct peer *p)
{
    const char *const argv[] = {"sh", "-c", "echo out; read x; echo more", NULL};
    struct msg_spawn m = peer_spawn_message(p, argv);
    m.flags = SPAWN_EVENTS | SPAWN_STDIN;
    m.events = "ex-past";
    struct peer_exec *e = peer_spawn(p, &m);
    ok(filed_within("ex-past.stdout", "out\n"), "a command has written something");
    ack_to(p, e, 150000);
    ok(peer_exited_with(peer_shell(p, "true"), 0), "an ACK of more does not end the connection");
    peer_stdin_all(p, e, "x\n", 2);
    ok(peer_wait(p, e->exited) && e->exit.end[0] == 9 && file_is("ex-past.exit", "0\n"),
       "and the command goes on");
    peer_forget(p, e);
}

static void check_exit_not_filed(struct peer *p)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/ex-dir.exit", events_dir);
    assert(mkdir(path, 0700) == 0);
    struct peer_exec *e = spawn_filed(p, "ex-dir", "echo out; exit 5");
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 5) && file_is("ex-dir.stdout", "out\n"),
       "an exit that cannot be filed is told, as all of the output is");
    peer_forget(p, e);
    (void)peer_shell(p, "true");
    ok(!look_at("ex-dir.exit-new").st_ino, "and leaves nothing");
    ok(rmdir(path) == 0, "what had its name is left alone");
}

static void check_filed(struct peer *p)
{
    struct peer_exec *e = spawn_filed(p, "ex-1", "echo out; echo err >&2; exit 3");
    ok(peer_wait(p, e->exited) && peer_exited_with(e, 3), "a command whose output is filed");
    ok(file_is("ex-1.stdout", "out\n") && file_is("ex-1.stderr", "err\n") &&
           file_is("ex-1.exit", "3\n"),
       "its files are whole when its exit is told");
    ok((look_at("ex-1.stdout").st_mode & 0777) == 0640, "they are not for every user");
    ok(e->out[0].len == 0 && e->exit.end[0] == 4 && e->exit.end[1] == 4,
       "the connection has the exit alone, and how much there is");
    peer_forget(p, e);
    (void)peer_shell(p, "true");
    ok(!look_at("ex-1.stdout").st_ino && !look_at("ex-1.exit").st_ino, "FORGET removes them");
    e = spawn_filed(p, "ex-2", "kill -9 $$");
    ok(peer_wait(p, e->exited) && file_is("ex-2.exit", "137\n"), "a signal");
    e = spawn_filed(p, "ex-2", "true");
    ok(peer_wait(p, e->failed) && e->error == EEXIST, "a name that is taken is refused");
    ok(file_is("ex-2.exit", "137\n"), "and its files are left alone");
    e = spawn_filed(p, "../x", "true");
    ok(peer_wait(p, e->failed) && e->error == EINVAL, "a name that is none, too");
    check_filed_flow(p);
    check_filed_past_end(p);
    check_exit_not_filed(p);
}

static void check_events(void)
{
    struct peer p;
    peer_init(&p);
    unlink(channel_path);
    unlink(door_path);
    assert(mkdir(events_dir, 0) == 0 && chmod(events_dir, 0777) == 0);
    pid_t link = program_start(LINK_UID, -1,
                               (const char *[]){link_program, "--listen", channel_path, "--door",
                                                door_path, "--events", events_dir, NULL});
    exists_within(channel_path, true);
    pid_t runner = runner_start();
    exists_within(door_path, true);
    usleep(100 * 1000);
    pid_t attached = peer_attach(&p);
    ok(peer_wait(&p, p.hello_ok), "a runner with a directory for output");
    check_filed(&p);
    peer_done(&p);
    end_of(attached);
    kill(runner, SIGTERM);
    ok(end_of(runner) >= 0 && end_of(link) == 0, "both end");
    ok(rmdir(events_dir) == 0, "no file is left");
}

static void check_ends(void)
{
    pid_t link = link_start();
    ok(exists_within(channel_path, true), "the link waits");
    pid_t runner = runner_start();
    ok(exists_within(channel_path, false), "the runner has connected");
    kill(runner, SIGKILL);
    end_of(runner);
    ok(end_of(link) == 0, "without the runner the link ends, and all is well");
    link = link_start();
    ok(exists_within(channel_path, true), "the next one listens where the one before did");
    int fd = -1;
    for (int64_t end = clock_mono_ms() + PEER_WAIT_MS; fd < 0 && clock_mono_ms() < end;
         usleep(1000))
        fd = connect_to(channel_path, SOCK_SEQPACKET);
    ok(fd >= 0 && send(fd, "x", 1, 0) == 1, "a runner that says something");
    ok(WEXITSTATUS(end_of(link)) == EXIT_FAILURE, "ends the link, which reads nothing of it");
    close(fd);
    link = link_start();
    exists_within(channel_path, true);
    kill(link, SIGTERM);
    ok(end_of(link) == 0, "SIGTERM ends it while it waits");
}

static void check_orphan(void)
{
    struct peer p;
    peer_init(&p);
    /* Of the link before, which was killed: the next one's are waited for. */
    unlink(channel_path);
    unlink(door_path);
    pid_t link = link_start();
    exists_within(channel_path, true);
    pid_t runner = program_start(RUNNER_UID, -1,
                                 (const char *[]){installed, "--shared-uid", "--orphan-ttl", "3",
                                                  "--channel-socket", channel_path, NULL});
    exists_within(door_path, true);
    usleep(100 * 1000); /* it is there before it listens */
    pid_t attached = peer_attach(&p);
    ok(peer_wait(&p, p.hello_ok), "a runner that may be left alone for 3 s is reached");
    struct peer_exec *e = peer_shell(&p, "sleep 3.5; echo there");
    ok(peer_out_is(e, 1, "there\n"), "while it is, it stays for longer");
    struct msg_spawn m = peer_spawn_message(&p, (const char *[]){"sleep", "1000", NULL});
    e = peer_spawn(&p, &m);
    ok(peer_wait(&p, e->started), "a command that goes on");
    peer_done(&p);
    end_of(attached);
    ok(end_of(runner) >= 0 && end_of(link) == 0, "alone, it ends, and the link with it");
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    snprintf(dir, sizeof(dir), "/tmp/mas-test-link-XXXXXX");
    assert(mkdtemp(dir));
    assert(chmod(dir, 0777) == 0);
    snprintf(channel_path, sizeof(channel_path), "%s/channel", dir);
    snprintf(events_dir, sizeof(events_dir), "%s/events", dir);
    snprintf(door_dir, sizeof(door_dir), "%s/door", dir);
    snprintf(door_path, sizeof(door_path), "%s/socket", door_dir);
    snprintf(installed, sizeof(installed), "%s/mas-toolrunner", dir);
    snprintf(link_program, sizeof(link_program), "%s/link", dir);
    snprintf(runner_program, sizeof(runner_program), "%s/runner", dir);
    copy_program(argv[1], link_program);
    copy_program(argv[2], runner_program);
    assert(mkdir(door_dir, 0700) == 0);
    if (geteuid() == 0)
        assert(chown(door_dir, LINK_UID, LINK_UID) == 0);
    check_install();
    check_pod();
    check_ends();
    check_orphan();
    check_events();
    unlink(door_path);
    unlink(channel_path);
    unlink(installed);
    unlink(link_program);
    unlink(runner_program);
    rmdir(door_dir);
    ok(rmdir(dir) == 0, "nothing else was made");
    return tap_done();
}
