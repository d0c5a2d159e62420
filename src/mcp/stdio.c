/* SPDX-License-Identifier: Apache-2.0 */
/* MCP on stdin and stdout: a message a line, one session. Nothing else is written to stdout.
 *
 * A reader that does not read is held back by its own pipe: while much is queued no line is read,
 * and notifications are left out. When the input ends the client is gone or about to go: nothing
 * more is asked of it, and what runs may finish within the grace, then it is cancelled. Once the
 * output has no reader either, the answers have nowhere to go. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "loop/lines.h"
#include "mcp/internal.h"

struct mcp_stdio {
    struct outlet outlet; /* never freed by its count: this is its owner */
    struct mcp *mcp;
    struct mcp_session *session;
    struct lines *lines;
    uv_poll_t poll;
    bool polls;  /* stdout can be waited for */
    int watched; /* and for what it is */
    struct strbuf queue;
    bool input_ended, broken, ended;
    struct loop_timer grace;
    void (*on_end)(void *data);
    void *data;
};

/* --- writing */

static void flush_output(struct mcp_stdio *io);

static void check_end(struct mcp_stdio *io);

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct mcp_stdio *io = poll->data;
    io->broken = io->broken || status < 0 || (events & UV_DISCONNECT);
    if (io->broken)
        check_end(io);
    else
        flush_output(io);
}

/* While there is something to write, and from the end of the input on: then the reader may leave.
 */
static void watch_output(struct mcp_stdio *io)
{
    bool writable = io->queue.len && !io->broken && !io->ended;
    bool leaves = io->input_ended && !io->ended;
    int events = (writable ? UV_WRITABLE : 0) | (writable || leaves ? UV_DISCONNECT : 0);
    if (!io->polls || events == io->watched)
        return;
    io->watched = events;
    if (events)
        uv_poll_start(&io->poll, events, on_output);
    else
        uv_poll_stop(&io->poll);
}

static void stdio_finish(struct mcp_stdio *io)
{
    if (io->ended)
        return;
    io->ended = true;
    watch_output(io);
    loop_timer_close(&io->grace, NULL, NULL);
    session_end(io->session);
    session_unref(steal_ptr(io->session));
    io->on_end(io->data);
}

/* The end, once there is nothing left to do. */
static void check_end(struct mcp_stdio *io)
{
    if (io->broken || (io->input_ended && list_empty(&io->session->calls) && io->queue.len == 0))
        stdio_finish(io);
}

static void hold_input(struct mcp_stdio *io)
{
    if (io->input_ended)
        return;
    if (io->queue.len > io->mcp->o.config.queue_bytes)
        lines_pause(io->lines);
    else if (io->queue.len == 0)
        lines_resume(io->lines);
}

static void flush_output(struct mcp_stdio *io)
{
    while (io->queue.len && !io->broken) {
        ssize_t n = write(STDOUT_FILENO, io->queue.data, io->queue.len);
        if (n > 0) {
            strbuf_consume(&io->queue, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            log_error("stdout cannot be written: %s", strerror(errno));
            io->broken = true;
        }
    }
    watch_output(io);
    if (io->queue.len == 0 || io->broken)
        check_end(io);
    if (!io->ended)
        hold_input(io);
}

static void write_message(struct mcp_stdio *io, const char *text, size_t len)
{
    if (io->ended || io->broken)
        return;
    bool idle = io->queue.len == 0;
    if (strbuf_append(&io->queue, text, len) < 0 || strbuf_append(&io->queue, "\n", 1) < 0) {
        log_error("mcp: the reader of stdout is too slow");
        io->broken = true;
    }
    if (idle || io->broken)
        flush_output(io);
    else
        hold_input(io);
}

static void on_send(struct outlet *o, const char *text, size_t len)
{
    write_message(container_of(o, struct mcp_stdio, outlet), text, len);
}

static void on_answer(struct outlet *o, const char *text, size_t len)
{
    struct mcp_stdio *io = container_of(o, struct mcp_stdio, outlet);
    if (text)
        write_message(io, text, len);
    if (!io->ended)
        check_end(io);
}

static bool is_full(const struct outlet *o)
{
    const struct mcp_stdio *io = container_of(o, struct mcp_stdio, outlet);
    return io->ended || io->queue.len > io->mcp->o.config.queue_bytes;
}

static void keep_outlet(struct outlet *o)
{
    (void)o;
}

static const struct outlet_ops stdio_ops = {
    .send = on_send, .answer = on_answer, .is_full = is_full, .free = keep_outlet};

/* --- a batch: its answers are one array */

struct batch {
    struct outlet outlet;
    struct mcp_stdio *io;
    size_t expected;
    struct strbuf answers;
};

static void batch_send(struct outlet *o, const char *text, size_t len)
{
    write_message(container_of(o, struct batch, outlet)->io, text, len);
}

static void batch_answer(struct outlet *o, const char *text, size_t len)
{
    struct batch *b = container_of(o, struct batch, outlet);
    if (text) {
        strbuf_puts(&b->answers, b->answers.len ? "," : "[");
        strbuf_append(&b->answers, text, len);
    }
    if (--b->expected > 0)
        return;
    if (b->answers.len) {
        strbuf_puts(&b->answers, "]");
        write_message(b->io, b->answers.data, b->answers.len);
    }
    if (!b->io->ended)
        check_end(b->io);
}

static bool batch_is_full(const struct outlet *o)
{
    return is_full(&container_of(o, struct batch, outlet)->io->outlet);
}

static void batch_free(struct outlet *o)
{
    struct batch *b = container_of(o, struct batch, outlet);
    strbuf_done(&b->answers);
    free(b);
}

static const struct outlet_ops batch_ops = {
    .send = batch_send, .answer = batch_answer, .is_full = batch_is_full, .free = batch_free};

static struct outlet *batch_new(struct mcp_stdio *io, size_t expected)
{
    struct batch *b = new0(struct batch);
    b->outlet = (struct outlet){&batch_ops, 1};
    b->io = io;
    b->expected = expected;
    strbuf_init(&b->answers, (io->mcp->o.config.max_answer_bytes + 1) * (expected + 1));
    return &b->outlet;
}

/* --- reading */

static void on_line(void *data, const char *line, size_t len)
{
    struct mcp_stdio *io = data;
    struct error err = {0};
    struct rpc_text t;
    const char *why;
    if (io->ended)
        return;
    if (rpc_text_parse(&t, line, len, &err) < 0) {
        outlet_fail(&io->outlet, NULL, RPC_PARSE_ERROR, err.message);
        return;
    }
    if ((why = dispatch_refuse_batch(io->session, &t))) {
        outlet_fail(&io->outlet, NULL, RPC_INVALID_REQUEST, why);
    } else if (t.batch) {
        struct outlet *o = batch_new(io, rpc_count_answers(&t));
        dispatch_text(io->session, o, &t);
        outlet_unref(o);
    } else {
        dispatch_text(io->session, &io->outlet, &t);
    }
    rpc_text_done(&t);
}

static void on_too_long(void *data)
{
    struct mcp_stdio *io = data;
    outlet_fail(&io->outlet, NULL, RPC_INVALID_REQUEST,
                "the message is too long (mcp_max_message_bytes)");
}

static void on_input_end(void *data)
{
    struct mcp_stdio *io = data;
    io->input_ended = true;
    loop_timer_start(&io->grace, io->mcp->o.shutdown_grace_ms);
    asks_fail(io->session);
    if (io->ended)
        return;
    watch_output(io);
    check_end(io);
}

static void on_grace(void *data)
{
    stdio_finish(data);
}

struct mcp_stdio *mcp_stdio_start(struct mcp *m, void (*on_end)(void *data), void *data)
{
    static const struct lines_handlers handlers = {on_line, on_too_long, on_input_end};
    struct error err = {0};
    struct mcp_stdio *io = new0(struct mcp_stdio);
    io->outlet = (struct outlet){&stdio_ops, 1};
    io->mcp = m;
    io->on_end = on_end;
    io->data = data;
    io->session = session_new(m, &identity_local, false, &err);
    io->session->loose = outlet_ref(&io->outlet);
    strbuf_init(&io->queue, m->o.config.buffer_total_bytes);
    loop_timer_init(&io->grace, m->o.loop, on_grace, io);
    /* Where stdout is a pipe or a socket it must not hold up the loop; others never do for long. */
    struct stat st;
    signal(SIGPIPE, SIG_IGN);
    bool waits = fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    if (waits && uv_poll_init(io->mcp->o.loop, &io->poll, STDOUT_FILENO) == 0) {
        io->polls = true;
        io->poll.data = io;
        fd_set_nonblock(STDOUT_FILENO, true);
    } else {
        fd_set_nonblock(STDOUT_FILENO, false);
    }
    io->lines = lines_start(m->o.loop, STDIN_FILENO, m->o.config.max_message_bytes, &handlers, io);
    return io;
}

void mcp_stdio_free(struct mcp_stdio *io)
{
    if (!io)
        return;
    lines_free(io->lines);
    strbuf_done(&io->queue);
    free(io);
}
