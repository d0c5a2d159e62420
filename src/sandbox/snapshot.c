/* SPDX-License-Identifier: Apache-2.0 */
/* See snapshot.h. fork.c makes copies. */
#include "sandbox/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "sandbox/internal.h"
#include "sandbox/snapshot-internal.h"
#include "store/store.h"

/* --- the table */

const char *snapshot_name(const struct snapshot *k)
{
    return k->name;
}

const char *snapshot_owner(const struct snapshot *k)
{
    return k->owner;
}

const char *snapshot_sandbox(const struct snapshot *k)
{
    return k->sandbox;
}

const char *snapshot_runtime(const struct snapshot *k)
{
    return k->ops->name;
}

const char *snapshot_image(const struct snapshot *k)
{
    return k->image;
}

uint64_t snapshot_bytes(const struct snapshot *k)
{
    return k->bytes;
}

int64_t snapshot_created_ns(const struct snapshot *k)
{
    return k->created_ns;
}

static void snapshot_free(struct snapshot *k)
{
    list_remove(&k->node);
    free(k->name);
    free(k->owner);
    free(k->sandbox);
    free(k->image);
    free(k);
}

struct snapshot *snapshot_find(struct manager *m, const char *owner, const char *name)
{
    list_for_each(k, &m->snapshots, struct snapshot, node) {
        if (k->whole && k->name && strcmp(k->owner, owner) == 0 && strcmp(k->name, name) == 0)
            return k;
    }
    return NULL;
}

struct snapshot *snapshot_find_any(struct manager *m, const char *name, size_t *ret_n)
{
    struct snapshot *first = NULL;
    *ret_n = 0;
    list_for_each(k, &m->snapshots, struct snapshot, node) {
        if (!k->whole || !k->name || strcmp(k->name, name) != 0)
            continue;
        first = first ? first : k;
        ++*ret_n;
    }
    return first;
}

void snapshot_for_each(struct manager *m, const char *owner,
                       void (*cb)(void *data, const struct snapshot *k), void *data)
{
    list_for_each(k, &m->snapshots, struct snapshot, node) {
        if (k->whole && k->name && (!*owner || strcmp(k->owner, owner) == 0))
            cb(data, k);
    }
}

/* --- rows */

static struct snapshot *snapshot_alloc(struct manager *m, const char *id)
{
    struct snapshot *k = new0(struct snapshot);
    k->manager = m;
    snprintf(k->id, sizeof(k->id), "%s", id);
    list_append(&m->snapshots, &k->node);
    return k;
}

static struct snapshot *snapshot_new(struct sandbox *sb, const char *name)
{
    char id[PLAN_SNAPSHOT_SIZE];
    random_id(id, sizeof(id) - 1);
    struct snapshot *k = snapshot_alloc(sb->manager, id);
    k->name = name ? xstrdup(name) : NULL;
    k->owner = xstrdup(sb->owner);
    k->sandbox = xstrdup(sb->id);
    k->image = sb->spec.image_digest ? xstrdup(sb->spec.image_digest) : NULL;
    k->ops = sb->ops;
    k->created_ns = clock_real_ns();
    return k;
}

static void snapshot_put(struct snapshot *k, store_done_fn on_durable, void *data)
{
    _cleanup_json_ json_t *o =
        json_pack("{s:s, s:s?, s:s, s:s, s:s?, s:I, s:I, s:b}", "owner", k->owner, "name", k->name,
                  "sandbox", k->sandbox, "runtime", k->ops->name, "image", k->image, "bytes",
                  (json_int_t)k->bytes, "created_ns", (json_int_t)k->created_ns, "whole", k->whole);
    _cleanup_free_ char *text = json_dumps(o, JSON_COMPACT);
    store_put(k->manager->options.store, STORE_SNAPSHOT, k->id, text, strlen(text), on_durable,
              data);
}

static void on_dropped(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    (void)data;
    (void)bytes;
    (void)runner_fd;
    if (err)
        log_warn("the files of a snapshot could not be removed: %s", err->message);
}

void snapshot_discard(struct snapshot *k)
{
    struct manager *m = k->manager;
    k->ops->drop(m->options.host, k->id, on_dropped, NULL);
    if (m->options.store)
        store_delete(m->options.store, STORE_SNAPSHOT, k->id, NULL, NULL);
    snapshot_free(k);
}

static int read_row(const json_t *o, struct snapshot *k, struct error *err)
{
    const char *owner = NULL, *name = NULL, *sandbox = NULL, *runtime = NULL, *image = NULL;
    int64_t bytes = 0;
    if (json_member_string(o, "owner", &owner, err) < 0 ||
        json_member_string(o, "name", &name, err) < 0 ||
        json_member_string(o, "sandbox", &sandbox, err) < 0 ||
        json_member_string(o, "runtime", &runtime, err) < 0 ||
        json_member_string(o, "image", &image, err) < 0 ||
        json_member_int(o, "bytes", 0, INT64_MAX, &bytes, err) < 0 ||
        json_member_int(o, "created_ns", 0, INT64_MAX, &k->created_ns, err) < 0)
        return -EINVAL;
    k->ops = runtime ? runtime_find(runtime) : NULL;
    if (!owner || !sandbox || !k->ops || !k->ops->drop)
        return error_set(err, ERROR_INTERNAL, 0, "its runtime does not keep snapshots");
    k->owner = xstrdup(owner);
    k->name = name ? xstrdup(name) : NULL;
    k->sandbox = xstrdup(sandbox);
    k->image = image ? xstrdup(image) : NULL;
    k->bytes = (uint64_t)bytes;
    k->whole = json_is_true(json_object_get(o, "whole"));
    return 0;
}

/* Rows come by their keys. */
static void snapshot_sort(struct snapshot *k)
{
    list_for_each(other, &k->manager->snapshots, struct snapshot, node) {
        if (other->created_ns <= k->created_ns)
            continue;
        list_remove(&k->node);
        list_append(&other->node, &k->node); /* before it */
        return;
    }
}

static void restore_snapshot(void *data, const char *key, const char *body, size_t len)
{
    struct manager *m = data;
    struct error err = {0};
    _cleanup_json_ json_t *o = json_parse_object(body, len, &err);
    struct snapshot *k = snapshot_alloc(m, key);
    if (o && read_row(o, k, &err) >= 0) {
        snapshot_sort(k);
        return;
    }
    log_error("a stored snapshot cannot be read id=%s: %s", key, err.message);
    snapshot_free(k);
}

/* Files of a snapshot that an earlier control plane began and did not finish belong to no row. */
int snapshots_restore(struct manager *m, struct error *err)
{
    int r = store_load(m->options.store, STORE_SNAPSHOT, restore_snapshot, m, err);
    if (r < 0)
        return r;
    list_for_each_safe(k, &m->snapshots, struct snapshot, node) {
        if (!k->whole || !k->name)
            snapshot_discard(k);
    }
    return 0;
}

void snapshots_free(struct manager *m)
{
    list_for_each_safe(k, &m->snapshots, struct snapshot, node)
        snapshot_free(k);
}

/* --- what a sandbox is asked for */

int sandbox_check_keepable(const struct sandbox *sb, struct error *err)
{
    if (sb->ops && sb->ops->save)
        return 0;
    return error_set(err, ERROR_UNSUPPORTED, 0,
                     "snapshot, fork and restore are not for sandboxes of runtime '%s'; 'microvm' "
                     "has them",
                     sb->spec.runtime);
}

int sandbox_check_snapshots(const struct sandbox *sb, struct error *err)
{
    int r = sandbox_check_keepable(sb, err);
    if (r < 0)
        return r;
    r = sandbox_check_ready(sb, err);
    if (r < 0)
        return r;
    if (!sb->instance || sb->pausing)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is being paused or resumed", sb->id);
    if (sb->n_keeping)
        return error_set(err, ERROR_CONFLICT, 0,
                         "sandbox %s is being kept, copied or restored already", sb->id);
    return 0;
}

/* Counted, because a fork is two of them: it ends the keeping and goes on with the copies, and
 * until these run another call would take the place of its answer. */
void snapshot_begin(struct sandbox *sb)
{
    sandbox_ref(sb);
    sandbox_hold(sb); /* it is not idle meanwhile */
    sb->n_keeping++;
}

void snapshot_end(struct sandbox *sb)
{
    sb->n_keeping--;
    sandbox_release(sb);
    sandbox_unref(sb);
}

/* One step after another: a row, the files, the row again. */
struct keep_call {
    struct sandbox *sb;
    struct snapshot *k;
    snapshot_fn cb;
    void *data;
};

/* The callback comes while the sandbox is still held, so that a fork can begin its second half
 * before the first one lets go. A snapshot that failed is discarded after it: the callback gets
 * none. */
static void keep_finish(struct keep_call *call, const struct error *err)
{
    call->cb(call->data, err ? NULL : call->k, err);
    if (err)
        snapshot_discard(call->k);
    snapshot_end(call->sb);
    free(call);
}

static void on_whole(void *data, const struct error *err)
{
    struct keep_call *call = data;
    struct error copy = {0};
    fault_point("snapshot.whole");
    if (err) {
        call->k->whole = false;
        error_set(&copy, ERROR_NO_SPACE, 0, "the snapshot cannot be recorded: %s", err->message);
    }
    keep_finish(call, err ? &copy : NULL);
}

static void on_saved(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    struct keep_call *call = data;
    (void)runner_fd;
    fault_point("snapshot.saved");
    if (err) {
        keep_finish(call, err);
        return;
    }
    call->k->bytes = bytes;
    call->k->whole = true;
    if (call->sb->manager->options.store)
        snapshot_put(call->k, on_whole, call);
    else
        keep_finish(call, NULL);
}

static void on_begun(void *data, const struct error *err)
{
    struct keep_call *call = data;
    struct error copy = {0};
    fault_point("snapshot.begun");
    if (err)
        error_set(&copy, ERROR_NO_SPACE, 0, "the snapshot cannot be recorded: %s", err->message);
    else if (!call->sb->instance)
        error_set(&copy, ERROR_CONFLICT, 0, "sandbox %s is not running", call->sb->id);
    if (error_is_set(&copy))
        keep_finish(call, &copy);
    else
        call->sb->ops->save(call->sb->instance, call->k->id, on_saved, call);
}

/* Takes no care of names: a fork's has none. */
void snapshot_keep(struct sandbox *sb, const char *name, snapshot_fn cb, void *data)
{
    struct keep_call *call = new0(struct keep_call);
    *call = (struct keep_call){sb, snapshot_new(sb, name), cb, data};
    snapshot_begin(sb);
    if (sb->manager->options.store)
        snapshot_put(call->k, on_begun, call);
    else
        on_begun(call, NULL);
}

static int check_snapshot_name(const char *name, struct error *err)
{
    size_t n = strlen(name);
    bool good = n >= 1 && n <= SNAPSHOT_NAME_MAX && name[0] != '-' && name[n - 1] != '-' &&
                strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
    return good ? 0
                : error_field(err, "name",
                              "'name' must be 1 to %d of a-z, 0-9 and '-', not '-' at an end",
                              SNAPSHOT_NAME_MAX);
}

/* Those that are being made count, too. */
static int check_snapshot_room(const struct sandbox *sb, const char *name, struct error *err)
{
    const struct manager *m = sb->manager;
    size_t n = 0;
    list_for_each(k, &m->snapshots, struct snapshot, node) {
        if (!k->name || strcmp(k->owner, sb->owner) != 0)
            continue;
        n++;
        if (strcmp(k->name, name) == 0)
            return error_set(err, ERROR_CONFLICT, 0, "there is a snapshot '%s' already", name);
    }
    if (n >= m->options.config.max_snapshots)
        return error_set(err, ERROR_LIMIT, 0,
                         "there are %zu snapshots of this key already (max_snapshots)", n);
    return 0;
}

void sandbox_snapshot(struct sandbox *sb, const char *name, snapshot_fn cb, void *data)
{
    struct error err = {0};
    if (check_snapshot_name(name, &err) < 0 || sandbox_check_snapshots(sb, &err) < 0 ||
        check_snapshot_room(sb, name, &err) < 0)
        cb(data, NULL, &err);
    else
        snapshot_keep(sb, name, cb, data);
}

/* --- deleting */

struct delete_call {
    struct snapshot *k;
    snapshot_fn cb;
    void *data;
};

static void on_row_gone(void *data, const struct error *err)
{
    struct delete_call *call = data;
    struct error copy = {0};
    if (err)
        error_set(&copy, ERROR_NO_SPACE, 0, "the deletion cannot be recorded: %s", err->message);
    call->cb(call->data, call->k, err ? &copy : NULL);
    snapshot_free(call->k);
    free(call);
}

static void on_files_gone(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    struct delete_call *call = data;
    struct store *store = call->k->manager->options.store;
    (void)bytes;
    (void)runner_fd;
    if (err) {
        call->k->whole = true; /* it is as it was */
        if (store)
            snapshot_put(call->k, NULL, NULL);
        call->cb(call->data, NULL, err);
        free(call);
        return;
    }
    fault_point("snapshot.files-gone");
    if (store)
        store_delete(store, STORE_SNAPSHOT, call->k->id, on_row_gone, call);
    else
        on_row_gone(call, NULL);
}

static void drop_files(struct delete_call *call)
{
    struct snapshot *k = call->k;
    k->ops->drop(k->manager->options.host, k->id, on_files_gone, call);
}

/* A full disk may refuse the row. The files go all the same, because that is what makes room. */
static void on_unfinished(void *data, const struct error *err)
{
    struct delete_call *call = data;
    fault_point("snapshot.unfinished");
    if (err)
        log_warn("a snapshot that is being removed is still whole on record: %s", err->message);
    drop_files(call);
}

/* The row says that it is not whole before its files go: a control plane that dies in between
 * leaves what the next one removes, and not a snapshot that is listed and cannot be used. */
void snapshot_delete(struct manager *m, struct snapshot *k, snapshot_fn cb, void *data)
{
    struct delete_call *call = new0(struct delete_call);
    *call = (struct delete_call){k, cb, data};
    k->whole = false; /* nothing finds it from here on */
    if (m->options.store)
        snapshot_put(k, on_unfinished, call);
    else
        drop_files(call);
}

/* --- going back */

/* Theory of operation. The commands that the machine of a snapshot remembers have the ids of execs
 * on record, and other offsets than their journals. A control plane that dies at any moment from
 * here on leaves a machine that may have gone back already, or not: the next one cannot know. So
 * the row says first that all commands of the runner are to be forgotten, then the machine goes
 * back, and the caller is answered when they are forgotten and the row says so. */
struct back_call {
    char id[PLAN_SNAPSHOT_SIZE];
    struct error err; /* what the caller will hear */
    snapshot_fn cb;
    void *data;
};

static void back_finish(struct sandbox *sb, const struct error *err)
{
    struct back_call *call = steal_ptr(sb->back);
    sb->returning = false;
    call->cb(call->data, NULL, err);
    free(call);
    snapshot_end(sb);
}

static void record_forgetting(struct sandbox *sb, bool forgets, store_done_fn on_durable)
{
    sb->forget_on_record = forgets;
    sandbox_ref(sb);
    if (persist_wants_sandbox(sb))
        persist_sandbox(sb, on_durable, sb);
    else
        on_durable(sb, NULL);
}

/* Nothing is left to be forgotten. A row that says otherwise costs no more than the commands of the
 * sandbox, at the end of this control plane. */
static void on_settled(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    if (err)
        log_warn("the row of a sandbox cannot be written sandbox=%s: %s", sb->id, err->message);
    sb->forgets = false;
    if (sb->back) {
        struct error told = sb->back->err;
        back_finish(sb, error_is_set(&told) ? &told : NULL);
        if (!sb->runner && sb->state == SANDBOX_READY)
            sandbox_break(sb, error_is_set(&told) ? told.message : "its runner is gone");
    }
    sandbox_ready_when_settled(sb);
    sandbox_unref(sb);
}

/* The machine is another one. Its runner says what it remembers, which is nothing of ours. */
static void on_back(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    struct sandbox *sb = data;
    const struct manager_options *o = &sb->manager->options;
    (void)bytes;
    fault_point("snapshot.back");
    if (!sb->back || err || sb->state != SANDBOX_READY) {
        fd_close(&runner_fd);
        if (sb->back && err)
            sb->back->err = *err;
        else if (sb->back)
            error_set(&sb->back->err, ERROR_CONFLICT, 0, "sandbox %s ended while it was restored",
                      sb->id);
        if (sb->back)
            record_forgetting(sb, false, on_settled);
        sandbox_unref(sb);
        return;
    }
    runner_close(steal_ptr(sb->runner));
    sb->runner_ended = sb->returning = false;
    sb->forgets = true;
    exec_fail_all(sb, EXEC_CANCELED, false, "the sandbox was restored from a snapshot");
    gateway_streams_free(sb);
    port_streams_free(sb, "it was restored from a snapshot");
    if (sb->state != SANDBOX_READY) { /* a callback has deleted it */
        fd_close(&runner_fd);
        sandbox_unref(sb);
        return;
    }
    if (sb->attempt) /* so that it is not older than what the snapshot has seen */
        sb->attempt++;
    sb->runner = runner_new(o->loop, runner_fd, sb->turn, sb->attempt, &exec_runner_events, sb);
    runner_flush(sb->runner);
    sandbox_unref(sb);
}

/* A callback of an exec that was ended may have deleted the sandbox. */
void snapshot_on_forgotten(struct sandbox *sb)
{
    fault_point("snapshot.forgotten");
    if (sb->state == SANDBOX_CREATING || sb->state == SANDBOX_READY)
        record_forgetting(sb, false, on_settled);
}

void snapshot_on_end(struct sandbox *sb, const char *why)
{
    struct error err = {0};
    if (!sb->back)
        return;
    error_set(&err, ERROR_CRASH, 0, "sandbox %s ended while it was restored: %s", sb->id, why);
    back_finish(sb, &err);
}

static int check_running(const struct sandbox *sb, struct error *err)
{
    bool runs = sb->state == SANDBOX_READY && !sb->paused && !sb->pausing && sb->instance;
    return runs ? 0 : error_set(err, ERROR_CONFLICT, 0, "sandbox %s is not running", sb->id);
}

static void on_forgetting_recorded(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    fault_point("snapshot.back-recorded");
    if (!sb->back) {
        sandbox_unref(sb);
        return;
    }
    if (err)
        error_set(&sb->back->err, ERROR_NO_SPACE, 0, "the restore cannot be recorded: %s",
                  err->message);
    if (err || check_running(sb, &sb->back->err) < 0) {
        record_forgetting(sb, false, on_settled);
        sandbox_unref(sb);
        return;
    }
    sb->ops->go_back(sb->instance, sb->back->id, on_back, sb);
}

static void on_loaded(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    struct sandbox *sb = data;
    struct error copy = {0};
    (void)bytes;
    (void)runner_fd;
    if (!err && check_running(sb, &copy) < 0)
        err = &copy;
    if (sb->back && err) {
        back_finish(sb, err);
    } else if (sb->back) {
        sb->returning = true;
        record_forgetting(sb, true, on_forgetting_recorded);
    }
    sandbox_unref(sb);
}

void sandbox_go_back(struct sandbox *sb, const struct snapshot *k, snapshot_fn cb, void *data)
{
    struct error err = {0};
    int r = sandbox_check_snapshots(sb, &err);
    if (r >= 0 && k->ops != sb->ops)
        r = error_set(&err, ERROR_CONFLICT, 0, "snapshot '%s' is of a sandbox of runtime '%s'",
                      k->name, k->ops->name);
    if (r < 0) {
        cb(data, NULL, &err);
        return;
    }
    sb->back = new0(struct back_call);
    *sb->back = (struct back_call){.cb = cb, .data = data};
    memcpy(sb->back->id, k->id, sizeof(sb->back->id));
    snapshot_begin(sb);
    sb->ops->load(sb->manager->options.host, k->id, on_loaded, sandbox_ref(sb));
}
