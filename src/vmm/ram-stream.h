/* SPDX-License-Identifier: Apache-2.0 */
/* Splits what QEMU writes when it migrates a machine: the guest's memory goes to a file that can be
 * mapped, each page at its place, and everything else to another, as a stream that QEMU takes for
 * one of a machine whose memory is there already (x-ignore-shared). */
#pragma once

#include <stdint.h>

/* Reads until the stream ends. emulator_pidfd: whose end means that it never will; -1: not watched.
 * memory_fd is memory_bytes long and reads as zeros. 0 or -errno: -EPROTO for a stream that is not
 * understood. The emulator may have been taken over by its guest: whatever it writes, nothing
 * beyond memory_bytes is written to memory_fd, and to state_fd not more than RAM_STREAM_STATE_MAX.
 */
#define RAM_STREAM_STATE_MAX (64ull * 1024 * 1024)
int ram_stream_split(int from_fd, int emulator_pidfd, int memory_fd, uint64_t memory_bytes,
                     int state_fd);
