/* SPDX-License-Identifier: Apache-2.0 */
/* A runner that dials, and a control plane that is quicker than it: HELLO is there before the
 * runner looks at its new connection for the first time. */
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/unit/runner-peer.h"
#include "tests/unit/tap.h"
#include "toolrunner/runner.h"

/* In place of the C library's, for the runner in this program: returns once the other side has said
 * something, which makes the rare order of events the only one. */
int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    long r = syscall(SYS_connect, fd, address, len);
    return r == 0 && poll(&p, 1, PEER_WAIT_MS) == 1 ? 0 : -1;
}

static int listen_at(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
    assert(fd >= 0 && !bind(fd, (struct sockaddr *)&sun, sizeof(sun)) && !listen(fd, 4));
    return fd;
}

static void run_dialer(const char *path)
{
    static struct runner r;
    const char *what;
    const struct runner_config config = {.connect_path = path,
                                         .workdir = "/tmp",
                                         .conn_fd = -1,
                                         .filter_fd = -1,
                                         .rules_fd = -1,
                                         .channel_fd = -1,
                                         .score_fd = -1,
                                         .vsock_port = -1};
    if (runner_init(&r, &config, &what) < 0)
        _exit(1);
    runner_run(&r);
    _exit(0);
}

/* The next connection that the runner makes, with HELLO sent at once. */
static void take_connection(struct peer *p, int listen_fd, uint64_t generation)
{
    struct pollfd ready = {.fd = listen_fd, .events = POLLIN};
    *p = (struct peer){.channel = -1, .next_stream = 1, .next_request = 1};
    strbuf_init(&p->in, 1 << 20);
    strbuf_init(&p->out, 8 << 20);
    assert(poll(&ready, 1, PEER_WAIT_MS) == 1);
    p->fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert(p->fd >= 0);
    peer_hello(p, generation);
}

static void drop_connection(struct peer *p)
{
    fd_close(&p->fd);
    strbuf_done(&p->in);
    strbuf_done(&p->out);
}

int main(void)
{
    static struct peer p;
    char dir[] = "/tmp/test-runner-dial-XXXXXX", path[64];
    assert(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/sock", dir);
    int listen_fd = listen_at(path);
    pid_t pid = fork();
    if (pid == 0)
        run_dialer(path);
    take_connection(&p, listen_fd, 1);
    ok(peer_wait(&p, p.preface && p.hello_ok), "the first connection is answered");
    for (uint64_t generation = 2; generation < 5; generation++) {
        drop_connection(&p);
        take_connection(&p, listen_fd, generation);
        ok(peer_wait(&p, p.preface && p.hello_ok),
           "connection %d is answered without another word of ours", (int)generation);
    }
    drop_connection(&p);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(listen_fd);
    unlink(path);
    rmdir(dir);
    return tap_done();
}
