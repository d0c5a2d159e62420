/* SPDX-License-Identifier: Apache-2.0 */
/* User ids: the warden's own user namespace when it is not root, and each sandbox's block of ids.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "builder/child.h"

struct error;

#define ID_BLOCK_MIN 3 /* SANDBOX_RUNNER_ID and the others */

struct id_range {
    bool shared;           /* one id for all: this user has no range */
    bool in_userns;        /* the warden is root of a user namespace that it made */
    uint32_t first, count; /* as the warden's user namespace sees them */
    uint32_t block;        /* ids per sandbox */
    uint32_t n_blocks;
    uint8_t *used; /* one byte per block */
    uint32_t next; /* where the search starts: a freed block rests as long as possible */
};

/* As root: takes first and count as they are. Otherwise enters a user namespace in which the caller
 * is root, with the caller's subordinate ids when newuidmap and newgidmap grant them;
 * ERROR_UNSUPPORTED where the host allows none. */
int id_range_open(struct id_range *r, uint32_t first, uint32_t count, uint32_t block,
                  struct error *err);
/* One id for all: the caller's own, without any namespace. */
void id_range_share(struct id_range *r);
void id_range_done(struct id_range *r);

/* In a child of a warden that is root of a user namespace: makes it the warden's caller again, in
 * one namespace more. */
int userns_become_caller(uid_t uid, gid_t gid);

/* The block's first id. -EAGAIN when all are in use; 0 in shared mode. */
int64_t id_block_take(struct id_range *r);
/* Takes that one. False where it is not of this range, or in use. */
bool id_block_reserve(struct id_range *r, int64_t first);
void id_block_release(struct id_range *r, int64_t first);
/* Writes the maps of a process that was cloned into its own user namespace. proc_fd: /proc. */
int id_block_map(const struct id_range *r, int64_t first, int proc_fd, pid_t pid);
/* The ids that own files of the tool and of the runner, as the warden sees them. */
uint32_t id_block_host_id(const struct id_range *r, int64_t first, uint32_t inside);
