/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of ours that the warden starts beside the control plane: mas-engine and mas-oci. What
 * needs a library, or reads what others wrote, is not in root's own process but in one of these.
 *
 * A program has its descriptors at fixed numbers (builder/child.h) and nothing else of the
 * warden's, dies with it, and gets its order as a fixed record. It is either the process of a
 * cell, or has a task: one record in, answers of one size out, and its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct warden;
struct watch;

#define PROGRAM_VIEW_FD 6

/* What the program has; -1: it does not have that. */
struct program_ends {
    int stream, channel, failure;
    int view; /* becomes PROGRAM_VIEW_FD */
    bool log; /* its standard error is the warden's, else nothing */
};
/* In a child of the warden's: moves descriptors to their numbers and closes all others. */
int program_arrange(const struct program_ends *ends, int program_fd);
/* After it: goes on as the program. Never returns. */
void program_exec(const char *name) __attribute__((noreturn));

/* Forks a process that executes a program, which exec is to do. The pid, or -errno. */
typedef void (*program_exec_fn)(const struct warden *w, int channel_fd);
pid_t program_spawn(const struct warden *w, program_exec_fn exec, int *ret_channel_fd);

/* To be embedded in what the task is for. */
struct program_task {
    struct warden *warden;
    size_t answer_size;
    void (*on_answer)(struct program_task *t, const void *answer);
    void (*on_end)(struct program_task *t, int wait_status); /* may start it again, or free it */
    pid_t pid;                                               /* 0: none runs */
    int channel_fd;
    struct watch *child, *channel;
};
#define PROGRAM_ANSWER_MAX 8192

/* Starts the program and sends it the record, with a descriptor (or -1). 0 or -errno, after which
 * neither function is called. */
int program_task_start(struct program_task *t, program_exec_fn exec, const void *record,
                       size_t size, int fd);
/* Ends and reaps it, without calling on_end. */
void program_task_stop(struct program_task *t);
