/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a control plane that is not the first: what the store says existed, the warden says
 * lives, and runners say they run, put together again.
 *
 *   row, alive      adopted: a fresh runner connection; its execs go on from their journals
 *   row, not alive  CRASHED, with every exec that was running ended as sandbox_crash
 *   row, tombstone  its row goes: it was to be removed
 *   alive, no row   killed: a one-shot whose client went with the old control plane, or an answer
 *                   that was never given
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output-stream.h"
#include "runtime/warden-client.h"
#include "sandbox/internal.h"

#define SWEEP_AFTER_MS 10000

/* The row of an exec that the database may lack, or have an older one of: see recent.h. */
struct kept {
    struct list node;
    unsigned ticket;
    struct exec *exec; /* NULL: none was made of it yet */
    char id[RECENT_KEY_SIZE];
    size_t len;
    char body[];
};

struct restoring {
    struct manager *manager;
    struct map *alive;
    struct list kept; /* oldest first */
    struct map *kept_by_id;
    size_t adopted, lost, execs;
    struct gone_rows {
        char **keys;
        size_t n;
    } orphans,  /* execs without a sandbox */
        buried; /* sandboxes with a tombstone */
};

/* --- sandboxes */

/* What cannot be read must not pass for what is not there: it may be the owner, or a policy. */
int sandbox_row_parse(const json_t *o, const char *key, struct sandbox_row *ret, struct error *err)
{
    struct sandbox_row row = {.owner = "", .runtime_id = key, .caller = ""};
    const struct {
        const char *name;
        const char **at;
    } members[] = {{"owner", &row.owner},           {"alias", &row.alias},
                   {"runtime_id", &row.runtime_id}, {"failure", &row.failure},
                   {"generation", &row.generation}, {"caller", &row.caller}};
    int r;
    for (size_t i = 0; i < ELEMENTS(members); i++) {
        r = json_member_string(o, members[i].name, members[i].at, err);
        if (r < 0)
            return r;
    }
    r = json_member_int(o, "created_ns", 0, INT64_MAX, &row.created_ns, err);
    if (r < 0)
        return r;
    r = sandbox_policy_get(o, row.alias, key, &row.policy, err);
    if (r < 0)
        return r;
    r = persist_spec_parse(json_object_get(o, "spec"), &row.spec, err);
    if (r < 0) {
        sandbox_policy_free(row.policy);
        return r;
    }
    row.forgets = json_is_true(json_object_get(o, "forgets"));
    *ret = row;
    return 0;
}

static void gone_rows_add(struct gone_rows *rows, const char *key)
{
    rows->keys = xrealloc(rows->keys, (rows->n + 1) * sizeof(char *));
    rows->keys[rows->n++] = xstrdup(key);
}

/* What is taken out of `alive` here is adopted; kill_strangers() ends the rest. So a row that
 * cannot be read costs its sandbox: to adopt it without its owner or policy would open it to every
 * caller. */
static void restore_sandbox(void *data, const char *key, const char *body, size_t len)
{
    struct restoring *r = data;
    struct error err = {0};
    struct sandbox_row row;
    _cleanup_json_ json_t *o = json_parse_object(body, len, &err);
    if (!o || sandbox_row_parse(o, key, &row, &err) < 0) {
        log_error("stored sandbox cannot be read id=%s: %s", key, err.message);
        return;
    }
    if (tombstone_find(r->manager, row.generation)) {
        gone_rows_add(&r->buried, key);
        sandbox_policy_free(row.policy);
        spec_done(&row.spec);
        return;
    }
    _cleanup_free_ struct warden_alive *alive = map_remove(r->alive, row.runtime_id);
    struct sandbox *sb = sandbox_restore(r->manager, key, &row, alive);
    spec_done(&row.spec);
    sb->crash_untold = sb->state == SANDBOX_CRASHED && !row.failure;
    sandbox_announce_restored(sb);
    if (sandbox_state(sb) == SANDBOX_CREATING)
        r->adopted++;
    else
        r->lost++;
}

/* --- execs */

struct exec *exec_restore(struct sandbox *sb, const json_t *o, const void *snapshot, size_t len,
                          struct error *err)
{
    struct exec *e = exec_alloc(sb);
    if (persist_exec_parse(o, e, err) < 0 || map_find(sb->execs_by_id, e->id)) {
        exec_unref(e);
        return NULL;
    }
    e->restored = true;
    if (persist_wants_exec(e))
        e->journal = journal_restore(&sb->manager->options.journal, e->id, &sb->journals,
                                     e->block_output, snapshot, len);
    else
        e->journal = journal_new(&sb->manager->options.journal, NULL, &sb->journals, false);
    exec_watch_journal(e);
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++)
        e->received[output_index(s)] = e->acked[output_index(s)] =
            journal_stream_end(e->journal, s);
    if (!exec_is_done(e))
        journal_hold_end(e->journal);
    if (!journal_last_seq(e->journal))
        journal_start(e->journal);
    if (exec_is_done(e) && !journal_ended(e->journal))
        journal_end(e->journal); /* its files could not be written to the end */
    if (exec_is_done(e))
        journal_park(e->journal);
    exec_enter_tables(e);
    exec_announce_restored(e);
    return e;
}

/* The object at the start of a row, and where its snapshot begins; NULL where there is none. */
static json_t *parse_row(const char *body, size_t len, size_t *ret_snapshot)
{
    struct error err = {0};
    uint32_t text;
    if (len < sizeof(text))
        return NULL;
    memcpy(&text, body, sizeof(text));
    if (text > len - sizeof(text))
        return NULL;
    *ret_snapshot = sizeof(text) + text;
    return json_parse_object(body + sizeof(text), text, &err);
}

static struct exec *restore_row(struct restoring *r, const char *body, size_t len)
{
    struct error err = {0};
    size_t at;
    _cleanup_json_ json_t *o = parse_row(body, len, &at);
    const char *owner_id = o ? json_string_value(json_object_get(o, "sandbox")) : NULL;
    struct sandbox *sb = owner_id ? map_find(r->manager->by_id, owner_id) : NULL;
    struct exec *e = sb ? exec_restore(sb, o, body + at, len - at, &err) : NULL;
    if (e)
        r->execs++;
    return e;
}

/* Nothing is newer: what was kept of a start may still be there when that of the end is not. */
static bool row_is_end(const char *body, size_t len)
{
    size_t at;
    _cleanup_json_ json_t *o = parse_row(body, len, &at);
    return o && json_object_get(o, "result");
}

/* Two places can have an exec: the database and the file of recent rows. The file's is newer,
 * unless the database already has the end. */
static void restore_exec(void *data, const char *key, const char *body, size_t len)
{
    struct restoring *r = data;
    struct kept *k = map_find(r->kept_by_id, key);
    bool newer = k && !row_is_end(body, len);
    struct exec *e = newer ? restore_row(r, k->body, k->len) : restore_row(r, body, len);
    if (k)
        k->exec = e;
    if (e) {
        e->has_row = true;
        return;
    }
    log_warn("stored exec has no sandbox any more id=%s", key);
    gone_rows_add(&r->orphans, key);
}

/* --- execs that callers have seen and that are perhaps not in the database */

/* A later one of the same exec takes the place of an earlier one. */
static void on_kept(void *data, const char *key, const char *body, size_t len, unsigned ticket)
{
    struct restoring *r = data;
    struct kept *k = xcalloc(1, sizeof(*k) + len);
    k->ticket = ticket;
    k->len = len;
    snprintf(k->id, sizeof(k->id), "%s", key);
    memcpy(k->body, body, len);
    list_append(&r->kept, &k->node);
    map_put(r->kept_by_id, key, k);
}

static void restore_kept(struct restoring *r)
{
    struct recent *recent = r->manager->recent;
    size_t rows = r->execs;
    while (!list_empty(&r->kept)) {
        struct kept *k = container_of(r->kept.next, struct kept, node);
        bool last = map_find(r->kept_by_id, k->id) == k;
        if (last && !k->exec)
            k->exec = restore_row(r, k->body, k->len);
        if (last && k->exec)
            exec_restore_row(k->exec, k->ticket);
        else
            recent_settle(recent, k->ticket);
        if (last)
            map_remove(r->kept_by_id, k->id);
        list_remove(&k->node);
        free(k);
    }
    if (r->execs > rows)
        log_info("%zu commands were restored from the log of recent commands, because the database "
                 "lacked them",
                 r->execs - rows);
}

static int load_execs(struct restoring *r, struct error *err)
{
    struct manager *m = r->manager;
    list_init(&r->kept);
    r->kept_by_id = map_new();
    m->recent = recent_open(m->options.journal.dir_fd, on_kept, r, err);
    int e = m->recent ? store_load(m->options.store, STORE_EXEC, restore_exec, r, err) : -EIO;
    if (e >= 0)
        restore_kept(r);
    map_free(r->kept_by_id);
    return e;
}

/* While a sandbox is being adopted, every journal without an exec may be one of its execs'. */
static bool keep_journal(void *data, const char *name)
{
    struct manager *m = data;
    list_for_each(sb, &m->all, struct sandbox, node) {
        /* A runner may remember an exec whose row was never written. */
        if (map_find(sb->execs_by_id, name) || sb->state == SANDBOX_CREATING)
            return true;
    }
    return false;
}

/* What was running in a sandbox that is gone. */
static void fail_lost(struct manager *m)
{
    list_for_each(sb, &m->all, struct sandbox, node) {
        if (sb->state != SANDBOX_CRASHED)
            continue;
        if (sb->crash_untold) {
            sandbox_announce(sb);
            persist_sandbox(sb, NULL, NULL); /* so that the next start does not tell it again */
        }
        exec_fail_all(sb, EXEC_FAILED, true, sb->failure.message);
    }
}

static void kill_strangers(struct restoring *r)
{
    size_t cursor = 0;
    struct warden_alive *alive;
    while ((alive = map_next(r->alive, &cursor))) {
        log_info("a sandbox that no row of the database names is ended id=%s", alive->id);
        for (size_t i = 0; runtimes[i]; i++)
            if (runtimes[i]->discard)
                runtimes[i]->discard(r->manager->options.host, alive->id);
    }
}

static void gone_rows_remove(struct manager *m, enum store_table table, struct gone_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        store_delete(m->options.store, table, rows->keys[i], NULL, NULL);
        free(rows->keys[i]);
    }
    free(rows->keys);
}

static int compare_forget(const void *a, const void *b)
{
    int64_t x = (*(struct exec *const *)a)->forget_at_ms,
            y = (*(struct exec *const *)b)->forget_at_ms;
    return x < y ? -1 : x > y;
}

/* Rows come by id; the exec whose retention ends first must be first. */
static void sort_finished(struct manager *m)
{
    size_t n = 0;
    list_for_each(e, &m->finished, struct exec, phase_node)
        n++;
    struct exec **all = xcalloc(n + 1, sizeof(struct exec *));
    n = 0;
    list_for_each(e, &m->finished, struct exec, phase_node)
        all[n++] = e;
    qsort(all, n, sizeof(*all), compare_forget);
    list_init(&m->finished);
    for (size_t i = 0; i < n; i++)
        list_append(&m->finished, &all[i]->phase_node);
    free(all);
}

/* Removes journals that no exec refers to. Only once every adopted runner has listed the execs that
 * it remembers is a journal without one known to be a leftover. */
void restore_sweep(struct manager *m)
{
    if (!m->sweep_at_ms || clock_mono_ms() < m->sweep_at_ms || m->counts.creating)
        return;
    m->sweep_at_ms = 0;
    journal_sweep(&m->options.journal, keep_journal, m);
}

/* Sandboxes come before execs, which belong to them. Commands of sandboxes that are gone are ended
 * before the journals are swept, because their ends are written to journals. Strangers are killed
 * last: only when all rows were read is it known which they are. */
int manager_restore(struct manager *m, struct map *alive, struct error *err)
{
    struct restoring r = {.manager = m, .alive = alive};
    int e = 0;
    if (m->options.store) {
        e = tombstones_load(m, err);
        if (e >= 0)
            e = store_load(m->options.store, STORE_SANDBOX, restore_sandbox, &r, err);
        if (e >= 0)
            e = load_execs(&r, err);
        if (e < 0)
            return e;
        e = snapshots_restore(m, err);
        if (e < 0)
            return e;
        fault_point("restore.rows-read");
        gone_rows_remove(m, STORE_EXEC, &r.orphans);
        gone_rows_remove(m, STORE_SANDBOX, &r.buried);
        sort_finished(m);
        fail_lost(m);
        journal_sweep(&m->options.journal, keep_journal, m);
        m->sweep_at_ms = clock_mono_ms() + SWEEP_AFTER_MS;
    }
    kill_strangers(&r);
    fault_point("restore.done");
    if (r.adopted || r.lost)
        log_info("restored adopted=%zu lost=%zu execs=%zu", r.adopted, r.lost, r.execs);
    return e;
}
