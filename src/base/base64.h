/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 as RFC 4648 has it: with padding, without line breaks. */
#pragma once

#include <stddef.h>

/* Heap, NUL-terminated; *ret_len (may be NULL) without the NUL. */
char *base64_encode(const void *data, size_t len, size_t *ret_len);
/* Heap, NUL-terminated, into *ret; -EINVAL for anything that base64_encode() would not have made
 * but for unused bits of the last digit. */
int base64_decode(const char *text, size_t len, char **ret, size_t *ret_len);
