/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of sandboxes: all of one at a moment, its processes included, kept by the runtime.
 *
 * A snapshot has a name that its owner chose, belongs to that key alone, and outlives its sandbox
 * and the daemon; its row is written before its files are begun (unfinished) and again when they
 * are whole, so that what a control plane leaves unfinished is removed by the next one. A copy of a
 * sandbox (fork) is made of a snapshot without a name that goes when the copies run.
 *
 * In a copy, and in a sandbox that went back, the processes of the moment go on, except for the
 * commands that were running: those belong to execs of the first sandbox, and end. */
#pragma once

#include <stdint.h>

#include "sandbox/sandbox.h"

#define SNAPSHOT_NAME_MAX 63
#define SNAPSHOT_FORK_MAX 16 /* copies in one call */

struct snapshot;

/* cb of all of these comes once; from inside where that is known at once. */
typedef void (*snapshot_fn)(void *data, const struct snapshot *k, const struct error *err);

/* Whether its runtime has snapshots at all; err names what has. */
int sandbox_check_keepable(const struct sandbox *sb, struct error *err);

/* Keeps the sandbox under a name that its owner has not used: 1 to SNAPSHOT_NAME_MAX of a-z, 0-9
 * and '-', not '-' at an end. */
void sandbox_snapshot(struct sandbox *sb, const char *name, snapshot_fn cb, void *data);
/* The sandbox becomes what was kept. Its commands end. */
void sandbox_go_back(struct sandbox *sb, const struct snapshot *k, snapshot_fn cb, void *data);

/* The spec that copies of the sandbox have. Rules that end some day are not in it: they are mostly
 * answers of a person, who was asked about this sandbox. The caller calls spec_done(). */
void sandbox_copy_spec(const struct sandbox *sb, struct spec *ret);
/* Makes n copies of the sandbox for a maker whom the gate has asked about that spec: all of them
 * READY, or none. copies are borrowed for the call; err NULL: there are n. */
typedef void (*sandbox_fork_fn)(void *data, struct sandbox *const *copies, size_t n,
                                const struct error *err);
void sandbox_fork(struct sandbox *sb, size_t n, const struct sandbox_maker *by, sandbox_fork_fn cb,
                  void *data);

/* Those with a name, and whole. NULL: the owner has none of that name. */
struct snapshot *snapshot_find(struct manager *m, const char *owner, const char *name);
/* The first of that name, whomever it belongs to, and how many have it. */
struct snapshot *snapshot_find_any(struct manager *m, const char *name, size_t *ret_n);
/* Calls cb with those of the owner ("": all), oldest first. */
void snapshot_for_each(struct manager *m, const char *owner,
                       void (*cb)(void *data, const struct snapshot *k), void *data);
void snapshot_delete(struct manager *m, struct snapshot *k, snapshot_fn cb, void *data);

const char *snapshot_name(const struct snapshot *k);
const char *snapshot_owner(const struct snapshot *k);
const char *snapshot_sandbox(const struct snapshot *k); /* the id of the one that it is of */
const char *snapshot_runtime(const struct snapshot *k);
const char *snapshot_image(const struct snapshot *k); /* its digest, or NULL */
uint64_t snapshot_bytes(const struct snapshot *k);
int64_t snapshot_created_ns(const struct snapshot *k);
