/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes made ahead from the operator's default spec, each given to one caller and to no one
 * else.
 *
 * A pooled sandbox is READY, hidden and has run nothing. A create whose spec differs from it in
 * anything that cannot be applied afterwards (runtime, limits, mounts, workdir, or an asked-for
 * wall that the pooled one lacks) is made fresh. Refilling happens one at a time, in the
 * background: one that the runtime keeps although it does not start holds it up.
 *
 * Where a runtime's sandboxes live elsewhere, members outlive the control plane, and a claim is the
 * runtime's to grant (runtime_ops.claim): the next control plane finds what this one has given
 * away. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct manager;
struct pool;
struct sandbox;
struct spec;

struct pool_config {
    size_t size; /* kept ready; with autosize the least of what demand says */
    size_t min, max;
    bool autosize; /* as many as were created in the last minute, between min and max */
};

struct pool_options {
    struct pool_config config;
    const struct spec *spec;
};

struct pool_counts {
    uint64_t ready, creating, hits, misses;
};

/* NULL when the options ask for none. */
struct pool *pool_new(struct manager *m, const struct pool_options *o);
void pool_close(struct pool *p); /* stops refilling; its sandboxes are the manager's to delete */
void pool_free(struct pool *p);
/* A pooled sandbox that fits, no longer the pool's; or NULL. Counts as a creation. */
struct sandbox *pool_claim(struct pool *p, const struct spec *spec);
struct pool_counts pool_counts(const struct pool *p); /* p may be NULL */

/* Whether one more is wanted, which counts as being made from now on; and the spec of all. */
bool pool_expect(struct pool *p); /* p may be NULL */
const struct spec *pool_spec(const struct pool *p);
/* Deletes the oldest of those that are ready, until so many are left. */
void pool_shrink(struct pool *p, size_t wanted);

/* sandbox.c tells how a pooled one fares. */
void pool_on_ready(struct pool *p, struct sandbox *sb);
void pool_on_end(struct pool *p, struct sandbox *sb);
