/* SPDX-License-Identifier: Apache-2.0 */
/* What kinds share that are built like local cells. */
#pragma once

#include <sched.h>

struct cell;

#define LOCAL_CLONE_FLAGS                                                                          \
    (CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* For cell_ops.admit: maps the cell's ids, and lets the process go on. */
int local_admit(struct cell *s);
