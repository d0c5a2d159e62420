/* SPDX-License-Identifier: Apache-2.0 */
/* Output of an exec: from the runner into its journal, or into a sink, and acknowledged once it is
 * safe there. */
#include <errno.h>

#include "base/fault.h"
#include "base/output-stream.h"
#include "sandbox/internal.h"

#define ACK_BYTES (PROTO_WINDOW / 4) /* output unacknowledged before an ACK goes out */

/* The runner keeps every byte until it is acknowledged, and counts it against the window. So an ACK
 * is due only for bytes that would survive our death, and not for each message: one per quarter of
 * the window keeps the command writing and costs few frames. */
static void acknowledge_output(struct exec *e, uint8_t which, uint64_t offset)
{
    struct runner *r = sandbox_runner(e->sandbox);
    if (offset < e->acked[output_index(which)] + ACK_BYTES || !r)
        return;
    struct msg_ack ack = {.which = which, .offset = offset};
    e->acked[output_index(which)] = offset;
    fault_point("ack.before");
    msg_ack_format(runner_out(r), e->stream, &ack);
    sandbox_flush(e->sandbox);
    fault_point("ack.sent");
}

void exec_take_output(struct exec *e, uint8_t which, const char *data, size_t len)
{
    e->received[output_index(which)] += len;
    e->sandbox->manager->counts.output_bytes_total += len;
    fault_point("output.before-append");
    journal_append(e->journal, which, data, len);
    fault_point("output.appended");
    if (!journal_blocked(e->journal))
        acknowledge_output(e, which, journal_durable_end(e->journal, which));
}

int exec_on_output(void *data, uint32_t stream, const struct msg_output *m)
{
    struct sandbox *sb = data;
    struct exec *e = exec_find_running(sb, stream);
    struct msg_output fresh;
    if (m->which != 1 && m->which != 2)
        return -EPROTO;
    /* A command that has ended on record, whose output was never acknowledged: its runner waits
     * only so long for our leave to forget it, and on a busy host we may be later than that. */
    if (!e && runner_has_stated(sb->runner, stream))
        return 0;
    if (!e || exec_is_streamed(e))
        return -EPROTO;
    uint64_t have = e->received[output_index(m->which)];
    /* After a restart the runner may have sent this before it heard our position: the journal has
     * the first part of it. On a connection that never broke, an overlap is a fault. */
    if (e->resumed && m->offset < have) {
        if (m->offset + m->len <= have)
            return 0;
        size_t known = have - m->offset;
        fresh = (struct msg_output){m->which, have, m->data + known, m->len - known};
        m = &fresh;
    }
    if (m->offset != have)
        return -EPROTO;
    /* A runner is not trusted: one that ignores the window could fill our memory. */
    if (m->offset + m->len - e->acked[output_index(m->which)] > PROTO_WINDOW)
        return -EPROTO;
    /* A sink may end the exec, or its sandbox, from inside. So everything is counted before it is
     * called, and nothing of either is looked at afterwards. */
    if (e->has_sink) {
        e->received[output_index(m->which)] += m->len;
        sb->manager->counts.output_bytes_total += m->len;
        if (e->sink.on_output)
            e->sink.on_output(e->sink.data, m->which, (const char *)m->data, m->len);
        else
            exec_sink_done(e, m->which, m->len);
        return 0;
    }
    exec_take_output(e, m->which, (const char *)m->data, m->len);
    return 0;
}

/* The journal was full and is not any more. No output comes while the runner's window is full, so
 * the acknowledgement that was held back must be sent from here. */
static void on_journal_room(void *data)
{
    struct exec *e = data;
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR && !exec_is_done(e); s++)
        acknowledge_output(e, s, journal_durable_end(e->journal, s));
}

void exec_watch_journal(struct exec *e)
{
    journal_on_room(e->journal, on_journal_room, e);
}

void exec_sink_done(struct exec *e, uint8_t stream, size_t bytes)
{
    e->consumed[output_index(stream)] += bytes;
    if (!exec_is_done(e))
        acknowledge_output(e, stream, e->consumed[output_index(stream)]);
}

/* The reader has left. What it has not consumed is acknowledged at once, as is all that follows:
 * the command must not wait for ever for a reader that does not come back. */
void exec_sink_detach(struct exec *e)
{
    e->sink.on_output = NULL;
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++)
        exec_sink_done(e, s, e->received[output_index(s)] - e->consumed[output_index(s)]);
}

/* The command has ended, and its last output waits in the runner for room. A journal that blocks
 * does so to slow a writer down; this writer is gone, so the journal takes the rest of the output.
 * Without that the exit, which comes behind the output, would never come. */
void exec_on_draining(void *data, uint32_t stream)
{
    struct exec *e = exec_find_running(data, stream);
    if (e && e->journal)
        journal_release(e->journal);
}
