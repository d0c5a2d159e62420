/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's tables as an export (verify.h has its form), page by page; and the same tables
 * verified in place. All of it blocks: for a worker, or the command line. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "audit/verify.h"

struct error;
struct sqlite3;
struct strbuf;

/* Header and, where older records are left out, the changes of the key before them and the
 * checkpoint it builds on: the newest one up to `since`, or the oldest there is. The records go up
 * to `last`; *ret_base is where they begin. key NULL: zeros. */
int audit_export_begin(struct sqlite3 *db, uint64_t since, uint64_t last, const uint8_t *key,
                       struct strbuf *out, uint64_t *ret_base, struct error *err);
/* Records after *since up to until, with the checkpoints between them, about max bytes; moves
 * *since. 1: there is more. A checkpoint of `until` itself is left to the caller: its footer. */
int audit_export_page(struct sqlite3 *db, uint64_t *since, uint64_t until, size_t max,
                      struct strbuf *out, struct error *err);
int audit_newest_record(struct sqlite3 *db, uint64_t *ret_seq,
                        struct error *err); /* 0 if there is none */
/* The newest stored checkpoint; seq 0 if there is none. */
int audit_newest_checkpoint(struct sqlite3 *db, struct checkpoint *ret, struct error *err);

/* Feeds everything to v. Negative with err when it could not be read; what is wrong with it is v's
 * to tell. */
int audit_verify_database(struct audit_verifier *v, struct sqlite3 *db, struct error *err);
