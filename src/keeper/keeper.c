/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "keeper/internal.h"
#include "keeper/keeper-proto.h"

#define FIXED_FDS    2 /* the socket and the signals */
#define ROOM_TURN_MS 50
#define MIB          (1024 * 1024)

/* --- records out */

void keeper_send(struct keeper *k, json_t *record)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEEPER_RECORD_MAX - 1);
    int64_t id = json_integer_value(json_object_get(record, "id"));
    int r = json_format(record, &b);
    json_decref(record);
    if (r == -EFBIG) { /* the control plane waits for an answer */
        struct error err = {0};
        error_set(&err, ERROR_TOO_LARGE, 0, "more is known of the image than can be said");
        keeper_send_error(k, id, &err);
        return;
    }
    ssize_t n = r < 0 ? r : fd_send_msg(k->sock, b.data, b.len, NULL, 0);
    if (n < 0)
        log_warn("image keeper cannot answer: %s", strerror((int)-n));
}

void keeper_send_error(struct keeper *k, int64_t id, const struct error *err)
{
    keeper_send(k, json_pack("{s:I, s:{s:s, s:o}}", "id", (json_int_t)id, "error", "code",
                             error_code_name(err->code), "message", json_message(err->message)));
}

/* --- records in */

static const char *const job_ops[] = {"pull", "import", "remove"};

/* Most of what is asked for is there: no worker has to be started to say so. */
static bool serve_from_store(struct keeper *k, const json_t *request, int64_t id, const char *op)
{
    const char *policy = json_string_value(json_object_get(request, "policy"));
    const char *text = json_string_value(json_object_get(request, "image"));
    _cleanup_image_info_ struct image_info info = {0};
    struct error err = {0};
    if (strcmp(op, "pull") != 0 || !policy || !text || strcmp(policy, "always") == 0 ||
        keeper_find(k->store, k->o, text, &info, &err) < 0 ||
        (strcmp(text, KEEPER_DEFAULT) == 0 && keeper_default_is_old(k->o, &info)))
        return false;
    image_store_touch(k->store, info.digest, NULL);
    keeper_send(k, json_pack("{s:I, s:o}", "id", (json_int_t)id, "done",
                             keeper_view_of(k->store, k->o, text, &info)));
    return true;
}

static void serve_job(struct keeper *k, json_t *request, int64_t id, const char *op, int *upload)
{
    if (serve_from_store(k, request, id, op))
        return;
    for (size_t i = 0; i < ELEMENTS(job_ops); i++)
        if (strcmp(op, job_ops[i]) == 0) {
            job_start(k, request, id, job_ops[i], upload);
            return;
        }
    keeper_answer(k, request, id, op);
}

/* About a job that is there already; true when it was that. */
static bool serve_more(struct keeper *k, const json_t *request, int64_t id, const char *op)
{
    struct job *j = job_find(k, id);
    bool cancel = strcmp(op, "cancel") == 0, end = strcmp(op, "end") == 0;
    bool evict = strcmp(op, "evict") == 0;
    if (j && cancel)
        job_leave(j, id);
    else if (j && end)
        job_end_upload(j, json_integer_value(json_object_get(request, "bytes")));
    else if (j && evict)
        job_evict(j, json_object_get(request, "keep"));
    return cancel || end || evict;
}

static void serve_request(struct keeper *k, const char *data, size_t len, int *fd)
{
    struct error err = {0};
    _cleanup_json_ json_t *request = json_parse_object(data, len, &err);
    const char *op = json_string_value(json_object_get(request, "op"));
    int64_t id = json_integer_value(json_object_get(request, "id"));
    if (!op)
        log_warn("image keeper got a record that it cannot read: %s", err.message);
    else if (!serve_more(k, request, id, op))
        serve_job(k, request, id, op, fd);
}

/* False when the control plane is gone. */
static bool read_record(struct keeper *k)
{
    static char data[KEEPER_RECORD_MAX];
    int fds[FD_PASS_MAX];
    ssize_t n = fd_recv_msg(k->sock, data, sizeof(data), fds);
    if (n == -EAGAIN || n == -EMSGSIZE)
        return true;
    if (n <= 0)
        return false;
    serve_request(k, data, (size_t)n, &fds[0]);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    k->idle_since_ms = clock_mono_ms();
    return true;
}

static void reap_workers(struct keeper *k)
{
    struct signalfd_siginfo info;
    int status;
    while (read(k->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        ;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        job_reaped(k, pid, status);
}

/* --- the loop */

static bool is_idle(const struct keeper *k)
{
    return !k->n_jobs && clock_mono_ms() - k->idle_since_ms >= k->o->config.idle_timeout_ms;
}

static size_t fill_polls(struct keeper *k, struct pollfd *polls, struct job **jobs)
{
    size_t n = FIXED_FDS;
    polls[0] = (struct pollfd){.fd = k->sock, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = k->signal_fd, .events = POLLIN};
    list_for_each(j, &k->jobs, struct job, node) {
        if (j->out < 0)
            continue;
        jobs[n] = j;
        polls[n++] = (struct pollfd){.fd = j->out, .events = POLLIN};
    }
    return n;
}

/* What is uploaded, fetched and unpacked must leave the daemon its reserve. How large it becomes is
 * not known before, so the file system is looked at while jobs run. */
static bool has_room(const struct keeper *k)
{
    struct statfs fs;
    return !k->n_running || fstatfs(k->dir_fd, &fs) < 0 ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= k->o->reserve_bytes;
}

/* False at the end. A job goes only after all pipes have been looked at. */
static bool turn(struct keeper *k, struct pollfd *polls, struct job **jobs)
{
    size_t n = fill_polls(k, polls, jobs);
    int r = poll(polls, n, k->n_running ? ROOM_TURN_MS : (int)k->o->config.idle_timeout_ms);
    if (r < 0 && errno != EINTR)
        return false;
    for (size_t i = FIXED_FDS; r > 0 && i < n; i++)
        if (polls[i].revents)
            job_read(jobs[i]);
    if (r > 0 && polls[1].revents)
        reap_workers(k);
    if (!has_room(k))
        job_end_for_room(k);
    if (r > 0 && polls[0].revents)
        return read_record(k);
    return !is_idle(k);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Programs under another id have to get through to their own directory; to nothing beside it. */
static int open_ways(int dir)
{
    return fchmod(dir, 0711) < 0 || fchmodat(dir, "tmp", 0711, 0) < 0 ? -errno : 0;
}

static int keeper_open(struct keeper *k, struct error *err)
{
    int dir = k->dir_fd = open(k->o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set(err, ERROR_INTERNAL, errno, "%s", k->o->dir);
    k->signal_fd = open_signals();
    if (k->signal_fd < 0)
        return error_set(err, ERROR_INTERNAL, -k->signal_fd, "signals");
    int r = image_store_open(dir, &k->store, err);
    if (r >= 0)
        r = image_store_sweep(k->store, err);
    if (r >= 0 && open_ways(dir) < 0)
        r = error_set(err, ERROR_INTERNAL, errno, "%s", k->o->dir);
    return r;
}

int keeper_main(int sock, const struct keeper_options *o)
{
    struct error err = {0};
    struct keeper k = {.o = o, .sock = sock, .signal_fd = -1, .idle_since_ms = clock_mono_ms()};
    struct pollfd polls[FIXED_FDS + KEEPER_QUEUE_MAX];
    struct job *jobs[ELEMENTS(polls)];
    list_init(&k.jobs);
    if (keeper_open(&k, &err) < 0) {
        log_error("image keeper cannot start: %s", err.message);
        return 1;
    }
    log_debug("image keeper started pid=%d", getpid());
    while (turn(&k, polls, jobs))
        ;
    while (!list_empty(&k.jobs))
        job_free(container_of(k.jobs.next, struct job, node));
    image_store_close(k.store);
    fd_close(&k.dir_fd);
    return 0;
}
