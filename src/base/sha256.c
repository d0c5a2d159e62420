/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <endian.h>
#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void expand_block(uint32_t w[64], const uint8_t block[64])
{
    for (int i = 0; i < 16; i++) {
        memcpy(&w[i], block + 4 * i, 4);
        w[i] = be32toh(w[i]);
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
}

/* In each round all eight words move up one place. Here they stay where they are, in registers, and
 * their names move instead: after eight rounds each name is at its word again. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
    do {                                                                                           \
        uint32_t t = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +        \
                     (g ^ (e & (f ^ g))) + k[i] + w[i];                                            \
        d += t;                                                                                    \
        h = t + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +                 \
            ((a & b) | (c & (a | b)));                                                             \
    } while (0)

static void transform_block(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    expand_block(w, block);
    for (int i = 0; i < 64; i += 8) {
        ROUND(a, b, c, d, e, f, g, h, i);
        ROUND(h, a, b, c, d, e, f, g, i + 1);
        ROUND(g, h, a, b, c, d, e, f, i + 2);
        ROUND(f, g, h, a, b, c, d, e, i + 3);
        ROUND(e, f, g, h, a, b, c, d, i + 4);
        ROUND(d, e, f, g, h, a, b, c, i + 5);
        ROUND(c, d, e, f, g, h, a, b, i + 6);
        ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += sum[i];
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, start, sizeof(start));
    s->length = 0;
}

void sha256_update(struct sha256 *s, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len) {
        size_t at = s->length % 64, n = 64 - at < len ? 64 - at : len;
        memcpy(s->block + at, p, n);
        s->length += n;
        p += n;
        len -= n;
        if (at + n == 64)
            transform_block(s->state, s->block);
    }
}

void sha256_final(struct sha256 *s, uint8_t out[SHA256_SIZE])
{
    static const uint8_t zeros[64];
    uint64_t bits = htobe64(s->length * 8);
    size_t at = s->length % 64;
    sha256_update(s, "\x80", 1);
    sha256_update(s, zeros, (at < 56 ? 55 : 119) - at);
    sha256_update(s, &bits, sizeof(bits));
    for (int i = 0; i < 8; i++) {
        uint32_t word = htobe32(s->state[i]);
        memcpy(out + 4 * i, &word, 4);
    }
}

void sha256_hex(const uint8_t digest[SHA256_SIZE], char out[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_SIZE; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SHA256_HEX_SIZE - 1] = 0;
}
