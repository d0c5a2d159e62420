/* SPDX-License-Identifier: Apache-2.0 */
/* Output of commands as files, for a container of the pod that brings it to the control plane in
 * place of the runner's connection (SPAWN_EVENTS).
 *
 * Theory of operation. The link hands the runner a directory that the sandbox's own container does
 * not have. An exec has three files there: NAME.stdout and NAME.stderr are what it wrote, byte for
 * byte, and NAME.exit, which appears whole once they are, is its exit code. The control plane
 * acknowledges output as ever, by the runner's connection: bytes before that offset are a hole in
 * the file, so that a file uses no more memory than the window has, while offsets stay what they
 * are. A reader that begins again finds the first byte that is still wanted behind the hole. EXIT
 * comes by the connection, once all output is filed: NAME.exit is there by then, unless there is no
 * room for it, and nothing waits for that. FORGET removes them. */
#pragma once

#include <stdbool.h>

struct exec;
struct exec_output;

#define EVENTS_NAME_MAX 63 /* letters, digits and '-' */

/* For an exec without files. */
void events_init(struct exec *e);
/* 0 or -errno: -ENOTDIR where the runner was handed no directory. */
int events_open(struct exec *e, const char *name);
/* Files what the rings have and the files have not; again after a while where there is no room.
 * Nothing happens to an exec without files, here and below. */
void events_write(struct exec *e);
/* Whether the files have all output that the rings have. */
bool events_are_filed(const struct exec *e);
/* Gives the memory of what was acknowledged back. */
void events_release(struct exec_output *o);
void events_done(struct exec *e);
