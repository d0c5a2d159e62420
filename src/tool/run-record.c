/* What became of a call, on record: from the runner's word that it runs, and from wait(). */
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "tool/run-internal.h"

#define DIGEST_MAX (1024 * 1024) /* output of a stream that is hashed; more is only counted */

/* Which mechanism stands behind each wall, for the record of a start. */
static json_t *isolation(const struct sandbox *sb)
{
    const struct effective *e = sandbox_effective(sb);
    json_t *walls = json_object();
    for (int w = 0; w < _WALL_MAX; w++)
        if (e->by[w])
            json_object_set_new(walls, wall_name((enum wall)w), json_string(e->by[w]));
    return json_pack("{s:s, s:o}", "runtime", e->runtime ? e->runtime : "", "isolation", walls);
}

static void describe_output(json_t *o, struct exec *e, uint8_t stream, const char *key)
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
    json_object_set_new(o, key, json_string(digest));
}

static json_t *describe_end(struct exec *e)
{
    const struct exec_result *r = exec_result(e);
    json_t *o = json_object();
    if (r->has_exit_code)
        json_object_set_new(o, "exit_code", json_integer(r->exit_code));
    if (r->signo)
        json_object_set_new(o, "signal", json_integer(r->signo));
    if (r->spawn_errno)
        json_object_set_new(o, "not_started", json_true());
    if (*r->error)
        json_object_set_new(o, "error", json_message(r->error));
    describe_output(o, e, 1, "stdout_digest");
    describe_output(o, e, 2, "stderr_digest");
    return o;
}

void run_on_exec(void *data, struct exec *e, enum exec_event event)
{
    struct gate *g = data;
    const char *sandbox = sandbox_id(exec_sandbox(e));
    _cleanup_json_ json_t *details =
        event == EXEC_EVENT_ENDED ? describe_end(e) : isolation(exec_sandbox(e));
    if (event == EXEC_EVENT_ENDED)
        gate_note_ended(g, exec_call(e), sandbox, exec_id(e), exec_status_name(exec_status(e)),
                        details);
    else
        gate_note_started(g, exec_call(e), sandbox, exec_id(e),
                          event == EXEC_EVENT_RESUMED ? "resumed" : "running", details);
}
