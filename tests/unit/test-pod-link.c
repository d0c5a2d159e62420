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
    unlink(door_path);
    unlink(channel_path);
    unlink(installed);
    unlink(link_program);
    unlink(runner_program);
    rmdir(door_dir);
    ok(rmdir(dir) == 0, "nothing else was made");
    return tap_done();
}
