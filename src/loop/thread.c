/* SPDX-License-Identifier: Apache-2.0 */
/* loop_thread: a queue of blocking work with a thread of its own.
 *
 * libuv's pool has few threads that all its users share, in the order in which they asked. What
 * must not wait behind another caller's long work has a thread here. Jobs pass through two lists
 * under one lock: `waiting` until the thread takes one, `finished` until the loop has told its
 * owner. */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/list.h"
#include "loop/loop.h"

struct thread_job {
    struct list node;
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
};

struct loop_thread {
    uv_async_t wake; /* the loop, from the thread; keeps the loop running while there is work */
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t changed;
    struct list waiting, finished; /* under the lock */
    bool stop;                     /* the same */
    bool started;
    size_t n_jobs; /* the loop's count: jobs whose end was not reported yet */
    void (*on_closed)(void *data);
    void *closed_data;
};

static struct thread_job *job_take(struct list *from)
{
    struct thread_job *job = container_of(from->next, struct thread_job, node);
    list_remove(&job->node);
    return job;
}

static void thread_main(void *data)
{
    struct loop_thread *t = data;
    uv_mutex_lock(&t->lock);
    for (;;) {
        while (!t->stop && list_empty(&t->waiting))
            uv_cond_wait(&t->changed, &t->lock);
        if (t->stop)
            break;
        struct thread_job *job = job_take(&t->waiting);
        uv_mutex_unlock(&t->lock);
        job->work(job->data);
        uv_mutex_lock(&t->lock);
        list_append(&t->finished, &job->node);
        uv_async_send(&t->wake);
    }
    uv_mutex_unlock(&t->lock);
}

static struct thread_job *take_finished(struct loop_thread *t)
{
    uv_mutex_lock(&t->lock);
    struct thread_job *job = list_empty(&t->finished) ? NULL : job_take(&t->finished);
    uv_mutex_unlock(&t->lock);
    return job;
}

static void on_wake(uv_async_t *handle)
{
    struct loop_thread *t = handle->data;
    for (struct thread_job *job; (job = take_finished(t));) {
        void (*done)(void *) = job->done;
        void *data = job->data;
        free(job);
        if (--t->n_jobs == 0)
            uv_unref((uv_handle_t *)&t->wake);
        if (done)
            done(data);
    }
}

struct loop_thread *loop_thread_new(uv_loop_t *loop)
{
    struct loop_thread *t = new0(struct loop_thread);
    int r = uv_async_init(loop, &t->wake, on_wake);
    if (r == 0)
        r = uv_mutex_init(&t->lock);
    if (r == 0)
        r = uv_cond_init(&t->changed);
    assert(r == 0);
    (void)r;
    t->wake.data = t;
    uv_unref((uv_handle_t *)&t->wake);
    list_init(&t->waiting);
    list_init(&t->finished);
    return t;
}

void loop_thread_work(struct loop_thread *t, void (*work)(void *data), void (*done)(void *data),
                      void *data)
{
    struct thread_job *job = new0(struct thread_job);
    *job = (struct thread_job){.work = work, .done = done, .data = data};
    if (!t->started) {
        int r = uv_thread_create(&t->thread, thread_main, t);
        assert(r == 0);
        (void)r;
        t->started = true;
    }
    if (t->n_jobs++ == 0)
        uv_ref((uv_handle_t *)&t->wake);
    uv_mutex_lock(&t->lock);
    list_append(&t->waiting, &job->node);
    uv_cond_signal(&t->changed);
    uv_mutex_unlock(&t->lock);
}

static void on_wake_closed(uv_handle_t *handle)
{
    struct loop_thread *t = handle->data;
    void (*on_closed)(void *) = t->on_closed;
    void *data = t->closed_data;
    uv_cond_destroy(&t->changed);
    uv_mutex_destroy(&t->lock);
    free(t);
    if (on_closed)
        on_closed(data);
}

void loop_thread_close(struct loop_thread *t, void (*on_closed)(void *data), void *data)
{
    assert(t->n_jobs == 0);
    if (t->started) {
        uv_mutex_lock(&t->lock);
        t->stop = true;
        uv_cond_signal(&t->changed);
        uv_mutex_unlock(&t->lock);
        uv_thread_join(&t->thread);
    }
    t->on_closed = on_closed;
    t->closed_data = data;
    uv_close((uv_handle_t *)&t->wake, on_wake_closed);
}
