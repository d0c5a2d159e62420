/* SPDX-License-Identifier: Apache-2.0 */
/* Journals on disk: NAME.dat holds the bytes, NAME.idx one struct record per event, in order.
 * The index is NAME.new until all that was in memory is in both. A record is written after its
 * bytes, so a record that is whole and whose bytes are there is an event; what comes after the
 * last such record was never acknowledged and is cut off at recovery. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/output-stream.h"
#include "sandbox/journal-internal.h"

#define SNAPSHOT_MAGIC 0x314a534d
#define OWED_MAGIC     0x324a534d

static void file_name(const char *name, const char *suffix, char out[JOURNAL_NAME_MAX + 8])
{
    snprintf(out, JOURNAL_NAME_MAX + 8, "%s.%s", name, suffix);
}

static int create_file(const struct journal *j, const char *suffix)
{
    char name[JOURNAL_NAME_MAX + 8];
    file_name(j->name, suffix, name);
    int fd = openat(j->options->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static int create_unnamed(const struct journal *j)
{
    int fd = openat(j->options->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static int write_records(int fd, const struct records *r)
{
    return r->count ? fd_write_all(fd, &r->items[r->start], r->count * sizeof(*r->items)) : 0;
}

void journal_gap_records(struct record gap[2], uint64_t events, uint64_t bytes,
                         const uint64_t end[OUTPUT_STREAMS])
{
    gap[0] =
        (struct record){.type = RECORD_GAP, .stream = GAP_SIZE, .pos = events, .offset = bytes};
    gap[1] =
        (struct record){.type = RECORD_GAP, .stream = GAP_ENDS, .pos = end[0], .offset = end[1]};
}

static uint64_t count_kept(const struct journal *j)
{
    return j->head.count + j->tail.count + (j->dropped_events ? 2 : 0);
}

static int write_kept(const struct journal *j, int fd)
{
    struct record gap[2];
    journal_gap_records(gap, j->dropped_events, j->dropped_bytes, j->dropped_end);
    int r = write_records(fd, &j->head);
    if (r < 0)
        return r;
    r = j->dropped_events ? fd_write_all(fd, gap, sizeof(gap)) : 0;
    if (r < 0)
        return r;
    return write_records(fd, &j->tail);
}

/* Files count from here on; until then a snapshot or the runner has what they hold. */
static int publish_index(const struct journal *j)
{
    char from[JOURNAL_NAME_MAX + 8], to[JOURNAL_NAME_MAX + 8];
    file_name(j->name, "new", from);
    file_name(j->name, "idx", to);
    return renameat(j->options->dir_fd, from, j->options->dir_fd, to) < 0 ? -errno : 0;
}

int journal_open_files(struct journal *j)
{
    j->has_files = true;
    _cleanup_close_ int data = j->name ? create_file(j, "dat") : create_unnamed(j);
    _cleanup_close_ int index = j->name && data >= 0 ? create_file(j, "new") : -1;
    if (data < 0 || (j->name && index < 0))
        return data < 0 ? data : index;
    fault_point("journal.files-made");
    /* Bytes, then records, then the name: a kill in between leaves files that recovery does not
     * look at (NAME.new), and the row's snapshot or the runner still has everything. */
    int r = fd_write_all(data, j->memory.data, j->memory.len);
    fault_point("journal.bytes-moved");
    if (r >= 0 && index >= 0)
        r = write_kept(j, index);
    if (r >= 0 && index >= 0)
        r = publish_index(j);
    if (r < 0) {
        journal_remove_files(j);
        return r;
    }
    j->fd = fd_steal(&data);
    j->index_fd = fd_steal(&index);
    j->n_indexed = count_kept(j);
    strbuf_done(&j->memory);
    fault_point("journal.moved");
    return 0;
}

/* What has ended is kept for a long time and seldom read: thousands of them must not hold thousands
 * of descriptors. A file without a name can be opened only once. */
void journal_park(struct journal *j)
{
    if (!j->name || j->fd < 0 || !j->ended)
        return;
    j->parked = true;
    fd_close(&j->fd);
    fd_close(&j->index_fd);
}

int journal_open_parked(const struct journal *j)
{
    char name[JOURNAL_NAME_MAX + 8];
    file_name(j->name, "dat", name);
    int fd = openat(j->options->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

void journal_compact(struct journal *j)
{
    j->compact_due = false;
    if (j->index_fd < 0 || !j->dropped_events)
        return;
    _cleanup_close_ int index = create_file(j, "new");
    int r = index < 0 ? index : write_kept(j, index);
    fault_point("journal.compacted");
    if (r >= 0)
        r = publish_index(j);
    if (r < 0) {
        log_warn("journal %s: its index cannot be written anew: %s", j->name, strerror(-r));
        return;
    }
    /* The old index is closed only now. Where the new one could not be written, the journal goes on
     * with the old one, which is longer and just as true. */
    fd_close(&j->index_fd);
    j->index_fd = fd_steal(&index);
    j->n_indexed = count_kept(j);
    j->n_owed = 0;
}

void journal_remove_files(struct journal *j)
{
    char name[JOURNAL_NAME_MAX + 8];
    if (!j->name)
        return;
    /* The index first: without it the bytes are no journal, so that a kill in between leaves
     * nothing that could be read back in part. */
    file_name(j->name, "idx", name);
    unlinkat(j->options->dir_fd, name, 0);
    file_name(j->name, "dat", name);
    unlinkat(j->options->dir_fd, name, 0);
    file_name(j->name, "new", name);
    unlinkat(j->options->dir_fd, name, 0);
}

/* --- snapshots: of journals in memory, and of what the disk refused of one with files */

struct snapshot_header {
    uint32_t magic;
    uint32_t n_records;
    uint64_t n_bytes; /* with OWED_MAGIC: after how many records of the index they belong */
};

static int append_records(struct strbuf *out, const struct record *items, size_t n)
{
    return n ? strbuf_append(out, items, n * sizeof(*items)) : 0;
}

static int snapshot_owed(const struct journal *j, struct strbuf *out)
{
    struct snapshot_header h = {OWED_MAGIC, (uint32_t)j->n_owed, j->n_indexed};
    int r = j->n_owed ? strbuf_append(out, &h, sizeof(h)) : 0;
    return r < 0 ? r : append_records(out, j->owed, j->n_owed);
}

int journal_snapshot(const struct journal *j, struct strbuf *out)
{
    struct snapshot_header h = {SNAPSHOT_MAGIC, (uint32_t)count_kept(j), j->memory.len};
    struct record gap[2];
    if (j->fd >= 0 || j->parked)
        return snapshot_owed(j, out);
    journal_gap_records(gap, j->dropped_events, j->dropped_bytes, j->dropped_end);
    int r = strbuf_append(out, &h, sizeof(h));
    if (r < 0)
        return r;
    if (j->head.count) {
        r = append_records(out, &j->head.items[j->head.start], j->head.count);
        if (r < 0)
            return r;
    }
    r = append_records(out, gap, j->dropped_events ? 2 : 0);
    if (r < 0)
        return r;
    if (j->tail.count) {
        r = append_records(out, &j->tail.items[j->tail.start], j->tail.count);
        if (r < 0)
            return r;
    }
    return strbuf_append(out, j->memory.data, j->memory.len);
}

/* --- recovery */

static bool type_is_known(uint8_t type)
{
    return type < _JOURNAL_TYPE_MAX || type == RECORD_GAP;
}

static bool record_is_sane(const struct journal *j, const struct record *rec, uint64_t n_bytes)
{
    if (rec->type == JOURNAL_CUT)
        return true;
    if (rec->type == RECORD_GAP)
        return rec->stream == GAP_SIZE || rec->stream == GAP_ENDS;
    if (rec->type >= _JOURNAL_TYPE_MAX || rec->pos > n_bytes || rec->len > n_bytes - rec->pos)
        return false;
    if (rec->type != JOURNAL_OUTPUT)
        return rec->len == 0;
    return output_is_stream(rec->stream) && rec->offset == j->stream_end[output_index(rec->stream)];
}

/* Where an earlier process had cut: what the marks say up to the first record that is no record. */
static void find_cut(struct journal *j, const struct record *records, size_t n)
{
    uint64_t events = 0; /* so far, those in a gap too */
    for (size_t i = 0; i < n && type_is_known(records[i].type); i++) {
        if (records[i].type == JOURNAL_CUT && records[i].offset <= events) {
            j->least_head = records[i].pos;
            j->least_first = records[i].offset;
        }
        if (records[i].type == RECORD_GAP)
            events += records[i].stream == GAP_SIZE ? records[i].pos : 0;
        else if (records[i].type != JOURNAL_CUT)
            events++;
    }
}

/* What was dropped before the index was written anew. Under smaller limits than then, the end of
 * the head may have become a tail: it is before the gap, and goes with it. */
static void replay_gap(struct journal *j, const struct record *rec)
{
    const uint64_t end[OUTPUT_STREAMS] = {rec->pos, rec->offset};
    j->cutting = true;
    while (j->tail.count)
        journal_drop_oldest(j);
    if (rec->stream == GAP_SIZE) {
        if (!j->dropped_events)
            j->punched_pos = j->end_pos;
        j->dropped_events += rec->pos;
        j->dropped_bytes += rec->offset;
        return;
    }
    for (size_t s = 0; s < OUTPUT_STREAMS; s++) {
        j->dropped_end[s] = end[s];
        if (end[s] > j->stream_end[s])
            j->stream_end[s] = end[s];
    }
}

/* The disk was full between the two. */
static bool is_half_gap(const struct record *rec, size_t n)
{
    return rec->type == RECORD_GAP && rec->stream == GAP_SIZE &&
           (n < 2 || rec[1].type != RECORD_GAP || rec[1].stream != GAP_ENDS);
}

/* Replays records until the first that does not fit; returns how many did. */
static size_t replay_records(struct journal *j, const struct record *records, size_t n,
                             uint64_t n_bytes)
{
    size_t i = 0;
    j->restoring = true;
    find_cut(j, records, n);
    for (; i < n && !j->ended && record_is_sane(j, &records[i], n_bytes); i++) {
        if (is_half_gap(records + i, n - i))
            break;
        if (records[i].type == RECORD_GAP)
            replay_gap(j, &records[i]);
        if (records[i].type == JOURNAL_CUT || records[i].type == RECORD_GAP)
            continue;
        journal_place(j, &records[i]);
        j->end_pos = records[i].pos + records[i].len;
        j->ended = records[i].type == JOURNAL_EXIT;
        j->said_blocked |= records[i].type == JOURNAL_BLOCKED;
    }
    j->least_head = j->least_first = 0;
    j->restoring = false;
    return i;
}

static int open_left(const struct journal *j, const char *suffix, uint64_t *ret_size)
{
    char name[JOURNAL_NAME_MAX + 8];
    struct stat st;
    file_name(j->name, suffix, name);
    int fd = openat(j->options->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0)
        *ret_size = (uint64_t)st.st_size;
    return fd;
}

static bool restore_files(struct journal *j)
{
    uint64_t data_size = 0, index_size = 0;
    _cleanup_close_ int data = open_left(j, "dat", &data_size);
    _cleanup_close_ int index = open_left(j, "idx", &index_size);
    if (data < 0 || index < 0)
        return false;
    size_t n = index_size / sizeof(struct record);
    struct record *records = xcalloc(n, sizeof(*records));
    bool good = pread(index, records, n * sizeof(*records), 0) == (ssize_t)(n * sizeof(*records));
    if (good) {
        j->fd = fd_steal(&data);
        /* The index is cut where the records stop making sense. The next record is written there,
         * and would otherwise be found behind garbage by the next recovery. */
        n = replay_records(j, records, n, data_size);
        off_t end = (off_t)(n * sizeof(*records));
        good = ftruncate(index, end) == 0;
        j->n_indexed = n;
        j->index_fd = fd_steal(&index);
    }
    free(records);
    if (!good)
        log_error("journal %s cannot be read back: %s", j->name, strerror(errno));
    return good;
}

static void restore_snapshot(struct journal *j, const void *snapshot, size_t len)
{
    struct snapshot_header h;
    if (len < sizeof(h))
        return;
    memcpy(&h, snapshot, sizeof(h));
    size_t index = (size_t)h.n_records * sizeof(struct record);
    /* A snapshot comes from a row of the database, which another version may have written: what
     * does not fit exactly is not used at all. */
    if (h.magic != SNAPSHOT_MAGIC || h.n_bytes > j->options->memory_bytes ||
        len != sizeof(h) + index + h.n_bytes)
        return;
    struct record *records = xcalloc(h.n_records, sizeof(*records));
    memcpy(records, (const char *)snapshot + sizeof(h), index);
    strbuf_append(&j->memory, (const char *)snapshot + sizeof(h) + index, h.n_bytes);
    replay_records(j, records, h.n_records, h.n_bytes);
    j->end_pos = j->memory.len; /* bytes of what was dropped stay where they are */
    free(records);
}

/* The index may have got them since, or a part: then it is not as long as it was. */
static void restore_owed(struct journal *j, const void *snapshot, size_t len)
{
    struct snapshot_header h;
    if (len < sizeof(h))
        return;
    memcpy(&h, snapshot, sizeof(h));
    size_t size = (size_t)h.n_records * sizeof(struct record);
    if (h.magic != OWED_MAGIC || h.n_records > JOURNAL_OWED_MAX || len != sizeof(h) + size ||
        h.n_bytes != j->n_indexed)
        return;
    memcpy(j->owed, (const char *)snapshot + sizeof(h), size);
    j->n_owed = replay_records(j, j->owed, h.n_records, j->end_pos);
    j->gave_up = true;
    journal_pay(j);
}

struct journal *journal_restore(struct journal_options *o, const char *name,
                                struct journal_group *group, bool block, const void *snapshot,
                                size_t len)
{
    struct journal *j = journal_new(o, name, group, block);
    j->has_files = true;
    bool from_files = restore_files(j);
    if (snapshot)
        (from_files ? restore_owed : restore_snapshot)(j, snapshot, len);
    return j;
}

void journal_sweep(const struct journal_options *o, bool (*keep)(void *data, const char *name),
                   void *data)
{
    DIR *dir = fdopendir(openat(o->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char name[JOURNAL_NAME_MAX];
        const char *dot = strrchr(entry->d_name, '.');
        bool unfinished = dot && strcmp(dot, ".new") == 0;
        if (!dot || (strcmp(dot, ".dat") != 0 && strcmp(dot, ".idx") != 0 && !unfinished) ||
            dot - entry->d_name >= JOURNAL_NAME_MAX)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(dot - entry->d_name), entry->d_name);
        if (unfinished || !keep(data, name))
            unlinkat(o->dir_fd, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}
