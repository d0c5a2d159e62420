/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control protocol: one JSON text per line in each direction. Everything here waits for the
 * answer, but never for longer than QMP_TIMEOUT_MS and never for an emulator that is gone. The
 * emulator may have been taken over by its guest: its lines have a greatest length, and what is not
 * an answer to us is dropped. */
#pragma once

#include <jansson.h>

#define QMP_TIMEOUT_MS 60000

struct vm;

/* Takes fd, our end of the monitor. 0 or -errno. */
int qmp_open(struct vm *vm, int fd);
/* Executes a command with arguments, a format of json_pack() for one object or NULL. 0 or -errno;
 * the emulator's own words about a refusal are in qmp_message(). */
int qmp_call(const char *command, const char *format, ...);
/* Gives the emulator a descriptor under this name. */
int qmp_send_fd(const char *name, int fd);
/* Waits for the end of a migration in either direction: 0, or -errno when it failed. */
int qmp_wait_migration(void);
/* What was last refused, in the emulator's words, or "". */
const char *qmp_message(void);
