/* SPDX-License-Identifier: Apache-2.0 */
/* Having the chain's head signed.
 *
 * A checkpoint is asked for after so many records or so long. First the file and the database are
 * synced, on a worker, so that what is signed cannot be lost; then the warden signs; then the
 * checkpoint is stored. The next begins when that is done: each carries the hash of the one before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "audit/internal.h"
#include "store/audit-table.h"
#include "store/store.h"

#define RETRY_MS 1000

struct checkpoint_call {
    struct list node;
    struct audit *audit;
    struct audit_waiter waiter;
    enum checkpoint_purpose purpose;
    audit_checkpoint_fn fn;
    void *data;
};

static void pump_checkpoints(struct audit *a);
static void save_checkpoint(struct audit *a);

/* --- syncing, on a worker */

struct sync_job {
    struct audit *audit;
    int fds[2];
    char *wal;
    int result;
    void (*done)(struct audit *a, int result);
};

/* The log of the database: what was committed to it and not synced yet. */
static int sync_wal(const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static void sync_work(void *data)
{
    struct sync_job *j = data;
    j->result = audit_file_sync(j->fds);
    if (j->result >= 0)
        j->result = sync_wal(j->wal);
}

static void sync_done(void *data)
{
    struct sync_job *j = data;
    j->audit->jobs--;
    j->done(j->audit, j->result);
    free(j->wal);
    free(j);
}

static void sync_all(struct audit *a, void (*done)(struct audit *a, int result))
{
    struct sync_job *j = new0(struct sync_job);
    *j = (struct sync_job){.audit = a,
                           .fds = {a->file.parts[0].fd, a->file.parts[1].fd},
                           .wal = xasprintf("%s-wal", store_path(a->store)),
                           .done = done};
    a->jobs++;
    loop_work(a->loop, sync_work, sync_done, j);
}

/* --- emptying the part of the file that was chained */

static void on_synced_to_empty(struct audit *a, int result)
{
    if (result >= 0)
        audit_file_empty(&a->file, a->emptying);
    a->emptying = -1;
}

/* --- who waits */

static void call_end(struct checkpoint_call *c, const struct checkpoint *got, const char *why)
{
    struct error err = {0};
    if (!got)
        error_set(&err, ERROR_UNAVAILABLE, 0, "the audit could not be signed: %s", why);
    list_remove(&c->node);
    c->fn(c->data, got, got ? NULL : &err);
    free(c);
}

/* One signature serves every call whose records it covers; calls that wait for an export or a
 * rotation need one of that purpose. Callbacks may ask for another checkpoint, so those that end
 * are put aside first. */
static void end_calls(struct audit *a, const struct checkpoint *got, const char *why)
{
    struct list all;
    list_init(&all);
    list_for_each_safe(c, &a->checkpoint_calls, struct checkpoint_call, node) {
        bool fits = !got || (c->waiter.seq <= got->seq &&
                             (c->purpose == CHECKPOINT_PERIODIC || c->purpose == got->purpose));
        if (!fits)
            continue;
        list_remove(&c->node);
        list_append(&all, &c->node);
    }
    while (!list_empty(&all))
        call_end(container_of(all.next, struct checkpoint_call, node), got, why);
}

static void sign_failed(struct audit *a, const char *why)
{
    log_error("audit: no checkpoint: %s", why);
    a->signing = false;
    end_calls(a, NULL, why);
    if (!a->closing)
        loop_timer_start(&a->checkpoint_timer, RETRY_MS);
}

/* --- signing */

static int put_checkpoint(sqlite3 *db, void *data)
{
    const struct audit *a = data;
    char text[CHECKPOINT_TEXT_SIZE];
    checkpoint_format(&a->unsaved, text);
    return audit_table_put_checkpoint(db, a->unsaved.seq, text);
}

void audit_note_rotated(struct audit *a, const struct checkpoint *c)
{
    char old_key[CHECKPOINT_HEX_SIZE], new_key[CHECKPOINT_HEX_SIZE], text[320];
    hex_format(c->old_key, sizeof(c->old_key), old_key);
    hex_format(c->new_key, sizeof(c->new_key), new_key);
    snprintf(text, sizeof(text),
             "{\"what\":\"rotation\",\"old\":\"%s\",\"new\":\"%s\",\"checkpoint\":%" PRIu64 "}",
             old_key, new_key, c->seq);
    audit_note_text(a, "key_change", "rotated", text);
}

static int put_signing_key(sqlite3 *db, void *data)
{
    const struct audit *a = data;
    int64_t key;
    memcpy(&key, a->signer.public_key, sizeof(key));
    return audit_table_put_number(db, AUDIT_SIGNING_KEY, key);
}

static void on_signing_key(void *data, const struct error *err)
{
    struct audit *a = data;
    a->jobs--;
    if (err)
        log_warn("audit: the next start will record the rotation again: %s", err->message);
}

static void on_saved(void *data, const struct error *err)
{
    struct audit *a = data;
    a->jobs--;
    if (err) { /* the warden goes on from it: it must not get lost */
        if (!a->closing)
            loop_timer_start(&a->checkpoint_timer, RETRY_MS);
        return;
    }
    a->signing = false;
    a->signed_last = a->unsaved;
    fault_point("audit.checkpoint-saved");
    if (checkpoint_changes_key(&a->signed_last)) {
        /* The rotation is put on record before the database notes the new key: a kill between the
         * two makes the next start record it once more, and never not at all. */
        const struct checkpoint *c = &a->signed_last;
        memcpy(a->signer.public_key, c->new_key, sizeof(c->new_key));
        a->key_replaced = false;
        if (c->purpose == CHECKPOINT_ROTATE && !a->closing) {
            audit_note_rotated(a, c);
            fault_point("audit.rotation-told");
            a->jobs++;
            store_apply(a->store, put_signing_key, on_signing_key, a);
        }
    }
    end_calls(a, &a->signed_last, NULL);
    if (a->closing)
        return;
    pump_checkpoints(a);
    audit_retention_consider(a);
    audit_checkpoint_consider(a);
}

static void save_checkpoint(struct audit *a)
{
    a->jobs++;
    store_apply(a->store, put_checkpoint, on_saved, a);
}

/* What came back is compared with what was asked for: storing a signature over another record would
 * break the chain of checkpoints for good. */
static void on_signed(void *data, const struct checkpoint *c, const char *why)
{
    struct audit *a = data;
    a->jobs--;
    if (!c) {
        sign_failed(a, why);
        return;
    }
    fault_point("audit.signed");
    bool ours = c->seq == a->unsaved.seq && c->purpose == a->unsaved.purpose &&
                c->prev_seq == a->signed_last.seq &&
                memcmp(c->head, a->unsaved.head, sizeof(c->head)) == 0;
    if (!ours) {
        sign_failed(a, "the signer signed something else");
        return;
    }
    a->unsaved = *c;
    save_checkpoint(a);
}

static void on_synced_to_sign(struct audit *a, int result)
{
    if (result < 0) {
        sign_failed(a, strerror(-result));
        return;
    }
    a->jobs++;
    a->signer.sign(a->signer.data, (enum checkpoint_purpose)a->unsaved.purpose, a->unsaved.seq,
                   a->unsaved.head, on_signed, a);
}

static void sign_checkpoint(struct audit *a, enum checkpoint_purpose purpose)
{
    a->signing = true;
    if (a->key_replaced)
        purpose = CHECKPOINT_REPLACE;
    a->unsaved = (struct checkpoint){.purpose = purpose, .seq = a->head.seq};
    memcpy(a->unsaved.head, a->head.hash, sizeof(a->unsaved.head));
    loop_timer_stop(&a->checkpoint_timer);
    sync_all(a, on_synced_to_sign);
}

/* --- when */

/* An export ends in a signature of its own, and a rotation is one; where the head is signed already
 * it needs a record more. Without that record the head stays where it is, and the call would come
 * back here at once, for ever: a record that is refused ends the call. */
static void move_head(struct audit *a, struct checkpoint_call *c)
{
    static const struct audit_record rotation = {.kind = "key_change",
                                                 .outcome = "asked",
                                                 .details_text = "{\"what\":\"rotation\"}"},
                                     footer = {.kind = "export", .outcome = "footer"};
    struct error err = {0};
    if (audit_write(a, c->purpose == CHECKPOINT_ROTATE ? &rotation : &footer, NULL, &err) < 0) {
        call_end(c, NULL, err.message);
        pump_checkpoints(a); /* others may need no record */
        return;
    }
    list_remove(&c->node);
    c->waiter.seq = a->seq;
    audit_wait(a, &c->waiter);
}

static void pump_checkpoints(struct audit *a)
{
    enum checkpoint_purpose purpose = CHECKPOINT_PERIODIC;
    struct checkpoint_call *own = NULL; /* a call that needs a signature of its own */
    if (a->signing || list_empty(&a->checkpoint_calls))
        return;
    list_for_each(c, &a->checkpoint_calls, struct checkpoint_call, node) {
        if (c->purpose > purpose) {
            purpose = c->purpose;
            own = c;
        }
    }
    if (!a->signer.sign)
        end_calls(a, NULL, "this daemon has no signer");
    else if (a->head.seq > a->signed_last.seq)
        sign_checkpoint(a, purpose);
    else if (own)
        move_head(a, own);
    else if (a->head.seq)
        end_calls(a, &a->signed_last, NULL);
    else
        end_calls(a, NULL, "there is no record yet");
}

/* Comes from inside of audit_wait() where the record is chained already, so what asks for a wait in
 * a loop has to have written a record in between. */
static void on_call_chained(struct audit_waiter *w)
{
    struct checkpoint_call *c = container_of(w, struct checkpoint_call, waiter);
    struct audit *a = c->audit;
    list_append(&a->checkpoint_calls, &c->node);
    if (w->seq > a->head.seq)
        call_end(c, NULL, "the database does not take records");
    else
        pump_checkpoints(a);
}

void audit_checkpoint_now(struct audit *a, enum checkpoint_purpose purpose, audit_checkpoint_fn fn,
                          void *data)
{
    struct checkpoint_call *c = new0(struct checkpoint_call);
    *c = (struct checkpoint_call){.audit = a, .purpose = purpose, .fn = fn, .data = data};
    c->waiter = (struct audit_waiter){.seq = a->seq, .on_chained = on_call_chained};
    list_init(&c->node);
    audit_wait(a, &c->waiter);
}

void audit_checkpoint_consider(struct audit *a)
{
    const struct audit_config *o = &a->config;
    /* Rows that are committed are not yet on the disk (synchronous = NORMAL). The part of the file
     * that has the same lines is emptied only after both were synced, so that power loss takes
     * neither. */
    int part = audit_file_spent(&a->file, a->head.seq);
    if (a->emptying < 0 && part >= 0) {
        a->emptying = part;
        sync_all(a, on_synced_to_empty);
    }
    if (!a->signer.sign || a->signing || a->head.seq <= a->signed_last.seq)
        return;
    if (o->checkpoint_records && a->head.seq - a->signed_last.seq >= o->checkpoint_records)
        sign_checkpoint(a, CHECKPOINT_PERIODIC);
    else if (o->checkpoint_ms && !loop_timer_active(&a->checkpoint_timer))
        loop_timer_start(&a->checkpoint_timer, o->checkpoint_ms);
}

static void on_checkpoint_timer(void *data)
{
    struct audit *a = data;
    if (a->signing)
        save_checkpoint(a); /* signed, and could not be stored */
    else if (a->head.seq > a->signed_last.seq)
        sign_checkpoint(a, CHECKPOINT_PERIODIC);
}

const uint8_t *audit_public_key(const struct audit *a)
{
    return a && a->signer.sign ? a->signer.public_key : NULL;
}

void audit_checkpoint_init(struct audit *a)
{
    a->emptying = -1;
    list_init(&a->checkpoint_calls);
    loop_timer_init(&a->checkpoint_timer, a->loop, on_checkpoint_timer, a);
}
