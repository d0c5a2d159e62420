/* SPDX-License-Identifier: Apache-2.0 */
/* Stdin of an exec: a queue here, a window's worth under way to the runner, and who waits for it to
 * empty. */
#include "sandbox/internal.h"

#define STDIN_CHUNK (FRAME_PAYLOAD_MAX - 64)

/* Each watcher stays in the list while it is called. That is why the contract in exec.h forbids it
 * to end a watch from there: the next one would be looked for in freed memory. */
void exec_tell_drained(struct exec *e)
{
    list_for_each(w, &e->drains, struct exec_drain, node)
        w->on_drain(w);
}

/* No more than a window is under way, and the queue keeps it until it is acknowledged: a runner
 * that is reached anew gets it again from there. */
void exec_pump_stdin(struct exec *e)
{
    struct sandbox *sb = e->sandbox;
    struct runner *r = sandbox_runner(sb);
    if (!r)
        return;
    uint64_t end = e->stdin_base + e->stdin_queue.len;
    bool sent = false;
    while (e->stdin_sent < end && e->stdin_sent - e->stdin_acked < PROTO_WINDOW) {
        uint64_t room = PROTO_WINDOW - (e->stdin_sent - e->stdin_acked);
        size_t n = end - e->stdin_sent < STDIN_CHUNK ? end - e->stdin_sent : STDIN_CHUNK;
        n = n < room ? n : room;
        struct msg_stdin m = {.offset = e->stdin_sent,
                              .data = (const uint8_t *)e->stdin_queue.data +
                                      (e->stdin_sent - e->stdin_base),
                              .len = n};
        msg_stdin_format(runner_out(r), e->stream, &m);
        e->stdin_sent += n;
        sent = true;
    }
    if (e->stdin_close_wanted && !e->stdin_close_sent && e->stdin_sent == end) {
        struct msg_stdin_close m = {.offset = end};
        msg_stdin_close_format(runner_out(r), e->stream, &m);
        e->stdin_close_sent = true;
        sent = true;
    }
    if (sent)
        sandbox_flush(sb);
}

void exec_on_stdin_ack(void *data, uint32_t stream, const struct msg_stdin_ack *m)
{
    struct sandbox *sb = data;
    struct exec *e = exec_find_running(sb, stream);
    if (!e)
        return;
    if (!e->stdin_open)
        return; /* about bytes that were under way when the command stopped reading */
    /* The queue is consumed by the difference to its base, so that an offset which was never sent
     * would reach beyond what is queued. */
    if (m->offset < e->stdin_acked || m->offset > e->stdin_sent) {
        sandbox_break(sb, "the runner acknowledged input it was not sent");
        return;
    }
    e->stdin_acked = m->offset;
    if (m->closed) { /* the command has closed its end: what is queued can never be read */
        e->stdin_open = false;
        e->stdin_base += e->stdin_queue.len;
        e->stdin_sent = e->stdin_acked = e->stdin_base;
        e->stdin_close_sent = true;
        strbuf_done(&e->stdin_queue);
    } else {
        /* What an earlier control plane sent is not in the queue. */
        if (m->offset > e->stdin_base) {
            strbuf_consume(&e->stdin_queue, m->offset - e->stdin_base);
            e->stdin_base = m->offset;
        }
        exec_pump_stdin(e);
    }
    if (e->stdin_queue.len == 0)
        exec_tell_drained(e);
}

int exec_write(struct exec *e, const char *data, size_t len, struct error *err)
{
    if (exec_is_done(e) || !e->stdin_open || e->stdin_close_wanted)
        return error_set(err, ERROR_CONFLICT, 0, "the command's stdin is closed");
    /* All of it or nothing: a caller that gets an error can send the same bytes again. */
    if (strbuf_append(&e->stdin_queue, data, len) < 0)
        return error_set(err, ERROR_LIMIT, 0,
                         "the command does not read its stdin "
                         "(max_stdin_queue)");
    const struct manager_options *o = &e->sandbox->manager->options;
    if (o->on_input && *e->call)
        o->on_input(o->on_exec_data, &e->input_state, data, len);
    exec_pump_stdin(e);
    return 0;
}

/* The end of stdin follows the queue: exec_pump_stdin() sends it when all before it was sent. */
int exec_close_stdin(struct exec *e, struct error *err)
{
    if (exec_is_done(e) || !e->stdin_open || e->stdin_close_wanted)
        return error_set(err, ERROR_CONFLICT, 0, "the command's stdin is closed");
    e->stdin_close_wanted = true;
    exec_pump_stdin(e);
    return 0;
}

size_t exec_stdin_queued(const struct exec *e)
{
    return e->stdin_queue.len;
}

void exec_watch_stdin(struct exec *e, struct exec_drain *w)
{
    list_append(&e->drains, &w->node);
}

void exec_unwatch_stdin(struct exec_drain *w)
{
    if (w->node.next)
        list_remove(&w->node);
}
