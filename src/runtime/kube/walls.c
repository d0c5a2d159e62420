/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/walls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "proto/message.h"

#define ANSWER_MS  15000
#define INPUT_MAX  (FRAME_HEADER_SIZE + FRAME_PAYLOAD_MAX)
#define OUTPUT_MAX 65536
#define READ_SIZE  16384
/* The numbers of a generation's streams count upwards from its first (sandbox/stream-number.h), and
 * requests from 1: these are of the other end. */
#define STREAM_BITS      21
#define STREAM_QUESTION  ((1u << STREAM_BITS) - 1)
#define STREAM_CONFIRMED ((1u << STREAM_BITS) - 3)
#define GENERATIONS      0x800u
#define CLOSED_PORT      1

struct walls_question {
    int fd;
    uv_poll_t poll;
    struct loop_timer timer;
    struct strbuf in, out;
    walls_answer_fn cb;
    void *data;
    uint32_t first; /* of the generation's streams */
    bool preface;
    struct walls walls;
    size_t received;
    bool whole; /* the command ended well, and said all */
    char why[160];
    unsigned n_open;
    bool over;
};

static void on_part_closed(void *data)
{
    struct walls_question *q = data;
    if (--q->n_open)
        return;
    fd_close(&q->fd);
    strbuf_done(&q->in);
    strbuf_done(&q->out);
    free(q);
}

static void on_poll_closed(uv_handle_t *h)
{
    on_part_closed(h->data);
}

void walls_cancel(struct walls_question *q)
{
    if (!q || q->over)
        return;
    q->over = true;
    uv_poll_stop(&q->poll);
    uv_close((uv_handle_t *)&q->poll, on_poll_closed);
    loop_timer_close(&q->timer, on_part_closed, q);
}

static void question_end(struct walls_question *q, bool answered)
{
    if (q->over)
        return;
    walls_cancel(q);
    shutdown(q->fd, SHUT_RDWR); /* so that the carrier ends now, and not with the memory */
    q->cb(q->data, answered ? &q->walls : NULL, q->why);
}

static void on_question_late(void *data)
{
    struct walls_question *q = data;
    snprintf(q->why, sizeof(q->why), "its runner did not answer within %d s", ANSWER_MS / 1000);
    question_end(q, false);
}

/* --- what comes */

static void take_output(struct walls_question *q, const struct frame *f)
{
    struct msg_output m;
    if (msg_output_parse(f->payload, f->length, &m) < 0 || m.which != 1 ||
        m.offset != q->received || m.len > sizeof(q->walls) - q->received)
        return; /* too little of it is no answer */
    memcpy((char *)&q->walls + q->received, m.data, m.len);
    q->received += m.len;
    msg_ack_format(&q->out, f->stream, &(struct msg_ack){.which = 1, .offset = q->received});
}

static void take_exit(struct walls_question *q, const struct frame *f)
{
    struct msg_exit m;
    if (msg_exit_parse(f->payload, f->length, &m) < 0)
        return;
    q->whole = m.wait_status == 0 && q->received == sizeof(q->walls) &&
               q->walls.version == WALLS_VERSION && q->walls.n_places == _PLACE_MAX;
    if (!q->whole)
        snprintf(q->why, sizeof(q->why), "its runner cannot say what its walls are (status %d)",
                 m.wait_status);
    frame_append(&q->out, MSG_FORGET, f->stream, NULL, 0);
    /* Its answer shows that the frame before it was carried out. */
    msg_connect_format(&q->out, q->first | STREAM_CONFIRMED,
                       &(struct msg_connect){.port = CLOSED_PORT});
}

static void take_failure(struct walls_question *q, const struct frame *f)
{
    struct msg_spawn_failed m;
    if (msg_spawn_failed_parse(f->payload, f->length, &m) == 0)
        snprintf(q->why, sizeof(q->why), "no command starts in it (%.40s: %s)", m.stage,
                 strerror(m.error));
    question_end(q, false);
}

static void take_frame(struct walls_question *q, const struct frame *f)
{
    bool ours = f->stream == (q->first | STREAM_QUESTION);
    if (f->type == MSG_OUTPUT && ours)
        take_output(q, f);
    else if (f->type == MSG_EXIT && ours)
        take_exit(q, f);
    else if (f->type == MSG_SPAWN_FAILED && ours)
        take_failure(q, f);
    else if (f->type == MSG_CONNECTED && f->stream == (q->first | STREAM_CONFIRMED))
        question_end(q, q->whole);
    else if (f->type == MSG_GOODBYE)
        snprintf(q->why, sizeof(q->why), "its runner refused the connection: %.*s",
                 f->length < 100 ? (int)f->length : 100, (const char *)f->payload);
}

/* False where the bytes are none of a runner's. */
static bool take_input(struct walls_question *q)
{
    if (!q->preface) {
        if (q->in.len < FRAME_PREFACE_SIZE)
            return true;
        if (memcmp(q->in.data, FRAME_PREFACE, FRAME_PREFACE_SIZE) != 0)
            return false;
        strbuf_consume(&q->in, FRAME_PREFACE_SIZE);
        q->preface = true;
    }
    while (!q->over) {
        struct frame f;
        int n = frame_parse((const uint8_t *)q->in.data, q->in.len, &f);
        if (n <= 0)
            return n == 0;
        take_frame(q, &f);
        strbuf_consume(&q->in, (size_t)n);
    }
    return true;
}

static void read_input(struct walls_question *q)
{
    char bytes[READ_SIZE];
    for (;;) {
        ssize_t n = recv(q->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || strbuf_append(&q->in, bytes, (size_t)n) < 0 || !take_input(q)) {
            if (!q->why[0])
                snprintf(q->why, sizeof(q->why), "the connection to its runner ended");
            question_end(q, false);
            return;
        }
        if (q->over)
            return;
    }
}

/* --- what goes */

static void write_output(struct walls_question *q)
{
    while (q->out.len && !q->over) {
        ssize_t n = send(q->fd, q->out.data, q->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* no room; or an end, which the next reading finds */
        strbuf_consume(&q->out, (size_t)n);
    }
}

static void on_question_ready(uv_poll_t *p, int status, int events)
{
    struct walls_question *q = p->data;
    (void)events;
    (void)status;
    read_input(q);
    write_output(q);
    if (!q->over)
        uv_poll_start(&q->poll, UV_READABLE | (q->out.len ? UV_WRITABLE : 0), on_question_ready);
}

static void format_question(struct walls_question *q, uint64_t generation, const char *witness)
{
    const char *argv[] = {WALLS_BUILTIN, witness,         "/workspace", "/cache",
                          "/tmp",        "/home/sandbox", NULL};
    char *env[] = {NULL};
    static_assert(ELEMENTS(argv) == _PLACE_MAX + 3, "an argument for every place");
    struct msg_spawn spawn = {.request_id = generation << 32,
                              .flags = SPAWN_BUILTIN,
                              .timeout_ms = ANSWER_MS,
                              .argv = (char **)argv,
                              .env = env,
                              .cwd = "",
                              .tag = "",
                              .pins = ""};
    strbuf_append(&q->out, FRAME_PREFACE, FRAME_PREFACE_SIZE);
    msg_hello_format(&q->out, 0, &(struct msg_hello){PROTO_VERSION, generation, 0});
    msg_spawn_format(&q->out, q->first | STREAM_QUESTION, &spawn);
}

struct walls_question *walls_ask(uv_loop_t *loop, int fd, uint64_t generation, const char *witness,
                                 walls_answer_fn cb, void *data)
{
    struct walls_question *q = new0(struct walls_question);
    q->fd = fd;
    q->cb = cb;
    q->data = data;
    q->first = (uint32_t)(generation % GENERATIONS) << STREAM_BITS;
    q->n_open = 2;
    strbuf_init(&q->in, 2 * INPUT_MAX);
    strbuf_init(&q->out, OUTPUT_MAX);
    format_question(q, generation, witness);
    fd_set_nonblock(fd, true);
    q->poll.data = q;
    if (uv_poll_init(loop, &q->poll, fd) < 0)
        abort(); /* it is a socket */
    uv_poll_start(&q->poll, UV_READABLE | UV_WRITABLE, on_question_ready);
    loop_timer_init(&q->timer, loop, on_question_late, q);
    loop_timer_start(&q->timer, ANSWER_MS);
    return q;
}
