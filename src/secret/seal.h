/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed bytes: any process with the warden's public key can close a seal, and only one process
 * opens it.
 *
 * The warden has one X25519 key (seal-key.h). The process that closes a seal makes a key of its own
 * for that one time; both together give the content key, under which the bytes are encrypted
 * (AES-256-GCM). The warden computes the content key of a seal and hands it to the process that is
 * to use the bytes. So the control plane stores what it cannot open, the warden passes on what it
 * does not open, and the process that opens one seal has no key of any other.
 *
 *   sealed bytes: public key of this seal (32), encrypted bytes, tag (16) */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SEAL_KEY_SIZE 32 /* private, public and content keys alike */
#define SEAL_OVERHEAD (SEAL_KEY_SIZE + 16)

/* All of them: 0, or -EINVAL for what is not a seal of this key, or -EIO where libcrypto fails. */

int seal_public_key(const uint8_t private_key[SEAL_KEY_SIZE], uint8_t ret[SEAL_KEY_SIZE]);
/* Writes len + SEAL_OVERHEAD bytes. */
int seal_close(const uint8_t public_key[SEAL_KEY_SIZE], const void *data, size_t len, uint8_t *ret);
int seal_content_key(const uint8_t private_key[SEAL_KEY_SIZE], const uint8_t *sealed, size_t len,
                     uint8_t ret[SEAL_KEY_SIZE]);
/* Writes len - SEAL_OVERHEAD bytes. */
int seal_open(const uint8_t content_key[SEAL_KEY_SIZE], const uint8_t *sealed, size_t len,
              uint8_t *ret);
/* Derives a key for one purpose from a secret (HKDF with SHA-256). */
int seal_derive(const void *secret, size_t secret_len, const char *purpose, const void *context,
                size_t context_len, uint8_t *ret, size_t ret_len);
