/* What the files of the audit share; for no one else. */
#pragma once

#include "base/list.h"
#include "guard/audit.h"
#include "guard/audit-chain.h"
#include "guard/audit-file.h"
#include "guard/audit-record.h"
#include "loop/loop.h"

struct map;

struct audit {
    struct audit_options options;
    struct store *store;
    struct audit_file file;
    uint64_t seq;       /* of the newest record in the file */
    struct strbuf line; /* the record being written */
    struct map *open;   /* intents without an end, by call_id */
    struct list open_in_order;
    struct list owed; /* struct owed: what could not be written yet */
    size_t n_owed;
};

/* audit-calls.c: intents without an end. */
void audit_calls_apply(struct audit *a, int flags, const char *call_id, uint64_t seq);
void audit_calls_free(struct audit *a);
/* The lowest sequence number of them, or 0. */
uint64_t audit_calls_lowest(const struct audit *a);
