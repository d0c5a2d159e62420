/* SPDX-License-Identifier: Apache-2.0 */
/* What an unpacker that was taken over can say and leave behind: records through its pipe, parts of
 * an archive, a root file system. The real one is spoken for in
 * tests/security/test-image-keeper.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "filter/filter.h"
#include "image/below.h"
#include "image/hash.h"
#include "image/meter.h"
#include "image/tree.h"
#include "keeper/unpacker.h"
#include "tests/unit/tap.h"

static const struct keeper_options options = {.config.limits = IMAGE_LIMITS_DEFAULT,
                                              .config.pull_timeout_ms = 1000};
static char base_path[] = "/tmp/test-unpacker-XXXXXX";
static int base_fd;

/* --- records */

static const struct unpacker_record good = {.type = UNPACKER_RESULT, .kind = UNPACK_ROOTFS_TAR};
static const struct unpacker_record progress = {
    .type = UNPACKER_PROGRESS, .layer = 1, .layers = 2, .done_bytes = 5, .files = 3};

static int hear(const void *data, size_t len, struct unpacker_record *ret, struct error *err)
{
    int said[2], r;
    _cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct worker w = {.o = &options,
                       .out = null,
                       .room = {base_fd, -1, -1, CLAIMS_IMAGES, 0},
                       .deadline_ms = clock_mono_ms() + 10000};
    if (pipe2(said, O_CLOEXEC) < 0 || fd_write_all(said[1], data, len) < 0)
        exit(EXIT_FAILURE);
    close(said[1]);
    *err = (struct error){0};
    r = unpacker_read(&w, said[0], -1, ret, err);
    close(said[0]);
    return r;
}

/* It asks for room, and hears when it has it. */
static void test_claim(void)
{
    struct unpacker_record claim = {.type = UNPACKER_CLAIM, .done_bytes = 4096}, got;
    struct error err = {0};
    struct worker w = {.o = &options,
                       .room = {base_fd, -1, claims_open(), CLAIMS_IMAGES, 0},
                       .deadline_ms = clock_mono_ms() + 10000};
    int said[2], heard[2];
    char granted = 'x';
    if (pipe2(said, O_CLOEXEC) < 0 || pipe2(heard, O_CLOEXEC) < 0 ||
        fd_write_all(said[1], &claim, sizeof(claim)) < 0 ||
        fd_write_all(said[1], &good, sizeof(good)) < 0 || close(said[1]) < 0)
        exit(EXIT_FAILURE);
    ok(unpacker_read(&w, said[0], heard[1], &got, &err) == 0 && read(heard[0], &granted, 1) == 1 &&
           !granted,
       "room that is there: %s", err.message);
    ok(claims_read(w.room.claims_fd, _CLAIMS_SLOTS) == 4096, "it is claimed");
    claim.done_bytes = options.config.limits.bytes + METER_CLAIM_BYTES + 1;
    ok(hear(&claim, sizeof(claim), &got, &err) < 0 && err.code == ERROR_INTERNAL,
       "more room than any image takes is nonsense: %s", err.message);
    claim.done_bytes = 4096;
    w.room.reserve_bytes = UINT64_MAX;
    err = (struct error){0};
    int more[2];
    if (pipe2(more, O_CLOEXEC) < 0 || fd_write_all(more[1], &claim, sizeof(claim)) < 0)
        exit(EXIT_FAILURE);
    ok(unpacker_read(&w, more[0], heard[1], &got, &err) < 0 && err.code == ERROR_NO_SPACE &&
           strstr(err.message, "state_reserve_mb"),
       "room that is not there: %s", err.message);
    ok(claims_read(w.room.claims_fd, _CLAIMS_SLOTS) == 0, "nothing is claimed then");
    close(more[0]);
    close(more[1]);
    claim.done_bytes = 0;
    ok(hear(&claim, sizeof(claim), &got, &err) < 0, "one that does not hear is refused: %s",
       err.message);
    close(said[0]);
    close(heard[0]);
    close(heard[1]);
    close(w.room.claims_fd);
}

static void test_sequences(void)
{
    const struct unpacker_record failed = {
        .type = UNPACKER_RESULT, .number = ERROR_TOO_LARGE, .message = "too much"};
    const struct unpacker_record all[] = {progress, progress, good, good},
                                 failure[] = {failed, good};
    struct unpacker_record got;
    struct error err;
    size_t one = sizeof(got);
    ok(hear(all, 3 * one, &got, &err) == 0 && got.kind == UNPACK_ROOTFS_TAR,
       "progress, then one result: %s", err.message);
    ok(hear(all, 4 * one, &got, &err) < 0, "two results: %s", err.message);
    ok(hear(all, 3 * one + 1, &got, &err) < 0, "a result and a byte more: %s", err.message);
    ok(hear(all, 2 * one, &got, &err) < 0, "no result: %s", err.message);
    ok(hear(all, 3 * one - 1, &got, &err) < 0, "most of a result: %s", err.message);
    ok(hear("", 0, &got, &err) < 0, "nothing: %s", err.message);
    ok(hear(failure, 2 * one, &got, &err) < 0 && err.code == ERROR_TOO_LARGE &&
           strcmp(err.message, "too much") == 0,
       "a failure is one, whatever follows: %s", err.message);
}

static void refused(struct unpacker_record r, const char *what)
{
    struct unpacker_record got, both[] = {r, good};
    struct error err;
    ok(hear(both, sizeof(both), &got, &err) < 0 && err.code == ERROR_INTERNAL, "%s: %s", what,
       err.message);
}

#define WITH(record, member, value)                                                                \
    ({                                                                                             \
        struct unpacker_record changed = (record);                                                 \
        changed.member = (value);                                                                  \
        changed;                                                                                   \
    })

static void test_values(void)
{
    refused(WITH(good, type, 0), "a type that is not there");
    refused(WITH(good, type, 7), "a type that is not known");
    refused(WITH(good, number, _ERROR_CODE_MAX), "a code that is not known");
    refused(WITH(good, kind, _UNPACK_KIND_MAX), "a kind that is not known");
    refused(WITH(good, skipped, UINT64_MAX), "more skipped than an image has");
    refused(WITH(progress, number, 99), "a step that is not known");
    refused(WITH(progress, layer, 3), "a layer beyond the last");
    refused(WITH(progress, layers, UINT32_MAX), "more layers than an image has");
    refused(WITH(progress, files, UINT64_MAX), "more files than an image has");
    refused(WITH(progress, done_bytes, UINT64_MAX), "more bytes than a number has");
    refused(WITH(progress, total_bytes, UINT64_MAX), "more bytes in all");
    struct unpacker_record endless = WITH(good, number, ERROR_INVALID);
    memset(endless.message, 'x', sizeof(endless.message));
    refused(endless, "a message without an end");
    char garbage[4 * sizeof(good)];
    struct error err;
    struct unpacker_record got;
    for (int byte = 0; byte < 256; byte += 51) {
        memset(garbage, byte, sizeof(garbage));
        ok(hear(garbage, sizeof(garbage), &got, &err) < 0, "bytes of %d: %s", byte, err.message);
    }
}

/* --- what it leaves */

static void put(int dir, const char *name, const char *text, size_t len, unsigned mode)
{
    _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, text, len) < 0 || fchmod(fd, mode) < 0)
        exit(EXIT_FAILURE);
}

/* The configuration of an image that exists, and a layer that is not its own. */
static void test_parts(void)
{
    const struct image_options o = {.limits = IMAGE_LIMITS_DEFAULT};
    _cleanup_image_info_ struct image_info info = {0}, other = {0};
    char layer[1024] = {0}, id[IMAGE_DIGEST_SIZE], digest[IMAGE_DIGEST_SIZE];
    struct error err = {0};
    _cleanup_close_ int parts = fd_enter_dir_at(base_fd, "parts", 0700);
    hash_bytes(layer, sizeof(layer), id);
    _cleanup_free_ char *config = xasprintf(
        "{\"config\": {\"Env\": [\"A=b\"]}, \"rootfs\": {\"diff_ids\": [\"sha256:%s\"]}}", id);
    hash_bytes(config, strlen(config), digest);
    put(parts, IMAGE_PARTS_CONFIG, config, strlen(config), 0600);
    put(parts, "0", layer, sizeof(layer), 0600);
    ok(image_from_parts(parts, -1, &o, &info, &err) == 0 && strcmp(info.digest, digest) == 0 &&
           strcmp(info.env[0], "A=b") == 0,
       "parts that are an image: %s", err.message);
    put(parts, "1", layer, sizeof(layer), 0600);
    err = (struct error){0};
    ok(image_from_parts(parts, -1, &o, &other, &err) < 0, "a layer more: %s", err.message);
    unlinkat(parts, "1", 0);
    layer[100] = 'x';
    put(parts, "0", layer, sizeof(layer), 0600);
    err = (struct error){0};
    ok(image_from_parts(parts, -1, &o, &other, &err) < 0 && strstr(err.message, "tampered"),
       "another layer: %s", err.message);
    unlinkat(parts, "0", 0);
    err = (struct error){0};
    ok(symlinkat("/dev/zero", parts, "0") == 0 && image_from_parts(parts, -1, &o, &other, &err) < 0,
       "a link for a layer: %s", err.message);
}

static int look(int work, uint64_t bytes, uint64_t files, struct image_info *info,
                struct error *err)
{
    struct image_options o = {.limits = IMAGE_LIMITS_DEFAULT};
    o.limits.bytes = bytes;
    o.limits.files = files;
    *err = (struct error){0};
    return image_tree_check(work, true, &o, info, err);
}

static void test_tree(void)
{
    struct error err;
    struct image_info info = {0}, again = {0};
    char text[5000] = "a";
    _cleanup_close_ int work = fd_enter_dir_at(base_fd, "work", 0700),
                        root = fd_enter_dir_at(work, "rootfs", 0755);
    put(root, "a", text, sizeof(text), 0644);
    ok(linkat(root, "a", root, "b", 0) == 0 && symlinkat("/x", root, "c") == 0, "a tree");
    ok(look(work, 1 << 20, 3, &info, &err) == 0 && info.files == 3 && info.size_bytes == 8192,
       "is counted, a file with two names once: %s", err.message);
    ok(look(work, 4096, 3, &again, &err) < 0 && err.code == ERROR_TOO_LARGE, "over bytes: %s",
       err.message);
    ok(look(work, 1 << 20, 2, &again, &err) < 0 && err.code == ERROR_TOO_LARGE, "over files: %s",
       err.message);
    put(root, "a", "b", 1, 0644);
    ok(look(work, 1 << 20, 3, &again, &err) == 0 && strcmp(info.digest, again.digest) != 0,
       "other content is another digest");
    _cleanup_close_ int kept = openat(root, "kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fallocate(kept, FALLOC_FL_KEEP_SIZE, 0, 4 << 20) == 0)
        ok(look(work, 1 << 20, 9, &again, &err) < 0, "blocks beyond a file's end: %s", err.message);
    ok(fchmod(kept, 02755) == 0 && look(work, 1 << 30, 9, &again, &err) < 0 &&
           strstr(err.message, "'kept'"),
       "setgid: %s", err.message);
    unlinkat(root, "kept", 0);
    ok(mkfifoat(root, "d", 0644) == 0 && look(work, 1 << 30, 9, &again, &err) < 0, "a fifo: %s",
       err.message);
    unlinkat(root, "d", 0);
    put(work, "image.json", "{}", 2, 0644);
    ok(look(work, 1 << 30, 9, &again, &err) < 0, "something beside it: %s", err.message);
}

/* --- a kernel without Landlock */

static void lose_landlock(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ELEMENTS(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_install(&program) < 0)
        exit(EXIT_FAILURE);
}

/* The last test: the filter stays. */
static void test_no_landlock(void)
{
    struct error err = {0};
    struct image_store *store = NULL;
    struct unpacker_record got;
    _cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC),
                        source = openat(base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct worker w = {.o = &options,
                       .out = null,
                       .room = {base_fd, -1, -1, CLAIMS_IMAGES, 0},
                       .deadline_ms = clock_mono_ms() + 10000};
    const struct unpacker_task t = {.kind = UNPACK_DIR, .source = source, .target = base_fd};
    ok(image_store_open(base_fd, &store, &err) == 0, "a store: %s", err.message);
    w.store = store;
    lose_landlock();
    ok(worker_begin(&w, &err) < 0 && err.code == ERROR_UNSUPPORTED && !w.work,
       "no job is begun: %s", err.message);
    err = (struct error){0};
    ok(unpacker_run(&w, &t, &got, &err) < 0, "no unpacker works: %s", err.message);
    image_store_close(store);
}

int main(void)
{
    if (!mkdtemp(base_path) || (base_fd = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return EXIT_FAILURE;
    test_sequences();
    test_claim();
    test_values();
    test_parts();
    test_tree();
    test_no_landlock();
    below_clear(base_fd);
    rmdir(base_path);
    return tap_done();
}
