/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/intercept.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "proto/intercept.h"
#include "secret/seal.h"
#include "warden/cell.h"
#include "warden/control.h"
#include "warden/program.h"
#include "warden/state.h"

#define PURPOSE_AUTHORITY "mas-sandbox authority 1"
#define SEALS             (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

_Static_assert(INTERCEPT_KEY_SIZE == SEAL_KEY_SIZE, "a key of a seal");
_Static_assert(sizeof(struct intercept_ready) <= PROGRAM_ANSWER_MAX, "an answer of a program");

/* In w->intercepts by its sandbox's id. */
struct intercept {
    struct program_task task;
    char id[PLAN_ID_SIZE];
    uint64_t tag; /* of the PLAN_INTERCEPT that waits for it; 0: none does */
    bool ready;
    uint8_t digest[SHA256_SIZE]; /* of the file it was started with */
    char certificate[INTERCEPT_PEM_SIZE];
};

/* --- the process */

static void exec_interceptor(const struct warden *w, int channel_fd)
{
    const struct program_ends ends = {.stream = -1,
                                      .channel = channel_fd,
                                      .failure = open("/dev/null", O_WRONLY | O_CLOEXEC),
                                      .view = -1,
                                      .log = true};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* The host's view, for the authorities that servers are verified against. */
    if (warden_enter_host(w) < 0 || program_arrange(&ends, w->intercept_fd) < 0)
        _exit(125);
    program_exec("mas-intercept");
}

static void reply_waiting(struct intercept *i, int error, const char *message)
{
    struct plan_reply reply = {.tag = i->tag, .wall = -1, .error = error};
    int fd = error ? -1 : fcntl(i->task.channel_fd, F_DUPFD_CLOEXEC, 0);
    if (!i->tag)
        return;
    i->tag = 0;
    if (!error && fd < 0)
        reply.error = errno;
    snprintf(reply.message, sizeof(reply.message), "%s", message);
    memcpy(reply.id, i->id, sizeof(reply.id));
    control_send(i->task.warden, &reply, fd);
}

/* The answer that is owed comes first: a control plane that waits for an interceptor of a sandbox
 * that is gone would wait for ever. */
static void intercept_free(struct intercept *i)
{
    reply_waiting(i, ECANCELED, "the sandbox is gone");
    program_task_stop(&i->task);
    map_remove(i->task.warden->intercepts, i->id);
    free(i);
}

static void on_ready(struct program_task *t, const void *answer)
{
    struct intercept *i = container_of(t, struct intercept, task);
    const struct intercept_ready *ready = answer;
    if (i->ready || ready->error || !memchr(ready->certificate, 0, sizeof(ready->certificate))) {
        char message[sizeof(ready->message)];
        snprintf(message, sizeof(message), "%.*s", (int)sizeof(message) - 1, ready->message);
        reply_waiting(i, ready->error ? (int)ready->error : EPROTO, message);
        return;
    }
    i->ready = true;
    memcpy(i->certificate, ready->certificate, sizeof(i->certificate));
    reply_waiting(i, 0, "");
}

/* The control plane, which holds the other ends of its socket, sees that it is gone and asks for
 * another one. */
static void on_end(struct program_task *t, int wait_status)
{
    struct intercept *i = container_of(t, struct intercept, task);
    log_warn("interceptor ended id=%s status=%d", i->id, wait_status);
    reply_waiting(i, EIO, "the interceptor ended before it was ready");
}

/* --- starting */

/* Reads only a memory file that is sealed against changes: a read of anything else could block the
 * warden for any time. */
static int read_pairs(int fd, struct strbuf *out)
{
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return -EINVAL;
    return fd_read_from_start(fd, out);
}

static int read_file_head(const struct strbuf *file, struct intercept_pairs *ret)
{
    if (file->len < sizeof(*ret))
        return -EINVAL;
    memcpy(ret, file->data, sizeof(*ret));
    return ret->version == INTERCEPT_VERSION && ret->n_pairs <= INTERCEPT_PAIRS_MAX &&
                   memchr(ret->generation, 0, sizeof(ret->generation))
               ? 0
               : -EINVAL;
}

/* Another sandbox of the same id has another authority. */
static int fill_seed(const struct warden *w, const char *id, const char *generation,
                     struct intercept_start *start)
{
    char context[PLAN_ID_SIZE + sizeof(((struct intercept_pairs *)0)->generation)];
    int n = snprintf(context, sizeof(context), "%s %s", id, generation);
    return seal_derive(w->seal_key, SEAL_KEY_SIZE, PURPOSE_AUTHORITY, context, (size_t)n,
                       start->seed, sizeof(start->seed));
}

/* The keys of the seals in the file, and of no others. */
static int fill_keys(const struct warden *w, const struct strbuf *file, const char *id,
                     struct intercept_start *start)
{
    struct intercept_pairs head;
    int r = read_file_head(file, &head);
    if (r < 0)
        return r;
    r = fill_seed(w, id, head.generation, start);
    if (r < 0)
        return r;
    size_t at = sizeof(head);
    for (uint32_t i = 0; r >= 0 && i < head.n_pairs; i++) {
        size_t len = head.sealed_len[i];
        if (len > INTERCEPT_SEAL_MAX || len > file->len - at)
            return -EINVAL;
        r = seal_content_key(w->seal_key, (const uint8_t *)file->data + at, len,
                             start->content_keys[i]);
        at += len;
    }
    return r < 0 ? r : head.hosts_len == file->len - at ? 0 : -EINVAL;
}

/* The interceptor gets a copy of the file that was read, and not the control plane's descriptor:
 * the keys are those of the seals in these very bytes. */
static int start_program(struct intercept *i, const struct strbuf *file)
{
    struct warden *w = i->task.warden;
    struct intercept_start start = {.version = INTERCEPT_VERSION, .keep_user = !w->was_root};
    _cleanup_close_ int copy = -1;
    snprintf(start.label, sizeof(start.label), "%s", i->id);
    int r = fill_keys(w, file, i->id, &start);
    if (r >= 0)
        r = copy = fd_sealed_memory("mas-intercept", file->data, file->len);
    if (r >= 0)
        r = program_task_start(&i->task, exec_interceptor, &start, sizeof(start), copy);
    explicit_bzero(&start, sizeof(start));
    return r;
}

/* One that serves these very pairs goes on, with the connections that it has: the control plane is
 * another one, and not what it asks for. */
static int start_again(struct intercept *i, const struct strbuf *file)
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 sha;
    sha256_init(&sha);
    sha256_update(&sha, file->data, file->len);
    sha256_final(&sha, digest);
    if (i->ready && i->task.pid > 0 && memcmp(digest, i->digest, sizeof(digest)) == 0) {
        reply_waiting(i, 0, "");
        return 0;
    }
    program_task_stop(&i->task);
    i->ready = false;
    memcpy(i->digest, digest, sizeof(digest));
    return start_program(i, file);
}

static struct intercept *intercept_find(struct warden *w, const char *id)
{
    struct intercept *i = map_find(w->intercepts, id);
    if (i)
        return i;
    i = new0(struct intercept);
    memcpy(i->id, id, sizeof(i->id));
    i->task = (struct program_task){.warden = w,
                                    .answer_size = sizeof(struct intercept_ready),
                                    .on_answer = on_ready,
                                    .on_end = on_end,
                                    .channel_fd = -1};
    map_put(w->intercepts, i->id, i);
    return i;
}

static int check_start(const struct warden *w, const struct plan *p, char *why, size_t size)
{
    if (w->intercept_fd < 0) {
        snprintf(why, size, "mas-intercept is not installed");
        return -EOPNOTSUPP;
    }
    if (!map_find(w->intercepts, p->id) && map_count(w->intercepts) >= w->options.max_sandboxes) {
        snprintf(why, size, "all %u interceptors are in use", w->options.max_sandboxes);
        return -EAGAIN;
    }
    return 0;
}

static void refuse_start(struct warden *w, struct plan_reply *reply, int error)
{
    reply->error = -error;
    if (!reply->message[0])
        snprintf(reply->message, sizeof(reply->message), "start an interceptor: %s",
                 strerror(-error));
    control_send(w, reply, -1);
}

void intercept_start(struct warden *w, const struct plan *p, int pairs_fd, struct plan_reply *reply)
{
    _cleanup_strbuf_ struct strbuf file = STRBUF_INIT(INTERCEPT_FILE_MAX);
    int r = check_start(w, p, reply->message, sizeof(reply->message));
    if (r < 0)
        return refuse_start(w, reply, r);
    r = read_pairs(pairs_fd, &file);
    if (r < 0)
        return refuse_start(w, reply, r);
    struct intercept *i = intercept_find(w, p->id);
    reply_waiting(i, ECANCELED, "another interceptor was asked for");
    i->tag = p->tag;
    r = start_again(i, &file);
    if (r >= 0)
        return;
    i->tag = 0;
    intercept_free(i);
    refuse_start(w, reply, r);
}

int intercept_open_certificate(const struct warden *w, const char *id)
{
    const struct intercept *i = map_find(w->intercepts, id);
    if (!i || !i->ready)
        return -ENOENT;
    return fd_sealed_memory("mas-authority", i->certificate, strlen(i->certificate));
}

/* --- the end */

void intercept_end(struct warden *w, const char *id)
{
    struct intercept *i = w->intercepts ? map_find(w->intercepts, id) : NULL;
    if (i)
        intercept_free(i);
}

static void end_those(struct warden *w, bool (*which)(struct warden *w, const char *id))
{
    for (size_t cursor = 0; w->intercepts;) {
        struct intercept *i = map_next(w->intercepts, &cursor);
        if (!i)
            return;
        if (!which(w, i->id))
            continue;
        intercept_free(i);
        cursor = 0; /* the map has changed */
    }
}

static bool is_unused(struct warden *w, const char *id)
{
    return !cell_exists(w, id);
}

void intercept_end_unused(struct warden *w)
{
    end_those(w, is_unused);
}

static bool is_any(struct warden *w, const char *id)
{
    (void)w;
    (void)id;
    return true;
}

void intercept_end_all(struct warden *w)
{
    end_those(w, is_any);
    map_free(w->intercepts);
    w->intercepts = NULL;
}
