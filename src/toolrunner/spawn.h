/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a command: everything between a checked SPAWN and the first instruction of the program.
 *
 * A program is started in a child that shares the runner's memory until execve() (CLONE_VM: no page
 * tables are copied, and an error is simply a value the child leaves in its plan). Usually the
 * runner goes on meanwhile and learns later how the start went (start.h): starting takes longer
 * than all else that is done for a short command, and several start at once. What is rare or needs
 * more than raw calls (pins, narrow ones, terminals, a shared user) is waited for; so is every
 * command where the caller says so. The tool can stop or starve a child that has its user id
 * already, so that wait has a deadline, at which the child is continued, and then killed.
 *
 * A builtin runs in a forked copy instead, which is not waited for. So does a program's start where
 * fs.suid_dumpable is not 0: there the kernel marks memory as its user's to trace when a process
 * changes its user id, and this memory would be the runner's. All go through the same steps, in the
 * order of the table in spawn-child.c, and give up their rights before they touch anything of the
 * caller's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "toolrunner/pin.h"

struct msg_spawn;
struct builtin;
struct start;

#define SPAWN_ARGV_FREE 2 /* places before a plan's argv: a shell's name and its own */

/* How this runner starts commands; fixed at its start. */
struct spawn_identity {
    bool switch_user; /* become uid and gid, with no other groups */
    bool shared_uid;  /* a Landlock domain stands in for the uid wall */
    bool die_with_us; /* SIGKILL to the command when the runner is gone */
    int rules_fd;     /* Landlock rules that a command enters before any others, or -1 */
    uid_t uid;
    gid_t gid;
    const char *workdir;
    int landlock_abi; /* 0 if the kernel has none */
    pid_t runner_pid;
};

struct spawn_plan {
    const struct spawn_identity *identity;
    const struct msg_spawn *msg;
    const struct builtin *builtin; /* NULL for a program, which is executed */
    int fds[3];                    /* become 0, 1 and 2 of the child */
    uint32_t mark;                 /* of all its descendants (descendants.h) */
    bool terminal;                 /* fds[0] is to be its controlling terminal */
    uint16_t proxy_port;           /* the only one that it may connect to; 0 means any */
    struct start *start;           /* where the end of a start is found */
    bool wait;                     /* for the end of a program's start */
    bool forked;                   /* the child's memory is its own */
    bool leaves;                   /* the runner goes on while the child has its memory */
    int report_fd;                 /* of a forked one: see start.h */

    /* left by a child that failed */
    int error;
    const char *stage;

    /* scratch for the child, which must not allocate */
    char **argv; /* SPAWN_ARGV_FREE, then the caller's */
    char *path;
    size_t path_size;
    struct pin pins[PINS_MAX];
    int n_pins;
    char pinned[PINS_MAX][PIN_PATH_SIZE];
};

/* Starts it. The child's pid, or -errno with plan->stage set to the step that failed. With
 * plan->start pending afterwards the child is still starting: start_has_left() tells when it is
 * not, and whether it failed; nothing of the plan is needed any more. The child leads a new session
 * and process group once it has left. */
pid_t spawn_start(struct spawn_plan *plan);
/* Looks whether children may share our memory here: once, before the first start, while /proc/sys
 * is in sight. Clones of the caller know it too. */
void spawn_look_at_host(void);
