/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that have ended while their runtime may still have something of them elsewhere.
 *
 * Theory of operation. A sandbox that its store does not know and its runtime still has is made
 * known again (rebuild.c). So one that was deleted, or whose create was answered with an error,
 * would come back if the control plane died before its runtime had removed it. A row that says that
 * it is to be removed, its tombstone, is written when a deletion begins, and is durable before its
 * own row goes and before a failed create is answered. It is called by the sandbox's generation,
 * because ids are used again, and goes when the runtime says that nothing is left (on_removed). A
 * control plane that begins deletes what it finds of a sandbox with a tombstone; a tombstone whose
 * sandbox has left nothing behind is deleted itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "sandbox/internal.h"

struct tombstone {
    char generation[SANDBOX_GENERATION_SIZE];
    bool awaited; /* on_removed comes in this control plane's time */
    bool found;   /* something of it was there when its runtime was looked through last */
};

static struct tombstone *tombstone_add(struct manager *m, const char *generation)
{
    struct tombstone *t = new0(struct tombstone);
    if (!m->tombstones)
        m->tombstones = map_new();
    snprintf(t->generation, sizeof(t->generation), "%s", generation);
    free(map_put(m->tombstones, generation, t));
    return t;
}

static void tombstone_remove(struct manager *m, const char *generation)
{
    store_delete(m->options.store, STORE_TOMBSTONE, generation, NULL, NULL);
    free(map_remove(m->tombstones, generation));
}

bool sandbox_needs_tombstone(const struct sandbox *sb)
{
    return sb->remains && !sb->buried && persist_wants_sandbox(sb);
}

void sandbox_bury(struct sandbox *sb, store_done_fn on_durable, void *data)
{
    struct tombstone *t = tombstone_add(sb->manager, sb->generation);
    t->awaited = sb->awaits_removal;
    sb->buried = true;
    store_put(sb->manager->options.store, STORE_TOMBSTONE, sb->generation, sb->runtime_id,
              strlen(sb->runtime_id), on_durable, data);
}

void sandbox_on_removed(void *data, bool certain)
{
    struct sandbox *sb = data;
    struct tombstone *t = sb->buried ? map_find(sb->manager->tombstones, sb->generation) : NULL;
    sb->remains = !certain;
    sb->awaits_removal = false;
    if (t)
        t->awaited = false;
    if (t && certain)
        tombstone_remove(sb->manager, sb->generation);
    sandbox_unref(sb);
}

/* --- of an earlier control plane */

static void on_tombstone_row(void *data, const char *key, const char *body, size_t len)
{
    (void)body;
    (void)len;
    if (strlen(key) < SANDBOX_GENERATION_SIZE)
        tombstone_add(data, key);
}

int tombstones_load(struct manager *m, struct error *err)
{
    return store_load(m->options.store, STORE_TOMBSTONE, on_tombstone_row, m, err);
}

bool tombstone_find(struct manager *m, const char *generation)
{
    struct tombstone *t = m->tombstones && generation ? map_find(m->tombstones, generation) : NULL;
    if (!t)
        return false;
    t->found = true;
    return true;
}

/* A tombstone stays while anything of its sandbox was found: that is being deleted, and the next
 * start looks again. */
void manager_rebuilt(struct manager *m)
{
    size_t n = m->tombstones ? map_count(m->tombstones) : 0, cursor = 0, k = 0;
    struct tombstone **gone = xcalloc(n + 1, sizeof(struct tombstone *));
    for (struct tombstone *t; n && (t = map_next(m->tombstones, &cursor));) {
        if (!t->awaited && !t->found)
            gone[k++] = t;
        t->found = false;
    }
    while (k) {
        char generation[SANDBOX_GENERATION_SIZE];
        memcpy(generation, gone[--k]->generation, sizeof(generation));
        tombstone_remove(m, generation);
    }
    free(gone);
}

void tombstones_free(struct manager *m)
{
    size_t cursor = 0;
    if (!m->tombstones)
        return;
    for (struct tombstone *t; (t = map_next(m->tombstones, &cursor));)
        free(t);
    map_free(steal_ptr(m->tombstones));
}
