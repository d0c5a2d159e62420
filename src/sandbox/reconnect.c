/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a runner that breaks and is made again, for runtimes that say that this is no
 * dead sandbox (runtime_ops.connections_break).
 *
 * Theory of operation. The sandbox stays READY and its commands go on: the runner keeps their
 * output and ends, as it does while a control plane is started again. The difference to a restart
 * is that nothing was forgotten here. So each exec is known by its request id, requests that come
 * meanwhile wait, and what was sent and never confirmed is sent again: SPAWN until the runner knows
 * the command, the last signals (each has an id, and the runner applies one once), the size of a
 * terminal, and input from where the runner has it. Frames wait until the runner has said on its
 * new connection which execs it knows (sandbox_runner()), so that nothing overtakes that account.
 *
 * The loss lasts from the end of a connection until the runner's account is complete on another
 * one, however many are tried. After reconnect_timeout the sandbox has crashed. A runner that
 * gives its account and leaves again, in a loop, never loses for long and costs a connection each
 * time: more than reconnects_per_minute of them are a crash, too. Connections from
 * and to the inside (gateway-stream.c, port-stream.c) carry no offsets that outlive theirs: they
 * end with it, and new ones wait. A runner that breaks the protocol is a dead sandbox as ever. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/internal.h"

#define SIGNALS_KEPT 16 /* of one exec: as many as its runner knows the ids of */
#define MINUTE_MS    60000
#define ASK_AGAIN_MS 5000 /* a runtime that has not answered is asked again after this */

struct exec_sent {
    char *spawn; /* frames; NULL: they arrived */
    size_t spawn_len;
    struct msg_signal signals[SIGNALS_KEPT];
    unsigned n_signals;
    struct msg_resize size;
    bool resized;
};

/* its connection, and live */
static bool sandbox_may_lose(const struct sandbox *sb)
{
    return sb->ops->reconnect && (sb->ops->connections_break || runner_cuts_are_armed());
}

struct runner *sandbox_runner(const struct sandbox *sb)
{
    return sb->lost_ms ? NULL : sb->runner;
}

/* --- what may have to be sent again */

static struct exec_sent *exec_get_sent(struct exec *e)
{
    if (!e->sent)
        e->sent = new0(struct exec_sent);
    return e->sent;
}

void exec_keep_spawn(struct exec *e, const char *frames, size_t len)
{
    if (!sandbox_may_lose(e->sandbox))
        return;
    struct exec_sent *s = exec_get_sent(e);
    s->spawn = memcpy(xcalloc(1, len), frames, len);
    s->spawn_len = len;
}

void exec_drop_spawn(struct exec *e)
{
    if (!e->sent)
        return;
    free(e->sent->spawn);
    e->sent->spawn = NULL;
}

void exec_keep_signal(struct exec *e, const struct msg_signal *m)
{
    if (!sandbox_may_lose(e->sandbox))
        return;
    struct exec_sent *s = exec_get_sent(e);
    s->signals[s->n_signals++ % SIGNALS_KEPT] = *m;
}

void exec_keep_size(struct exec *e, const struct msg_resize *m)
{
    if (!sandbox_may_lose(e->sandbox))
        return;
    struct exec_sent *s = exec_get_sent(e);
    s->size = *m;
    s->resized = true;
}

/* --- losing a connection */

void sandbox_forget_lost(struct sandbox *sb)
{
    list_remove(&sb->lost_node);
    sb->lost_ms = 0;
}

static void ask_for_connection(struct sandbox *sb)
{
    sb->ask_again_ms = clock_mono_ms() + ASK_AGAIN_MS;
    sb->ops->reconnect(sb->instance);
}

/* One that is being made waits for its row, and may lose its connection as one that is READY. */
static bool sandbox_lives(const struct sandbox *sb)
{
    return sb->instance && sb->started &&
           (sb->state == SANDBOX_CREATING || sb->state == SANDBOX_READY);
}

/* A runner that leaves again and again, by a fault or on purpose, would make the daemon reconnect
 * for ever: so many ends of connections within a minute, and the sandbox counts as broken. */
static bool sandbox_breaks_too_often(struct sandbox *sb)
{
    int64_t now = clock_mono_ms();
    if (!sb->n_breaks || now - sb->breaks_since_ms >= MINUTE_MS) {
        sb->breaks_since_ms = now;
        sb->n_breaks = 0;
    }
    return ++sb->n_breaks > sb->manager->options.config.reconnects_per_minute;
}

/* The connection is gone; the sandbox may not be. Commands go on inside and stay `running` here.
 * Connections through the gateway and to ports cannot go on, because bytes of them may be lost. */
void sandbox_lose(struct sandbox *sb, const char *why)
{
    char too_often[160];
    if (sb->returning && sb->state == SANDBOX_READY) { /* on_back() has another one */
        runner_close(steal_ptr(sb->runner));
        sb->runner_ended = true;
        return;
    }
    if (!sandbox_lives(sb) || !sandbox_may_lose(sb)) {
        sandbox_break(sb, why);
        return;
    }
    if (sandbox_breaks_too_often(sb)) {
        snprintf(too_often, sizeof(too_often),
                 "its runner left %u times in a minute (reconnects_per_minute), the last time: %s",
                 sb->n_breaks, why);
        sandbox_break(sb, too_often);
        return;
    }
    sandbox_ref(sb); /* what hears of its streams may delete it */
    runner_close(steal_ptr(sb->runner));
    if (!sb->lost_ms) {
        log_info("a runner is not reached, and looked for again sandbox=%s: %s", sb->id, why);
        sb->lost_ms = clock_mono_ms();
        list_append(&sb->manager->lost, &sb->lost_node);
    }
    list_for_each(e, &sb->running, struct exec, phase_node)
        e->resumed = false;
    gateway_streams_free(sb);
    port_streams_free(sb, "the connection to its runner was lost");
    if (sandbox_lives(sb))
        ask_for_connection(sb);
    sandbox_unref(sb);
}

void sandbox_take_connection(void *data, int runner_fd)
{
    struct sandbox *sb = data;
    const struct manager_options *o = &sb->manager->options;
    if (!sandbox_lives(sb) || !sb->lost_ms) {
        fd_close(&runner_fd);
        return;
    }
    runner_close(steal_ptr(sb->runner));
    sb->runner = runner_new(o->loop, runner_fd, sb->turn, ++sb->attempt, &exec_runner_events, sb);
    if (sb->spec.network && sandbox_shares_kernel(sb))
        runner_accept_sockets(sb->runner);
    runner_flush(sb->runner);
}

/* Handles at most one sandbox per tick that is over time, because ending it changes the list; those
 * behind it follow with the next tick. A sandbox whose row is not written yet stays in the list
 * until it is, and does not keep those behind it from their turn. */
void sandbox_look_after_lost(struct manager *m)
{
    int64_t now = clock_mono_ms();
    list_for_each_safe(sb, &m->lost, struct sandbox, lost_node) {
        char why[96];
        if (now - sb->lost_ms > (int64_t)m->options.config.reconnect_timeout_ms && !sb->paused) {
            snprintf(why, sizeof(why),
                     "its runner was not reached again within %llu s "
                     "(reconnect_timeout)",
                     (unsigned long long)(m->options.config.reconnect_timeout_ms / 1000));
            bool leaves = sb->state == SANDBOX_READY;
            sandbox_break(sb, why);
            if (leaves)
                return;
            continue;
        }
        if (now >= sb->ask_again_ms && !sb->runner)
            ask_for_connection(sb);
    }
}

/* --- the account of the runner on the next one */

static struct exec *find_request(struct sandbox *sb, uint32_t stream, uint64_t request_id)
{
    list_for_each(e, &sb->execs, struct exec, node) {
        if (e->stream == stream && e->request_id == request_id)
            return e;
    }
    return NULL;
}

/* The queue has all that was not acknowledged. */
static void rewind_input(struct exec *e, uint64_t received)
{
    if (!e->stdin_open)
        return;
    e->stdin_sent = received;
    e->stdin_close_sent = false;
}

/* One exec that the runner remembers, on a connection after a lost one. Unlike after a restart
 * (exec_on_state) our own record is whole, and the runner's account is held against it. */
void exec_on_known_state(struct sandbox *sb, uint32_t stream, const struct msg_state *m)
{
    struct exec *e = find_request(sb, stream, m->request_id);
    if (e && exec_is_done(e) && !e->end_kept) {
        e->forget_due = true; /* once its end is on record */
        return;
    }
    if (!e || exec_is_done(e)) {
        if (e)
            e->forget_due = false;
        frame_append(runner_out(sb->runner), MSG_FORGET, stream, NULL, 0);
        return;
    }
    /* The queue begins at stdin_base. stdin_acked may be lower, after a restart. */
    bool input = m->stdin_received >= e->stdin_base && m->stdin_received <= e->stdin_sent;
    if (!input && e->stdin_open) {
        sandbox_break(sb, "the runner has input that it was not sent");
        return;
    }
    exec_drop_spawn(e);
    e->resumed = true;
    if (e->awaiting_stats)
        return;
    rewind_input(e, m->stdin_received);
    /* The runner sends again from what was acknowledged, which is what a journal or a sink has for
     * good; what came since is known, and dropped (exec_on_output()). */
    for (uint8_t which = OUTPUT_STDOUT; which <= OUTPUT_STDERR; which++) {
        size_t i = output_index(which);
        struct msg_ack ack = {.which = which,
                              .offset = e->has_sink ? e->consumed[i]
                                                    : journal_durable_end(e->journal, which)};
        e->acked[i] = ack.offset;
        msg_ack_format(runner_out(e->sandbox->runner), e->stream, &ack);
    }
    if (m->started && !e->started) {
        struct msg_started started = {.request_id = m->request_id, .pid = m->pid};
        exec_on_started(sb, stream, &started);
    }
}

static void send_kept(struct exec *e)
{
    struct strbuf *out = runner_out(e->sandbox->runner);
    struct exec_sent *s = e->sent;
    if (!s)
        return;
    if (s->spawn)
        strbuf_append(out, s->spawn, s->spawn_len);
    unsigned first = s->n_signals > SIGNALS_KEPT ? s->n_signals - SIGNALS_KEPT : 0;
    for (unsigned i = first; i < s->n_signals; i++)
        msg_signal_format(out, e->stream, &s->signals[i % SIGNALS_KEPT]);
    if (s->resized)
        msg_resize_format(out, e->stream, &s->size);
}

/* The runner has listed all that it knows. A command that runs here and is not in the list is
 * either one whose SPAWN was lost with the connection, and is sent again, or one that the runner
 * has forgotten, which it must not do before FORGET: -EPROTO then. */
int exec_send_again(struct sandbox *sb)
{
    list_for_each(e, &sb->running, struct exec, phase_node) {
        bool unsent = e->sent && e->sent->spawn;
        if (!e->resumed && !unsent && !e->awaiting_stats)
            return -EPROTO;
        if (!e->resumed)
            rewind_input(e, e->stdin_base); /* nothing of it has arrived */
        e->resumed = true;
        if (!e->awaiting_stats)
            send_kept(e);
    }
    log_info("a runner is reached again after %lld ms sandbox=%s",
             (long long)(clock_mono_ms() - sb->lost_ms), sb->id);
    sandbox_forget_lost(sb);
    list_for_each(e, &sb->running, struct exec, phase_node)
        exec_pump_stdin(e);
    list_for_each(e, &sb->execs, struct exec, node) {
        if (e->end_kept)
            exec_send_forget(e);
    }
    return 0;
}
