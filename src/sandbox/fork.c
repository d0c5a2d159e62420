/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a sandbox: it is kept in a snapshot without a name, the copies are made of that, and
 * the snapshot goes as soon as all of them run. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "gateway/gateway-client.h"
#include "sandbox/internal.h"
#include "sandbox/snapshot-internal.h"

struct fork_copy {
    struct sandbox_waiter waiter;
    struct fork_call *call;
    struct sandbox *sb;
};

struct fork_call {
    struct sandbox *sb;
    struct snapshot *k;
    struct spec spec;
    struct sandbox_maker by;
    char *key, *address;
    struct fork_copy copies[SNAPSHOT_FORK_MAX];
    size_t n, n_made, n_waiting;
    struct error err;
    sandbox_fork_fn cb;
    void *data;
};

/* All copies or none: a caller that asked for three could not tell which two it got. The snapshot
 * goes last, when no copy is made from it any more. */
static void fork_finish(struct fork_call *c)
{
    struct sandbox *made[SNAPSHOT_FORK_MAX];
    bool failed = error_is_set(&c->err);
    for (size_t i = 0; i < c->n_made; i++)
        made[i] = c->copies[i].sb;
    for (size_t i = 0; failed && i < c->n_made; i++)
        sandbox_delete(made[i], NULL);
    c->cb(c->data, made, failed ? 0 : c->n_made, failed ? &c->err : NULL);
    for (size_t i = 0; i < c->n_made; i++)
        sandbox_unref(made[i]);
    if (c->k)
        snapshot_discard(c->k);
    snapshot_end(c->sb);
    spec_done(&c->spec);
    free(c->key);
    free(c->address);
    free(c);
}

/* The call is freed with the last of them, and this waiter with it. */
static void on_copy_ready(struct sandbox_waiter *w, struct sandbox *sb, const struct error *err)
{
    struct fork_copy *copy = container_of(w, struct fork_copy, waiter);
    struct fork_call *c = copy->call;
    (void)sb;
    if (err && !error_is_set(&c->err))
        c->err = *err;
    if (--c->n_waiting == 0)
        fork_finish(c);
}

/* By way of its row, the one form that has every member: one that is added to policies later cannot
 * be forgotten here, which would make the copy less narrow than its origin. */
static struct sandbox_policy *copy_policy(const struct sandbox *sb)
{
    struct sandbox_policy *copy = NULL;
    struct error err = {0};
    _cleanup_json_ json_t *row = json_object();
    sandbox_policy_put(sb->policy, row);
    sandbox_policy_get(row, NULL, sb->id, &copy, &err);
    return copy;
}

static void make_copy(struct fork_call *c)
{
    struct fork_copy *copy = &c->copies[c->n_made];
    struct error err = {0};
    struct sandbox_policy *policy = c->sb->policy ? copy_policy(c->sb) : NULL;
    struct sandbox *sb =
        sandbox_create_narrowed(c->sb->manager, &c->spec, &c->by, NULL, policy, &err);
    if (!sb) {
        c->err = err;
        return;
    }
    *copy = (struct fork_copy){.call = c, .sb = sandbox_ref(sb)};
    copy->waiter.on_event = on_copy_ready;
    c->n_made++;
}

/* Every copy is begun before one is waited for: a waiter may be called at once. */
static void on_loaded(void *data, const struct error *err, uint64_t bytes, int runner_fd)
{
    struct fork_call *c = data;
    (void)bytes;
    (void)runner_fd;
    if (err)
        c->err = *err;
    while (!error_is_set(&c->err) && c->n_made < c->n)
        make_copy(c);
    /* One more than there are, so that a copy which is ready at once does not end the call in this
     * loop. */
    c->n_waiting = c->n_made + 1;
    for (size_t i = 0; i < c->n_made; i++)
        sandbox_wait_ready(c->copies[i].sb, &c->copies[i].waiter);
    if (--c->n_waiting == 0)
        fork_finish(c);
}

static void on_kept(void *data, const struct snapshot *k, const struct error *err)
{
    struct fork_call *c = data;
    struct manager *m = c->sb->manager;
    if (err) {
        c->err = *err;
        fork_finish(c);
        return;
    }
    list_for_each(own, &m->snapshots, struct snapshot, node) {
        if (own == k)
            c->k = own;
    }
    free(c->spec.snapshot);
    c->spec.snapshot = xstrdup(k->id);
    c->sb->ops->load(m->options.host, k->id, on_loaded, c);
}

/* A rule with an end was allowed for this sandbox alone, often by a person: copies do not have it.
 */
static void drop_timed(char ***texts)
{
    char **kept = network_keep_endless(*texts);
    strv_free(*texts);
    *texts = kept;
}

void sandbox_copy_spec(const struct sandbox *sb, struct spec *ret)
{
    spec_copy(ret, &sb->spec);
    if (network_has_end(ret->hosts)) {
        drop_timed(&ret->hosts);
        if (!ret->hosts) /* no list at all would mean every host */
            network_add_text(&ret->hosts, GATEWAY_HOST_NONE);
    }
    drop_timed(&ret->cidrs);
    drop_timed(&ret->lent);
}

void sandbox_fork(struct sandbox *sb, size_t n, const struct sandbox_maker *by, sandbox_fork_fn cb,
                  void *data)
{
    struct error err = {0};
    if (sandbox_check_snapshots(sb, &err) < 0) {
        cb(data, NULL, 0, &err);
        return;
    }
    struct fork_call *c = new0(struct fork_call);
    *c = (struct fork_call){.sb = sb, .n = n, .cb = cb, .data = data, .by = *by};
    c->by.key = c->key = xstrdup(by->key);
    c->by.address = c->address = xstrdup(by->address);
    sandbox_copy_spec(sb, &c->spec);
    snapshot_keep(sb, NULL, on_kept, c);
    snapshot_begin(sb); /* until the copies run; ends with fork_finish() */
}
