/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/landlock.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "image/meter.h"

#define MEMORY_BYTES (2ull << 30) /* what decompressors may want of their input's word */

#define FS_READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define FS_WORK                                                                                    \
    (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |                  \
     LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_SYM | LANDLOCK_REFER |                  \
     LANDLOCK_TRUNCATE)

static const char *const steps[] = {"unpack", "verify", "copy"};

/* --- walls */

/* A sanitizer's own memory is more than any image's. */
static int limit_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0;
#else
    struct rlimit limit = {MEMORY_BYTES, MEMORY_BYTES};
    return setrlimit(RLIMIT_AS, &limit) < 0 ? -errno : 0;
#endif
}

/* A source that is a directory may be read below; any other is a descriptor that is open
 * already, which Landlock does not ask about. */
static int refuse_files(const struct unpacker_task *t)
{
    struct stat st;
    int abi = landlock_abi();
    struct landlock_rights refused = landlock_known(abi);
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    int r =
        ruleset < 0 ? ruleset : landlock_ruleset_allow(ruleset, t->target, FS_WORK & refused.fs);
    if (r == 0 && fstat(t->source, &st) == 0 && S_ISDIR(st.st_mode))
        r = landlock_ruleset_allow(ruleset, t->source, FS_READ & refused.fs);
    return r == 0 ? landlock_restrict(ruleset) : r;
}

/* The filter comes last: it would refuse the calls that the other walls are made with. */
static int confine_unpacker(const struct unpacker_task *t, struct error *err)
{
    int r = limit_memory();
    if (r == 0)
        r = refuse_files(t);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "the unpacker cannot be confined");
    r = filter_enter(&filter_unpacker, err);
    if (r < 0)
        error_prefix(err, "unpack");
    return r;
}

/* --- in the child */

/* What it speaks and hears with. */
struct pipes {
    int out, grants;
};

static void send_record(int out, const struct unpacker_record *record)
{
    if (fd_write_all(out, record, sizeof(*record)) < 0)
        _exit(1); /* the worker is gone */
}

static int on_progress(void *arg, const struct image_progress *p)
{
    struct unpacker_record record = {.type = UNPACKER_PROGRESS,
                                     .layer = (uint32_t)p->layer,
                                     .layers = (uint32_t)p->layers,
                                     .done_bytes = p->done_bytes,
                                     .total_bytes = p->total_bytes,
                                     .files = p->files};
    for (uint32_t i = 0; i < ELEMENTS(steps); i++)
        if (strcmp(steps[i], p->step) == 0)
            record.number = i;
    const struct pipes *pipes = arg;
    send_record(pipes->out, &record);
    return 0;
}

/* The worker ends this process where there is no room. */
static int on_claim(void *arg, uint64_t bytes)
{
    const struct unpacker_record record = {.type = UNPACKER_CLAIM, .done_bytes = bytes};
    const struct pipes *pipes = arg;
    char granted;
    send_record(pipes->out, &record);
    return read(pipes->grants, &granted, 1) != 1;
}

static int take_apart(const struct unpacker_task *t, const struct image_options *o, uint32_t *kind,
                      struct error *err)
{
    _cleanup_image_info_ struct image_info members = {0};
    enum unpack_kind found = t->kind;
    int r = t->kind == UNPACK_AUTO ? detect_archive(t->source, &found, err) : 0;
    *kind = found;
    if (r >= 0 && found == UNPACK_DOCKER_ARCHIVE)
        return image_take_apart(t->source, t->ref, t->target, o, err);
    if (r >= 0 && found == UNPACK_OCI_ARCHIVE)
        return image_unpack_layer(t->target, t->source, o, &members, NULL, err);
    return r; /* a tar that is the root file system itself has no parts */
}

/* The worker hashed the source before. A user who can write to it may have done so since then. */
static int unpack_task(const struct unpacker_task *t, const struct image_options *o,
                       uint64_t *skipped, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = unpack_source(t->kind, t->source, t->ref, t->target, o, &info, err);
    if (r >= 0 && t->digest && strcmp(t->digest, info.digest) != 0)
        r = error_set(err, ERROR_INVALID, 0, "the image changes while it is read");
    *skipped = info.skipped;
    return r;
}

static void become_unpacker(const struct worker *w, const struct unpacker_task *t,
                            struct pipes *pipes)
{
    struct error err = {0};
    struct unpacker_record result = {.type = UNPACKER_RESULT, .kind = t->kind};
    const struct image_options o = {.limits = w->o->config.limits,
                                    .on_progress = on_progress,
                                    .on_claim = on_claim,
                                    .arg = pipes};
    prctl(PR_SET_NAME, "mas-image-unpk", 0, 0, 0);
    int r = confine_unpacker(t, &err);
    if (r >= 0)
        r = t->take_apart ? take_apart(t, &o, &result.kind, &err)
                          : unpack_task(t, &o, &result.skipped, &err);
    if (r < 0) {
        result.number = err.code;
        snprintf(result.message, sizeof(result.message), "%s", err.message);
    }
    send_record(pipes->out, &result);
    _exit(0);
}

/* --- in the worker */

static int refuse_nonsense(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, EPROTO, "the unpacker sent a record that makes no sense");
}

/* Its word about how much it is to write is as good as any: with too little it ends for want of
 * room, with too much it is refused. It claims no more than the largest image takes, because what
 * it claims is kept from sandboxes for as long as it likes to take. */
static int on_record_claim(struct worker *w, int grants, const struct unpacker_record *r,
                           struct error *err)
{
    const uint64_t most = w->o->config.limits.bytes;
    if (r->done_bytes > most && r->done_bytes - most > METER_CLAIM_BYTES)
        return refuse_nonsense(err);
    int e = worker_claim(w, r->done_bytes, err);
    if (e < 0)
        return e;
    if (write(grants, "", 1) != 1) /* the pipe is full of what was not waited for */
        return refuse_nonsense(err);
    return 0;
}

/* Records come from a process that may be under the archive's control, so every number is
 * checked before it is used as an index, a size or an error code. 1 means that the result is
 * there. */
static int on_record(struct worker *w, int grants, const struct unpacker_record *r,
                     struct error *err)
{
    if (r->type == UNPACKER_PROGRESS) {
        if (r->number >= ELEMENTS(steps) || r->layers > w->o->config.limits.layers ||
            r->layer > r->layers || r->done_bytes > INT64_MAX || r->total_bytes > INT64_MAX ||
            r->files > w->o->config.limits.files)
            return refuse_nonsense(err);
        const struct image_progress p = {.step = steps[r->number],
                                         .layer = r->layer,
                                         .layers = r->layers,
                                         .done_bytes = r->done_bytes,
                                         .total_bytes = r->total_bytes,
                                         .files = r->files};
        worker_progress(w, &p);
        return 0;
    }
    if (r->type == UNPACKER_CLAIM)
        return on_record_claim(w, grants, r, err);
    if (r->type != UNPACKER_RESULT || r->number >= _ERROR_CODE_MAX || r->kind >= _UNPACK_KIND_MAX ||
        r->skipped > w->o->config.limits.files || !memchr(r->message, 0, sizeof(r->message)))
        return refuse_nonsense(err);
    if (r->number != ERROR_NONE)
        return error_set(err, (enum error_code)r->number, 0, "%s",
                         *r->message ? r->message : "no reason given");
    return 1;
}

/* Some bytes more of a record; 0 at the end. */
static ssize_t read_more(struct worker *w, int fd, void *to, size_t len, struct error *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = w->deadline_ms - clock_mono_ms();
        if (left <= 0)
            return worker_too_late(w, err);
        if (poll(&p, 1, (int)left) <= 0)
            continue;
        ssize_t n = read(fd, to, len);
        if (n >= 0 || errno != EINTR)
            return n < 0 ? error_set(err, ERROR_INTERNAL, errno, "read from the unpacker") : n;
    }
}

int unpacker_read(struct worker *w, int fd, int grants, struct unpacker_record *ret,
                  struct error *err)
{
    struct unpacker_record record;
    bool done = false;
    for (size_t have = 0;;) {
        ssize_t n = read_more(w, fd, (char *)&record + have, sizeof(record) - have, err);
        if (n < 0)
            return (int)n;
        if (n == 0 && done && !have)
            return 0;
        if (n == 0)
            return error_set(err, ERROR_INTERNAL, 0, "the unpacker died");
        if (done)
            return refuse_nonsense(err);
        have += (size_t)n;
        if (have < sizeof(record))
            continue;
        have = 0;
        int r = on_record(w, grants, &record, err);
        if (r < 0)
            return r;
        done = r > 0;
        *ret = record;
    }
}

int unpacker_run(struct worker *w, const struct unpacker_task *t, struct unpacker_record *ret,
                 struct error *err)
{
    int out[2], in[2], status;
    if (lseek(t->source, 0, SEEK_SET) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "start the unpacker");
    _cleanup_close_ int fd = out[0], speak = out[1];
    if (pipe2(in, O_CLOEXEC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "start the unpacker");
    /* Both ends stay open here: a write to a dead unpacker is no signal. */
    _cleanup_close_ int hear = in[0], grants = in[1];
    fd_set_nonblock(grants, true);
    const int keep[] = {t->source, t->target, speak, hear};
    pid_t pid = helper_fork(keep, ELEMENTS(keep));
    if (pid == 0)
        become_unpacker(w, t, &(struct pipes){speak, hear});
    fd_close(&speak);
    if (pid < 0)
        return error_set(err, ERROR_UNAVAILABLE, (int)-pid, "start the unpacker");
    int r = unpacker_read(w, fd, grants, ret, err);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    worker_claim_left(w, 0);
    return r;
}
