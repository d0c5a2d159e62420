/* SPDX-License-Identifier: Apache-2.0 */
/* Imports: a caller's tar, spooled to its end before anything looks at it. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "keeper/internal.h"
#include "keeper/keeper-proto.h"

#define UPLOAD_FILE  "upload"
#define UPLOAD_CHUNK (256 * 1024)
#define CLAIM_BYTES  (16 * 1024 * 1024)

/* Where the caller said how long it is, all of it is claimed before its first byte is taken;
 * otherwise piece by piece. An upload that takes longer than an image may take to be fetched goes
 * on piece by piece as well: at its caller's pace, it would keep the rest from others for days. */
static int claim_upload(struct worker *w, uint64_t whole, uint64_t bytes, uint64_t *claimed,
                        struct error *err)
{
    bool slow = clock_mono_ms() > w->deadline_ms;
    if (whole && bytes == whole) { /* nothing more is expected; what comes claims its own */
        worker_claim_left(w, 0);
        return 0;
    }
    if (bytes >= *claimed) {
        uint64_t more =
            bytes < whole && (!slow || whole - bytes < CLAIM_BYTES) ? whole - bytes : CLAIM_BYTES;
        *claimed = bytes + more;
        return worker_claim(w, more, err);
    }
    if (slow && *claimed - bytes > CLAIM_BYTES)
        *claimed = bytes + CLAIM_BYTES;
    worker_claim_left(w, *claimed - bytes);
    return 0;
}

/* Takes the upload from its pipe; what is too large is not taken to its end. */
static int spool_upload(struct worker *w, int file, uint64_t whole, int64_t *ret_bytes,
                        struct error *err)
{
    _cleanup_free_ char *chunk = xcalloc(1, UPLOAD_CHUNK);
    int64_t bytes = 0;
    uint64_t claimed = 0;
    for (;;) {
        if (claim_upload(w, whole, (uint64_t)bytes, &claimed, err) < 0)
            return -ENOSPC;
        ssize_t n = read(w->upload, chunk, UPLOAD_CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERROR_INTERNAL, errno, "read the upload");
        if (n == 0)
            break;
        bytes += n;
        if ((uint64_t)bytes > w->o->config.max_upload_bytes)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "the image is over %llu bytes (images_max_upload_bytes)",
                             (unsigned long long)w->o->config.max_upload_bytes);
        int r = fd_write_all(file, chunk, (size_t)n);
        if (r < 0)
            return error_set(err, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
                             "store the upload");
        struct image_progress p = {.step = "upload", .done_bytes = (uint64_t)bytes};
        worker_progress(w, &p);
    }
    *ret_bytes = bytes;
    return 0;
}

int worker_import(struct worker *w, const json_t *request, struct error *err)
{
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *format = json_string_value(json_object_get(request, "format"));
    int kind = unpack_kind_parse(format ? format : "auto");
    int64_t bytes = 0;
    if (kind < 0)
        return error_field(err, "format", "there is no image format '%.40s'", format);
    if (w->upload < 0)
        return error_set(err, ERROR_INVALID, 0, "there is no upload with this import");
    int r = worker_begin(w, err);
    if (r < 0)
        return r;
    _cleanup_close_ int file = openat(image_work_dir_fd(w->work), UPLOAD_FILE,
                                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return error_set(err, ERROR_INTERNAL, errno, "store the upload");
    const json_t *said = json_object_get(request, "bytes");
    r = spool_upload(w, file, (uint64_t)json_integer_value(said), &bytes, err);
    worker_claim_left(w, 0);
    w->deadline_ms = clock_mono_ms() + w->o->config.pull_timeout_ms; /* the caller's pace is over */
    if (r < 0)
        return r;
    /* The end of the pipe may be a caller who left: only the keeper knows the difference. */
    _cleanup_json_ json_t *answer = worker_ask(w);
    int64_t whole = answer ? json_integer_value(json_object_get(answer, "end")) : -1;
    if (whole != bytes)
        return error_set(err, ERROR_INVALID, 0, "the upload ended early");
    /* The unpacker gets it, and must not be able to write to it. */
    _cleanup_close_ int source =
        openat(image_work_dir_fd(w->work), UPLOAD_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return error_set(err, ERROR_INTERNAL, errno, "read the upload");
    return worker_unpack(w, (enum unpack_kind)kind, source, NULL, KEEPER_UPLOAD, name, err);
}
