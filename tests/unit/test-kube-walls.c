/* SPDX-License-Identifier: Apache-2.0 */
/* The question about a pod's walls, to the real runner: its answer, that nothing of it stays there,
 * and what becomes of it where there is no runner at the other end.
 * Usage: test-kube-walls MAS-TOOLRUNNER */
#include "runtime/kube/walls.h"

#include <stdio.h>
#include <uv.h>

#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"

static uv_loop_t loop;
static struct walls found;
static char why[200];
static int n_answers;
static bool answered;

static void on_walls(void *data, const struct walls *walls, const char *text)
{
    (void)data;
    n_answers++;
    answered = walls;
    if (walls)
        found = *walls;
    snprintf(why, sizeof(why), "%s", text);
}

static void ask(int fd, uint64_t generation)
{
    n_answers = 0;
    answered = false;
    walls_ask(&loop, fd, generation, "", on_walls, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* A runner as a pod has it, but that its connections come over descriptors. */
static pid_t runner_start(const char *program, int *ret_channel)
{
    int channel[2];
    assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(channel[1], 4);
        close_range(5, ~0u, 0);
        close(3);
        execl(program, program, "--channel", "4", "--own-filter", "--workdir", "/tmp",
              (char *)NULL);
        _exit(127);
    }
    close(channel[1]);
    *ret_channel = channel[0];
    return pid;
}

static int connection_new(int channel)
{
    int pair[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    assert(fd_send_msg(channel, "c", 1, &pair[1], 1) == 1);
    close(pair[1]);
    return pair[0];
}

static void check_runner(const char *program)
{
    static struct peer p;
    int channel, status = 0;
    pid_t pid = runner_start(program, &channel);
    ask(connection_new(channel), 2);
    ok(n_answers == 1 && answered && found.version == WALLS_VERSION && found.n_places == _PLACE_MAX,
       "the runner answers: %s", why);
    ok(found.own_filter && found.seccomp == 2 && found.no_new_privs, "its filter is found");
    ask(connection_new(channel), 1);
    ok(n_answers == 1 && !answered, "an older control plane is not answered: %s", why);
    p = (struct peer){.fd = connection_new(channel), .channel = channel};
    strbuf_init(&p.in, 1 << 20);
    strbuf_init(&p.out, 1 << 20);
    peer_hello(&p, 2);
    ok(peer_wait(&p, p.hello_ok) && p.n_states == 0, "the runner knows of no command after it");
    close(p.fd);
    close(channel);
    ok(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "it ends with its channel");
    strbuf_done(&p.in);
    strbuf_done(&p.out);
}

static void check_no_runner(void)
{
    int pair[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    close(pair[1]);
    ask(pair[0], 1);
    ok(n_answers == 1 && !answered && strstr(why, "ended"), "a carrier that ends: %s", why);
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    assert(write(pair[1], "HTTP/1.1 400\r\n", 14) == 14);
    ask(pair[0], 1);
    ok(n_answers == 1 && !answered, "one that leads to something else: %s", why);
    close(pair[1]);
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    n_answers = 0;
    walls_cancel(walls_ask(&loop, pair[0], 1, "", on_walls, NULL));
    close(pair[1]);
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(n_answers == 0, "one that is given up does not answer");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    check_runner(argv[1]);
    check_no_runner();
    uv_loop_close(&loop);
    return tap_done();
}
