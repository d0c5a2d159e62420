/* SPDX-License-Identifier: Apache-2.0 */
/* Output that a container beside the sandbox brings, in place of the runner's connection.
 *
 * Theory of operation. The runner files the output of such an exec where that container reads it
 * (toolrunner/events.h). What is brought goes into the journal, and is acknowledged to the runner
 * by its own connection, like any other output: until then the files have it, so that a container,
 * a connection or a control plane that ends loses nothing. Each piece has its offset, and what is
 * known already is dropped, so that nothing is doubled either. The exit is the runner's word alone,
 * and it is the last event: EXIT says how much there is, and the exec waits for the rest. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/internal.h"

bool sandbox_is_streamed(const struct sandbox *sb)
{
    return sb->spec.stream_token[0];
}

bool sandbox_is_reached(const struct sandbox *sb)
{
    return sandbox_runner(sb) && (!sb->restored || sb->resumed);
}

static bool token_is(const char token[SPEC_TOKEN_SIZE], const char *given)
{
    unsigned differ = 0;
    if (!token[0] || strlen(given) != SPEC_TOKEN_SIZE - 1)
        return false;
    for (size_t i = 0; i < SPEC_TOKEN_SIZE; i++)
        differ |= (unsigned)(token[i] ^ given[i]);
    return differ == 0;
}

struct sandbox *sandbox_find_streamed(struct manager *m, const char *name, const char *token)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        bool named = !name || strcmp(sb->id, name) == 0 || strcmp(sb->runtime_id, name) == 0;
        if (named && token_is(sb->spec.stream_token, token))
            return sb;
    }
    return NULL;
}

void sandbox_begin_stream(struct sandbox *sb, void (*on_replaced)(void *data), void *data)
{
    void (*before)(void *data) = sb->stream_replaced;
    void *before_data = sb->stream_data;
    sb->stream_replaced = on_replaced;
    sb->stream_data = data;
    if (before)
        before(before_data);
}

void sandbox_end_stream(struct sandbox *sb, const void *data)
{
    if (sb->stream_data != data)
        return;
    sb->stream_replaced = NULL;
    sb->stream_data = NULL;
}

/* It must be the same after a restart. A terminal is for a person, who would notice the way. */
bool exec_is_streamed(const struct exec *e)
{
    return sandbox_is_streamed(e->sandbox) && !e->sandbox->hidden && !e->hidden && !e->has_sink &&
           !e->pty;
}

static void exec_end_when_whole(struct exec *e)
{
    struct msg_exit exit = e->exit;
    bool whole = exit.end[0] == e->received[0] && exit.end[1] == e->received[1];
    if (e->exit_waits && (whole || e->stream_ended))
        exec_on_exit(e->sandbox, e->stream, &exit);
}

int exec_ingest(struct exec *e, uint8_t stream, int64_t offset, const char *data, size_t len,
                size_t n_replaced, struct error *err)
{
    size_t i = output_index(stream);
    uint64_t have = e->received[i], from = offset < 0 ? have : (uint64_t)offset;
    if (exec_is_done(e) || !exec_is_streamed(e) || e->awaiting_stats)
        return 0;
    if (from > have)
        return error_set(err, ERROR_INVALID, 0, "output of %s before offset %llu is missing", e->id,
                         (unsigned long long)from);
    if (from + len <= have)
        return 0;
    size_t known = have - from;
    uint64_t most = e->exit_waits ? e->exit.end[i] : e->acked[i] + PROTO_WINDOW;
    if (from + len > most)
        return error_set(err, ERROR_INVALID, 0, "%s did not write so much", e->id);
    e->brought_ms = clock_mono_ms();
    e->replaced[i] += n_replaced;
    exec_take_output(e, stream, data + known, len - known);
    exec_end_when_whole(e);
    return 0;
}

void exec_ingest_end(struct exec *e)
{
    if (exec_is_done(e) || !exec_is_streamed(e) || e->awaiting_stats)
        return;
    e->stream_ended = true;
    exec_end_when_whole(e);
}

uint64_t stream_missing(uint64_t end, uint64_t received, uint64_t replaced)
{
    uint64_t n = end > received ? end - received : 0;
    return n % 2 == 0 && n / 2 <= replaced ? 0 : n;
}

static void lose_missing(struct exec *e, const struct msg_exit *m)
{
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++) {
        size_t i = output_index(s);
        if (m->end[i] <= e->received[i])
            continue;
        uint64_t n = stream_missing(m->end[i], e->received[i], e->replaced[i]);
        e->received[i] = m->end[i];
        if (!n)
            continue;
        log_warn("a stream container did not bring all output sandbox=%s exec=%s bytes=%llu",
                 e->sandbox->id, e->id, (unsigned long long)n);
        journal_lose(e->journal, s, n);
    }
}

bool exec_stream_is_whole(struct exec *e, const struct msg_exit *m)
{
    if (e->stream_ended)
        lose_missing(e, m);
    bool over = m->end[0] < e->received[0] || m->end[1] < e->received[1];
    if (over || (m->end[0] == e->received[0] && m->end[1] == e->received[1])) {
        e->exit_waits = false;
        return true;
    }
    if (!e->exit_waits)
        e->brought_ms = clock_mono_ms();
    e->exit = *m;
    e->exit_waits = true;
    journal_release(e->journal);
    return false;
}

static struct exec *find_late(const struct manager *m, const struct sandbox *sb)
{
    int64_t limit = clock_mono_ms() - (int64_t)m->options.config.reconnect_timeout_ms;
    list_for_each(e, &sb->running, struct exec, phase_node) {
        if (e->exit_waits && e->brought_ms < limit)
            return e;
    }
    return NULL;
}

void exec_look_after_streams(struct manager *m)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        struct exec *e = sandbox_is_streamed(sb) ? find_late(m, sb) : NULL;
        if (!e)
            continue;
        exec_ingest_end(e);
        return; /* the lists may have changed: the rest next time */
    }
}
