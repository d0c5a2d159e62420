/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls about snapshots of one sandbox may be under way at once. */
#include "sandbox/snapshot.h"

#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "sandbox/internal.h"
#include "sandbox/snapshot-internal.h"
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

static const struct runtime_ops ops = {.name = "tried",
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
    runtime_snapshot_fn saved = asked;
    saved(asked_data, NULL, 1, -1);
    err = (struct error){0};
    ok(sandbox_check_snapshots(sb, &err) < 0 && err.code == ERROR_CONFLICT,
       "nor while its copies are made");
    struct snapshot *k = container_of(sb->manager->snapshots.next, struct snapshot, node);
    runtime_snapshot_fn loading = asked;
    void *loading_data = asked_data;
    sandbox_go_back(sb, k, on_back, said);
    ok(n_back == 1 && !sb->back, "going back is refused at once: %s", said);
    loading(loading_data, &no, 0, -1);
    ok(n_forked == 1, "the fork is answered");
    ok(sandbox_check_snapshots(sb, &err) >= 0 && sb->holds == 0,
       "and then the sandbox is free for the next call");
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
    ok(list_empty(&m.snapshots), "the snapshot of the copies is gone");
    free(sb.owner);
    spec_done(&sb.spec);
    uv_loop_close(&loop);
    return tap_done();
}
