/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of execs that a caller has seen before they are in the database: each is appended to a
 * file with one write(), so it survives kill -9 of every process, and costs no commit. The batch
 * that brings the row to the database makes it superfluous; what is left is taken back at the next
 * start. Power loss may take the last of them, as it may the database's last commits.
 *
 * Two files in turn: entries join one until it is large and the other is empty; a file is emptied
 * once the database has all that it holds. Entries of one file are all older than those of the
 * other.
 *
 * A NULL struct recent takes nothing and keeps nothing. */
#pragma once

#include <stddef.h>

struct error;
struct recent;

#define RECENT_KEY_SIZE 24 /* with NUL */

/* Reads what an earlier process left: fn comes for every entry, oldest first, with a ticket as from
 * recent_append(); body is borrowed. The end of a file that was being written is cut off. */
typedef void (*recent_entry_fn)(void *data, const char *key, const char *body, size_t len,
                                unsigned ticket);
struct recent *recent_open(int dir_fd, recent_entry_fn fn, void *data, struct error *err);
void recent_free(struct recent *r);

/* Returns a ticket for recent_settle(), or 0 when it could not be written: the disk is full, or
 * the database has not kept up for very long. */
unsigned recent_append(struct recent *r, const char *key, const void *body, size_t len);
/* The entry is not needed any more. A ticket of 0 is fine. */
void recent_settle(struct recent *r, unsigned ticket);
/* Empties a file whose entries are all settled. To be called now and then. */
void recent_tidy(struct recent *r);
