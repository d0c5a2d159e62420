/* SPDX-License-Identifier: Apache-2.0 */
/* Output as files, for a sandbox whose stream container brings it to the control plane
 * (docs/kube.md). Per exec there is NAME.stdout, NAME.stderr and, when both are whole,
 * NAME.exit. A byte's place in the file is its offset in the stream, so that a reader that comes
 * late or reads twice needs no other bookkeeping. A full directory loses nothing: the ring keeps
 * the bytes, the command waits, and a timer tries again. */
#include "toolrunner/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "toolrunner/exec.h"
#include "toolrunner/runner.h"

#define AGAIN_US     100000 /* until a directory without room is tried again */
#define FILE_MODE    0640   /* the stream container has the directory's group */
#define UNFINISHED   "exit-new"
#define PATH_SIZE    (EVENTS_NAME_MAX + 16)
#define HOLE_LEAST   4096
#define EXIT_SIGNALS 128

static const char *const suffixes[OUTPUT_STREAMS] = {"stdout", "stderr"};

static void events_path(const struct exec *e, const char *suffix, char out[PATH_SIZE])
{
    snprintf(out, PATH_SIZE, "%s.%s", e->events, suffix);
}

/* Where another exec's file has the name it is not touched. */
static int events_create(const struct exec *e, const char *suffix)
{
    char path[PATH_SIZE];
    events_path(e, suffix, path);
    int fd = openat(e->runner->events_fd, path,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    return fd < 0 ? -errno : fd;
}

static void events_unlink(const struct exec *e, const char *suffix)
{
    char path[PATH_SIZE];
    events_path(e, suffix, path);
    unlinkat(e->runner->events_fd, path, 0);
}

static bool name_is_plain(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n > 0 && n <= EVENTS_NAME_MAX && !name[n];
}

static void on_file_again(struct epoll_timer *t)
{
    struct exec *e = container_of(t, struct exec, file_again);
    events_write(e);
}

void events_init(struct exec *e)
{
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        e->out[i].file = -1;
    epoll_timer_init(&e->file_again, on_file_again);
}

int events_open(struct exec *e, const char *name)
{
    if (!name_is_plain(name))
        return -EINVAL;
    if (e->runner->events_fd < 0)
        return -ENOTDIR;
    e->events = xstrdup(name);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        e->out[i].file = events_create(e, suffixes[i]);
        if (e->out[i].file < 0)
            return e->out[i].file;
    }
    return 0;
}

/* 0 when all of it is filed, or -errno. */
static int output_file(struct exec_output *o)
{
    /* The ring gave up bytes before they were filed, because the peer had acknowledged them. The
     * file then has a hole there, and offsets in it stay those of the stream. */
    if (o->filed < o->ring.start)
        o->filed = o->ring.start;
    while (o->filed < o->ring.end) {
        const char *data;
        size_t n = ring_peek(&o->ring, o->filed, ring_used(&o->ring), &data);
        ssize_t done = pwrite(o->file, data, n, (off_t)o->filed);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -ENOSPC;
        o->filed += (uint64_t)done;
    }
    return 0;
}

/* Under another name first: who sees NAME.exit sees all of it. */
static int exit_file(const struct exec *e)
{
    char path[PATH_SIZE], unfinished[PATH_SIZE], text[16];
    int status = e->exit.wait_status;
    int code = WIFSIGNALED(status) ? EXIT_SIGNALS + WTERMSIG(status) : WEXITSTATUS(status);
    events_unlink(e, UNFINISHED);
    _cleanup_close_ int fd = events_create(e, UNFINISHED);
    if (fd < 0)
        return fd;
    int n = snprintf(text, sizeof(text), "%d\n", code);
    ssize_t done = write(fd, text, (size_t)n);
    if (done != n)
        return done < 0 ? -errno : -ENOSPC;
    events_path(e, UNFINISHED, unfinished);
    events_path(e, "exit", path);
    int dir = e->runner->events_fd;
    return renameat(dir, unfinished, dir, path) < 0 ? -errno : 0;
}

void events_write(struct exec *e)
{
    int r = 0;
    if (!e->events || e->exit_filed || e->out[0].file < 0 || e->out[1].file < 0)
        return;
    /* Both streams are tried, and the first failure is kept: a full directory must not lose the
     * other stream's turn. */
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        int one = output_file(&e->out[i]);
        r = r < 0 ? r : one;
    }
    if (r >= 0 && e->state == EXEC_DONE) {
        r = exit_file(e);
        e->exit_filed = r >= 0;
        exec_mark_pending(e);
    }
    if (r < 0)
        epoll_timer_set_us(&e->runner->loop, &e->file_again, AGAIN_US);
}

bool events_are_filed(const struct exec *e)
{
    bool filed = true;
    for (size_t i = 0; i < OUTPUT_STREAMS; i++)
        filed = filed && (e->out[i].filed >= e->out[i].ring.end || !ring_used(&e->out[i].ring));
    return filed;
}

void events_release(struct exec_output *o)
{
    off_t end = (off_t)(o->ring.start / HOLE_LEAST * HOLE_LEAST);
    if (o->file >= 0 && end > 0)
        (void)fallocate(o->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end);
}

void events_done(struct exec *e)
{
    epoll_timer_clear(&e->file_again);
    for (size_t i = 0; i < OUTPUT_STREAMS; i++) {
        if (e->out[i].file >= 0)
            events_unlink(e, suffixes[i]);
        fd_close(&e->out[i].file);
    }
    if (e->exit_filed)
        events_unlink(e, "exit");
    else if (e->state == EXEC_DONE && e->events)
        events_unlink(e, UNFINISHED);
    free(e->events);
}
