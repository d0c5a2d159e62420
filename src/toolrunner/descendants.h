/* SPDX-License-Identifier: Apache-2.0 */
/* Ending everything that descends from this process, or from one of its commands.
 *
 * There is no control group per command in a sandbox, so each command carries a mark that its
 * descendants inherit and cannot take off, also those that leave its process group and session: the
 * limit on file locks, which Linux has not enforced since 2.4 and which an ordinary user can only
 * lower. One that lowers its own joins another command of the same sandbox, or none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rusage;

#define DESCENDANTS_ROUNDS_MAX 1000
#define DESCENDANTS_MARKED_MAX 100 /* rounds */

/* SIGKILL to every child, and to what becomes one by its death (we are a subreaper), until none is
 * left; one that does not die is given up after about a second. */
void descendants_kill(void);
/* Is pid this process, or does it descend from it? */
bool descendants_include(int proc_fd, pid_t ancestor, pid_t pid);
/* In the child that becomes the command: system calls only. 0 or -errno. */
int descendants_mark(uint32_t mark);
/* SIGKILL to every process with the mark until none lives. Does nothing where /proc is that of
 * another pid namespace, whose numbers mean other processes here. */
void descendants_kill_marked(uint32_t mark);
/* SIGKILL to those of ours who trace it: what is dead is seen by its tracer only, until that one
 * has waited for each of its threads or is dead too. */
void descendants_kill_tracers(pid_t pid);
/* wait4() that does not block, for ends only: a child that has made us its tracer stops for us, and
 * is let go. */
pid_t descendants_reap(pid_t which, int *ret_status, struct rusage *ret_usage);
