/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 over a stream, by OpenSSL: layers are gigabytes, and it knows the processor's own way. */
#pragma once

#include <stddef.h>

#include "image/image.h"

struct evp_md_ctx_st;
struct hash {
    struct evp_md_ctx_st *ctx;
};

void hash_init(struct hash *h);
void hash_update(struct hash *h, const void *data, size_t len);
/* Writes the digest as hex and frees. */
void hash_final(struct hash *h, char ret[IMAGE_DIGEST_SIZE]);
void hash_done(struct hash *h); /* a zeroed or finished one is fine */
#define _cleanup_hash_ __attribute__((cleanup(hash_done)))
void hash_bytes(const void *data, size_t len, char ret[IMAGE_DIGEST_SIZE]);
