/* SPDX-License-Identifier: Apache-2.0 */
/* What a runner that was taken over can say on a connection that was made again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "sandbox/internal.h"
#include "sandbox/owner.h"
#include "tests/unit/tap.h"

static struct sandbox sb;
static struct exec e;
static uv_loop_t loop;

/* One that an earlier control plane started: the bytes up to 1000 are not in the queue, and how
 * many of them the command has read is not known. */
static void begin(void)
{
    e = (struct exec){.sandbox = &sb, .stream = 1, .request_id = 7, .stdin_open = true};
    e.stdin_base = e.stdin_sent = 1000;
    strbuf_init(&e.stdin_queue, 4096);
    list_init(&sb.execs);
    list_init(&sb.running);
    list_append(&sb.execs, &e.node);
    list_append(&sb.running, &e.phase_node);
    sb.state = SANDBOX_CREATING; /* in which a break is only noted */
    sb.runner_ended = false;
    sb.lost_ms = 1;
}

static void test_input_before_the_queue(void)
{
    struct msg_state m = {.request_id = 7, .stdin_received = 999, .tag = ""};
    begin();
    exec_on_known_state(&sb, 1, &m);
    ok(sb.runner_ended, "a runner that has less input than it had is broken");
    ok(e.stdin_sent == e.stdin_base, "and nothing before the queue is sent: %llu",
       (unsigned long long)e.stdin_sent);
    m.stdin_received = 1001;
    begin();
    exec_on_known_state(&sb, 1, &m);
    ok(sb.runner_ended, "so is one that has more than it was sent");
}

static size_t count_forgets(void)
{
    const struct strbuf *out = runner_out(sb.runner);
    size_t n = 0;
    struct frame f;
    for (size_t at = FRAME_PREFACE_SIZE; at < out->len;) {
        int len = frame_parse((const uint8_t *)out->data + at, out->len - at, &f);
        if (len <= 0)
            break;
        n += f.type == MSG_FORGET;
        at += (size_t)len;
    }
    return n;
}

static void test_an_end_that_is_not_on_record(void)
{
    struct msg_state m = {.request_id = 7, .tag = ""};
    begin();
    e.result.status = EXEC_COMPLETED;
    exec_on_known_state(&sb, 1, &m);
    ok(count_forgets() == 0 && e.forget_due, "a runner does not forget an end that no row has");
    e.end_kept = true;
    exec_on_known_state(&sb, 1, &m);
    ok(count_forgets() == 1 && !e.forget_due, "and does once one has it");
}

static unsigned n_asked;

static void count_ask(struct runtime_instance *i)
{
    (void)i;
    n_asked++;
}

static void test_a_runner_that_leaves_in_a_loop(void)
{
    static const struct runtime_ops ops = {.connections_break = true, .reconnect = count_ask};
    static struct manager manager;
    manager.options.config.reconnects_per_minute = 3;
    list_init(&manager.lost);
    list_init(&sb.lost_node);
    list_init(&sb.gateway_reports);
    list_init(&sb.record_shares);
    list_init(&sb.network_questions);
    list_init(&sb.port_streams);
    begin();
    sb.lost_ms = 0;
    sb.manager = &manager;
    sb.ops = &ops;
    sb.instance = (struct runtime_instance *)&sb;
    sb.started = true;
    sb.refs = 1;
    for (int i = 0; i < 3; i++)
        sandbox_lose(&sb, "it is tried");
    ok(n_asked == 3 && !sb.runner_ended, "as often as it may, a runner that left is asked for");
    sb.breaks_since_ms -= 60000;
    for (int i = 0; i < 3; i++)
        sandbox_lose(&sb, "it is tried");
    ok(n_asked == 6 && !sb.runner_ended, "a minute later as often again");
    sandbox_lose(&sb, "it is tried");
    ok(n_asked == 6 && sb.runner_ended, "once more is the end of it");
}

#define LEAST_RUNNING 3 /* max_execs_per_sandbox below */

/* A control plane that was started again learns of commands that only the runner knows. */
static void test_commands_that_only_the_runner_knows(void)
{
    static struct manager manager = {.options = {.loop = &loop}};
    static struct owner_use use;
    manager.options.config.max_execs_per_sandbox = LEAST_RUNNING;
    list_init(&manager.all);
    list_init(&manager.idle);
    list_init(&manager.finished);
    list_init(&manager.timed);
    manager.options.journal.memory_bytes = 4096;
    sb = (struct sandbox){.manager = &manager,
                          .refs = 100,
                          .runner = sb.runner,
                          .use = &use,
                          .state = SANDBOX_CREATING,
                          .restored = true,
                          .execs_by_id = map_new()};
    list_init(&sb.execs);
    list_init(&sb.running);
    list_init(&sb.idle_node);
    list_append(&manager.all, &sb.node);
    static const char *const strange[] = {"", "ex-", "ex-a b", "ex-a\\nb", "ex-A", "../ex-a"};
    for (size_t i = 0; i < ELEMENTS(strange); i++) {
        _cleanup_free_ char *tag = xasprintf("{\"id\":\"%s\",\"argv\":[\"a\"]}", strange[i]);
        exec_on_state(&sb, 1, &(struct msg_state){.request_id = 1, .tag = tag});
        ok(!sb.n_execs, "no command is called '%s'", strange[i]);
    }
    for (unsigned i = 0; i < 2 * LEAST_RUNNING; i++) {
        _cleanup_free_ char *tag = xasprintf("{\"id\":\"ex-%u\",\"argv\":[\"a\"]}", i);
        exec_on_state(&sb, 2 * i + 1, &(struct msg_state){.request_id = i, .tag = tag});
    }
    ok(sb.n_running == LEAST_RUNNING && manager.counts.execs_running == LEAST_RUNNING,
       "a sandbox has no more of them than it may run: %zu", sb.n_running);
}

static unsigned n_ends;

static void count_end(void *data, const char *why)
{
    (void)data;
    (void)why;
    n_ends++;
}

/* A sandbox is being taken apart: its runner must not wake up before it is killed. */
static void test_a_muted_connection(void)
{
    static const struct runner_events events = {.on_lost = count_end, .on_broken = count_end};
    char bytes[256];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    struct runner *r = runner_new(&loop, pair[0], 1, 0, &events, NULL);
    runner_mute(r);
    ok(write(pair[1], "this is no frame", 16) == 16, "something comes on a muted connection");
    uv_run(&loop, UV_RUN_NOWAIT);
    ok(n_ends == 0, "and no event of it");
    while (recv(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    ok(errno == EAGAIN, "the runner sees no end of it");
    runner_close(r);
    uv_run(&loop, UV_RUN_DEFAULT);
    ssize_t n = recv(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT);
    ok(n == 0 || (n < 0 && errno == ECONNRESET), "before it is closed");
    ok(n_ends == 0, "of which there is no event either");
    close(pair[1]);
}

static struct runner *muted;
static unsigned n_exits, n_later;

/* As the end of a one-shot does it: its sandbox is deleted from inside the event. */
static void mute_on_exit(void *data, uint32_t stream, const struct msg_exit *m)
{
    (void)data;
    (void)stream;
    (void)m;
    n_exits++;
    runner_mute(muted);
}

static int count_output(void *data, uint32_t stream, const struct msg_output *m)
{
    (void)data;
    (void)stream;
    (void)m;
    n_later++;
    return 0;
}

static void count_open(void *data, uint32_t stream, const struct msg_open *m)
{
    (void)data;
    (void)stream;
    (void)m;
    n_later++;
}

static void ignore_resumed(void *data)
{
    (void)data;
}

/* A command ends while processes that it left behind print and connect: all of it is one read. */
static void test_frames_behind_the_last(void)
{
    static const struct runner_events events = {.on_lost = count_end,
                                                .on_broken = count_end,
                                                .on_resumed = ignore_resumed,
                                                .on_exit = mute_on_exit,
                                                .on_output = count_output,
                                                .on_open = count_open};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4096);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    muted = runner_new(&loop, pair[0], 1, 0, &events, NULL);
    strbuf_append(&b, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_hello_ok_format(&b, 0, &(struct msg_hello_ok){.version = PROTO_VERSION, .generation = 1});
    msg_exit_format(&b, 1, &(struct msg_exit){.wait_status = 0});
    msg_output_format(&b, 2,
                      &(struct msg_output){.which = 1, .data = (const uint8_t *)"x", .len = 1});
    msg_open_format(&b, 3, &(struct msg_open){.kind = OPEN_GATEWAY});
    msg_output_format(
        &b, 2,
        &(struct msg_output){.which = 1, .offset = 1, .data = (const uint8_t *)"y", .len = 1});
    ok(write(pair[1], b.data, b.len) == (ssize_t)b.len, "an end and more behind it");
    uv_run(&loop, UV_RUN_NOWAIT);
    uv_run(&loop, UV_RUN_NOWAIT);
    ok(n_exits == 1, "the end is an event");
    ok(n_later == 0, "and nothing behind it, where the connection was muted then (%u)", n_later);
    ok(n_ends == 0, "which is no fault of the runner's");
    runner_close(muted);
    uv_run(&loop, UV_RUN_DEFAULT);
    close(pair[1]);
}

int main(void)
{
    static const struct runner_events none;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 1;
    uv_loop_init(&loop);
    sb.runner = runner_new(&loop, pair[0], 1, 0, &none, &sb);
    test_input_before_the_queue();
    test_an_end_that_is_not_on_record();
    test_commands_that_only_the_runner_knows();
    test_a_runner_that_leaves_in_a_loop();
    uv_run(&loop, UV_RUN_DEFAULT);
    test_a_muted_connection();
    test_frames_behind_the_last();
    uv_loop_close(&loop);
    close(pair[1]);
    return tap_done();
}
