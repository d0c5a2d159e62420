/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that come out of a sandbox: what a runner that was taken over can pass, and what
 * becomes of it in the control plane. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "gateway/client-socket.h"
#include "sandbox/runner.h"
#include "tests/unit/tap.h"

static int tcp_listener(int family, struct sockaddr_in *ret)
{
    socklen_t size = sizeof(*ret);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &size) < 0)
        exit(1);
    return fd;
}

/* The accepted end, as a runner has it; ret_far is the program's. */
static int tcp_accepted(int *ret_far)
{
    struct sockaddr_in sa;
    _cleanup_close_ int listener = tcp_listener(AF_INET, &sa);
    *ret_far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(*ret_far, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        exit(1);
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void check_kind(int fd, const char *what)
{
    ok(fd >= 0 && client_socket_check(fd) < 0, "%s is refused", what);
    close(fd);
}

static void test_kinds(void)
{
    int pair[2], pipes[2], far;
    struct sockaddr_in sa;
    int good = tcp_accepted(&far);
    ok(client_socket_check(good) == 0, "a connected TCP socket is taken");
    shutdown(far, SHUT_WR);
    ok(client_socket_check(good) == 0, "also when its program sends no more");
    close(far);
    client_socket_close(&good);
    ok(good == -1, "and is closed");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || pipe(pipes) < 0)
        exit(1);
    check_kind(pair[0], "a unix socket");
    check_kind(pair[1], "its other end");
    check_kind(pipes[0], "a pipe");
    close(pipes[1]);
    check_kind(open("/dev/null", O_RDWR), "a device");
    check_kind(open("/", O_RDONLY | O_DIRECTORY), "a directory");
    check_kind(open("/", O_PATH), "a path");
    check_kind(memfd_create("x", 0), "memory");
    check_kind(epoll_create1(0), "an epoll");
    check_kind(socket(AF_INET, SOCK_STREAM, 0), "a socket that is not connected");
    check_kind(socket(AF_INET, SOCK_DGRAM, 0), "a datagram socket");
    check_kind(tcp_listener(AF_INET, &sa), "a socket that listens");
    int connected = socket(AF_INET, SOCK_DGRAM, 0);
    sa = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(connected, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        check_kind(connected, "a connected datagram socket");
}

/* A program that never reads, and a passer that wants the closer to wait for it. */
static void test_linger(void)
{
    char block[65536] = {0};
    int far, fd = tcp_accepted(&far);
    struct linger hour = {.l_onoff = 1, .l_linger = 3600};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour));
    while (send(fd, block, sizeof(block), MSG_DONTWAIT) > 0)
        ;
    alarm(30);
    client_socket_close(&fd);
    alarm(0);
    ok(fd == -1, "closing does not wait for a reader");
    close(far);
}

/* --- the control plane's end of a runner connection */

struct seen {
    struct runner *runner;
    int opened, sockets, broken;
    bool take;
};

static void on_open(void *data, uint32_t stream, const struct msg_open *m)
{
    struct seen *s = data;
    (void)stream;
    (void)m;
    s->opened++;
    int fd = s->take ? runner_take_socket(s->runner) : -1;
    s->sockets += fd >= 0;
    fd_close(&fd);
}

static void on_broken(void *data, const char *why)
{
    struct seen *s = data;
    (void)why;
    s->broken++;
}

static void on_resumed(void *data)
{
    (void)data;
}

static void on_close(void *data, uint32_t stream, const struct msg_close *m)
{
    (void)data;
    (void)stream;
    (void)m;
}

static const struct runner_events events = {
    .on_open = on_open, .on_broken = on_broken, .on_resumed = on_resumed, .on_close = on_close};

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A runner that says `frames` and passes n descriptors with them. */
static struct seen run_peer(bool accepts, bool take, const struct strbuf *frames, size_t n)
{
    int pair[2], fds[FD_PASS_MAX];
    uv_loop_t loop;
    _cleanup_strbuf_ struct strbuf hello = STRBUF_INIT(4096);
    struct seen s = {.take = take};
    size_t before = count_fds();
    for (size_t i = 0; i < n; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (uv_loop_init(&loop) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    s.runner = runner_new(&loop, pair[0], 7, 0, &events, &s);
    if (accepts)
        runner_accept_sockets(s.runner);
    strbuf_append(&hello, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_hello_ok_format(&hello, 0, &(struct msg_hello_ok){PROTO_VERSION, 7, 0});
    fd_send_msg(pair[1], hello.data, hello.len, NULL, 0);
    fd_send_msg(pair[1], frames->data, frames->len, fds, n);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    runner_close(s.runner);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    close(pair[1]);
    ok(count_fds() == before, "nothing of it stays open");
    return s;
}

static void test_runner(void)
{
    _cleanup_strbuf_ struct strbuf one = STRBUF_INIT(4096), none = STRBUF_INIT(4096);
    uv_loop_t first; /* libuv keeps two descriptors from its first loop on */
    if (uv_loop_init(&first) < 0)
        exit(1);
    uv_loop_close(&first);
    msg_open_format(&one, 2, &(struct msg_open){.kind = OPEN_SOCKET});
    frame_append(&none, MSG_CLOSE, 2, NULL, 0);
    struct seen s = run_peer(true, true, &one, 1);
    ok(s.opened == 1 && s.sockets == 1 && !s.broken, "a descriptor comes with its OPEN");
    s = run_peer(true, true, &one, 0);
    ok(s.opened == 1 && s.sockets == 0 && !s.broken, "an OPEN without one has none");
    s = run_peer(true, true, &one, 5);
    ok(s.opened == 1 && s.sockets <= 1 && !s.broken, "of several it has one at most");
    s = run_peer(true, false, &one, 1);
    ok(s.opened == 1 && s.broken == 1, "one that is not taken is a broken runner");
    s = run_peer(true, true, &none, 1);
    ok(s.opened == 0 && s.broken == 1, "and so is one with another frame");
    s = run_peer(false, true, &one, 1);
    ok(s.opened == 1 && s.sockets == 0 && !s.broken, "a sandbox without a network passes none");
}

int main(void)
{
    test_kinds();
    test_linger();
    test_runner();
    return tap_done();
}
