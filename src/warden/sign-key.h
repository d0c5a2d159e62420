/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the audit's signing key, all of them in the warden's directory.
 *
 *   audit.key          the private key that signs
 *   audit.key.new      the next one, while it takes over
 *   audit.pub          the public part of audit.key
 *   audit.pub.<hex>    public parts of earlier keys, under the first bytes of the key
 *
 * A rotation is decided by one write: that of the checkpoint which both keys signed (audit.last).
 * Everything that it needs is on disk before, and what follows is done again by the next start
 * where it was cut short. Before that write the old key is the valid one and audit.key.new is
 * thrown away; after it the new key is, under whichever of its two names. */
#pragma once

#include "warden/sign.h"

/* Once, before anything of libcrypto is used: what it frees is wiped from then on. */
void sign_key_wipe_memory(void);
/* Finishes a rotation that was decided, and makes a key where there is none. s->last has been read
 * and s->dir_fd is open. */
int sign_key_open(struct signer *s, struct error *err);
/* Each rotation leaves a file, and an attacker in the control plane can ask for rotations: so many
 * earlier keys may be there before another one. */
#define SIGN_OLD_KEYS_MAX 1000
size_t sign_key_count_old(const struct signer *s);
/* Makes the next key and keeps the old public one, durably. The caller frees *ret. */
int sign_key_prepare(struct signer *s, struct evp_pkey_st **ret);
/* Puts the files of the key that was decided on, s->key, in their places. */
int sign_key_settle(struct signer *s);
/* Which key signed s->last, from the public keys that were kept; zeros where that is not known. */
void sign_key_find_old(const struct signer *s, uint8_t ret[CHECKPOINT_KEY_SIZE]);

/* The private part as bytes, and the public part as a key of its own, which the caller frees. 0 or
 * -EIO. */
int sign_key_split(struct evp_pkey_st *key, uint8_t ret_secret[CHECKPOINT_KEY_SIZE],
                   struct evp_pkey_st **ret_public);
bool sign_key_public(struct evp_pkey_st *key, uint8_t ret[CHECKPOINT_KEY_SIZE]);
bool sign_key_verifies(struct evp_pkey_st *key, const struct checkpoint *c,
                       const uint8_t signature[CHECKPOINT_SIGNATURE_SIZE]);
