/* SPDX-License-Identifier: Apache-2.0 */
/* Whether it is proven that the cluster enforces network policies, and the witness that every
 * sandbox must not reach (proto/witness.h).
 *
 * Theory of operation. A policy that was posted says nothing: a cluster whose network knows no
 * policies takes it all the same. So the broker shows, once for each control plane, that a policy
 * makes the difference (KUBE_PROVE), and each sandbox, on whichever node it is, tries the witness
 * of that proof before it is used. The witness is a pod of this instance that no row names, so one
 * of a control plane that died is deleted as any stranger is, by the next one. When it ends, the
 * proof is made again with another. */
#pragma once

#include <stdbool.h>

#include "proto/witness.h"

struct cluster;
struct proof;

enum proof_state {
    PROOF_PENDING, /* it is being made, or the cluster was not there yet */
    PROOF_GIVEN,   /* policies are enforced, and the witness answers */
    PROOF_FAILED,  /* why says what is missing; it is tried again later */
};

struct proof_report {
    enum proof_state state;
    char witness[WITNESS_ADDRESS_SIZE]; /* where it is given */
    char why[256];
};

/* Whether a pod has the name of a witness or a caller. A sandbox may be called so as well, but has
 * a record, which these have not. */
bool proof_is_pod(const char *id);

struct proof *proof_new(struct cluster *c);
/* Makes it, unless it is being made or is given. */
void proof_begin(struct proof *p);
const struct proof_report *proof_report(const struct proof *p);
/* Has the witness deleted; no other is made after that. cb comes when it is gone, at once where
 * there is none, and in any case after a few seconds. cb may be NULL; the last one counts. */
void proof_end(struct proof *p, void (*cb)(void *data), void *data);
/* The witness stays. NULL is fine. on_closed comes later, once. */
void proof_close(struct proof *p, void (*on_closed)(void *data), void *data);
