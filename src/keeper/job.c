/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: one worker each, as many at a time as is allowed, in the order in which they came. Calls
 * for the same image wait for the same job. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "keeper/internal.h"
#include "proto/promised.h"

const struct job_kind job_pull = {.run = worker_pull, .adds = true, .shared = true};
const struct job_kind job_import = {.run = worker_import, .adds = true};
const struct job_kind job_remove = {.run = worker_remove};
/* Of what a worker left that died: nothing waits for it. */
static const struct job_kind job_discard = {.run = worker_discard};

/* --- who waits */

struct job *job_find(struct keeper *k, int64_t id)
{
    list_for_each(j, &k->jobs, struct job, node) {
        for (size_t i = 0; i < j->n_waiters; i++)
            if (j->waiters[i] == id)
                return j;
    }
    return NULL;
}

static void tell_waiters(struct job *j, const char *what, json_t *value)
{
    for (size_t i = 0; i < j->n_waiters; i++)
        keeper_send(j->keeper,
                    json_pack("{s:I, s:O}", "id", (json_int_t)j->waiters[i], what, value));
}

static void fail_waiters(struct job *j, const struct error *err)
{
    for (size_t i = 0; i < j->n_waiters; i++)
        keeper_send_error(j->keeper, j->waiters[i], err);
    j->answered = true;
}

/* --- workers */

static void start_next(struct keeper *k);

static void run_worker(struct job *j, pid_t keeper, int out, int in)
{
    const struct keeper *k = j->keeper;
    struct worker w = {.o = k->o,
                       .store = k->store,
                       .out = out,
                       .in = in,
                       .upload = j->upload,
                       .room = k->o->room,
                       .proxy_port = k->proxy_port};
    sigset_t none;
    /* A worker without its keeper would finish work that no call waits for. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != keeper)
        _exit(1);
    prctl(PR_SET_NAME, "mas-image-job", 0, 0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close(k->sock);
    w.room.dir_fd = k->dir_fd;
    w.room.slot = j->claims_slot;
    if (k->o->gateway_sock >= 0)
        close(k->o->gateway_sock); /* the outlet's alone */
    list_for_each(other, &k->jobs, struct job, node) {
        fd_close(&other->out);
        fd_close(&other->in);
        if (other != j)
            fd_close(&other->upload);
    }
    _exit(worker_main(&w, j->kind, j->request));
}

static int open_pipes(int out[2], int in[2])
{
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(in, O_CLOEXEC) == 0)
        return 0;
    int r = -errno;
    close(out[0]);
    close(out[1]);
    return r;
}

/* One that no worker has: there are as many as images_jobs may be. */
static unsigned free_claims_slot(const struct keeper *k)
{
    bool taken[CLAIMS_IMAGES_N + 1] = {0};
    unsigned n = 0;
    list_for_each(j, &k->jobs, struct job, node) {
        if (j->pid)
            taken[j->claims_slot - CLAIMS_IMAGES] = true;
    }
    while (n < CLAIMS_IMAGES_N - 1 && taken[n])
        n++;
    return CLAIMS_IMAGES + n;
}

/* Forks without executing a program: the worker uses the store that is open already. Whatever reads
 * an image is in confined children of the worker (fetch.c, unpack.c). */
static int job_run(struct job *j)
{
    int out[2], in[2];
    int r = open_pipes(out, in);
    if (r < 0)
        return r;
    j->claims_slot = free_claims_slot(j->keeper);
    pid_t keeper = getpid(), pid = fork();
    if (pid == 0)
        run_worker(j, keeper, out[1], in[0]);
    r = -errno;
    close(out[1]);
    close(in[0]);
    if (pid < 0) {
        close(out[0]);
        close(in[1]);
        return r;
    }
    j->pid = pid;
    j->out = out[0];
    j->in = in[1];
    fd_set_nonblock(j->out, true);
    fd_close(&j->upload); /* the worker's */
    j->keeper->n_running++;
    return 0;
}

static void tell_worker(struct job *j, json_t *line)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(2 * KEEPER_LINE_MAX);
    int r = json_format(line, &b);
    json_decref(line);
    if (r < 0 || strbuf_puts(&b, "\n") < 0 || j->in < 0)
        return;
    /* At most two lines in its life, into an empty pipe: this does not block for long. */
    r = fd_write_all(j->in, b.data, b.len);
    if (r < 0)
        log_debug("image worker is gone pid=%d", (int)j->pid);
}

/* --- life */

void job_free(struct job *j)
{
    struct keeper *k = j->keeper;
    if (j->pid && !j->exited) {
        kill(j->pid, SIGKILL);
        waitpid(j->pid, NULL, 0);
    }
    if (j->pid) {
        k->n_running--;
        claims_set(k->o->room.claims_fd, j->claims_slot, 0);
    }
    k->n_jobs--;
    k->used_bytes -= j->promised;
    list_remove(&j->node);
    fd_close(&j->out);
    fd_close(&j->in);
    fd_close(&j->upload);
    strbuf_done(&j->lines);
    json_decref(j->request);
    free(j);
}

static void start_next(struct keeper *k)
{
    struct job *waiting = NULL;
    if (k->n_running >= k->o->config.jobs)
        return;
    list_for_each(j, &k->jobs, struct job, node) {
        if (!j->pid && !waiting)
            waiting = j;
    }
    int r = waiting ? job_run(waiting) : 0;
    if (r < 0) {
        struct error err = {0};
        error_set(&err, ERROR_UNAVAILABLE, -r, "an image worker cannot be started");
        fail_waiters(waiting, &err);
        job_free(waiting);
    }
}

static struct job *job_new(struct keeper *k, json_t *request, const struct job_kind *kind)
{
    struct job *j = new0(struct job);
    *j = (struct job){.keeper = k, .kind = kind, .out = -1, .in = -1, .upload = -1};
    j->request = json_incref(request);
    strbuf_init(&j->lines, KEEPER_LINE_MAX);
    list_append(&k->jobs, &j->node);
    k->n_jobs++;
    return j;
}

/* Calls for the same image under the same policy wait for the job that is there. Not for one that
 * has answered, and not for one that every caller has left: that one is being killed. */
static bool join_job(struct keeper *k, const json_t *request, int64_t id,
                     const struct job_kind *kind)
{
    list_for_each(j, &k->jobs, struct job, node) {
        if (!kind->shared || j->kind != kind || j->answered || !j->n_waiters ||
            j->n_waiters == KEEPER_WAITERS_MAX ||
            strcmp(json_member_text(j->request, "image"), json_member_text(request, "image")) !=
                0 ||
            strcmp(json_member_text(j->request, "policy"), json_member_text(request, "policy")) !=
                0)
            continue;
        j->waiters[j->n_waiters++] = id;
        return true;
    }
    return false;
}

void job_start(struct keeper *k, json_t *request, int64_t id, const struct job_kind *kind,
               int *upload)
{
    struct error err = {0};
    if (join_job(k, request, id, kind))
        return;
    if (k->n_jobs >= KEEPER_QUEUE_MAX) {
        error_set(&err, ERROR_LIMIT, 0, "%d image jobs wait already", KEEPER_QUEUE_MAX);
        keeper_send_error(k, id, &err);
        return;
    }
    struct job *j = job_new(k, request, kind);
    j->upload = fd_steal(upload);
    j->waiters[j->n_waiters++] = id;
    start_next(k);
}

/* A caller waits no longer. With the last one the work ends, too: what it has fetched so far is
 * removed when it is reaped. */
void job_leave(struct job *j, const json_t *request, int64_t id)
{
    (void)request;
    size_t n = 0;
    for (size_t i = 0; i < j->n_waiters; i++)
        if (j->waiters[i] != id)
            j->waiters[n++] = j->waiters[i];
    j->n_waiters = n;
    if (n || j->answered)
        return;
    if (j->pid)
        kill(j->pid, SIGKILL); /* the rest when it is reaped */
    else
        job_free(j);
}

void job_end_for_room(struct keeper *k)
{
    struct error err = {0};
    error_set(&err, ERROR_NO_SPACE, 0,
              "the image does not fit: the file system of state_dir is down to its reserve of %llu "
              "MB (state_reserve_mb) and the %llu MB that disks of sandboxes were promised",
              (unsigned long long)k->o->room.reserve_bytes >> 20,
              (unsigned long long)promised_read(k->o->room.promised_fd) >> 20);
    list_for_each(j, &k->jobs, struct job, node) {
        if (!j->kind->adds || !j->pid || j->exited || j->answered)
            continue;
        fail_waiters(j, &err);
        kill(j->pid, SIGKILL); /* the rest when it is reaped */
    }
}

void job_end_upload(struct job *j, const json_t *request, int64_t id)
{
    (void)id;
    tell_worker(j,
                json_pack("{s:I}", "end", json_integer_value(json_object_get(request, "bytes"))));
}

/* --- room */

/* What is left of the budget for this job; its own promise is not counted. */
static uint64_t room_of(const struct job *j)
{
    const struct keeper *k = j->keeper;
    uint64_t others = k->used_bytes - j->promised;
    return k->o->config.max_bytes > others ? k->o->config.max_bytes - others : 0;
}

/* Counted anew each time, since other processes remove images, too. A store that cannot be read
 * counts as full: nothing is added to it. */
static uint64_t stored_bytes(struct keeper *k)
{
    _cleanup_image_list_ struct image_list list = {0};
    uint64_t used = 0;
    if (image_store_list(k->store, &list, NULL) < 0)
        return UINT64_MAX / 2;
    for (size_t i = 0; i < list.count; i++)
        used += list.items[i].size_bytes;
    return used;
}

static void promise_bytes(struct job *j, uint64_t bytes)
{
    j->keeper->used_bytes += bytes - j->promised;
    j->promised = bytes;
}

/* The worker knows how large the image becomes and waits. Where it does not fit, the control plane
 * is asked which images are in use: only it knows, and job_evict() comes with the list. The promise
 * counts from now on, so that two workers cannot be promised the same room. */
static void on_need(struct job *j, uint64_t bytes)
{
    if (stored_bytes(j->keeper) + bytes <= room_of(j)) {
        promise_bytes(j, bytes);
        tell_worker(j, json_pack("{s:b}", "go", 1));
    } else {
        promise_bytes(j, bytes);
        keeper_send(j->keeper, json_pack("{s:I, s:{}}", "id", (json_int_t)j->waiters[0], "full"));
    }
}

void job_evict(struct job *j, const json_t *request, int64_t id)
{
    (void)id;
    uint64_t room = room_of(j);
    tell_worker(j, json_pack("{s:O, s:I}", "keep", json_object_get(request, "keep"), "max_bytes",
                             (json_int_t)(room > j->promised ? room - j->promised : 0)));
}

/* --- what workers say */

static void on_line(struct job *j, const char *line, size_t len)
{
    struct error err = {0};
    json_t *part;
    _cleanup_json_ json_t *o = json_parse_object(line, len, &err);
    if (!o) {
        log_warn("an image worker's line cannot be read: %s", err.message);
        return;
    }
    if ((part = json_object_get(o, "progress")))
        tell_waiters(j, "progress", part);
    else if ((part = json_object_get(o, "work")))
        snprintf(j->work, sizeof(j->work), "%s", json_string_value(part));
    else if ((part = json_object_get(o, "need")) && j->n_waiters)
        on_need(j, (uint64_t)json_integer_value(part));
    else if ((part = json_object_get(o, "done")) || (part = json_object_get(o, "error"))) {
        tell_waiters(j, json_object_get(o, "done") ? "done" : "error", part);
        j->answered = true;
    }
}

bool job_read(struct job *j)
{
    char chunk[8192];
    ssize_t n;
    do
        n = read(j->out, chunk, sizeof(chunk));
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0 || strbuf_append(&j->lines, chunk, (size_t)n) < 0) {
        fd_close(&j->out);
        return false;
    }
    for (char *end; j->lines.len && (end = memchr(j->lines.data, '\n', j->lines.len));) {
        size_t len = (size_t)(end - j->lines.data);
        on_line(j, j->lines.data, len);
        strbuf_consume(&j->lines, len + 1);
    }
    return true;
}

void job_reaped(struct keeper *k, pid_t pid, int status)
{
    struct job *found = NULL;
    struct error err = {0};
    list_for_each(j, &k->jobs, struct job, node) {
        if (j->pid == pid)
            found = j;
    }
    if (!found)
        return;
    found->exited = true;
    while (found->out >= 0 && job_read(found)) /* what it said before it died */
        ;
    if (!found->answered && found->n_waiters) {
        error_set(&err, ERROR_INTERNAL, 0, "the image worker died (%s %d)",
                  WIFSIGNALED(status) ? "signal" : "exit status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        log_error("%s image=%s", err.message, json_member_text(found->request, "image"));
        fail_waiters(found, &err);
    }
    bool left = *found->work && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    _cleanup_json_ json_t *rest = json_pack("{s:s}", "work", found->work);
    job_free(found);
    if (left)
        job_new(k, rest, &job_discard);
    k->idle_since_ms = clock_mono_ms();
    start_next(k);
}
