/* SPDX-License-Identifier: Apache-2.0 */
/* Running, timers, signals, workers and deferred calls on libuv.
 *
 * The structs are embedded in their owner. libuv keeps a handle until its close callback has run,
 * so the owner calls the close function, and frees its own memory in on_closed (NULL where the
 * memory outlives the loop). Between the two nothing is called back. Everything here is called on
 * the loop's thread, but for the work functions of loop_work() and loop_thread_work(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop_timer {
    uv_timer_t handle;
    void (*cb)(void *data);
    void *data;
    void (*on_closed)(void *data);
    void *closed_data;
};

void loop_timer_init(struct loop_timer *t, uv_loop_t *loop, void (*cb)(void *), void *data);
/* Once, in ms. A running timer starts again from now. */
void loop_timer_start(struct loop_timer *t, uint64_t ms);
/* Every ms (at least 1), the first time after ms. */
void loop_timer_start_every(struct loop_timer *t, uint64_t ms);
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_active(const struct loop_timer *t);
/* The timer may be stopped, running or in its own callback. Called once for each init. */
void loop_timer_close(struct loop_timer *t, void (*on_closed)(void *), void *data);

struct loop_signal {
    uv_signal_t handle;
    void (*cb)(void *data, int signo);
    void *data;
    void (*on_closed)(void *data);
    void *closed_data;
};

/* Watches signo from now on. 0 or -errno; on failure there is nothing to close. A signal handle
 * does not keep the loop running. */
int loop_signal_init(struct loop_signal *s, uv_loop_t *loop, int signo, void (*cb)(void *, int),
                     void *data);
void loop_signal_close(struct loop_signal *s, void (*on_closed)(void *), void *data);

/* Runs work(data) on a worker thread, then done(data) on the loop. data belongs to the worker in
 * between: nothing else may touch it. done is called exactly once, also when the loop is ending. */
void loop_work(uv_loop_t *loop, void (*work)(void *data), void (*done)(void *data), void *data);

/* A thread for work that must not wait behind that of others, in the order given: the pool of
 * loop_work() has four threads for all. The thread starts with its first work, so that one that is
 * made before rights are dropped runs without them. */
struct loop_thread;
struct loop_thread *loop_thread_new(uv_loop_t *loop);
/* As loop_work(), on this thread. */
void loop_thread_work(struct loop_thread *t, void (*work)(void *data), void (*done)(void *data),
                      void *data);
/* Only when all its work is done and told. on_closed (may be NULL) comes from the loop. */
void loop_thread_close(struct loop_thread *t, void (*on_closed)(void *data), void *data);

/* Calls cb(data) once, from the loop, after the current callback has returned. It cannot be taken
 * back: data must live until then. A deferred call that defers another does not starve I/O. */
void loop_defer(uv_loop_t *loop, void (*cb)(void *data), void *data);

/* Runs the loop until nothing keeps it alive or *stop is true. Before it sleeps it looks for the
 * next event for up to look_us, while events come that close together (eager.c); 0: never. */
void loop_run(uv_loop_t *loop, uint64_t look_us, const bool *stop);
