/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the runner of a pod, over a connection of its own, what a command there finds of its walls
 * (proto/walls.h). The runner takes it for a control plane of this generation; the connection that
 * follows takes its place. Nothing of the question stays with the runner: it is made to forget the
 * command, and that it has done so is waited for, because it tells the next connection of every
 * command that it knows. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "proto/walls.h"

/* Where a pod can be written to. */
enum { PLACE_WORKSPACE, PLACE_CACHE, PLACE_TMP, PLACE_HOME, _PLACE_MAX };

struct walls_question;
/* walls is NULL where there was no answer; why says what happened instead. */
typedef void (*walls_answer_fn)(void *data, const struct walls *walls, const char *why);
/* Takes fd. witness: the address of one that it is to try (proto/witness.h), or "". cb comes later,
 * once. */
struct walls_question *walls_ask(uv_loop_t *loop, int fd, uint64_t generation, const char *witness,
                                 walls_answer_fn cb, void *data);
/* cb does not come. NULL is fine. */
void walls_cancel(struct walls_question *q);
