/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the store's own connection that each batch needs. Parsing one takes longer than
 * running it, so each is prepared when it is first asked for and stays until the store is closed.
 */
#pragma once

struct sqlite3;
struct sqlite3_stmt;

/* The one with this text. The connection keeps it: the caller resets it and never finalizes it.
 * NULL where it cannot be prepared; the reason is in the database's message. */
struct sqlite3_stmt *statement_get(struct sqlite3 *db, const char *sql);

/* Runs one that takes no values. Returns 0 or -EIO. */
int statement_run(struct sqlite3 *db, const char *sql);

/* All that the connection has, before it is closed. */
void statements_free(struct sqlite3 *db);
