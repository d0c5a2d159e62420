/* SPDX-License-Identifier: Apache-2.0 */
/* An export of 10,000 records with its signed footer: every single-bit flip, every removal of a
 * line and every swap of two is found.
 *
 * A changed file is verified from the changed line on: what comes before is untouched, so the
 * verifier is in the state it had there, which is kept for every line. It goes on to the end of the
 * file unless it finds something before.
 *
 *   test-audit-flips        one bit of every byte, and every bit of every 40th line; swaps with the
 *                           lines around and every 97th
 *   test-audit-flips full   every bit of every byte, every pair of lines; by as many processes as
 *                           there are processors */
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "audit/chain.h"
#include "audit/export.h"
#include "tests/unit/audit-log.h"
#include "tests/unit/tap.h"

#define RECORDS     10000
#define EXPORT_MAX  (64 * 1024 * 1024)
#define WHOLE_EVERY 40
#define SWAP_NEAR   3
#define SWAP_STEP   97

static struct strbuf text = STRBUF_INIT(EXPORT_MAX);
static size_t n_lines;
static size_t *start;                 /* of each line, and one more: the end */
static struct audit_verifier *before; /* the state at each line */

struct counts {
    uint64_t tried, missed;
};

/* --- making it */

static void make_export(void)
{
    struct audit_log log = {.config = {.checkpoint_records = 1000}};
    struct error err = {0};
    struct checkpoint footer;
    uint64_t since = 0;
    char path[128], line[CHECKPOINT_TEXT_SIZE + 1];
    if (audit_log_open(&log, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    for (size_t i = 0; i < 10; i++) {
        audit_log_fill(&log, RECORDS / 10);
        audit_log_checkpoint(&log, i < 9 ? CHECKPOINT_PERIODIC : CHECKPOINT_EXPORT, &footer);
    }
    snprintf(path, sizeof(path), "%s/state.db", log.dir);
    struct sqlite3 *db = audit_table_open(path, &err);
    audit_export_begin(db, 0, footer.seq, log.signer.public_key, &text, &since, &err);
    audit_export_page(db, &since, footer.seq, EXPORT_MAX, &text, &err);
    size_t n = checkpoint_format(&footer, line);
    line[n++] = '\n';
    strbuf_append(&text, line, n);
    audit_table_close(db);
    audit_log_close(&log);
    audit_log_remove(&log);
}

static void find_states(void)
{
    struct audit_verifier v;
    for (size_t i = 0; i < text.len; i++)
        n_lines += text.data[i] == '\n';
    start = xcalloc(n_lines + 1, sizeof(*start));
    before = xcalloc(n_lines + 1, sizeof(*before));
    audit_verifier_init(&v, NULL);
    size_t at = 0;
    for (size_t i = 0; i < n_lines; i++) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        start[i] = at;
        before[i] = v;
        audit_verify_line(&v, text.data + at, (size_t)(end - text.data) - at);
        at = (size_t)(end - text.data) + 1;
    }
    start[n_lines] = at;
    before[n_lines] = v;
    bool good = audit_verify_export_end(&v);
    ok(good && v.n_records == RECORDS, "an export of %d records in %zu lines verifies: %s", RECORDS,
       n_lines, v.reason);
}

/* --- trying */

/* Whether what follows from line i on is taken for genuine; key is what i's state had. */
static bool passes(size_t i, const char *rest, size_t len, const char *more, size_t more_len)
{
    struct audit_verifier v = before[i];
    bool good = audit_verify_text(&v, rest, len) && audit_verify_text(&v, more, more_len) &&
                audit_verify_export_end(&v);
    if (v.key != before[i].key)
        audit_key_free(v.key);
    return good;
}

static void flip(size_t i, size_t at, unsigned bit, struct counts *c)
{
    text.data[at] = (char)(text.data[at] ^ (1u << bit));
    c->tried++;
    if (passes(i, text.data + start[i], text.len - start[i], NULL, 0)) {
        c->missed++;
        printf("# line %zu byte %zu bit %u\n", i + 1, at - start[i], bit);
    }
    text.data[at] = (char)(text.data[at] ^ (1u << bit));
}

static void flip_line(size_t i, bool whole, struct counts *c)
{
    for (size_t at = start[i]; at < start[i + 1]; at++) {
        if (!whole) {
            flip(i, at, (unsigned)(at % 8), c);
            continue;
        }
        for (unsigned bit = 0; bit < 8; bit++)
            flip(i, at, bit, c);
    }
}

static void remove_line(size_t i, struct counts *c)
{
    c->tried++;
    c->missed += passes(i, text.data + start[i + 1], text.len - start[i + 1], NULL, 0);
}

/* What is seen first of a swap of i and j is line j where i should be. */
static void swap_lines(size_t i, size_t j, struct counts *c)
{
    size_t len = start[j + 1] - start[j];
    if (start[i + 1] - start[i] == len &&
        memcmp(text.data + start[i], text.data + start[j], len) == 0)
        return;
    c->tried++;
    c->missed +=
        passes(i, text.data + start[j], len, text.data + start[i + 1], text.len - start[i + 1]);
}

static void swap_all(size_t i, bool full, struct counts *c)
{
    for (size_t j = i + 1; j < n_lines; j++)
        if (full || j - i <= SWAP_NEAR || (j - i) % SWAP_STEP == 0)
            swap_lines(i, j, c);
}

/* --- sharing the work */

struct totals {
    struct counts flips, removals, swaps;
};

static void work(size_t first, size_t step, bool full, struct totals *t)
{
    for (size_t i = first; i < n_lines; i += step) {
        bool special = i == 0 || text.data[start[i] + 2] == 'c'; /* header, checkpoints */
        flip_line(i, full || special || i % WHOLE_EVERY == 0, &t->flips);
        remove_line(i, &t->removals);
        swap_all(i, full, &t->swaps);
    }
}

static void share(size_t n, bool full, struct totals *totals)
{
    for (size_t p = 0; p < n; p++) {
        fflush(stdout);
        if (fork() == 0) {
            work(p, n, full, &totals[p]);
            fflush(stdout);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
}

static void report(const char *what, uint64_t tried, uint64_t missed)
{
    ok(tried > 0 && missed == 0, "%s: %llu tried, %llu not found", what, (unsigned long long)tried,
       (unsigned long long)missed);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    size_t n = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    struct timespec a, b;
    struct totals *t =
        mmap(NULL, n * sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct totals all = {0};
    make_export();
    find_states();
    clock_gettime(CLOCK_MONOTONIC, &a);
    share(n, full, t);
    clock_gettime(CLOCK_MONOTONIC, &b);
    for (size_t p = 0; p < n; p++) {
        all.flips.tried += t[p].flips.tried;
        all.flips.missed += t[p].flips.missed;
        all.removals.tried += t[p].removals.tried;
        all.removals.missed += t[p].removals.missed;
        all.swaps.tried += t[p].swaps.tried;
        all.swaps.missed += t[p].swaps.missed;
    }
    report("single-bit flips", all.flips.tried, all.flips.missed);
    report("removed lines", all.removals.tried, all.removals.missed);
    report("swapped lines", all.swaps.tried, all.swaps.missed);
    printf("# %zu bytes, %.1f s\n", text.len,
           (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    return tap_done();
}
