/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal of changes hears of sandboxes and their commands.
 *
 * A change is appended when it holds, before those who wait for it go on. Where a row says the
 * same, the event is appended first, so that one batch of the store has both. A control plane
 * that dies before that batch leaves a row that the journal does not know of: what is restored
 * is compared with the journal, and what it lacks is appended then. Hidden sandboxes and
 * commands, which only the daemon itself uses, are in no listing and are not announced either. */
#include <stdio.h>
#include <string.h>

#include "base/json-format.h"
#include "event/event-journal.h"
#include "gateway/gateway-proto.h"
#include "sandbox/internal.h"

/* Texts are made and copied in one go: all share this. */
static struct strbuf scratch = STRBUF_INIT(EVENT_DATA_MAX);

static struct event_journal *events_of(const struct sandbox *sb)
{
    return sb->hidden || sb->pooled ? NULL : sb->manager->options.events;
}

static void append_sandbox(struct sandbox *sb, enum event_type type, const char *reason)
{
    strbuf_reset(&scratch);
    struct json_text t = json_text_begin(&scratch, '{');
    json_text_string(&t, "runtime", sb->spec.runtime);
    if (sb->alias)
        json_text_bytes(&t, "alias", sb->alias, strlen(sb->alias));
    if (reason)
        json_text_bytes(&t, "reason", reason, strlen(reason));
    json_text_end(&t, '}');
    event_append(events_of(sb), type, sb->id, sb->owner, scratch.data);
}

static void announce_created(struct sandbox *sb)
{
    if (!sb->announced)
        append_sandbox(sb, EVENT_SANDBOX_CREATED, NULL);
    sb->announced = true;
}

void sandbox_announce(struct sandbox *sb)
{
    if (!events_of(sb))
        return;
    if (sb->state == SANDBOX_READY) {
        announce_created(sb);
    } else if (sb->state == SANDBOX_CRASHED) {
        announce_created(sb);
        append_sandbox(sb, EVENT_SANDBOX_CRASHED, sb->failure.message);
    } else if (sb->state == SANDBOX_GONE && sb->announced) {
        append_sandbox(sb, EVENT_SANDBOX_DELETED, NULL);
    }
}

void sandbox_announce_pause(struct sandbox *sb)
{
    if (events_of(sb))
        append_sandbox(sb, sb->paused ? EVENT_SANDBOX_PAUSED : EVENT_SANDBOX_RESUMED, NULL);
}

/* One that is not ready yet is announced when it is. One that is lost was not resumed before. */
void sandbox_announce_restored(struct sandbox *sb)
{
    struct event_journal *j = events_of(sb);
    sb->announced = event_is_recorded(j, EVENT_SANDBOX_CREATED, sb->id, sb->created_ns);
    if (!j || !sb->announced || sb->state == SANDBOX_CRASHED)
        return;
    const struct event *last = event_find_newest(
        j, event_type_bit(EVENT_SANDBOX_PAUSED) | event_type_bit(EVENT_SANDBOX_RESUMED), sb->id);
    bool told = last ? last->type == EVENT_SANDBOX_PAUSED
                     : sb->paused && event_is_before(j, sb->created_ns);
    if (sb->paused != told)
        sandbox_announce_pause(sb);
}

/* --- connections */

void sandbox_announce_connection(struct sandbox *sb, enum event_type type,
                                 const struct connection_facts *f)
{
    struct event_journal *j = events_of(sb);
    char host[GATEWAY_LINE_MAX] = "", word[64] = "";
    unsigned port = 0;
    if (!j)
        return;
    sscanf(f->asked, "CONNECT %511s %u", host, &port);
    strbuf_reset(&scratch);
    struct json_text t = json_text_begin(&scratch, '{');
    json_text_bytes(&t, "host", host, strlen(host));
    json_text_int(&t, "port", port);
    if (*f->rule)
        json_text_bytes(&t, "rule", f->rule, strlen(f->rule));
    if (sscanf(f->told, "OK %63s", word) == 1)
        json_text_bytes(&t, "address", word, strlen(word));
    else if (sscanf(f->told, "ERR %63[a-z_]", word) == 1)
        json_text_bytes(&t, "code", word, strlen(word));
    if (f->exec)
        json_text_string(&t, "exec_id", f->exec);
    if (f->ended) {
        json_text_int(&t, "sent_bytes", (int64_t)f->sent);
        json_text_int(&t, "received_bytes", (int64_t)f->received);
        json_text_int(&t, "duration_ms", f->duration_ms);
    }
    json_text_end(&t, '}');
    event_append(j, type, sb->id, sb->owner, scratch.data);
}

void sandbox_announce_cut(struct sandbox *sb)
{
    struct event_journal *j = events_of(sb);
    if (!j)
        return;
    strbuf_reset(&scratch);
    struct json_text t = json_text_begin(&scratch, '{');
    json_text_int(&t, "allowed", (int64_t)sb->n_cut_connected);
    json_text_int(&t, "denied", (int64_t)sb->n_cut_refused);
    json_text_end(&t, '}');
    event_append(j, EVENT_NETWORK_SUMMARY, sb->id, sb->owner, scratch.data);
}

/* --- commands */

static struct event_journal *events_of_exec(const struct exec *e)
{
    return e->hidden ? NULL : events_of(e->sandbox);
}

/* Twice per command, so it is put together by hand: ids and names of states need no escapes. */
#define EXEC_DATA_SIZE (PLAN_ID_SIZE + 96)

static char *put_sandbox(char *at, const struct exec *e)
{
    return stpcpy(stpcpy(at, "{\"sandbox_id\":\""), e->sandbox->id);
}

void exec_announce_start(struct exec *e)
{
    char data[EXEC_DATA_SIZE];
    struct event_journal *j = events_of_exec(e);
    if (!j || e->announced)
        return;
    if (e->restored)
        announce_created(e->sandbox); /* a command ran in it, so it was ready */
    stpcpy(put_sandbox(data, e), "\"}");
    event_append(j, EVENT_EXEC_STARTED, e->id, e->sandbox->owner, data);
    e->announced = true;
}

void exec_announce_end(struct exec *e)
{
    char data[EXEC_DATA_SIZE];
    struct event_journal *j = events_of_exec(e);
    if (!j)
        return;
    char *end = stpcpy(put_sandbox(data, e), "\",\"status\":\"");
    end = stpcpy(stpcpy(end, exec_status_name(e->result.status)), "\"");
    if (e->result.has_exit_code && e->result.exit_code == 0)
        end = stpcpy(end, ",\"exit_code\":0");
    else if (e->result.has_exit_code)
        end += sprintf(end, ",\"exit_code\":%d", e->result.exit_code);
    stpcpy(end, "}");
    event_append(j, EVENT_EXEC_ENDED, e->id, e->sandbox->owner, data);
}

void exec_announce_restored(struct exec *e)
{
    struct event_journal *j = events_of_exec(e);
    e->announced = event_is_recorded(j, EVENT_EXEC_STARTED, e->id, e->started_ns);
    if (!j || !exec_is_done(e) || event_is_recorded(j, EVENT_EXEC_ENDED, e->id, e->finished_ns))
        return;
    if (!e->result.spawn_errno)
        exec_announce_start(e);
    exec_announce_end(e);
}
