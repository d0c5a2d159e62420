/* SPDX-License-Identifier: Apache-2.0 */
/* Execs that an earlier control plane started: what their runner says of them is put together with
 * what is on record. */
#include <signal.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/output-stream.h"
#include "sandbox/internal.h"

#define OUTPUT_MOST (1ull << 60) /* bytes of a stream */
#define ID_PREFIX   "ex-"

/* The runner holds its output back until it knows where to go on: behind what our journal has. */
static void send_position(struct exec *e)
{
    for (uint8_t which = OUTPUT_STDOUT; which <= OUTPUT_STDERR; which++) {
        struct msg_ack ack = {.which = which, .offset = e->received[output_index(which)]};
        e->acked[output_index(which)] = ack.offset;
        msg_ack_format(runner_out(e->sandbox->runner), e->stream, &ack);
    }
}

/* A runner is not trusted: it must not name a command, and with it the output, of another sandbox.
 */
static bool id_is_elsewhere(const struct sandbox *sb, const char *id)
{
    list_for_each(other, &sb->manager->all, struct sandbox, node) {
        if (other != sb && map_find(other->execs_by_id, id))
            return true;
    }
    return false;
}

/* As exec_make_id() makes them: an id is the name of files, and is shown to callers as it is. */
static bool id_is_plain(const char *id)
{
    size_t n = strlen(id);
    return n > strlen(ID_PREFIX) && n < EXEC_ID_SIZE &&
           strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0 &&
           strspn(id + strlen(ID_PREFIX), "abcdefghijklmnopqrstuvwxyz0123456789") ==
               n - strlen(ID_PREFIX);
}

/* An end that the runner reports must not be put on record as that of another sandbox's call. */
static void check_call(struct exec *e)
{
    const struct manager_options *o = &e->sandbox->manager->options;
    if (!*e->call || (o->is_call_of && o->is_call_of(o->on_exec_data, e->call, e->sandbox)))
        return;
    log_warn("a runner names a call of another sandbox, which is ignored sandbox=%s call=%s",
             e->sandbox->id, e->call);
    e->call[0] = 0;
}

/* The record of a command that only the runner tells of; NULL: there is to be none. What the runner
 * tells is held to what a start would be held to: a sandbox that claimed to run more than it may
 * would use up the commands that all sandboxes may have together (max_execs). */
static struct exec *restore_untold(struct sandbox *sb, const json_t *tag, const char *id)
{
    struct error err = {0};
    if (!id_is_plain(id) || id_is_elsewhere(sb, id) ||
        sb->n_running >= sb->manager->options.config.max_execs_per_sandbox)
        return NULL;
    struct exec *e = exec_restore(sb, tag, NULL, 0, &err);
    if (e)
        check_call(e);
    return e;
}

/* A full disk made the last control plane give output up, and nothing on record says so. No command
 * prints so much that the numbers end. */
static void resume_output(struct exec *e, const struct msg_state *m)
{
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++) {
        uint64_t have = e->received[output_index(s)], gone = m->acked[output_index(s)];
        if (gone <= have || gone > OUTPUT_MOST)
            continue;
        journal_lose(e->journal, s, gone - have);
        e->received[output_index(s)] = gone;
    }
}

/* Input that came whole with the request died with the control plane that had it, as far as the
 * runner had not got it. A command that then saw the end of its input would take half of it for all
 * of it, so it is killed and ends as interrupted. What the runner has completely is only closed. */
static void resume_stdin(struct exec *e, const struct msg_state *m)
{
    if (!e->stdin_whole || m->exited)
        return;
    if (m->stdin_received < e->stdin_given) {
        e->interrupted = true;
        exec_send_signal(e, SIGKILL, 0);
        return;
    }
    struct msg_stdin_close close = {.offset = e->stdin_given};
    msg_stdin_close_format(runner_out(e->sandbox->runner), e->stream, &close);
    e->stdin_close_sent = true;
}

/* One exec that the runner remembers. Three sources can know it: the runner, a row of the database,
 * and the file of recent rows, which restore.c has read before. A command that only the runner
 * knows was started and never shown to a caller; its record is made again from the tag that SPAWN
 * carried. One that is not to be known any more is forgotten, so that the runner gives its memory
 * back. */
void exec_on_state(void *data, uint32_t stream, const struct msg_state *m)
{
    struct sandbox *sb = data;
    struct error err = {0};
    if (sb->forgets) { /* of a machine that this one is a copy of */
        frame_append(runner_out(sb->runner), MSG_FORGET, stream, NULL, 0);
        return;
    }
    if (sb->lost_ms && (!sb->restored || sb->resumed)) {
        exec_on_known_state(sb, stream, m);
        return;
    }
    _cleanup_json_ json_t *tag = json_parse_object(m->tag, strlen(m->tag), &err);
    const char *id = tag ? json_string_value(json_object_get(tag, "id")) : NULL;
    struct exec *e = id && sb->restored ? map_find(sb->execs_by_id, id) : NULL;
    if (id && sb->restored && !e)
        e = restore_untold(sb, tag, id);
    if (!e || (exec_is_done(e) && list_empty(&e->node))) {
        frame_append(runner_out(sb->runner), MSG_FORGET, stream, NULL, 0);
        return;
    }
    e->stream = stream;
    e->request_id = m->request_id;
    e->pid = m->pid;
    e->started = m->started;
    e->resumed = true;
    e->stdin_base = e->stdin_sent = m->stdin_received;
    /* How much of that the command has read comes with the next STDIN_ACK: until then the runner
     * may be full. */
    e->stdin_acked = e->stdin_base > PROTO_WINDOW ? e->stdin_base - PROTO_WINDOW : 0;
    if (exec_is_done(e)) { /* its end is on record, and only FORGET had not reached the runner */
        e->forget_due = e->end_kept = true;
        exec_send_forget(e);
        return;
    }
    exec_tell(e, EXEC_EVENT_RESUMED);
    if (e->started)
        exec_announce_start(e);
    resume_output(e, m);
    send_position(e);
    resume_stdin(e, m);
}

static struct exec *find_unresumed(struct sandbox *sb)
{
    list_for_each(e, &sb->running, struct exec, phase_node) {
        if (e->restored && !e->resumed)
            return e;
    }
    return NULL;
}

/* The runner has listed all that it remembers. It forgets no command by itself, so one that is on
 * record and not in the list never reached it: SPAWN died in the buffer of an earlier control
 * plane. */
void exec_on_resumed(void *data)
{
    struct sandbox *sb = data;
    bool first = !sb->resumed; /* account that this control plane gets */
    sb->resumed = true;
    struct exec *e;
    sandbox_ref(sb); /* a callback that waits for one of them may delete the sandbox */
    if (first && sb->forgets)
        exec_fail_all(sb, EXEC_CANCELED, false,
                      "the daemon ended while the sandbox was being restored from a snapshot");
    while (first && (e = find_unresumed(sb)))
        exec_fail(e, "interrupted: the daemon restarted before it was started");
    if (sb->lost_ms && sb->runner && exec_send_again(sb) < 0)
        sandbox_break(sb, "the runner has forgotten a command");
    sandbox_flush(sb);
    if (sb->forgets)
        snapshot_on_forgotten(sb);
    sandbox_unref(sb);
}
