/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-offline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/audit-evidence.h"
#include "cli/output.h"
#include "audit/export.h"
#include "audit/file.h"
#include "audit/record.h"
#include "libsbx/sbx.h"
#include "store/audit-table.h"

#define PAGE_BYTES (1024 * 1024)

int audit_offline_evidence(const char *state_dir, struct evidence *e, struct sbx_error *err)
{
    _cleanup_free_ char *key = xasprintf("%s/warden/audit.pub", state_dir),
                        *last = xasprintf("%s/warden/audit.last", state_dir);
    if (!e->has_key && access(key, F_OK) == 0 && evidence_load_key(e, key, err) < 0)
        return -1;
    return evidence_load_last(e, last, err);
}

static int take_error(struct sbx_error *err, const struct error *from)
{
    return cli_set_error(err, error_code_name(from->code), "%s", from->message);
}

static struct sqlite3 *open_database(const char *state_dir, struct sbx_error *err)
{
    struct error e = {0};
    _cleanup_free_ char *path = xasprintf("%s/control/state.db", state_dir);
    struct sqlite3 *db = audit_table_open(path, &e);
    if (!db)
        take_error(err, &e);
    return db;
}

/* --- what is in the files and not in the database */

struct tail {
    uint64_t after;
    size_t n;
};

static int count_line(void *data, const char *line, size_t len, bool complete, struct error *err)
{
    struct tail *t = data;
    (void)err;
    t->n += complete && audit_record_seq(line, len) > t->after;
    return 0;
}

static size_t count_unchained(const char *state_dir, uint64_t after)
{
    struct tail t = {.after = after};
    _cleanup_free_ char *dir = xasprintf("%s/control", state_dir);
    audit_file_read(dir, count_line, &t);
    return t.n;
}

int audit_offline_verify(const char *state_dir, struct audit_verifier *v, size_t *ret_unchained,
                         struct sbx_error *err)
{
    struct error e = {0};
    struct sqlite3 *db = open_database(state_dir, err);
    if (!db)
        return -1;
    int r = audit_verify_database(v, db, &e);
    audit_table_close(db);
    if (r < 0)
        return take_error(err, &e);
    *ret_unchained = count_unchained(state_dir, v->seq);
    return 0;
}

/* --- export */

static int print_text(struct strbuf *b, struct error *err)
{
    if (b->len && fwrite(b->data, b->len, 1, stdout) != 1)
        return error_set(err, ERROR_NO_SPACE, errno, "standard output cannot be written");
    strbuf_reset(b);
    return 0;
}

static int export_rows(struct sqlite3 *db, uint64_t since, const struct evidence *e,
                       uint64_t *ret_left, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4 * PAGE_BYTES);
    struct checkpoint newest;
    uint64_t head = 0;
    char line[CHECKPOINT_TEXT_SIZE];
    int r = audit_newest_checkpoint(db, &newest, err);
    if (r >= 0 && !newest.seq)
        r = error_set(err, ERROR_NOT_FOUND, 0, "there is no checkpoint to end an export with");
    r = r < 0 ? r
              : audit_export_begin(db, since, newest.seq, e->has_key ? e->key : NULL, &b, &since,
                                   err);
    for (int more = 1; r >= 0 && more > 0;) {
        r = more = audit_export_page(db, &since, newest.seq, PAGE_BYTES, &b, err);
        r = r < 0 ? r : print_text(&b, err);
    }
    if (r < 0)
        return r;
    r = audit_newest_record(db, &head, err);
    if (r < 0)
        return r;
    checkpoint_format(&newest, line);
    puts(line);
    *ret_left = head > newest.seq ? head - newest.seq : 0;
    return 0;
}

int audit_offline_export(const char *state_dir, uint64_t since, const struct evidence *e,
                         uint64_t *ret_left, struct sbx_error *err)
{
    struct error read_error = {0};
    struct sqlite3 *db = open_database(state_dir, err);
    if (!db)
        return -1;
    int r = export_rows(db, since, e, ret_left, &read_error);
    audit_table_close(db);
    return r < 0 ? take_error(err, &read_error) : 0;
}
