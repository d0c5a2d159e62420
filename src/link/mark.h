/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a mark in a stream of bytes that arrives in pieces (proto/guest.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/guest.h"

/* How many bytes of data come before the mark, or before what may be the beginning of one. *found:
 * the whole mark follows them. */
size_t mark_find(const uint8_t *data, size_t len, const uint8_t mark[GUEST_MARK_SIZE], bool *found);
