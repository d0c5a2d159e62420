/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a call, on record: from the runner's word that it runs, and from wait(). */
#include <string.h>

#include "base/error.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "tool/run-internal.h"

#define DIGEST_MAX  (1024 * 1024) /* output of a stream that is hashed; more is only counted */
#define DETAILS_MAX 65536         /* more than there can be */

/* Which mechanism stands behind each wall, for the record of a start. */
static void put_isolation(struct json_text *t, const struct sandbox *sb)
{
    const struct effective *e = sandbox_effective(sb);
    json_text_string(t, "runtime", e->runtime ? e->runtime : "");
    json_text_open(t, "isolation", '{');
    for (int w = 0; w < _WALL_MAX; w++)
        if (e->by[w])
            json_text_string(t, wall_name((enum wall)w), e->by[w]);
    json_text_close(t, '}');
}

/* The digest is of the whole stream or not there: one of a part would prove nothing about the rest,
 * and look as if it did. */
static void put_output(struct json_text *t, struct exec *e, uint8_t stream, const char *key)
{
    char digest[AUDIT_DIGEST_SIZE];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(DIGEST_MAX);
    uint64_t omitted = 0;
    size_t gap;
    struct journal *j = exec_journal(e);
    if (!j || journal_stream_end(j, stream) == 0 || journal_stream_end(j, stream) > DIGEST_MAX)
        return;
    if (journal_collect(j, stream, DIGEST_MAX, &b, &omitted, &gap) < 0 || omitted)
        return;
    audit_digest(b.data, b.len, digest);
    json_text_string(t, key, digest);
}

/* All that came after the start, in one hash: of a file operation the content, else keyed. */
static void put_input(struct json_text *t, const struct audit *a, struct exec *e)
{
    char digest[AUDIT_DIGEST_SIZE];
    struct audit_stream *all = *exec_input_state(e);
    *exec_input_state(e) = NULL;
    if (!all)
        return;
    json_text_int(t, "input_bytes", (int64_t)audit_stream_end(all, digest));
    if (!exec_is_hidden(e))
        audit_digest_keyed(a, digest);
    json_text_string(t, "input_digest", digest);
}

void run_on_input(void *data, void **state, const char *bytes, size_t len)
{
    struct audit_stream *s = *state;
    if (!gate_audit(data))
        return;
    audit_stream_add(&s, bytes, len);
    *state = s;
}

static void put_end(struct json_text *t, struct exec *e)
{
    const struct exec_result *r = exec_result(e);
    if (r->has_exit_code)
        json_text_int(t, "exit_code", r->exit_code);
    if (r->signo)
        json_text_int(t, "signal", r->signo);
    if (r->spawn_errno)
        json_text_bool(t, "not_started", true);
    if (*r->error)
        json_text_bytes(t, "error", r->error, strlen(r->error));
    put_output(t, e, OUTPUT_STDOUT, "stdout_digest");
    put_output(t, e, OUTPUT_STDERR, "stderr_digest");
}

/* For acts that are recorded before they are done: without the record they do not happen. */
static int record_act(struct audit *a, const struct audit_record *r, struct error *err)
{
    int n = audit_write(a, r, NULL, err);
    if (n < 0)
        error_prefix(err, "not done: the audit cannot be written");
    return n;
}

int run_record_sandbox(struct audit *a, struct sandbox *sb, const struct identity *who,
                       const char *what, json_t *details, struct error *err)
{
    _cleanup_json_ json_t *owned = details;
    struct audit_record r = {.kind = "sandbox",
                             .who = who,
                             .sandbox = sandbox_id(sb),
                             .outcome = what,
                             .details = owned};
    return record_act(a, &r, err);
}

static struct audit_record steer_record(struct exec *e, const struct identity *who,
                                        const char *what, json_t *details)
{
    return (struct audit_record){.kind = "steer",
                                 .who = who,
                                 .call_id = exec_call(e),
                                 .sandbox = sandbox_id(exec_sandbox(e)),
                                 .exec = exec_id(e),
                                 .outcome = what,
                                 .details = details};
}

int run_record_steer(struct audit *a, struct exec *e, const struct identity *who, const char *what,
                     json_t *details, struct error *err)
{
    _cleanup_json_ json_t *owned = details;
    struct audit_record r = steer_record(e, who, what, owned);
    return record_act(a, &r, err);
}

void run_record_input(struct audit *a, struct exec *e, const struct identity *who,
                      struct audit_stream *input)
{
    char digest[AUDIT_DIGEST_SIZE];
    if (!input)
        return;
    uint64_t bytes = audit_stream_end(input, digest);
    if (!a)
        return;
    /* Keyed, because what people type is short: a plain hash of a password could be guessed. */
    audit_digest_keyed(a, digest);
    _cleanup_json_ json_t *details =
        json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "digest", digest);
    struct audit_record r = steer_record(e, who, "input", details);
    audit_note(a, &r);
}

/* A runner that was taken over could name the call of another sandbox as its own, and end it on
 * record. The audit knows which sandbox each open call was let into. */
bool run_is_call_of(void *data, const char *call, const struct sandbox *sb)
{
    return audit_is_open_in(gate_audit(data), call, sandbox_id(sb));
}

/* Comes from the sandbox layer before any waiter or reader hears of the event, so that the record
 * is queued before an answer can be sent. After a restart a command that is found running is
 * recorded as resumed: its first record may be of an earlier process. */
void run_on_exec(void *data, struct exec *e, enum exec_event event)
{
    struct gate *g = data;
    const char *sandbox = sandbox_id(exec_sandbox(e));
    _cleanup_strbuf_ struct strbuf details = STRBUF_INIT(DETAILS_MAX);
    struct json_text t = json_text_begin(&details, '{');
    if (event == EXEC_EVENT_ENDED) {
        put_input(&t, gate_audit(g), e);
        put_end(&t, e);
    } else
        put_isolation(&t, exec_sandbox(e));
    json_text_end(&t, '}');
    if (event == EXEC_EVENT_ENDED)
        gate_note_ended(g, exec_call(e), sandbox, exec_id(e), exec_status_name(exec_status(e)),
                        details.data);
    else
        gate_note_started(g, exec_call(e), sandbox, exec_id(e),
                          event == EXEC_EVENT_RESUMED ? "resumed" : "running", details.data);
}
