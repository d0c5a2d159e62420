/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian integers at any alignment. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WIRE_INTEGER(bits)                                                                         \
    static inline uint##bits##_t wire_load_u##bits(const void *p)                                  \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof(v));                                                                  \
        return le##bits##toh(v);                                                                   \
    }                                                                                              \
    static inline void wire_store_u##bits(void *p, uint##bits##_t v)                               \
    {                                                                                              \
        v = htole##bits(v);                                                                        \
        memcpy(p, &v, sizeof(v));                                                                  \
    }
WIRE_INTEGER(16)
WIRE_INTEGER(32)
WIRE_INTEGER(64)
#undef WIRE_INTEGER
