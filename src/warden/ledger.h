/* SPDX-License-Identifier: Apache-2.0 */
/* What is promised of the state directory's file system.
 *
 * The disk of a sandbox that is an image lies beside the daemon's own files, so a sandbox within
 * its limit could fill the file system: then the daemon cannot write, and what other sandboxes
 * wrote to their disks is lost. So a promise is backed when it is made, or refused by name. Where
 * the file system can, the image's blocks are allocated at once. Where it cannot (or where they
 * would be memory), the ledger counts the promise against what is free. Either way
 * state_reserve_bytes stay free, for what the daemon needs to live.
 *
 * Nothing is asked of the file system for a sandbox whose disk is in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger {
    uint64_t reserve_bytes;
    uint64_t counted_bytes; /* images being made, and those without blocks of their own */
};

/* A view of it for one new image: what others have promised without blocks. */
struct ledger_claim {
    uint64_t reserve_bytes, others_bytes, bytes;
};

/* Counts bytes until ledger_release(). */
struct ledger_claim ledger_claim(struct ledger *l, uint64_t bytes);
void ledger_release(struct ledger *l, uint64_t bytes);

/* In the helper that makes the image: does the claim fit the file system that dir_fd is on? 0, or
 * -ENOSPC with a text in why. */
int ledger_check(const struct ledger_claim *c, int dir_fd, char *why, size_t size);
/* Allocates all of the image, and looks again. *ret_backed: it has blocks of its own now. */
int ledger_back(const struct ledger_claim *c, int image_fd, bool *ret_backed, char *why,
                size_t size);
