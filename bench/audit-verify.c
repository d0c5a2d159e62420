/* SPDX-License-Identifier: Apache-2.0 */
/* How many records of an export, and of a database, are verified in a second. */
#include <time.h>

#include "audit/export.h"
#include "tests/unit/audit-log.h"

#define RECORDS    300000
#define STEP       10000 /* a checkpoint each, as the daemon has by default */
#define EXPORT_MAX (1024UL * 1024 * 1024)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *why)
{
    fprintf(stderr, "audit-verify: %s\n", why);
    exit(1);
}

static void make(struct audit_log *log, struct checkpoint *ret_footer)
{
    struct error err = {0};
    if (audit_log_open(log, &err) < 0)
        fail(err.message);
    for (size_t i = 0; i < RECORDS / STEP; i++) {
        audit_log_fill(log, STEP);
        enum checkpoint_purpose p =
            i + 1 < RECORDS / STEP ? CHECKPOINT_PERIODIC : CHECKPOINT_EXPORT;
        if (!audit_log_checkpoint(log, p, ret_footer))
            fail("no checkpoint");
    }
}

static void export_all(struct audit_log *log, struct sqlite3 *db, const struct checkpoint *footer,
                       struct strbuf *text)
{
    struct error err = {0};
    char line[CHECKPOINT_TEXT_SIZE + 1];
    uint64_t since = 0;
    if (audit_export_begin(db, 0, footer->seq, log->signer.public_key, text, &since, &err) < 0 ||
        audit_export_page(db, &since, footer->seq, EXPORT_MAX, text, &err) < 0)
        fail(err.message);
    size_t n = checkpoint_format(footer, line);
    line[n++] = '\n';
    strbuf_append(text, line, n);
}

int main(void)
{
    struct audit_log log = {0};
    struct checkpoint footer;
    struct error err = {0};
    struct audit_verifier v;
    struct strbuf text = STRBUF_INIT(EXPORT_MAX);
    char path[128];
    make(&log, &footer);
    snprintf(path, sizeof(path), "%s/state.db", log.dir);
    struct sqlite3 *db = audit_table_open(path, &err);
    export_all(&log, db, &footer, &text);

    audit_verifier_init(&v, log.signer.public_key);
    double begin = now_s();
    if (!audit_verify_text(&v, text.data, text.len) || !audit_verify_export_end(&v))
        fail(v.reason);
    printf("export\t%.0f\n", (double)v.n_records / (now_s() - begin));
    audit_verifier_done(&v);

    audit_verifier_init(&v, log.signer.public_key);
    begin = now_s();
    if (audit_verify_database(&v, db, &err) < 0 || !audit_verify_end(&v))
        fail(v.reason);
    printf("database\t%.0f\n", (double)v.n_records / (now_s() - begin));
    audit_verifier_done(&v);
    audit_table_close(db);
    strbuf_done(&text);
    audit_log_close(&log);
    audit_log_remove(&log);
    return 0;
}
