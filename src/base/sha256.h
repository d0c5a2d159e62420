/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) for programs that have no crypto library: the runner. Never allocates. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE 65

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t len);
void sha256_final(struct sha256 *s, uint8_t out[SHA256_SIZE]);
void sha256_hex(const uint8_t digest[SHA256_SIZE], char out[SHA256_HEX_SIZE]);
