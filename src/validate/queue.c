/* SPDX-License-Identifier: Apache-2.0 */
#include "validate/queue.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "loop/loop.h"

struct validate_job {
    struct list node; /* in its caller's, while it waits */
    struct validate_queue *queue;
    struct validate_caller *caller; /* while it waits */
    char *text;
    size_t len;
    struct validation result;
    void (*on_done)(void *data, const struct validation *v); /* NULL when cancelled */
    void *data;
};

/* One of those that have texts waiting. */
struct validate_caller {
    struct list node; /* in the queue's; the first one is next */
    struct list jobs;
    size_t n_jobs;
    char name[];
};

struct validate_queue {
    struct validate_queue_options o;
    struct list callers;
    size_t n_waiting, n_running;
    bool freed; /* and kept for what runs */
};

struct validate_queue *validate_queue_new(const struct validate_queue_options *o)
{
    struct validate_queue *q = new0(struct validate_queue);
    q->o = *o;
    size_t half = (o->max_waiting + 1) / 2; /* one caller cannot shut out all others */
    if (q->o.max_waiting_per_caller > half)
        q->o.max_waiting_per_caller = half;
    list_init(&q->callers);
    return q;
}

static void job_free(struct validate_job *job)
{
    validation_done(&job->result);
    free(job->text);
    free(job);
}

/* Out of the line; a caller with nothing left is forgotten. */
static void job_unlink(struct validate_job *job)
{
    struct validate_caller *c = job->caller;
    list_remove(&job->node);
    job->caller = NULL;
    job->queue->n_waiting--;
    if (--c->n_jobs == 0) {
        list_remove(&c->node);
        free(c);
    }
}

void validate_queue_free(struct validate_queue *q)
{
    if (!q)
        return;
    while (!list_empty(&q->callers)) {
        struct validate_caller *c = container_of(q->callers.next, struct validate_caller, node);
        validate_job_cancel(container_of(c->jobs.next, struct validate_job, node));
    }
    q->freed = true;
    if (!q->n_running)
        free(q);
}

static void job_work(void *data)
{
    struct validate_job *job = data;
    validate_text(job->text, job->len, &job->queue->o.limits, &job->result);
}

static void start_next(struct validate_queue *q);

static void on_looked(void *data)
{
    struct validate_job *job = data;
    struct validate_queue *q = job->queue;
    q->n_running--;
    if (q->freed) {
        if (!q->n_running)
            free(q);
    } else {
        start_next(q);
        if (job->on_done)
            job->on_done(job->data, &job->result);
    }
    job_free(job);
}

/* The first text of the first caller, who goes to the end of the line. */
static void start_next(struct validate_queue *q)
{
    while (q->n_running < VALIDATE_RUNNING && !list_empty(&q->callers)) {
        struct validate_caller *c = container_of(q->callers.next, struct validate_caller, node);
        list_remove(&c->node);
        list_append(&q->callers, &c->node);
        struct validate_job *job = container_of(c->jobs.next, struct validate_job, node);
        job_unlink(job);
        q->n_running++;
        loop_work(q->o.loop, job_work, on_looked, job);
    }
}

static struct validate_caller *caller_find(struct validate_queue *q, const char *name)
{
    list_for_each(c, &q->callers, struct validate_caller, node) {
        if (strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}

static struct validate_caller *caller_new(struct validate_queue *q, const char *name)
{
    struct validate_caller *c = xcalloc(1, sizeof(*c) + strlen(name) + 1);
    strcpy(c->name, name);
    list_init(&c->jobs);
    list_append(&q->callers, &c->node);
    return c;
}

static int check_room(const struct validate_queue *q, const struct validate_caller *c,
                      struct error *err)
{
    if (q->n_running < VALIDATE_RUNNING)
        return 0;
    if (c && c->n_jobs >= q->o.max_waiting_per_caller)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu texts of this key wait to be looked at already "
                         "(validate_queue_per_key)",
                         c->n_jobs);
    if (q->n_waiting >= q->o.max_waiting)
        return error_set(err, ERROR_LIMIT, 0,
                         "%zu texts wait to be looked at already (validate_queue)", q->n_waiting);
    return 0;
}

struct validate_job *validate_queue_add(struct validate_queue *q, const char *caller,
                                        const char *text, size_t len,
                                        void (*on_done)(void *data, const struct validation *v),
                                        void *data, struct error *err)
{
    struct validate_caller *c = caller_find(q, caller);
    if (check_room(q, c, err) < 0)
        return NULL;
    struct validate_job *job = new0(struct validate_job);
    job->queue = q;
    job->caller = c ? c : caller_new(q, caller);
    job->text = xcalloc(1, len + 1);
    memcpy(job->text, text, len);
    job->len = len;
    job->on_done = on_done;
    job->data = data;
    list_append(&job->caller->jobs, &job->node);
    job->caller->n_jobs++;
    q->n_waiting++;
    start_next(q);
    return job;
}

void validate_job_cancel(struct validate_job *job)
{
    job->on_done = NULL;
    if (!job->caller)
        return;
    job_unlink(job);
    job_free(job);
}
