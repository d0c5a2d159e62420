/* SPDX-License-Identifier: Apache-2.0 */
/* What a verification is held against: the public key, and checkpoints that were kept elsewhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/verify.h"
#include "proto/checkpoint.h"

struct sbx_error;

struct evidence {
    bool has_key;
    uint8_t key[CHECKPOINT_KEY_SIZE];
    uint8_t others[AUDIT_OTHER_KEYS_MAX][CHECKPOINT_KEY_SIZE]; /* that signed before it */
    size_t n_others;
    char key_from[128];       /* where it was found */
    struct checkpoint *known; /* ascending */
    size_t n_known;
};
void evidence_done(struct evidence *e);
#define _cleanup_evidence_ __attribute__((cleanup(evidence_done)))

/* With those of PATH.* beside it, which the warden keeps when its key is another one. */
int evidence_load_key(struct evidence *e, const char *path, struct sbx_error *err);
/* Every line of the file that has a checkpoint in it, whatever is around it: a file that the warden
 * wrote, a piece of syslog, an answer of the daemon's. */
int evidence_load_checkpoints(struct evidence *e, const char *path, struct sbx_error *err);
/* What the warden signed last, from its own file; none is fine. */
int evidence_load_last(struct evidence *e, const char *path, struct sbx_error *err);
void evidence_sort(struct evidence *e); /* when all are loaded */
/* After the audit was read: checks that each kept checkpoint which it was held against is signed
 * with the key, or with one that the key handed over to. */
int evidence_check(const struct evidence *e, const struct audit_verifier *v, struct sbx_error *err);
