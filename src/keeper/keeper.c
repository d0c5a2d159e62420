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
#include "keeper/outlet.h"
#include "proto/promised.h"

#define FIXED_FDS    2 /* the socket and the signals */
#define ROOM_TURN_MS 50
/* An outlet that ends so soon after its start is not started again at once. */
#define OUTLET_PAUSE_FIRST_MS 10
#define OUTLET_PAUSE_MAX_MS   5000
#define MIB                   (1024 * 1024)

/* --- records out */

void keeper_send(struct keeper *k, json_t *record)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEEPER_RECORD_MAX - 1);
    int64_t id = json_integer_value(json_object_get(record, "id"));
    int r = json_format(record, &b);
    json_decref(record);
    if (r == -EFBIG) { /* the control plane waits for an answer */
        struct error err = {0};
        error_set(&err, ERROR_TOO_LARGE, 0, "the description of the image is too large to be sent");
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

/* Most images that are asked for are there: no worker has to be started to say so. */
static bool pull_from_store(struct keeper *k, const json_t *request, int64_t id)
{
    const char *policy = json_string_value(json_object_get(request, "policy"));
    const char *text = json_string_value(json_object_get(request, "image"));
    _cleanup_image_info_ struct image_info info = {0};
    struct error err = {0};
    if (!policy || !text || strcmp(policy, "always") == 0 ||
        keeper_find(k->store, k->o, text, &info, &err) < 0 ||
        (strcmp(text, KEEPER_DEFAULT) == 0 && keeper_default_is_old(k->o, &info)))
        return false;
    image_store_touch(k->store, info.digest, NULL);
    keeper_send(k, json_pack("{s:I, s:o}", "id", (json_int_t)id, "done",
                             keeper_view_of(k->store, k->o, text, &info)));
    return true;
}

/* What the control plane may ask for. A job is a worker's to do, unless at_once has answered;
 * answer is what the keeper says itself; about_job concerns a job that is under way. */
static const struct op {
    const char *name;
    const struct job_kind *job;
    bool (*at_once)(struct keeper *k, const json_t *request, int64_t id);
    void (*answer)(struct keeper *k, const json_t *request, int64_t id, struct error *err);
    void (*about_job)(struct job *j, const json_t *request, int64_t id);
} ops[] = {
    {"pull", .job = &job_pull, .at_once = pull_from_store},
    {"import", .job = &job_import},
    {"remove", .job = &job_remove},
    {"list", .answer = keeper_answer_list},
    {"find", .answer = keeper_answer_find},
    {"touch", .answer = keeper_answer_touch},
    {"cancel", .about_job = job_leave},
    {"end", .about_job = job_end_upload},
    {"evict", .about_job = job_evict},
};

static void serve_op(struct keeper *k, const struct op *op, json_t *request, int64_t id, int *fd)
{
    struct error err = {0};
    struct job *j = op->about_job ? job_find(k, id) : NULL;
    if (j)
        op->about_job(j, request, id);
    if (op->answer)
        op->answer(k, request, id, &err);
    if (op->job && !(op->at_once && op->at_once(k, request, id)))
        job_start(k, request, id, op->job, fd);
    if (error_is_set(&err))
        keeper_send_error(k, id, &err);
}

static void serve_request(struct keeper *k, const char *data, size_t len, int *fd)
{
    struct error err = {0};
    _cleanup_json_ json_t *request = json_parse_object(data, len, &err);
    const char *name = json_string_value(json_object_get(request, "op"));
    int64_t id = json_integer_value(json_object_get(request, "id"));
    if (!name) {
        log_warn("image keeper got a record that it cannot read: %s", err.message);
        return;
    }
    for (size_t i = 0; i < ELEMENTS(ops); i++)
        if (strcmp(ops[i].name, name) == 0) {
            serve_op(k, &ops[i], request, id, fd);
            return;
        }
    error_set(&err, ERROR_INTERNAL, 0, "the image keeper does not know '%.40s'", name);
    keeper_send_error(k, id, &err);
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

/* Images of files and uploads need none: that it is missing is said by what does. */
static void open_outlet(struct keeper *k)
{
    struct error err = {0};
    char **registries = k->o->config.registries;
    bool needed = registries && *registries && k->o->gateway_sock >= 0;
    pid_t pid = needed ? outlet_start(k->o, &k->proxy_port, &err) : 0;
    k->outlet = pid > 0 ? pid : 0;
    k->outlet_since_ms = clock_mono_ms();
    k->outlet_again_ms = pid < 0 ? k->outlet_since_ms + OUTLET_PAUSE_MAX_MS : 0;
    if (pid < 0)
        log_error("images cannot be fetched: %s", err.message);
}

static void outlet_ended(struct keeper *k)
{
    int64_t now = clock_mono_ms(), next = 2 * k->outlet_pause_ms;
    if (now - k->outlet_since_ms >= OUTLET_PAUSE_MAX_MS)
        k->outlet_pause_ms = 0;
    else if (next < OUTLET_PAUSE_FIRST_MS)
        k->outlet_pause_ms = OUTLET_PAUSE_FIRST_MS;
    else
        k->outlet_pause_ms = next < OUTLET_PAUSE_MAX_MS ? next : OUTLET_PAUSE_MAX_MS;
    k->outlet = 0;
    k->proxy_port = 0;
    k->outlet_again_ms = now + k->outlet_pause_ms;
    log_warn("the way out for images has ended, and is opened again in %lld ms",
             (long long)k->outlet_pause_ms);
}

static void reap_workers(struct keeper *k)
{
    struct signalfd_siginfo info;
    int status;
    while (read(k->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        ;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == k->outlet)
            outlet_ended(k);
        else
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

/* What is uploaded, fetched and unpacked must leave the daemon its reserve, and sandboxes what
 * their disks were promised and have no blocks for. Workers claim what they write before they do;
 * but others may fill the file system meanwhile, or an unpacker that was taken over. So it is
 * looked at while jobs run. */
static bool has_room(const struct keeper *k)
{
    struct statfs fs;
    return !k->n_running || fstatfs(k->dir_fd, &fs) < 0 ||
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >=
               k->o->room.reserve_bytes + promised_read(k->o->room.promised_fd);
}

static int turn_ms(const struct keeper *k)
{
    int64_t ms = k->n_running ? ROOM_TURN_MS : (int64_t)k->o->config.idle_timeout_ms;
    int64_t left = k->outlet_again_ms ? k->outlet_again_ms - clock_mono_ms() : ms;
    return (int)(left < 0 ? 0 : left < ms ? left : ms);
}

/* False at the end. A job goes only after all pipes have been looked at. */
static bool keeper_turn(struct keeper *k, struct pollfd *polls, struct job **jobs)
{
    size_t n = fill_polls(k, polls, jobs);
    int r = poll(polls, n, turn_ms(k));
    if (r < 0 && errno != EINTR)
        return false;
    for (size_t i = FIXED_FDS; r > 0 && i < n; i++)
        if (polls[i].revents)
            job_read(jobs[i]);
    if (r > 0 && polls[1].revents)
        reap_workers(k);
    if (k->outlet_again_ms && clock_mono_ms() >= k->outlet_again_ms)
        open_outlet(k);
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
    if (r < 0)
        return r;
    r = image_store_sweep(k->store, err);
    if (r < 0)
        return r;
    if (open_ways(dir) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "%s", k->o->dir);
    return 0;
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
    open_outlet(&k);
    log_debug("image keeper started pid=%d", getpid());
    while (keeper_turn(&k, polls, jobs))
        ;
    while (!list_empty(&k.jobs))
        job_free(container_of(k.jobs.next, struct job, node));
    image_store_close(k.store);
    fd_close(&k.dir_fd);
    return 0;
}
