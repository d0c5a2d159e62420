/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of starting a command; spawn.c's own. */
#pragma once

#include "toolrunner/spawn.h"

#define SPAWN_CHILD_FAILED                                                                         \
    127 /* exit code of a child that failed before the program; it is never shown */

/* The steps that programs and builtins share, in order. 0, or -errno with p->stage set. */
int spawn_child_prepare(struct spawn_plan *p);
/* clone()'s function: the steps, then the program. Does not return. */
int spawn_child_main(void *plan);
/* Where programs are looked for. */
const char *spawn_env_path(char *const *env);
