/* SPDX-License-Identifier: Apache-2.0 */
/* The runner's end of the protocol against a hostile control plane and hostile tools: frames, raw
 * bytes, ends of commands, output, connections from the inside, in any order. Commands are not run:
 * this file has its own spawn_start(), which only keeps the command's ends of the pipes, and a slot
 * for every other one, which is starting then until OP_LEAVE or its end.
 *
 * The input is a sequence of steps: an op byte, a byte that chooses, a length of two bytes, data.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "toolrunner/exec.h"
#include "toolrunner/runner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHILDREN   8
#define FAKE_PID   (1 << 22) /* above any pid the kernel gives */
#define STEPS_MAX  200
#define SPAWNS_MAX 32

enum {
    OP_EXIT = 0xf0,
    OP_OUTPUT,
    OP_RECONNECT,
    OP_RAW,
    OP_TUNNEL,
    OP_TUNNEL_DATA,
    OP_TUNNEL_CLOSE,
    OP_LEAVE,
    OP_PORT_DATA,
    OP_PORT_CLOSE
};

static struct runner r;
static struct epoll_watch always; /* keeps the loop from waiting */
static int children[CHILDREN][3];
static struct {
    struct start_slot *slot;
    struct spawn_plan *plan;
} starts[CHILDREN];
static pid_t n_spawned;
static int peer_fd = -1, tunnel_fd = -1, server_fd = -1;
static uint64_t generation;

/* No server of this machine's is reached: what the runner connects to over TCP is a socket pair
 * whose other end is here, and every fourth port refuses. */
int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
    int pair[2];
    if (sa->sa_family == AF_UNIX)
        return (int)syscall(SYS_connect, fd, sa, len);
    if ((((const struct sockaddr_in *)sa)->sin_port & 3) == 3 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        errno = ECONNREFUSED;
        return -1;
    }
    dup3(pair[0], fd, O_CLOEXEC);
    close(pair[0]);
    fd_close(&server_fd);
    server_fd = pair[1];
    return 0;
}

#define expect(condition) expect_at(condition, #condition)

static void expect_at(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* Nobody is there to be waited for: signals must not try. */
static void begin_start(struct spawn_plan *p)
{
    p->path_size = 1;
    starts[n_spawned % CHILDREN].slot =
        start_slot_take(p->start, p, &starts[n_spawned % CHILDREN].plan);
    container_of(p->start, struct exec, start)->started_ns -= START_PATIENCE_NS;
}

static void end_start(int i, int error)
{
    if (!starts[i].slot)
        return;
    starts[i].plan->error = error;
    starts[i].plan->stage = "exec";
    *start_slot_word(starts[i].slot) = 0;
    starts[i].slot = NULL;
}

pid_t spawn_start(struct spawn_plan *p)
{
    if (n_spawned >= SPAWNS_MAX) {
        p->stage = "exec";
        return -ENOENT;
    }
    int *fds = children[n_spawned % CHILDREN];
    end_start(n_spawned % CHILDREN, 0);
    if (n_spawned % 2)
        begin_start(p);
    for (int i = 0; i < 3; i++) {
        fd_close(&fds[i]);
        fds[i] = fcntl(p->fds[i], F_DUPFD_CLOEXEC, 3);
        fd_set_nonblock(fds[i], true);
    }
    return FAKE_PID + n_spawned++;
}

/* All that the runner says must be frames. */
static void read_peer(void)
{
    static uint8_t buffer[1 << 20];
    size_t len = 0;
    ssize_t n;
    while (len < sizeof(buffer) &&
           (n = recv(peer_fd, buffer + len, sizeof(buffer) - len, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    size_t at = 0;
    if (len >= FRAME_PREFACE_SIZE && !memcmp(buffer, FRAME_PREFACE, FRAME_PREFACE_SIZE))
        at = FRAME_PREFACE_SIZE;
    while (at < len) {
        struct frame f;
        int used = frame_parse(buffer + at, len - at, &f);
        expect(used >= 0);
        if (used == 0)
            break; /* the rest did not fit the socket yet; nobody waits for it */
        expect(f.type >= MSG_DATA);
        at += (size_t)used;
    }
}

static void turn(void)
{
    epoll_loop_once(&r.loop, -1);
    conn_pump(&r);
    expect(r.n_execs <= PROTO_EXECS_MAX && r.gateway.n_tunnels <= GATEWAY_TUNNELS_MAX &&
           r.ports.n_links <= PORT_LINKS_MAX);
    list_for_each(e, &r.execs, struct exec, link) {
        expect(!e->starting || e->state == EXEC_RUNNING);
        if (e->forgotten)
            continue; /* its output was dropped, and nothing of it is sent any more */
        for (int i = 0; i < 2; i++) {
            const struct exec_output *o = &e->out[i];
            expect(o->ring.start <= o->sent && o->sent <= o->ring.end);
            expect(o->ring.end - o->ring.start <= PROTO_WINDOW);
        }
        expect(e->in.ring.end - e->in.ring.start <= PROTO_WINDOW);
    }
}

static void send_bytes(const void *data, size_t len)
{
    if (len)
        (void)!send(peer_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void reconnect(bool hello)
{
    int fds[2];
    fd_close(&peer_fd);
    expect(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
    peer_fd = fds[0];
    conn_adopt(&r, fds[1], NULL, 0);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    strbuf_append(&b, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    if (hello)
        msg_hello_format(&b, 0, &(struct msg_hello){PROTO_VERSION, ++generation, 0});
    send_bytes(b.data, b.len);
    turn();
}

static void step_frame(uint8_t type, uint8_t stream, const uint8_t *data, size_t len)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    if (frame_append(&b, type, stream, data, len) == 0)
        send_bytes(b.data, b.len);
}

static void step_exit(uint8_t choice)
{
    struct rusage usage = {.ru_maxrss = 1};
    if (!n_spawned)
        return;
    pid_t n = choice % n_spawned;
    if (n_spawned - n <= CHILDREN)
        starts[n % CHILDREN].slot = NULL; /* its end is the runner's to see */
    if (n_spawned - n <= CHILDREN && choice & 0x80) {
        for (int i = 0; i < 3; i++)
            fd_close(&children[n % CHILDREN][i]);
    }
    exec_on_exit(&r, FAKE_PID + n, choice << 8, &usage);
}

static void step_tunnel(void)
{
    if (tunnel_fd >= 0 || r.gateway.listener.fd < 0)
        return;
    tunnel_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    if (getsockname(r.gateway.listener.fd, (struct sockaddr *)&sa, &len) < 0 ||
        connect(tunnel_fd, (struct sockaddr *)&sa, len) < 0)
        fd_close(&tunnel_fd);
}

static void step(uint8_t op, uint8_t choice, const uint8_t *data, size_t len)
{
    if (op == OP_EXIT)
        step_exit(choice);
    else if (op == OP_OUTPUT)
        (void)!write(children[choice % CHILDREN][1 + (choice >> 7)], data, len);
    else if (op == OP_RECONNECT)
        reconnect(choice & 1);
    else if (op == OP_RAW)
        send_bytes(data, len);
    else if (op == OP_TUNNEL)
        step_tunnel();
    else if (op == OP_TUNNEL_DATA && tunnel_fd >= 0)
        (void)!send(tunnel_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    else if (op == OP_TUNNEL_CLOSE)
        fd_close(&tunnel_fd);
    else if (op == OP_PORT_DATA && server_fd >= 0)
        (void)!send(server_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    else if (op == OP_PORT_CLOSE && choice & 1 && server_fd >= 0)
        shutdown(server_fd, choice & 2 ? SHUT_WR : SHUT_RD);
    else if (op == OP_PORT_CLOSE)
        fd_close(&server_fd);
    else if (op == OP_LEAVE)
        end_start(choice % CHILDREN, choice >> 4);
    else
        step_frame(op, choice, data, len);
    turn();
    read_peer();
}

static void on_always(struct epoll_watch *w, uint32_t ready)
{
    (void)w;
    (void)ready;
}

static void set_up(void)
{
    static bool once;
    struct runner_config config = {
        .conn_fd = -1, .channel_fd = -1, .filter_fd = -1, .rules_fd = -1, .vsock_port = -1};
    if (!once) {
        log_setup("fuzz-runner", LOG_ERROR, false);
        memset(children, -1, sizeof(children));
        once = true;
    }
    char path[64];
    snprintf(path, sizeof(path), "/tmp/fuzz-runner-%d.sock", getpid());
    runner_init_state(&r, &config);
    r.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    expect(epoll_loop_init(&r.loop) == 0 && gateway_init(&r.gateway, &r, path, 0) == 0);
    r.channel.fd = -1;
    epoll_watch_init(&always, eventfd(1, EFD_CLOEXEC), on_always);
    epoll_watch_set(&r.loop, &always, EPOLLIN);
    n_spawned = 0;
    generation = 0;
    unlink(path);
}

static void tear_down(void)
{
    conn_drop(&r);
    exec_free_all(&r);
    exec_free_sinks(&r);
    epoll_watch_close(&r.loop, &r.gateway.listener);
    epoll_watch_close(&r.loop, &always);
    fd_close(&r.null_fd);
    epoll_loop_done(&r.loop);
    fd_close(&peer_fd);
    fd_close(&tunnel_fd);
    fd_close(&server_fd);
    for (int i = 0; i < CHILDREN; i++) {
        end_start(i, 0);
        for (int j = 0; j < 3; j++)
            fd_close(&children[i][j]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    signal(SIGPIPE, SIG_IGN); /* as runner_init() has it */
    set_up();
    reconnect(true);
    for (int steps = 0; steps < STEPS_MAX && size >= 4; steps++) {
        size_t len = data[2] | (size_t)data[3] << 8;
        len = len < size - 4 ? len : size - 4;
        step(data[0], data[1], data + 4, len);
        data += 4 + len;
        size -= 4 + len;
    }
    tear_down();
    return 0;
}
