/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical form of an audit record: one line of compact JSON, members in a fixed order,
 *
 *   {"seq":N,"time":"...","kind":"...", ... ,"details":{...}}
 *
 * with absent members left out. The bytes are what is hashed, so nothing is ever formatted again;
 * what reads them scans for members in the same fixed form. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "audit/kind.h"

/* Replaces what is in out (of at least AUDIT_RECORD_MAX) by the line, without its newline. Details
 * that do not fit are left out, and their size and digest recorded. -EINVAL: no such kind; -EFBIG.
 */
int audit_record_format(const struct audit_record *r, uint64_t seq, int64_t time_ns,
                        struct strbuf *out);

/* One member of a canonical line; its text as written, without the quotes of a string. */
struct audit_member {
    const char *name, *text;
    size_t name_len, text_len;
};
/* Iterates over the members before "details": *at starts at 0; false at the end, or where the line
 * is not canonical. */
bool audit_record_next(const char *line, size_t len, size_t *at, struct audit_member *ret);
/* False where it has none. */
bool audit_record_find(const char *line, size_t len, const char *name, struct audit_member *ret);
/* The sequence number a line starts with; 0 when it is not a canonical line's start. */
uint64_t audit_record_seq(const char *line, size_t len);
/* Appends text as the inside of a JSON string of a record. */
int audit_record_escape(struct strbuf *out, const char *text);
