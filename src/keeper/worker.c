/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: one job in a process of its own. What it does is in worker-pull.c, worker-import.c and
 * worker-remove.c; whatever reads an image is in children of its own (fetch.c, unpack.c). */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/landlock.h"
#include "keeper/internal.h"

#define PROGRESS_MS 100
#define MIB         (1024ull * 1024)

/* --- lines to and from the keeper */

void worker_tell(struct worker *w, json_t *line)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEEPER_LINE_MAX);
    int r = json_format(line, &b);
    json_decref(line);
    if (r >= 0 && strbuf_puts(&b, "\n") >= 0 && fd_write_all(w->out, b.data, b.len) >= 0)
        return;
    _exit(1); /* its keeper is gone and cannot hear how it ends */
}

void worker_progress(struct worker *w, const struct image_progress *p)
{
    int64_t now = clock_mono_ms();
    bool last = p->total_bytes && p->done_bytes == p->total_bytes;
    bool first = !w->progress_step || strcmp(w->progress_step, p->step) != 0;
    if (now - w->progress_ms < PROGRESS_MS && !last && !first)
        return;
    w->progress_ms = now;
    w->progress_step = p->step;
    worker_tell(w, json_pack("{s:{s:s, s:I, s:I, s:I, s:I, s:I}}", "progress", "step", p->step,
                             "layer", (json_int_t)p->layer, "layers", (json_int_t)p->layers,
                             "done_bytes", (json_int_t)p->done_bytes, "total_bytes",
                             (json_int_t)p->total_bytes, "files", (json_int_t)p->files));
}

int worker_claim(struct worker *w, uint64_t bytes, struct error *err)
{
    struct claims_view view;
    if (claims_take(&w->room, bytes, &view) == 0)
        return 0;
    return error_set(
        err, ERROR_NO_SPACE, 0,
        "the image needs %llu MB more: state_dir has %llu MB free, but %llu MB of them "
        "are promised and state_reserve_mb keeps %llu MB",
        (unsigned long long)((bytes + MIB - 1) / MIB), (unsigned long long)(view.free_bytes / MIB),
        (unsigned long long)(view.others_bytes / MIB),
        (unsigned long long)(w->room.reserve_bytes / MIB));
}

void worker_claim_left(struct worker *w, uint64_t bytes)
{
    claims_set(w->room.claims_fd, w->room.slot, bytes);
}

int worker_too_late(const struct worker *w, struct error *err)
{
    return error_set(err, ERROR_TIMEOUT, 0,
                     "the image was not unpacked in %u s (images_pull_timeout)",
                     w->o->config.pull_timeout_ms / 1000);
}

json_t *worker_ask(struct worker *w)
{
    static struct strbuf line = STRBUF_INIT(2 * KEEPER_LINE_MAX);
    char c;
    strbuf_reset(&line);
    for (;;) {
        struct pollfd p = {.fd = w->in, .events = POLLIN};
        int64_t left = w->deadline_ms - clock_mono_ms();
        if (left <= 0 || poll(&p, 1, (int)left) < 0 || read(w->in, &c, 1) != 1)
            return NULL;
        if (c == '\n')
            return json_parse_object(line.data, line.len, NULL);
        if (strbuf_append(&line, &c, 1) < 0)
            return NULL;
    }
}

/* --- the job */

/* Without Landlock whatever takes over the unpacker could write to every image there is. */
static int check_landlock(struct error *err)
{
    if (landlock_abi() >= 1)
        return 0;
    return error_set(err, ERROR_UNSUPPORTED, 0,
                     "this kernel has no Landlock, which keeps what unpacks an image away from all "
                     "others: no image is fetched or unpacked here");
}

int worker_begin(struct worker *w, struct error *err)
{
    int r = check_landlock(err);
    if (r < 0)
        return r;
    r = image_work_begin(w->store, &w->work, err);
    if (r < 0)
        return r;
    worker_tell(w, json_pack("{s:s}", "work", image_work_name(w->work)));
    return 0;
}

int worker_main(struct worker *w, const struct job_kind *kind, const json_t *request)
{
    struct error err = {0};
    w->deadline_ms = clock_mono_ms() + w->o->config.pull_timeout_ms;
    int r = kind->run(w, request, &err);
    image_work_end(w->work);
    if (r >= 0)
        return 0;
    worker_tell(w, json_pack("{s:{s:s, s:o}}", "error", "code", error_code_name(err.code),
                             "message", json_message(err.message)));
    return 0;
}
