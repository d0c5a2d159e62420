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
 * What is counted and has no blocks yet is reported to the image keeper and the control plane
 * (proto/promised.h): uploads, images and kept output leave it free, beside the reserve. It
 * falls as sandboxes write, which is looked at from time to time; a figure that is old is too
 * high, never too low, because images do not give blocks back. These two in turn claim what they
 * are about to write (proto/claims.h), and no disk is promised of that.
 *
 * Nothing is asked of the file system for a sandbox whose disk is in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct ledger {
    uint64_t reserve_bytes;
    struct list counted; /* struct ledger_entry: images being made, and those without blocks */
    int promised_fd;     /* to hand out; -1: there is none */
    uint64_t *promised;  /* what it says */
    int claims_fd;       /* what is claimed beside it (proto/claims.h), to hand out, or -1 */
};

/* The counted image of one sandbox. */
struct ledger_entry {
    struct list node;
    uint64_t bytes; /* 0: it is not counted */
    int image_fd;   /* to see how many blocks it has; -1: it is being made */
};

/* A view of it for one new image: what others were promised without blocks, or have claimed. */
struct ledger_claim {
    uint64_t reserve_bytes, others_bytes, bytes;
};

int ledger_open(struct ledger *l, uint64_t reserve_bytes); /* 0 or -errno */
void ledger_close(struct ledger *l);

/* Counts bytes until ledger_release(), which an entry that is not counted is fine for. */
struct ledger_claim ledger_claim(struct ledger *l, struct ledger_entry *e, uint64_t bytes);
/* The image is there, without blocks of its own. Takes image_fd. */
void ledger_follow(struct ledger *l, struct ledger_entry *e, int image_fd);
void ledger_release(struct ledger *l, struct ledger_entry *e);
/* Looks at the images. Returns and tells how many bytes of what is counted have no blocks. */
uint64_t ledger_refresh(struct ledger *l);
/* The image keeper has ended, perhaps with the control plane. All slots are emptied, because either
 * may have written nonsense into any of them; a control plane that lives on claims for its output
 * again before long. */
void ledger_forget_claims(struct ledger *l);

/* In the helper that makes the image: does the claim fit the file system that dir_fd is on? 0, or
 * -ENOSPC with a text in why. */
int ledger_check(const struct ledger_claim *c, int dir_fd, char *why, size_t size);
/* Allocates all of the image, and looks again. *ret_backed: it has blocks of its own now. */
int ledger_back(const struct ledger_claim *c, int image_fd, bool *ret_backed, char *why,
                size_t size);
