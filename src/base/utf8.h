/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, at most U+10FFFF. */
#pragma once

#include <stddef.h>

/* How many leading bytes are whole, valid sequences. */
size_t utf8_valid_prefix(const char *data, size_t len);
/* The length of the one sequence at the start, 1 to 4, or 0 when that is not valid UTF-8. len is
 * at least 1. */
size_t utf8_sequence(const char *data, size_t len);
/* How many trailing bytes (0 to 3) are the start of a sequence that more bytes could complete. */
size_t utf8_incomplete_suffix(const char *data, size_t len);
