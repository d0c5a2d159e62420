/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of one runner connection: frames in and out, nothing about execs.
 *
 * The runner is not trusted: anything malformed, out of turn or over a limit ends in on_broken. A
 * connection that ends by itself, or that the system gives up, ends in on_lost. One of the two
 * comes, once, after which only runner_close() may be called. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "proto/message.h"

struct runner;

struct runner_events {
    /* Of a runner that an earlier control plane used: once for each exec it remembers, then
     * on_resumed; of a new one just on_resumed. */
    void (*on_state)(void *data, uint32_t stream, const struct msg_state *m);
    void (*on_resumed)(void *data);
    void (*on_started)(void *data, uint32_t stream, const struct msg_started *m);
    void (*on_spawn_failed)(void *data, uint32_t stream, const struct msg_spawn_failed *m);
    int (*on_output)(void *data, uint32_t stream, const struct msg_output *m);
    void (*on_draining)(void *data, uint32_t stream);
    void (*on_exit)(void *data, uint32_t stream, const struct msg_exit *m);
    void (*on_stdin_ack)(void *data, uint32_t stream, const struct msg_stdin_ack *m);
    void (*on_open)(void *data, uint32_t stream, const struct msg_open *m);
    int (*on_data)(void *data, uint32_t stream, const struct msg_data *m);
    int (*on_data_ack)(void *data, uint32_t stream, const struct msg_data_ack *m);
    int (*on_data_end)(void *data, uint32_t stream, const struct msg_data_end *m);
    int (*on_connected)(void *data, uint32_t stream, const struct msg_connected *m);
    void (*on_close)(void *data, uint32_t stream, const struct msg_close *m);
    void (*on_lost)(void *data, const char *why);
    void (*on_broken)(void *data, const char *why);
};

/* Takes fd. Sends the preface and HELLO at once; frames may follow without waiting for the answer.
 * attempt counts the connections of this generation to one runner, from 0. */
struct runner *runner_new(uv_loop_t *loop, int fd, uint64_t generation, uint32_t attempt,
                          const struct runner_events *events, void *data);
/* From now on its events come with this data. */
void runner_rebind(struct runner *r, void *data);
void runner_close(struct runner *r); /* NULL is fine; no event comes afterwards */
/* No event comes afterwards, but the runner does not see an end before runner_close(). NULL is
 * fine. */
void runner_mute(struct runner *r);
/* What it can do (enum runner_features); 0 until on_resumed. */
uint32_t runner_features(const struct runner *r);
/* Whether this may be a stream of an exec that the runner had when it connected. */
bool runner_has_stated(const struct runner *r, uint32_t stream);
/* Where msg_*_format() appends; runner_flush() sends it. */
struct strbuf *runner_out(struct runner *r);
void runner_flush(struct runner *r);
/* OPEN frames of this runner may come with a socket; without this call the kernel drops what does.
 */
void runner_accept_sockets(struct runner *r);
/* In on_open: the descriptor that came with the frame, which is the caller's then, or -1. It can be
 * anything: the caller has to look. A descriptor that is not taken ends in on_broken. */
int runner_take_socket(struct runner *r);
/* For tests: connections end by themselves, the first after text bytes, each further one after one
 * byte more, in turns of those that were read and those that were written. NULL: they do not. */
void runner_arm_cuts(const char *text);
bool runner_cuts_are_armed(void);
