/* SPDX-License-Identifier: Apache-2.0 */
/* Connections out of a sandbox that its runner carries in frames, with a runner that was taken
 * over. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "gateway/gateway-proto.h"
#include "sandbox/internal.h"
#include "tests/unit/tap.h"

#define TRIES 300

static uv_loop_t loop;
static struct manager m;
static struct sandbox sb;
static int gateway, runner; /* their ends */

static void turn_loop(void)
{
    static char bytes[1024 * 1024];
    for (int i = 0; i < 4; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    while (recv(runner, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

/* The gateway has a connection whose server sends more than the runner takes, and ends it. */
static bool serve_connection(void)
{
    static char request[64 * 1024], bytes[64 * 1024];
    int fds[FD_PASS_MAX];
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fds[i] = -1;
    if (fd_recv_msg(gateway, request, sizeof(request), fds) <= 0)
        return false;
    fd_set_nonblock(fds[0], true);
    for (size_t left = 2 * PROTO_WINDOW; left;) {
        ssize_t n = write(fds[0], bytes, left < sizeof(bytes) ? left : sizeof(bytes));
        if (n > 0)
            left -= (size_t)n;
        size_t before = left;
        turn_loop();
        if (n < 0 && left == before)
            break; /* nothing takes it any more */
    }
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    turn_loop();
    return true;
}

/* A stream stays until the runner has taken its bytes. A runner that takes none, and opens the next
 * one when the gateway is done, would fill this process with descriptors. */
static void test_streams_that_stay(void)
{
    struct msg_open open = {.kind = OPEN_GATEWAY};
    size_t n = 0;
    for (uint32_t i = 1; i <= TRIES; i++) {
        gateway_stream_open(&sb, 2 * i, &open);
        n += serve_connection();
    }
    ok(n >= 64, "as many connections as the gateway serves are opened: %zu", n);
    ok(n < TRIES && map_count(sb.gateway_streams) == n,
       "those that stay are counted, and more are refused: %zu of %d", n, TRIES);
    ok(sb.n_gateway_reports == 0, "also where the gateway is done with each of them");
    gateway_stream_close(&sb, 2, &(struct msg_close){.reset = false});
    gateway_stream_open(&sb, 2 * (TRIES + 1), &open);
    ok(serve_connection(), "one that ends makes room");
}

int main(void)
{
    static const struct runner_events none;
    static const struct runtime_ops ops = {.isolation = ISOLATION_VIRTUAL_MACHINE};
    int pair[2], seq[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, seq) < 0)
        return 1;
    uv_loop_init(&loop);
    m.options.loop = &loop;
    m.options.gateway_sock = seq[0];
    gateway = seq[1];
    runner = pair[1];
    sb.manager = &m;
    sb.ops = &ops;
    sb.refs = 1;
    sb.state = SANDBOX_READY;
    sb.owner = xstrdup("");
    sb.spec.network = true;
    network_add_text(&sb.spec.hosts, "example.com:443");
    list_init(&sb.running);
    list_init(&sb.gateway_reports);
    list_init(&sb.record_shares);
    list_init(&sb.network_questions);
    list_init(&sb.expiring_node);
    sb.runner = runner_new(&loop, pair[0], 1, 0, &none, &sb);
    test_streams_that_stay();
    gateway_streams_free(&sb);
    runner_close(sb.runner);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    spec_done(&sb.spec);
    free(sb.owner);
    close(pair[1]);
    close(seq[0]);
    close(seq[1]);
    return tap_done();
}
