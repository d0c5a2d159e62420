/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshot.c and fork.c share. */
#pragma once

#include "base/list.h"
#include "sandbox/snapshot.h"
#include "store/store.h"

struct snapshot {
    struct manager *manager;
    struct list node;            /* in manager->snapshots, oldest first */
    char id[PLAN_SNAPSHOT_SIZE]; /* what the runtime calls it */
    char *name;                  /* NULL: of a fork */
    char *owner, *sandbox, *image;
    const struct runtime_ops *ops;
    uint64_t bytes;
    int64_t created_ns;
    bool whole; /* its files are there */
};

/* Its files, its row, and itself. */
void snapshot_discard(struct snapshot *k);
/* READY, of a runtime that can, and not at it already. */
int sandbox_check_snapshots(const struct sandbox *sb, struct error *err);
/* Between these two the sandbox is held, and no other such call is taken. */
void snapshot_begin(struct sandbox *sb);
void snapshot_end(struct sandbox *sb);
/* As sandbox_snapshot(), unchecked. */
void snapshot_keep(struct sandbox *sb, const char *name, snapshot_fn cb, void *data);
