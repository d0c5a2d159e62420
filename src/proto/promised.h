/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the free space of the state directory's file system belongs to sandboxes already: a
 * number in memory that the warden writes (warden/ledger.h), and that the image keeper and the
 * control plane read through a descriptor before they take room for images and for output. Only the
 * warden can change it. */
#pragma once

#include <stdint.h>

/* In the warden: the descriptor to hand out, and in *ret where to write the number. -errno. */
int promised_open(uint64_t **ret);
/* 0 where fd is -1, which is what an older warden hands out. */
uint64_t promised_read(int fd);
