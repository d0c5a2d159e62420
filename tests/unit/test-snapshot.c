/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls about snapshots of one sandbox may be under way at once. */
#include "sandbox/snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "sandbox/internal.h"
#include "sandbox/snapshot-internal.h"
#include "store/store.h"
#include "tests/unit/tap.h"

#define SAID_SIZE 256

static uv_loop_t loop;
static struct runtime_host host;
static int some; /* in place of what a runtime has: it is not looked into */

/* What the runtime was asked for last, and has yet to answer. */
static runtime_snapshot_fn asked;
static void *asked_data;

static void keep_asked(runtime_snapshot_fn cb, void *data)
{
    asked = cb;
    asked_data = data;
}

static void asked_of_instance(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                              void *data)
{
    (void)in;
    (void)name;
    keep_asked(cb, data);
}

static void asked_of_host(struct runtime_host *h, const char *name, runtime_snapshot_fn cb,
                          void *data)
{
    (void)h;
    (void)name;
    keep_asked(cb, data);
}

static void drop_at_once(struct runtime_host *h, const char *name, runtime_snapshot_fn cb,
                         void *data)
{
    (void)h;
    (void)name;
    cb(data, NULL, 0, -1);
}

static unsigned n_frozen;

static void count_freeze(struct runtime_instance *in, bool on, void (*cb)(void *data, int result),
                         void *data)
{
    (void)in;
    (void)on;
    n_frozen++;
    cb(data, 0);
}

static struct runtime_ops ops = {.name = "tried",
                                 .freeze = count_freeze,
                                 .save = asked_of_instance,
                                 .load = asked_of_host,
                                 .go_back = asked_of_instance,
                                 .drop = drop_at_once};

static unsigned n_forked, n_back;

static void on_forked(void *data, struct sandbox *const *copies, size_t n, const struct error *err)
{
    (void)data;
    (void)copies;
    (void)n;
    n_forked += err != NULL;
}

static void on_back(void *data, const struct snapshot *k, const struct error *err)
{
    (void)k;
    n_back += err != NULL;
    snprintf(data, SAID_SIZE, "%s", err ? err->message : "");
}

static void on_paused(void *data, struct sandbox *sb, const struct error *err)
{
    (void)sb;
    snprintf(data, SAID_SIZE, "%s", err && err->code == ERROR_CONFLICT ? err->message : "");
}

/* A sandbox that stands still cannot answer the call that keeps it or takes it back: that one would
 * hang until it goes on. */
static bool pause_is_refused(struct sandbox *sb)
{
    char said[SAID_SIZE] = "";
    sandbox_pause(sb, true, on_paused, said);
    return strstr(said, "is being kept, copied or restored") && !n_frozen && !sb->pausing;
}

static void sandbox_begin(struct sandbox *sb, struct manager *m)
{
    *sb = (struct sandbox){.manager = m,
                           .refs = 1,
                           .state = SANDBOX_READY,
                           .ops = &ops,
                           .instance = (struct runtime_instance *)&some};
    sb->owner = xstrdup("key-one");
    sb->spec.runtime = xstrdup("tried");
    list_init(&sb->idle_node);
}

/* A fork keeps its sandbox first, and then makes copies, which takes as long as they need to boot.
 * A second call that began meanwhile would take the place of the first one's answer. */
static void test_fork(struct sandbox *sb)
{
    struct sandbox_maker by = {.key = "key-one", .address = ""};
    struct error err = {0}, no = {.code = ERROR_UNAVAILABLE};
    char said[SAID_SIZE] = "";
    sandbox_fork(sb, 1, &by, on_forked, NULL);
    ok(asked && sandbox_check_snapshots(sb, &err) < 0,
       "while a fork is being kept no other call is taken");
    ok(pause_is_refused(sb), "nor a pause");
    runtime_snapshot_fn saved = asked;
    saved(asked_data, NULL, 1, -1);
    err = (struct error){0};
    ok(sandbox_check_snapshots(sb, &err) < 0 && err.code == ERROR_CONFLICT,
       "nor while its copies are made");
    ok(pause_is_refused(sb), "nor a pause then");
    struct snapshot *k = container_of(sb->manager->snapshots.next, struct snapshot, node);
    runtime_snapshot_fn loading = asked;
    void *loading_data = asked_data;
    sandbox_go_back(sb, k, on_back, said);
    ok(n_back == 1 && !sb->back, "going back is refused at once: %s", said);
    loading(loading_data, &no, 0, -1);
    ok(n_forked == 1, "the fork is answered");
    ok(sandbox_check_snapshots(sb, &err) >= 0 && sb->holds == 0,
       "and then the sandbox is free for the next call");
    struct snapshot other = {.id = "one", .ops = &ops};
    sandbox_go_back(sb, &other, on_back, said);
    ok(sb->back && pause_is_refused(sb), "a pause is refused while a restore is under way");
    asked(asked_data, &no, 0, -1);
    ok(n_back == 2 && sb->n_keeping == 0, "which is answered");
}

/* --- what a kill -9 leaves */

static unsigned n_kept, n_deleted, n_rows, n_whole;

static void on_kept(void *data, const struct snapshot *k, const struct error *err)
{
    (void)data;
    n_kept += k && !err;
}

static void on_deleted(void *data, const struct snapshot *k, const struct error *err)
{
    (void)data;
    n_deleted += k && !err;
}

static void count_row(void *data, const char *key, const char *body, size_t len)
{
    (void)data;
    (void)key;
    n_rows++;
    n_whole += memmem(body, len, "\"whole\":true", 12) != NULL;
}

static void look_at_rows(struct store *s)
{
    struct error err = {0};
    n_rows = n_whole = 0;
    store_load(s, STORE_SNAPSHOT, count_row, NULL, &err);
}

static void wait_asked(void)
{
    while (!asked)
        uv_run(&loop, UV_RUN_ONCE);
}

static void answer_asked(void)
{
    runtime_snapshot_fn cb = steal_ptr(asked);
    cb(asked_data, NULL, 1, -1);
}

/* A row that says that the files are whole while they are being removed would be a snapshot that
 * cannot be used, for the next control plane. */
static void test_deletion(struct sandbox *sb)
{
    struct manager *m = sb->manager;
    char dir[] = "/tmp/mas-snapshot-XXXXXX", command[64];
    struct error err = {0};
    m->options.store = mkdtemp(dir) ? store_open(dir, &loop, &err) : NULL;
    m->options.config.max_snapshots = 4;
    if (!ok(m->options.store != NULL, "a store: %s", err.message))
        return;
    ops.drop = asked_of_host;
    asked = NULL;
    sandbox_snapshot(sb, "one", on_kept, NULL);
    wait_asked();
    answer_asked();
    while (!n_kept)
        uv_run(&loop, UV_RUN_ONCE);
    look_at_rows(m->options.store);
    ok(n_rows == 1 && n_whole == 1, "what is kept is whole on record");
    snapshot_delete(m, snapshot_find(m, "key-one", "one"), on_deleted, NULL);
    wait_asked();
    look_at_rows(m->options.store);
    ok(n_rows == 1 && n_whole == 0, "it is not any more before its files are removed");
    answer_asked();
    while (!n_deleted)
        uv_run(&loop, UV_RUN_ONCE);
    look_at_rows(m->options.store);
    ok(n_rows == 0, "and gone from the record when they are");
    store_close(m->options.store);
    m->options.store = NULL;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ok(system(command) == 0, "nothing is left");
}

int main(void)
{
    static struct manager m;
    static struct sandbox sb;
    uv_loop_init(&loop);
    m.options.loop = &loop;
    m.options.host = &host;
    list_init(&m.snapshots);
    list_init(&m.idle);
    sandbox_begin(&sb, &m);
    test_fork(&sb);
    test_deletion(&sb);
    ok(list_empty(&m.snapshots), "no snapshot is left in the table");
    free(sb.owner);
    spec_done(&sb.spec);
    uv_loop_close(&loop);
    return tap_done();
}
