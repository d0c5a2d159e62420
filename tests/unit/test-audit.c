/* SPDX-License-Identifier: Apache-2.0 */
/* The audit as a whole: what is written is chained, signed and proved; what a kill, a full disk or
 * a second history does to it is seen. */
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/json.h"
#include "audit/export.h"
#include "audit/internal.h"
#include "audit/record.h"
#include "identity/identity.h"
#include "tests/unit/audit-log.h"
#include "tests/unit/tap.h"

/* --- reading it back */

struct pages {
    struct strbuf text;
    size_t n;
    uint64_t next, head;
    bool done, more;
};

static void on_page(void *data, const struct audit_page *page, const struct error *err)
{
    struct pages *p = data;
    p->done = true;
    if (err) {
        printf("# %s\n", err->message);
        return;
    }
    strbuf_append(&p->text, page->text.data, page->text.len);
    p->n += page->n;
    p->next = page->next;
    p->more = page->more;
    p->head = page->head;
}

static size_t query(struct audit_log *log, struct audit_filter *f, struct strbuf *ret)
{
    struct pages p = {.text = STRBUF_INIT(64 * 1024 * 1024), .more = true};
    while (p.more) {
        p.done = false;
        audit_query(log->audit, f, on_page, &p);
        while (!p.done)
            uv_run(&log->loop, UV_RUN_ONCE);
        f->since = p.next;
        if (f->limit)
            break;
    }
    if (ret)
        *ret = p.text;
    else
        strbuf_done(&p.text);
    return p.n;
}

static size_t count(struct audit_log *log, const char *kind, const char *call_id)
{
    struct audit_filter f = {.kind = kind, .call_id = call_id};
    return query(log, &f, NULL);
}

static bool verify_store(struct audit_log *log, const char *path, struct audit_verifier *ret)
{
    struct error err = {0};
    struct sqlite3 *db = audit_table_open(path, &err);
    audit_verifier_init(ret, log->signer.public_key);
    bool good = db && audit_verify_database(ret, db, &err) >= 0 && audit_verify_end(ret);
    if (!good)
        printf("# %s%s\n", ret->reason, err.message);
    audit_table_close(db);
    return good;
}

static bool verify_log(struct audit_log *log, struct audit_verifier *v)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/state.db", log->dir);
    return verify_store(log, path, v);
}

/* --- tests */

static void test_chain(void)
{
    struct audit_log log = {.config = {.checkpoint_records = 100}};
    struct error err = {0};
    struct audit_verifier v;
    struct checkpoint c = {0};
    char path[128];
    ok(audit_log_open(&log, &err) == 0, "opens: %s", err.message);
    audit_log_fill(&log, 999);
    ok(audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, &c) && c.seq == 999, "signed up to 999");
    ok(count(&log, NULL, NULL) == 999, "all are read");
    ok(count(&log, "intent", NULL) == 333, "by kind");
    ok(count(&log, "exited", "call-7") == 1, "by call");
    ok(count(&log, "exited", "call-\"") == 0, "by a call that is none");
    snprintf(path, sizeof(path), "%s/state.db", log.dir);
    ok(verify_store(&log, path, &v) && v.n_records == 999 && v.last.seq == 999,
       "the database verifies");
    audit_verifier_done(&v);
    audit_log_close(&log);
    ok(audit_log_open(&log, &err) == 0, "opens again: %s", err.message);
    audit_log_fill(&log, 3);
    ok(audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, &c) && c.seq == 1002,
       "goes on where it was");
    ok(verify_store(&log, path, &v), "and verifies");
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
}

static void test_signer_rules(void)
{
    struct audit_log log = {0};
    struct error err = {0};
    struct checkpoint a, b;
    char why[256];
    audit_log_open(&log, &err);
    struct plan_sign ask = {.purpose = CHECKPOINT_PERIODIC, .seq = 10, .head = {1}};
    ok(signer_sign(&log.signer, &ask, &a, why, sizeof(why)) == 0, "10 is signed");
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == 0 && !memcmp(&a, &b, sizeof(a)),
       "asked again it is the same signature");
    ask.head[0] = 2;
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == -ESTALE,
       "another history of 10 is not signed: %s", why);
    ask.seq = 9;
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == -ESTALE, "nor is 9");
    ask = (struct plan_sign){.purpose = CHECKPOINT_EXPORT, .seq = 10, .head = {1}};
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == -ESTALE,
       "nor 10 for another purpose");
    signer_close(&log.signer);
    _cleanup_close_ int fd = open(log.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(signer_open(&log.signer, fd, &err) == 0 && log.signer.last.seq == 10,
       "it remembers after a restart");
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == -ESTALE, "and refuses as before");
    ask.seq = 11;
    ok(signer_sign(&log.signer, &ask, &b, why, sizeof(why)) == 0 && b.prev_seq == 10,
       "11 follows 10");
    struct stat st;
    ok(fstatat(fd, "audit.key", &st, 0) == 0 && (st.st_mode & 07777) == 0600, "the key is 0600");
    audit_log_close(&log);
    audit_log_remove(&log);
}

/* --- another signing key */

static bool rotate_now(struct signer *s, uint64_t seq, struct checkpoint *ret)
{
    struct plan_sign ask = {.purpose = CHECKPOINT_ROTATE, .seq = seq, .head = {(uint8_t)seq}};
    char why[256] = "";
    bool good = signer_sign(s, &ask, ret, why, sizeof(why)) == 0;
    if (!good)
        printf("# %s\n", why);
    return good;
}

static bool sign_now(struct signer *s, enum checkpoint_purpose purpose, uint64_t seq,
                     struct checkpoint *ret)
{
    struct plan_sign ask = {.purpose = purpose, .seq = seq, .head = {(uint8_t)seq}};
    char why[256];
    return signer_sign(s, &ask, ret, why, sizeof(why)) == 0;
}

/* Whether exactly the signer's own key signs, after a start. */
static bool signs_with_own(struct signer *s, uint64_t seq)
{
    struct checkpoint c;
    struct audit_key *key = audit_key_new(s->public_key);
    bool good = sign_now(s, CHECKPOINT_PERIODIC, seq, &c) && audit_key_verifies(key, &c);
    audit_key_free(key);
    return good;
}

static void test_rotate_killed(const char *fault)
{
    struct error err = {0};
    struct signer s;
    struct checkpoint before, c;
    struct stat st;
    char dir[] = "/tmp/mas-audit-XXXXXX", command[64];
    _cleanup_close_ int fd = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    signer_open(&s, fd, &err);
    sign_now(&s, CHECKPOINT_PERIODIC, 1, &before);
    struct audit_key *old = audit_key_new(s.public_key);
    pid_t pid = fork();
    if (pid == 0) {
        signer_open(&s, fd, &err); /* a fork does not have the key */
        fault_arm(fault, 1);
        rotate_now(&s, 2, &c);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    signer_close(&s);
    ok(WIFSIGNALED(status) && signer_open(&s, fd, &err) == 0, "%s: killed, and opens again: %s",
       fault, err.message);
    bool decided = s.last.purpose == CHECKPOINT_ROTATE;
    struct audit_key *now = audit_key_new(s.public_key);
    ok(decided ? audit_key_verifies(old, &s.last) && audit_key_takes_over(now, &s.last)
               : audit_key_is(old, s.public_key),
       "%s: the %s key is the valid one, and is proved", fault, decided ? "new" : "old");
    ok(!s.replaced && signs_with_own(&s, 3), "%s: and it signs", fault);
    ok(fstatat(fd, "audit.key.new", &st, 0) < 0 && fstatat(fd, ".audit.pub", &st, 0) < 0,
       "%s: nothing is left over", fault);
    audit_key_free(old);
    audit_key_free(now);
    signer_close(&s);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ok(system(command) == 0, "%s: removed", fault);
}

/* A state directory of the version before: its audit.last ends before the keys. */
static void test_old_slot(void)
{
    struct checkpoint c = {.purpose = CHECKPOINT_EXPORT, .seq = 7, .signature = {9}}, got;
    struct checkpoint_slot slot;
    size_t end = 8 + offsetof(struct checkpoint, old_key);
    memset(&slot, 0, sizeof(slot));
    memcpy(slot.magic, "masaud1", 8);
    slot.checkpoint = c;
    EVP_Digest(&slot, end, (uint8_t *)&slot + end, NULL, EVP_sha256(), NULL);
    ok(checkpoint_slot_read(&slot, &got) && memcmp(&got, &c, sizeof(c)) == 0,
       "what the version before signed last is read");
    ((uint8_t *)&slot)[20] ^= 1;
    ok(!checkpoint_slot_read(&slot, &got), "and not where it is damaged");
    checkpoint_slot_fill(&slot, &c);
    ok(checkpoint_slot_read(&slot, &got) && memcmp(&got, &c, sizeof(c)) == 0, "as is today's");
}

static void export_log(struct audit_log *log, uint64_t since, struct strbuf *text)
{
    struct error err = {0};
    struct checkpoint footer;
    char path[128], line[CHECKPOINT_TEXT_SIZE + 1];
    audit_log_checkpoint(log, CHECKPOINT_EXPORT, &footer);
    snprintf(path, sizeof(path), "%s/state.db", log->dir);
    struct sqlite3 *db = audit_table_open(path, &err);
    audit_export_begin(db, since, footer.seq, audit_public_key(log->audit), text, &since, &err);
    audit_export_page(db, &since, footer.seq, text->max, text, &err);
    audit_table_close(db);
    size_t n = checkpoint_format(&footer, line);
    line[n++] = '\n';
    strbuf_append(text, line, n);
}

static bool verify_text(const struct strbuf *text, const uint8_t *key, struct audit_verifier *v)
{
    audit_verifier_init(v, key);
    bool good = audit_verify_text(v, text->data, text->len) && audit_verify_export_end(v);
    if (!good)
        printf("# %s\n", v->reason);
    return good;
}

static bool verifies_with(const struct strbuf *text, const uint8_t *key, size_t n_segments)
{
    struct audit_verifier v;
    bool good = verify_text(text, key, &v) && v.n_segments == n_segments &&
                v.segments[0].basis == AUDIT_KEY_FIRST && v.segments[0].first == v.base_seq + 1 &&
                v.segments[n_segments - 1].last == v.seq;
    for (size_t i = 1; good && i < n_segments; i++)
        good = v.segments[i].basis == AUDIT_KEY_ROTATED &&
               v.segments[i].first == v.segments[i - 1].last + 1;
    audit_verifier_done(&v);
    return good;
}

/* One character of the first line with that text becomes another. */
static bool changed_verifies(const struct strbuf *text, const char *where, size_t skip,
                             const uint8_t *key)
{
    struct audit_verifier v;
    struct strbuf copy = STRBUF_INIT(text->max);
    strbuf_append(&copy, text->data, text->len);
    char *at = memmem(copy.data, copy.len, where, strlen(where));
    char *digit = at + strlen(where) + skip;
    *digit = *digit == '0' ? '1' : '0';
    bool good = verify_text(&copy, key, &v);
    audit_verifier_done(&v);
    strbuf_done(&copy);
    return good;
}

static void test_rotate(void)
{
    struct audit_log log = {0};
    struct error err = {0};
    struct audit_verifier v;
    struct checkpoint c;
    uint8_t keys[3][CHECKPOINT_KEY_SIZE], stranger[CHECKPOINT_KEY_SIZE] = {1};
    struct strbuf text = STRBUF_INIT(8 * 1024 * 1024), part = STRBUF_INIT(8 * 1024 * 1024);
    audit_log_open(&log, &err);
    for (int i = 0; i < 3; i++) {
        memcpy(keys[i], audit_public_key(log.audit), sizeof(keys[i]));
        audit_log_fill(&log, 30);
        audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, NULL);
        if (i < 2)
            ok(audit_log_checkpoint(&log, CHECKPOINT_ROTATE, &c) &&
                   memcmp(c.old_key, keys[i], sizeof(c.old_key)) == 0 &&
                   memcmp(c.new_key, audit_public_key(log.audit), sizeof(c.new_key)) == 0,
               "rotation %d names both keys", i + 1);
    }
    export_log(&log, 0, &text);
    ok(verifies_with(&text, NULL, 3), "an export over two rotations verifies");
    for (int i = 0; i < 3; i++)
        ok(verifies_with(&text, keys[i], 3), "with key %d alone, all of it", i + 1);
    ok(!verifies_with(&text, stranger, 3), "with a stranger's it does not");
    ok(!changed_verifies(&text, "\"new_key\":\"", 3, keys[0]), "nor with another new key");
    ok(!changed_verifies(&text, "\"old_key\":\"", 3, keys[0]), "nor with another old key");
    ok(!changed_verifies(&text, "\"new_signature\":\"", 3, keys[0]),
       "nor without the new key's signature");
    ok(!changed_verifies(&text, "\"first_key\":\"", 3, keys[2]), "nor with another first key");
    export_log(&log, 70, &part);
    ok(verify_text(&part, keys[0], &v) && v.base_seq >= 60 && v.n_segments == 1,
       "an export from after the rotations on is proved with the first key");
    audit_verifier_done(&v);
    ok(count(&log, "key_change", NULL) >= 2, "rotations are on record");
    ok(verify_log(&log, &v) && v.n_segments == 3, "the database verifies with the newest key");
    audit_verifier_done(&v);
    audit_log_close(&log);
    ok(audit_log_open(&log, &err) == 0 && count(&log, "damage", NULL) == 0 &&
           !log.audit->key_replaced,
       "opens again: %s", err.message);
    audit_log_close(&log);
    audit_log_remove(&log);
    strbuf_done(&text);
    strbuf_done(&part);
}

/* The key is lost between two starts: the new one says so before anything else. */
static void test_replaced(bool last_too)
{
    struct audit_log log = {0};
    struct error err = {0};
    struct audit_verifier v;
    struct checkpoint c;
    char path[128];
    uint8_t first[CHECKPOINT_KEY_SIZE], second[CHECKPOINT_KEY_SIZE];
    struct strbuf text = STRBUF_INIT(8 * 1024 * 1024);
    audit_log_open(&log, &err);
    memcpy(first, log.signer.public_key, sizeof(first));
    audit_log_fill(&log, 30);
    audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, NULL);
    audit_log_close(&log);
    snprintf(path, sizeof(path), "%s/audit.key", log.dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/audit.last", log.dir);
    if (last_too)
        unlink(path);
    audit_log_open(&log, &err);
    memcpy(second, log.signer.public_key, sizeof(second));
    ok(last_too || !sign_now(&log.signer, CHECKPOINT_PERIODIC, 1000, &c),
       "nothing is signed before that is said");
    ok(audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, &c) && c.purpose == CHECKPOINT_REPLACE &&
           memcmp(c.old_key, first, sizeof(first)) == 0,
       "the first checkpoint of the new key says that the old one is lost");
    ok(!sign_now(&log.signer, CHECKPOINT_REPLACE, 1000, &c), "and it says so once");
    audit_log_fill(&log, 30);
    export_log(&log, 0, &text);
    ok(verify_text(&text, NULL, &v) && v.n_segments == 2 &&
           v.segments[1].basis == AUDIT_KEY_REPLACED,
       "an export over the loss verifies, and tells of it");
    audit_verifier_done(&v);
    ok(!verify_text(&text, first, &v), "the old key alone does not prove what came after: %s",
       v.reason);
    audit_verifier_done(&v);
    ok(verify_text(&text, second, &v), "the new one says what it found");
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
    strbuf_done(&text);
}

/* A child writes and is killed; the parent finds everything that was acknowledged. */
static void test_kill(const char *what, bool torn)
{
    struct audit_log log = {.config = {.checkpoint_records = 50}};
    struct error err = {0};
    struct audit_verifier v;
    char path[160];
    uint64_t *acknowledged =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy(log.dir, "/tmp/mas-audit-XXXXXX");
    if (!mkdtemp(log.dir))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        audit_log_open(&log, &err);
        for (size_t i = 0;; i++) {
            char call[AUDIT_CALL_ID_SIZE];
            snprintf(call, sizeof(call), "call-%zu", i);
            struct audit_record r = {.kind = "intent", .call_id = call};
            audit_write(log.audit, &r, acknowledged, &err);
            if (i % 64 == 0)
                uv_run(&log.loop, UV_RUN_NOWAIT);
        }
    }
    while (*(volatile uint64_t *)acknowledged < 20000)
        usleep(1000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (torn) {
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof(path), "%s/audit-%d.log", log.dir, i);
            struct stat st;
            int fd = open(path, O_WRONLY | O_APPEND);
            if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size && write(fd, "{\"seq\":9", 8) != 8)
                perror(path);
            close(fd);
        }
    }
    ok(audit_log_open(&log, &err) == 0, "%s: opens: %s", what, err.message);
    size_t n = count(&log, "intent", NULL), damage = count(&log, "damage", NULL);
    ok(n >= *acknowledged && n <= *acknowledged + 1, "%s: all %" PRIu64 " are there (%zu)", what,
       *acknowledged, n);
    /* A kill may well cut a write in two. */
    ok(torn ? damage >= 1 : damage <= 1, "%s: torn lines are told of (%zu)", what, damage);
    ok(audit_is_open(log.audit, "call-5"), "%s: an open call is known", what);
    audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, NULL);
    snprintf(path, sizeof(path), "%s/state.db", log.dir);
    ok(verify_store(&log, path, &v) && v.n_records == n + damage, "%s: it verifies", what);
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
    munmap(acknowledged, 4096);
}

static bool lives(void *data, const char *call_id)
{
    return strcmp(call_id, data) == 0;
}

static void write_kind(struct audit_log *log, const char *kind, const char *call)
{
    struct audit_record r = {.kind = kind, .call_id = call};
    audit_note(log->audit, &r);
}

static void test_settle(void)
{
    struct audit_log log = {0};
    struct error err = {0};
    audit_log_open(&log, &err);
    write_kind(&log, "intent", "call-dead");
    write_kind(&log, "intent", "call-done");
    write_kind(&log, "intent", "call-alive");
    write_kind(&log, "exited", "call-done");
    write_kind(&log, "exited", "call-never");
    audit_log_close(&log);
    ok(audit_log_open(&log, &err) == 0, "opens");
    ok(audit_is_open(log.audit, "call-dead") && audit_is_open(log.audit, "call-alive") &&
           !audit_is_open(log.audit, "call-done"),
       "open calls are known after a start");
    audit_settle(log.audit, lives, (void *)"call-alive");
    ok(count(&log, "interrupted", "call-dead") == 1, "a dead one is interrupted");
    ok(count(&log, "interrupted", NULL) == 1, "and no other");
    write_kind(&log, "exited", "call-alive");
    write_kind(&log, "exited", "call-alive");
    write_kind(&log, "exited", "call-dead");
    ok(count(&log, "exited", NULL) == 2, "an end is recorded once, and only of what began");
    audit_log_close(&log);
    audit_log_remove(&log);
}

/* On a file system of a few pages. */
static void test_full_disk(void)
{
    struct error err = {0};
    struct audit_file file;
    char dir[] = "/tmp/mas-audit-XXXXXX", line[4096];
    if (!mkdtemp(dir) || mount("tmpfs", dir, "tmpfs", 0, "size=64k") < 0) {
        ok(true, "full disk # SKIP needs mount()");
        rmdir(dir);
        return;
    }
    audit_file_open(&file, dir, &err);
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    int r = 0;
    size_t n = 0;
    for (; r >= 0 && n < 100; n++)
        r = audit_file_append(&file, line, sizeof(line), n + 1, false, &err);
    ok(r < 0 && err.code == ERROR_NO_SPACE, "a full disk refuses: %s", err.message);
    struct stat st;
    ok(fstat(file.parts[0].fd, &st) == 0 && (size_t)st.st_size == (n - 1) * sizeof(line),
       "and leaves whole lines");
    audit_file_close(&file);
    umount(dir);
    rmdir(dir);
}

static void test_read_only(void)
{
    struct audit_log log = {0};
    struct error err = {0};
    audit_log_open(&log, &err);
    write_kind(&log, "intent", "call-1");
    int saved = dup(log.audit->file.parts[0].fd), null = open("/dev/full", O_WRONLY);
    dup2(null, log.audit->file.parts[0].fd);
    struct audit_record intent = {.kind = "intent", .call_id = "call-2"};
    ok(audit_write(log.audit, &intent, NULL, &err) < 0, "an intent is refused: %s", err.message);
    write_kind(&log, "exited", "call-1");
    ok(!audit_is_open(log.audit, "call-1") && !audit_is_open(log.audit, "call-2"),
       "an end waits; what was refused is not open");
    dup2(saved, log.audit->file.parts[0].fd);
    struct error none = {0};
    ok(audit_write(log.audit, &intent, NULL, &none) == 0, "with room again it is taken");
    ok(count(&log, "exited", "call-1") == 1, "and what waited was written");
    close(saved);
    close(null);
    audit_log_close(&log);
    audit_log_remove(&log);
}

/* A signature of its own needs a record more where all records are signed, which a full disk
 * refuses. The call has to end then, and not to ask for that record again and again. */
static void test_full_before_a_signature(void)
{
    struct audit_log log = {0};
    struct error err = {0};
    audit_log_open(&log, &err);
    audit_log_fill(&log, 3);
    ok(audit_log_checkpoint(&log, CHECKPOINT_PERIODIC, NULL), "all records are signed");
    int saved = dup(log.audit->file.parts[0].fd), full = open("/dev/full", O_WRONLY);
    dup2(full, log.audit->file.parts[0].fd);
    ok(!audit_log_checkpoint(&log, CHECKPOINT_EXPORT, NULL),
       "a full disk refuses the signature of an export");
    ok(!audit_log_checkpoint(&log, CHECKPOINT_ROTATE, NULL), "and a rotation");
    ok(log.audit->n_owed == 0, "nothing is owed of either: %zu", log.audit->n_owed);
    dup2(saved, log.audit->file.parts[0].fd);
    ok(audit_log_checkpoint(&log, CHECKPOINT_EXPORT, NULL), "with room again it is made");
    close(saved);
    close(full);
    audit_log_close(&log);
    audit_log_remove(&log);
}

static bool long_one_lives(void *data, const char *call_id)
{
    (void)data;
    return strcmp(call_id, "call-long") == 0;
}

/* 20 checkpoints with 99 records before each, and only then the configuration; after that until
 * something was dropped, or for a while. */
static void fill_and_drop(struct audit_log *log, const struct audit_config *o, int64_t patience_ms)
{
    struct error err = {0};
    for (int i = 0; i < 20; i++) {
        audit_log_fill(log, 99);
        audit_log_checkpoint(log, CHECKPOINT_PERIODIC, NULL);
    }
    audit_log_close(log);
    log->config = *o;
    audit_log_open(log, &err);
    audit_settle(log->audit, long_one_lives, NULL);
    int64_t end = uv_hrtime() / 1000000 + patience_ms;
    while (count(log, "retention", NULL) == 0 && (int64_t)(uv_hrtime() / 1000000) < end)
        uv_run(&log->loop, UV_RUN_NOWAIT);
    audit_log_checkpoint(log, CHECKPOINT_PERIODIC, NULL);
}

static void test_retention(void)
{
    struct audit_log log = {0};
    struct audit_config o = {
        .checkpoint_records = 100, .retention_records = 500, .retention_ms = 1};
    struct error err = {0};
    struct audit_verifier v;
    audit_log_open(&log, &err);
    fill_and_drop(&log, &o, 5000);
    ok(verify_log(&log, &v) && v.base_seq > 0 && v.n_records >= 500 && v.n_records < 2000,
       "old records go, and the rest is proved from a signed base on");
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
}

/* The base is signed by a later key: the rotations before it are still there. */
static void test_retention_rotated(void)
{
    struct audit_log log = {0};
    struct audit_config o = {.checkpoint_records = 100, .retention_ms = 1};
    struct error err = {0};
    struct audit_verifier v;
    uint8_t first[CHECKPOINT_KEY_SIZE];
    struct strbuf text = STRBUF_INIT(8 * 1024 * 1024);
    audit_log_open(&log, &err);
    memcpy(first, log.signer.public_key, sizeof(first));
    for (int i = 0; i < 2; i++) {
        audit_log_fill(&log, 30);
        audit_log_checkpoint(&log, CHECKPOINT_ROTATE, NULL);
    }
    fill_and_drop(&log, &o, 5000);
    export_log(&log, 0, &text);
    ok(verify_text(&text, first, &v) && v.base_seq > 60 && v.n_segments == 1 &&
           v.segments[0].basis == AUDIT_KEY_ROTATED,
       "records over a dropped rotation are proved with the first key");
    audit_verifier_done(&v);
    ok(verify_log(&log, &v) && v.base_seq > 60, "and the database verifies");
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
    strbuf_done(&text);
}

static void test_retention_never(void)
{
    struct audit_log log = {0};
    struct audit_config o = {.checkpoint_records = 100, .retention_records = 500};
    struct error err = {0};
    struct audit_verifier v;
    audit_log_open(&log, &err);
    fill_and_drop(&log, &o, 400);
    ok(verify_log(&log, &v) && v.base_seq == 0 && v.n_records >= 1980,
       "for ever is for ever, however many are kept in any case");
    audit_verifier_done(&v);
    audit_log_close(&log);
    audit_log_remove(&log);
}

static void test_retention_bytes(void)
{
    struct audit_log log = {0};
    struct audit_config o = {.checkpoint_records = 100, .max_bytes = 64 * 1024};
    struct error err = {0};
    struct audit_verifier v;
    audit_log_open(&log, &err);
    fill_and_drop(&log, &o, 5000);
    int64_t bytes = log.audit->bytes;
    ok(verify_log(&log, &v) && v.base_seq > 0 && bytes > 32 * 1024 && bytes < 96 * 1024,
       "records over the limit of bytes go, the oldest first: %lld are left", (long long)bytes);
    audit_verifier_done(&v);
    audit_log_close(&log);
    ok(audit_log_open(&log, &err) == 0 && log.audit->bytes >= bytes &&
           log.audit->bytes < bytes + 4096,
       "how many there are is known after a restart");
    audit_log_close(&log);
    audit_log_remove(&log);
}

/* A call that goes on for longer than records are kept. */
static void test_retention_open(void)
{
    struct audit_log log = {0};
    struct audit_config o = {.checkpoint_records = 100, .retention_ms = 1};
    struct error err = {0};
    struct audit_verifier v;
    struct audit_record intent = {
        .kind = "intent", .call_id = "call-long", .sandbox = "sbx-1", .tool = "exec"};
    audit_log_open(&log, &err);
    audit_write(log.audit, &intent, NULL, &err);
    fill_and_drop(&log, &o, 5000);
    ok(verify_log(&log, &v) && v.base_seq > 0, "one call without an end does not hold it up");
    audit_verifier_done(&v);
    ok(count(&log, "intent", "call-long") == 0 && count(&log, "carried", "call-long") == 1,
       "its intent is carried over the base");
    audit_log_close(&log);
    audit_log_open(&log, &err);
    audit_settle(log.audit, long_one_lives, NULL);
    ok(audit_is_open_in(log.audit, "call-long", "sbx-1"),
       "it is known after a restart, with its sandbox");
    write_kind(&log, "exited", "call-long");
    ok(count(&log, "exited", "call-long") == 1 && !audit_is_open(log.audit, "call-long"),
       "and its end is put on record");
    audit_log_close(&log);
    audit_log_remove(&log);
}

static void test_record_form(void)
{
    struct strbuf b = STRBUF_INIT(AUDIT_RECORD_MAX);
    struct identity who = {.key = "key-1", .name = "a \"b\"\n\xff", .authenticated = true};
    struct audit_record r = {.kind = "intent", .who = &who, .call_id = "call-1", .tool = "exec"};
    ok(audit_record_format(&r, 7, 0, &b) == 0 &&
           strcmp(b.data, "{\"seq\":7,\"time\":\"1970-01-01T00:00:00Z\",\"kind\":\"intent\","
                          "\"key\":\"key-1\",\"name\":\"a \\\"b\\\"\\u000a\xef\xbf\xbd\","
                          "\"auth\":\"key\",\"call\":\"call-1\",\"tool\":\"exec\"}") == 0,
       "canonical: %s", b.data ? b.data : "");
    snprintf(who.name, sizeof(who.name), "\xc3\xa4\",\"kind\":\"x");
    _cleanup_json_ json_t *whole = NULL;
    ok(audit_record_format(&r, 7, 0, &b) == 0 && (whole = json_parse(b.data, b.len, NULL)) &&
           strcmp(json_string_value(json_object_get(whole, "name")), who.name) == 0,
       "a quote is escaped behind any character");
    struct audit_member m;
    ok(audit_record_find(b.data, b.len, "tool", &m) && m.text_len == 4, "a member is found");
    ok(!audit_record_find(b.data, b.len, "rule", &m), "an absent one is not");
    r.kind = "gossip";
    ok(audit_record_format(&r, 7, 0, &b) == -EINVAL, "an unknown kind is refused");
    char *big = xcalloc(1, 2 * AUDIT_RECORD_MAX);
    memset(big, '1', 2 * AUDIT_RECORD_MAX - 1);
    r = (struct audit_record){.kind = "intent", .details_text = big};
    ok(audit_record_format(&r, 7, 0, &b) == 0 && strstr(b.data, "\"omitted_bytes\":131071") &&
           b.data[b.len - 1] == '}',
       "details that do not fit are named by their digest");
    free(big);
    strbuf_done(&b);
}

int main(void)
{
    test_record_form();
    test_chain();
    test_signer_rules();
    test_old_slot();
    test_rotate();
    test_replaced(false);
    test_replaced(true);
    test_rotate_killed("sign.next-made");
    test_rotate_killed("sign.old-kept");
    test_rotate_killed("sign.rotation-decided");
    test_rotate_killed("sign.key-moved");
    test_rotate_killed("sign.public-saved");
    test_kill("killed", false);
    test_kill("torn", true);
    test_settle();
    test_full_disk();
    test_read_only();
    test_full_before_a_signature();
    test_retention();
    test_retention_rotated();
    test_retention_never();
    test_retention_bytes();
    test_retention_open();
    return tap_done();
}
