/* SPDX-License-Identifier: Apache-2.0 */
/* src/sandbox/journal*.c: numbers, characters, limits, files, and what is left of them after a
 * process died at any byte. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "sandbox/journal.h"
#include "tests/unit/tap.h"

#define RECORD_SIZE 32 /* of NAME.idx */

static struct journal_options options;

static void set_options(size_t memory, uint64_t limit)
{
    options = (struct journal_options){
        .dir_fd = options.dir_fd,
        .room = {.dir_fd = options.dir_fd, .promised_fd = -1, .claims_fd = -1},
        .memory_bytes = memory,
        .config = {.limit_bytes = limit, .min_events = 2, .total_limit = 1 << 30}};
}

/* Everything a reader sees as text: "S", "1:bytes", "2:bytes", "C<dropped>", "B", "X", spaced. */
static char *seen(struct journal *j, struct journal_reader *r, size_t span)
{
    struct strbuf out = STRBUF_INIT(1 << 20), scratch = STRBUF_INIT(1 << 20);
    struct journal_event ev;
    int n;
    while ((n = journal_read_span(j, r, span, &ev, &scratch)) > 0) {
        strbuf_puts(&out, out.len ? " " : "");
        if (ev.type == JOURNAL_OUTPUT) {
            strbuf_printf(&out, "%d@%d:", ev.stream, (int)ev.offset);
            strbuf_append(&out, ev.data, ev.len);
        } else if (ev.type == JOURNAL_CUT) {
            strbuf_printf(&out, "C%d", (int)ev.dropped_bytes);
        } else {
            strbuf_puts(&out, ev.type == JOURNAL_START ? "S" : ev.type == JOURNAL_EXIT ? "X" : "B");
        }
    }
    strbuf_done(&scratch);
    return strbuf_steal(&out);
}

static bool sees(struct journal *j, struct journal_reader r, size_t span, const char *want)
{
    char *got = seen(j, &r, span);
    bool same = strcmp(got, want) == 0;
    if (!same)
        printf("# got  %s\n# want %s\n", got, want);
    free(got);
    return same;
}

static void put(struct journal *j, uint8_t stream, const char *text)
{
    journal_append(j, stream, text, strlen(text));
}

static struct journal *small(const char *name)
{
    struct journal *j = journal_new(&options, name, NULL, false);
    journal_start(j);
    put(j, 1, "one");
    put(j, 1, "two");
    put(j, 2, "err");
    put(j, 1, "three");
    journal_end(j);
    return j;
}

static bool file_exists(const char *name)
{
    return faccessat(options.dir_fd, name, F_OK, 0) == 0;
}

/* --- reading */

static void test_reading(void)
{
    set_options(1 << 16, 1 << 20);
    struct journal *j = small(NULL);
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:one 1@3:two 2@0:err 1@6:three X"),
       "events come in order, with offsets");
    ok(sees(j, (struct journal_reader){.next_seq = 4}, 0, "2@0:err 1@6:three X"),
       "a reader starts at a number");
    ok(sees(j, (struct journal_reader){0}, 100, "S 1@0:onetwo 2@0:err 1@6:three X"),
       "events of one stream that follow each other come as one");
    ok(sees(j, (struct journal_reader){0}, 5, "S 1@0:one 1@3:two 2@0:err 1@6:three X"),
       "but not over the maximum");
    ok(sees(j, (struct journal_reader){.from = {4, 0}}, 0, "1@4:wo 2@0:err 1@6:three X"),
       "by offset, the first event is trimmed and start left out");
    ok(sees(j, (struct journal_reader){.from = {4, 0}}, 100, "1@4:wo 2@0:err 1@6:three X"),
       "also where events are joined");
    ok(sees(j, (struct journal_reader){.from = {1, 3}}, 100, "1@1:netwo 1@6:three X"),
       "each stream has its own offset");
    ok(sees(j, (struct journal_reader){.from = {11, 3}}, 0, "X"), "at the end only exit is left");
    ok(journal_last_seq(j) == 6, "six events");
    journal_free(j);
    ok(options.total_bytes == 0, "a freed journal counts no bytes");
}

static void test_utf8(void)
{
    set_options(1 << 16, 1 << 20);
    struct journal *j = journal_new(&options, NULL, NULL, false);
    journal_start(j);
    put(j, 1, "a\xe2\x82");
    put(j, 2, "\xf0\x9f");
    put(j, 1,
        "\xac"
        "b\xc3");
    put(j, 2, "\x98\x80");
    put(j, 1, "x\xc3");
    journal_end(j);
    ok(sees(j, (struct journal_reader){0}, 0,
            "S 1@0:a 1@1:\xe2\x82\xac 1@4:b 2@0:\xf0\x9f\x98\x80 1@5:\xc3 1@6:x 1@7:\xc3 X"),
       "a character is never split, and what is none is kept as it came");
    ok(journal_stream_end(j, 1) == 8, "no byte is lost");
    journal_free(j);

    static char big[200000];
    for (size_t i = 0; i + 3 <= sizeof(big); i += 3)
        memcpy(big + i, "\xe2\x82\xac", 3);
    j = journal_new(&options, NULL, NULL, false);
    journal_append(j, 1, big, 199998);
    struct journal_reader r = {0};
    struct journal_event ev;
    struct strbuf scratch = STRBUF_INIT(1 << 20);
    size_t total = 0;
    bool whole = true;
    while (journal_read(j, &r, &ev, &scratch) > 0) {
        whole &= ev.len % 3 == 0 && ev.len <= JOURNAL_EVENT_MAX && ev.offset == total &&
                 memcmp(ev.data, big, ev.len) == 0;
        total += ev.len;
    }
    ok(whole && total == 199998, "long output is several events, cut between characters");
    strbuf_done(&scratch);
    journal_free(j);
}

/* --- files */

static void test_files(void)
{
    set_options(8, 1 << 20);
    struct journal *j = journal_new(&options, "moves", NULL, false);
    journal_start(j);
    put(j, 1, "12345");
    ok(!file_exists("moves.dat") && journal_durable_end(j, 1) == 0,
       "a small journal is in memory and survives nothing");
    put(j, 1, "6789");
    ok(file_exists("moves.dat") && file_exists("moves.idx") && journal_durable_end(j, 1) == 9,
       "a larger one is in files");
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:12345 1@5:6789"), "and reads the same");
    journal_free(j);
    ok(!file_exists("moves.dat") && !file_exists("moves.idx"), "which go with it");

    set_options(1 << 16, 1 << 20);
    j = journal_new(&options, "watched", NULL, false);
    journal_start(j);
    struct journal_reader r = {0};
    journal_subscribe(j, &r);
    ok(file_exists("watched.idx"), "a journal that somebody watches is in files");
    journal_unsubscribe(&r);
    journal_free(j);
}

static void test_snapshot(void)
{
    struct strbuf snapshot = STRBUF_INIT(1 << 16);
    set_options(1 << 16, 1 << 20);
    struct journal *j = small("snap");
    ok(journal_snapshot(j, &snapshot) == 0 && snapshot.len > 0, "a snapshot of one in memory");
    struct journal *k = journal_restore(&options, "snap", NULL, false, snapshot.data, snapshot.len);
    ok(sees(k, (struct journal_reader){0}, 0, "S 1@0:one 1@3:two 2@0:err 1@6:three X") &&
           journal_ended(k),
       "is the journal again");
    journal_free(k);
    for (size_t n = 0; n < snapshot.len; n++) {
        k = journal_restore(&options, "snap", NULL, false, snapshot.data, n);
        if (journal_last_seq(k) != 0)
            ok(false, "a snapshot cut at %zu is refused", n);
        journal_free(k);
    }
    ok(true, "a snapshot that is cut anywhere is refused");
    strbuf_done(&snapshot);
    journal_free(j);
}

static char *slurp(const char *name, size_t *ret_len)
{
    struct stat st;
    int fd = openat(options.dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        abort();
    char *data = malloc((size_t)st.st_size + 1);
    if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
        abort();
    close(fd);
    *ret_len = (size_t)st.st_size;
    return data;
}

static void spill(const char *name, const char *data, size_t len)
{
    int fd = openat(options.dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    close(fd);
}

/* What a reader of a whole journal sees must start with what a reader of a torn one sees, and a
 * torn one must go on where it stops. */
static bool torn_is_prefix(const char *whole)
{
    struct journal *k = journal_restore(&options, "torn", NULL, false, NULL, 0);
    struct journal_reader r = {0};
    char *got = seen(k, &r, 0);
    bool good = strncmp(whole, got, strlen(got)) == 0;
    uint64_t end = journal_stream_end(k, 1);
    if (!journal_ended(k)) {
        put(k, 1, "more");
        char want[32], *after = seen(k, &r, 0);
        snprintf(want, sizeof(want), "1@%d:more", (int)end);
        good &= strcmp(after, want) == 0;
        free(after);
        /* And once more: what was appended to a torn journal is found again. */
        size_t n_data, n_index;
        if (file_exists("torn.idx")) {
            char *data = slurp("torn.dat", &n_data), *index = slurp("torn.idx", &n_index);
            uint64_t last = journal_last_seq(k);
            journal_free(k);
            spill("torn.dat", data, n_data);
            spill("torn.idx", index, n_index);
            k = journal_restore(&options, "torn", NULL, false, NULL, 0);
            good &= journal_last_seq(k) == last && journal_stream_end(k, 1) == end + 4;
            free(data);
            free(index);
        }
    }
    if (!good)
        printf("# got  %s\n# of   %s\n", got, whole);
    free(got);
    journal_free(k);
    return good;
}

static void test_torn(void)
{
    set_options(0, 1 << 20);
    struct journal *j = small("torn");
    struct journal_reader r = {0};
    char *whole = seen(j, &r, 0);
    size_t n_data, n_index;
    char *data = slurp("torn.dat", &n_data), *index = slurp("torn.idx", &n_index);
    journal_free(j);
    ok(n_data == 14 && n_index == 6 * RECORD_SIZE, "a journal of 14 bytes and 6 records");
    bool good = true;
    for (size_t d = 0; d <= n_data; d++)
        for (size_t i = 0; i <= n_index; i++) {
            spill("torn.dat", data, d);
            spill("torn.idx", index, i);
            good &= torn_is_prefix(whole);
        }
    ok(good, "cut at any byte of either file, a prefix is left that can go on");
    for (size_t i = 0; i < n_index; i++) {
        char saved = index[i];
        index[i] = (char)0xff;
        spill("torn.dat", data, n_data);
        spill("torn.idx", index, n_index);
        journal_free(journal_restore(&options, "torn", NULL, false, NULL, 0));
        index[i] = saved;
    }
    ok(options.total_bytes == 0, "a wrong byte anywhere is survived");
    free(data);
    free(index);
    free(whole);
}

/* --- limits */

static void test_truncate(void)
{
    set_options(1 << 16, 20);
    struct journal *j = journal_new(&options, "cut", NULL, false);
    journal_start(j);
    for (int i = 0; i < 10; i++)
        put(j, 1, "12345");
    journal_end(j);
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:12345 1@5:12345 C30 1@40:12345 1@45:12345 X"),
       "head and tail stay, with a cut between them");
    ok(sees(j, (struct journal_reader){.from = {7, 0}}, 100, "1@7:345 C30 1@40:1234512345 X"),
       "by offset, before the gap");
    ok(sees(j, (struct journal_reader){.from = {41, 0}}, 0, "1@41:2345 1@45:12345 X"),
       "by offset, after the gap: nothing is said to be missing");
    size_t n_data, n_index;
    char *data = slurp("cut.dat", &n_data), *index = slurp("cut.idx", &n_index);
    journal_free(j);
    spill("cut.dat", data, n_data);
    spill("cut.idx", index, n_index);
    j = journal_restore(&options, "cut", NULL, false, NULL, 0);
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:12345 1@5:12345 C30 1@40:12345 1@45:12345 X"),
       "the same after a restart");
    journal_free(j);
    free(data);
    free(index);
}

/* Holes are in the file: with a higher limit they must not come back as zeros. */
static void test_holes(void)
{
    static char piece[64 * 1024];
    memset(piece, 'x', sizeof(piece));
    set_options(1 << 16, 1 << 20);
    struct journal *j = journal_new(&options, "holes", NULL, false);
    journal_start(j);
    for (int i = 0; i < 80; i++)
        journal_append(j, 1, piece, sizeof(piece));
    size_t n_data, n_index;
    uint64_t last = journal_last_seq(j);
    char *data = slurp("holes.dat", &n_data), *index = slurp("holes.idx", &n_index);
    journal_free(j);
    spill("holes.dat", data, n_data);
    spill("holes.idx", index, n_index);
    set_options(1 << 16, 1 << 30);
    j = journal_restore(&options, "holes", NULL, false, NULL, 0);
    struct strbuf scratch = STRBUF_INIT(1 << 20);
    struct journal_reader r = {0};
    struct journal_event ev;
    bool clean = true, cut = false;
    while (journal_read(j, &r, &ev, &scratch) > 0) {
        cut |= ev.type == JOURNAL_CUT;
        clean &= !ev.len || (ev.data[0] == 'x' && ev.data[ev.len - 1] == 'x');
    }
    ok(memchr(data, 0, n_data) != NULL, "what was dropped is punched out of the file");
    ok(clean && cut && journal_last_seq(j) == last && journal_stream_end(j, 1) == 80 * 65536,
       "with a higher limit after a restart, it is still said to be missing");
    strbuf_done(&scratch);
    journal_free(j);
    free(data);
    free(index);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* A process died here: the files are what they were, and are read by the next, with what a row has
 * of it. */
static struct journal *successor_with(struct journal *j, const char *name, const struct strbuf *row)
{
    char dat[64], idx[64];
    size_t n_data, n_index;
    snprintf(dat, sizeof(dat), "%s.dat", name);
    snprintf(idx, sizeof(idx), "%s.idx", name);
    bool files = faccessat(options.dir_fd, idx, F_OK, 0) == 0;
    char *data = files ? slurp(dat, &n_data) : NULL, *index = files ? slurp(idx, &n_index) : NULL;
    struct rlimit limit;
    journal_free(j);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit_files(RLIM_INFINITY);
    if (files) {
        spill(dat, data, n_data);
        spill(idx, index, n_index);
    }
    limit_files(limit.rlim_cur);
    free(data);
    free(index);
    return journal_restore(&options, name, NULL, false, row ? row->data : NULL, row ? row->len : 0);
}

static struct journal *successor(struct journal *j, const char *name)
{
    return successor_with(j, name, NULL);
}

/* Numbers, offsets and bytes of all that is kept, as one sum. */
static uint64_t fingerprint(struct journal *j)
{
    struct strbuf scratch = STRBUF_INIT(1 << 20);
    struct journal_reader r = {0};
    struct journal_event ev;
    uint64_t sum = 0;
    while (journal_read(j, &r, &ev, &scratch) > 0) {
        sum = sum * 31 + ev.seq + ev.offset * 7 + ev.dropped_bytes * 3 + ev.dropped_events;
        for (size_t i = 0; i < ev.len; i++)
            sum = sum * 33 + (unsigned char)ev.data[i];
    }
    strbuf_done(&scratch);
    return sum;
}

static void put_numbers(struct journal *j, int from, int to)
{
    char line[64];
    for (int i = from; i < to; i++) {
        snprintf(line, sizeof(line), "%d", i);
        put(j, (uint8_t)(1 + i % 7 / 6), line);
    }
}

/* Endless output must not make an endless index. */
static void test_compact(void)
{
    struct stat st;
    set_options(1 << 12, 1 << 18);
    struct journal *j = journal_new(&options, "long", NULL, false);
    journal_start(j);
    put_numbers(j, 0, 200000);
    int found = fstatat(options.dir_fd, "long.idx", &st, 0);
    ok(found == 0 && st.st_size < 40000 * RECORD_SIZE,
       "200,000 events leave an index of %lld bytes", (long long)st.st_size);
    uint64_t last = journal_last_seq(j), end = journal_stream_end(j, 1), sum = fingerprint(j);
    j = successor(j, "long");
    ok(journal_last_seq(j) == last && journal_stream_end(j, 1) == end && fingerprint(j) == sum,
       "which says all that it said before");
    put_numbers(j, 200000, 260000);
    sum = fingerprint(j);
    last = journal_last_seq(j);
    j = successor(j, "long");
    ok(last == 260001 && journal_last_seq(j) == last && fingerprint(j) == sum,
       "it goes on, and is read back again");
    options.config.limit_bytes = 1 << 16;
    j = successor(j, "long");
    ok(journal_last_seq(j) == last, "numbers stay under a smaller limit");
    journal_free(j);
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* What has ended keeps no descriptor and can still be read. */
static void test_parked(void)
{
    set_options(8, 1 << 20);
    int before = count_descriptors();
    struct journal *j = journal_new(&options, "ended", NULL, false);
    journal_start(j);
    put(j, 1, "onetwo");
    put(j, 2, "err");
    put(j, 1, "three");
    ok(count_descriptors() == before + 2, "a journal in files has two descriptors");
    uint64_t sum = fingerprint(j);
    journal_end(j);
    ok(count_descriptors() == before, "one that has ended has none");
    struct journal_reader r = {0};
    journal_subscribe(j, &r);
    ok(fingerprint(j) != 0 && count_descriptors() == before, "also while somebody reads it");
    journal_unsubscribe(&r);
    j = successor(j, "ended");
    ok(journal_ended(j) && fingerprint(j) != sum && journal_stream_end(j, 1) == 11,
       "and is found again");
    journal_park(j);
    ok(count_descriptors() == before &&
           sees(j, (struct journal_reader){.next_seq = 4}, 0, "1@6:three X"),
       "and read");
    journal_free(j);
}

static void on_disk_room(void *data)
{
    ++*(int *)data;
}

/* The limit on the size of files stands for a full disk. */
static void test_stall(void)
{
    static char piece[10000];
    int rooms = 0;
    struct strbuf out = STRBUF_INIT(1 << 20);
    uint64_t omitted;
    size_t gap;
    signal(SIGXFSZ, SIG_IGN);
    set_options(1 << 12, 1 << 20);
    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (char)('a' + i % 26);
    struct journal *j = journal_new(&options, "full", NULL, false);
    journal_on_room(j, on_disk_room, &rooms);
    journal_start(j);
    journal_append(j, 1, piece, sizeof(piece));
    limit_files(12000);
    journal_append(j, 1, piece, sizeof(piece));
    put(j, 2, "err");
    ok(journal_stalled(j) && journal_blocked(j) && journal_durable_end(j, 1) == sizeof(piece) &&
           journal_durable_end(j, 2) == 0,
       "a full disk: what is not written is not acknowledged");
    journal_retry_all(&options);
    ok(journal_stalled(j) && rooms == 0, "it waits");
    limit_files(RLIM_INFINITY);
    journal_retry_all(&options);
    ok(!journal_stalled(j) && rooms == 1 && journal_durable_end(j, 1) == 2 * sizeof(piece) &&
           journal_durable_end(j, 2) == 3,
       "and goes on when there is room");
    uint64_t sum = fingerprint(j);
    j = successor(j, "full");
    journal_collect(j, 1, 1 << 20, &out, &omitted, &gap);
    ok(fingerprint(j) == sum && out.len == 2 * sizeof(piece) && omitted == 0 &&
           !memcmp(out.data, piece, sizeof(piece)) &&
           !memcmp(out.data + sizeof(piece), piece, sizeof(piece)),
       "no byte is missing, also for a successor");
    limit_files(20100);
    journal_append(j, 1, piece, 5000);
    journal_end(j);
    limit_files(RLIM_INFINITY);
    struct journal_reader r = {.next_seq = journal_last_seq(j) - 1};
    ok(sees(j, r, 0, "C5000 X"),
       "the end of a command that could not be written is said to be cut");
    sum = fingerprint(j);
    j = successor(j, "full");
    ok(journal_ended(j) && fingerprint(j) == sum, "and is for a successor");
    strbuf_done(&out);
    journal_free(j);
    ok(options.total_bytes == 0 && options.total_events == 0, "nothing is counted twice");
}

/* Not even the few bytes that say so fit. */
static void test_cut_end(void)
{
    static char piece[10000];
    struct strbuf row = STRBUF_INIT(1 << 20), again = STRBUF_INIT(1 << 20);
    memset(piece, 'x', sizeof(piece));
    set_options(1 << 12, 1 << 20);
    struct journal *j = journal_new(&options, "owed", NULL, false);
    journal_start(j);
    journal_append(j, 1, piece, sizeof(piece));
    limit_files(2 * RECORD_SIZE);
    journal_append(j, 1, piece, sizeof(piece));
    put(j, 2, "err");
    journal_release(j);
    journal_append(j, 1, piece, 7);
    journal_end(j);
    uint64_t sum = fingerprint(j);
    bool one_gap = sees(j, (struct journal_reader){.next_seq = 3}, 0, "C10010 X");
    bool owes = journal_snapshot(j, &row) == 0 && row.len > 0 && row.len < 1000;
    j = successor_with(j, "owed", &row);
    bool same = journal_ended(j) && fingerprint(j) == sum && journal_stream_end(j, 1) == 20007 &&
                journal_stream_end(j, 2) == 3;
    bool still_owes = journal_snapshot(j, &again) == 0 && again.len == row.len;
    limit_files(RLIM_INFINITY); /* on standard output too */
    ok(one_gap, "all of it is one gap");
    ok(owes, "a row has what is owed");
    ok(same, "a successor says the same");
    ok(still_owes, "and owes the same");
    j = successor_with(j, "owed", &row);
    strbuf_reset(&again);
    ok(fingerprint(j) == sum && journal_snapshot(j, &again) == 0 && again.len == 0,
       "with room, the files get it");
    j = successor_with(j, "owed", &row);
    ok(fingerprint(j) == sum, "once, whatever the row still says");
    j = successor(j, "owed");
    ok(journal_ended(j) && fingerprint(j) == sum, "and the row is not needed");
    journal_free(j);
    strbuf_done(&row);
    strbuf_done(&again);
}

static void test_cut_in_memory(void)
{
    static char piece[10000];
    struct strbuf row = STRBUF_INIT(1 << 20);
    memset(piece, 'x', sizeof(piece));
    set_options(1 << 12, 1 << 20);
    struct journal *j = journal_new(&options, "memory", NULL, false);
    journal_start(j);
    journal_append(j, 1, piece, 3000);
    limit_files(0);
    journal_append(j, 1, piece, sizeof(piece));
    journal_release(j);
    put(j, 2, "fits");
    journal_append(j, 1, piece, sizeof(piece));
    journal_end(j);
    uint64_t sum = fingerprint(j);
    int taken = journal_snapshot(j, &row);
    j = successor_with(j, "memory", &row);
    bool same = journal_ended(j) && fingerprint(j) == sum && journal_stream_end(j, 1) == 23000;
    limit_files(RLIM_INFINITY);
    ok(taken == 0 && same, "without files, a row has the gap, and a successor says the same");
    struct journal_reader reader = {0};
    journal_subscribe(j, &reader);
    journal_unsubscribe(&reader);
    j = successor(j, "memory");
    ok(journal_ended(j) && fingerprint(j) == sum, "and so do files, once there is room");
    journal_free(j);
    strbuf_done(&row);
}

/* Output that only its writer knows to be gone. */
static void test_lose(void)
{
    set_options(1 << 12, 1 << 20);
    struct journal *j = journal_new(&options, "lost", NULL, false);
    struct journal_reader reader = {0};
    journal_start(j);
    put(j, 1, "abc");
    journal_subscribe(j, &reader);
    journal_unsubscribe(&reader);
    journal_lose(j, 1, 100);
    journal_lose(j, 2, 10);
    put(j, 1, "def");
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:abc C110 1@103:def"), "a gap, and it goes on");
    uint64_t sum = fingerprint(j);
    j = successor(j, "lost");
    ok(fingerprint(j) == sum && journal_stream_end(j, 1) == 106 && journal_stream_end(j, 2) == 10,
       "also for a successor");
    size_t n_index;
    char *index = slurp("lost.idx", &n_index);
    journal_free(j);
    spill("lost.idx", index, 3 * RECORD_SIZE);
    spill("lost.dat", "abc", 3);
    free(index);
    j = journal_restore(&options, "lost", NULL, false, NULL, 0);
    ok(sees(j, (struct journal_reader){0}, 0, "S 1@0:abc") && journal_stream_end(j, 1) == 3,
       "half a gap on disk is none");
    journal_free(j);
}

static void test_group(void)
{
    set_options(1 << 16, 1 << 20);
    struct journal_group group = {.limit = 30};
    struct journal *a = journal_new(&options, NULL, &group, false);
    struct journal *b = journal_new(&options, NULL, &group, false);
    for (int i = 0; i < 4; i++)
        put(a, 1, "12345");
    for (int i = 0; i < 8; i++)
        put(b, 1, "12345");
    ok(sees(a, (struct journal_reader){0}, 100, "1@0:12345123451234512345"), "one has its bytes");
    ok(sees(b, (struct journal_reader){0}, 100, "1@0:1234512345 C20 1@30:1234512345"),
       "the other meets the limit on both");
    ok(group.bytes == 40 && options.total_bytes == 40, "and is left what is always kept");
    journal_free(a);
    journal_free(b);
    ok(group.bytes == 0 && options.total_bytes == 0, "nothing is counted twice");
}

/* What a command prints byte by byte takes more memory than its bytes. */
static void test_many_events(void)
{
    set_options(1 << 16, 1 << 20);
    struct journal *j = journal_new(&options, NULL, NULL, false);
    for (int i = 0; i < 100000; i++)
        put(j, 1, "x");
    ok(journal_last_seq(j) == 100000, "all have numbers");
    ok(options.total_events <= (1 << 20) / 32, "not all are kept: %llu",
       (unsigned long long)options.total_events);
    journal_free(j);
    ok(options.total_events == 0 && options.total_bytes == 0, "none is counted twice");
}

static void on_room(void *data)
{
    ++*(int *)data;
}

static void test_block(void)
{
    set_options(1 << 16, 1 << 20);
    struct journal_group group = {.limit = 10};
    int rooms = 0;
    struct journal *a = journal_new(&options, NULL, &group, true);
    struct journal *b = journal_new(&options, NULL, &group, true);
    journal_on_room(b, on_room, &rooms);
    put(a, 1, "123456");
    put(b, 1, "1234");
    ok(!journal_blocked(b), "at the limit there is room");
    put(b, 1, "56");
    ok(journal_blocked(b) && !journal_blocked(a), "over it a journal is blocked");
    put(b, 1, "78");
    ok(sees(b, (struct journal_reader){0}, 0, "1@0:1234 1@4:56 B 1@6:78"),
       "it says so once, and still takes what was under way");
    journal_free(a);
    ok(rooms == 1 && !journal_blocked(b), "room that others give back ends it");
    put(b, 1, "9abcd");
    ok(journal_blocked(b), "until it is full again");
    journal_end(b);
    ok(!journal_blocked(b), "an end is taken always");
    ok(sees(b, (struct journal_reader){.next_seq = 4}, 0, "1@6:78 1@8:9abcd X"), "and comes last");
    journal_free(b);
}

static void remove_all(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* A file system that is down to what the daemon needs takes no more output. */
static void test_room(void)
{
    static char chunk[64 * 1024];
    set_options(1024, 1 << 26);
    options.room.reserve_bytes = UINT64_MAX;
    struct journal *j = journal_new(&options, "room", NULL, false);
    journal_start(j);
    for (int i = 0; i < 64; i++)
        journal_append(j, 1, chunk, sizeof(chunk));
    ok(options.short_of_room, "it is noticed that there is too little room");
    ok(options.total_bytes < 2 << 20, "then only the newest output is kept");
    options.room.reserve_bytes = 1;
    journal_look_for_room(&options);
    ok(!options.short_of_room, "room is noticed, too");
    journal_free(j);
}

int main(void)
{
    char path[] = "/tmp/test-journal.XXXXXX";
    if (!mkdtemp(path))
        return 1;
    options.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    test_reading();
    test_utf8();
    test_files();
    test_snapshot();
    test_torn();
    test_truncate();
    test_holes();
    test_compact();
    test_parked();
    test_stall();
    test_cut_end();
    test_cut_in_memory();
    test_lose();
    test_group();
    test_many_events();
    test_block();
    test_room();
    close(options.dir_fd);
    remove_all(path);
    return tap_done();
}
