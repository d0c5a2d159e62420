/* SPDX-License-Identifier: Apache-2.0 */
/* What is about to be written to the state directory's file system by other processes than
 * sandboxes: an upload, an image that is fetched or unpacked, output that is kept.
 *
 * Disks of sandboxes are promised by the warden (promised.h). Whatever else writes much there
 * claims its bytes before it writes them, in a table in memory that the warden makes and that image
 * keeper and control plane share. A slot has one writer, and says how many bytes that one may still
 * write: it falls as they are written, because the file system counts them from then on.
 *
 * A claim is written first and looked at afterwards, as the warden does with its own number. So of
 * two that are made at once and fit only alone, at least one sees the other: both may be refused,
 * never both be granted. A claim that would not fit alone is never written, because others
 * would be refused for its sake meanwhile. The warden empties the table when keeper or control
 * plane end.
 *
 * A process that was taken over can write nonsense into every slot. Then claims and disks are
 * refused that would fit, or an image or output ends for want of room while it is written: disks
 * are backed by the warden's own ledger, and that is not in the table. */
#pragma once

#include <stdint.h>

enum claims_slot {
    CLAIMS_IMAGES = 0,               /* the first of the image keeper's workers */
    CLAIMS_IMAGES_N = 32,            /* of them, at a time */
    CLAIMS_OUTPUT = CLAIMS_IMAGES_N, /* the control plane's journals */
    _CLAIMS_SLOTS,
};

/* Who claims, and of what. Descriptors that an older warden does not hand out are -1. */
struct claimant {
    int dir_fd; /* on the file system */
    int promised_fd, claims_fd;
    unsigned slot;
    uint64_t reserve_bytes; /* that stay free in any case */
};

/* What a refusal was about. */
struct claims_view {
    uint64_t free_bytes, others_bytes; /* the latter are promised to disks, or claimed */
};

int claims_open(void); /* in the warden: the descriptor to hand out, or -errno */
/* The sum of all slots but one; _CLAIMS_SLOTS: of all. */
uint64_t claims_read(int claims_fd, unsigned but_slot);
/* The slot says so from now on, whatever is free: for what has been written, or ended. */
void claims_set(int claims_fd, unsigned slot, uint64_t bytes);
/* The claimant wants to write so many bytes, in place of what its slot says. -ENOSPC: it must not,
 * and its slot is 0; ret, which may be NULL, says why. */
int claims_take(const struct claimant *c, uint64_t bytes, struct claims_view *ret);
